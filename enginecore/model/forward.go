package model

import (
	"fmt"

	"govllm/kernels"
)

// Workspace holds the activations that a step writes. One step uses it at a
// time.
type Workspace struct {
	x, norm        kernels.Activation // [maxTokens, hidden]: residual stream, its norm
	qkv            kernels.Activation // [maxTokens, (Heads+2·KVHeads)·HeadDim]
	attn           kernels.Activation // [maxTokens, Heads·HeadDim]
	gateUp         kernels.Activation // [maxTokens, 2·mlp]
	mlp            kernels.Activation // [maxTokens, mlp]
	moe            mixture
	lastX, lastOut kernels.Activation // [maxLogits, …] of x and attn
	logits         kernels.Activation // [maxLogits, vocab]
	maxTokens      int
	maxLogits      int
}

// mixture is what a mixture of experts has beside: of each token, the experts
// that it meets, in whose order gateUp and mlp then have rows too.
type mixture struct {
	logits kernels.Activation // [maxTokens, NumExperts] of the router
	picked kernels.Ints       // [maxTokens·ExpertsPerToken]
	parts  kernels.Activation // [maxTokens, ExpertsPerToken]
	out    kernels.Activation // [maxTokens·ExpertsPerToken, hidden]
}

// NewWorkspace allocates for steps of up to maxTokens tokens, up to maxLogits
// of which need logits.
func (m *Model) NewWorkspace(dev kernels.Device, maxTokens, maxLogits int) (*Workspace, error) {
	w := widthsOf(m.cfg)
	s := &Workspace{maxTokens: maxTokens, maxLogits: maxLogits}
	mlpRows := maxTokens * max(1, m.cfg.ExpertsPerToken)
	activations := []activation{
		{&s.x, maxTokens, w.hidden},
		{&s.norm, maxTokens, w.hidden},
		{&s.qkv, maxTokens, w.qkv},
		{&s.attn, maxTokens, w.attn},
		{&s.gateUp, mlpRows, 2 * w.mlp},
		{&s.mlp, mlpRows, w.mlp},
		{&s.lastX, maxLogits, w.hidden},
		{&s.lastOut, maxLogits, w.attn},
		{&s.logits, maxLogits, m.cfg.VocabSize},
	}
	var err error
	if k := m.cfg.ExpertsPerToken; k > 0 {
		activations = append(activations, activation{&s.moe.logits, maxTokens, m.cfg.NumExperts},
			activation{&s.moe.parts, maxTokens, k}, activation{&s.moe.out, mlpRows, w.hidden})
		if s.moe.picked, err = dev.NewInts(mlpRows); err != nil {
			return nil, fmt.Errorf("model: workspace [%d]: %w", mlpRows, err)
		}
	}
	for _, a := range activations {
		if *a.dst, err = dev.NewActivation(a.rows, a.cols); err != nil {
			return nil, fmt.Errorf("model: workspace [%d, %d]: %w", a.rows, a.cols, err)
		}
	}
	return s, nil
}

type activation struct {
	dst        *kernels.Activation
	rows, cols int
}

// Logits returns the buffer that Forward leaves logits in.
func (s *Workspace) Logits() kernels.Activation { return s.logits }

// Inputs are a step's uploaded arrays.
//
//	TokenIDs, Positions, Slots  [NumTokens]
//	LogitRows                   [NumLogits] rows that need logits, ascending
type Inputs struct {
	NumTokens int
	NumLogits int // at most NumTokens
	TokenIDs  kernels.Ints
	Positions kernels.Ints
	Slots     kernels.Ints
	LogitRows kernels.Ints
	Batch     kernels.Batch
	KV        kernels.KVCache
}

// NumOps bounds the operations that one Forward or ForwardAll records.
func (m *Model) NumOps() int { return maxLayerOps*len(m.layers) + 5 + numHeadOps }

const (
	maxLayerOps = 13 // with PostNorms and experts
	numHeadOps  = 2  // logits, and their soft cap

	// NumLogitsOps bounds the operations that one Logits records.
	NumLogitsOps = 1 + numHeadOps
)

// Forward records a whole pass and returns the logits, of which rows
// [0, NumLogits) are in LogitRows' order.
//
// In the last layer only the rows that need logits go on once the KV cache is
// written: that was the others' whole work.
func (m *Model) Forward(q kernels.Queue, s *Workspace, in Inputs) kernels.Activation {
	s.check(in)
	q.Embed(s.x, m.embed, in.TokenIDs, m.embedScale, in.NumTokens)
	last, T := len(m.layers)-1, in.NumLogits
	for i := range last {
		m.attend(q, s, i, in)
		m.finishLayer(q, s, i, s.x, s.attn, in.NumTokens)
	}
	m.writeKV(q, s, last, in)
	if T == 0 {
		return s.logits
	}
	q.PagedAttention(s.attn, s.qkv, in.KV, last, in.Batch, m.layers[last].attn, in.NumTokens)
	q.GatherRows(s.lastX, s.x, in.LogitRows, T)
	q.GatherRows(s.lastOut, s.attn, in.LogitRows, T)
	m.finishLayer(q, s, last, s.lastX, s.lastOut, T)
	q.RMSNorm(s.norm, s.lastX, m.finalNorm, m.cfg.RMSNormEps, T)
	return m.headOf(q, s, s.norm, T)
}

// headOf leaves the logits of T rows of x, normed already, in the first rows of
// logits.
func (m *Model) headOf(q kernels.Queue, s *Workspace, x kernels.Activation, T int) kernels.Activation {
	q.Linear(s.logits, x, m.head, nil, false, T)
	if m.cfg.LogitSoftCap > 0 {
		q.SoftCap(s.logits, m.cfg.LogitSoftCap, T)
	}
	return s.logits
}

// ForwardAll records a pass in which every row goes through all layers; Logits
// then gives any of them, in as many pieces as it takes. NumLogits and
// LogitRows are not read.
func (m *Model) ForwardAll(q kernels.Queue, s *Workspace, in Inputs) {
	in.NumLogits = 0
	s.check(in)
	q.Embed(s.x, m.embed, in.TokenIDs, m.embedScale, in.NumTokens)
	for i := range m.layers {
		m.attend(q, s, i, in)
		m.finishLayer(q, s, i, s.x, s.attn, in.NumTokens)
	}
	q.RMSNorm(s.norm, s.x, m.finalNorm, m.cfg.RMSNormEps, in.NumTokens)
}

// Logits records the logits of the first n of rows of the last ForwardAll, and
// returns them in rows [0, n), n at most the workspace's maxLogits.
func (m *Model) Logits(q kernels.Queue, s *Workspace, rows kernels.Ints, n int) kernels.Activation {
	q.GatherRows(s.lastX, s.norm, rows, n)
	return m.headOf(q, s, s.lastX, n)
}

func (s *Workspace) check(in Inputs) {
	if in.NumTokens > s.maxTokens || in.NumLogits > min(s.maxLogits, in.NumTokens) {
		panic(fmt.Sprintf("model: step of %d tokens, %d logits in a workspace for %d, %d",
			in.NumTokens, in.NumLogits, s.maxTokens, s.maxLogits))
	}
}

// attend leaves what layer i's queries see in attn.
func (m *Model) attend(q kernels.Queue, s *Workspace, i int, in Inputs) {
	m.writeKV(q, s, i, in)
	q.PagedAttention(s.attn, s.qkv, in.KV, i, in.Batch, m.layers[i].attn, in.NumTokens)
}

// finishLayer adds what attention and the gated MLP of layer i give to x.
func (m *Model) finishLayer(q kernels.Queue, s *Workspace, i int, x, attn kernels.Activation, T int) {
	l := &m.layers[i]
	m.add(q, s, x, attn, l.out, l.outBias, l.postAttnNorm, T)
	m.feedForward(q, s, l, x, T)
}

// writeKV leaves the turned queries of layer i in qkv, keys and values in the
// cache.
func (m *Model) writeKV(q kernels.Queue, s *Workspace, i int, in Inputs) {
	l, T, eps := &m.layers[i], in.NumTokens, m.cfg.RMSNormEps
	q.RMSNorm(s.norm, s.x, l.attnNorm, eps, T)
	q.Linear(s.qkv, s.norm, l.qkv, l.qkvBias, false, T)
	q.RopeKVWrite(s.qkv, in.KV, i, in.Positions, in.Slots, l.rope, l.attn, l.qNorm, l.kNorm, eps, T)
}

// feedForward adds the gated MLP, or a mixture of them, to x.
func (m *Model) feedForward(q kernels.Queue, s *Workspace, l *layer, x kernels.Activation, T int) {
	q.RMSNorm(s.norm, x, l.mlpNorm, m.cfg.RMSNormEps, T)
	if l.router != nil {
		m.mix(q, s, l, x, T)
		return
	}
	q.Linear(s.gateUp, s.norm, l.gateUp, l.gateUpBias, false, T)
	q.GateMul(s.mlp, s.gateUp, m.gate, T)
	m.add(q, s, x, s.mlp, l.down, l.downBias, l.postMLPNorm, T)
}

// mix adds what the experts give that the router picks for each token.
func (m *Model) mix(q kernels.Queue, s *Workspace, l *layer, x kernels.Activation, T int) {
	k := m.cfg.ExpertsPerToken
	q.Linear(s.moe.logits, s.norm, l.router, nil, false, T)
	q.Route(s.moe.picked, s.moe.parts, s.moe.logits, k, m.cfg.NormTopK, T)
	q.LinearEach(s.gateUp, s.norm, l.gateUps, s.moe.picked, k, T*k)
	q.GateMul(s.mlp, s.gateUp, m.gate, T*k)
	q.LinearEach(s.moe.out, s.mlp, l.downs, s.moe.picked, 1, T*k)
	q.AddWeighted(x, s.moe.out, s.moe.parts, T)
}

// add adds w·y + bias to x, by way of a norm if there is one.
func (m *Model) add(q kernels.Queue, s *Workspace, x, y kernels.Activation, w kernels.Weight, bias, norm kernels.Vector, T int) {
	if norm == nil {
		q.Linear(x, y, w, bias, true, T)
		return
	}
	q.Linear(s.norm, y, w, bias, false, T)
	q.AddRMSNorm(x, s.norm, norm, m.cfg.RMSNormEps, T)
}
