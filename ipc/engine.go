package ipc

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"govllm/protocol"
)

// EngineOptions configures an engine's end of the connection.
type EngineOptions struct {
	// HandshakeAddress is where the frontend binds, e.g.
	// "tcp://127.0.0.1:29550". It need not be there yet.
	HandshakeAddress string
	// Rank is the engine's data-parallel rank, 0 … 65535: its identity.
	Rank int
	// Local and Headless are what HELLO says; Python frontends check them.
	Local    bool
	Headless bool
	// InitTimeout bounds the wait for INIT; default 5 minutes, as in vLLM.
	InitTimeout time.Duration
	// Log gets what goes wrong without ending the connection; default slog's.
	Log *slog.Logger
}

// EngineConn is the engine's end. Its methods may be called from any
// goroutine; Requests and Aborts have one reader each.
type EngineConn struct{}

// DialEngine says HELLO and waits for INIT. It returns ErrRefused if the
// frontend has another engine of this rank, ErrHandshakeTimeout after
// InitTimeout, and ctx's error if that comes first.
func DialEngine(ctx context.Context, opts EngineOptions) (*EngineConn, error) {
	return nil, errors.ErrUnsupported
}

// Init returns what the frontend announced.
func (c *EngineConn) Init() *protocol.Init { return nil }

// NumClients is how many frontend processes there are; client indices are
// below it.
func (c *EngineConn) NumClients() int { return 0 }

// Ready connects to every frontend process, registers with each, tells the
// handshake socket READY and closes it. Requests flow from here on.
func (c *EngineConn) Ready(ctx context.Context, reg *protocol.Registration) error {
	return errors.ErrUnsupported
}

// Requests delivers every message of the frontends in order of arrival, ABORTs
// included: an ADD and its ABORT keep their order here. A *protocol.FieldError
// stands for a message that could not be decoded and wants an answer.
// The receiver owns what it gets. Never closed: select on Lost too.
func (c *EngineConn) Requests() <-chan protocol.FrontendMessage { return nil }

// Aborts delivers a copy of each ABORT at once, ahead of the messages before
// it, so that a step's end can drop requests aborted while it ran. IDs not yet
// known are to be ignored: the ABORT comes again through Requests. A copy is
// dropped if the reader is far behind.
func (c *EngineConn) Aborts() <-chan protocol.Abort { return nil }

// Buffer returns an empty buffer to encode one message into, recycled from
// sent ones.
func (c *EngineConn) Buffer() []byte { return nil }

// Send queues payload for the output socket of a client and returns at once.
// The buffer belongs to the connection from here on, and payload must not be
// empty. A client index that does not exist is an error; so is ErrClosed.
func (c *EngineConn) Send(clientIndex int, payload []byte) error { return nil }

// SendDead queues the last message of an engine that failed, to every client.
func (c *EngineConn) SendDead() {}

// Lost delivers one *LostError when a frontend is gone, within 4 seconds.
func (c *EngineConn) Lost() <-chan error { return nil }

// Close flushes what was sent, for up to 4 seconds or until ctx ends, and
// closes the sockets. No goroutine is left when it returns.
func (c *EngineConn) Close(ctx context.Context) error { return nil }
