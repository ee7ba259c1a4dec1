package engineclient_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"govllm/frontend/engineclient"
	"govllm/ipc"
	"govllm/protocol"
)

// patience bounds what must happen; it never makes a test pass.
const patience = 20 * time.Second

// echoEngine answers over real sockets: an ADD with its prompt, the last token
// as the end; "hold" in its first place keeps it silent until an ABORT.
type echoEngine struct {
	rank   int
	conn   *ipc.EngineConn
	aborts chan string
}

func dialEcho(t *testing.T, ctx context.Context, address string, rank int) *echoEngine {
	conn, err := ipc.DialEngine(ctx, ipc.EngineOptions{HandshakeAddress: address, Rank: rank, Headless: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Ready(ctx, &protocol.Registration{MaxModelLen: 64, BlockSize: 16, NumGPUBlocks: 8, DType: "float32", VLLMVersion: "0.32.0"}); err != nil {
		t.Fatal(err)
	}
	return &echoEngine{rank: rank, conn: conn, aborts: make(chan string, 8)}
}

const hold = 0 // a prompt that begins with it is not answered

func (e *echoEngine) serve(ctx context.Context) {
	send := func(m *protocol.EngineCoreOutputs) {
		m.EngineIndex = e.rank
		m.Timestamp = 1
		_ = e.conn.Send(0, protocol.AppendOutputs(e.conn.Buffer(), m))
	}
	for {
		select {
		case m := <-e.conn.Requests():
			switch m := m.(type) {
			case *protocol.EngineCoreRequest:
				if m.PromptTokenIDs[0] == hold {
					continue
				}
				for i, token := range m.PromptTokenIDs {
					o := output(m.RequestID, none, token)
					if i == len(m.PromptTokenIDs)-1 {
						o.FinishReason = length
					}
					send(outputs(0, o))
				}
			case protocol.Abort:
				for _, id := range m {
					e.aborts <- id
				}
			case *protocol.UtilityCall:
				send(&protocol.EngineCoreOutputs{UtilityOutput: &protocol.UtilityOutput{CallID: m.CallID, Result: m.Method}})
			}
		case <-ctx.Done():
			return
		}
	}
}

func TestOverSockets(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := ipc.Listen(ipc.FrontendOptions{HandshakeAddress: "tcp://127.0.0.1:0", EngineCount: 2, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	engines := []*echoEngine{dialEcho(t, ctx, conn.HandshakeAddress(), 0), dialEcho(t, ctx, conn.HandshakeAddress(), 1)}
	infos, err := conn.WaitReady(ctx)
	if err != nil {
		t.Fatal(err)
	}
	serving, stopServing := context.WithCancel(ctx)
	served := make(chan struct{})
	for _, e := range engines {
		go func() {
			e.serve(serving)
			served <- struct{}{}
		}()
	}

	rec := &fakeRecorder{}
	client := engineclient.New(conn, infos, engineclient.Options{Recorder: rec, Logger: slog.New(slog.DiscardHandler)})
	ran := make(chan error, 1)
	go func() { ran <- client.Run(ctx) }()
	submit := func(id string, prompt ...int32) *engineclient.Stream {
		req := request(id, 0)
		req.PromptTokenIDs = prompt
		s, err := client.Submit(ctx, req, engineclient.Meta{Arrival: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}

	held := []*engineclient.Stream{submit("held-0", hold), submit("held-1", hold)}
	for i := range 20 {
		s := submit(fmt.Sprint("r", i), 1, 2, 3)
		var tokens []int32
		for {
			u, err := s.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if tokens = append(tokens, u.TokenIDs...); u.Finish != none {
				break
			}
		}
		if want := []int32{1, 2, 3}; !slices.Equal(tokens, want) {
			t.Errorf("request %d got %v, want %v", i, tokens, want)
		}
	}
	result, err := client.Utility(ctx, "echo")
	check(t, "utility", []any{result, err}, []any{"echo", error(nil)})

	held[0].Close()
	select {
	case id := <-engines[0].aborts:
		check(t, "aborted", id, held[0].ID())
	case id := <-engines[1].aborts:
		check(t, "aborted", id, held[0].ID())
	case <-ctx.Done():
		t.Fatal("no engine heard of the abort")
	}

	stopServing()
	<-served
	<-served
	engines[0].conn.SendDead()
	for _, e := range engines {
		if err := e.conn.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	if _, err := held[1].Next(ctx); !errors.Is(err, engineclient.ErrEngineDead) {
		t.Errorf("Next after the engine's death = %v, want ErrEngineDead", err)
	}
	if err := <-ran; !errors.Is(err, ipc.ErrEngineDead) {
		t.Errorf("Run = %v, want ipc.ErrEngineDead", err)
	}
	check(t, "recorded", len(rec.finished), 22)
}
