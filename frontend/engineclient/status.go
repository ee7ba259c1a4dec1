package engineclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"govllm/protocol"
	"govllm/stats"
)

// ErrEngineStalled matches every *StalledError.
var ErrEngineStalled = errors.New("engineclient: engine is stalled")

// StalledError says that an engine has requests and completes no steps: a
// device or a process hangs. It may pass.
type StalledError struct {
	Engine   int
	For      time.Duration // since the last completed step, or since there is work
	Limit    time.Duration
	Requests int           // with the engine
	Silent   time.Duration // since the engine's last message
	// Step is the one that does not end, 0 if the engine has not told of it, and
	// Running how long the engine has been at it.
	Step    uint64
	Running time.Duration
}

func (e *StalledError) Error() string {
	s := fmt.Sprintf("%v: engine %d has %d requests and completed no step for %v, more than %v; its last message came %v ago",
		ErrEngineStalled, e.Engine, e.Requests, e.For.Round(time.Second), e.Limit, e.Silent.Round(time.Second))
	if e.Step > 0 {
		s += fmt.Sprintf(", and it has been at step %d for %v", e.Step, e.Running.Round(time.Second))
	}
	return s
}

func (e *StalledError) Is(target error) bool { return target == ErrEngineStalled }

// stepFactor is how many times the longest step of its life an engine may take
// for one before it counts as stalled.
const stepFactor = 10

// progress is what was heard of an engine, and when by our clock. Client.mu
// guards it.
type progress struct {
	message, step, token time.Time // the latest of each; at first when we began to listen
	busySince            time.Time // when work began that was not interrupted since

	completed uint64        // number of the last completed step, if the engine numbers them
	longest   time.Duration // completed step so far

	// A step that had not ended when the engine last told; 0: none.
	running      uint64
	runningSince time.Time

	paused bool // or asleep, by our own call or the engine's word
	warned bool // its stall is in the log
}

// hear takes one message of an engine into account. It reports whether the
// message's scheduler statistics are older than some that came before.
func (e *engineLoad) hear(m *protocol.EngineCoreOutputs, now time.Time) (stale bool) {
	p := &e.progress
	p.message = now
	for i := range m.Outputs {
		if len(m.Outputs[i].NewTokenIDs) > 0 {
			p.token = now
			break
		}
	}
	s := m.SchedulerStats
	if s != nil && s.Step.Known {
		return p.numbered(&s.Step, len(m.Outputs) > 0, now)
	}
	if s != nil || len(m.Outputs) > 0 { // as any message of a foreign engine, it is a step's
		p.complete(now, now.Sub(later(p.step, p.busySince)), e.inFlight > 0)
	}
	return false
}

// numbered takes in the statistics of an engine that numbers its steps. A
// message that it sends during a step or between two may be overtaken by the
// next step's.
func (p *progress) numbered(s *protocol.StepStats, hasOutputs bool, now time.Time) (stale bool) {
	between := s.Duration == 0 && !hasOutputs
	if between && (s.Number < p.completed || s.Running > 0 && s.Running <= p.completed) {
		return true
	}
	p.running, p.runningSince = s.Running, now.Add(-seconds(s.RunningFor))
	p.setPaused(s.Paused, now)
	if s.Number != p.completed {
		p.completed = s.Number
		p.complete(now, seconds(s.Duration), true)
	}
	return false
}

// stepTime is how long the engine has been at a step that lasts; 0: it is at
// none, or at one that it has not told of yet.
func (p *progress) stepTime(now time.Time) time.Duration {
	if p.running == 0 {
		return 0
	}
	return now.Sub(p.runningSince)
}

func (p *progress) complete(now time.Time, took time.Duration, counts bool) {
	p.step = now
	if counts {
		p.longest = max(p.longest, took)
	}
}

// setPaused starts the clock of stalling anew when a pause ends.
func (p *progress) setPaused(paused bool, now time.Time) {
	if p.paused && !paused {
		p.busySince = now
	}
	p.paused = paused
}

// stalled returns what is wrong, or nil. timeout 0 means that nothing ever is.
func (e *engineLoad) stalled(index int, now time.Time, timeout time.Duration) *StalledError {
	p := &e.progress
	if timeout <= 0 || e.inFlight == 0 || p.paused {
		return nil
	}
	limit := max(timeout, stepFactor*p.longest)
	idle := now.Sub(later(p.step, p.busySince))
	if idle <= limit {
		return nil
	}
	return &StalledError{Engine: index, For: idle, Limit: limit, Requests: e.inFlight,
		Silent: now.Sub(p.message), Step: p.running, Running: p.stepTime(now)}
}

// status splits the requests that we know of by what the scheduler last
// showed. It may have shown some that have ended since, or another frontend's.
func (e *engineLoad) status(index int, now time.Time, timeout time.Duration) stats.EngineStatus {
	running := min(e.running, e.inFlight)
	queued := min(e.waiting, e.inFlight-running)
	return stats.EngineStatus{
		Engine:     index,
		MessageAge: now.Sub(e.message),
		StepAge:    now.Sub(e.step),
		TokenAge:   now.Sub(e.token),
		Running:    running,
		Queued:     queued,
		Sent:       e.inFlight - running - queued,
		StepTime:   e.stepTime(now),
		Stalled:    e.stalled(index, now, timeout) != nil,
	}
}

// Status is what is known at this moment, by our clock.
func (c *Client) Status() stats.FrontendStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	s := stats.FrontendStatus{Tokenizing: c.preparing, SleepLevel: c.sleepLevel}
	for i := range c.engines {
		e := c.engines[i].status(i, now, c.stallTimeout)
		e.Dead = c.deadErr != nil
		s.Engines = append(s.Engines, e)
	}
	return s
}

// Ready is nil while requests are taken and every engine lives and gets on with
// its own, else the *EngineDeadError, ErrDraining or the first *StalledError.
// Readiness rests on it.
func (c *Client) Ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.deadErr != nil:
		return c.deadErr
	case c.draining:
		return ErrDraining
	}
	now := c.now()
	for i := range c.engines {
		if err := c.engines[i].stalled(i, now, c.stallTimeout); err != nil {
			return err
		}
	}
	return nil
}

// watch logs when an engine stalls and when it goes on, until ctx ends.
func (c *Client) watch(ctx context.Context) {
	tick := time.NewTicker(min(time.Second, c.stallTimeout))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.logStalls()
		case <-ctx.Done():
			return
		}
	}
}

func (c *Client) logStalls() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	for i := range c.engines {
		e := &c.engines[i]
		err := e.stalled(i, now, c.stallTimeout)
		switch {
		case err != nil && !e.warned:
			c.log.Error("engine stalled: not ready until it completes a step", "error", err)
		case err == nil && e.warned:
			c.log.Info("engine no longer stalled", "engine", i, "requests", e.inFlight)
		}
		e.warned = err != nil
	}
}

// noteUtility takes a call into account that all engines have carried out.
func (c *Client) noteUtility(method string, args []any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	switch method {
	case "pause_scheduler":
		c.setPausedLocked(true, now)
	case "resume_scheduler":
		c.setPausedLocked(false, now)
	case "sleep":
		c.sleepLevel = 1
		if len(args) > 0 {
			c.sleepLevel = sleepLevel(args[0])
		}
		c.setPausedLocked(true, now)
	case "wake_up":
		c.sleepLevel = 0
		c.setPausedLocked(false, now)
	}
}

// sleepLevel is vLLM's: 1 offloads the weights, 2 drops everything.
func sleepLevel(arg any) int {
	level, _ := arg.(int)
	return level
}

func (c *Client) setPausedLocked(paused bool, now time.Time) {
	for i := range c.engines {
		c.engines[i].setPaused(paused, now)
	}
}

// Preparing counts an HTTP request that is being read, templated and
// tokenized, until the function that it returns is called the first time: when
// all of its sequences were submitted, or it was refused.
func (c *Client) Preparing() (done func()) {
	c.mu.Lock()
	c.preparing++
	c.mu.Unlock()
	return sync.OnceFunc(func() {
		c.mu.Lock()
		c.preparing--
		c.mu.Unlock()
	})
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
