package modelfile

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// rope reads how queries and keys turn, in both spellings: rope_theta and
// rope_scaling, or (transformers 5) rope_parameters. theta is the family's
// default. Where c.Rope.Dim is set already, only so much of a head turns. Local
// layers turn alike, unless their rope has a Dim already, or an object of its
// own (sliding_attention).
func (o *object) rope(c *Config, theta float64) {
	if c.Rope.Dim == 0 {
		c.Rope.Dim = c.HeadDim
	}
	c.Rope.Theta = o.float("rope_theta", theta)
	p := o.object("rope_scaling")
	if p == nil || len(p.keys) == 0 {
		p = o.object("rope_parameters")
	}
	if p == nil {
		return
	}
	full, local := p.object("full_attention"), p.object("sliding_attention")
	if full == nil {
		p.ropeParameters(c, &c.Rope, o)
		return
	}
	full.ropeParameters(c, &c.Rope, o)
	if c.RopeLocal.Dim == 0 {
		c.RopeLocal = Rope{Theta: o.float("rope_theta", theta), Dim: c.Rope.Dim}
	}
	if local != nil {
		local.ropeParameters(c, &c.RopeLocal, o)
	}
}

// ropeType is one kind of rope scaling: the keys that it takes beside the
// common ones, and what it does.
type ropeType struct {
	keys  []string
	apply func(p *object, c *Config, r *Rope)
}

var ropeTypes = map[string]ropeType{
	"default":  {nil, func(*object, *Config, *Rope) {}},
	"linear":   {[]string{"factor"}, linearRope},
	"llama3":   {[]string{"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}, llama3Rope},
	"yarn":     {[]string{"factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"}, yarnRope},
	"longrope": {[]string{"factor", "original_max_position_embeddings", "attention_factor", "short_factor", "long_factor"}, longRope},
	"su":       {[]string{"factor", "original_max_position_embeddings", "attention_factor", "short_factor", "long_factor"}, longRope},
}

// ropeParameters reads one object of them into r. What its type does not read
// is refused, as it would change the result. config is the object around it.
func (p *object) ropeParameters(c *Config, r *Rope, config *object) {
	r.Theta = p.float("rope_theta", r.Theta)
	key := "rope_type"
	if !p.has(key) {
		key = "type"
	}
	name := p.string(key, "default")
	kind, ok := ropeTypes[name]
	if !ok {
		p.refuse(key, "there are "+strings.Join(slices.Sorted(maps.Keys(ropeTypes)), ", "))
		return
	}
	if config.has("original_max_position_embeddings") { // it has priority, as in transformers
		p.keys["original_max_position_embeddings"] = config.keys["original_max_position_embeddings"]
	}
	kind.apply(p, c, r)
	p.accept("rope_theta", "rope_type", "type", "finetuned")
	p.accept(kind.keys...)
	if int(p.float("partial_rotary_factor", 1)*float64(c.HeadDim)) == r.Dim {
		p.accept("partial_rotary_factor")
	}
	if name == "default" {
		p.accept("original_max_position_embeddings") // says nothing without scaling
		if p.float("factor", 1) == 1 {
			p.accept("factor")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.keys)) {
		if p.has(key) && !p.accepted[key] {
			p.refuse(key, fmt.Sprintf("it would change the result and has no meaning for rope type %q", name))
		}
	}
}

// factor is how many times longer sequences get.
func (p *object) factor() float64 {
	p.require("factor")
	f := p.float("factor", 1)
	if !(f >= 1) || math.IsInf(f, 0) {
		p.invalid("factor", "at least 1")
		return 1
	}
	return f
}

// original is the length before scaling.
func (p *object) original(c *Config) int {
	return p.sizeOr("original_max_position_embeddings", c.MaxPositionEmbeddings)
}

// slow divides each pair's frequency by what divisor says of it.
func (r *Rope) slow(divisor func(i int, frequency float64) float64) {
	r.Divisors = make([]float64, r.Dim/2)
	for i := range r.Divisors {
		r.Divisors[i] = divisor(i, r.frequency(i))
	}
}

// frequency is the unscaled angle of pair i from position to position.
func (r *Rope) frequency(i int) float64 { return math.Pow(r.Theta, -2*float64(i)/float64(r.Dim)) }

// linearRope: every pair turns factor times slower, and sequences may be so
// much longer (vLLM, config: _get_and_verify_max_len).
func linearRope(p *object, c *Config, r *Rope) {
	factor := p.factor()
	r.slow(func(int, float64) float64 { return factor })
	if !c.lengthIsScaled() {
		c.limit(float64(c.MaxPositionEmbeddings)*factor, "max_position_embeddings × rope factor")
	}
}

// lengthIsScaled says whether max_position_embeddings counts linear scaling
// already.
func (c *Config) lengthIsScaled() bool { return strings.HasPrefix(c.Architecture, "Gemma") }

func (c *Config) limit(tokens float64, key string) {
	c.MaxPositionEmbeddings, c.LimitKey = int(min(tokens, 1<<30)), key
}

// llama3Rope: pairs that turn less than low_freq_factor times within the
// original length get factor times slower, those that turn more than
// high_freq_factor times stay, and between them it is mixed.
// Source: transformers, modeling_rope_utils.py.
func llama3Rope(p *object, c *Config, r *Rope) {
	p.require("low_freq_factor", "high_freq_factor")
	factor, low, high := p.factor(), p.float("low_freq_factor", 1), p.float("high_freq_factor", 4)
	if !(low < high) {
		p.invalid("low_freq_factor", "below high_freq_factor = "+p.short("high_freq_factor"))
		return
	}
	original := float64(p.original(c))
	r.slow(func(_ int, frequency float64) float64 {
		turns := original * frequency / (2 * math.Pi)
		return mixed(factor, (turns-low)/(high-low))
	})
}

// mixed is the divisor of a frequency of which a part, in [0, 1], stays and the
// rest is slowed.
func mixed(factor, stays float64) float64 {
	stays = min(max(stays, 0), 1)
	return 1 / ((1-stays)/factor + stays)
}

// yarnRope mixes like llama3, by the pair's number, and lengthens queries and
// keys. Source: Peng et al. 2023, §3; transformers, modeling_rope_utils.py.
func yarnRope(p *object, c *Config, r *Rope) {
	factor, original := p.factor(), p.original(c)
	low, high := p.yarnRange(r, original)
	r.slow(func(i int, _ float64) float64 { return mixed(factor, 1-(float64(i)-low)/(high-low)) })

	magnitude := func(m float64) float64 { return 0.1*m*math.Log(factor) + 1 }
	r.Scale = magnitude(1)
	if m, all := p.float("mscale", 0), p.float("mscale_all_dim", 0); m != 0 && all != 0 {
		r.Scale = magnitude(m) / magnitude(all)
	}
	p.readScale(r)
	c.limit(float64(original)*factor, "original_max_position_embeddings × rope factor")
}

// yarnRange returns between which pairs the slowing sets in: the one that turns
// beta_fast times within the original length, and the one that turns beta_slow
// times.
func (p *object) yarnRange(r *Rope, original int) (low, high float64) {
	pair := func(turns float64) float64 {
		return float64(r.Dim) * math.Log(float64(original)/(turns*2*math.Pi)) / (2 * math.Log(r.Theta))
	}
	fast, slow := p.float("beta_fast", 32), p.float("beta_slow", 1)
	if !(slow > 0 && slow <= fast) {
		p.invalid("beta_fast", "at least beta_slow, and that above 0")
		return 0, 1
	}
	low, high = pair(fast), pair(slow)
	if p.bool("truncate", true) {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, float64(r.Dim-1))
	if low == high {
		high += 0.001
	}
	return low, high
}

// readScale lets attention_factor have the last word.
func (p *object) readScale(r *Rope) {
	if r.Scale = p.float("attention_factor", r.Scale); !(r.Scale > 0) || math.IsInf(r.Scale, 0) {
		p.invalid("attention_factor", "positive")
	}
}

// longRope has a divisor for each pair, and others for sequences beyond the
// original length. Which of them a token needs would depend on how long its
// sequence gets, so only sequences within the original length are served.
// Source: Ding et al. 2024; transformers, modeling_rope_utils.py.
func longRope(p *object, c *Config, r *Rope) {
	p.require("short_factor", "original_max_position_embeddings")
	original := p.original(c)
	factor := p.float("factor", float64(c.MaxPositionEmbeddings)/float64(original))
	r.Scale = 1
	if factor > 1 {
		r.Scale = math.Sqrt(1 + math.Log(factor)/math.Log(float64(original)))
	}
	p.readScale(r)
	want := fmt.Sprintf("%d positive numbers, half of the values that turn", r.Dim/2)
	if !p.decode("short_factor", &r.Divisors, want) || len(r.Divisors) != r.Dim/2 {
		p.invalid("short_factor", want)
		return
	}
	if original < c.MaxPositionEmbeddings {
		c.limit(float64(original), "original_max_position_embeddings, as longrope beyond it is not supported")
	}
}

// Equal says whether both turn alike.
func (r Rope) Equal(other Rope) bool {
	return r.Theta == other.Theta && r.Dim == other.Dim && r.Scale == other.Scale && r.Interleaved == other.Interleaved &&
		slices.Equal(r.Divisors, other.Divisors)
}

// check holds a rope against the head it turns.
func (r *Rope) check(headDim int) error {
	switch {
	case r.Dim%2 != 0 || r.Dim < 2 || r.Dim > headDim:
		return fmt.Errorf("rotary embedding of %d values is not an even part of head_dim = %d", r.Dim, headDim)
	case !(r.Theta > 0) || math.IsInf(r.Theta, 0):
		return fmt.Errorf("rope_theta = %v must be positive", r.Theta)
	case r.Divisors != nil && len(r.Divisors) != r.Dim/2:
		return fmt.Errorf("rope scaling has %d divisors for %d pairs of values", len(r.Divisors), r.Dim/2)
	case !positive(r.Scale, 1):
		return fmt.Errorf("rope scale %v must be positive", r.Scale)
	}
	for i, d := range r.Divisors {
		if !(d > 0) || math.IsInf(d, 0) {
			return fmt.Errorf("rope scaling divides pair %d by %v, which must be positive", i, d)
		}
	}
	return nil
}

// positive says whether v, or def where v is 0, is positive and finite.
func positive[T float32 | float64](v, def T) bool {
	if v == 0 {
		v = def
	}
	return v > 0 && !math.IsInf(float64(v), 0)
}
