package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"govllm/protocol"
	"govllm/stats"

	"github.com/prometheus/client_golang/prometheus"
)

// Config describes what the vllm: metrics are about.
type Config struct {
	ModelName   string // the model_name label: the first served name
	MaxModelLen int    // tokens; bounds the buckets of lengths
	Engines     []EngineConfig
	Now         func() time.Time // nil: time.Now
}

// EngineConfig is what vllm:cache_config_info says of one engine. A value the
// engine did not tell is zero, and None in the label.
type EngineConfig struct {
	Index                 int // the engine label, and EngineIndex of its messages
	BlockSize             int // tokens
	NumGPUBlocks          int
	KVCacheSizeTokens     int
	KVCacheMaxConcurrency float64
	CacheDType            string
	EnablePrefixCaching   *bool
	GPUMemoryUtilization  float64
}

// Validate reports everything that is wrong with c.
func (c *Config) Validate() error {
	var errs []error
	if c.ModelName == "" {
		errs = append(errs, errors.New("metrics: ModelName is empty"))
	}
	if c.MaxModelLen < 1 {
		errs = append(errs, fmt.Errorf("metrics: MaxModelLen is %d, want at least 1", c.MaxModelLen))
	}
	seen := make(map[int]bool)
	for _, e := range c.Engines {
		if e.Index < 0 || seen[e.Index] {
			errs = append(errs, fmt.Errorf("metrics: engine index %d is negative or taken", e.Index))
		}
		seen[e.Index] = true
	}
	return errors.Join(errs...)
}

// Recorder turns recorded statistics into metrics. Record may be called from
// any goroutine, but scheduler statistics of one engine come one at a time.
type Recorder struct {
	registry   *Registry
	log        *slog.Logger
	now        func() time.Time
	engines    map[int]*engine  // fixed after NewRecorder
	tokenizing prometheus.Gauge // with no engine yet
	rejections [stats.NumRejections]prometheus.Counter
	anomalies  [stats.NumAnomalies]prometheus.Counter
	logged     [stats.NumAnomalies]atomic.Bool
}

// NewRecorder registers the vllm: metrics of c's engines, all series at zero.
func (r *Registry) NewRecorder(c Config) (*Recorder, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	f, err := r.families(c)
	if err != nil {
		return nil, err
	}
	rec := &Recorder{registry: r, log: r.log, now: c.Now, engines: make(map[int]*engine),
		tokenizing: f.gauge(stats.RequestsInFlight, "", "tokenizing")}
	for why := range rec.rejections {
		rec.rejections[why] = f.counter(stats.AdmissionRejections, stats.Rejection(why).String())
	}
	for kind := range rec.anomalies {
		rec.anomalies[kind] = f.counter(stats.StatsAnomalies, stats.Anomaly(kind).String())
	}
	for _, e := range c.Engines {
		rec.engines[e.Index] = newEngine(rec, f, e)
	}
	return rec, nil
}

// Record takes in one message of an engine, or with s = nil a request that
// ended outside one. It cannot fail: what is impossible is clamped, counted
// and logged the first time.
func (r *Recorder) Record(index int, s *protocol.SchedulerStats, it *stats.Iteration) {
	e := r.engines[index]
	if e == nil {
		r.anomaly(stats.AnomalyUnknownEngine, 1)
		return
	}
	e.record(s, it)
	for kind, n := range it.Anomalies {
		if n > 0 {
			r.anomaly(stats.Anomaly(kind), n)
		}
	}
}

func (r *Recorder) anomaly(kind stats.Anomaly, n int) {
	r.anomalies[kind].Add(float64(n))
	if !r.logged[kind].Swap(true) {
		r.log.Warn("statistics: an impossible number was clamped; further ones are only counted",
			"kind", kind.String(), "metric", stats.StatsAnomalies.Metric().Name)
	}
}

// add counts n, which must not be negative: the client library panics.
func (r *Recorder) add(c prometheus.Counter, n int) {
	switch {
	case n > 0:
		c.Add(float64(n))
	case n < 0:
		r.anomaly(stats.AnomalyNegativeCount, 1)
	}
}

func (r *Recorder) set(g prometheus.Gauge, v float64) { g.Set(r.clamp(v)) }

func (r *Recorder) observe(o prometheus.Observer, v float64) { o.Observe(r.clamp(v)) }

// clamp returns 0 for what no count or duration can be.
func (r *Recorder) clamp(v float64) float64 {
	if v >= 0 && !math.IsInf(v, 1) {
		return v
	}
	r.anomaly(stats.AnomalyNegativeCount, 1)
	return 0
}

// DefaultLogInterval is VLLM_LOG_STATS_INTERVAL's default.
const DefaultLogInterval = 10 * time.Second

// LogEvery writes each engine's line of statistics every interval (10 s if it
// is not positive) until ctx ends: at level Info, or Debug while idle.
func (r *Recorder) LogEvery(ctx context.Context, interval time.Duration) {
	if interval <= 0 {
		interval = DefaultLogInterval
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.logLines(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (r *Recorder) logLines(ctx context.Context) {
	for _, index := range sortedKeys(r.engines) {
		line, idle := r.engines[index].line.Next(r.now())
		level := slog.LevelInfo
		if idle {
			level = slog.LevelDebug
		}
		r.log.Log(ctx, level, line)
	}
}

// families are the registered metrics of the catalog, by ID.
type families struct {
	gauges     [stats.NumMetrics]*prometheus.GaugeVec
	counters   [stats.NumMetrics]*prometheus.CounterVec
	histograms [stats.NumMetrics]*prometheus.HistogramVec
}

func (r *Registry) families(c Config) (*families, error) {
	f := &families{}
	m := maker{reg: r, constant: prometheus.Labels{"model_name": c.ModelName}}
	for id := range stats.NumMetrics {
		d := id.Metric()
		labels := d.LabelNames()[1:] // model_name is constant
		switch d.Kind {
		case stats.Gauge:
			f.gauges[id] = m.gauge(d.Name, d.Help, labels...)
		case stats.Counter:
			f.counters[id] = m.counter(d.Name, d.Help, labels...)
		case stats.Histogram:
			f.histograms[id] = m.histogram(d.Name, d.Help, d.Family.Buckets(c.MaxModelLen), labels...)
		}
	}
	return f, m.err
}

func (f *families) gauge(id stats.ID, labels ...string) prometheus.Gauge {
	return f.gauges[id].WithLabelValues(labels...)
}

func (f *families) counter(id stats.ID, labels ...string) prometheus.Counter {
	return f.counters[id].WithLabelValues(labels...)
}

func (f *families) histogram(id stats.ID, labels ...string) prometheus.Observer {
	return f.histograms[id].WithLabelValues(labels...)
}

// label writes a value of cache_config_info as Python would.
func label[T int | float64](v T) string {
	if v == 0 {
		return "None"
	}
	return strconv.FormatFloat(float64(v), 'f', -1, 64)
}
