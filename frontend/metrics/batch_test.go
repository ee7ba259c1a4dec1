package metrics

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"pgregory.net/rapid"
)

// However samples come, a series says what the library's would.
func TestBatchesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		opts := prometheus.HistogramOpts{Name: "x", Buckets: []float64{0.5, 1, 2, 8}}
		ours, theirs := newBatchVec(opts, []string{"l"}), prometheus.NewHistogramVec(opts, []string{"l"})
		a, b := ours.WithLabelValues("v"), theirs.WithLabelValues("v")
		if ours.WithLabelValues("v") != a {
			t.Fatal("the same labels give another series")
		}
		// Powers of two add up exactly in any order.
		value := rapid.SampledFrom([]float64{0, 0.25, 0.5, 1, 2, 4, 8, 16, -1})
		for range rapid.IntRange(0, 5).Draw(t, "messages") {
			samples := rapid.SliceOfN(value, 0, 20).Draw(t, "samples")
			if rapid.Bool().Draw(t, "batch") {
				observeAll(a, samples)
			} else {
				for _, v := range samples {
					a.Observe(v)
				}
			}
			for _, v := range samples {
				b.Observe(v)
			}
		}
		if got, want := collect(t, ours), collect(t, theirs); got != want {
			t.Fatalf("series = %s, want %s", got, want)
		}
	})
}

// collect writes the only series of c in short.
func collect(t *rapid.T, c prometheus.Collector) string {
	ch := make(chan prometheus.Metric, 2)
	c.Collect(ch)
	close(ch)
	var d dto.Metric
	if err := (<-ch).Write(&d); err != nil {
		t.Fatal(err)
	}
	if _, more := <-ch; more {
		t.Fatal("more than one series")
	}
	text := fmt.Sprint(d.Histogram.GetSampleCount(), " samples, ", d.Histogram.GetSampleSum())
	for _, b := range d.Histogram.GetBucket() {
		text += fmt.Sprint(", ", b.GetCumulativeCount(), " up to ", b.GetUpperBound())
	}
	return text
}

// Both names of a metric get every sample.
func TestBatchesReachOldNames(t *testing.T) {
	opts := prometheus.HistogramOpts{Name: "x", Buckets: []float64{1}}
	a, b := newBatchVec(opts, nil).WithLabelValues(), newBatchVec(opts, nil).WithLabelValues()
	observeAll(twoObservers{a, b}, []float64{3, 3, 0.5})
	for _, o := range []prometheus.Observer{a, b} {
		var d dto.Metric
		if err := o.(prometheus.Metric).Write(&d); err != nil || d.Histogram.GetSampleCount() != 3 || d.Histogram.GetSampleSum() != 6.5 {
			t.Errorf("series = %v, %v, want 3 samples of 6.5 together", &d, err)
		}
	}
}

func BenchmarkObserveAll(b *testing.B) {
	for _, distinct := range []int{1, 16, 256} {
		b.Run("distinct="+strconv.Itoa(distinct), func(b *testing.B) {
			o := newBatchVec(prometheus.HistogramOpts{Name: "x", Buckets: prometheus.DefBuckets}, nil).WithLabelValues()
			values := make([]float64, 256)
			for i := range values {
				values[i] = float64(i*distinct/256) / 100
			}
			b.ReportAllocs()
			for b.Loop() {
				observeAll(o, values)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/256, "ns/sample")
		})
	}
}
