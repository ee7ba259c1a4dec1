"""LiteLLM, which has a provider of its own for vLLM servers."""

import sys

import litellm

url, key = sys.argv[1:]
litellm.num_retries = 0
common = dict(api_base=url + "/v1", api_key=key, messages=[{"role": "user", "content": "Tell me a story."}],
              max_tokens=12, temperature=0)

for provider in ["hosted_vllm/builtin", "openai/builtin"]:
    answer = litellm.completion(model=provider, **common)
    assert answer.choices[0].message.content and answer.usage.completion_tokens == 12, answer
    chunks = list(litellm.completion(model=provider, stream=True, **common))
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == answer.choices[0].message.content
    try:
        litellm.completion(model=provider, **{**common, "temperature": -1})
        raise AssertionError("temperature -1 was taken")
    except litellm.BadRequestError as e:
        assert "temperature" in str(e)

try:
    litellm.completion(model="hosted_vllm/other", **common)
    raise AssertionError("an unknown model was taken")
except litellm.NotFoundError:
    pass
try:
    litellm.completion(model="hosted_vllm/builtin", **{**common, "api_key": "wrong"})
    raise AssertionError("a wrong key was taken")
except litellm.AuthenticationError:
    pass
