package main

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"govllm/frontend/engineclient"
	"govllm/frontend/metrics"
	"govllm/ipc"
	"govllm/protocol"
	"govllm/test/load/system"
)

// scripted is a connection whose only engine sends the messages that Run's
// caller wants, from bytes, as a socket's reader would.
type scripted struct {
	next    chan [][]byte // nil ends
	handled chan struct{}
}

func (c *scripted) Buffer() []byte                               { return nil }
func (c *scripted) Send(int, protocol.RequestType, []byte) error { return nil }

func (c *scripted) Run(_ context.Context, deliver func(*protocol.EngineCoreOutputs)) error {
	var decoder protocol.OutputsDecoder
	clock := 0.0
	for frames := range c.next {
		m, err := decoder.Decode(frames)
		if err != nil {
			return err
		}
		clock += 0.012 // the same bytes come again, but time goes on
		m.Timestamp = clock
		if m.SchedulerStats != nil {
			m.SchedulerStats.Step.Number = uint64(clock * 1000)
		}
		deliver(m)
		c.handled <- struct{}{}
	}
	return nil
}

// decodeStep is the message of a step in which n requests got a token each,
// with the statistics that vllm-core sends or without any.
func decodeStep(n int, withStats bool) *protocol.EngineCoreOutputs {
	m := &protocol.EngineCoreOutputs{Timestamp: 1000}
	for i := range n {
		m.Outputs = append(m.Outputs, protocol.EngineCoreOutput{RequestID: requestID(i), NewTokenIDs: []int32{int32(1000 + i)}})
	}
	if withStats {
		m.SchedulerStats = &protocol.SchedulerStats{NumRunningReqs: n, NumWaitingReqs: 40, KVCacheUsage: 0.61,
			Step: protocol.StepStats{Known: true, Number: 1, Duration: 0.012, NumDecodeTokens: n, NumDecodeReqs: n,
				NumWaitingTokens: 41000, NumUncachedTokens: 30000, NumResidentTokens: 250000}}
	}
	return m
}

func requestID(i int) string {
	return fmt.Sprintf("cmpl-0123456789abcdef0123456789ab%04d-0-1234abcd", i)
}

// BenchmarkFrontendMessage is what the frontend does with a step's message from
// its bytes to the streams, with statistics and without: the difference, by
// tokens, is what statistics cost it, in processor time, which other work on the
// machine lengthens less than the clock's. B/message is the message's length.
func BenchmarkFrontendMessage(b *testing.B) {
	for _, n := range []int{1, 8, 64, 256} {
		for _, on := range []bool{false, true} {
			b.Run("outputs="+strconv.Itoa(n)+"/stats="+map[bool]string{false: "off", true: "on"}[on], func(b *testing.B) {
				benchmarkMessages(b, n, on)
			})
		}
	}
}

func benchmarkMessages(b *testing.B, n int, withStats bool) {
	conn := &scripted{next: make(chan [][]byte), handled: make(chan struct{})}
	engines := []ipc.EngineInfo{{}}
	opt := engineclient.Options{}
	if withStats {
		recorder, err := metrics.NewRegistry(nil).NewRecorder(metrics.Config{ModelName: "m", MaxModelLen: 4096, Engines: []metrics.EngineConfig{{Index: 0}}})
		if err != nil {
			b.Fatal(err)
		}
		opt.Recorder = recorder
	}
	client := engineclient.New(conn, engines, opt)
	ended := make(chan error, 1)
	go func() { ended <- client.Run(context.Background()) }()
	streams := make([]*engineclient.Stream, n)
	for i := range streams {
		var err error
		streams[i], err = client.Submit(b.Context(), &protocol.EngineCoreRequest{RequestID: requestID(i), PromptTokenIDs: []int32{1, 2, 3}}, engineclient.Meta{Arrival: time.Now()})
		if err != nil {
			b.Fatal(err)
		}
	}
	encoded := [][]byte{protocol.AppendOutputs(nil, decodeStep(n, withStats))}
	take := func() {
		conn.next <- encoded
		<-conn.handled
		for _, s := range streams {
			if _, err := s.Next(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	}
	for range 64 { // grows what is reused
		take()
	}
	b.ReportAllocs()
	before, err := system.SelfCPU()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		take()
	}
	after, err := system.SelfCPU()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64((after-before).Nanoseconds())/float64(b.N*n), "cpu-ns/token")
	b.ReportMetric(float64(len(encoded[0])), "B/message")
	close(conn.next)
	<-ended
}

// BenchmarkCoreMessage is the encoding of the same message.
func BenchmarkCoreMessage(b *testing.B) {
	for _, n := range []int{1, 8, 64, 256} {
		for _, on := range []bool{false, true} {
			b.Run("outputs="+strconv.Itoa(n)+"/stats="+map[bool]string{false: "off", true: "on"}[on], func(b *testing.B) {
				m := decodeStep(n, on)
				var buf []byte
				b.ReportAllocs()
				for b.Loop() {
					buf = protocol.AppendOutputs(buf[:0], m)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/token")
				b.ReportMetric(float64(len(buf)), "B/message")
			})
		}
	}
}
