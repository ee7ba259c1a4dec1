package enginecore_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"govllm/enginecore"
	"govllm/enginecore/internal/invariants"
	"govllm/enginecore/request"
	"govllm/enginecore/sched"
	"govllm/enginecore/step"
	"govllm/protocol"
)

// nopRunner samples token 1 for everybody, at once: what is left to measure is
// everything around the model.
type nopRunner struct {
	plan   *step.SchedulerOutput
	result step.ModelRunnerOutput
}

func (r *nopRunner) Start(plan *step.SchedulerOutput) enginecore.Pass {
	r.plan = plan
	return r
}

func (r *nopRunner) Sample() (*step.ModelRunnerOutput, error) {
	r.result.Sampled = r.result.Sampled[:0]
	for i := range r.plan.Scheduled {
		token := int32(-1)
		if r.plan.Scheduled[i].Samples {
			token = 1
		}
		r.result.Sampled = append(r.result.Sampled, token)
	}
	return &r.result, nil
}

const promptLen = 512

// engine is a core over a nopRunner, with the rest of a sender and a receiver.
type engine struct {
	core   *enginecore.Core
	intake *enginecore.Intake
	prompt []int32
	buf    []byte
}

func newEngine(tb testing.TB, edit func(*sched.Config)) *engine {
	return newEngineWith(tb, &nopRunner{}, edit)
}

func newEngineWith(tb testing.TB, runner enginecore.Runner, edit func(*sched.Config)) *engine {
	cfg := sched.DefaultConfig()
	cfg.BlockSize = 32
	cfg.MaxModelLen = 1 << 20
	cfg.MaxNumSeqs = 1024
	cfg.MaxNumBatchedTokens = 8192
	cfg.NumBlocks = 200_000
	edit(&cfg)
	clock := 0.0
	core, err := enginecore.NewCore(enginecore.Config{
		Sched: cfg, VocabSize: 32_000, Log: slog.New(slog.DiscardHandler),
	}, runner, func() float64 { clock++; return clock })
	if err != nil {
		tb.Fatal(err)
	}
	e := &engine{core: core, intake: core.NewIntake(), prompt: make([]int32, promptLen)}
	for i := range e.prompt {
		e.prompt[i] = int32(i)
	}
	return e
}

var params = func() *protocol.SamplingParams {
	p := protocol.DefaultSamplingParams()
	p.MaxTokens = nil
	return &p
}()

// prepare returns a request whose prompt no other shares: the salt differs, so
// that a million prompts need not be kept.
func (e *engine) prepare(tb testing.TB, i int) *request.Request {
	r, err := e.intake.Prepare(&protocol.EngineCoreRequest{
		RequestID: fmt.Sprintf("r%07d", i), PromptTokenIDs: e.prompt[:promptLen:promptLen],
		SamplingParams: params, CacheSalt: fmt.Sprint(i), Priority: i * 7919 % 101,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func (e *engine) add(tb testing.TB, from, to int) {
	for i := from; i < to; i++ {
		e.core.Add(e.prepare(tb, i))
	}
}

// step runs one step and encodes what it has to tell, as the loop does.
func (e *engine) step(tb testing.TB) {
	messages, err := e.core.Step()
	if err != nil {
		tb.Fatal(err)
	}
	for i := range messages {
		e.buf = protocol.AppendOutputs(e.buf[:0], &messages[i].Outputs)
	}
}

// warmUp brings numSeqs requests to decoding, with every buffer grown.
func (e *engine) warmUp(tb testing.TB, numSeqs int) {
	for e.core.LastStats().DecodeReqs != numSeqs {
		e.step(tb)
	}
	for range 3 {
		e.step(tb)
	}
}

// TestDecodeAllocates: in steady decode a step allocates nothing, encoding and
// statistics included, whatever the policy, caching and overlap. Over 64 steps
// every request fills blocks, so that hashing and block tables are part of it.
func TestDecodeAllocates(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks of this build allocate")
	}
	for _, async := range []bool{false, true} {
		for _, policy := range sched.Policies {
			for _, noCaching := range []bool{false, true} {
				e := newEngine(t, func(c *sched.Config) {
					c.Async, c.Policy, c.NoPrefixCaching = async, policy, noCaching
				})
				e.add(t, 0, 64)
				e.warmUp(t, 64)
				for range 200 { // the index grows by whole chunks, the map by whole tables
					e.step(t)
				}
				n := testing.AllocsPerRun(10, func() {
					for range 64 {
						e.step(t)
					}
				})
				// 64 steps × 64 requests fill 128 blocks: their nodes are new.
				if perToken := n / (64 * 64); perToken > 0.001 {
					t.Errorf("async %v, %s, caching %v: %v allocations in 64 steps, want next to none", async, policy, !noCaching, n)
				}
				if n := testing.AllocsPerRun(1, func() { e.step(t) }); n != 0 {
					t.Errorf("async %v, %s, caching %v: %v allocations in a step, want 0", async, policy, !noCaching, n)
				}
			}
		}
	}
}

// BenchmarkStep is a decode step of everything around the model; ns/seq is of the
// median step.
func BenchmarkStep(b *testing.B) {
	for _, numSeqs := range []int{1, 64, 256, 1024} {
		for _, async := range []bool{false, true} {
			b.Run(fmt.Sprintf("seqs=%d/async=%v", numSeqs, async), func(b *testing.B) {
				var e *engine
				fresh := func() {
					e = newEngine(b, func(c *sched.Config) { c.Async = async })
					e.add(b, 0, numSeqs)
					e.warmUp(b, numSeqs)
				}
				fresh()
				var took []time.Duration
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					if n++; n%4000 == 0 { // before the blocks run out
						b.StopTimer()
						fresh()
						b.StartTimer()
					}
					start := time.Now()
					e.step(b)
					took = append(took, time.Since(start))
				}
				b.ReportMetric(float64(median(took))/float64(numSeqs), "ns/seq")
			})
		}
	}
}

// BenchmarkStepWithQueue: what waits must not cost a step anything. Two engines
// take turns, one with an empty queue and one whose head waits for a row behind
// the same 64 decodes; ratio is that of their median steps.
func BenchmarkStepWithQueue(b *testing.B) {
	const numSeqs = 64
	for _, policy := range sched.Policies {
		for _, waiting := range []int{20_000, 1_000_000} {
			b.Run(fmt.Sprintf("policy=%s/waiting=%d", policy, waiting), func(b *testing.B) {
				edit := func(c *sched.Config) { c.Policy, c.MaxNumSeqs = policy, numSeqs }
				var engines [2]*engine
				for i := range engines {
					engines[i] = newEngine(b, edit)
					engines[i].add(b, 0, numSeqs)
					engines[i].warmUp(b, numSeqs)
				}
				before := heapInUse()
				engines[1].add(b, numSeqs, numSeqs+waiting)
				bytes := heapInUse() - before
				var took [2][]time.Duration
				for b.Loop() {
					for i, e := range engines {
						start := time.Now()
						e.step(b)
						took[i] = append(took[i], time.Since(start))
					}
				}
				empty, full := median(took[0]), median(took[1])
				b.ReportMetric(float64(empty.Nanoseconds()), "ns/empty")
				b.ReportMetric(float64(full.Nanoseconds()), "ns/queue")
				b.ReportMetric(float64(full)/float64(empty), "ratio")
				b.ReportMetric(float64(bytes)/float64(waiting), "B/waiting")
				runtime.KeepAlive(engines)
			})
		}
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkAddAbort is an ADD of a 512-token prompt (16 blocks) and the abort of
// another from anywhere in the queue, medians of each; preparing a prompt (checks
// and hashes) is another goroutine's work and BenchmarkPrepare.
func BenchmarkAddAbort(b *testing.B) {
	for _, policy := range sched.Policies {
		for _, waiting := range []int{1, 20_000, 1_000_000} {
			b.Run(fmt.Sprintf("policy=%s/waiting=%d", policy, waiting), func(b *testing.B) {
				e := newEngine(b, func(c *sched.Config) { c.Policy = policy })
				ids := make([]string, waiting)
				for i := range ids {
					r := e.prepare(b, i)
					ids[i] = r.ID
					e.core.Add(r)
				}
				rng := rand.New(rand.NewPCG(1, 2))
				var added, aborted []time.Duration
				next := waiting
				b.ReportAllocs()
				for b.Loop() {
					r := e.prepare(b, next)
					next++
					i := rng.IntN(waiting)
					start := time.Now()
					e.core.Add(r)
					between := time.Now()
					e.core.Abort(ids[i])
					added, aborted = append(added, between.Sub(start)), append(aborted, time.Since(between))
					ids[i] = r.ID
				}
				b.ReportMetric(float64(median(added)), "ns/add")
				b.ReportMetric(float64(median(aborted)), "ns/abort")
			})
		}
	}
}

// BenchmarkPrepare checks and hashes a 512-token prompt.
func BenchmarkPrepare(b *testing.B) {
	e := newEngine(b, func(*sched.Config) {})
	b.ReportAllocs()
	for b.Loop() {
		e.prepare(b, 1)
	}
}

// slowRunner is a device that takes its time, from Start on.
type slowRunner struct {
	nopRunner
	takes time.Duration
	until time.Time
}

func (r *slowRunner) Start(plan *step.SchedulerOutput) enginecore.Pass {
	r.plan = plan
	r.until = time.Now().Add(r.takes)
	return r
}

func (r *slowRunner) Sample() (*step.ModelRunnerOutput, error) {
	for time.Now().Before(r.until) { // a sleep would be rounded up
	}
	return r.nopRunner.Sample()
}

// BenchmarkOverlap is a decode step on a device that takes a millisecond.
// ns/beyond-device is what the step costs on top: all of the host's work
// without asynchronous scheduling, next to nothing of it with.
func BenchmarkOverlap(b *testing.B) {
	const numSeqs, takes = 1024, time.Millisecond
	for _, async := range []bool{false, true} {
		b.Run(fmt.Sprintf("seqs=%d/async=%v", numSeqs, async), func(b *testing.B) {
			e := newEngineWith(b, &slowRunner{takes: takes}, func(c *sched.Config) { c.Async = async })
			e.add(b, 0, numSeqs)
			e.warmUp(b, numSeqs)
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				e.step(b)
				took = append(took, time.Since(start))
			}
			b.ReportMetric(float64(median(took)-takes), "ns/beyond-device")
		})
	}
}
