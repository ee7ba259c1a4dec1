// Package metrics exports the frontend's statistics to Prometheus.
//
// A Registry serves /metrics from memory. A Recorder adds the vllm: metrics of
// stats' catalog to it and takes what the engine client records; HTTP adds the
// http_* ones; Load serves /load. The process's own (process_*, go_*) are
// always there.
//
// Follows vLLM V1 metrics/loggers.py; we differ in: cache_config_info carries
// model_name, speculative decoding shows itself with its first statistics,
// and engines that report their steps get metrics of their own.
package metrics

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
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
	prom    *prometheus.Registry
	process processMetrics
	log     *slog.Logger
	bufs    sync.Pool // of *bytes.Buffer, for expositions
}

// NewRegistry returns a registry of the process's own metrics. log may be nil.
func NewRegistry(log *slog.Logger) *Registry {
	if log == nil {
		log = slog.Default()
	}
	r := &Registry{
		prom:    prometheus.NewRegistry(),
		process: processMetrics{prom: prometheus.NewRegistry()},
		log:     log,
		bufs:    sync.Pool{New: func() any { return new(bytes.Buffer) }},
	}
	r.process.prom.MustRegister(
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(),
	)
	return r
}

// processMetrics are process_* and go_*, read anew at most once a second: to
// read /proc costs as much as all the rest of a scrape.
type processMetrics struct {
	prom *prometheus.Registry

	mu       sync.Mutex
	at       time.Time
	families []*dto.MetricFamily
}

func (p *processMetrics) gather() ([]*dto.MetricFamily, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) < time.Second {
		return p.families, nil
	}
	var err error
	p.families, err = p.prom.Gather()
	p.at = time.Now()
	return p.families, err
}

// ServeHTTP answers /metrics in the text format, whatever the client would
// accept: scrapers come up to 20 times a second, and compression would cost
// more than all the rest. A collector that fails is logged and left out.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	families, err := r.Gather()
	if err != nil {
		r.log.Error("metrics: some could not be gathered", "err", err)
	}
	buf := r.bufs.Get().(*bytes.Buffer)
	defer r.bufs.Put(buf)
	buf.Reset()
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(buf, f); err != nil {
			r.log.Error("metrics: one could not be written", "name", f.GetName(), "err", err)
		}
	}
	w.Header().Set("Content-Type", ContentType)
	w.Header().Set("Content-Length", strconv.Itoa(buf.Len()))
	if req.Method == http.MethodHead {
		return
	}
	if _, err := w.Write(buf.Bytes()); err != nil {
		r.log.Debug("metrics: scraper went away", "err", err)
	}
}

// Gather returns every family, and behind each counter, histogram and summary
// the gauge family of its creation times: <name>_created, without a counter's
// _total, as Python's client writes them. Readers that compare two snapshots
// see by them that the process was restarted in between.
func (r *Registry) Gather() ([]*dto.MetricFamily, error) {
	families, err := r.prom.Gather()
	process, processErr := r.process.gather()
	all := make([]*dto.MetricFamily, 0, 2*len(families)+len(process))
	for _, f := range families {
		all = append(all, f)
		if created := createdFamily(f); created != nil {
			all = append(all, created)
		}
	}
	return append(all, process...), errors.Join(err, processErr)
}

// createdFamily is nil if nothing in f knows when it was created.
func createdFamily(f *dto.MetricFamily) *dto.MetricFamily {
	var times []*dto.Metric
	for _, m := range f.GetMetric() {
		at := m.GetCounter().GetCreatedTimestamp()
		if at == nil {
			at = m.GetHistogram().GetCreatedTimestamp()
		}
		if at == nil {
			at = m.GetSummary().GetCreatedTimestamp()
		}
		if at != nil {
			seconds := float64(at.GetSeconds()) + float64(at.GetNanos())/1e9
			times = append(times, &dto.Metric{Label: m.GetLabel(), Gauge: &dto.Gauge{Value: &seconds}})
		}
	}
	if times == nil {
		return nil
	}
	name := f.GetName()
	if f.GetType() == dto.MetricType_COUNTER {
		name = strings.TrimSuffix(name, "_total")
	}
	name += "_created"
	return &dto.MetricFamily{Name: &name, Help: f.Help, Type: dto.MetricType_GAUGE.Enum(), Metric: times}
}
