// Package perf estimates what steps ask of a device: floating-point operations
// and bytes moved, from the model's dimensions and the plan alone
// (--enable-mfu-metrics).
//
// With T tokens, of which sequence i has Tᵢ over a context of Cᵢ, the terms of
// a layer are
//
//	projections  2·T·hidden·(qkv + out)
//	attention    4·heads·headDim·Σ TᵢCᵢ      a local layer sees min(Cᵢ, window)
//	gated MLP    6·T·hidden·intermediate      a mixture's as often as a token takes experts
//
// and once per step 2·hidden·vocabulary for every row that needs logits.
//
// Follows vLLM V1 metrics/perf.py for one device, term by term, so that numbers compare; it counts a causal prefill's triangle as a
// square, and so do we.
package perf

import (
	"govllm/enginecore/step"
	"govllm/protocol"
)

// Model is what the estimate rests on.
type Model struct {
	NumLayers        int
	NumLocalLayers   int // of those, with a sliding window
	SlidingWindow    int // tokens
	HiddenSize       int
	IntermediateSize int // of the MLP, or of one expert
	// Mixtures: every layer has NumExperts MLPs, of which a token takes
	// ExpertsPerToken. 0 and 0: one MLP.
	NumExperts      int
	ExpertsPerToken int
	NumHeads        int
	NumKVHeads      int
	HeadDim         int
	VocabSize       int

	WeightBytes     int // of one weight
	ActivationBytes int
	CacheBytes      int // of one value in the KV cache
}

// Estimator adds up the estimates of steps. Owned by the engine loop.
type Estimator struct {
	m   Model
	sum protocol.PerfStats
}

// New returns an estimator of m.
func New(m Model) *Estimator { return &Estimator{m: m} }

// Take returns what was added since it was last taken.
func (e *Estimator) Take() protocol.PerfStats {
	sum := e.sum
	e.sum = protocol.PerfStats{}
	return sum
}

// Add takes a step in.
func (e *Estimator) Add(plan *step.SchedulerOutput) {
	if plan.NumTokens == 0 {
		return
	}
	w := e.m.workOf(plan)
	e.sum.NumFlops += e.m.flops(&w)
	e.sum.NumReadBytes += e.m.readBytes(&w)
	e.sum.NumWriteBytes += e.m.writeBytes(&w)
}

// work is a step in numbers. Those of local layers, whose contexts end at the
// window, stand second.
type work struct {
	tokens         int
	logitsRows     int
	tokenContext   [2]int // Σ TᵢCᵢ
	prefillContext [2]int // Σ Cᵢ
	decodeContext  [2]int
}

// workOf calls a request that enters the batch, or has more than one token in
// the step, a prefill, as vLLM does. New requests stand at the end of a plan.
func (m *Model) workOf(plan *step.SchedulerOutput) (w work) {
	firstNew := len(plan.Scheduled) - len(plan.New)
	for i := range plan.Scheduled {
		s := &plan.Scheduled[i]
		context := s.Computed + s.NumTokens
		contexts := [2]int{context, min(context, max(m.SlidingWindow, 1))}
		prefill := i >= firstNew || s.NumTokens > 1
		w.tokens += s.NumTokens
		if prefill {
			w.logitsRows++
		} else {
			w.logitsRows += s.NumTokens
		}
		for kind, c := range contexts {
			w.tokenContext[kind] += s.NumTokens * c
			if prefill {
				w.prefillContext[kind] += c
			} else {
				w.decodeContext[kind] += c
			}
		}
	}
	return w
}

// layers is how many layers attend to everything, and how many locally.
func (m *Model) layers() [2]int { return [2]int{m.NumLayers - m.NumLocalLayers, m.NumLocalLayers} }

// widths of a token's projections: query, key and value together; the output.
func (m *Model) widths() (qkv, out int) {
	return (m.NumHeads + 2*m.NumKVHeads) * m.HeadDim, m.NumHeads * m.HeadDim
}

// mlps is how many MLPs the tokens take in a layer, one token one if dense, and
// how many different ones that is if they spread evenly.
func (m *Model) mlps(w *work) (taken, different int) {
	taken = w.tokens * max(m.ExpertsPerToken, 1)
	return taken, min(taken, max(m.NumExperts, 1))
}

func (m *Model) flops(w *work) int {
	qkv, out := m.widths()
	n := 2 * w.tokens * m.HiddenSize * (qkv + out) * m.NumLayers
	for kind, layers := range m.layers() {
		n += 4 * m.NumHeads * m.HeadDim * w.tokenContext[kind] * layers
	}
	taken, _ := m.mlps(w)
	n += 6 * m.HiddenSize * m.IntermediateSize * taken * m.NumLayers
	return n + 2*w.logitsRows*m.HiddenSize*m.VocabSize
}

func (m *Model) readBytes(w *work) int {
	qkv, out := m.widths()
	a, weight := m.ActivationBytes, m.WeightBytes
	taken, different := m.mlps(w)
	inputs := a * (w.tokens*(m.HiddenSize+out) + taken*(m.HiddenSize+3*m.IntermediateSize))
	weights := weight * m.HiddenSize * (qkv + out + different*3*m.IntermediateSize)
	n := m.NumLayers * (inputs + weights)
	for kind, layers := range m.layers() {
		queries := w.tokens * m.NumHeads * a
		keysAndValues := 2 * m.NumKVHeads * (w.prefillContext[kind]*a + w.decodeContext[kind]*m.CacheBytes)
		n += layers * m.HeadDim * (queries + keysAndValues)
	}
	return n + w.logitsRows*m.HiddenSize*a + m.HiddenSize*m.VocabSize*weight
}

func (m *Model) writeBytes(w *work) int {
	qkv, _ := m.widths()
	a := m.ActivationBytes
	cache := 2 * m.NumKVHeads * m.HeadDim * m.CacheBytes
	taken, _ := m.mlps(w)
	layer := w.tokens*(a*(qkv+m.HiddenSize)+cache) + taken*a*(3*m.IntermediateSize+m.HiddenSize)
	return m.NumLayers*layer + w.logitsRows*m.VocabSize*a
}
