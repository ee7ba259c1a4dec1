package engineclient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"govllm/frontend/engineclient"
	"govllm/frontend/metrics"
	"govllm/protocol"
)

// watched is a client with statistics and a stall timeout of 30 s, by fake
// time.
type watched struct {
	*measured
	log  bytes.Buffer
	step uint64
}

func newWatched(t *testing.T, opt engineclient.Options) *watched {
	t.Helper()
	w := &watched{}
	opt.StallTimeout = 30 * time.Second
	opt.Logger = slog.New(slog.NewTextHandler(&w.log, nil))
	reg := metrics.NewRegistry(slog.New(slog.DiscardHandler))
	rec, err := reg.NewRecorder(metrics.Config{ModelName: "m", MaxModelLen: 1000, Engines: []metrics.EngineConfig{{}}})
	if err != nil {
		t.Fatal(err)
	}
	w.measured = &measured{&fixture{t: t, conn: newFakeConn(), ran: make(chan error, 1)}, reg, rec}
	w.startWith(1, rec, opt)
	rec.Watch(w.client.Status)
	return w
}

// said is what an engine of ours tells at the end of a step.
func (w *watched) said(running, waiting int, took time.Duration, outs ...protocol.EngineCoreOutput) {
	w.step++
	w.conn.say(&protocol.EngineCoreOutputs{Timestamp: 1, Outputs: outs, SchedulerStats: &protocol.SchedulerStats{
		NumRunningReqs: running, NumWaitingReqs: waiting,
		Step: protocol.StepStats{Known: true, Number: w.step, Duration: took.Seconds(), NumDecodeTokens: 1}}})
}

// beat is what it tells during a step.
func (w *watched) beat(running, waiting int, lasts time.Duration) {
	w.conn.say(&protocol.EngineCoreOutputs{Timestamp: 1, SchedulerStats: &protocol.SchedulerStats{
		NumRunningReqs: running, NumWaitingReqs: waiting,
		Step: protocol.StepStats{Known: true, Number: w.step, Running: w.step + 1, RunningFor: lasts.Seconds(), NumArrived: 3}}})
}

func (w *watched) checkStages(tokenizing, sent, queued, running float64) {
	w.t.Helper()
	for stage, want := range map[string]float64{"tokenizing": tokenizing, "sent": sent, "queued": queued, "running": running} {
		w.checkValue(want, "vllm:num_requests_in_flight", stage)
	}
}

// Requests are in one stage each, whatever the scheduler last showed.
func TestStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, engineclient.Options{})
		done := w.client.Preparing()
		w.client.Preparing()()
		w.checkStages(1, 0, 0, 0)
		a, b := w.submit("a", engineclient.Meta{}), w.submit("b", engineclient.Meta{})
		c := w.submit("c", engineclient.Meta{})
		done()
		done()
		w.checkStages(0, 3, 0, 0)
		w.said(1, 1, time.Millisecond, output("a", none, 1))
		w.checkStages(0, 1, 1, 1)
		w.said(2, 1, time.Millisecond)
		w.checkStages(0, 0, 1, 2)
		// The scheduler has not heard of the aborts yet.
		a.Close()
		b.Close()
		w.checkStages(0, 0, 0, 1)
		c.Close()
		w.checkStages(0, 0, 0, 0)
		w.said(0, 0, time.Millisecond)
		w.checkValue(0, "vllm:num_requests_running")
		w.checkValue(0, "vllm:num_requests_waiting")
	})
}

// Ages go by the frontend's clock, with or without messages.
func TestAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, engineclient.Options{})
		w.submit("a", engineclient.Meta{})
		check := func(message, step, token float64) {
			t.Helper()
			w.checkValue(message, "vllm:engine_last_message_age_seconds")
			w.checkValue(step, "vllm:engine_last_step_age_seconds")
			w.checkValue(token, "vllm:engine_last_token_age_seconds")
		}
		time.Sleep(2 * time.Second)
		check(2, 2, 2)
		w.said(1, 0, time.Second, output("a", none, 1))
		check(0, 0, 0)
		time.Sleep(time.Second)
		w.said(1, 0, time.Second) // a step of chunked prefill: no output
		time.Sleep(time.Second)
		check(1, 1, 2)
		w.beat(1, 4, time.Second)
		check(0, 1, 2)
		w.checkValue(4, "vllm:num_requests_waiting")
		w.checkValue(1, "vllm:engine_running_step_seconds")
		time.Sleep(time.Second)
		w.checkValue(2, "vllm:engine_running_step_seconds")
		w.checkValue(3, "vllm:num_requests_not_taken_in")
		w.said(1, 0, 2*time.Second, output("a", none, 1))
		w.checkValue(0, "vllm:engine_running_step_seconds")
		// A message of the step that has ended comes too late to count.
		w.step--
		w.beat(7, 7, time.Second)
		w.checkValue(1, "vllm:num_requests_running")
		w.checkValue(0, "vllm:engine_running_step_seconds")
		if _, n := w.value("vllm:step_scheduled_tokens"); n != 3 {
			t.Errorf("%d steps were recorded, want 3", n)
		}
	})
}

func (w *watched) checkStalled(want bool) {
	w.t.Helper()
	err := w.client.Ready()
	if stalled := errors.Is(err, engineclient.ErrEngineStalled); stalled != want {
		w.t.Errorf("Ready() = %v, want stalled: %v", err, want)
	}
	gauge := 0.0
	if want {
		gauge = 1
	}
	w.checkValue(gauge, "vllm:engine_stalled")
}

// An engine with work that completes no step for 30 s is stalled, whether it
// goes on talking or not; one log line says so, and it recovers by itself.
func TestStall(t *testing.T) {
	for _, talks := range []bool{false, true} {
		t.Run(fmt.Sprint("talks=", talks), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWatched(t, engineclient.Options{})
				time.Sleep(time.Hour) // idle: nothing is wrong
				w.checkStalled(false)
				w.submit("a", engineclient.Meta{})
				for range 29 {
					time.Sleep(time.Second)
					if talks {
						w.beat(1, 0, time.Second)
					}
				}
				w.checkStalled(false)
				time.Sleep(2 * time.Second)
				w.checkStalled(true)
				if err := w.client.Healthy(); err != nil {
					t.Errorf("Healthy() = %v, want nil: liveness is another matter", err)
				}
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if n := strings.Count(w.log.String(), "engine stalled"); n != 1 {
					t.Errorf("%d log lines of a stall, want 1:\n%s", n, w.log.String())
				}
				if talks && !strings.Contains(w.log.String(), "it has been at step 1 for") {
					t.Errorf("the log lacks the step:\n%s", w.log.String())
				}
				w.said(1, 0, 36*time.Second, output("a", none, 1))
				w.checkStalled(false)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if n := strings.Count(w.log.String(), "no longer stalled"); n != 1 {
					t.Errorf("%d log lines of recovery, want 1:\n%s", n, w.log.String())
				}
				// Steps of this length are known now: ten times as much is too long.
				time.Sleep(350 * time.Second)
				w.checkStalled(false)
				time.Sleep(10 * time.Second)
				w.checkStalled(true)
			})
		})
	}
}

// Requests of a paused engine wait for its being resumed, and its steps for
// that long again.
func TestPausedIsNotStalled(t *testing.T) {
	for _, how := range []string{"by the engine's word", "by our call"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWatched(t, engineclient.Options{})
				w.submit("a", engineclient.Meta{})
				set := func(paused bool) {
					if how == "by our call" {
						w.call(map[bool]string{true: "pause_scheduler", false: "resume_scheduler"}[paused])
						return
					}
					w.conn.say(&protocol.EngineCoreOutputs{SchedulerStats: &protocol.SchedulerStats{
						NumWaitingReqs: 1, Step: protocol.StepStats{Known: true, Paused: paused}}})
				}
				set(true)
				time.Sleep(time.Hour)
				w.checkStalled(false)
				set(false)
				time.Sleep(29 * time.Second)
				w.checkStalled(false)
				time.Sleep(2 * time.Second)
				w.checkStalled(true)
			})
		})
	}
}

// call makes a utility call and answers it as the engine.
func (w *watched) call(method string, args ...any) {
	w.t.Helper()
	w.conn.takeSent()
	failed := make(chan error, 1)
	go func() {
		_, err := w.client.Utility(context.Background(), method, args...)
		failed <- err
	}()
	w.conn.waitSent(1)
	var id uint64
	fmt.Sscanf(w.conn.takeSent()[0], "0: UTILITY %d", &id)
	w.conn.say(&protocol.EngineCoreOutputs{UtilityOutput: &protocol.UtilityOutput{CallID: protocol.CallID{Bits: id}}})
	if err := <-failed; err != nil {
		w.t.Fatalf("utility %s: %v", method, err)
	}
}

func TestSleepState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, engineclient.Options{})
		check := func(awake, offloaded, discarded float64) {
			t.Helper()
			w.checkValue(awake, "vllm:engine_sleep_state", "awake")
			w.checkValue(offloaded, "vllm:engine_sleep_state", "weights_offloaded")
			w.checkValue(discarded, "vllm:engine_sleep_state", "discard_all")
		}
		check(1, 0, 0)
		w.call("sleep", 1, "abort")
		check(0, 1, 0)
		w.call("sleep", 2)
		check(0, 0, 1)
		w.call("wake_up", nil)
		check(1, 0, 0)
	})
}

// With StallFailsHealth an orchestrator restarts what hangs.
func TestStallFailsHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, engineclient.Options{StallFailsHealth: true})
		w.submit("a", engineclient.Meta{})
		time.Sleep(31 * time.Second)
		if err := w.client.Healthy(); !errors.Is(err, engineclient.ErrEngineStalled) {
			t.Errorf("Healthy() = %v, want a stall", err)
		}
	})
}

// vLLM's engines number no steps: every message of theirs is one.
func TestStallOfAForeignEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, engineclient.Options{})
		w.submit("a", engineclient.Meta{})
		time.Sleep(2 * time.Second)
		w.conn.say(&protocol.EngineCoreOutputs{Timestamp: 1, SchedulerStats: &protocol.SchedulerStats{NumRunningReqs: 1}})
		time.Sleep(29 * time.Second)
		w.checkStalled(false)
		time.Sleep(2 * time.Second)
		w.checkStalled(true)
		w.conn.say(outputs(2, output("a", length, 1)))
		w.checkStalled(false)
		time.Sleep(time.Hour)
		w.checkStalled(false)
	})
}

// A dead engine runs nothing, whatever it said last.
func TestGaugesOfADeadEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, engineclient.Options{})
		w.submit("a", engineclient.Meta{})
		w.said(1, 5, time.Second)
		w.checkValue(5, "vllm:num_requests_waiting")
		w.conn.lost <- errors.New("gone")
		<-w.ran
		w.checkValue(0, "vllm:num_requests_waiting")
		w.checkValue(0, "vllm:num_requests_running")
		w.checkStages(0, 0, 0, 0)
		if err := w.client.Ready(); !errors.Is(err, engineclient.ErrEngineDead) {
			t.Errorf("Ready() = %v, want that the engine is dead", err)
		}
	})
}

// The whole life of a request: from arrival to its ADD, and from a message to
// the bytes that were written for it.
func TestHandlingTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, engineclient.Options{})
		arrival := time.Now()
		time.Sleep(30 * time.Millisecond)
		s := w.submit("a", engineclient.Meta{Arrival: arrival})
		w.checkHistogram("vllm:request_preparation_time_seconds", 0.03, 1)
		s.Delivered() // nothing yet
		w.said(1, 0, time.Second, output("a", none, 1))
		time.Sleep(time.Second)
		w.said(1, 0, time.Second, output("a", none, 2))
		time.Sleep(time.Second)
		next(s) // both: the older is two seconds old
		s.Delivered()
		s.Delivered()
		w.checkHistogram("vllm:output_delivery_time_seconds", 2, 1)
		w.said(0, 0, time.Second, output("a", length, 3))
		next(s)
		time.Sleep(time.Second / 2)
		s.Delivered()
		w.checkHistogram("vllm:output_delivery_time_seconds", 2.5, 2)
	})
}
