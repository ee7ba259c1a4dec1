package coretest

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"

	"govllm/enginecore"
	"govllm/enginecore/kvcache"
	"govllm/enginecore/sched"
	"govllm/protocol"
)

// opsPerHistory is how many random operations one engine lives through. Short
// histories try more configurations in the same time.
const opsPerHistory = 400

// Simulate plays one random history: a random engine, and then random adds,
// aborts between and during steps, deferrals, pauses, resets and steps, until
// everything has ended. Equal seeds give equal histories. After every
// operation the whole state is recounted; in the end
//
//   - every request has got exactly the text that a lone engine would give it,
//     up to where it was aborted or outgrew the pool;
//   - every request has ended exactly once, and nothing followed;
//   - nothing is left: no block, no row, no token counted.
//
// It returns what does not hold.
func Simulate(seed uint64) (err error) {
	s := &sim{rng: rand.New(rand.NewPCG(seed, 1)), all: map[string]*simRequest{}}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if err := s.start(); err != nil {
		return err
	}
	for range opsPerHistory {
		if err := s.operation(); err != nil {
			return fmt.Errorf("%s\nhistory: %v\n%w", s.describe(), s.history, err)
		}
	}
	return s.end()
}

type sim struct {
	rng     *rand.Rand
	env     Env
	cfg     sched.Config
	all     map[string]*simRequest
	ids     []string
	during  []string // to abort while the next step runs
	history []string // the last operations

	numPreempted, numPreemptedByStats int
	numTokens                         int // scheduled, by the statistics
}

// simRequest is a request and what must come of it.
type simRequest struct {
	id       string
	client   int
	want     []int32 // the whole text
	why      protocol.FinishReason
	got      []int32
	ended    protocol.FinishReason
	aborted  bool // by its client
	deferred bool
	needs    int // blocks at its longest
}

func (s *sim) start() error {
	pick := func(v ...int) int { return v[s.rng.IntN(len(v))] }
	s.cfg = sched.Config{
		NumBlocks:                 2 + s.rng.IntN(pick(6, 24, 60)),
		BlockSize:                 pick(1, 2, 3, 4, 8),
		MaxNumBatchedTokens:       pick(1, 2, 5, 16, 64, 200),
		MaxNumSeqs:                pick(1, 2, 4, 8),
		MaxModelLen:               pick(8, 24, 100),
		LongPrefillTokenThreshold: pick(0, 0, 0, 1, 3, 10),
		NoPrefixCaching:           pick(0, 0, 0, 1) == 1,
		Policy:                    sched.Policies[s.rng.IntN(2)],
		Async:                     s.rng.IntN(2) == 1,
		HashAlgo:                  kvcache.HashAlgos[s.rng.IntN(3)],
		HashSeed:                  "simulation",
	}
	if s.rng.IntN(8) == 0 {
		s.cfg.NoChunkedPrefill = true
		s.cfg.LongPrefillTokenThreshold = 0
		s.cfg.MaxNumBatchedTokens = max(s.cfg.MaxNumBatchedTokens, s.cfg.MaxModelLen)
	}
	err := s.env.Start(enginecore.Config{
		Sched: s.cfg, VocabSize: 50, NumClients: 2, MaxLogprobs: -1,
		Coordinated: true, Log: slog.New(slog.DiscardHandler),
	})
	s.env.Runner.OnPlan = nil
	return err
}

// operation does one random thing.
func (s *sim) operation() error {
	var err error
	switch n := s.rng.IntN(100); {
	case n < 30:
		err = s.add()
	case n < 36:
		s.abort(s.anyID())
	case n < 40:
		s.during = append(s.during, s.anyID())
	case n < 43:
		s.release(s.anyID())
	case n < 44:
		s.utility("reset_prefix_cache", s.rng.IntN(2) == 0)
	case n < 45:
		s.utility("pause_scheduler", []string{"keep", "wait"}[s.rng.IntN(2)], s.rng.IntN(2) == 0)
	case n < 48:
		s.utility("resume_scheduler")
	default:
		err = s.step()
	}
	return errors.Join(err, s.env.Core.Check())
}

func (s *sim) note(format string, args ...any) {
	s.history = append(s.history, fmt.Sprintf(format, args...))
	if n := len(s.history); n > 60 {
		s.history = slices.Delete(s.history, 0, n-60)
	}
}

func (s *sim) anyID() string {
	if len(s.ids) == 0 {
		return "nobody"
	}
	// mostly recent ones: those are alive
	return s.ids[len(s.ids)-1-s.rng.IntN(min(len(s.ids), 12))]
}

// add sends a request whose prompt shares prefixes with others'.
func (s *sim) add() error {
	id := fmt.Sprintf("r%d", len(s.ids))
	n := 1 + s.rng.IntN(s.cfg.MaxModelLen+2) // a few are too long
	prompt := make([]int32, n)
	family := s.rng.IntN(3)
	for i := range prompt {
		prompt[i] = int32((i*7 + family) % 50)
	}
	for i := s.rng.IntN(n + 1); i < n && s.rng.IntN(3) > 0; i++ {
		prompt[i] = int32(s.rng.IntN(50))
	}
	p := protocol.DefaultSamplingParams()
	maxTokens := 1 + s.rng.IntN(s.cfg.MaxModelLen)
	p.MaxTokens = &maxTokens
	if s.rng.IntN(4) == 0 {
		eos := int32(s.rng.IntN(50))
		p.EOSTokenID = &eos
		p.StopTokenIDs = []int32{int32(s.rng.IntN(50)), int32(s.rng.IntN(50))}
		p.MinTokens = s.rng.IntN(maxTokens + 1)
	}
	if s.rng.IntN(6) == 0 {
		skip := true
		p.SkipReadingPrefixCache = &skip
	}
	req := &protocol.EngineCoreRequest{
		RequestID: id, PromptTokenIDs: prompt, SamplingParams: &p,
		ArrivalTime: float64(s.rng.IntN(20)), Priority: s.rng.IntN(3), ClientIndex: s.rng.IntN(2),
		CacheSalt: []string{"", "", "", "salt"}[s.rng.IntN(4)],
	}
	s.note("add %s prompt %d max %d", id, n, maxTokens)
	q := &simRequest{id: id, client: req.ClientIndex}
	q.want, q.why = s.expect(prompt, &p)
	q.needs = (n + len(q.want) - 1 + s.cfg.BlockSize - 1) / s.cfg.BlockSize
	r, err := s.env.intake.Prepare(req)
	if err != nil {
		if n < s.cfg.MaxModelLen && (n+s.cfg.BlockSize-1)/s.cfg.BlockSize < s.cfg.NumBlocks {
			return fmt.Errorf("%s refused: %w", id, err)
		}
		s.env.Core.Reject(req.ClientIndex, id, err)
		q.want, q.why = nil, protocol.FinishError
	} else if q.deferred = s.rng.IntN(10) == 0; q.deferred {
		s.env.Core.AddDeferred(r)
	} else {
		s.env.Core.Add(r)
	}
	s.all[id] = q
	s.ids = append(s.ids, id)
	return nil
}

// expect is the text that a request gets when it is alone in the world.
func (s *sim) expect(prompt []int32, p *protocol.SamplingParams) (text []int32, why protocol.FinishReason) {
	h := s.env.Runner.Seed
	for _, t := range prompt {
		h = mix(h, uint64(t)+1)
	}
	limit := min(*p.MaxTokens, s.cfg.MaxModelLen-len(prompt))
	for {
		token := int32(h % 50)
		text = append(text, token)
		h = mix(h, uint64(token)+1)
		if len(text) >= min(p.MinTokens, limit) {
			if p.EOSTokenID != nil && token == *p.EOSTokenID || slices.Contains(p.StopTokenIDs, token) {
				return text, protocol.FinishStop
			}
		}
		if len(text) >= limit {
			return text, protocol.FinishLength
		}
	}
}

func (s *sim) abort(id string) {
	s.note("abort %s", id)
	s.env.Core.Abort(id)
	s.markAborted(id)
}

func (s *sim) markAborted(id string) {
	if q := s.all[id]; q != nil && q.ended == protocol.FinishNone {
		q.aborted = true
	}
}

func (s *sim) release(id string) {
	s.note("release %s", id)
	s.env.Core.Release(id)
	if q := s.all[id]; q != nil {
		q.deferred = false
	}
}

func (s *sim) utility(method string, args ...any) {
	s.note("%s%v", method, args)
	s.env.Core.Utility(&protocol.UtilityCall{Method: method, Args: args})
}

func (s *sim) step() error {
	if !s.env.Core.HasWork() {
		return nil
	}
	s.note("step")
	during := s.during
	s.during = nil
	s.env.aborts = during
	s.env.clock++
	messages, err := s.env.Core.Step()
	if err != nil {
		return err
	}
	if s.env.aborts == nil { // they were taken while the step ran
		for _, id := range during {
			s.markAborted(id)
		}
	}
	s.env.aborts = nil
	numStats := 0
	for i := range messages {
		m := &messages[i]
		if m.Outputs.SchedulerStats != nil {
			numStats++
			st := &m.Outputs.SchedulerStats.Step
			s.numPreemptedByStats += st.Preemptions.Sum()
			s.numTokens += st.NumPrefillTokens + st.NumDecodeTokens
			if n := st.NumPrefillTokens + st.NumDecodeTokens; n > s.cfg.MaxNumBatchedTokens {
				return fmt.Errorf("step of %d tokens, the budget is %d", n, s.cfg.MaxNumBatchedTokens)
			}
		}
		if err := checkFamily(&m.Outputs); err != nil {
			return err
		}
		for j := range m.Outputs.Outputs {
			if err := s.receive(m.Client, &m.Outputs.Outputs[j]); err != nil {
				return err
			}
		}
	}
	if numStats > 1 {
		return fmt.Errorf("%d messages with statistics in one step", numStats)
	}
	return nil
}

// checkFamily: a message is of one family and never empty.
func checkFamily(o *protocol.EngineCoreOutputs) error {
	ordinary := len(o.Outputs) > 0 || o.SchedulerStats != nil || len(o.FinishedRequests) > 0
	if ordinary == (o.UtilityOutput != nil) {
		return fmt.Errorf("message of no family or of two: %+v", o)
	}
	return nil
}

func (s *sim) receive(client int, out *protocol.EngineCoreOutput) error {
	q := s.all[out.RequestID]
	for _, ev := range out.Events {
		if ev.Type == protocol.EventPreempted {
			s.numPreempted++
		}
	}
	switch {
	case q == nil:
		return fmt.Errorf("output for %q, which nobody added", out.RequestID)
	case q.client != client:
		return fmt.Errorf("output for %s of client %d went to client %d", q.id, q.client, client)
	case q.ended != protocol.FinishNone:
		return fmt.Errorf("output for %s after it ended", q.id)
	case q.aborted:
		return fmt.Errorf("output for %s after it was aborted", q.id)
	case len(out.NewTokenIDs) == 0 && len(out.Events) > 0:
		return fmt.Errorf("events of %s ride on an output without a token", q.id)
	case (out.PrefillStats != nil) != (len(q.got) == 0 && len(out.NewTokenIDs) > 0):
		return fmt.Errorf("prefill stats of %s with output %d", q.id, len(q.got))
	}
	q.got = append(q.got, out.NewTokenIDs...)
	q.ended = out.FinishReason
	if n := len(q.got); n > len(q.want) || !slices.Equal(q.got, q.want[:n]) {
		return fmt.Errorf("text of %s is %v, want %v", q.id, q.got, q.want)
	}
	switch q.ended {
	case protocol.FinishNone:
	case protocol.FinishError:
		if q.want != nil && q.needs < s.cfg.NumBlocks {
			return fmt.Errorf("%s failed, though its %d blocks fit the pool", q.id, q.needs)
		}
	default:
		if len(q.got) != len(q.want) || q.ended != q.why {
			return fmt.Errorf("%s ended by %v after %d tokens, want %v after %d", q.id, q.ended, len(q.got), q.why, len(q.want))
		}
	}
	return nil
}

// end lets everything run out and looks at what is left.
func (s *sim) end() error {
	s.utility("resume_scheduler")
	for _, id := range s.ids {
		if s.all[id].deferred {
			s.release(id)
		}
	}
	for i := 0; s.env.Core.HasWork(); i++ {
		err := s.step()
		if i%16 == 0 {
			err = errors.Join(err, s.env.Core.Check())
		}
		if err != nil {
			return fmt.Errorf("%s\n%w", s.describe(), err)
		}
		if i > 1_000_000 {
			return fmt.Errorf("%s\nno end", s.describe())
		}
	}
	if err := s.env.Core.Check(); err != nil {
		return err
	}
	for _, id := range s.ids {
		if q := s.all[id]; !q.aborted && q.ended == protocol.FinishNone {
			return fmt.Errorf("%s never ended", id)
		}
	}
	if g := s.env.Core.Stats(); g != (sched.Gauges{}) {
		return fmt.Errorf("nothing is left, but %+v", g)
	}
	if s.numPreempted > s.numPreemptedByStats {
		return fmt.Errorf("%d preemptions by events, %d by statistics", s.numPreempted, s.numPreemptedByStats)
	}
	return nil
}

func (s *sim) describe() string {
	return fmt.Sprintf("%+v\n%s", s.cfg, s.env.Core.Describe())
}
