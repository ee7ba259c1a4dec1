// Package openai is the OpenAI-compatible HTTP API as vLLM's users know it.
//
// Each endpoint is four steps in files of its own: types (what the JSON holds),
// validate (what is refused, and how it is told), convert (to the engine's
// request) and the handler. What endpoints share:
//
//	decode.go    JSON to fields      sampling.go  fields of every endpoint
//	prompt.go    prompts to tokens   message.go   messages, tools.go tools
//	generate.go  tokens to answers   logprobs.go, sse.go  their forms
//	live.go      cancel by ID, timeout_ms
//	admit.go     what a request holds from its arrival on
//	errors.go    the one table of what users are told, in two shapes
//	requestlog.go  what is logged of requests
//	dev.go       /ready, and the routes of development mode
//	describe.go  /openapi.json, made of the fields that parse
//
// A request ends early when its client leaves, when its timeout_ms is over
// (counted from its arrival, the queue included: 408, or an error event in a
// stream that has begun), or when DELETE /v1/requests/{id} names it: then it is
// answered with what it has, finish_reason "abort". The ID is the answer's, or
// the one given as X-Request-Id or request_id; whoever may use the API may
// cancel, and all running requests of that ID end. All three count as aborted.
//
// Shapes, defaults and most sentences follow vLLM 0.32
// (vllm/entrypoints/openai, and scale_out for render and generate); where we
// differ on purpose:
//
//   - a prompt and an explicit max_tokens that do not fit the context together
//     are refused with the three numbers, not silently shortened, unless
//     truncate_prompt_tokens says that shortening is meant;
//   - truncate_prompt_tokens: -1 always leaves room for one token;
//   - fields of vLLM that are not served are refused by name unless they hold
//     their default; best_of and early_stopping, which vLLM has dropped and
//     ignores, count among them;
//   - an engine that is gone, and a server that stops, is 503, not 500;
//   - one fault is one short message with its field in param; only several
//     faults come as vLLM's list;
//   - JSON types are taken at their word: a text is no number;
//   - in log probabilities bytes are the token's own, a character that several
//     tokens make up is the text of the last of them, whatever follows it there,
//     of two tokens with one text the likelier stands, and text_offset counts
//     code points of the text that was returned: no token_id:N, no special token
//     that the text leaves out;
//   - echo of a truncated prompt shows what the model was given;
//   - tool_choice "auto" is accepted without a tool parser: the template sees
//     the tools, and the output is text;
//   - content null in a message's part, such as {"type":"text"}, is refused, not
//     skipped;
//   - cached_tokens of several prompts is their sum;
//   - /detokenize refuses IDs that are no tokens;
//   - a rendered request always has max_tokens, which
//     /inference/v1/generate would otherwise take for "the rest".
package openai
