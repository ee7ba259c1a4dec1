package ipctest

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"govllm/ipc"
	"govllm/protocol"
)

// Registration is what a scripted engine says of itself unless told otherwise.
var Registration = protocol.Registration{
	MaxModelLen: 1024, NumGPUBlocks: 256, BlockSize: 16, DType: "float32", VLLMVersion: "0.32.0",
	WorldSize: 1, DataParallelSize: 1, TensorParallelSize: 1, PipelineParallelSize: 1,
	DecodeContextParallelSize: 1, MaxNumSeqs: 16, MaxNumBatchedTokens: 512, InstanceID: "ipctest",
}

// Engine is an engine whose answers the test decides.
type Engine struct {
	EngineSide
	t testing.TB
}

// NewEngine scripts one end of a Pair, or any other connection.
func NewEngine(t testing.TB, side EngineSide) *Engine { return &Engine{side, t} }

// StartEngine connects an engine of rank 0 to a frontend and says READY. It is
// closed with the test.
func StartEngine(t testing.TB, handshakeAddress string) *Engine {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := ipc.DialEngine(ctx, ipc.EngineOptions{HandshakeAddress: handshakeAddress, Headless: true, Log: discard()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	reg := Registration
	if err := conn.Ready(ctx, &reg); err != nil {
		t.Fatal(err)
	}
	return NewEngine(t, conn)
}

func discard() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// wait receives from c or fails the test.
func wait[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("no %s within %v", what, patience)
		panic("unreachable")
	}
}

// expect receives the next request, which must be a T.
func expect[T protocol.FrontendMessage](e *Engine) T {
	e.t.Helper()
	m := wait(e.t, "request", e.Requests())
	v, ok := m.(T)
	if !ok {
		e.t.Fatalf("next request = %#v, want a %T", m, v)
	}
	return v
}

// NextAdd receives the next request, which must be an ADD.
func (e *Engine) NextAdd() *protocol.EngineCoreRequest {
	e.t.Helper()
	return expect[*protocol.EngineCoreRequest](e)
}

// NextAbort receives the next request, which must be an ABORT.
func (e *Engine) NextAbort() protocol.Abort {
	e.t.Helper()
	return expect[protocol.Abort](e)
}

// NextCall receives the next request, which must be a UTILITY.
func (e *Engine) NextCall() *protocol.UtilityCall {
	e.t.Helper()
	return expect[*protocol.UtilityCall](e)
}

// Emit sends any message to client 0.
func (e *Engine) Emit(o *protocol.EngineCoreOutputs) {
	e.t.Helper()
	if err := e.Send(0, protocol.AppendOutputs(e.Buffer(), o)); err != nil {
		e.t.Fatal(err)
	}
}

// Output sends one request's output in a message of its own.
func (e *Engine) Output(timestamp float64, o protocol.EngineCoreOutput) {
	e.t.Helper()
	e.Emit(&protocol.EngineCoreOutputs{Timestamp: timestamp, Outputs: []protocol.EngineCoreOutput{o}})
}

// Tokens sends tokens of a request that goes on.
func (e *Engine) Tokens(id string, tokens ...int32) {
	e.t.Helper()
	e.Output(1, protocol.EngineCoreOutput{RequestID: id, NewTokenIDs: tokens})
}

// Finish sends a request's last tokens.
func (e *Engine) Finish(id string, reason protocol.FinishReason, tokens ...int32) {
	e.t.Helper()
	e.Output(1, protocol.EngineCoreOutput{RequestID: id, NewTokenIDs: tokens, FinishReason: reason})
}

// Answer answers a call with a value, nil for a void method.
func (e *Engine) Answer(call *protocol.UtilityCall, result any) {
	e.t.Helper()
	e.Emit(&protocol.EngineCoreOutputs{Timestamp: 1, UtilityOutput: &protocol.UtilityOutput{CallID: call.CallID, Result: result}})
}

// Fail answers a call with a failure.
func (e *Engine) Fail(call *protocol.UtilityCall, failure string) {
	e.t.Helper()
	e.Emit(&protocol.EngineCoreOutputs{Timestamp: 1, UtilityOutput: &protocol.UtilityOutput{CallID: call.CallID, Failure: failure}})
}

// Vanish closes the connection without a word, as a crash would.
func (e *Engine) Vanish() {
	e.t.Helper()
	switch side := e.EngineSide.(type) {
	case *ipc.EngineConn:
		if err := side.Close(context.Background()); err != nil {
			e.t.Fatal(err)
		}
	case *PairEngine:
		side.Close()
	default:
		e.t.Fatalf("ipctest: cannot close a %T", side)
	}
}
