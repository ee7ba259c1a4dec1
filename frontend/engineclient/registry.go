package engineclient

import (
	"context"

	"govllm/protocol"
)

// engineLoad is what the choice of an engine rests on.
type engineLoad struct {
	inFlight int // live sequences of ours
	running  int // as of the engine's latest statistics
	waiting  int
	kvUsage  float64 // 0…1
	progress
}

// score grows with load. Statistics lag behind our own count, which covers
// what was sent since; a KV cache more than half full makes waiting requests
// weigh more.
//
// Source: vllm/v1/engine/core_client.py, DPLBAsyncMPClient.
func (e *engineLoad) score() float64 {
	waiting := float64(e.waiting)
	return max(float64(e.inFlight), waiting+float64(e.running)) + waiting*6*max(0, e.kvUsage-0.5)
}

// register takes s among the live requests and gives it an engine.
func (c *Client) register(s *Stream) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch _, taken := c.live[s.id]; {
	case c.deadErr != nil:
		return c.deadErr
	case c.draining:
		return ErrDraining
	case taken:
		return ErrDuplicateRequest
	}
	s.engine = c.leastLoaded()
	e := &c.engines[s.engine]
	if e.inFlight == 0 {
		e.busySince = c.now()
	}
	e.inFlight++
	c.live[s.id] = s
	return nil
}

// leastLoaded starts one engine further each time, so that equals share.
func (c *Client) leastLoaded() int {
	n := len(c.engines)
	c.next = (c.next + 1) % n
	best := c.next
	for i := 1; i < n; i++ {
		if e := (c.next + i) % n; c.engines[e].score() < c.engines[best].score() {
			best = e
		}
	}
	return best
}

// forget drops s from the live requests; it may have gone already.
func (c *Client) forget(s *Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetLocked(s)
}

func (c *Client) forgetLocked(s *Stream) {
	if c.live[s.id] != s {
		return
	}
	delete(c.live, s.id)
	c.engines[s.engine].inFlight--
	if len(c.live) == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// Drain refuses new requests and waits until the live ones have ended. It
// returns ctx's error if that comes first.
func (c *Client) Drain(ctx context.Context) error {
	c.mu.Lock()
	c.draining = true
	if len(c.live) == 0 {
		c.mu.Unlock()
		return nil
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// AbortAll refuses new requests and ends the live ones: each stream's last
// update says FinishAbort, and the engines are told.
func (c *Client) AbortAll() {
	c.mu.Lock()
	c.draining = true
	live := c.snapshotLocked()
	c.mu.Unlock()
	for _, s := range live {
		s.abort()
	}
}

func (c *Client) snapshotLocked() []*Stream {
	live := make([]*Stream, 0, len(c.live))
	for _, s := range c.live {
		live = append(live, s)
	}
	return live
}

// sendAbort tells the engine to drop s. A connection that cannot carry it is
// lost, and the reader notices that.
func (c *Client) sendAbort(s *Stream) {
	payload := protocol.AppendAbort(c.conn.Buffer(), []string{s.id})
	if err := c.send(s.engine, protocol.RequestAbort, payload); err != nil {
		c.log.Warn("abort not sent", "request_id", s.id, "engine", s.engine, "err", err)
	}
}

// die ends everything that waits for an engine and refuses what comes later.
func (c *Client) die(cause error) *EngineDeadError {
	c.mu.Lock()
	if c.deadErr != nil {
		defer c.mu.Unlock()
		return c.deadErr
	}
	c.deadErr = &EngineDeadError{cause}
	live, calls := c.snapshotLocked(), c.calls
	c.calls = make(map[protocol.CallID]chan protocol.UtilityOutput)
	close(c.dead)
	c.mu.Unlock()

	for _, s := range live {
		s.fail(c.deadErr)
	}
	for _, answer := range calls {
		close(answer)
	}
	return c.deadErr
}
