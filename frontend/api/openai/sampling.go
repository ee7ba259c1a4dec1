package openai

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"govllm/protocol"
)

// sampling are the fields that every generating endpoint shares. nil means
// "not given": the server's default stands.
type sampling struct {
	Model         string
	Temperature   *float64
	TopP          *float64
	TopK          *int
	MinP          *float64
	Seed          *int64
	N             *int
	Repetition    *float64
	Presence      *float64
	Frequency     *float64
	LogitBias     map[int32]float64
	Allowed       []int32 // allowed_token_ids; nil: all
	BadWords      []string
	CacheSalt     string
	Logprobs      *int // alternatives to tell of each token; nil: no log probabilities
	Stop          []string
	StopTokenIDs  []int32
	IncludeStop   bool
	IgnoreEOS     bool
	MinTokens     *int
	SkipSpecial   bool
	Stream        bool
	StreamOptions *streamOptions
	RequestID     string
}

// streamOptions says which usage a stream reports.
type streamOptions struct {
	IncludeUsage    bool
	ContinuousUsage bool // on every chunk; only with IncludeUsage
}

// fields are the JSON members of a sampling.
func (p *sampling) fields() []field {
	p.SkipSpecial = true
	return append([]field{
		stringField("model", &p.Model),
		floatField("temperature", &p.Temperature),
		floatField("top_p", &p.TopP),
		intField("top_k", &p.TopK),
		floatField("min_p", &p.MinP),
		intField("seed", &p.Seed),
		intField("n", &p.N),
		floatField("repetition_penalty", &p.Repetition),
		floatField("presence_penalty", &p.Presence),
		floatField("frequency_penalty", &p.Frequency),
		logitBiasField(&p.LogitBias),
		tokenIDsField("allowed_token_ids", &p.Allowed),
		stringsField("bad_words", &p.BadWords),
		stringField("cache_salt", &p.CacheSalt),
		stringsField("stop", &p.Stop),
		tokenIDsField("stop_token_ids", &p.StopTokenIDs),
		boolField("include_stop_str_in_output", &p.IncludeStop),
		boolField("ignore_eos", &p.IgnoreEOS),
		intField("min_tokens", &p.MinTokens),
		boolField("skip_special_tokens", &p.SkipSpecial),
		boolField("stream", &p.Stream),
		p.streamOptionsField(),
		stringField("request_id", &p.RequestID),
		ignoredField("user"),
	}, unservedSampling...)
}

// unservedSampling are fields that vLLM knows for every endpoint and this
// server does not serve, with the value that means "leave it".
// Source: vllm/entrypoints/openai/{completion,chat_completion}/protocol.py.
var unservedSampling = []field{
	unservedField("best_of", "it is gone from the API; send one request per choice", "1"),
	unservedField("prompt_logprobs", "only those of generated tokens are served; leave it out"),
	unservedField("logprob_token_ids", "ask for the most likely tokens instead", "[]"),
	unservedField("use_beam_search", "sample instead", "false"),
	unservedField("length_penalty", "it belongs to beam search; leave it out", "1"),
	unservedField("early_stopping", "it belongs to beam search; leave it out", "false"),
	unservedField("watermarking", "leave it out", "false"),
	unservedField("spaces_between_special_tokens", "leave it out", "true"),
	unservedField("truncate_prompt_tokens", "shorten the prompt before sending it"),
	unservedField("truncation_side", "shorten the prompt before sending it"),
	unservedField("response_format", "ask for JSON in the prompt", `{"type":"text"}`),
	unservedField("structured_outputs", "ask for the form in the prompt"),
	unservedField("priority", "requests run in the order of their arrival", "0"),
	unservedField("session_id", "leave it out"),
	unservedField("return_tokens_as_token_ids", "leave it out", "false"),
	unservedField("return_token_ids", "leave it out", "false"),
	unservedField("return_token_offsets", "leave it out", "false"),
	unservedField("routed_experts_prompt_start", "leave it out", "0"),
	unservedField("mm_payload", "only text is served", `"tensors"`),
	unservedField("return_mm_kwargs", "only text is served", "true"),
	unservedField("kv_transfer_params", "the KV cache stays in its engine"),
	unservedField("ec_transfer_params", "only text is served"),
	unservedField("vllm_xargs", "there are no extensions that read it", "{}"),
	unservedField("repetition_detection", "leave it out"),
	unservedField("thinking_token_budget", "leave it out", "-1"),
	unservedField("stream_interval", "every token is sent at once", "1"),
}

func (p *sampling) streamOptionsField() field {
	return field{"stream_options", objectSchema, func(raw jsontext.Value) *APIError {
		p.StreamOptions = nil
		if raw.Kind() == 'n' {
			return nil
		}
		var o streamOptions
		_, err := decodeObject(raw, []field{
			boolField("include_usage", &o.IncludeUsage),
			boolField("continuous_usage_stats", &o.ContinuousUsage),
			ignoredField("include_obfuscation"),
		})
		if err != nil {
			return wrongType("stream_options", "an object with include_usage and continuous_usage_stats", raw)
		}
		p.StreamOptions = &o
		return nil
	}}
}

// usage says whether a stream ends with the usage, and whether every chunk
// carries it.
func (p *sampling) usage() (final, continuous bool) {
	if p.StreamOptions == nil {
		return false, false
	}
	return p.StreamOptions.IncludeUsage, p.StreamOptions.IncludeUsage && p.StreamOptions.ContinuousUsage
}

// maxCacheSalt is the stricter of vLLM's two bounds.
const maxCacheSalt = 128

// maxN is vLLM's bound on n, VLLM_MAX_N_SEQUENCES.
var maxN = envInt("VLLM_MAX_N_SEQUENCES", 16384)

// maxStopStrings is vLLM's bound on stop, VLLM_MAX_STOP_STRINGS.
var maxStopStrings = envInt("VLLM_MAX_STOP_STRINGS", 128)

func envInt(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// validate refuses values out of bounds; all of them are told.
func (p *sampling) validate(vocabSize int) []*APIError {
	var errs []*APIError
	refuse := func(param, format string, args ...any) {
		errs = append(errs, invalid(param, format, args...))
	}
	inVocabulary := func(param string, ids []int32) {
		for _, id := range ids {
			if int(id) >= vocabSize {
				refuse(param, "%s holds %d, but the vocabulary ends at %d.", param, id, vocabSize-1)
				return
			}
		}
	}
	if t := p.Temperature; t != nil && (*t < 0 || *t > 2) {
		refuse("temperature", "temperature must be in [0, 2], got %v.", *t)
	}
	if x := p.TopP; x != nil && (*x <= 0 || *x > 1) {
		refuse("top_p", "top_p must be in (0, 1], got %v.", *x)
	}
	if k := p.TopK; k != nil && (*k < -1 || *k > math.MaxInt32) {
		refuse("top_k", "top_k must be 0 (disable), or at least 1, got %d.", *k)
	}
	if x := p.MinP; x != nil && (*x < 0 || *x > 1) {
		refuse("min_p", "min_p must be in [0, 1], got %v.", *x)
	}
	if x := p.Repetition; x != nil && *x <= 0 {
		refuse("repetition_penalty", "repetition_penalty must be greater than zero, got %v.", *x)
	}
	if x := p.Presence; x != nil && math.Abs(*x) > 2 {
		refuse("presence_penalty", "presence_penalty must be in [-2, 2], got %v.", *x)
	}
	if x := p.Frequency; x != nil && math.Abs(*x) > 2 {
		refuse("frequency_penalty", "frequency_penalty must be in [-2, 2], got %v.", *x)
	}
	for id := range p.LogitBias {
		if int(id) >= vocabSize {
			refuse("logit_bias", "logit_bias holds token ID %d, but the vocabulary ends at %d.", id, vocabSize-1)
			break
		}
	}
	if p.Allowed != nil && len(p.Allowed) == 0 {
		refuse("allowed_token_ids", "allowed_token_ids must not be empty: nothing could be generated.")
	}
	inVocabulary("allowed_token_ids", p.Allowed)
	for _, w := range p.BadWords {
		if w == "" {
			refuse("bad_words", "bad_words cannot contain an empty string.")
			break
		}
	}
	if len(p.CacheSalt) > maxCacheSalt || strings.ContainsAny(p.CacheSalt, "@/\\\x00") {
		refuse("cache_salt", "Parameter 'cache_salt' must be at most %d characters and must not contain '@', '/', '\\' or NUL.", maxCacheSalt)
	}
	if n := p.N; n != nil && (*n < 1 || *n > maxN) {
		refuse("n", "n must be at least 1 and at most %d, got %d; VLLM_MAX_N_SEQUENCES of the server raises that.", maxN, *n)
	}
	if n := p.MinTokens; n != nil && *n < 0 {
		refuse("min_tokens", "min_tokens must be greater than or equal to 0, got %d.", *n)
	}
	if len(p.Stop) > maxStopStrings {
		refuse("stop", "stop holds %d strings, more than the %d allowed; VLLM_MAX_STOP_STRINGS of the server raises that.", len(p.Stop), maxStopStrings)
	}
	for _, s := range p.Stop {
		if s == "" {
			refuse("stop", "stop cannot contain an empty string.")
			break
		}
	}
	inVocabulary("stop_token_ids", p.StopTokenIDs)
	if p.StreamOptions != nil && !p.Stream {
		refuse("stream_options", "Stream options can only be defined when `stream=True`.")
	}
	return errs
}

// Defaults are the server's sampling defaults, from the model's
// generation_config.json and --override-generation-config. nil leaves the
// OpenAI value.
type Defaults struct {
	Temperature *float64
	TopP        *float64
	TopK        *int
	MinP        *float64
	Repetition  *float64
	MaxTokens   *int // of a chat that gives none
	// MaxTokensCap bounds every request, if not nil.
	MaxTokensCap *int
}

// minTemperature is what a smaller, positive temperature is raised to.
// Source: vllm/sampling_params.py, _MAX_TEMP.
const minTemperature = 0.01

// params makes the engine's sampling parameters. maxTokens is resolved.
func (s *Server) params(p *sampling, maxTokens int) (*protocol.SamplingParams, error) {
	sp := protocol.DefaultSamplingParams()
	d := &s.cfg.Defaults
	sp.Temperature = deref(cmp.Or(p.Temperature, d.Temperature), 1)
	sp.TopP = deref(cmp.Or(p.TopP, d.TopP), 1)
	sp.TopK = max(0, deref(cmp.Or(p.TopK, d.TopK), 0))
	sp.MinP = deref(cmp.Or(p.MinP, d.MinP), 0)
	sp.RepetitionPenalty = deref(cmp.Or(p.Repetition, d.Repetition), 1)
	sp.PresencePenalty, sp.FrequencyPenalty = deref(p.Presence, 0), deref(p.Frequency, 0)
	sp.LogitBias, sp.AllowedTokenIDs, sp.Logprobs = p.LogitBias, p.Allowed, p.Logprobs
	switch {
	case sp.Temperature == 0:
		if n := deref(p.N, 1); n > 1 {
			return nil, invalid("n", "n must be 1 when using greedy sampling, got %d.", n)
		}
		sp.TopP, sp.TopK, sp.MinP = 1, 0, 0
	case sp.Temperature < minTemperature:
		sp.Temperature = minTemperature
	}
	if p.Seed != nil && *p.Seed != -1 { // vLLM's other way to say "none"
		sp.Seed = p.Seed
	}
	sp.MaxTokens = &maxTokens
	sp.MinTokens = deref(p.MinTokens, 0)
	sp.IgnoreEOS = p.IgnoreEOS
	sp.OutputKind = protocol.OutputDelta
	sp.SkipSpecialTokens = p.SkipSpecial
	sp.IncludeStopStrInOutput = p.IncludeStop
	sp.Stop = p.Stop
	s.stopTokens(&sp, p)
	var err error
	sp.BadWordsTokenIDs, err = s.badWords(p.BadWords)
	return &sp, err
}

// badWords tokenizes words as they begin a text and as they follow a space.
// Source: vllm/sampling_params.py, update_from_tokenizer.
func (s *Server) badWords(words []string) ([][]int32, error) {
	var out [][]int32
	for _, word := range words {
		word = strings.TrimLeft(word, " \t\n\r")
		plain, err := s.cfg.Tokenizer.Encode(word, false)
		if err != nil || len(plain) == 0 {
			return nil, invalid("bad_words", "bad_words entries must tokenize to at least one token.")
		}
		out = append(out, plain)
		spaced, err := s.cfg.Tokenizer.Encode(" "+word, false)
		if err == nil && len(spaced) == len(plain) && spaced[0] != plain[0] {
			out = append(out, spaced)
		}
	}
	return out, nil
}

// stopTokens sets what ends a continuation: the model's EOS, which the engine
// reports without a reason, the model's further EOS IDs and the request's own.
func (s *Server) stopTokens(sp *protocol.SamplingParams, p *sampling) {
	sp.StopTokenIDs = append(sp.StopTokenIDs, p.StopTokenIDs...)
	if !p.IgnoreEOS && len(s.cfg.EOSTokenIDs) > 0 {
		eos := s.cfg.EOSTokenIDs[0]
		sp.EOSTokenID = &eos
		sp.StopTokenIDs = append(sp.StopTokenIDs, s.cfg.EOSTokenIDs[1:]...)
		sp.AllStopTokenIDs = append(sp.AllStopTokenIDs, eos)
	}
	sp.AllStopTokenIDs = append(sp.AllStopTokenIDs, sp.StopTokenIDs...)
}

// maxTokens resolves how many tokens a request may generate after a prompt of
// the given length; asked is nil if it did not say. name is the field to blame.
func (s *Server) maxTokens(name string, asked *int, promptLen int, minTokens *int) (int, *APIError) {
	limit := s.cfg.MaxModelLen
	if promptLen >= limit {
		return 0, invalid("prompt", "This model's maximum context length is %d tokens. However, your prompt has %d tokens, which leaves no room for output. Please shorten it.", limit, promptLen)
	}
	room := limit - promptLen
	n := room
	if asked != nil {
		n = *asked
		if n < 1 {
			return 0, invalid(name, "%s must be at least 1, got %d.", name, n)
		}
		if n > room {
			return 0, invalid(name, "This model's maximum context length is %d tokens. However, your prompt has %d tokens and %s asks for %d more (%d in total). Please shorten the prompt or ask for at most %d tokens.",
				limit, promptLen, name, n, promptLen+n, room)
		}
	}
	if d := s.cfg.Defaults.MaxTokensCap; d != nil {
		n = min(n, *d)
	}
	if m := deref(minTokens, 0); m > n {
		return 0, invalid("min_tokens", "min_tokens must be less than or equal to max_tokens=%d, got %d.", n, m)
	}
	return n, nil
}

func deref[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// checkModel refuses a model that is not served. An absent name means ours.
func (s *Server) checkModel(name string) *APIError {
	if name == "" {
		return nil
	}
	for _, served := range s.cfg.ServedModelNames {
		if name == served {
			return nil
		}
	}
	return &APIError{Status: 404, Type: "NotFoundError", Param: "model",
		Message: fmt.Sprintf("The model `%s` does not exist. This server has: %s.", abbreviate(name), quotedList(s.cfg.ServedModelNames))}
}
