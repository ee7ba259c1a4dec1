package enginecore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"govllm/protocol"
)

// beats are the messages of no step so far, in words, and fails on one that
// foreign frontends would refuse or count.
func (h *harness) beats() (all []string) {
	for {
		select {
		case m := <-h.sent:
			s := m.SchedulerStats
			if s == nil || len(m.Outputs) > 0 || s.Step.Duration > 0 {
				continue
			}
			h.checkDeltas(m)
			all = append(all, fmt.Sprintf("after step %d, step %d for %.1fs: running %d, waiting %d, arrived %d, pending %d",
				s.Step.Number, s.Step.Running, s.Step.RunningFor, s.NumRunningReqs, s.NumWaitingReqs, s.Step.NumArrived, s.Step.NumPendingTokens))
		default:
			return all
		}
	}
}

// checkDeltas fails unless a message moves gauges only.
func (h *harness) checkDeltas(m protocol.EngineCoreOutputs) {
	h.t.Helper()
	s := *m.SchedulerStats
	if m.Family() != protocol.FamilyOutputs || m.Timestamp == 0 || len(m.FinishedRequests) > 0 {
		h.t.Errorf("message of no step is %+v", m)
	}
	if s.PrefixCacheStats != (protocol.PrefixCacheStats{}) || s.SpecDecodingStats != nil || s.PerfStats != nil ||
		len(s.KVCacheEvictionEvents) > 0 || s.Step.NumPrefillTokens+s.Step.NumDecodeTokens+s.Step.Preemptions.Sum()+s.Step.NumRecomputed != 0 {
		h.t.Errorf("message of no step has deltas: %+v", s)
	}
}

// A step of 1.85 s is told of twice, with what came meanwhile; then the
// engine says every five seconds that it has nothing to do.
func TestLoopTellsOfLongSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startLoop(t, nil)
		steps := 0
		h.runner.DuringPass = func() {
			if steps++; steps == 1 {
				time.Sleep(1850 * time.Millisecond)
			}
		}
		time.Sleep(100 * time.Millisecond)
		h.add("a", 1)
		synctest.Wait()
		time.Sleep(time.Second)
		h.add("late", 1)
		time.Sleep(12 * time.Second)
		want := []string{
			"after step 0, step 1 for 0.9s: running 1, waiting 0, arrived 0, pending 0",
			"after step 0, step 1 for 1.4s: running 1, waiting 0, arrived 1, pending 0",
			"after step 2, step 0 for 0.0s: running 0, waiting 0, arrived 0, pending 0",
			"after step 2, step 0 for 0.0s: running 0, waiting 0, arrived 0, pending 0",
		}
		if got := h.beats(); !slices.Equal(got, want) {
			t.Errorf("told of\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		h.loop.Stop()
		<-h.done
	})
}

// Steps that end in time speak for themselves.
func TestLoopTellsOfNoShortStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startLoop(t, nil)
		h.runner.DuringPass = func() { time.Sleep(400 * time.Millisecond) }
		h.add("a", 50)
		time.Sleep(15 * time.Second)
		if got := h.beats(); len(got) > 0 {
			t.Errorf("told of %q, want nothing", got)
		}
		h.loop.Stop()
		<-h.done
	})
}

// A paused engine says so: requests wait, and nothing is wrong.
func TestLoopTellsOfAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startLoop(t, nil)
		h.requests <- &protocol.UtilityCall{Method: "pause_scheduler", Args: []any{"keep", false}}
		h.add("a", 1)
		time.Sleep(7 * time.Second)
		paused := 0
		for len(h.sent) > 0 {
			if s := (<-h.sent).SchedulerStats; s != nil && s.Step.Paused && s.NumWaitingReqs == 1 {
				paused++
			}
		}
		if paused < 1 {
			t.Error("no message says that the engine is paused with one request waiting")
		}
		h.loop.Stop()
		<-h.done
	})
}

// After a mass abort the gauges are at zero with the very next message.
func TestLoopTellsOfAMassAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startLoop(t, nil)
		h.runner.DuringPass = func() { time.Sleep(970 * time.Millisecond) }
		var ids protocol.Abort
		for i := range 8 {
			id := fmt.Sprint("r", i)
			h.add(id, 50)
			ids = append(ids, id)
		}
		time.Sleep(2500 * time.Millisecond)
		h.aborts <- ids
		h.requests <- ids
		time.Sleep(2 * time.Second)
		var last *protocol.SchedulerStats
		for len(h.sent) > 0 {
			if s := (<-h.sent).SchedulerStats; s != nil {
				last = s
			}
		}
		if last == nil || last.NumRunningReqs+last.NumWaitingReqs != 0 || last.KVCacheUsage != 0 || last.Step.NumLoadTokens() != 0 {
			t.Errorf("statistics after a mass abort: %+v, want all gauges at 0", last)
		}
		h.loop.Stop()
		<-h.done
	})
}
