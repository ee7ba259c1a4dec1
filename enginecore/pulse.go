package enginecore

import (
	"sync/atomic"
	"time"

	"govllm/enginecore/sched"
	"govllm/protocol"
)

// The step loop says in a pulse what it is about, and a goroutine beside it
// tells the frontend when the loop is busy for long or has nothing to do, so
// that numbers do not stand still when a step does:
//
//	Core.Step ─ publish ─▶ pulse ─ latest ─▶ Loop.beat ─▶ conn.Send
//
// Three beats go round: one is being written, one is being read, and the one
// between them changes hands in one atomic exchange. So neither side waits, no
// beat is torn, and nothing is allocated.
type pulse struct {
	between atomic.Pointer[beat]
	writing *beat // the step loop's
	reading *beat // the other's
}

// beat is what the engine is about at one moment.
type beat struct {
	order     uint64  // of publishing
	completed uint64  // number of the last completed step
	running   uint64  // of the one under way; 0: none
	since     float64 // the core's clock: when that began, or the last one ended
	gauges    sched.Gauges
	paused    bool
}

func newPulse() *pulse {
	p := &pulse{writing: &beat{order: 1}, reading: new(beat)}
	p.between.Store(new(beat))
	return p
}

// publish hands over what the step loop has put into writing, and takes
// another beat for that, whose contents mean nothing.
func (p *pulse) publish() {
	order := p.writing.order
	p.writing = p.between.Swap(p.writing)
	p.writing.order = order + 1
}

// latest replaces b, unless nothing was published since; for one goroutine.
func (p *pulse) latest(b *beat) {
	p.reading = p.between.Swap(p.reading)
	if p.reading.order > b.order {
		*b = *p.reading
	}
}

const (
	// defaultStatsInterval is how long a step may take before the frontend is
	// told that it lasts.
	defaultStatsInterval = 500 * time.Millisecond
	// idleInterval is how often an engine without work says that it lives.
	idleInterval = 5 * time.Second
)

// beat tells client 0 of long steps, once per interval while they last, and
// now and then that the engine is idle.
func (l *Loop) beat() {
	interval := l.core.cfg.StatsInterval
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var b beat
	var told float64 // when it last was, by the core's clock
	for {
		select {
		case <-tick.C:
		case <-l.quit:
			return
		}
		l.core.pulse.latest(&b)
		now := l.core.now()
		wait := interval
		if b.running == 0 {
			wait = idleInterval
		}
		if now-b.since < wait.Seconds() || b.running == 0 && now-told < wait.Seconds() {
			continue
		}
		told = now
		if l.tell(&b, now) != nil {
			return // the owner of the loop notices too
		}
	}
}

// tell sends the statistics of no step: gauges as of the latest Schedule, every
// delta zero.
func (l *Loop) tell(b *beat, now float64) error {
	s := protocol.SchedulerStats{Step: protocol.StepStats{
		Known:      true,
		Number:     b.completed,
		Running:    b.running,
		NumArrived: l.numArrived(),
		Paused:     b.paused,
	}}
	if b.running > 0 {
		s.Step.RunningFor = now - b.since
	}
	fillGauges(&s, &b.gauges)
	return l.conn.Send(0, protocol.AppendOutputs(l.conn.Buffer(), &protocol.EngineCoreOutputs{
		EngineIndex: l.core.cfg.EngineIndex, Timestamp: now, SchedulerStats: &s,
	}))
}

// numArrived is how many requests have arrived that the scheduler has not seen.
func (l *Loop) numArrived() int {
	return int(max(0, l.numPrepared.Load()-l.numTaken.Load())) + len(l.conn.Requests())
}

func fillGauges(s *protocol.SchedulerStats, g *sched.Gauges) {
	s.NumRunningReqs = g.NumRunning
	s.NumWaitingReqs = g.NumWaiting
	s.NumSkippedWaitingReqs = g.NumDeferred
	s.KVCacheUsage = g.KVUsage
	s.Step.NumWaitingTokens = g.WaitingTokens
	s.Step.NumUncachedTokens = g.UncachedTokens
	s.Step.NumResidentTokens = g.ResidentTokens
	s.Step.NumPendingTokens = g.PendingTokens
}
