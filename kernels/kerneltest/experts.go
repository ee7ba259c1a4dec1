package kerneltest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"govllm/kernels"
)

func testRoute(t *testing.T, s suite) {
	for _, c := range []struct {
		cols, k   int
		normalize bool
	}{{1, 1, false}, {2, 1, true}, {8, 2, true}, {8, 8, false}, {60, 4, false}, {128, 8, true}} {
		logits := normal(newRand(6), 9, c.cols, 3)
		logits.row(1)[c.cols-1] = logits.row(1)[0] // equal: the lower one first
		logits.row(2)[c.cols/2] = 200
		for i := range logits.row(3) {
			logits.row(3)[i] = -100
		}
		var ids [2][]int32
		run := 0
		got, want := s.both(t, func(b *bench) matrix {
			d, weights := b.ints(make([]int32, 9*c.k)...), b.load(newMatrix(9, c.k))
			b.q.Route(d, weights, b.load(logits), c.k, c.normalize, 8)
			m := b.rows(weights)
			ids[run] = make([]int32, 9*c.k)
			b.q.Download(ids[run], d)
			b.sync()
			run++
			return m
		})
		what := fmt.Sprintf("Route(%d of %d, normalize=%v)", c.k, c.cols, c.normalize)
		s.near(t, what, got, want)
		if !slices.Equal(ids[0], ids[1]) {
			t.Errorf("%s picks %v, want %v", what, ids[0], ids[1])
		}
	}
}

func testLinearEach(t *testing.T, s suite) {
	for _, dt := range dtypes {
		for _, c := range []struct{ n, k, S, each, matrices int }{
			{1, 1, 1, 1, 1}, {16, 64, 4, 2, 3}, {33, 65, 12, 4, 5}, {130, 40, 34, 2, 2}, {300, 96, 70, 1, 8},
		} {
			rng := newRand(3)
			ms := make([]matrix, c.matrices)
			for i := range ms {
				ms[i] = normal(rng, c.n, c.k, 1/math.Sqrt(float64(c.k)))
			}
			x, y := normal(rng, (c.S+c.each-1)/c.each, c.k, 1), normal(rng, c.S+1, c.n, 1)
			ids := make([]int32, c.S)
			for i := range ids {
				ids[i] = int32(rng.IntN(c.matrices))
			}
			var alone matrix
			got, want := s.both(t, func(b *bench) matrix {
				var ws []kernels.Weight
				for _, m := range ms {
					ws = append(ws, b.weight(dt, m))
				}
				in, out := b.load(x), b.load(y)
				b.q.LinearEach(out, in, ws, b.ints(ids...), c.each, c.S)
				m := b.rows(out)
				// Linear of each row by itself must be the same, bit by bit.
				rows := newMatrix(c.S, c.n)
				one, y := b.activation(1, c.k), b.activation(1, c.n)
				for i, id := range ids {
					b.q.GatherRows(one, in, b.ints(int32(i/c.each)), 1)
					b.q.Linear(y, one, ws[id], nil, false, 1)
					b.q.DownloadRows(rows.row(i), y, 1)
					if i%20 == 19 {
						b.sync()
					}
				}
				b.sync()
				if alone.values == nil {
					alone = rows
				}
				return m
			})
			what := fmt.Sprintf("LinearEach(%v, %d of [%d, %d], S=%d, each=%d)", dt, c.matrices, c.n, c.k, c.S, c.each)
			s.near(t, what, got, want)
			same(t, what+" alone", alone.values, got.values[:c.S*c.n])
		}
	}
}

func testAddWeighted(t *testing.T, s suite) {
	for _, c := range []struct{ d, k int }{{1, 1}, {7, 2}, {65, 8}, {576, 3}} {
		rng := newRand(2)
		x, w, old := normal(rng, 9*c.k, c.d, 1), normal(rng, 9, c.k, 1), normal(rng, 9, c.d, 1)
		got, want := s.both(t, func(b *bench) matrix {
			out := b.load(old)
			b.q.AddWeighted(out, b.load(x), b.load(w), 8)
			m := b.rows(out)
			b.sync()
			return m
		})
		s.near(t, fmt.Sprintf("AddWeighted(d=%d, k=%d)", c.d, c.k), got, want)
		same(t, "AddWeighted, rows beyond T", got.values[8*c.d:], old.values[8*c.d:])
	}
}
