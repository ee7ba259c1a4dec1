package ipctest

import (
	"context"
	"maps"
	"slices"
	"testing"

	"govllm/ipc"
	"govllm/protocol"
)

// Frontend is a frontend that asks an engine what the test says. It reads
// outputs from Start on.
type Frontend struct {
	FrontendSide
	t       testing.TB
	outputs chan *protocol.EngineCoreOutputs
	ended   chan error
	calls   uint64
}

// NewFrontend scripts one end of a Pair, or any other connection, and starts
// reading. It stops with the test.
func NewFrontend(t testing.TB, side FrontendSide) *Frontend {
	f := &Frontend{FrontendSide: side, t: t,
		outputs: make(chan *protocol.EngineCoreOutputs, queued), ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		f.ended <- side.Run(ctx, func(o *protocol.EngineCoreOutputs) { put(f.outputs, clone(o)) })
	}()
	t.Cleanup(func() {
		cancel()
		<-stopped
	})
	return f
}

// Listener is a frontend that has no engine yet.
type Listener struct {
	*ipc.FrontendConn
	t testing.TB
}

// Listen binds a frontend for one engine; its HandshakeAddress is what the
// engine dials. It is closed with the test.
func Listen(t testing.TB) *Listener {
	t.Helper()
	conn, err := ipc.Listen(ipc.FrontendOptions{HandshakeAddress: "tcp://127.0.0.1:0", Log: discard()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return &Listener{conn, t}
}

// Start waits for the engine and returns the frontend that drives it.
func (l *Listener) Start() (*Frontend, ipc.EngineInfo) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	infos, err := l.WaitReady(ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	return NewFrontend(l.t, l.FrontendConn), infos[0]
}

func (f *Frontend) send(t protocol.RequestType, payload []byte) {
	f.t.Helper()
	if err := f.Send(0, t, payload); err != nil {
		f.t.Fatal(err)
	}
}

// Add sends an ADD.
func (f *Frontend) Add(q *protocol.EngineCoreRequest) {
	f.t.Helper()
	f.send(protocol.RequestAdd, protocol.AppendRequest(f.Buffer(), q))
}

// Abort sends an ABORT.
func (f *Frontend) Abort(ids ...string) {
	f.t.Helper()
	f.send(protocol.RequestAbort, protocol.AppendAbort(f.Buffer(), ids))
}

// Next receives the next message, which the caller owns.
func (f *Frontend) Next() *protocol.EngineCoreOutputs {
	f.t.Helper()
	return wait(f.t, "output", f.outputs)
}

// Call makes a utility call and returns its answer, putting aside nothing: it
// must be the engine's next message.
func (f *Frontend) Call(method string, args ...any) *protocol.UtilityOutput {
	f.t.Helper()
	f.calls++
	call := &protocol.UtilityCall{CallID: protocol.NewCallID(f.calls), Method: method, Args: args}
	f.send(protocol.RequestUtility, protocol.AppendUtilityCall(f.Buffer(), call))
	o := f.Next()
	if o.UtilityOutput == nil || o.UtilityOutput.CallID != call.CallID {
		f.t.Fatalf("next message = %+v, want the answer to call %v", o, call.CallID)
	}
	return o.UtilityOutput
}

// End waits until the engine is lost and returns how.
func (f *Frontend) End() error {
	f.t.Helper()
	err := wait(f.t, "end of the engine", f.ended)
	f.ended <- err
	return err
}

// clone copies a message out of the decoder that owns it.
func clone(o *protocol.EngineCoreOutputs) *protocol.EngineCoreOutputs {
	c := *o
	c.Outputs = slices.Clone(o.Outputs)
	for i := range c.Outputs {
		out := &c.Outputs[i]
		out.NewTokenIDs = slices.Clone(out.NewTokenIDs)
		out.NewLogprobs = cloneLogprobs(out.NewLogprobs)
		out.NewPromptLogprobs = cloneLogprobs(out.NewPromptLogprobs)
		out.Events = slices.Clone(out.Events)
		out.TraceHeaders = maps.Clone(out.TraceHeaders)
		out.PrefillStats = clonePtr(out.PrefillStats)
	}
	c.FinishedRequests = slices.Clone(o.FinishedRequests)
	c.UtilityOutput = clonePtr(o.UtilityOutput)
	c.WaveComplete, c.StartWave = clonePtr(o.WaveComplete), clonePtr(o.StartWave)
	if c.SchedulerStats = clonePtr(o.SchedulerStats); c.SchedulerStats != nil {
		if s := clonePtr(c.SchedulerStats.SpecDecodingStats); s != nil {
			s.NumAcceptedTokensPerPos = slices.Clone(s.NumAcceptedTokensPerPos)
			s.NumDraftTokensPerPos = slices.Clone(s.NumDraftTokensPerPos)
			c.SchedulerStats.SpecDecodingStats = s
		}
	}
	return &c
}

func clonePtr[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

func cloneLogprobs(l *protocol.LogprobsLists) *protocol.LogprobsLists {
	if l = clonePtr(l); l != nil {
		l.TokenIDs, l.Logprobs, l.Ranks = slices.Clone(l.TokenIDs), slices.Clone(l.Logprobs), slices.Clone(l.Ranks)
	}
	return l
}
