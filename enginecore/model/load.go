package model

import (
	"cmp"
	"fmt"
	"math"
	"runtime/debug"

	"govllm/kernels"
	"govllm/protocol/modelfile"
)

// Options of Load.
type Options struct {
	// DType that matrices are packed to; see ResolveDType.
	DType kernels.DType
	// MaxModelLen bounds positions, and so the rope tables.
	MaxModelLen int
	// Threads that read, decode and pack; 0 means one per core.
	Threads int
	// Progress, if not nil, is called after each piece of a tensor with the
	// bytes packed so far and in all, by one goroutine at a time.
	Progress func(done, total int64)
}

// Model is a loaded decoder. It does not change after Load.
type Model struct {
	cfg   modelfile.Config
	dtype kernels.DType

	embed     kernels.Weight
	layers    []layer
	finalNorm kernels.Vector
	head      kernels.Weight // embed itself if tied

	embedScale float32
	gate       kernels.GateKind
}

// layer holds one block's constants. Biases and norms are nil where there are
// none.
type layer struct {
	attn         kernels.AttnShape
	rope         kernels.Rope // RotaryDim 0: nothing turns
	attnNorm     kernels.Vector
	qkv          kernels.Weight // [(Heads+2·KVHeads)·HeadDim, hidden]
	qkvBias      kernels.Vector
	qNorm, kNorm kernels.Vector // [HeadDim]
	out          kernels.Weight // [hidden, Heads·HeadDim]
	outBias      kernels.Vector
	postAttnNorm kernels.Vector
	mlpNorm      kernels.Vector
	gateUp       kernels.Weight // [2·mlp, hidden]
	gateUpBias   kernels.Vector
	down         kernels.Weight // [hidden, mlp]
	downBias     kernels.Vector
	postMLPNorm  kernels.Vector

	// In a mixture these stand for gateUp and down.
	router  kernels.Weight // [NumExperts, hidden]; nil: none
	gateUps []kernels.Weight
	downs   []kernels.Weight
}

// Config returns what the model was built from.
func (m *Model) Config() modelfile.Config { return m.cfg }

// DType returns the type of the packed weights.
func (m *Model) DType() kernels.DType { return m.dtype }

// Load packs a checkpoint's tensors for a device; see packer for how. The peak
// of memory is the packed weights and some MiB. src may be closed afterwards.
func Load(dev kernels.Device, cfg modelfile.Config, src *modelfile.Weights, opt Options) (*Model, error) {
	fam, err := familyOf(cfg)
	if err != nil {
		return nil, err
	}
	if limit := dev.Caps().MaxHeadDim; cfg.HeadDim > limit {
		return nil, fmt.Errorf("head_dim = %d is %w on this device; at most %d is", cfg.HeadDim, modelfile.ErrUnsupported, limit)
	}
	l := &loader{dev: dev, cfg: cfg, fam: fam, src: src, opt: opt, used: make(map[string]bool)}
	l.packer = packer{dev: dev, src: src, opt: opt}
	m := l.model()
	if l.err == nil {
		l.refuseLeftovers()
	}
	if l.err != nil {
		return nil, l.err
	}
	debug.FreeOSMemory() // rope tables and what else is copied by now: packing is the peak
	if err := l.packer.run(); err != nil {
		return nil, err
	}
	return m, nil
}

// loader describes the weights, one after the other, for the packer to fill;
// what is small it reads itself. After the first error it does nothing more, so
// that callers check once.
type loader struct {
	dev kernels.Device
	cfg modelfile.Config
	fam family
	src *modelfile.Weights
	opt Options

	packer packer
	used   map[string]bool
	err    error
}

func (l *loader) model() *Model {
	w := widthsOf(l.cfg)
	m := &Model{cfg: l.cfg, dtype: l.opt.DType, gate: gateKinds[l.cfg.HiddenAct]}
	// As a number of the weights' type, like the table it multiplies.
	m.embedScale = l.opt.DType.Round(cmp.Or(l.cfg.EmbedScale, 1))
	m.embed = l.matrix(l.fam.embed, l.cfg.VocabSize, w.hidden)
	for i := 0; i < l.cfg.NumLayers && l.err == nil; i++ {
		m.layers = append(m.layers, l.layer(fmt.Sprintf(l.fam.layer, i)))
	}
	m.finalNorm = l.norm(l.fam.finalNorm, w.hidden)
	m.head = m.embed
	if !l.cfg.TieWordEmbeddings {
		m.head = l.matrix(l.fam.lmHead, l.cfg.VocabSize, w.hidden)
	}
	l.setAttention(m.layers)
	return m
}

var gateKinds = map[string]kernels.GateKind{"silu": kernels.SiLU, "gelu_pytorch_tanh": kernels.GELUTanh}

// setAttention gives each layer its way of attention.
func (l *loader) setAttention(layers []layer) {
	cfg := &l.cfg
	global, rope := attnShape(l.cfg), l.rope(cfg.Rope)
	local, localRope := global, rope
	if cfg.Local != nil {
		local.Window = cfg.SlidingWindow
		if !cfg.RopeLocal.Equal(cfg.Rope) {
			localRope = l.rope(cfg.RopeLocal)
		}
	}
	for i := range layers {
		b := &layers[i]
		b.attn, b.rope = global, rope
		if cfg.Local != nil && cfg.Local[i] {
			b.attn, b.rope = local, localRope
		}
		if cfg.NoRope != nil && cfg.NoRope[i] {
			b.rope = kernels.Rope{}
		}
	}
}

func (l *loader) layer(prefix string) layer {
	w, cfg, fam := widthsOf(l.cfg), &l.cfg, &l.fam
	heads := []int{cfg.NumHeads * cfg.HeadDim, cfg.NumKVHeads * cfg.HeadDim, cfg.NumKVHeads * cfg.HeadDim}
	both := []int{w.mlp, w.mlp}
	var b layer
	b.attnNorm = l.norm(prefix+fam.attnNorm, w.hidden)
	b.qkv = l.stacked(prefix, fam.qkv, heads, w.hidden)
	b.out = l.matrix(prefix+fam.out, w.hidden, w.attn)
	b.mlpNorm = l.norm(prefix+fam.mlpNorm, w.hidden)
	if cfg.NumExperts > 0 {
		l.experts(&b, prefix)
	} else {
		b.gateUp = l.stacked(prefix, fam.gateUp, both, w.hidden)
		b.down = l.matrix(prefix+fam.down, w.hidden, w.mlp)
	}
	if cfg.QKNorm {
		b.qNorm, b.kNorm = l.norm(prefix+fam.qNorm, cfg.HeadDim), l.norm(prefix+fam.kNorm, cfg.HeadDim)
	}
	if cfg.PostNorms {
		b.postAttnNorm, b.postMLPNorm = l.norm(prefix+fam.postAttnNorm, w.hidden), l.norm(prefix+fam.postMLPNorm, w.hidden)
	}
	if cfg.QKVBias {
		b.qkvBias = l.stackedBias(prefix, fam.qkv, heads)
	}
	if cfg.OutBias {
		b.outBias = l.vector(prefix+fam.out+".bias", w.hidden)
	}
	if cfg.MLPBias {
		b.gateUpBias = l.stackedBias(prefix, fam.gateUp, both)
		b.downBias = l.vector(prefix+fam.down+".bias", w.hidden)
	}
	return b
}

func (l *loader) experts(b *layer, prefix string) {
	w, fam := widthsOf(l.cfg), &l.fam
	b.router = l.matrix(prefix+fam.router, l.cfg.NumExperts, w.hidden)
	for i := 0; i < l.cfg.NumExperts && l.err == nil; i++ {
		expert := prefix + fmt.Sprintf(fam.expert, i)
		b.gateUps = append(b.gateUps, l.stacked(expert, fam.expertGateUp, []int{w.mlp, w.mlp}, w.hidden))
		b.downs = append(b.downs, l.matrix(expert+fam.expertDown, w.hidden, w.mlp))
	}
}

func attnShape(cfg modelfile.Config) kernels.AttnShape {
	return kernels.AttnShape{
		Heads:   cfg.NumHeads,
		KVHeads: cfg.NumKVHeads,
		HeadDim: cfg.HeadDim,
		Scale:   cmp.Or(cfg.AttnScale, float32(1/math.Sqrt(float64(cfg.HeadDim)))),
		SoftCap: cfg.AttnSoftCap,
	}
}

// tensor looks one up; on failure the loader's error is set.
func (l *loader) tensor(name string, shape ...int) (modelfile.Tensor, bool) {
	if l.err != nil {
		return modelfile.Tensor{}, false
	}
	t, err := l.src.Tensor(name, shape...)
	if err != nil {
		l.fail(err)
		return modelfile.Tensor{}, false
	}
	l.used[name] = true
	return t, true
}

func (l *loader) fail(err error) {
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("loading %w", err)
	}
}

func (l *loader) matrix(name string, n, k int) kernels.Weight {
	return l.stacked("", []string{name}, []int{n}, k)
}

// stacked packs matrices of rows[i] rows each into one. A single name holds
// them fused.
func (l *loader) stacked(prefix string, names []string, rows []int, k int) kernels.Weight {
	tensors := l.stack(prefix, names, ".weight", rows, k)
	if l.err != nil {
		return nil
	}
	w, err := l.dev.NewWeight(l.opt.DType, sum(rows), k)
	l.fail(err)
	at := 0
	for _, t := range tensors {
		l.packer.add(w, at, t)
		at += t.Shape[0]
	}
	return w
}

func (l *loader) stackedBias(prefix string, names []string, rows []int) kernels.Vector {
	var values []float32
	for _, t := range l.stack(prefix, names, ".bias", rows) {
		values = append(values, l.read(t)...)
	}
	return l.newVector(values)
}

// stack looks up the tensors of a stack; rest is their shape after the rows.
func (l *loader) stack(prefix string, names []string, suffix string, rows []int, rest ...int) []modelfile.Tensor {
	if len(names) == 1 {
		rows = []int{sum(rows)}
	}
	var tensors []modelfile.Tensor
	for i, name := range names {
		t, ok := l.tensor(prefix+name+suffix, append([]int{rows[i]}, rest...)...)
		if !ok {
			return nil
		}
		tensors = append(tensors, t)
	}
	return tensors
}

func sum(values []int) int {
	total := 0
	for _, v := range values {
		total += v
	}
	return total
}

func (l *loader) vector(name string, n int) kernels.Vector { return l.newVector(l.values(name, n)) }

// norm reads a norm's weights.
func (l *loader) norm(name string, n int) kernels.Vector {
	values := l.values(name+".weight", n)
	for i := range values {
		values[i] += l.cfg.NormOffset
	}
	return l.newVector(values)
}

func (l *loader) values(name string, n int) []float32 {
	t, ok := l.tensor(name, n)
	if !ok {
		return nil
	}
	return l.read(t)
}

// read takes all values of a small tensor.
func (l *loader) read(t modelfile.Tensor) []float32 {
	n, k := t.Rows()
	values := make([]float32, n*k)
	t.Decode(values, 0)
	l.src.Release(t, 0, n)
	return values
}

func (l *loader) newVector(values []float32) kernels.Vector {
	if l.err != nil {
		return nil
	}
	v, err := l.dev.NewVector(values)
	l.fail(err)
	return v
}

// rope tabulates cos and sin of each position's angles, times the rope's scale,
// in float64 so that far positions keep theirs.
//
// Source: Su et al. 2021, §3.2.2.
func (l *loader) rope(r modelfile.Rope) kernels.Rope {
	half, positions := r.Dim/2, l.opt.MaxModelLen
	cos, sin := make([]float32, positions*half), make([]float32, positions*half)
	scale := cmp.Or(r.Scale, 1)
	for i := range half {
		frequency := math.Pow(r.Theta, -2*float64(i)/float64(r.Dim))
		if r.Divisors != nil {
			frequency /= r.Divisors[i]
		}
		for p := range positions {
			s, c := math.Sincos(float64(p) * frequency)
			cos[p*half+i], sin[p*half+i] = float32(scale*c), float32(scale*s)
		}
	}
	style := kernels.RopeNeoX
	if r.Interleaved {
		style = kernels.RopeInterleaved
	}
	return kernels.Rope{Style: style, RotaryDim: r.Dim, Cos: l.newVector(cos), Sin: l.newVector(sin)}
}

// refuseLeftovers: a tensor that nothing asked for means that the config
// describes another model than the weights.
func (l *loader) refuseLeftovers() {
	for _, name := range l.src.Names() {
		if !l.used[name] && !l.fam.ignores(name, l.cfg) {
			l.fail(fmt.Errorf("%s has no place in a %s with this config: %w", l.src.Where(name), l.cfg.Architecture, modelfile.ErrInvalid))
			return
		}
	}
}
