package modelfile

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// ggufFamily says how a GGUF architecture maps to Config and Weights.
type ggufFamily struct {
	architecture string                   // of Config
	read         func(*ggufFile, *Config) // what it has beyond ggufFile.config
	names        map[string]string        // of a layer's parts, where they differ from ggufLayer
}

// ggufFamilies has an entry for each value of general.architecture.
//
// Source: src/llama-model.cpp of llama.cpp, load_hparams and the graphs.
var ggufFamilies = map[string]ggufFamily{
	"llama":  {"LlamaForCausalLM", (*ggufFile).llama, nil}, // SmolLM2, Mistral and others too
	"qwen2":  {"Qwen2ForCausalLM", (*ggufFile).qwen2, nil},
	"qwen3":  {"Qwen3ForCausalLM", (*ggufFile).qwen3, nil},
	"phi3":   {"Phi3ForCausalLM", (*ggufFile).phi3, map[string]string{"ffn_up": "mlp.gate_up_proj"}},
	"gemma2": {"Gemma2ForCausalLM", (*ggufFile).gemma2, map[string]string{"ffn_norm": "pre_feedforward_layernorm"}},
	"gemma3": {"Gemma3ForCausalLM", (*ggufFile).gemma3, map[string]string{"ffn_norm": "pre_feedforward_layernorm"}},
}

const (
	ggufArchitecture = "general.architecture"
	ggufRopeFreqs    = "rope_freqs.weight" // divisors of the rope, not a weight
	ggufMaxHeadDim   = 1 << 16
)

// ggufHarmless are keys below an architecture's prefix that say nothing about
// the computation, with the values that do not. Any other key that no reader
// asks for is refused: it may change the result.
var ggufHarmless = map[string][]string{
	"vocab_size":                           nil, // the embedding's rows count
	"rope.scaling.original_context_length": nil,
	"rope.scaling.finetuned":               nil,
	"rope.scaling.yarn_log_multiplier":     nil, // of yarn, which is refused
	"tensor_data_layout":                   nil, // of the original pickles
	"expert_count":                         {"0"},
	"expert_used_count":                    {"0"},
	"attention.causal":                     {"true"},
	"use_parallel_residual":                {"false"},
	"logit_scale":                          {"0", "1"},
	"embedding_scale":                      {"0", "1"},
	"residual_scale":                       {"0", "1"},
	"attention.max_alibi_bias":             {"0"},
	"attention.clamp_kqv":                  {"0"},
	"rope.scaling.attn_factor":             {"1"},
}

// family looks up the architecture.
func (g *ggufFile) family() (ggufFamily, error) {
	name := g.string(ggufArchitecture, "")
	if err := g.err(); err != nil {
		return ggufFamily{}, err
	}
	if name == "" {
		g.missing(ggufArchitecture)
		return ggufFamily{}, g.err()
	}
	f, ok := ggufFamilies[name]
	if !ok {
		return f, fmt.Errorf("%s: %s %s is %w; there are %s", g.file, ggufArchitecture, name,
			ErrUnsupported, strings.Join(slices.Sorted(maps.Keys(ggufFamilies)), ", "))
	}
	return f, nil
}

// config describes the file's model.
func (g *ggufFile) config() (Config, error) {
	family, err := g.family()
	if err != nil {
		return Config{}, err
	}
	g.prefix = g.string(ggufArchitecture, "") + "."
	c := Config{Architecture: family.architecture, HiddenAct: "silu"}
	g.sizes(&c)
	g.biases(&c)
	g.rope(&c)
	family.read(g, &c)
	g.refuseUnread()
	c.eosTokenIDs = g.eosTokenIDs(c.VocabSize)
	if err := g.err(); err != nil {
		return Config{}, err
	}
	return c, c.check(g.file)
}

func (g *ggufFile) sizes(c *Config) {
	c.HiddenSize = g.size(g.key("embedding_length"))
	c.IntermediateSize = g.size(g.key("feed_forward_length"))
	c.NumLayers = g.size(g.key("block_count"))
	c.NumHeads = g.size(g.key("attention.head_count"))
	c.NumKVHeads = g.sizeOr(g.key("attention.head_count_kv"), c.NumHeads)
	c.LimitKey = g.key("context_length")
	c.MaxPositionEmbeddings = g.size(c.LimitKey)
	c.HeadDim = g.sizeOr(g.key("attention.key_length"), 0)
	if c.HeadDim == 0 {
		c.HeadDim = c.HiddenSize / c.NumHeads
		if c.HeadDim*c.NumHeads != c.HiddenSize {
			g.invalid(g.key("embedding_length"), fmt.Sprintf("a multiple of %s = %d, as there is no %s",
				g.key("attention.head_count"), c.NumHeads, g.key("attention.key_length")))
		}
	}
	if c.HeadDim > ggufMaxHeadDim {
		g.errs = append(g.errs, fmt.Errorf("%s: %w: heads of %d values are more than %d", g.file, ErrInvalid, c.HeadDim, ggufMaxHeadDim))
		c.HeadDim = 2
	}
	if v := g.sizeOr(g.key("attention.value_length"), c.HeadDim); v != c.HeadDim {
		g.refuse(g.key("attention.value_length"), fmt.Sprintf("keys have %d", c.HeadDim))
	}
	eps := g.key("attention.layer_norm_rms_epsilon")
	if !g.has(eps) {
		g.missing(eps)
	}
	c.RMSNormEps = float32(g.float(eps, 0))
	c.VocabSize = g.vocabSize()
	c.TieWordEmbeddings = g.tensor("output.weight") == nil
}

// vocabSize is the number of rows of the embedding. The tokenizer has as many
// tokens, or fewer.
func (g *ggufFile) vocabSize() int {
	const name, tokens = "token_embd.weight", "tokenizer.ggml.tokens"
	t := g.tensor(name)
	if t == nil || len(t.Shape) != 2 || t.Shape[0] < 1 || t.Shape[0] > 1<<30 {
		g.errs = append(g.errs, fmt.Errorf("%s: %w: no matrix %q", g.file, ErrInvalid, name))
		return 1
	}
	if v := g.values[tokens]; v.count > t.Shape[0] {
		g.errs = append(g.errs, fmt.Errorf("%s: %w: %s has %d, but tensor %q %d rows", g.file, ErrInvalid, tokens, v.count, name, t.Shape[0]))
	}
	return t.Shape[0]
}

// tensor finds a tensor by its own name; nil if there is none.
func (g *ggufFile) tensor(name string) *Tensor {
	i := slices.IndexFunc(g.tensors, func(t Tensor) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &g.tensors[i]
}

// biases: the metadata does not say, so the first layer's tensors do.
func (g *ggufFile) biases(c *Config) {
	c.QKVBias = g.tensor("blk.0.attn_q.bias") != nil || g.tensor("blk.0.attn_qkv.bias") != nil
	c.OutBias = g.tensor("blk.0.attn_output.bias") != nil
	c.MLPBias = g.tensor("blk.0.ffn_down.bias") != nil
}

// rope reads what all layers share; divisors that the file tabulates (llama3
// scaling) and linear scaling multiply.
func (g *ggufFile) rope(c *Config) {
	c.Rope.Theta = g.float(g.key("rope.freq_base"), 10000)
	c.Rope.Dim = min(g.sizeOr(g.key("rope.dimension_count"), c.HeadDim), c.HeadDim+2) // check refuses more
	factor := 1.0
	switch kind := g.key("rope.scaling.type"); g.string(kind, "none") {
	case "none":
		g.read(g.key("rope.scaling.factor")) // of no consequence
	case "linear":
		if factor = g.float(g.key("rope.scaling.factor"), 0); !(factor > 0) || math.IsInf(factor, 0) {
			g.invalid(g.key("rope.scaling.factor"), "positive")
		}
	default:
		g.refuse(kind, `only "none" and "linear" are`)
	}
	c.Rope.Divisors = g.ropeDivisors(c.Rope.Dim/2, factor)
}

// ropeDivisors returns nil where all are 1.
func (g *ggufFile) ropeDivisors(n int, factor float64) []float64 {
	t := g.tensor(ggufRopeFreqs)
	if t == nil && factor == 1 {
		return nil
	}
	list := slices.Repeat([]float64{factor}, n)
	if t == nil {
		return list
	}
	if t.DType != F32 || !slices.Equal(t.Shape, []int{n}) {
		g.errs = append(g.errs, fmt.Errorf("%s: %w: tensor %q is %s%v, rotary embedding of %d values needs F32[%d]",
			g.file, ErrInvalid, t.Name, t.DType, t.Shape, 2*n, n))
		return nil
	}
	for i, d := range t.floats() {
		if !(d > 0) || math.IsInf(float64(d), 0) {
			g.errs = append(g.errs, fmt.Errorf("%s: %w: tensor %q has %v at %d; all must be positive", g.file, ErrInvalid, t.Name, d, i))
			return nil
		}
		list[i] *= float64(d)
	}
	return list
}

// llama: the rows of q and k are stored in the order of Meta's own checkpoints.
func (g *ggufFile) llama(c *Config) {
	c.Rope.Interleaved = true
	g.windowEverywhere(c)
}

func (g *ggufFile) qwen2(c *Config) { g.noWindow(c) }

func (g *ggufFile) qwen3(c *Config) {
	c.QKNorm = true
	g.noWindow(c)
}

func (g *ggufFile) phi3(c *Config) {
	for _, name := range []string{"rope_factors_long.weight", "rope_factors_short.weight"} {
		if g.tensor(name) != nil {
			g.errs = append(g.errs, fmt.Errorf("%s: tensor %q: longrope scaling is %w", g.file, name, ErrUnsupported))
		}
	}
	g.windowEverywhere(c)
}

// gemma is what both generations share: every period-th layer sees everything,
// the others a window, if there is one. The file's norm weights have their 1
// already.
func (g *ggufFile) gemma(c *Config, period, window int) {
	c.HiddenAct = "gelu_pytorch_tanh"
	c.PostNorms = true
	c.EmbedScale = float32(math.Sqrt(float64(c.HiddenSize)))
	c.LogitSoftCap = float32(g.float(g.key("final_logit_softcapping"), 0))
	c.SlidingWindow = g.sizeOr(g.key("attention.sliding_window"), window)
	if c.SlidingWindow == 0 {
		return
	}
	if p := g.key("attention.sliding_window_pattern"); g.values[p].kind != ggufArray {
		period = g.sizeOr(p, period)
	} else if c.Local = g.bools(p, c.NumLayers); c.Local != nil {
		return
	}
	c.Local = make([]bool, c.layersToList())
	for i := range c.Local {
		c.Local[i] = i%period < period-1
	}
}

func (g *ggufFile) gemma2(c *Config) {
	g.gemma(c, 2, 4096)
	c.RopeLocal = c.Rope
	c.AttnSoftCap = float32(g.float(g.key("attn_logit_softcapping"), 50))
	if !g.has(g.key("final_logit_softcapping")) {
		c.LogitSoftCap = 30
	}
	if c.NumLayers == 46 { // 27B, the one whose scale is not of its head_dim
		c.AttnScale = float32(1 / math.Sqrt(float64(c.HiddenSize)/float64(c.NumHeads)))
	}
}

func (g *ggufFile) gemma3(c *Config) {
	g.gemma(c, 6, 0)
	c.QKNorm = true
	c.RopeLocal = Rope{Theta: g.float(g.key("rope.freq_base_swa"), 10000), Dim: c.Rope.Dim} // not scaled
	if !g.has(g.key("rope.freq_base")) {
		c.Rope.Theta = 1e6
	}
	if c.NumLayers == 62 { // 27B
		c.AttnScale = float32(1 / math.Sqrt(float64(c.HiddenSize)/float64(c.NumHeads)))
	}
}

// windowEverywhere: every layer is local, if the window is one at all.
func (g *ggufFile) windowEverywhere(c *Config) {
	if w := g.sizeOr(g.key("attention.sliding_window"), c.MaxPositionEmbeddings); w < c.MaxPositionEmbeddings {
		c.SlidingWindow, c.RopeLocal = w, c.Rope
		c.Local = slices.Repeat([]bool{true}, c.layersToList())
	}
}

// noWindow refuses a window that would bite.
func (g *ggufFile) noWindow(c *Config) {
	key := g.key("attention.sliding_window")
	if g.sizeOr(key, c.MaxPositionEmbeddings) < c.MaxPositionEmbeddings {
		g.refuse(key, "it would change the result")
	}
}

// refuseUnread refuses the architecture's keys that nobody asked for.
func (g *ggufFile) refuseUnread() {
	for _, key := range slices.Sorted(maps.Keys(g.values)) {
		name, ok := strings.CutPrefix(key, g.prefix)
		if !ok || g.wasRead[key] {
			continue
		}
		values, harmless := ggufHarmless[name]
		if !harmless || values != nil && !slices.Contains(values, g.values[key].String()) {
			g.refuse(key, "it may change the result")
		}
	}
}
