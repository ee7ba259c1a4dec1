package enginecore_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"govllm/enginecore"
	"govllm/enginecore/coretest"
	"govllm/enginecore/sched"
	"govllm/protocol"
)

// fakeConn is a connection in memory. Sent payloads are decoded at once.
type fakeConn struct {
	t        *testing.T
	requests chan protocol.FrontendMessage
	aborts   chan protocol.Abort
	lost     chan error
	sent     chan protocol.EngineCoreOutputs
	dead     bool
}

func newFakeConn(t *testing.T) *fakeConn {
	return &fakeConn{
		t:        t,
		requests: make(chan protocol.FrontendMessage, 100),
		aborts:   make(chan protocol.Abort, 100),
		lost:     make(chan error, 1),
		sent:     make(chan protocol.EngineCoreOutputs, 1000),
	}
}

func (c *fakeConn) Requests() <-chan protocol.FrontendMessage { return c.requests }
func (c *fakeConn) Aborts() <-chan protocol.Abort             { return c.aborts }
func (c *fakeConn) Lost() <-chan error                        { return c.lost }
func (c *fakeConn) Buffer() []byte                            { return nil }
func (c *fakeConn) SendDead()                                 { c.dead = true }

func (c *fakeConn) Send(client int, payload []byte) error {
	if client != 0 {
		c.t.Errorf("Send(%d) to a client that does not exist", client)
	}
	var d protocol.OutputsDecoder
	o, err := d.Decode([][]byte{payload})
	if err != nil {
		c.t.Errorf("Send(%x): %v", payload, err)
		return err
	}
	c.sent <- *o
	return nil
}

// harness is a loop over a fake connection and a fake runner.
type harness struct {
	*fakeConn
	loop   *enginecore.Loop
	runner *coretest.Runner
	log    *bytes.Buffer
	done   chan error
}

func startLoop(t *testing.T, logTo io.Writer) *harness {
	cfg := sched.DefaultConfig()
	cfg.NumBlocks, cfg.MaxModelLen, cfg.MaxNumSeqs = 33, 100, 4
	h := &harness{fakeConn: newFakeConn(t), log: &bytes.Buffer{}, done: make(chan error, 1)}
	h.runner = coretest.NewRunner(cfg.NumBlocks, cfg.BlockSize, 1000)
	start := time.Now()
	core, err := enginecore.NewCore(enginecore.Config{Sched: cfg, VocabSize: 1000}, h.runner,
		func() float64 { return time.Since(start).Seconds() })
	if err != nil {
		t.Fatal(err)
	}
	if logTo == nil {
		logTo = h.log
	}
	h.loop = enginecore.NewLoop(core, h.fakeConn, slog.New(slog.NewTextHandler(logTo, nil)))
	go func() { h.done <- h.loop.Run() }()
	return h
}

func (h *harness) add(id string, maxTokens int) {
	p := protocol.DefaultSamplingParams()
	p.MaxTokens = &maxTokens
	h.requests <- &protocol.EngineCoreRequest{RequestID: id, PromptTokenIDs: []int32{1, 2, 3}, SamplingParams: &p}
}

// outcome gathers everything sent so far, by request: tokens and the end.
type outcome struct {
	tokens int
	why    protocol.FinishReason
}

func (h *harness) outcomes() map[string]outcome {
	got := map[string]outcome{}
	for {
		select {
		case m := <-h.sent:
			for _, out := range m.Outputs {
				o := got[out.RequestID]
				if o.why != protocol.FinishNone {
					h.t.Errorf("output for %q after it ended", out.RequestID)
				}
				got[out.RequestID] = outcome{o.tokens + len(out.NewTokenIDs), out.FinishReason}
			}
		default:
			return got
		}
	}
}

func (h *harness) want(id string, got map[string]outcome, want outcome) {
	h.t.Helper()
	if got[id] != want {
		h.t.Errorf("outcome of %q = %+v, want %+v", id, got[id], want)
	}
}

// TestLoopServes follows requests from their ADD to their end, a broken one
// among them.
func TestLoopServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startLoop(t, nil)
		h.add("a", 5)
		h.add("b", 2)
		h.requests <- &protocol.EngineCoreRequest{RequestID: "empty"}
		h.requests <- &protocol.FieldError{Message: "EngineCoreRequest", Type: protocol.RequestAdd, RequestID: "damaged", Reason: "want an int"}
		synctest.Wait() // it waits for work: everything is done
		got := h.outcomes()
		h.want("a", got, outcome{5, protocol.FinishLength})
		h.want("b", got, outcome{2, protocol.FinishLength})
		h.want("empty", got, outcome{0, protocol.FinishError})
		h.want("damaged", got, outcome{0, protocol.FinishError})
		h.loop.Stop()
		if err := <-h.done; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
		for _, reason := range []string{"sampling_params is missing", "want an int"} {
			if !strings.Contains(h.log.String(), reason) {
				t.Errorf("log lacks %q:\n%s", reason, h.log)
			}
		}
	})
}

// TestLoopAbortsDuringStep: an abort that comes while the device works frees
// the request at the end of that step, and nothing is sent for it.
func TestLoopAbortsDuringStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startLoop(t, nil)
		steps := 0
		h.runner.DuringPass = func() {
			if steps++; steps == 3 {
				h.aborts <- protocol.Abort{"a"}
				h.requests <- protocol.Abort{"a"}
			}
		}
		h.add("a", 50)
		synctest.Wait()
		h.want("a", h.outcomes(), outcome{2, protocol.FinishNone})
		if steps != 3 {
			t.Errorf("%d steps, want 3", steps)
		}
		h.loop.Stop()
		<-h.done
	})
}

// TestLoopEarlyAbortOfOldID: the early copy of an abort must not hit a request
// that uses the ID again.
func TestLoopEarlyAbortOfOldID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startLoop(t, nil)
		h.aborts <- protocol.Abort{"a"}
		h.requests <- protocol.Abort{"a"}
		h.add("a", 3)
		synctest.Wait()
		h.want("a", h.outcomes(), outcome{3, protocol.FinishLength})
		h.loop.Stop()
		<-h.done
	})
}

// slowly makes every step take a second of fake time.
func (h *harness) slowly() { h.runner.DuringPass = func() { time.Sleep(time.Second) } }

func TestLoopStopAbortsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startLoop(t, nil)
		h.slowly()
		h.add("a", 90)
		synctest.Wait() // the first step is under way
		h.add("b", 90)
		time.Sleep(10500 * time.Millisecond)
		h.loop.Stop()
		if err := <-h.done; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
		got := h.outcomes()
		h.want("a", got, outcome{11, protocol.FinishAbort})
		h.want("b", got, outcome{10, protocol.FinishAbort})
		if h.loop.State() != enginecore.Stopped || h.dead {
			t.Errorf("state %v, dead %v, want stopped, false", h.loop.State(), h.dead)
		}
	})
}

func TestLoopDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startLoop(t, nil)
		h.slowly()
		h.add("a", 20)
		time.Sleep(5500 * time.Millisecond)
		h.loop.Drain()
		time.Sleep(time.Second)
		h.add("late", 1)
		h.requests <- &protocol.UtilityCall{Method: "is_sleeping"}
		if err := <-h.done; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
		close(h.sent)
		failed := false
		got := map[string]outcome{}
		for m := range h.sent {
			if u := m.UtilityOutput; u != nil {
				failed = strings.Contains(u.Failure, "Server shutting down")
			}
			for _, out := range m.Outputs {
				got[out.RequestID] = outcome{got[out.RequestID].tokens + len(out.NewTokenIDs), out.FinishReason}
			}
		}
		h.want("a", got, outcome{20, protocol.FinishLength})
		h.want("late", got, outcome{0, protocol.FinishAbort})
		if !failed {
			t.Error("a utility call was answered while draining")
		}
	})
}

// TestLoopStopsWhileDraining: the second signal.
func TestLoopStopsWhileDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startLoop(t, nil)
		h.slowly()
		h.add("a", 90)
		synctest.Wait()
		h.loop.Drain()
		h.loop.Drain()
		time.Sleep(5500 * time.Millisecond)
		h.loop.Stop()
		if err := <-h.done; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
		h.want("a", h.outcomes(), outcome{6, protocol.FinishAbort})
	})
}

func TestLoopDies(t *testing.T) {
	boom := errors.New("device on fire")
	for name, prepare := range map[string]func(*coretest.Runner){
		"error": func(r *coretest.Runner) { r.Err = boom },
		"panic": func(r *coretest.Runner) { r.DuringPass = func() { panic(boom) } },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := startLoop(t, nil)
				prepare(h.runner)
				h.add("a", 5)
				err := <-h.done
				if err == nil || !strings.Contains(err.Error(), boom.Error()) {
					t.Errorf("Run() = %v, want %v", err, boom)
				}
				if !h.dead {
					t.Error("no ENGINE_CORE_DEAD was sent")
				}
				if !strings.Contains(h.log.String(), boom.Error()) {
					t.Errorf("log lacks %q:\n%s", boom, h.log)
				}
			})
		})
	}
}

// TestLoopLost: the process must end within 5 seconds of its frontend, even if
// a step takes longer.
func TestLoopLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startLoop(t, nil)
		h.runner.DuringPass = func() { time.Sleep(time.Minute) }
		h.add("a", 5)
		synctest.Wait()
		gone := errors.New("frontend gone")
		start := time.Now()
		h.lost <- gone
		if err := <-h.done; !errors.Is(err, gone) {
			t.Errorf("Run() = %v, want %v", err, gone)
		}
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("Run returned after %v, want 5s at most", d)
		}
		time.Sleep(2 * time.Minute) // the step ends, and with it the goroutine
	})
}

// TestLoopNotesPriorities: under fcfs a priority changes nothing, and the log
// says so once.
func TestLoopNotesPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startLoop(t, nil)
		h.add("a", 1)
		p := protocol.DefaultSamplingParams()
		for _, id := range []string{"b", "c"} {
			h.requests <- &protocol.EngineCoreRequest{RequestID: id, PromptTokenIDs: []int32{1}, Priority: 3, SamplingParams: &p}
		}
		synctest.Wait()
		h.loop.Drain()
		if err := <-h.done; err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(h.log.String(), "--scheduling-policy priority"); n != 1 || !strings.Contains(h.log.String(), "request=b priority=3") {
			t.Errorf("priorities are noted %d times, want once, for b:\n%s", n, h.log)
		}
	})
}

// TestLoopWaitsForNoLog: a log that nobody reads stops neither the requests nor
// the end.
func TestLoopWaitsForNoLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		h := startLoop(t, w)
		for range 2000 {
			h.requests <- &protocol.EngineCoreRequest{RequestID: "broken"}
			<-h.sent
		}
		h.add("a", 3)
		synctest.Wait()
		h.want("a", h.outcomes(), outcome{3, protocol.FinishLength})
		h.loop.Stop()
		if err := <-h.done; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
		r.Close()
	})
}
