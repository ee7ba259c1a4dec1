package modelfile

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Config describes one decoder, whatever its architecture, in neutral words:
// every reader (config.json's, a GGUF file's metadata) fills in the same fields.
// Sizes are positive and consistent with each other once ParseConfig has
// returned them. The zero value of each field from Rope's down means that the
// model has no such thing.
type Config struct {
	Architecture string // as config.json spells it, a key of families

	VocabSize        int // rows of the embedding
	HiddenSize       int
	IntermediateSize int // of the gated MLP
	NumLayers        int
	NumHeads         int
	NumKVHeads       int // divides NumHeads
	HeadDim          int // even; need not be HiddenSize/NumHeads

	RMSNormEps        float32
	HiddenAct         string // "silu", or "gelu_pytorch_tanh"
	TieWordEmbeddings bool   // the LM head is the embedding table
	QKVBias           bool
	OutBias           bool // of the attention's output projection
	MLPBias           bool

	Rope   Rope
	NoRope []bool // [NumLayers], or nil: heads of layers for which it is true don't turn

	// MaxPositionEmbeddings bounds the tokens of a sequence. LimitKey says what
	// of config.json it comes from; "" is max_position_embeddings itself.
	MaxPositionEmbeddings int
	LimitKey              string

	// DType is the type the checkpoint says its weights have; "" if it says
	// nothing.
	DType DType

	// Norms.
	NormOffset float32 // is added to every norm weight of the file: Gemma stores w−1
	QKNorm     bool    // RMSNorm of each query and key head before rope
	PostNorms  bool    // RMSNorm of what attention and MLP add, before it is added

	// Mixtures of experts: the MLP of each layer is NumExperts ones, of
	// IntermediateSize each, of which a router picks ExpertsPerToken.
	NumExperts, ExpertsPerToken int
	NormTopK                    bool // the router's weights of those picked add up to 1

	// Scales and caps.
	EmbedScale   float32 // of the embedding; 0 is 1
	AttnScale    float32 // of q·k; 0 is 1/√HeadDim
	AttnSoftCap  float32 // bounds scores to cap·tanh(score/cap)
	LogitSoftCap float32 // bounds logits likewise

	// Local attention: layers for which Local is true see the last
	// SlidingWindow positions only, their own included, and turn by RopeLocal.
	SlidingWindow int
	Local         []bool // [NumLayers], or nil: all layers see everything
	RopeLocal     Rope

	// Quantization says how matrices are packed; nil: they are not, or in a way
	// that the files themselves tell.
	Quantization *Quantization

	eosTokenIDs []int32
}

// Rope describes rotary position embedding: pair i of a head turns by
// position · Theta^(−2i/Dim) / Divisors[i].
type Rope struct {
	Theta float64
	Dim   int // values of a head that turn, even; the rest pass
	// Divisors slow each pair down [Dim/2]; nil is all 1. Every kind of rope
	// scaling is this, and so is a GGUF file's rope_freqs tensor.
	Divisors []float64
	// Scale of what turns, by which YaRN and LongRoPE lengthen queries and
	// keys; 0 is 1.
	Scale float64
	// Interleaved pairs values 2i and 2i+1 instead of i and i+Dim/2: GGUF
	// files store the query and key rows of some architectures so.
	Interleaved bool
}

// ParseConfig reads a config.json. file is its name in messages.
func ParseConfig(file string, data []byte) (Config, error) {
	o, err := parseObject(file, data)
	if err != nil {
		return Config{}, err
	}
	c := Config{}
	if err := o.architecture(&c); err != nil {
		return Config{}, err
	}
	o.sizes(&c)
	o.dtype(&c)
	families[c.Architecture](o, &c)
	o.activation(&c)
	c.Quantization = o.quantization()
	o.refuseChanges()
	c.eosTokenIDs = o.tokenIDs("eos_token_id", c.VocabSize)
	if err := o.err(); err != nil {
		return Config{}, err
	}
	return c, c.check(file)
}

func (o *object) architecture(c *Config) error {
	var names []string
	if !o.decode("architectures", &names, "a list of names") || len(names) == 0 {
		o.missing("architectures")
		return o.err()
	}
	for _, name := range names {
		if families[name] != nil {
			c.Architecture = name
			return nil
		}
	}
	for _, name := range names {
		if why := refusedArchitectures[name]; why != "" {
			return fmt.Errorf("%s: architecture %s is %w: %s", o.where, name, ErrUnsupported, why)
		}
	}
	return fmt.Errorf("%s: architecture %s is %w; there are %s", o.where, strings.Join(names, ", "),
		ErrUnsupported, strings.Join(slices.Sorted(maps.Keys(families)), ", "))
}

// refusedArchitectures says what else to take for those that people ask for.
var refusedArchitectures = map[string]string{
	"Gemma3ForConditionalGeneration":   "it reads images too; take a checkpoint or GGUF file of its text part, a Gemma3ForCausalLM",
	"Mistral3ForConditionalGeneration": "it reads images too; take a checkpoint of its text part, a MistralForCausalLM",
}

// sizes reads the keys that every decoder spells alike. A family whose default
// is another reads such a key again.
func (o *object) sizes(c *Config) {
	c.VocabSize = o.size("vocab_size")
	c.HiddenSize = o.size("hidden_size")
	c.IntermediateSize = o.size("intermediate_size")
	c.NumLayers = o.size("num_hidden_layers")
	c.NumHeads = o.size("num_attention_heads")
	c.NumKVHeads = o.sizeOr("num_key_value_heads", c.NumHeads)
	c.MaxPositionEmbeddings = o.size("max_position_embeddings")
	c.HeadDim = o.sizeOr("head_dim", 0)
	if c.HeadDim == 0 {
		c.HeadDim = c.HiddenSize / c.NumHeads
		if c.HeadDim*c.NumHeads != c.HiddenSize {
			o.invalid("hidden_size", fmt.Sprintf("a multiple of num_attention_heads = %d, as there is no head_dim", c.NumHeads))
		}
	}
	c.RMSNormEps = float32(o.float("rms_norm_eps", 1e-6))
	c.TieWordEmbeddings = o.bool("tie_word_embeddings", false)
	c.HiddenAct = o.string("hidden_act", "silu")
}

func (o *object) activation(c *Config) {
	if c.HiddenAct == "silu" || c.HiddenAct == "gelu_pytorch_tanh" {
		return
	}
	key := "hidden_act"
	if o.string("hidden_activation", "") == c.HiddenAct {
		key = "hidden_activation"
	}
	o.refuse(key, `"silu" and "gelu_pytorch_tanh" are`)
}

func (o *object) dtype(c *Config) {
	for _, key := range []string{"torch_dtype", "dtype"} {
		if !o.has(key) {
			continue
		}
		name := strings.TrimPrefix(o.string(key, ""), "torch.")
		if c.DType = configDTypes[name]; c.DType == "" {
			o.refuse(key, "float32, bfloat16 and float16 are")
		}
	}
}

var configDTypes = map[string]DType{"float32": F32, "float16": F16, "bfloat16": BF16}

// tokenIDs reads an ID or a list of them, all below vocab.
func (o *object) tokenIDs(key string, vocab int) []int32 {
	want := fmt.Sprintf("a token ID below vocab_size = %d, or a list of them", vocab)
	var values []int64
	if o.has(key) && o.keys[key].Kind() != '[' {
		values = make([]int64, 1)
		if !o.decode(key, &values[0], want) {
			return nil
		}
	} else if !o.decode(key, &values, want) {
		return nil
	}
	var ids []int32
	for _, id := range values {
		if id < 0 || id >= int64(vocab) {
			o.invalid(key, want)
			return nil
		}
		ids = append(ids, int32(id))
	}
	return ids
}

const (
	maxLayers  = 1 << 16
	maxExperts = 1 << 16
)

// check holds the sizes against each other.
func (c *Config) check(file string) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w: %s", file, ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case c.NumHeads%c.NumKVHeads != 0:
		return bad("num_attention_heads = %d is not a multiple of num_key_value_heads = %d", c.NumHeads, c.NumKVHeads)
	case c.ExpertsPerToken > c.NumExperts:
		return bad("num_experts_per_tok = %d is more than the %d experts", c.ExpertsPerToken, c.NumExperts)
	case c.NumExperts > maxExperts:
		return bad("%d experts are more than %d", c.NumExperts, maxExperts)
	case c.HeadDim%2 != 0:
		return bad("head_dim = %d is odd; rotary embedding turns pairs", c.HeadDim)
	case c.NumLayers > maxLayers:
		return bad("num_hidden_layers = %d is more than %d", c.NumLayers, maxLayers)
	case int64(c.NumHeads)*int64(c.HeadDim) > 1<<30:
		return bad("num_attention_heads = %d × head_dim = %d is more than %d", c.NumHeads, c.HeadDim, 1<<30)
	case c.Local != nil && len(c.Local) != c.NumLayers || c.NoRope != nil && len(c.NoRope) != c.NumLayers:
		return bad("%d layers by kind, num_hidden_layers = %d", max(len(c.Local), len(c.NoRope)), c.NumLayers)
	case !positive(c.AttnScale, 1) || !positive(c.EmbedScale, 1) || !positive(c.AttnSoftCap, 1) || !positive(c.LogitSoftCap, 1):
		return bad("scales and soft caps must be positive: attention %v and %v, embedding %v, logits %v",
			c.AttnScale, c.AttnSoftCap, c.EmbedScale, c.LogitSoftCap)
	case !(c.RMSNormEps >= 0) || math.IsInf(float64(c.RMSNormEps), 0):
		return bad("rms_norm_eps = %v must be at least 0", c.RMSNormEps)
	}
	ropes := []Rope{c.Rope}
	if c.Local != nil {
		ropes = append(ropes, c.RopeLocal)
	}
	for _, r := range ropes {
		if err := r.check(c.HeadDim); err != nil {
			return bad("%v", err)
		}
	}
	return nil
}

// changesResult lists the keys of config.json that change what a model
// computes and that no family reads, with the values that leave the Llama
// graph as it is (null and absence always do). Any other value is refused.
// Keys that are neither here nor read (dropout, initializer_range, use_cache,
// …) concern training or other software.
var changesResult = map[string][]string{
	// Weights in another form, or only part of a model.
	"text_config":   {},
	"vision_config": {},
	"audio_config":  {},
	"pruned_heads":  {`{}`},
	"lm_head_bias":  {`false`},

	// Mixtures of experts.
	"num_experts":         {`0`, `1`},
	"num_local_experts":   {`0`, `1`},
	"decoder_sparse_step": {`1`},
	"mlp_only_layers":     {`[]`},
	"n_routed_experts":    {`0`},
	"moe_layers":          {`[]`},

	// Attention that is not plain causal grouped-query attention.
	"sliding_window":              {},
	"use_sliding_window":          {`false`},
	"layer_types":                 {},
	"attention_chunk_size":        {},
	"no_rope_layers":              {`[]`},
	"no_rope_layer_interval":      {`0`},
	"use_bidirectional_attention": {`false`},
	"is_encoder_decoder":          {`false`},
	"add_cross_attention":         {`false`},
	"cross_attention_layers":      {`[]`},
	"q_lora_rank":                 {},
	"kv_lora_rank":                {},
	"partial_rotary_factor":       {`1`},
	"rotary_pct":                  {`1`},
	"rope_interleaved":            {`false`},
	"position_embedding_type":     {`"rope"`, `"absolute"`}, // transformers writes "absolute" by default, unread
	"alibi":                       {`false`},
	"clip_qkv":                    {},
	"qk_layernorm":                {`false`},
	"use_qk_norm":                 {`false`},
	"attn_logit_softcapping":      {},
	"query_pre_attn_scalar":       {},
	"attention_multiplier":        {},

	// Residual stream, embeddings, logits.
	"final_logit_softcapping": {},
	"embedding_multiplier":    {`1`},
	"residual_multiplier":     {`1`},
	"logits_scaling":          {`1`},
	"logit_scale":             {`1`},
	"mup_width_scale":         {`1`},
	"parallel_residual":       {`false`},
	"use_parallel_residual":   {`false`},
	"scale_emb":               {`1`},
	"scale_depth":             {},
	"hidden_activation":       {`"silu"`},
}

// refuseChanges refuses what changesResult lists and the family did not accept.
func (o *object) refuseChanges() {
	for _, key := range slices.Sorted(maps.Keys(changesResult)) {
		if o.has(key) && !o.accepted[key] && !o.equals(key, changesResult[key]...) {
			o.refuse(key, "it would change the result")
		}
	}
}
