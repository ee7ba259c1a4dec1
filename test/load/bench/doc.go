// Package bench sends a server load and measures what comes back.
//
//	Config → prompts → arrivals → one goroutine a request → Result
//
// Options and result block are those of `vllm bench serve`, so that scripts
// and people read them alike. Every request streams; a token's time is when
// its event was read from the socket.
//
// Follows vLLM benchmarks/serve.py; we differ in: prompts of completions are
// token IDs, so that their length is exact without a tokenizer; a chat's first
// event, which has the role and no text, is not taken for the first token; and
// the number of generated tokens is what the server's usage says, always.
package bench
