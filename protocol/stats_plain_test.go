package protocol

import (
	"bytes"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// byKey reads statistics without the short way.
func byKey(b []byte) (*SchedulerStats, error) {
	s := &SchedulerStats{}
	r := reader{buf: b}
	r.statsByKey(s, &statsParts{})
	return s, r.err()
}

// What we write of a step is read the short way, and the same as key by key,
// as long as it is plain.
func TestPlainStats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawStats(t)
		b := appendSchedulerStats(nil, s)
		if long := appendStatsByKey(nil, s); !bytes.Equal(b, long) {
			t.Fatalf("written %x, key by key %x", b, long)
		}
		isPlain := s.isPlain() && !negative(s)
		r, got := reader{buf: append(b, 7)}, &SchedulerStats{}
		if r.plainStats(got) != isPlain {
			t.Fatalf("plain = %t, want %t of %+v", !isPlain, isPlain, s)
		}
		want := &SchedulerStats{}
		if isPlain {
			want, _ = byKey(b)
		}
		if diff := cmp.Diff(want, got); diff != "" || isPlain != (r.pos == len(b)) {
			t.Fatalf("read up to %d of %d (-by key +plain):\n%s", r.pos, len(b), diff)
		}
	})
}

func negative(s *SchedulerStats) bool {
	p, q := &s.PrefixCacheStats, &s.Step
	for _, n := range []int{s.NumRunningReqs, s.NumWaitingReqs, s.NumSkippedWaitingReqs, s.StepCounter, s.CurrentWave,
		p.Requests, p.Queries, p.Hits, p.PreemptedRequests, p.PreemptedQueries, p.PreemptedHits,
		q.NumPrefillTokens, q.NumPrefillReqs, q.NumDecodeTokens, q.NumDecodeReqs, q.Preemptions.KVFull, q.Preemptions.Priority, q.Preemptions.Reset,
		q.NumRecomputed, q.NumWaitingTokens, q.NumUncachedTokens, q.NumResidentTokens, q.NumPendingTokens, q.NumArrived} {
		if n < 0 {
			return true
		}
	}
	return false
}

// A byte changed anywhere, or an end anywhere, gives what key by key gives,
// errors included.
func TestBrokenPlainStats(t *testing.T) {
	s := &SchedulerStats{NumRunningReqs: 300, KVCacheUsage: 0.5, PrefixCacheStats: PrefixCacheStats{Queries: 70_000},
		Step: StepStats{Known: true, Number: math.MaxInt64, Duration: 0.01, NumDecodeTokens: 200, NumResidentTokens: 1 << 40}}
	b := appendSchedulerStats(nil, s)
	check := func(what string, at int, broken []byte) {
		want, wantErr := byKey(broken)
		r, got := reader{buf: broken}, &SchedulerStats{}
		r.schedulerStats(got, &statsParts{})
		if err := r.err(); (err == nil) != (wantErr == nil) || (err != nil && err.Error() != wantErr.Error()) {
			t.Fatalf("%s at %d: error %v, want %v", what, at, err, wantErr)
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }), cmp.Transformer("events", func(e []KVCacheEvictionEvent) int { return len(e) })); diff != "" {
			t.Fatalf("%s at %d (-by key +ours):\n%s", what, at, diff)
		}
	}
	for at := range b {
		check("end", at, b[:at])
		for _, change := range []byte{1, 0x80, 0xff, b[at] ^ 0xc0} {
			broken := append([]byte(nil), b...)
			broken[at] ^= change
			check("change", at, broken)
		}
	}
}

func BenchmarkSchedulerStats(b *testing.B) {
	stats := &SchedulerStats{NumRunningReqs: 256, NumWaitingReqs: 40, KVCacheUsage: 0.61,
		Step: StepStats{Known: true, Number: 123456, Duration: 0.012, NumDecodeTokens: 256, NumDecodeReqs: 256, NumResidentTokens: 250000}}
	text := appendSchedulerStats(nil, stats)
	for _, way := range []struct {
		name string
		read func(*reader, *SchedulerStats)
	}{
		{"plain", func(r *reader, s *SchedulerStats) { r.schedulerStats(s, nil) }},
		{"by key", func(r *reader, s *SchedulerStats) { r.statsByKey(s, nil) }},
	} {
		b.Run("read/"+way.name, func(b *testing.B) {
			var s SchedulerStats
			r := &reader{}
			b.ReportAllocs()
			for b.Loop() {
				*r = reader{buf: text}
				way.read(r, &s)
			}
		})
	}
	for _, way := range []struct {
		name  string
		write func([]byte, *SchedulerStats) []byte
	}{{"plain", appendSchedulerStats}, {"by key", appendStatsByKey}} {
		b.Run("write/"+way.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				text = way.write(text[:0], stats)
			}
		})
	}
}
