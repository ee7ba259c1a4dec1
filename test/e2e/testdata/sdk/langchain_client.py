"""LangChain's OpenAI chat model."""

import sys

import openai
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI, OpenAI

url, key = sys.argv[1:]
model = ChatOpenAI(base_url=url + "/v1", api_key=key, model="builtin", temperature=0, max_tokens=12, max_retries=0)

turns = [SystemMessage("Be kind."), HumanMessage("Hi"), AIMessage("Hello."), HumanMessage("Tell me a story.")]
answer = model.invoke(turns)
assert answer.content and answer.usage_metadata["output_tokens"] == 12, answer
assert answer.response_metadata["finish_reason"] == "length"

chunks = list(model.stream(turns))
assert "".join(c.content for c in chunks) == answer.content
assert [a.content for a in model.batch([turns, turns])] == [answer.content] * 2

chain = ChatPromptTemplate.from_messages([("user", "Tell me of {what}.")]) | model.bind(stop=["."])
assert "." not in chain.invoke({"what": "a king"}).content

plain = OpenAI(base_url=url + "/v1", api_key=key, model="builtin", temperature=0, max_tokens=8, max_retries=0)
assert plain.invoke("Once upon a time") == "".join(plain.stream("Once upon a time"))

try:
    model.bind(top_p=5).invoke(turns)
    raise AssertionError("top_p 5 was taken")
except openai.BadRequestError as e:
    assert "top_p" in str(e)
