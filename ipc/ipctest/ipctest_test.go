package ipctest_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"govllm/ipc"
	"govllm/ipc/ipctest"
	"govllm/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ends makes a scripted pair over sockets and one in memory.
var ends = map[string]func(t *testing.T) (*ipctest.Engine, *ipctest.Frontend){
	"sockets": func(t *testing.T) (*ipctest.Engine, *ipctest.Frontend) {
		l := ipctest.Listen(t)
		e := ipctest.StartEngine(t, l.HandshakeAddress())
		f, info := l.Start()
		if info.Registration != ipctest.Registration {
			t.Errorf("Start() = %+v, want %+v", info.Registration, ipctest.Registration)
		}
		return e, f
	},
	"memory": func(t *testing.T) (*ipctest.Engine, *ipctest.Frontend) {
		e, f := ipctest.Pair()
		return ipctest.NewEngine(t, e), ipctest.NewFrontend(t, f)
	},
}

func TestScript(t *testing.T) {
	for name, pair := range ends {
		t.Run(name, func(t *testing.T) {
			e, f := pair(t)
			f.Add(&protocol.EngineCoreRequest{RequestID: "a", PromptTokenIDs: []int32{1}})
			if q := e.NextAdd(); q.RequestID != "a" {
				t.Errorf("NextAdd() = %q, want a", q.RequestID)
			}
			e.Tokens("a", 5, 6)
			e.Finish("a", protocol.FinishLength, 7)
			if o := f.Next().Outputs[0]; o.RequestID != "a" || len(o.NewTokenIDs) != 2 || o.NewTokenIDs[1] != 6 {
				t.Errorf("Next() = %+v, want tokens 5 6 of a", o)
			}
			if o := f.Next().Outputs[0]; o.FinishReason != protocol.FinishLength {
				t.Errorf("Next() = %+v, want the end of a", o)
			}
			f.Abort("b", "c")
			if ids := e.NextAbort(); len(ids) != 2 || ids[1] != "c" {
				t.Errorf("NextAbort() = %q, want [b c]", ids)
			}
			if ids := <-e.Aborts(); len(ids) != 2 {
				t.Errorf("Aborts() = %q, want [b c]", ids)
			}
			go func() {
				call := <-e.Requests()
				e.Answer(call.(*protocol.UtilityCall), "x")
			}()
			if u := f.Call("is_sleeping", true); u.Result != "x" {
				t.Errorf("Call() = %+v, want x", u)
			}
		})
	}
}

func TestEngineEnds(t *testing.T) {
	for name, pair := range ends {
		for _, c := range []struct {
			how  string
			end  func(e *ipctest.Engine)
			want error
		}{
			{"vanishes", (*ipctest.Engine).Vanish, ipc.ErrDisconnected},
			{"dies", func(e *ipctest.Engine) { e.SendDead() }, ipc.ErrEngineDead},
		} {
			t.Run(name+"/"+c.how, func(t *testing.T) {
				e, f := pair(t)
				e.Tokens("a", 1)
				c.end(e)
				if err := f.End(); !errors.Is(err, c.want) {
					t.Errorf("End() = %v, want %v", err, c.want)
				}
				if o := f.Next(); len(o.Outputs) != 1 {
					t.Errorf("Next() = %+v, want the last output", o)
				}
			})
		}
	}
}

func TestPairLosesFrontend(t *testing.T) {
	e, f := ipctest.Pair()
	f.Close()
	var lost *ipc.LostError
	if err := <-e.Lost(); !errors.As(err, &lost) || lost.Engine >= 0 {
		t.Errorf("Lost() = %v, want the frontend", err)
	}
}
