package engineclient

import (
	"time"

	"govllm/protocol"
	"govllm/stats"
)

// message is the reader's scratch memory for one message.
type message struct {
	streams []*Stream // of Outputs, in order; nil where the request is gone
	ended   []int     // positions of terminal outputs
	it      stats.Iteration
}

// handle takes one message in: tokens first, so that handlers can write while
// statistics are recorded, and ends last, so that who sees a request's end
// finds it counted.
func (c *Client) handle(m *protocol.EngineCoreOutputs) {
	now := c.now()
	c.lookUp(m, now)
	switch {
	case m.UtilityOutput != nil:
		c.answer(m.UtilityOutput)
		return
	case m.WaveComplete != nil || m.StartWave != nil:
		c.log.Debug("data-parallel wave message ignored", "engine", m.EngineIndex)
		return
	}
	c.deliver(m, now)
	if c.recorder != nil && (m.SchedulerStats != nil || len(m.Outputs) > 0) {
		c.recorder.Record(m.EngineIndex, m.SchedulerStats, &c.message.it)
	}
	for _, i := range c.message.ended {
		c.message.streams[i].reveal(&m.Outputs[i])
	}
	clear(c.message.streams)
}

// lookUp finds the streams of a message, takes the ended requests out of the
// registry and notes the engine's progress and load, under one lock.
func (c *Client) lookUp(m *protocol.EngineCoreOutputs, now time.Time) {
	c.message.streams = c.message.streams[:0]
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range m.Outputs {
		s := c.live[m.Outputs[i].RequestID]
		c.message.streams = append(c.message.streams, s)
		if s != nil && m.Outputs[i].FinishReason != protocol.FinishNone {
			c.forgetLocked(s)
		}
	}
	if m.EngineIndex < 0 || m.EngineIndex >= len(c.engines) {
		return // the recorder counts it
	}
	e := &c.engines[m.EngineIndex]
	if e.hear(m, now) {
		m.SchedulerStats = nil // its deltas are zero
	}
	if st := m.SchedulerStats; st != nil {
		e.running = st.NumRunningReqs
		e.waiting = st.NumWaitingReqs + st.NumSkippedWaitingReqs
		e.kvUsage = st.KVCacheUsage
	}
}

func (c *Client) deliver(m *protocol.EngineCoreOutputs, now time.Time) {
	msg := &c.message
	msg.it.Reset()
	msg.ended = msg.ended[:0]
	for i, s := range msg.streams {
		if s != nil && s.deliver(&msg.it, now, m.Timestamp, &m.Outputs[i]) {
			msg.ended = append(msg.ended, i)
		}
	}
}

// recordFor records a request that ended outside a message.
func (c *Client) recordFor(engine int, it *stats.Iteration) {
	if c.recorder != nil {
		c.recorder.Record(engine, nil, it)
	}
}
