package ipc

import (
	"context"
	"errors"
	"log/slog"

	"govllm/protocol"
)

// FrontendOptions configures a frontend's end of the connections.
type FrontendOptions struct {
	// HandshakeAddress is bound, e.g. "tcp://127.0.0.1:29550"; port 0 picks
	// one. The input and output sockets bind to free ports of the same host.
	HandshakeAddress string
	// EngineCount is how many engines there are, ranks 0 … EngineCount-1.
	// Default 1.
	EngineCount int
	// Log gets what goes wrong without ending a connection; default slog's.
	Log *slog.Logger
}

// EngineInfo is what an engine said of itself. Registered is false for old
// engines, whose registration is empty.
type EngineInfo struct {
	Rank         int
	Local        bool
	Headless     bool
	Registered   bool
	Registration protocol.Registration
}

// FrontendConn is the frontend's end. Its methods may be called from any
// goroutine.
type FrontendConn struct{}

// Listen binds the three sockets. It returns ErrAddressInUse if another
// process listens at HandshakeAddress.
func Listen(opts FrontendOptions) (*FrontendConn, error) { return nil, errors.ErrUnsupported }

// HandshakeAddress is the bound address, with its port.
func (c *FrontendConn) HandshakeAddress() string { return "" }

// WaitReady waits until every engine has shaken hands and registered, in any
// order, and returns them by rank. An engine that dies before READY may be
// started again meanwhile. A second engine of a connected rank is refused, now
// and as long as the connection lives. Ends with ctx's error.
func (c *FrontendConn) WaitReady(ctx context.Context) ([]EngineInfo, error) {
	return nil, errors.ErrUnsupported
}

// Buffer returns an empty buffer to encode one message into, recycled from
// sent ones.
func (c *FrontendConn) Buffer() []byte { return nil }

// Send queues one message for an engine and returns at once. The buffer
// belongs to the connection from here on. Valid after WaitReady.
func (c *FrontendConn) Send(engine int, t protocol.RequestType, payload []byte) error { return nil }

// Run receives outputs until ctx ends (nil), Close (ErrClosed), or an engine is
// lost (*LostError), and hands each to deliver on the calling goroutine. Only
// strings in the value may be kept: structs, slices and maps are reused by the
// next message. What an engine sent before its end is delivered before Run
// returns. Call it once, after WaitReady.
func (c *FrontendConn) Run(ctx context.Context, deliver func(*protocol.EngineCoreOutputs)) error {
	return errors.ErrUnsupported
}

// Lost delivers one *LostError when an engine is gone, after Run has delivered
// its last outputs.
func (c *FrontendConn) Lost() <-chan error { return nil }

// Close flushes what was sent, for up to 4 seconds or until ctx ends, and
// closes the sockets. No goroutine is left when it returns, Run's included.
func (c *FrontendConn) Close(ctx context.Context) error { return nil }
