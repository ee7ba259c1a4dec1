// Package openai is the OpenAI-compatible HTTP API as vLLM's users know it.
//
// Each endpoint is four steps in files of its own: types (what the JSON holds),
// validate (what is refused, and how it is told), convert (to the engine's
// request) and the handler. errors.go is the one table of what users are told.
//
// Shapes, defaults and most sentences follow vLLM 0.32
// (vllm/entrypoints/openai); where we differ on purpose:
//
//   - a prompt and an explicit max_tokens that do not fit the context together
//     are refused with the three numbers, not silently shortened;
//   - fields of vLLM that are not served are refused by name unless they hold
//     their default;
//   - one fault is one short message with its field in param; only several
//     faults come as vLLM's list.
package openai
