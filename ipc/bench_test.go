package ipc

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"govllm/protocol"
)

// BenchmarkRoundTrip sends an ADD to an engine that answers with one output, so
// two messages through four goroutines, all in this process. busy goroutines
// compute meanwhile, as kernels do; procs is GOMAXPROCS beyond the cores.
//
//	go test -run - -bench RoundTrip ./ipc
func BenchmarkRoundTrip(b *testing.B) {
	for _, procs := range []int{0, Receivers} {
		for _, busy := range []int{0, runtime.NumCPU()} {
			b.Run(fmt.Sprintf("procs=cores+%d/busy=%d", procs, busy), func(b *testing.B) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU() + procs))
				defer compute(busy)()
				roundTrips(b)
			})
		}
	}
}

// compute keeps n goroutines busy until the returned function is called.
func compute(n int) (stop func()) {
	var done atomic.Bool
	var sink atomic.Uint64
	for range n {
		go func() {
			x := uint64(1)
			for !done.Load() {
				for range 1000 {
					x = x*6364136223846793005 + 1442695040888963407
				}
			}
			sink.Add(x)
		}()
	}
	return func() { done.Store(true) }
}

func roundTrips(b *testing.B) {
	ctx := context.Background()
	f, err := Listen(FrontendOptions{HandshakeAddress: "tcp://127.0.0.1:0", Log: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close(ctx)
	e, err := DialEngine(ctx, EngineOptions{HandshakeAddress: f.HandshakeAddress(), Log: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close(ctx)
	if err := e.Ready(ctx, &testRegistration); err != nil {
		b.Fatal(err)
	}
	if _, err := f.WaitReady(ctx); err != nil {
		b.Fatal(err)
	}
	answer := &protocol.EngineCoreOutputs{Timestamp: 1,
		Outputs: []protocol.EngineCoreOutput{{RequestID: "0123456789", NewTokenIDs: []int32{1}}}}
	go func() {
		for {
			select {
			case <-e.Requests():
				e.Send(0, protocol.AppendOutputs(e.Buffer(), answer))
			case <-e.closed:
				return
			}
		}
	}()
	answers := make(chan struct{}, 1)
	go f.Run(ctx, func(*protocol.EngineCoreOutputs) { answers <- struct{}{} })

	request := &protocol.EngineCoreRequest{RequestID: "0123456789", PromptTokenIDs: make([]int32, 256)}
	times := make([]time.Duration, 0, b.N)
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		f.Send(0, protocol.RequestAdd, protocol.AppendRequest(f.Buffer(), request))
		<-answers
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(0, "ns/op")
}
