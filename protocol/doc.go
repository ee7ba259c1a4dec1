// Package protocol is what the two processes agree on: the messages of vLLM
// V1's EngineCore protocol and their MessagePack form.
//
// Frames, sockets and the handshake's order live in package ipc; this package
// turns messages into bytes and back. README.md holds the wire table. Every
// type names the Python definition it mirrors, so the two can be compared.
//
// Encoders append to a caller's buffer and allocate nothing else. Decoders are
// lenient as msgspec's are: short arrays take defaults, longer ones are
// skipped, unknown map keys are ignored, every legal integer and float width
// is accepted. A value that does not fit its field is an error that names it.
package protocol
