package metrics

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// batchVec is a HistogramVec whose series take equal samples in one go.
//
// The requests that decode in a step got their last token in the same message,
// so their inter-token latencies are one number, as often as there are
// requests. The library's histogram takes them one by one, 34 ns each.
type batchVec struct {
	*prometheus.HistogramVec
	bounds []float64

	mu     sync.Mutex
	series map[prometheus.Observer]*batch // by the library's
}

// batch is one series: the library's for single samples, and beside it what
// came in batches. Its text and its /metrics are the sum.
type batch struct {
	prometheus.Histogram
	bounds []float64

	mu     sync.Mutex
	counts []uint64 // by bucket, not cumulative; the last is above all bounds
	sum    float64
}

func newBatchVec(opts prometheus.HistogramOpts, labels []string) *batchVec {
	return &batchVec{HistogramVec: prometheus.NewHistogramVec(opts, labels), bounds: opts.Buckets, series: map[prometheus.Observer]*batch{}}
}

// WithLabelValues returns a series, which is a *batch.
func (v *batchVec) WithLabelValues(labels ...string) prometheus.Observer {
	o := v.HistogramVec.WithLabelValues(labels...)
	v.mu.Lock()
	defer v.mu.Unlock()
	b := v.series[o]
	if b == nil {
		b = &batch{Histogram: o.(prometheus.Histogram), bounds: v.bounds, counts: make([]uint64, len(v.bounds)+1)}
		v.series[o] = b
	}
	return b
}

// Collect sends the series as they stand, batches included.
func (v *batchVec) Collect(ch chan<- prometheus.Metric) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, b := range v.series {
		ch <- b
	}
}

// observeN takes n samples of the same value.
func (b *batch) observeN(value float64, n int) {
	bucket, _ := slices.BinarySearch(b.bounds, value)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts[bucket] += uint64(n)
	b.sum += value * float64(n)
}

// Write adds the batches to what the library has.
func (b *batch) Write(out *dto.Metric) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.Histogram.Write(out); err != nil {
		return err
	}
	h := out.Histogram
	var below uint64
	for i, bucket := range h.Bucket {
		below += b.counts[i]
		*bucket.CumulativeCount += below
	}
	*h.SampleCount += below + b.counts[len(b.bounds)]
	*h.SampleSum += b.sum
	return nil
}

// observeAll takes samples of which many that follow one another are equal.
func observeAll(o prometheus.Observer, values []float64) {
	for len(values) > 0 {
		n := 1
		for n < len(values) && values[n] == values[0] {
			n++
		}
		observeN(o, values[0], n)
		values = values[n:]
	}
}

func observeN(o prometheus.Observer, value float64, n int) {
	switch o := o.(type) {
	case *batch:
		o.observeN(value, n)
	case twoObservers:
		observeN(o.new, value, n)
		observeN(o.old, value, n)
	default:
		for range n {
			o.Observe(value)
		}
	}
}
