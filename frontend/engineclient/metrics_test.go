package engineclient_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"govllm/frontend/engineclient"
	"govllm/frontend/metrics"
	"govllm/protocol"
	"govllm/stats"
)

// measured is a client whose statistics end in real metrics.
type measured struct {
	*fixture
	reg *metrics.Registry
	rec *metrics.Recorder
}

func newMeasured(t *testing.T, numEngines int) *measured {
	t.Helper()
	reg := metrics.NewRegistry(slog.New(slog.DiscardHandler))
	config := metrics.Config{ModelName: "m", MaxModelLen: 1000}
	for i := range numEngines {
		config.Engines = append(config.Engines, metrics.EngineConfig{Index: i})
	}
	rec, err := reg.NewRecorder(config)
	if err != nil {
		t.Fatal(err)
	}
	m := &measured{&fixture{t: t, conn: newFakeConn(), ran: make(chan error, 1)}, reg, rec}
	m.start(numEngines, rec)
	return m
}

// value sums a metric over its series that have the given label values; of a
// histogram it returns the sum and the count.
func (m *measured) value(name string, labels ...string) (v float64, count uint64) {
	m.t.Helper()
	families, err := m.reg.Gather()
	if err != nil {
		m.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, series := range f.GetMetric() {
			has := map[string]bool{}
			for _, l := range series.GetLabel() {
				has[l.GetValue()] = true
			}
			wanted := true
			for _, l := range labels {
				wanted = wanted && has[l]
			}
			if wanted {
				v += series.GetCounter().GetValue() + series.GetGauge().GetValue() + series.GetHistogram().GetSampleSum()
				count += series.GetHistogram().GetSampleCount()
			}
		}
	}
	return v, count
}

func (m *measured) checkHistogram(name string, sum float64, count uint64) {
	m.t.Helper()
	if s, n := m.value(name); math.Abs(s-sum) > 1e-9 || n != count {
		m.t.Errorf("%s: sum %v count %d, want %v and %d", name, s, n, sum, count)
	}
}

func (m *measured) checkValue(want float64, name string, labels ...string) {
	m.t.Helper()
	if v, _ := m.value(name, labels...); v != want {
		m.t.Errorf("%s %v = %v, want %v", name, labels, v, want)
	}
}

// serve plays one request through engine 0: it waits queue in the queue,
// prefills and then makes a token every tick, by an engine's clock that has
// nothing to do with the frontend's.
func (m *measured) serve(id string, arrival time.Time, numPrompt, maxTokens int, queue, prefill, tick time.Duration) *engineclient.Stream {
	req := request(id, numPrompt)
	req.SamplingParams.MaxTokens = &maxTokens
	s, err := m.client.Submit(context.Background(), req, engineclient.Meta{Arrival: arrival})
	if err != nil {
		m.t.Fatal(err)
	}
	at := 5000.0
	o := output(id, none, 1)
	o.Events = []protocol.EngineCoreEvent{{Type: protocol.EventQueued, Timestamp: at}, {Type: protocol.EventScheduled, Timestamp: at + queue.Seconds()}}
	o.PrefillStats = &protocol.PrefillStats{NumPromptTokens: numPrompt, NumComputedTokens: numPrompt}
	time.Sleep(queue + prefill) // fake time
	at += (queue + prefill).Seconds()
	for i := range maxTokens {
		if i > 0 {
			o = output(id, none, 1)
			time.Sleep(tick)
			at += tick.Seconds()
		}
		if i == maxTokens-1 {
			o.FinishReason = length
		}
		m.conn.say(outputs(at, o))
	}
	return s
}

// What vLLM's own test of its metrics expects of ten completions, one after
// the other, of P prompt tokens and max_tokens 10.
func TestOracle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeasured(t, 1)
		const P = 37
		const queue, prefill, tick = 100 * time.Millisecond, 200 * time.Millisecond, 50 * time.Millisecond
		const beforeSubmit = 25 * time.Millisecond // tokenizing
		for i := range 10 {
			arrival := time.Now()
			time.Sleep(beforeSubmit)
			m.serve(fmt.Sprint("r", i), arrival, P, 10, queue, prefill, tick).Close()
		}
		decode := 9 * tick
		for _, h := range []struct {
			name  string
			sum   time.Duration // of ten
			count uint64
		}{
			{"vllm:time_to_first_token_seconds", 10 * (beforeSubmit + queue + prefill), 10},
			{"vllm:inter_token_latency_seconds", 10 * decode, 90},
			{"vllm:e2e_request_latency_seconds", 10 * (beforeSubmit + queue + prefill + decode), 10},
			{"vllm:request_queue_time_seconds", 10 * queue, 10},
			{"vllm:request_prefill_time_seconds", 10 * prefill, 10},
			{"vllm:request_decode_time_seconds", 10 * decode, 10},
			{"vllm:request_inference_time_seconds", 10 * (prefill + decode), 10},
			{"vllm:request_time_per_output_token_seconds", 10 * tick, 10},
		} {
			m.checkHistogram(h.name, h.sum.Seconds(), h.count)
		}
		m.checkHistogram("vllm:request_prompt_tokens", 10*P, 10)
		m.checkHistogram("vllm:request_generation_tokens", 100, 10)
		m.checkHistogram("vllm:request_max_num_generation_tokens", 100, 10)
		m.checkHistogram("vllm:request_params_n", 10, 10)
		m.checkHistogram("vllm:request_params_max_tokens", 100, 10)
		m.checkHistogram("vllm:request_prefill_kv_computed_tokens", 10*P, 10)
		m.checkHistogram("vllm:request_num_preemptions", 0, 10)
		m.checkHistogram("vllm:iteration_tokens_total", 10*(P+10), 100)
		m.checkValue(10*P, "vllm:prompt_tokens_total")
		m.checkValue(10*P, "vllm:prompt_tokens_by_source_total", "local_compute")
		m.checkValue(100, "vllm:generation_tokens_total")
		m.checkValue(10, "vllm:request_success_total", "length")
		m.checkValue(10, "vllm:request_success_total")
		m.checkValue(0, "vllm:stats_anomalies_total")
	})
}

// Five streams whose clients leave after the first bytes: five aborts, and
// the histograms agree with the token counters. Two more leave before a token
// came: aborts as well, without TTFT or phases.
func TestAbortsAreCounted(t *testing.T) {
	m := newMeasured(t, 1)
	for i := range 5 {
		id := fmt.Sprint("r", i)
		s := m.submit(id, engineclient.Meta{})
		o := output(id, none, 1, 2)
		o.Events = []protocol.EngineCoreEvent{{Type: protocol.EventQueued, Timestamp: 1}, {Type: protocol.EventScheduled, Timestamp: 2}}
		o.PrefillStats = &protocol.PrefillStats{NumPromptTokens: 4, NumComputedTokens: 4}
		m.conn.say(outputs(4, o))
		s.Close()
		s.Close()
		m.conn.say(outputs(5, output(id, none, 3), output(id, abort))) // late
	}
	m.submit("x", engineclient.Meta{}).Close()
	m.submit("y", engineclient.Meta{}).Close()

	m.checkValue(7, "vllm:request_success_total", "abort")
	m.checkValue(7, "vllm:request_success_total")
	m.checkValue(20, "vllm:prompt_tokens_total")
	m.checkValue(10, "vllm:generation_tokens_total")
	m.checkHistogram("vllm:request_generation_tokens", 10, 7)
	m.checkHistogram("vllm:request_prompt_tokens", 28, 7)
	m.checkHistogram("vllm:request_queue_time_seconds", 5, 5)
	m.checkHistogram("vllm:request_prefill_time_seconds", 10, 5)
	m.checkHistogram("vllm:request_decode_time_seconds", 0, 0)
	m.checkHistogram("vllm:request_inference_time_seconds", 0, 0)
	m.checkHistogram("vllm:request_time_per_output_token_seconds", 0, 0)
	for _, name := range []string{"vllm:e2e_request_latency_seconds", "vllm:request_params_n", "vllm:request_num_preemptions"} {
		if _, n := m.value(name); n != 7 {
			t.Errorf("%s_count = %d, want 7", name, n)
		}
	}
	if _, n := m.value("vllm:time_to_first_token_seconds"); n != 5 {
		t.Errorf("vllm:time_to_first_token_seconds_count = %d, want 5: those that produced a token", n)
	}
}

// An abort counts once per sequence, whoever decides it and however often, in
// e2e and the token histograms too, and in no phase that it cut short.
func TestWaysToAbort(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(m *measured, streams []*engineclient.Stream)
	}{
		{"the client disconnects", func(_ *measured, streams []*engineclient.Stream) {
			for _, s := range streams {
				s.Close()
				s.Close()
			}
		}},
		{"a time limit passes", func(_ *measured, streams []*engineclient.Stream) {
			for _, s := range streams {
				s.Finish(abort)
				s.Close()
			}
		}},
		{"the frontend shuts down", func(m *measured, streams []*engineclient.Stream) {
			m.client.AbortAll()
			m.client.AbortAll()
			for _, s := range streams {
				next(s)
				s.Close()
			}
		}},
		{"the engine shuts down", func(m *measured, streams []*engineclient.Stream) {
			for i := range streams {
				m.conn.say(outputs(9, output(fmt.Sprint("r", i), abort)))
			}
			m.client.AbortAll()
			for _, s := range streams {
				s.Close()
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMeasured(t, 1)
			parent := engineclient.NewParent(3)
			var streams []*engineclient.Stream
			for i := range 3 {
				streams = append(streams, m.submit(fmt.Sprint("r", i), engineclient.Meta{Parent: parent}))
			}
			o := output("r0", none, 1, 2)
			o.Events = []protocol.EngineCoreEvent{{Type: protocol.EventQueued, Timestamp: 1}, {Type: protocol.EventScheduled, Timestamp: 2}}
			o.PrefillStats = &protocol.PrefillStats{NumPromptTokens: 4, NumComputedTokens: 4}
			m.conn.say(outputs(4, o))
			tt.end(m, streams)

			m.checkValue(3, "vllm:request_success_total", "abort")
			m.checkValue(3, "vllm:request_success_total")
			m.checkHistogram("vllm:request_prompt_tokens", 12, 3)
			m.checkHistogram("vllm:request_generation_tokens", 2, 3)
			m.checkHistogram("vllm:request_params_n", 3, 1)
			m.checkHistogram("vllm:request_max_num_generation_tokens", 2, 1)
			for name, count := range map[string]uint64{
				"vllm:e2e_request_latency_seconds": 3, "vllm:time_to_first_token_seconds": 1,
				"vllm:request_queue_time_seconds": 1, "vllm:request_prefill_time_seconds": 1, "vllm:request_decode_time_seconds": 0,
				"vllm:request_inference_time_seconds": 0, "vllm:request_time_per_output_token_seconds": 0,
			} {
				if _, n := m.value(name); n != count {
					t.Errorf("%s_count = %d, want %d", name, n, count)
				}
			}
			m.checkValue(0, "vllm:admission_rejections_total")
		})
	}
}

// A request that is refused counts by reason and enters nothing else.
func TestRejectionsEnterNothingElse(t *testing.T) {
	m := newMeasured(t, 1)
	m.rec.Reject(stats.RejectedByRequests)
	m.rec.Reject(stats.RejectedByTokens)
	m.rec.Reject(stats.RejectedByTokens)
	m.client.AbortAll() // shutting down: the next is refused
	if _, err := m.client.Submit(context.Background(), request("late", 4), engineclient.Meta{Arrival: time.Now()}); err == nil {
		t.Fatal("a request was taken during shutdown")
	}
	m.checkValue(1, "vllm:admission_rejections_total", "max_num_queued_reqs")
	m.checkValue(2, "vllm:admission_rejections_total", "max_num_queued_tokens")
	m.checkValue(0, "vllm:request_success_total")
	for _, name := range []string{"vllm:e2e_request_latency_seconds", "vllm:request_prompt_tokens", "vllm:request_params_n",
		"vllm:request_preparation_time_seconds"} {
		if _, n := m.value(name); n != 0 {
			t.Errorf("%s_count = %d, want 0", name, n)
		}
	}
}

// n = 3: one parent, three children, each with its own TTFT.
func TestParallelSamplingMetrics(t *testing.T) {
	m := newMeasured(t, 1)
	parent := engineclient.NewParent(3)
	for i := range 3 {
		m.submit(engineclient.ChildRequestID(i, "p"), engineclient.Meta{Parent: parent})
	}
	m.conn.say(outputs(1, output("0_p", stop, 1), output("1_p", stop, 1, 2), output("2_p", length, 1, 2, 3, 4, 5)))
	m.checkHistogram("vllm:request_params_n", 3, 1)
	m.checkHistogram("vllm:request_max_num_generation_tokens", 5, 1)
	m.checkHistogram("vllm:request_generation_tokens", 8, 3)
	m.checkHistogram("vllm:request_params_max_tokens", 48, 3)
	m.checkValue(3, "vllm:request_success_total")
	if _, n := m.value("vllm:time_to_first_token_seconds"); n != 3 {
		t.Errorf("vllm:time_to_first_token_seconds_count = %d, want 3", n)
	}
}

// Three sequences of one request, each with a timeline of its own, worked out
// by hand; the client leaves while the third is in decode.
//
//	engine clock   100    101  101.5  103        104        106
//	first          queued sched.      token      token      token, length
//	second         queued      sched.            token      token, stop
//	third          queued             scheduled             token
//	wall, from arrival                4          5          7          left at 9
func TestParallelSamplingTimelines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeasured(t, 1)
		parent, arrival := engineclient.NewParent(3), time.Now()
		var streams []*engineclient.Stream
		for i := range 3 {
			streams = append(streams, m.submit(engineclient.ChildRequestID(i, "p"), engineclient.Meta{Parent: parent, Arrival: arrival}))
		}
		first := func(id string, scheduled float64) protocol.EngineCoreOutput {
			o := output(id, none, 1)
			o.Events = []protocol.EngineCoreEvent{{Type: protocol.EventQueued, Timestamp: 100}, {Type: protocol.EventScheduled, Timestamp: scheduled}}
			return o
		}
		time.Sleep(4 * time.Second)
		m.conn.say(outputs(103, first("0_p", 101)))
		time.Sleep(time.Second)
		m.conn.say(outputs(104, output("0_p", none, 2), first("1_p", 101.5)))
		time.Sleep(2 * time.Second)
		m.conn.say(outputs(106, output("0_p", length, 3), output("1_p", stop, 2), first("2_p", 103)))
		time.Sleep(2 * time.Second)
		streams[2].Close()

		for _, h := range []struct {
			name  string
			sum   float64
			count uint64
		}{
			{"vllm:time_to_first_token_seconds", 4 + 5 + 7, 3},
			{"vllm:inter_token_latency_seconds", 1 + 2 + 2, 3},
			{"vllm:e2e_request_latency_seconds", 7 + 7 + 9, 3},
			{"vllm:request_queue_time_seconds", 1 + 1.5 + 3, 3},
			{"vllm:request_prefill_time_seconds", 2 + 2.5 + 3, 3},
			{"vllm:request_decode_time_seconds", 3 + 2, 2},
			{"vllm:request_inference_time_seconds", 5 + 4.5, 2},
			{"vllm:request_time_per_output_token_seconds", 1.5 + 2, 2},
			{"vllm:request_prompt_tokens", 12, 3},
			{"vllm:request_generation_tokens", 3 + 2 + 1, 3},
			{"vllm:request_max_num_generation_tokens", 3, 1},
			{"vllm:request_params_n", 3, 1},
		} {
			m.checkHistogram(h.name, h.sum, h.count)
		}
		for reason, n := range map[string]float64{"length": 1, "stop": 1, "abort": 1} {
			m.checkValue(n, "vllm:request_success_total", reason)
		}
		m.checkValue(6, "vllm:generation_tokens_total")
	})
}

// With several engines each request and each step is its own engine's.
func TestEngineLabel(t *testing.T) {
	m := newMeasured(t, 3)
	for i := range 6 {
		m.submit(fmt.Sprint("r", i), engineclient.Meta{})
	}
	for _, line := range m.conn.takeSent() {
		engine, id, _ := strings.Cut(line, ": ADD ")
		var index int
		fmt.Sscan(engine, &index)
		m.conn.say(&protocol.EngineCoreOutputs{EngineIndex: index, Timestamp: 1,
			Outputs:        []protocol.EngineCoreOutput{output(id, length, 1)},
			SchedulerStats: &protocol.SchedulerStats{NumRunningReqs: 10 + index}})
	}
	for i, engine := range []string{"0", "1", "2"} {
		m.checkValue(2, "vllm:request_success_total", engine)
		m.checkValue(2, "vllm:generation_tokens_total", engine)
		m.checkValue(float64(10+i), "vllm:num_requests_running", engine)
	}
}

// Statistics add no allocation to a decode step, and neither does the reader.
func TestDecodeStepAllocatesNothing(t *testing.T) {
	for name, rec := range map[string]engineclient.Recorder{"recorder": realRecorder(t), "no recorder": nil} {
		d := newDecoder(t, rec, 64)
		d.step()
		d.step()
		if n := testing.AllocsPerRun(50, d.step); n != 0 {
			t.Errorf("%s: a decode step of 64 requests allocates %v times, want 0", name, n)
		}
	}
}

func realRecorder(t testing.TB) engineclient.Recorder {
	rec, err := metrics.NewRegistry(nil).NewRecorder(metrics.Config{ModelName: "m", MaxModelLen: 1000, Engines: []metrics.EngineConfig{{}}})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// decoder plays decode steps into a client's reader.
type decoder struct {
	deliver func(*protocol.EngineCoreOutputs)
	message protocol.EngineCoreOutputs
	streams []*engineclient.Stream
	ctx     context.Context
}

func newDecoder(t testing.TB, rec engineclient.Recorder, numSeqs int) *decoder {
	conn := &captureConn{deliver: make(chan func(*protocol.EngineCoreOutputs), 1)}
	client := engineclient.New(conn, ranks(1), engineclient.Options{Recorder: rec})
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error)
	go func() { ran <- client.Run(ctx) }()
	d := &decoder{deliver: <-conn.deliver, ctx: ctx}
	t.Cleanup(func() {
		cancel()
		<-ran
	})
	d.message.SchedulerStats = &protocol.SchedulerStats{NumRunningReqs: numSeqs, Step: protocol.StepStats{Known: true}}
	for i := range numSeqs {
		id := fmt.Sprint("request-", i)
		s, err := client.Submit(ctx, request(id, 4), engineclient.Meta{Arrival: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		d.streams = append(d.streams, s)
		d.message.Outputs = append(d.message.Outputs, output(id, none, 1))
	}
	return d
}

// step delivers a token to every request and takes it.
func (d *decoder) step() {
	d.message.Timestamp += 0.01
	d.message.SchedulerStats.Step.Number++
	d.deliver(&d.message)
	for _, s := range d.streams {
		if _, err := s.Next(d.ctx); err != nil {
			panic(err)
		}
	}
}

// captureConn gives the reader's function away.
type captureConn struct {
	deliver chan func(*protocol.EngineCoreOutputs)
}

func (c *captureConn) Buffer() []byte { return nil }

func (c *captureConn) Send(int, protocol.RequestType, []byte) error { return nil }

func (c *captureConn) Run(ctx context.Context, deliver func(*protocol.EngineCoreOutputs)) error {
	c.deliver <- deliver
	<-ctx.Done()
	return io.EOF
}

// cpuTime is this process's: where others share the machine, it tells more than
// the clock.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkDecodeStep(b *testing.B) {
	for _, stat := range []string{"on", "off"} {
		for _, seqs := range []int{1, 256} {
			b.Run(fmt.Sprintf("stats=%s/seqs=%d", stat, seqs), func(b *testing.B) {
				var rec engineclient.Recorder
				if stat == "on" {
					rec = realRecorder(b)
				}
				d := newDecoder(b, rec, seqs)
				runtime.GC()
				b.ReportAllocs()
				before := cpuTime(b)
				for b.Loop() {
					d.step()
				}
				b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(b.N*seqs), "cpu-ns/token")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*seqs), "ns/token")
			})
		}
	}
}
