package enginecore

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"govllm/enginecore/perf"
	"govllm/enginecore/request"
	"govllm/enginecore/sched"
	"govllm/enginecore/step"
	"govllm/protocol"
)

// Runner computes plans. Start returns while the device works; the pass's
// Sample waits for it. Passes are sampled in the order in which they were
// started, one at a time: the next plan is started after the pass before it has
// been sampled.
type Runner interface {
	Start(plan *step.SchedulerOutput) Pass
}

// Pass is one plan under way. An error means that the device can no longer be
// trusted: the engine ends.
type Pass interface {
	Sample() (*step.ModelRunnerOutput, error)
}

// Config is what an engine core is made with. The zero value of a field is its
// default where one is named.
type Config struct {
	Sched sched.Config

	// VocabSize bounds token IDs.
	VocabSize int
	// MaxLogprobs bounds logprobs and prompt_logprobs (--max-logprobs), -1 is
	// no bound. Default 0: none may be asked.
	MaxLogprobs int
	// Seed is what requests without a seed of their own draw theirs from.
	Seed uint64

	// EngineIndex is the data-parallel rank in every message. Default 0.
	EngineIndex int
	// NumClients is how many frontend processes there are; client indices are
	// below it. Default 1.
	NumClients int
	// Coordinated adds the IDs of ended requests to the messages in which they
	// end, and those of aborted ones, for a coordinator that counts them. Ends
	// by the engine's own will carry them always, as in vLLM.
	Coordinated bool

	// StatsInterval is how long a step may take before a Loop sends statistics
	// without waiting for its end, and how often from then on. Default 500 ms.
	StatsInterval time.Duration

	// Perf estimates the work of steps (--enable-mfu-metrics). Default: nothing
	// does.
	Perf *perf.Estimator
	// IterationDetails has every step described for the frontend's log
	// (--enable-logging-iteration-details).
	IterationDetails bool

	// Aborts calls abort with the ID of each request that a client has given up
	// since, without waiting for more. Default: none do.
	Aborts func(abort func(id string))
	// Log gets requests that failed and why. Default slog.Default().
	Log *slog.Logger
}

// Message is what one client is told. Never empty, and never of two families:
// see protocol.EngineCoreOutputs.
type Message struct {
	Client  int
	Outputs protocol.EngineCoreOutputs
}

// Core is the engine without its process: requests in, messages out. It starts
// no goroutine and reads no clock but the one it is given, so that a test plays
// any history of it.
//
// Owned by the engine loop: no locks.
type Core struct {
	cfg    Config
	sched  *sched.Scheduler
	runner Runner
	now    func() float64 // seconds, monotonic
	seeds  *rand.Rand
	log    *slog.Logger
	abort  func(id string) // Abort, made once

	flight        flight // asynchronous scheduling: the step under way
	draining      bool   // adds are turned away
	priorityNoted bool   // a useless priority is in the log
	pausing       []pendingPause

	numSteps  uint64
	stepStart float64
	pulse     *pulse // what a Loop tells of a step that lasts
	failure   error  // of a step that had to be finished early

	replies  []Message // to utility calls
	messages []Message
	stats    protocol.SchedulerStats
	work     protocol.PerfStats        // of stats
	details  protocol.IterationDetails // of stats
	taken    sched.Stats               // what stats was made of
}

// flight is a step whose result has not been taken in.
type flight struct {
	plan *sched.Plan // nil: none
	pass Pass
}

// NewCore returns a core without requests, or everything that is wrong with
// cfg. now gives seconds of a monotonic clock with any origin; a Loop reads it
// from two goroutines.
func NewCore(cfg Config, runner Runner, now func() float64) (*Core, error) {
	if cfg.VocabSize < 1 {
		return nil, fmt.Errorf("vocabulary size is %d, must be at least 1", cfg.VocabSize)
	}
	cfg.NumClients = max(1, cfg.NumClients)
	if cfg.StatsInterval <= 0 {
		cfg.StatsInterval = defaultStatsInterval
	}
	if cfg.Aborts == nil {
		cfg.Aborts = func(func(string)) {}
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	s, err := sched.New(cfg.Sched)
	if err != nil {
		return nil, err
	}
	s.Outbox().Ended = cfg.Coordinated
	c := &Core{
		cfg:    cfg,
		sched:  s,
		runner: runner,
		now:    now,
		seeds:  rand.New(rand.NewPCG(cfg.Seed, 0)),
		log:    cfg.Log,
		pulse:  newPulse(),
	}
	c.abort = c.Abort
	return c, nil
}

// Add takes in a request that an Intake has prepared. One that cannot be
// served, a duplicate for instance, is answered with an ERROR output and
// touches nothing else.
func (c *Core) Add(r *request.Request) { c.add(r, false) }

// AddDeferred adds a request that waits for something other than capacity,
// until Release.
func (c *Core) AddDeferred(r *request.Request) { c.add(r, true) }

func (c *Core) add(r *request.Request, deferred bool) {
	if c.draining {
		c.sched.Outbox().End(r.Client, r.ID, protocol.FinishAbort)
		return
	}
	c.notePriority(r)
	r.Seed = c.seedOf(r)
	if err := c.sched.Add(r, deferred, c.now()); err != nil {
		c.Reject(r.Client, r.ID, err)
	}
}

// notePriority says, once, that priorities change nothing here. vLLM is silent.
func (c *Core) notePriority(r *request.Request) {
	if r.Priority == 0 || c.priorityNoted || c.cfg.Sched.Policy == sched.Priority {
		return
	}
	c.priorityNoted = true
	c.log.Warn("requests come with a priority, which --scheduling-policy fcfs does not look at; start the core with --scheduling-policy priority",
		"request", r.ID, "priority", r.Priority)
}

// Release lets a deferred request go on. An ID that is not deferred is ignored.
func (c *Core) Release(id string) { c.sched.Release(id) }

func (c *Core) seedOf(r *request.Request) uint64 {
	if r.Params.Seed != nil {
		return uint64(*r.Params.Seed)
	}
	return c.seeds.Uint64()
}

// Reject answers an ADD that cannot be served with an ERROR output, and logs
// why. Without an ID or a client that exists there is nobody to answer.
func (c *Core) Reject(client int, id string, err error) {
	if client < 0 || client >= c.cfg.NumClients || id == "" {
		c.log.Warn("request refused, and nobody to tell", "request", id, "client", client, "reason", err)
		return
	}
	c.sched.Outbox().End(client, id, protocol.FinishError)
	c.sched.Outbox().Failed(id, err)
}

// Abort ends a request that its client gave up; no output is sent. An ID that
// is not live is ignored.
func (c *Core) Abort(id string) { c.sched.Abort(id) }

// AbortAll ends every request with an ABORT output.
func (c *Core) AbortAll() { c.sched.AbortAll() }

// Drain turns new requests away from now on, with an ABORT output each, and
// lets everything else go on, paused or not.
func (c *Core) Drain() {
	c.draining = true
	c.sched.SetPause(sched.Unpaused)
}

// Shutdown finishes the step under way, ends every request with an ABORT output
// and returns what the clients are to be told. Nothing is to follow.
func (c *Core) Shutdown() ([]Message, error) {
	c.stepStart = c.now()
	c.publish(c.numSteps+1, c.stepStart)
	c.land()
	if c.failure != nil {
		return nil, c.failure
	}
	c.AbortAll()
	c.Drain()
	return c.collect(c.now()), nil
}

// NumLive is how many requests have not ended.
func (c *Core) NumLive() int { return c.sched.NumLive() }

// IsLive reports whether a request with this ID has not ended.
func (c *Core) IsLive(id string) bool { return c.sched.IsLive(id) }

// HasWork reports whether Step has anything to do.
func (c *Core) HasWork() bool {
	return c.sched.HasWork() || c.flight.plan != nil || c.failure != nil ||
		c.sched.Changed() || len(c.replies) > 0 || !c.sched.Outbox().Empty()
}

// Step runs one step and returns what the clients are to be told, valid until
// the next call of any method. After an error the engine is dead.
func (c *Core) Step() ([]Message, error) {
	c.stepStart = c.now()
	err := c.failure
	if err == nil {
		if c.cfg.Sched.Async {
			err = c.stepAsync()
		} else {
			err = c.step()
		}
	}
	if err != nil {
		return nil, err
	}
	c.settlePauses()
	now := c.now()
	messages := c.collect(now)
	c.publish(0, now)
	return messages, nil
}

// publish says what the engine is about since when: step running, or none if
// that is 0. Without statistics nobody listens.
func (c *Core) publish(running uint64, since float64) {
	if c.cfg.Sched.NoLogStats {
		return
	}
	b := c.pulse.writing
	b.completed, b.running, b.since = c.numSteps, running, since
	b.gauges, b.paused = c.sched.Gauges(), c.paused()
	c.pulse.publish()
}

// planned takes note of a step before the device works on it.
func (c *Core) planned(plan *sched.Plan) {
	c.publish(c.numSteps+1, c.stepStart)
	if c.cfg.Perf != nil {
		c.cfg.Perf.Add(&plan.SchedulerOutput)
	}
}

func (c *Core) paused() bool { return c.sched.Paused() != sched.Unpaused }

// step is schedule, compute, update.
func (c *Core) step() error {
	plan := c.sched.Schedule(c.now())
	if plan.NumTokens == 0 {
		return nil
	}
	c.planned(plan)
	pass := c.runner.Start(&plan.SchedulerOutput) // the device works from here
	result, err := pass.Sample()
	if err != nil {
		return fmt.Errorf("step %d: %w", plan.Number, err)
	}
	c.applyAborts() // those that came during the pass
	c.sched.Update(plan, result)
	return nil
}

// stepAsync schedules the next step while the device computes this one, without
// knowing its tokens, and takes them in while the device computes the next. A
// request that turns out to have ended was scheduled once too often; what is
// computed for it is dropped.
func (c *Core) stepAsync() error {
	next := c.sched.Schedule(c.now())
	c.planned(next)
	landed := c.flight
	result, err := landed.sample()
	if err != nil {
		return err
	}
	c.applyAborts()
	c.flight = flight{}
	if next.NumTokens > 0 {
		c.flight = flight{plan: next, pass: c.runner.Start(&next.SchedulerOutput)}
	}
	c.take(landed.plan, result)
	return nil
}

func (f *flight) sample() (*step.ModelRunnerOutput, error) {
	if f.plan == nil {
		return nil, nil
	}
	result, err := f.pass.Sample()
	if err != nil {
		return nil, fmt.Errorf("step %d: %w", f.plan.Number, err)
	}
	return result, nil
}

func (c *Core) take(plan *sched.Plan, result *step.ModelRunnerOutput) {
	if plan != nil {
		c.sched.Update(plan, result)
	}
}

// land finishes the step under way, if any, before something that must not
// happen during one.
func (c *Core) land() {
	result, err := c.flight.sample()
	if err != nil {
		c.failure = err
		return
	}
	c.take(c.flight.plan, result)
	c.flight = flight{}
}

func (c *Core) applyAborts() { c.cfg.Aborts(c.abort) }

// collect makes the step's messages: outputs and finished IDs per client, the
// statistics on the first of them, and replies to utility calls apart.
func (c *Core) collect(now float64) []Message {
	out := c.sched.Outbox()
	for _, f := range out.Failures() {
		c.log.Warn("request failed", "request", f.ID, "reason", f.Err)
	}
	c.messages = c.messages[:0]
	for i := range out.Clients() {
		o := &out.Clients()[i]
		if len(o.Outputs)+len(o.Finished) == 0 {
			continue
		}
		c.messages = append(c.messages, c.message(i, now))
		m := &c.messages[len(c.messages)-1].Outputs
		m.Outputs, m.FinishedRequests = o.Outputs, o.Finished
	}
	if c.sched.Changed() {
		c.attachStats(now)
	}
	c.messages = append(c.messages, c.replies...)
	c.replies = c.replies[:0]
	out.Reset() // the slices stay what they are until the next step
	return c.messages
}

func (c *Core) message(client int, now float64) Message {
	return Message{Client: client, Outputs: protocol.EngineCoreOutputs{EngineIndex: c.cfg.EngineIndex, Timestamp: now}}
}

// attachStats puts the statistics on the first message with outputs, or on the
// first, or on one of their own to client 0.
func (c *Core) attachStats(now float64) {
	c.fillStats(now)
	if c.cfg.Sched.NoLogStats {
		return
	}
	if len(c.messages) == 0 {
		c.messages = append(c.messages, c.message(0, now))
	}
	at := slices.IndexFunc(c.messages, func(m Message) bool { return len(m.Outputs.Outputs) > 0 })
	c.messages[max(at, 0)].Outputs.SchedulerStats = &c.stats
}

// fillStats takes the scheduler's numbers over into their wire form.
func (c *Core) fillStats(now float64) {
	c.numSteps++
	c.taken = c.sched.TakeStats()
	s := &c.taken
	c.stats = protocol.SchedulerStats{
		PrefixCacheStats:      s.PrefixCache,
		KVCacheEvictionEvents: s.Evictions,
		Step: protocol.StepStats{
			Known:            true,
			Number:           c.numSteps,
			Duration:         now - c.stepStart,
			NumPrefillTokens: s.PrefillTokens,
			NumPrefillReqs:   s.PrefillReqs,
			NumDecodeTokens:  s.DecodeTokens,
			NumDecodeReqs:    s.DecodeReqs,
			Preemptions: protocol.Preemptions{
				KVFull:   s.Preemptions[sched.KVFull],
				Priority: s.Preemptions[sched.ByPriority],
				Reset:    s.Preemptions[sched.ByReset],
			},
			NumRecomputed: s.RecomputedTokens,
			Paused:        c.paused(),
		},
	}
	fillGauges(&c.stats, &s.Gauges)
	if c.cfg.Perf != nil {
		c.work = c.cfg.Perf.Take()
		c.stats.PerfStats = &c.work
	}
	if c.cfg.IterationDetails && s.PrefillTokens+s.DecodeTokens > 0 {
		c.details = protocol.IterationDetails{
			Index:             int(c.numSteps),
			NumContextReqs:    s.PrefillReqs,
			NumContextTokens:  s.PrefillTokens,
			NumGenerationReqs: s.DecodeReqs,
			NumGenTokens:      s.DecodeTokens,
			ElapsedMS:         1000 * (now - c.stepStart),
		}
		c.stats.IterationDetails = &c.details
	}
}

// Stats returns the scheduler's gauges as they are now.
func (c *Core) Stats() sched.Gauges { return c.sched.Gauges() }

// LastStats returns what the last statistics message was made of, and what the
// wire does not carry.
func (c *Core) LastStats() sched.Stats { return c.taken }

// Describe words the whole state: who runs, who waits, who holds which blocks.
// It walks everything: for tests and for people.
func (c *Core) Describe() string { return c.sched.Describe() }

// Check recounts the whole state by brute force and reports what does not add
// up; for tests.
func (c *Core) Check() error { return c.sched.Check() }
