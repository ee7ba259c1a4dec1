package ipc

import (
	"errors"
	"fmt"
)

var (
	// ErrAddressInUse reports that another process listens on the address.
	ErrAddressInUse = errors.New("ipc: address already in use")
	// ErrRefused reports that the frontend does not want this engine, as when
	// another with the same rank is connected.
	ErrRefused = errors.New("ipc: refused by the frontend")
	// ErrHandshakeTimeout reports that no frontend answered in time.
	ErrHandshakeTimeout = errors.New("ipc: no answer to HELLO")
	// ErrEngineDead reports the engine's last message: it failed, and said so.
	ErrEngineDead = errors.New("ipc: the engine reported that it is dead")
	// ErrDisconnected reports that the peer's connection closed or that it
	// stopped answering heartbeats.
	ErrDisconnected = errors.New("ipc: the connection is lost")
	// ErrClosed reports use after Close.
	ErrClosed = errors.New("ipc: connection closed")
)

// Values of LostError.Engine that are no rank.
const (
	theFrontend   = -1
	unknownEngine = -2
)

// LostError says which peer is gone and why; it wraps ErrEngineDead or
// ErrDisconnected.
type LostError struct {
	Engine int    // rank, -1 for the frontend, -2 for an engine of unknown rank
	Detail string // e.g. "input tcp://127.0.0.1:5001"
	Err    error
}

func (e *LostError) Error() string {
	who := fmt.Sprintf("engine %d", e.Engine)
	switch e.Engine {
	case theFrontend:
		who = "frontend"
	case unknownEngine:
		who = "an engine"
	}
	return fmt.Sprintf("%s lost: %v (%s)", who, e.Err, e.Detail)
}

func (e *LostError) Unwrap() error { return e.Err }
