package ipc

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"govllm/protocol"
)

// patience bounds what must not happen: it fails a test, and never makes one
// pass.
const patience = 20 * time.Second

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func listen(t *testing.T, opts FrontendOptions) *FrontendConn {
	t.Helper()
	if opts.HandshakeAddress == "" {
		opts.HandshakeAddress = "tcp://127.0.0.1:0"
	}
	if opts.Log == nil {
		opts.Log = quiet()
	}
	f, err := Listen(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(context.Background()); err != nil {
			t.Errorf("FrontendConn.Close() = %v", err)
		}
	})
	return f
}

func dial(t *testing.T, address string, rank int) *EngineConn {
	t.Helper()
	e, err := DialEngine(testContext(t), EngineOptions{HandshakeAddress: address, Rank: rank, Headless: true, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Errorf("EngineConn.Close() = %v", err)
		}
	})
	return e
}

var testRegistration = protocol.Registration{MaxModelLen: 64, NumGPUBlocks: 8, BlockSize: 16, DType: "float32", VLLMVersion: "0.32.0"}

// connect makes a serving pair.
func connect(t *testing.T) (*FrontendConn, *EngineConn) {
	t.Helper()
	f := listen(t, FrontendOptions{})
	e := dial(t, f.HandshakeAddress(), 0)
	if err := e.Ready(testContext(t), &testRegistration); err != nil {
		t.Fatal(err)
	}
	infos, err := f.WaitReady(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if want := (EngineInfo{Headless: true, Registered: true, Registration: testRegistration}); infos[0] != want {
		t.Errorf("WaitReady() = %+v, want %+v", infos[0], want)
	}
	return f, e
}

// run starts f.Run and returns copies of what it delivers, and its result.
func run(t *testing.T, f *FrontendConn) (<-chan protocol.EngineCoreOutputs, <-chan error) {
	ctx, cancel := context.WithCancel(context.Background())
	outputs, result := make(chan protocol.EngineCoreOutputs, 1024), make(chan error, 1)
	go func() {
		result <- f.Run(ctx, func(o *protocol.EngineCoreOutputs) {
			c := *o
			c.Outputs = append([]protocol.EngineCoreOutput(nil), o.Outputs...)
			for i := range c.Outputs {
				c.Outputs[i].NewTokenIDs = append([]int32(nil), c.Outputs[i].NewTokenIDs...)
			}
			outputs <- c
		})
	}()
	t.Cleanup(cancel)
	return outputs, result
}

func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("no %s within %v", what, patience)
		panic("unreachable")
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRoundTrip(t *testing.T) {
	f, e := connect(t)
	outputs, _ := run(t, f)

	add := &protocol.EngineCoreRequest{RequestID: "r", PromptTokenIDs: []int32{1, 2}}
	if err := f.Send(0, protocol.RequestAdd, protocol.AppendRequest(f.Buffer(), add)); err != nil {
		t.Fatal(err)
	}
	if err := f.Send(0, protocol.RequestAbort, protocol.AppendAbort(f.Buffer(), []string{"r"})); err != nil {
		t.Fatal(err)
	}
	got, ok := receive(t, "ADD", e.Requests()).(*protocol.EngineCoreRequest)
	if !ok || got.RequestID != "r" || len(got.PromptTokenIDs) != 2 {
		t.Errorf("first request = %#v, want the ADD of r", got)
	}
	if got := receive(t, "eager ABORT", e.Aborts()); len(got) != 1 || got[0] != "r" {
		t.Errorf("Aborts() = %q, want [r]", got)
	}
	if got, ok := receive(t, "ABORT", e.Requests()).(protocol.Abort); !ok || got[0] != "r" {
		t.Errorf("second request = %#v, want the ABORT of r", got)
	}

	for i := range int32(100) {
		err := e.Send(0, protocol.AppendOutputs(e.Buffer(), &protocol.EngineCoreOutputs{
			Outputs: []protocol.EngineCoreOutput{{RequestID: "r", NewTokenIDs: []int32{i}}}}))
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range int32(100) {
		got := receive(t, "output", outputs)
		if len(got.Outputs) != 1 || got.Outputs[0].RequestID != "r" || got.Outputs[0].NewTokenIDs[0] != i {
			t.Fatalf("output %d = %+v", i, got)
		}
	}
}

func TestEngineFirst(t *testing.T) {
	probe := listen(t, FrontendOptions{})
	address := probe.HandshakeAddress()
	if err := probe.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	dialed := make(chan error, 1)
	var e *EngineConn
	go func() {
		var err error
		e, err = DialEngine(testContext(t), EngineOptions{HandshakeAddress: address, Log: quiet()})
		dialed <- err
	}()
	f := listen(t, FrontendOptions{HandshakeAddress: address})
	if err := receive(t, "INIT", dialed); err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	if err := e.Ready(testContext(t), &testRegistration); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WaitReady(testContext(t)); err != nil {
		t.Fatal(err)
	}
}

func TestAddressInUse(t *testing.T) {
	f := listen(t, FrontendOptions{})
	_, err := Listen(FrontendOptions{HandshakeAddress: f.HandshakeAddress()})
	if !errors.Is(err, ErrAddressInUse) {
		t.Errorf("Listen(%s) = %v, want ErrAddressInUse", f.HandshakeAddress(), err)
	}
}

func TestSecondEngineIsRefused(t *testing.T) {
	f := listen(t, FrontendOptions{})
	first := dial(t, f.HandshakeAddress(), 0)
	second := func(when string) {
		e, err := DialEngine(testContext(t), EngineOptions{HandshakeAddress: f.HandshakeAddress(), Log: quiet()})
		if err == nil {
			e.Close(context.Background())
		}
		if !errors.Is(err, ErrRefused) {
			t.Errorf("second DialEngine %s = %v, want ErrRefused", when, err)
		}
	}
	second("while the first loads")
	second("while the first loads, again")
	if err := first.Ready(testContext(t), &testRegistration); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WaitReady(testContext(t)); err != nil {
		t.Fatal(err)
	}
	second("while the first serves")
	select {
	case err := <-first.Lost():
		t.Errorf("the first engine lost its frontend: %v", err)
	case err := <-f.Lost():
		t.Errorf("the frontend lost the first engine: %v", err)
	default:
	}

	_, err := DialEngine(testContext(t), EngineOptions{HandshakeAddress: f.HandshakeAddress(), Rank: 3, Log: quiet()})
	if !errors.Is(err, ErrRefused) {
		t.Errorf("DialEngine(rank 3) = %v, want ErrRefused", err)
	}
}

func TestEngineRestartedBeforeReady(t *testing.T) {
	f := listen(t, FrontendOptions{})
	first := dial(t, f.HandshakeAddress(), 0)
	if err := first.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	again := dial(t, f.HandshakeAddress(), 0)
	if err := again.Ready(testContext(t), &testRegistration); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WaitReady(testContext(t)); err != nil {
		t.Fatal(err)
	}
}

func TestLastOutputsPrecedeLoss(t *testing.T) {
	f, e := connect(t)
	outputs, result := run(t, f)
	const n = 500
	for range n {
		e.Send(0, protocol.AppendOutputs(e.Buffer(), &protocol.EngineCoreOutputs{FinishedRequests: []string{"r"}}))
	}
	if err := e.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	err := receive(t, "end of Run", result)
	var lost *LostError
	if !errors.As(err, &lost) || lost.Engine != 0 || !errors.Is(err, ErrDisconnected) {
		t.Errorf("Run() = %v, want engine 0 disconnected", err)
	}
	if got := receive(t, "loss", f.Lost()); got != err {
		t.Errorf("Lost() = %v, want %v", got, err)
	}
	if len(outputs) != n {
		t.Errorf("%d outputs delivered before the loss, want %d", len(outputs), n)
	}
}

func TestDeadEngineSaysSo(t *testing.T) {
	f, e := connect(t)
	_, result := run(t, f)
	e.SendDead()
	if err := receive(t, "end of Run", result); !errors.Is(err, ErrEngineDead) {
		t.Errorf("Run() = %v, want ErrEngineDead", err)
	}
	if err := receive(t, "loss", f.Lost()); !errors.Is(err, ErrEngineDead) {
		t.Errorf("Lost() = %v, want ErrEngineDead", err)
	}
}

func TestEngineNoticesLostFrontend(t *testing.T) {
	f, e := connect(t)
	if err := f.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	err := receive(t, "loss", e.Lost())
	var lost *LostError
	if !errors.As(err, &lost) || lost.Engine != theFrontend {
		t.Errorf("Lost() = %v, want the frontend", err)
	}
}

func TestTwoEngines(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(e *EngineConn)
		want error
	}{
		{"vanishes", func(e *EngineConn) { e.Close(context.Background()) }, ErrDisconnected},
		{"dies", func(e *EngineConn) { e.SendDead(); e.Close(context.Background()) }, ErrEngineDead},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := listen(t, FrontendOptions{EngineCount: 2})
			var engines [2]*EngineConn
			for _, rank := range []int{1, 0} {
				engines[rank] = dial(t, f.HandshakeAddress(), rank)
				reg := testRegistration
				reg.DataParallelRank = rank
				if err := engines[rank].Ready(testContext(t), &reg); err != nil {
					t.Fatal(err)
				}
			}
			infos, err := f.WaitReady(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			outputs, result := run(t, f)
			for rank, e := range engines {
				if infos[rank].Rank != rank || infos[rank].Registration.DataParallelRank != rank {
					t.Errorf("infos[%d] = %+v, want rank %d", rank, infos[rank], rank)
				}
				f.Send(rank, protocol.RequestAbort, protocol.AppendAbort(f.Buffer(), []string{"r"}))
				receive(t, "ABORT", e.Requests())
				e.Send(0, protocol.AppendOutputs(e.Buffer(), &protocol.EngineCoreOutputs{EngineIndex: rank, FinishedRequests: []string{"r"}}))
				if o := receive(t, "output", outputs); o.EngineIndex != rank {
					t.Errorf("output of engine %d, want %d", o.EngineIndex, rank)
				}
			}
			c.end(engines[1])
			var lost *LostError
			if err := receive(t, "end of Run", result); !errors.As(err, &lost) || lost.Engine != 1 || !errors.Is(err, c.want) {
				t.Errorf("Run() = %v, want engine 1: %v", err, c.want)
			}
		})
	}
}

// A frontend that was started again does not know the engine of the first one.
func TestFrontendRestartsWhileEngineLoads(t *testing.T) {
	first := listen(t, FrontendOptions{})
	e := dial(t, first.HandshakeAddress(), 0)
	if err := first.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	listen(t, FrontendOptions{HandshakeAddress: first.HandshakeAddress()})
	if err := receive(t, "loss", e.Lost()); !errors.Is(err, ErrDisconnected) {
		t.Errorf("Lost() = %v, want ErrDisconnected", err)
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		opts EngineOptions
		ok   bool
	}{
		{EngineOptions{HandshakeAddress: "tcp://127.0.0.1:29550", Rank: maxRank}, true},
		{EngineOptions{HandshakeAddress: "tcp://127.0.0.1:29550", Rank: maxRank + 1}, false},
		{EngineOptions{}, false},
		{EngineOptions{HandshakeAddress: "tcp://127.0.0.1:29550", InitTimeout: -1}, false},
	} {
		if err := c.opts.Validate(); (err == nil) != c.ok {
			t.Errorf("Validate(%+v) = %v, want ok = %v", c.opts, err, c.ok)
		}
	}
	for address, ok := range map[string]bool{
		"tcp://127.0.0.1:29550": true, "tcp://[::1]:0": true, "tcp://localhost:1": true,
		"tcp://*:29550": false, "tcp://0.0.0.0:29550": false, "127.0.0.1:29550": false, "ipc:///tmp/x": false, "tcp://host": false, "": false,
	} {
		opts := FrontendOptions{HandshakeAddress: address}
		if err := opts.Validate(); (err == nil) != ok {
			t.Errorf("Validate(%q) = %v, want ok = %v", address, err, ok)
		}
	}
	if _, err := DialEngine(testContext(t), EngineOptions{HandshakeAddress: "nonsense", Log: quiet()}); err == nil {
		t.Error("DialEngine(nonsense) = nil, want an error")
	}
}
