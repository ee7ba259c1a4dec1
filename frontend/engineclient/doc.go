// Package engineclient owns the frontend's side of the conversation with the
// engines: which requests are live and where, their streams, their aborts,
// and what happens to all of them when an engine dies.
//
// One goroutine, Run, reads every engine message. It copies tokens into the
// streams, never waits for anyone, and then records statistics. An HTTP
// handler owns its Stream and takes what has gathered since it last looked,
// so a slow client costs memory bounded by its max_tokens and no one's time.
//
// A request is recorded exactly once, by whoever ends it first: the engine
// (terminal output), its handler (Finish, Close), shutdown (AbortAll) or the
// engine's death. Its stream tells of the end only after that.
//
// What is known of an engine does not depend on its answering: Status gives the
// ages of its last message, step and token, and where its requests are; Ready
// fails while it has requests and completes no step (status.go).
//
// Follows vLLM V1 engine/async_llm.py and output_processor.py; we differ in:
// aborts are recorded, and text is made by the handlers, not by the reader.
package engineclient
