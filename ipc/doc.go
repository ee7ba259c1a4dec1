// Package ipc joins the two processes: sockets, framing and the handshake of
// vLLM V1's EngineCore protocol over ZeroMQ. Its peers are this project's other
// process, or vLLM's.
//
//	socket     frontend binds   engine connects   carries
//	handshake  ROUTER           DEALER            HELLO → INIT → READY
//	input      ROUTER           DEALER            registration ← ; requests →
//	output     PULL             PUSH              outputs ←
//
// One goroutine owns each socket and no other touches it (port.go). The
// handshake's listening end is no libzmq socket but speaks ZMTP itself (zmtp.go
// says why).
//
// A peer is lost when a connection of its data sockets closes, when its host
// stops acknowledging, or, between two processes of ours, when it stops
// answering heartbeats: killed, crashed, stopped and cut-off peers alike, within
// 4 seconds. Loss is final, there is no way to resume: the process ends, and
// both are started again. vLLM itself has none of this; its processes simply go
// unpinged.
//
// Messages are package protocol's; this one knows frames and order only.
package ipc
