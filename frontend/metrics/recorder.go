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

	Buckets    stats.CustomBuckets // nil: the defaults
	Gates      stats.Gates         // metrics that are not there by default
	ShowHidden stats.Version       // --show-hidden-metrics-for-version; zero: none
	// AggregateLog writes one line of statistics for all engines.
	AggregateLog bool
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
	aggregate  *stats.LogLine   // of all engines; nil: each has its own
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
	if c.AggregateLog {
		rec.aggregate = stats.NewAggregateLogLine(sortedKeys(rec.engines), rec.now())
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
	if r.aggregate != nil {
		r.logLine(ctx, r.aggregate)
		return
	}
	for _, index := range sortedKeys(r.engines) {
		r.logLine(ctx, r.engines[index].line)
	}
}

func (r *Recorder) logLine(ctx context.Context, l *stats.LogLine) {
	lines, idle := l.Next(r.now())
	level := slog.LevelInfo
	if idle {
		level = slog.LevelDebug
	}
	for _, line := range lines {
		r.log.Log(ctx, level, line)
	}
}

// families are the registered metrics of the catalog, by ID; nil where a
// metric is not to be exported.
type families struct {
	gauges     [stats.NumMetrics]*prometheus.GaugeVec
	counters   [stats.NumMetrics]*prometheus.CounterVec
	histograms [stats.NumMetrics]*batchVec
	aliases    map[stats.ID]stats.ID // by the metric whose old name is shown
}

func (r *Registry) families(c Config) (*families, error) {
	f := &families{aliases: make(map[stats.ID]stats.ID)}
	m := maker{reg: r, constant: prometheus.Labels{"model_name": c.ModelName}}
	for id := range stats.NumMetrics {
		d := id.Metric()
		if !c.Gates.Open(d.Gate) || !d.ShownFor(c.ShowHidden) {
			continue
		}
		if d.Deprecated != nil {
			f.aliases[d.Deprecated.Use] = id
		}
		labels := d.LabelNames()[1:] // model_name is constant
		switch d.Kind {
		case stats.Gauge:
			f.gauges[id] = m.gauge(d.Name, d.Help, labels...)
		case stats.Counter:
			f.counters[id] = m.counter(d.Name, d.Help, labels...)
		case stats.Histogram:
			f.histograms[id] = m.batches(d.Name, d.Help, c.Buckets.Buckets(d.Family, c.MaxModelLen), labels...)
		}
	}
	return f, m.err
}

// gauge returns one series; it moves that of an old name too.
func (f *families) gauge(id stats.ID, labels ...string) prometheus.Gauge {
	g := f.gauges[id].WithLabelValues(labels...)
	if old, ok := f.aliases[id]; ok {
		return twoGauges{g, f.gauges[old].WithLabelValues(labels...)}
	}
	return g
}

func (f *families) counter(id stats.ID, labels ...string) prometheus.Counter {
	c := f.counters[id].WithLabelValues(labels...)
	if old, ok := f.aliases[id]; ok {
		return twoCounters{c, f.counters[old].WithLabelValues(labels...)}
	}
	return c
}

func (f *families) histogram(id stats.ID, labels ...string) prometheus.Observer {
	h := f.histograms[id].WithLabelValues(labels...)
	if old, ok := f.aliases[id]; ok {
		return twoObservers{h, f.histograms[old].WithLabelValues(labels...)}
	}
	return h
}

// A metric under its own name and an old one. Only the methods that this
// package calls reach both.
type (
	twoGauges struct {
		prometheus.Gauge
		old prometheus.Gauge
	}
	twoCounters struct {
		prometheus.Counter
		old prometheus.Counter
	}
	twoObservers struct{ new, old prometheus.Observer }
)

func (t twoGauges) Set(v float64) {
	t.Gauge.Set(v)
	t.old.Set(v)
}

func (t twoCounters) Add(v float64) {
	t.Counter.Add(v)
	t.old.Add(v)
}

func (t twoObservers) Observe(v float64) {
	t.new.Observe(v)
	t.old.Observe(v)
}

// label writes a value of cache_config_info as Python would.
func label[T int | float64](v T) string {
	if v == 0 {
		return "None"
	}
	return strconv.FormatFloat(float64(v), 'f', -1, 64)
}
