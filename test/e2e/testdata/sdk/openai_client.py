"""The official Python client, as its documentation uses it."""

import asyncio
import sys

import openai

url, key = sys.argv[1:]
client = openai.OpenAI(base_url=url + "/v1", api_key=key, max_retries=0)
hello = [{"role": "user", "content": "Tell me a story."}]
ask = dict(model="builtin", messages=hello, max_tokens=12, temperature=0)


def raises(kind, status, call, **fields):
    try:
        call()
    except kind as e:
        assert e.status_code == status, e
        for name, want in fields.items():
            assert getattr(e, name) == want, (name, getattr(e, name), e.body)
        return
    raise AssertionError(f"no {kind.__name__}")


models = client.models.list().data
assert [m.id for m in models] == ["builtin"], models
assert client.models.retrieve("builtin").id == "builtin"

chat = client.chat.completions.create(**ask)
assert chat.object == "chat.completion" and chat.choices[0].finish_reason == "length", chat
assert chat.choices[0].message.role == "assistant" and chat.choices[0].message.content
assert chat.usage.total_tokens == chat.usage.prompt_tokens + 12

chunks = list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == chat.choices[0].message.content
assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens == chat.usage.total_tokens, (chunks[-1], chat.usage)

with client.chat.completions.stream(**ask) as stream:
    stream.until_done()
    assert stream.current_completion_snapshot.choices[0].message.content == chat.choices[0].message.content

likely = client.chat.completions.create(**ask, logprobs=True, top_logprobs=2).choices[0].logprobs.content
assert len(likely) == 12 and all(len(t.top_logprobs) == 2 for t in likely)
assert b"".join(bytes(t.bytes) for t in likely).decode() == chat.choices[0].message.content

several = client.chat.completions.create(**{**ask, "temperature": 1.0}, n=3, seed=5)
assert sorted(c.index for c in several.choices) == [0, 1, 2]
assert several.usage.completion_tokens == 36

text = client.completions.create(model="builtin", prompt="Once upon a time", max_tokens=4, temperature=0, echo=True, logprobs=1)
assert text.choices[0].text.startswith("Once upon a time") and text.choices[0].logprobs.text_offset[0] == 0
assert text.choices[0].logprobs.token_logprobs[0] is None

# What only vLLM has goes through extra_body.
guided = client.chat.completions.create(**ask, extra_body={"min_tokens": 4, "top_k": 1, "return_token_ids": True})
assert len(guided.choices[0].token_ids) == 12, guided

raises(openai.NotFoundError, 404, lambda: client.chat.completions.create(**{**ask, "model": "gpt-4o"}), param="model")
raises(openai.BadRequestError, 400, lambda: client.chat.completions.create(**{**ask, "temperature": -1}), param="temperature")
raises(openai.BadRequestError, 400, lambda: client.chat.completions.create(**ask, stream=True, top_p=3), param="top_p")
raises(openai.AuthenticationError, 401, lambda: client.with_options(api_key="wrong").models.list())
raises(openai.NotFoundError, 404, lambda: client.embeddings.create(model="builtin", input="a", encoding_format="float"))


async def at_once():
    async with openai.AsyncOpenAI(base_url=url + "/v1", api_key=key, max_retries=0) as many:
        answers = await asyncio.gather(*(many.chat.completions.create(**ask) for _ in range(8)))
    assert {a.choices[0].message.content for a in answers} == {chat.choices[0].message.content}


asyncio.run(at_once())
