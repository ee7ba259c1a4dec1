package stats

import (
	"math"
	"testing"

	"govllm/protocol"

	"pgregory.net/rapid"
)

// Whatever an engine reports, a request has at most one TTFT, no interval is
// negative, and where the clock is sound the parts add up.
func TestTimelineProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sound := rapid.Bool().Draw(t, "sound")
		clock := 100.0
		tick := func() float64 {
			low := 0
			if !sound {
				low = -3
			}
			clock += float64(rapid.IntRange(low, 4).Draw(t, "tick")) / 4
			return clock
		}
		var it Iteration
		tl := NewTimeline(arrival, 8, 0)
		wallSeconds, tokens, messages := 0.0, 0, 0
		for range rapid.IntRange(0, 6).Draw(t, "outputs") {
			o := &protocol.EngineCoreOutput{}
			for range rapid.IntRange(0, 3).Draw(t, "events") {
				o.Events = append(o.Events, ev(protocol.EventType(rapid.IntRange(0, 4).Draw(t, "type")), tick()))
			}
			n := rapid.IntRange(0, 2).Draw(t, "tokens")
			o.NewTokenIDs = make([]int32, n)
			if tokens += n; n > 0 {
				messages++
			}
			wallSeconds++
			tl.Output(&it, wall(wallSeconds), tick(), o)
		}
		tl.Finish(&it, wall(wallSeconds+1), protocol.FinishReason(rapid.IntRange(1, 5).Draw(t, "reason")))
		f := it.Finished[0]

		if got, want := len(it.TimeToFirstToken), min(messages, 1); got != want {
			t.Fatalf("%d messages with tokens gave %d TTFT samples, want %d", messages, got, want)
		}
		if got, want := len(it.InterTokenLatency), max(messages-1, 0); got != want {
			t.Fatalf("%d messages with tokens gave %d ITL samples, want %d", messages, got, want)
		}
		if f.NumGenerationTokens != tokens || it.NumGenerationTokens != tokens {
			t.Fatalf("%d tokens became %d in the record, %d in the iteration", tokens, f.NumGenerationTokens, it.NumGenerationTokens)
		}
		var sumITL float64
		for _, s := range it.InterTokenLatency {
			sumITL += s
		}
		for _, i := range []Interval{f.QueueTime, f.PrefillTime, f.DecodeTime, f.InferenceTime, f.TimePerOutputToken} {
			if i.Seconds < 0 || math.IsNaN(i.Seconds) {
				t.Fatalf("interval %v in %+v", i, f)
			}
		}
		if !sound || !f.DecodeTime.Known {
			return
		}
		if sumITL != f.DecodeTime.Seconds {
			t.Fatalf("ITL samples sum to %v, decode time is %v", sumITL, f.DecodeTime.Seconds)
		}
		if f.PrefillTime.Known && f.PrefillTime.Seconds+f.DecodeTime.Seconds != f.InferenceTime.Seconds && it.Anomalies == [NumAnomalies]int{} {
			t.Fatalf("prefill %v + decode %v != inference %v", f.PrefillTime, f.DecodeTime, f.InferenceTime)
		}
	})
}
