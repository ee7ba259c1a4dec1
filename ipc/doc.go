// Package ipc joins the two processes: sockets, framing and the handshake of
// vLLM V1's EngineCore protocol over ZeroMQ.
//
//	socket     frontend binds   engine connects   carries
//	handshake  ROUTER           DEALER            HELLO → INIT → READY
//	input      ROUTER           DEALER            registration ← ; requests →
//	output     PULL             PUSH              outputs ←
//
// One goroutine owns each socket and no other touches it: readers wait in Go's
// netpoller on the socket's event descriptor, writers on a queue. A peer that
// dies, is stopped or cut off is reported once, through Lost.
//
// Messages are package protocol's; this one knows frames and order only.
package ipc
