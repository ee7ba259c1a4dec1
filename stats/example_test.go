package stats_test

import (
	"fmt"
	"time"

	"govllm/protocol"
	"govllm/stats"
)

// A request waits half a second, prefills for a quarter, and makes two tokens
// a tenth apart.
func ExampleTimeline() {
	arrival := time.Now()
	var it stats.Iteration
	t := stats.NewTimeline(arrival, 5, 2)
	t.Output(&it, arrival.Add(800*time.Millisecond), 10.75, &protocol.EngineCoreOutput{
		NewTokenIDs: []int32{17},
		Events: []protocol.EngineCoreEvent{
			{Type: protocol.EventQueued, Timestamp: 10},
			{Type: protocol.EventScheduled, Timestamp: 10.5},
		},
	})
	t.Output(&it, arrival.Add(900*time.Millisecond), 10.85, &protocol.EngineCoreOutput{NewTokenIDs: []int32{4}})
	t.Finish(&it, arrival.Add(900*time.Millisecond), protocol.FinishLength)

	f := it.Finished[0]
	fmt.Println("TTFT", it.TimeToFirstToken[0], "e2e", f.E2ELatency)
	fmt.Println("queue", f.QueueTime.Seconds, "prefill", f.PrefillTime.Seconds)
	fmt.Printf("decode %.2f\n", f.DecodeTime.Seconds)
	// Output:
	// TTFT 0.8 e2e 0.9
	// queue 0.5 prefill 0.25
	// decode 0.10
}
