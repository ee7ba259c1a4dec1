package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// ContentType is that of /metrics.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Registry holds every metric of the frontend. Safe for concurrent use.
type Registry struct {
	log     *slog.Logger
	prom    *prometheus.Registry // vllm: and http_*
	process processMetrics

	mu   sync.Mutex // one scrape at a time: a scrape takes less than waking a second one
	text exposition // of prom
	buf  bytes.Buffer

	before []func() // a scrape; fixed before the first one
}

// NewRegistry returns a registry of the process's own metrics. log may be nil.
func NewRegistry(log *slog.Logger) *Registry {
	if log == nil {
		log = slog.Default()
	}
	r := &Registry{log: log, prom: prometheus.NewRegistry(), process: processMetrics{prom: prometheus.NewRegistry()}}
	r.process.prom.MustRegister(
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(),
	)
	return r
}

// maker makes and registers metrics; err is the first thing that went wrong.
type maker struct {
	reg      *Registry
	constant prometheus.Labels
	err      error
}

func (m *maker) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: m.constant}, labels)
	m.register(name, help, dto.MetricType_GAUGE, v)
	return v
}

func (m *maker) counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: m.constant}, labels)
	m.register(name, help, dto.MetricType_COUNTER, v)
	return v
}

func (m *maker) summary(name, help string, labels ...string) *prometheus.SummaryVec {
	v := prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: name, Help: help, ConstLabels: m.constant}, labels)
	m.register(name, help, dto.MetricType_SUMMARY, v)
	return v
}

func (m *maker) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, ConstLabels: m.constant, Buckets: buckets}, labels)
	m.register(name, help, dto.MetricType_HISTOGRAM, v)
	return v
}

func (m *maker) batches(name, help string, buckets []float64, labels ...string) *batchVec {
	v := newBatchVec(prometheus.HistogramOpts{Name: name, Help: help, ConstLabels: m.constant, Buckets: buckets}, labels)
	m.register(name, help, dto.MetricType_HISTOGRAM, v)
	return v
}

func (m *maker) register(name, help string, kind dto.MetricType, c prometheus.Collector) {
	if m.err != nil {
		return
	}
	if err := m.reg.prom.Register(c); err != nil {
		m.err = fmt.Errorf("metrics: register %s: %w", name, err)
		return
	}
	m.reg.mu.Lock()
	defer m.reg.mu.Unlock()
	m.reg.text.add(name, help, kind, c)
}

// beforeScrape has f called before each scrape and each Gather, one at a time.
func (r *Registry) beforeScrape(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = append(r.before, f)
}

func (r *Registry) refresh() {
	for _, f := range r.before {
		f()
	}
}

// Gather returns the present value of every vllm: and http_* metric.
func (r *Registry) Gather() ([]*dto.MetricFamily, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refresh()
	return r.prom.Gather()
}

// ServeHTTP answers /metrics in the text format, uncompressed, whatever the
// client would accept: scrapers come up to 20 times a second. A metric that
// cannot be read is logged and left out.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	text, err := r.scrape()
	if err != nil {
		r.log.Error("some metrics are left out", "err", err)
	}
	w.Header().Set("Content-Type", ContentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	if req.Method == http.MethodHead {
		return
	}
	if _, err := w.Write(text); err != nil {
		r.log.Debug("a scraper went away", "err", err)
	}
}

func (r *Registry) scrape() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refresh()
	r.buf.Reset()
	err := r.text.write(&r.buf)
	process, processErr := r.process.text()
	r.buf.Write(process)
	return bytes.Clone(r.buf.Bytes()), errors.Join(err, processErr)
}

// processMetrics are process_* and go_*, read anew at most once a second: to
// read /proc takes longer than all the rest of a scrape. The registry's lock
// guards it.
type processMetrics struct {
	prom *prometheus.Registry
	at   time.Time
	buf  bytes.Buffer
}

func (p *processMetrics) text() ([]byte, error) {
	if time.Since(p.at) < time.Second {
		return p.buf.Bytes(), nil
	}
	families, err := p.prom.Gather()
	p.at = time.Now()
	p.buf.Reset()
	for _, f := range families {
		if _, writeErr := expfmt.MetricFamilyToText(&p.buf, f); writeErr != nil {
			err = errors.Join(err, writeErr)
		}
	}
	return p.buf.Bytes(), err
}
