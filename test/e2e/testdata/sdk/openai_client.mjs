// The official Node client, as its documentation uses it.

import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [dir, url, key] = process.argv.slice(2);
const OpenAI = createRequire(dir + "/")("openai");
const client = new OpenAI({ baseURL: url + "/v1", apiKey: key, maxRetries: 0 });
const ask = { model: "builtin", messages: [{ role: "user", content: "Tell me a story." }], max_tokens: 12, temperature: 0 };

assert.deepEqual((await client.models.list()).data.map((m) => m.id), ["builtin"]);

const chat = await client.chat.completions.create(ask);
assert.equal(chat.choices[0].finish_reason, "length");
assert.equal(chat.usage.completion_tokens, 12);

let text = "", usage = null;
for await (const chunk of await client.chat.completions.create({ ...ask, stream: true, stream_options: { include_usage: true } })) {
	text += chunk.choices[0]?.delta.content ?? "";
	usage = chunk.usage ?? usage;
}
assert.equal(text, chat.choices[0].message.content);
assert.equal(usage.total_tokens, chat.usage.total_tokens);

const helper = client.chat.completions.stream(ask);
assert.equal(await helper.finalContent(), text);

const likely = await client.chat.completions.create({ ...ask, logprobs: true, top_logprobs: 2 });
assert.equal(likely.choices[0].logprobs.content.length, 12);

const plain = await client.completions.create({ model: "builtin", prompt: ["Once upon a time", "The wolf"], max_tokens: 3, temperature: 0 });
assert.deepEqual(plain.choices.map((c) => c.index), [0, 1]);

// Leaving a stream early ends the request.
const left = await client.chat.completions.create({ ...ask, max_tokens: 500, ignore_eos: true, stream: true });
for await (const _ of left) break;

await assert.rejects(client.chat.completions.create({ ...ask, model: "gpt-4o" }), (e) => e instanceof OpenAI.NotFoundError && e.param === "model");
await assert.rejects(client.chat.completions.create({ ...ask, temperature: -1 }), (e) => e instanceof OpenAI.BadRequestError && e.param === "temperature");
await assert.rejects(client.withOptions({ apiKey: "wrong" }).models.list(), OpenAI.AuthenticationError);
