package coretest

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"govllm/enginecore"
	"govllm/enginecore/kvcache"
	"govllm/enginecore/request"
	"govllm/enginecore/sched"
	"govllm/enginecore/step"
	"govllm/protocol"
)

// Env is a Core and what a script says to it.
//
//	core      options of the engine; starts a new one
//	add ID…   a request each; prompt=1..8 max=4 and more, see add
//	abort ID… between steps
//	during    abort=ID while the next step runs
//	force     a=7: the next token of a is 7; a=-1: its logits are not finite
//	defer ID  add, but for release ID
//	step      n=3: that many; events= shows them
//	run       to the end; only outputs are shown
//	state     who runs, who waits, which blocks are free
//	stats     of the last step, and the gauges
//	utility METHOD args…
type Env struct {
	Core   *enginecore.Core
	Runner *Runner

	intake  *enginecore.Intake
	cfg     enginecore.Config
	clock   float64
	aborts  []string
	stats   protocol.SchedulerStats
	lives   map[string]*life   // by ID, the latest
	onRow   map[step.Row]*life // who holds a row, as far as the runner knows
	freed   []*life            // of the step's plans
	plans   strings.Builder
	calls   uint64
	started bool
}

// life is one use of a request ID.
type life struct {
	id    string
	ended bool
}

// NewEnv returns an environment in which the first command must be core.
func NewEnv() *Env { return &Env{} }

// Run plays one script against a new environment.
func Run(t *testing.T, path string, rewrite bool) {
	t.Helper()
	e := NewEnv()
	RunFile(t, path, rewrite, e.Do)
}

// Do carries out a command and answers it.
func (e *Env) Do(c *Command) string {
	if c.Verb != "core" && !e.started {
		return "no core yet"
	}
	switch c.Verb {
	case "core":
		return e.start(c)
	case "add":
		return e.add(c, e.Core.Add)
	case "defer":
		return e.add(c, e.Core.AddDeferred)
	case "release":
		for _, id := range c.Args {
			e.Core.Release(id)
		}
		return "ok"
	case "abort":
		for _, id := range c.Args {
			e.end(id)
			e.Core.Abort(id)
		}
		return e.checked("ok")
	case "during":
		e.aborts = strings.Split(c.Str("abort", ""), ",")
		return "ok"
	case "force":
		for key := range c.opts {
			e.Runner.Force[key] = int32(c.Int(key, 0))
		}
		return "ok"
	case "step":
		return e.steps(c)
	case "run":
		return e.run()
	case "state":
		return e.Core.Describe()
	case "stats":
		return e.describeStats()
	case "utility":
		return e.utility(c)
	}
	return "unknown command " + c.Verb
}

func (e *Env) start(c *Command) string {
	cfg := enginecore.Config{
		VocabSize:   c.Int("vocab", 1000),
		NumClients:  c.Int("clients", 1),
		Coordinated: c.Has("coordinated"),
		MaxLogprobs: 20,
		Log:         slog.New(slog.DiscardHandler),
		Sched: sched.Config{
			NumBlocks:                 c.Int("blocks", 9),
			BlockSize:                 c.Int("block-size", 4),
			MaxNumBatchedTokens:       c.Int("budget", 16),
			MaxNumSeqs:                c.Int("seqs", 4),
			MaxModelLen:               c.Int("max-len", 64),
			LongPrefillTokenThreshold: c.Int("threshold", 0),
			NoChunkedPrefill:          c.Has("no-chunks"),
			NoPrefixCaching:           c.Has("no-caching"),
			NoLogStats:                c.Has("no-stats"),
			Async:                     c.Has("async"),
			Policy:                    sched.Policy(c.Str("policy", "fcfs")),
			HashAlgo:                  kvcache.HashAlgo(c.Str("hash", "sha256")),
			HashSeed:                  "script",
		},
	}
	if err := e.Start(cfg); err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprintf("%d blocks of %d tokens", cfg.Sched.NumBlocks-1, cfg.Sched.BlockSize)
}

// Start makes a new core for cfg, with a runner of its size.
func (e *Env) Start(cfg enginecore.Config) error {
	*e = Env{cfg: cfg, lives: map[string]*life{}, onRow: map[step.Row]*life{}}
	e.Runner = NewRunner(cfg.Sched.NumBlocks, cfg.Sched.BlockSize, cfg.VocabSize)
	e.Runner.OnPlan = e.notePlan
	cfg.Aborts = func(abort func(string)) {
		for _, id := range e.aborts {
			e.end(id)
			abort(id)
		}
		e.aborts = nil
	}
	core, err := enginecore.NewCore(cfg, e.Runner, func() float64 { return e.clock })
	if err != nil {
		return err
	}
	e.Core, e.intake, e.started = core, core.NewIntake(), true
	return nil
}

func (e *Env) add(c *Command, add func(*request.Request)) string {
	p := protocol.DefaultSamplingParams()
	p.Temperature = 0
	maxTokens := c.Int("max", 16)
	p.MaxTokens = &maxTokens
	p.MinTokens = c.Int("min", 0)
	p.StopTokenIDs = c.Tokens("stop")
	if c.Has("eos") {
		eos := int32(c.Int("eos", 0))
		p.EOSTokenID = &eos
	}
	if c.Has("skip-cache") {
		skip := true
		p.SkipReadingPrefixCache = &skip
	}
	for _, id := range c.Args {
		params := p
		req := &protocol.EngineCoreRequest{
			RequestID:      id,
			PromptTokenIDs: c.Tokens("prompt"),
			SamplingParams: &params,
			ArrivalTime:    float64(c.Int("arrival", int(e.clock))),
			CacheSalt:      c.Str("salt", ""),
			ClientIndex:    c.Int("client", 0),
			Priority:       c.Int("priority", 0),
		}
		r, err := e.intake.Prepare(req)
		if err != nil {
			e.Core.Reject(req.ClientIndex, id, err)
			return e.checked("refused: " + err.Error())
		}
		if l := e.lives[id]; l == nil || l.ended {
			e.lives[id] = &life{id: id}
		}
		add(r)
	}
	return e.checked("ok")
}

func (e *Env) steps(c *Command) string {
	var out strings.Builder
	for range c.Int("n", 1) {
		if !e.Core.HasWork() {
			return out.String() + "nothing to do"
		}
		lines, err := e.Step(c.Has("events"))
		if err != nil {
			return out.String() + "engine dead: " + err.Error()
		}
		for _, l := range e.freed {
			if !l.ended {
				fmt.Fprintf(&out, "preempted %s\n", l.id)
			}
		}
		out.WriteString(e.plans.String() + lines)
	}
	return e.checked(out.String())
}

// end notes that the request with this ID is over.
func (e *Env) end(id string) {
	if l := e.lives[id]; l != nil {
		l.ended = true
	}
}

func (e *Env) run() string {
	var out strings.Builder
	for i := 0; e.Core.HasWork(); i++ {
		lines, err := e.Step(false)
		if err != nil {
			return out.String() + "engine dead: " + err.Error()
		}
		out.WriteString(lines)
		if i == 1000 {
			return out.String() + "no end after 1000 steps"
		}
	}
	return e.checked(out.String())
}

// Step runs one step and words what the clients are told.
func (e *Env) Step(events bool) (string, error) {
	e.plans.Reset()
	e.freed = e.freed[:0]
	e.clock++
	messages, err := e.Core.Step()
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for i := range messages {
		e.describeMessage(&out, &messages[i], events)
	}
	return out.String(), nil
}

// notePlan words a plan, in the order of the batch.
func (e *Env) notePlan(plan *step.SchedulerOutput, rows map[step.Row]*Row) {
	b := &e.plans
	for _, row := range plan.Freed {
		e.freed = append(e.freed, e.onRow[row])
	}
	cached := map[step.Row]int{}
	for _, n := range plan.New {
		e.onRow[n.Row] = e.lives[n.ID]
		cached[n.Row] = n.Computed
	}
	for _, s := range plan.Scheduled {
		row := rows[s.Row]
		kind, plural, found := "prefill", "s", ""
		if s.Computed >= row.Prompt && s.NumTokens == 1 && s.Samples {
			kind = "decode"
		}
		if s.NumTokens == 1 {
			plural = ""
		}
		if n := cached[s.Row]; n > 0 {
			found = fmt.Sprintf(" (%d cached)", n)
		}
		fmt.Fprintf(b, "%s: %s %d token%s%s, blocks %v\n", row.ID, kind, s.NumTokens, plural, found, row.BlockIDs)
	}
	g := e.Core.Stats()
	usable := e.cfg.Sched.NumBlocks - 1
	fmt.Fprintf(b, "budget left %d, free blocks %d\n",
		e.cfg.Sched.MaxNumBatchedTokens-plan.NumTokens, usable-int(g.KVUsage*float64(usable)+0.5))
}

func (e *Env) describeMessage(b *strings.Builder, m *enginecore.Message, events bool) {
	prefix := ""
	if e.cfg.NumClients > 1 {
		prefix = fmt.Sprintf("client %d: ", m.Client)
	}
	o := &m.Outputs
	if o.SchedulerStats != nil {
		e.stats = *o.SchedulerStats
	}
	for i := range o.Outputs {
		out := &o.Outputs[i]
		fmt.Fprintf(b, "%s%s →", prefix, out.RequestID)
		for _, t := range out.NewTokenIDs {
			fmt.Fprintf(b, " %d", t)
		}
		if out.FinishReason != protocol.FinishNone {
			if len(out.NewTokenIDs) > 0 || out.FinishReason != protocol.FinishError || !e.Core.IsLive(out.RequestID) {
				e.end(out.RequestID) // and not the refusal of a duplicate
			}
			fmt.Fprintf(b, " %v", out.FinishReason)
		}
		if out.StopReason.Kind == protocol.StopReasonToken {
			fmt.Fprintf(b, " by token %d", out.StopReason.TokenID)
		}
		if events {
			describeEvents(b, out)
		}
		b.WriteString("\n")
	}
	if o.SchedulerStats != nil && e.cfg.NumClients > 1 {
		fmt.Fprintf(b, "%sstatistics\n", prefix)
	}
	if len(o.FinishedRequests) > 0 && e.cfg.Coordinated {
		fmt.Fprintf(b, "%sfinished %s\n", prefix, strings.Join(o.FinishedRequests, " "))
	}
	if u := o.UtilityOutput; u != nil {
		fmt.Fprintf(b, "%scall %d → ", prefix, u.CallID.Bits)
		if u.Failure != "" {
			fmt.Fprintf(b, "failure: %s\n", u.Failure)
		} else {
			fmt.Fprintf(b, "%v\n", u.Result)
		}
	}
}

func describeEvents(b *strings.Builder, out *protocol.EngineCoreOutput) {
	names := map[protocol.EventType]string{
		protocol.EventQueued: "queued", protocol.EventScheduled: "scheduled", protocol.EventPreempted: "preempted",
	}
	for _, ev := range out.Events {
		fmt.Fprintf(b, ", %s at %v", names[ev.Type], ev.Timestamp)
	}
	if s := out.PrefillStats; s != nil {
		fmt.Fprintf(b, ", prompt %d = %d computed + %d cached, %d newly cached",
			s.NumPromptTokens, s.NumComputedTokens, s.NumCachedTokens, s.NumCacheCreationTokens)
	}
}

func (e *Env) describeStats() string {
	s, g := &e.stats, e.Core.Stats()
	return fmt.Sprintf(`requests: %d running, %d waiting, %d deferred; kv usage %.3g
step: prefill %d tokens of %d, decode %d tokens of %d; recomputed %d
preempted: %s
prefix cache: %d requests, %d of %d tokens hit; after preemption %d, %d of %d; reset %v
tokens now: waiting %d, of them uncached %d; resident %d, pending %d; load %d
`, s.NumRunningReqs, s.NumWaitingReqs, s.NumSkippedWaitingReqs, s.KVCacheUsage,
		s.Step.NumPrefillTokens, s.Step.NumPrefillReqs, s.Step.NumDecodeTokens, s.Step.NumDecodeReqs,
		s.Step.NumRecomputed, describePreemptions(e.Core.LastStats()),
		s.PrefixCacheStats.Requests, s.PrefixCacheStats.Hits, s.PrefixCacheStats.Queries,
		s.PrefixCacheStats.PreemptedRequests, s.PrefixCacheStats.PreemptedHits, s.PrefixCacheStats.PreemptedQueries,
		s.PrefixCacheStats.Reset,
		g.WaitingTokens, g.UncachedTokens, g.ResidentTokens, g.PendingTokens, g.LoadTokens())
}

func describePreemptions(s sched.Stats) string {
	var b []string
	for _, why := range sched.PreemptionReasons {
		b = append(b, fmt.Sprintf("%d %v", s.Preemptions[why], why))
	}
	return strings.Join(b, ", ")
}

func (e *Env) utility(c *Command) string {
	if len(c.Args) == 0 {
		return "no method"
	}
	e.calls++
	call := &protocol.UtilityCall{Method: c.Args[0], CallID: protocol.CallID{Bits: e.calls}}
	for _, a := range c.Args[1:] {
		switch a {
		case "true", "false":
			call.Args = append(call.Args, a == "true")
		default:
			call.Args = append(call.Args, a)
		}
	}
	e.Core.Utility(call)
	return e.checked(fmt.Sprintf("call %d", e.calls))
}

// checked adds to an answer what does not add up.
func (e *Env) checked(answer string) string {
	if err := e.Core.Check(); err != nil {
		return errors.Join(errors.New(answer), err).Error()
	}
	return answer
}
