package ipctest

import (
	"context"
	"fmt"
	"sync"

	"govllm/ipc"
	"govllm/protocol"
)

// queued bounds what either end of a Pair may leave unread; more is a mistake
// of the test, and panics.
const queued = 1 << 14

// Pair joins an engine and a frontend in memory. Close either to have the other
// lose it.
func Pair() (*PairEngine, *PairFrontend) {
	p := &pair{
		requests: make(chan protocol.FrontendMessage, queued),
		aborts:   make(chan protocol.Abort, queued),
		outputs:  make(chan []byte, queued),
		gone:     make(chan struct{}),
	}
	e := &PairEngine{p, make(chan error, 1)}
	return e, &PairFrontend{pair: p, lost: make(chan error, 1), engine: e}
}

type pair struct {
	requests chan protocol.FrontendMessage
	aborts   chan protocol.Abort
	outputs  chan []byte
	once     sync.Once
	gone     chan struct{} // closed with either end
}

func (p *pair) close() { p.once.Do(func() { close(p.gone) }) }

// PairEngine is the engine's end.
type PairEngine struct {
	*pair
	lost chan error
}

var _ EngineSide = (*PairEngine)(nil)

func (e *PairEngine) Requests() <-chan protocol.FrontendMessage { return e.requests }
func (e *PairEngine) Aborts() <-chan protocol.Abort             { return e.aborts }
func (e *PairEngine) Buffer() []byte                            { return nil }
func (e *PairEngine) Lost() <-chan error                        { return e.lost }

// Send takes client 0, the only one.
func (e *PairEngine) Send(clientIndex int, payload []byte) error {
	if clientIndex != 0 {
		return fmt.Errorf("ipctest: client index is %d, want 0", clientIndex)
	}
	put(e.outputs, payload)
	return nil
}

func (e *PairEngine) SendDead() { put(e.outputs, []byte(protocol.EngineDead)) }

// Close takes the engine away without a word.
func (e *PairEngine) Close() { e.close() }

// PairFrontend is the frontend's end.
type PairFrontend struct {
	*pair
	lost   chan error
	engine *PairEngine
}

var _ FrontendSide = (*PairFrontend)(nil)

func (f *PairFrontend) Buffer() []byte     { return nil }
func (f *PairFrontend) Lost() <-chan error { return f.lost }

// Send takes engine 0, the only one.
func (f *PairFrontend) Send(engine int, t protocol.RequestType, payload []byte) error {
	if engine != 0 {
		return fmt.Errorf("ipctest: engine is %d, want 0", engine)
	}
	m := protocol.DecodeFrontendMessage([][]byte{{byte(t)}, payload})
	if a, ok := m.(protocol.Abort); ok {
		put(f.aborts, a)
	}
	put(f.requests, m)
	return nil
}

// Run is ipc.FrontendConn's: it ends with ctx (nil) or with the engine
// (*ipc.LostError), after what the engine had sent.
func (f *PairFrontend) Run(ctx context.Context, deliver func(*protocol.EngineCoreOutputs)) error {
	var d protocol.OutputsDecoder
	for {
		select {
		case <-ctx.Done():
			return nil
		case payload := <-f.outputs:
			if dead := f.handle(&d, payload, deliver); dead != nil {
				return dead
			}
		case <-f.gone:
			for len(f.outputs) > 0 {
				if dead := f.handle(&d, <-f.outputs, deliver); dead != nil {
					return dead
				}
			}
			return f.lose(ipc.ErrDisconnected)
		}
	}
}

func (f *PairFrontend) handle(d *protocol.OutputsDecoder, payload []byte, deliver func(*protocol.EngineCoreOutputs)) error {
	if string(payload) == protocol.EngineDead {
		return f.lose(ipc.ErrEngineDead)
	}
	o, err := d.Decode([][]byte{payload})
	if err != nil {
		panic(fmt.Sprintf("ipctest: undecodable outputs: %v", err))
	}
	deliver(o)
	return nil
}

func (f *PairFrontend) lose(reason error) error {
	err := &ipc.LostError{Engine: 0, Detail: "in memory", Err: reason}
	f.lost <- err
	return err
}

// Close takes the frontend away. Call it once.
func (f *PairFrontend) Close() {
	f.close()
	f.engine.lost <- &ipc.LostError{Engine: -1, Detail: "in memory", Err: ipc.ErrDisconnected}
}

// put is a send that nothing may block.
func put[T any](c chan T, v T) {
	select {
	case c <- v:
	default:
		panic(fmt.Sprintf("ipctest: %d messages were left unread", queued))
	}
}
