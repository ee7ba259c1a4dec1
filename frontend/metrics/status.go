package metrics

import (
	"time"

	"govllm/protocol"
	"govllm/stats"

	"github.com/prometheus/client_golang/prometheus"
)

// status are the series that a scrape computes, since they move by the clock
// alone.
type status struct {
	sent, queued, running         prometheus.Gauge
	stalled                       prometheus.Gauge
	messageAge, stepAge, tokenAge prometheus.Gauge

	awake, weightsOffloaded, discardAll prometheus.Gauge
}

func newStatus(f *families, label string) status {
	s := status{
		sent:       f.gauge(stats.RequestsInFlight, label, "sent"),
		queued:     f.gauge(stats.RequestsInFlight, label, "queued"),
		running:    f.gauge(stats.RequestsInFlight, label, "running"),
		stalled:    f.gauge(stats.EngineStalled, label),
		messageAge: f.gauge(stats.EngineMessageAge, label),
		stepAge:    f.gauge(stats.EngineStepAge, label),
		tokenAge:   f.gauge(stats.EngineTokenAge, label),

		awake:            f.gauge(stats.EngineSleepState, label, "awake"),
		weightsOffloaded: f.gauge(stats.EngineSleepState, label, "weights_offloaded"),
		discardAll:       f.gauge(stats.EngineSleepState, label, "discard_all"),
	}
	s.awake.Set(1)
	return s
}

// Watch has every scrape ask source, an engineclient.Client's Status, and show
// what it says. Call it before the first scrape.
func (r *Recorder) Watch(source func() stats.FrontendStatus) {
	r.registry.beforeScrape(func() { r.show(source()) })
}

func (r *Recorder) show(s stats.FrontendStatus) {
	r.tokenizing.Set(float64(s.Tokenizing))
	for i := range s.Engines {
		if e := r.engines[s.Engines[i].Engine]; e != nil {
			e.show(&s.Engines[i])
			e.showSleep(s.SleepLevel)
		}
	}
}

func (e *engine) show(s *stats.EngineStatus) {
	t := &e.status
	t.sent.Set(float64(s.Sent))
	t.queued.Set(float64(s.Queued))
	t.running.Set(float64(s.Running))
	t.stalled.Set(oneIf(s.Stalled))
	t.messageAge.Set(seconds(s.MessageAge))
	t.stepAge.Set(seconds(s.StepAge))
	t.tokenAge.Set(seconds(s.TokenAge))
	if s.Dead {
		e.died()
	} else if e.reportsSteps.Load() {
		e.steps.runningStep.Set(seconds(s.StepTime))
	}
}

func (e *engine) showSleep(level int) {
	e.status.awake.Set(oneIf(level == 0))
	e.status.weightsOffloaded.Set(oneIf(level == 1))
	e.status.discardAll.Set(oneIf(level == 2))
}

// died sets the gauges of an engine that is gone to what they now are.
func (e *engine) died() {
	e.scheduler(&protocol.SchedulerStats{})
	if e.reportsSteps.Load() {
		e.steps.gauges(e.rec, &protocol.StepStats{})
	}
}

// Reject counts a request that was turned away before it was submitted. It is
// part of no other metric. A nil Recorder counts nothing.
func (r *Recorder) Reject(why stats.Rejection) {
	if r != nil {
		r.rejections[why].Inc()
	}
}

// RecordSent takes how long one sequence took from arrival until it was sent
// to the engine.
func (r *Recorder) RecordSent(index int, took time.Duration) {
	if e := r.engines[index]; e != nil {
		r.observe(e.preparation, took.Seconds())
	}
}

// RecordDelivered takes how long one update took from the engine's message
// until it was written to the client.
func (r *Recorder) RecordDelivered(index int, took time.Duration) {
	if e := r.engines[index]; e != nil {
		r.observe(e.delivery, took.Seconds())
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// seconds rounds to milliseconds: ages need no more, and a scrape is shorter.
func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }
