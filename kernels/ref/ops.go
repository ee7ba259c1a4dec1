package ref

import (
	"cmp"
	"math"
	"slices"

	"govllm/kernels"
)

func embed(out *activation, table *weight, ids ints, scale float32, T int) error {
	for t := range T {
		if err := inRange("Embed", "token", t, ids[t], table.n); err != nil {
			return err
		}
		o := out.row(t)
		for i, v := range table.row(int(ids[t])) {
			o[i] = v * scale
		}
	}
	return nil
}

// rmsNorm sets out to x/√(mean(x²)+eps)·w. out may be x.
func rmsNorm(out, x []float32, w vector, eps float32) {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	inv := float32(1 / math.Sqrt(sum/float64(len(x))+float64(eps)))
	for i, v := range x {
		out[i] = v * inv * w[i]
	}
}

// linear computes columns [lo, hi) of out = x·wᵀ + bias.
func linear(out, x *activation, w *weight, bias vector, accumulate bool, T, lo, hi int) {
	store := func(t, n int, y float32) {
		if bias != nil {
			y += bias[n]
		}
		if accumulate {
			y += out.row(t)[n]
		}
		out.row(t)[n] = y
	}
	for n := lo; n < hi; n++ {
		// Four rows at a time: four sums in flight, each in its own order.
		t := 0
		for ; t+4 <= T; t += 4 {
			a, b, c, d := dot4(w.row(n), x.row(t), x.row(t+1), x.row(t+2), x.row(t+3))
			store(t, n, a)
			store(t+1, n, b)
			store(t+2, n, c)
			store(t+3, n, d)
		}
		for ; t < T; t++ {
			store(t, n, dot(w.row(n), x.row(t)))
		}
	}
}

// dot returns Σ w[k]·x[k], summed in ascending k.
func dot(w, x []float32) (s float32) {
	x = x[:len(w)]
	for k, v := range w {
		s += float32(v * x[k])
	}
	return s
}

// dot4 is dot for four x at once.
func dot4(w, x0, x1, x2, x3 []float32) (s0, s1, s2, s3 float32) {
	x0, x1, x2, x3 = x0[:len(w)], x1[:len(w)], x2[:len(w)], x3[:len(w)]
	for k, v := range w {
		s0 += float32(v * x0[k])
		s1 += float32(v * x1[k])
		s2 += float32(v * x2[k])
		s3 += float32(v * x3[k])
	}
	return s0, s1, s2, s3
}

// gateMul sets out[i] to gate(gu[i])·gu[F+i].
func gateMul(out, gu []float32, kind kernels.GateKind) {
	up := gu[len(out):]
	for i := range out {
		x := float64(gu[i])
		y := x // the gate is x·σ(y)
		if kind == kernels.GELUTanh {
			// (1+tanh(z))/2 = σ(2z)
			y = 2 * math.Sqrt(2/math.Pi) * (x + 0.044715*x*x*x)
		}
		out[i] = float32(x/(1+math.Exp(-y))) * up[i]
	}
}

// route picks the len(ids) highest logits and their parts of the softmax.
func route(ids ints, weights, logits []float32, normalize bool) {
	order := make([]int, len(logits))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(logits[b], logits[a]) })
	of := order
	if normalize {
		of = order[:len(ids)]
	}
	part := func(i int) float64 { return math.Exp(float64(logits[i]) - float64(logits[order[0]])) }
	sum := 0.0
	for _, i := range of {
		sum += part(i)
	}
	for j := range ids {
		ids[j], weights[j] = int32(order[j]), float32(part(order[j])/sum)
	}
}

// addWeighted adds Σⱼ weights[j]·x[t·k+j] to out.
func addWeighted(out []float32, x *activation, t int, weights []float32) {
	for i := range out {
		var sum float32
		for j, w := range weights {
			sum += float32(w * x.row(t*len(weights) + j)[i])
		}
		out[i] += sum
	}
}

// softCap bounds x to (−cap, cap).
func softCap(x, cap float32) float32 { return cap * float32(math.Tanh(float64(x/cap))) }

// ropeKVWrite turns q and k of each row and writes k and v to their slots.
func ropeKVWrite(qkv *activation, kv *kvCache, layer int, positions, slots ints,
	rope kernels.Rope, s kernels.AttnShape, qNorm, kNorm vector, eps float32, T int) error {
	hd, half := s.HeadDim, rope.RotaryDim/2
	var cos, sin vector
	maxPosition := math.MaxInt32
	if half > 0 {
		cos, sin = rope.Cos.(vector), rope.Sin.(vector)
		maxPosition = len(cos) / half
	}
	for t := range T {
		if err := inRange("RopeKVWrite", "position", t, positions[t], maxPosition); err != nil {
			return err
		}
		if err := inRange("RopeKVWrite", "slot", t, slots[t], kv.slots()); err != nil {
			return err
		}
		c, sn := cos, sin
		if half > 0 {
			at := int(positions[t]) * half
			c, sn = cos[at:at+half], sin[at:at+half]
		}
		row := qkv.row(t)
		for h := range s.Heads + s.KVHeads {
			head, norm := row[h*hd:(h+1)*hd], qNorm
			if h >= s.Heads {
				norm = kNorm
			}
			if norm != nil {
				rmsNorm(head, head, norm, eps)
			}
			turn(head, c, sn, rope.Style)
		}
		for h := range s.KVHeads {
			at := kv.at(layer, int(slots[t]), h)
			k := row[(s.Heads+h)*hd:]
			v := row[(s.Heads+s.KVHeads+h)*hd:]
			for i := range hd {
				kv.k[at+i] = kv.shape.DType.Round(k[i])
				kv.v[at+i] = kv.shape.DType.Round(v[i])
			}
		}
	}
	return nil
}

// turn rotates the first 2·len(cos) values of a head, pair by pair.
// Source: Su et al. 2021, eq. 34.
func turn(head []float32, cos, sin vector, style kernels.RopeStyle) {
	half := len(cos)
	for i := range half {
		a, b := i, i+half
		if style == kernels.RopeInterleaved {
			a, b = 2*i, 2*i+1
		}
		x, y := head[a], head[b]
		head[a] = float32(x*cos[i]) - float32(y*sin[i])
		head[b] = float32(y*cos[i]) + float32(x*sin[i])
	}
}

// copyBlocks copies blocks from → to in the order of pairs, in every layer.
func copyBlocks(kv *kvCache, pairs ints) error {
	for i, b := range pairs {
		if err := inRange("CopyBlocks", "block", i, b, kv.shape.NumBlocks); err != nil {
			return err
		}
	}
	n := kv.shape.BlockSize * kv.shape.KVHeads * kv.shape.HeadDim
	for layer := range kv.shape.Layers {
		base := kv.at(layer, 0, 0)
		for i := 0; i < len(pairs); i += 2 {
			from, to := base+int(pairs[i])*n, base+int(pairs[i+1])*n
			copy(kv.k[to:to+n], kv.k[from:from+n])
			copy(kv.v[to:to+n], kv.v[from:from+n])
		}
	}
	return nil
}
