package bench

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// prompt is one request to be sent.
type prompt struct {
	body []byte
}

// words of a chat's prompt: common ones, which most vocabularies hold whole.
var words = strings.Fields("the of and to in is that it was for on are as with his they at be this from have or by one had not but what all were when we there can an your which their said if do will each about how up out them then she many some so these would other into has more her two like him see time could no make than first been its who now people my made over did down only way find use may water long little very after words called just where most know")

// prompts makes n requests of random content. The same seed gives the same.
func (c *Config) prompts(n int, model string, r *rand.Rand) ([]prompt, error) {
	extra, err := json.Marshal(c.ExtraBody)
	if err != nil {
		return nil, err
	}
	prefix := make([]int, c.PrefixLen)
	for i := range prefix {
		prefix[i] = r.IntN(c.vocabulary())
	}
	made := make([]prompt, n)
	for i := range made {
		ids := prefix[:len(prefix):len(prefix)]
		for range c.around(c.InputLen, r) {
			ids = append(ids, r.IntN(c.vocabulary()))
		}
		made[i].body = c.body(model, ids, c.around(c.OutputLen, r), extra)
	}
	return made, nil
}

func (c *Config) vocabulary() int {
	if c.Backend == Chat {
		return len(words)
	}
	return c.VocabSize
}

// around is a length near n, by RangeRatio, of at least one token.
func (c *Config) around(n int, r *rand.Rand) int {
	low := int(math.Floor(float64(n) * (1 - c.RangeRatio)))
	high := int(math.Ceil(float64(n) * (1 + c.RangeRatio)))
	return max(1, low+r.IntN(high-low+1))
}

// body is a request's JSON text; extra, an object, ends it.
func (c *Config) body(model string, ids []int, maxTokens int, extra []byte) []byte {
	b := append([]byte(nil), `{"model":`...)
	b, _ = jsontext.AppendQuote(b, model)
	switch c.Backend {
	case Chat:
		b = append(b, `,"messages":[{"role":"user","content":"`...)
		for i, id := range ids {
			if i > 0 {
				b = append(b, ' ')
			}
			b = append(b, words[id]...)
		}
		b = append(b, `"}],"max_completion_tokens":`...)
	default:
		b = append(b, `,"prompt":[`...)
		for i, id := range ids {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(id), 10)
		}
		b = append(b, `],"max_tokens":`...)
	}
	b = strconv.AppendInt(b, int64(maxTokens), 10)
	b = append(b, `,"stream":true,"stream_options":{"include_usage":true}`...)
	if c.IgnoreEOS {
		b = append(b, `,"ignore_eos":true`...)
	}
	if len(c.ExtraBody) > 0 {
		b = append(b, ',')
		b = append(b, extra[1:len(extra)-1]...)
	}
	return append(b, '}')
}

// arrivals says when each of n requests starts. Intervals are gamma
// distributed with mean 1/rate; their sum is scaled to n/rate, so that short
// runs keep the rate that was asked for.
func (c *Config) arrivals(n int, r *rand.Rand) []time.Duration {
	at := make([]time.Duration, n)
	if math.IsInf(c.RequestRate, 1) {
		return at
	}
	sums := make([]float64, n)
	sum := 0.0
	for i := range sums {
		sum += gamma(c.Burstiness, r)
		sums[i] = sum
	}
	for i := range at {
		at[i] = time.Duration(sums[i] / sum * float64(n) / c.RequestRate * float64(time.Second))
	}
	return at
}

// gamma draws from the gamma distribution of the given shape and scale 1.
//
// Source: Marsaglia and Tsang, A simple method for generating gamma variables,
// 2000; shapes below 1 by their §6.
func gamma(shape float64, r *rand.Rand) float64 {
	if shape < 1 {
		return gamma(shape+1, r) * math.Pow(1-r.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	k := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + k*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(1-r.Float64()) < 0.5*x*x+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}
