package openai

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"govllm/protocol"
)

// sampling are the fields that every generating endpoint shares. nil means
// "not given": the server's default stands.
type sampling struct {
	Model           string
	Temperature     *float64
	TopP            *float64
	TopK            *int
	MinP            *float64
	Seed            *int64
	N               *int
	Repetition      *float64
	Presence        *float64
	Frequency       *float64
	LogitBias       map[int32]float64
	Allowed         []int32 // allowed_token_ids; nil: all
	BadWords        []string
	CacheSalt       *string
	SessionID       string
	Logprobs        *int    // alternatives to tell of each token; nil: no log probabilities
	PromptLogprobs  *int    // the same of the prompt's tokens
	LogprobTokenIDs []int32 // tell these instead of the most likely tokens
	TokensAsIDs     *bool   // return_tokens_as_token_ids; nil: as the server was told
	ReturnTokenIDs  bool
	Stop            []string
	StopTokenIDs    []int32
	IncludeStop     bool
	IgnoreEOS       bool
	MinTokens       *int
	SkipSpecial     bool
	SpacesBetween   bool
	TruncatePrompt  *int // tokens to keep; -1: what fits; nil: all
	TruncationSide  string
	Priority        int
	StreamInterval  *int
	Stream          bool
	StreamOptions   *streamOptions
	RequestID       string
	TimeoutMS       *int
	// SkipReadingCache computes the whole prompt (true) or not (false); nil: as
	// prompt log probabilities need it. Only tokens-in requests have it.
	SkipReadingCache *bool
}

// streamOptions says which usage a stream reports.
type streamOptions struct {
	IncludeUsage    bool `json:"include_usage"`
	ContinuousUsage bool `json:"continuous_usage_stats"` // on every chunk; only with IncludeUsage
}

// fields are the JSON members of a sampling.
func (p *sampling) fields() []field {
	p.SkipSpecial, p.SpacesBetween = true, true
	return slices.Concat([]field{
		stringField("model", &p.Model),
		optStringField("cache_salt", &p.CacheSalt),
		stringField("session_id", &p.SessionID),
		optBoolField("return_tokens_as_token_ids", &p.TokensAsIDs),
		boolField("return_token_ids", &p.ReturnTokenIDs),
		intField("truncate_prompt_tokens", &p.TruncatePrompt),
		stringField("truncation_side", &p.TruncationSide),
		priorityField(&p.Priority),
		boolField("stream", &p.Stream),
		p.streamOptionsField(),
		stringField("request_id", &p.RequestID),
		intField("timeout_ms", &p.TimeoutMS),
		responseFormatField(),
		ignoredField("user"),
	}, p.paramsFields(), unservedSampling)
}

// paramsFields are those that vLLM's SamplingParams has too.
func (p *sampling) paramsFields() []field {
	return []field{
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
		intField("prompt_logprobs", &p.PromptLogprobs),
		tokenIDsField("logprob_token_ids", &p.LogprobTokenIDs),
		stringsField("stop", &p.Stop),
		tokenIDsField("stop_token_ids", &p.StopTokenIDs),
		boolField("include_stop_str_in_output", &p.IncludeStop),
		boolField("ignore_eos", &p.IgnoreEOS),
		intField("min_tokens", &p.MinTokens),
		boolField("skip_special_tokens", &p.SkipSpecial),
		boolField("spaces_between_special_tokens", &p.SpacesBetween),
		intField("stream_interval", &p.StreamInterval),
	}
}

// unservedSampling are fields that vLLM knows for every endpoint and this
// server does not serve, with the value that means "leave it".
// Source: vllm/entrypoints/openai/{completion,chat_completion}/protocol.py.
var unservedSampling = []field{
	unservedField("best_of", "it is gone from the API; send one request per choice", "1"),
	unservedField("use_beam_search", "sample instead", "false"),
	unservedField("length_penalty", "it belongs to beam search; leave it out", "1"),
	unservedField("early_stopping", "it belongs to beam search; leave it out", "false"),
	unservedField("watermarking", "leave it out", "false"),
	unservedField("structured_outputs", "ask for the form in the prompt"),
	unservedField("return_token_offsets", "leave it out", "false"),
	unservedField("routed_experts_prompt_start", "leave it out", "0"),
	unservedField("mm_payload", "only text is served", `"tensors"`, `"none"`),
	unservedField("return_mm_kwargs", "only text is served", "true", "false"),
	unservedField("kv_transfer_params", "the KV cache stays in its engine"),
	unservedField("ec_transfer_params", "only text is served"),
	unservedField("vllm_xargs", "there are no extensions that read it", "{}"),
	unservedField("repetition_detection", "leave it out"),
	unservedField("thinking_token_budget", "leave it out", "-1"),
}

func (p *sampling) streamOptionsField() field {
	return field{"stream_options", objectSchema, func(raw jsontext.Value) *APIError {
		p.StreamOptions = nil
		if raw.Kind() == 'n' || isEmptyObject(raw) {
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

// responseFormatField takes {"type": "text"}, which asks for nothing.
func responseFormatField() field {
	const name = "response_format"
	return field{name, objectSchema, func(raw jsontext.Value) *APIError {
		if raw.Kind() == 'n' {
			return nil
		}
		var kind string
		if raw.Kind() != '{' {
			return wrongType(name, "an object with a type", raw)
		}
		if _, err := decodeObject(raw, []field{stringField("response_format.type", &kind).named("type")}); err != nil {
			return toAPIError(err, "")
		}
		if kind != "text" {
			return notServed(name, "only {\"type\": \"text\"} is; ask for JSON in the prompt")
		}
		return nil
	}}
}

// priorityField takes a whole number; lower runs first.
func priorityField(dest *int) field {
	return field{"priority", intSchema, func(raw jsontext.Value) *APIError {
		var p *int
		err := intField("priority", &p).set(raw)
		*dest = deref(p, 0)
		return err
	}}
}

// usage says whether a stream ends with the usage, and whether every chunk
// carries it. Source: vllm/entrypoints/serve/utils/api_utils.py.
func (s *Server) usage(p *sampling) (final, continuous bool) {
	switch {
	case s.cfg.ForceIncludeUsage:
		return true, true
	case p.StreamOptions == nil:
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

// maxLogprobTokenIDs bounds logprob_token_ids, as in vLLM and in the engine.
const maxLogprobTokenIDs = 128

// maxTimeoutMS is a day.
const maxTimeoutMS = 24 * 60 * 60 * 1000

// complaints gathers what is wrong with a request; all of it is told.
type complaints []*APIError

func (c *complaints) refuse(param, format string, args ...any) {
	*c = append(*c, invalid(param, format, args...))
}

func (c *complaints) add(e *APIError) {
	if e != nil {
		*c = append(*c, e)
	}
}

// inVocabulary refuses the first ID that the model has no token for.
func (c *complaints) inVocabulary(param string, ids []int32, vocabSize int) {
	for _, id := range ids {
		if int(id) >= vocabSize {
			c.refuse(param, "%s holds %d, but the vocabulary ends at %d.", param, id, vocabSize-1)
			return
		}
	}
}

// noEmpty refuses a list with an empty text.
func (c *complaints) noEmpty(param string, texts []string) {
	if slices.Contains(texts, "") {
		c.refuse(param, "%s cannot contain an empty string.", param)
	}
}

// validate refuses values out of bounds.
func (s *Server) validate(p *sampling) complaints {
	var errs complaints
	p.validateDistribution(&errs, s.cfg.VocabSize)
	p.validateEnd(&errs, s.cfg.VocabSize)
	s.validateLogprobs(p, &errs)
	if salt := p.CacheSalt; salt != nil && (*salt == "" || len([]rune(*salt)) > maxCacheSalt || strings.ContainsAny(*salt, "@/\\\x00")) {
		errs.refuse("cache_salt", "Parameter 'cache_salt' must have 1 to %d characters and must not contain '@', '/', '\\' or NUL.", maxCacheSalt)
	}
	if n := p.N; n != nil && (*n < 1 || *n > maxN) {
		errs.refuse("n", "n must be at least 1 and at most %d, got %d; VLLM_MAX_N_SEQUENCES of the server raises that.", maxN, *n)
	}
	if n := p.TruncatePrompt; n != nil && (*n < -1 || *n > s.cfg.MaxModelLen) {
		errs.refuse("truncate_prompt_tokens", "truncate_prompt_tokens must be -1 (what fits) or at most max_model_len = %d, got %d.", s.cfg.MaxModelLen, *n)
	}
	if side := p.TruncationSide; side != "" && side != "left" && side != "right" {
		errs.refuse("truncation_side", "`truncation_side` must be either 'left' or 'right', got %q.", abbreviate(side))
	}
	if n := p.StreamInterval; n != nil && *n < 1 {
		errs.refuse("stream_interval", "stream_interval must be at least 1, got %d.", *n)
	}
	if p.StreamOptions != nil && !p.Stream {
		errs.refuse("stream_options", "Stream options can only be defined when `stream=True`.")
	}
	if n := p.TimeoutMS; n != nil && (*n < 1 || *n > maxTimeoutMS) {
		errs.refuse("timeout_ms", "timeout_ms must be at least 1 and at most %d, got %d.", maxTimeoutMS, *n)
	}
	return errs
}

// validateDistribution is about what is drawn from.
func (p *sampling) validateDistribution(errs *complaints, vocabSize int) {
	if t := p.Temperature; t != nil && (*t < 0 || *t > 2) {
		errs.refuse("temperature", "temperature must be in [0, 2], got %v.", *t)
	}
	if x := p.TopP; x != nil && (*x <= 0 || *x > 1) {
		errs.refuse("top_p", "top_p must be in (0, 1], got %v.", *x)
	}
	if k := p.TopK; k != nil && (*k < -1 || *k > math.MaxInt32) {
		errs.refuse("top_k", "top_k must be 0 (disable), or at least 1, got %d.", *k)
	}
	if x := p.MinP; x != nil && (*x < 0 || *x > 1) {
		errs.refuse("min_p", "min_p must be in [0, 1], got %v.", *x)
	}
	if x := p.Repetition; x != nil && *x <= 0 {
		errs.refuse("repetition_penalty", "repetition_penalty must be greater than zero, got %v.", *x)
	}
	if x := p.Presence; x != nil && math.Abs(*x) > 2 {
		errs.refuse("presence_penalty", "presence_penalty must be in [-2, 2], got %v.", *x)
	}
	if x := p.Frequency; x != nil && math.Abs(*x) > 2 {
		errs.refuse("frequency_penalty", "frequency_penalty must be in [-2, 2], got %v.", *x)
	}
	for id := range p.LogitBias {
		if int(id) >= vocabSize {
			errs.refuse("logit_bias", "logit_bias holds token ID %d, but the vocabulary ends at %d.", id, vocabSize-1)
			break
		}
	}
	if p.Allowed != nil && len(p.Allowed) == 0 {
		errs.refuse("allowed_token_ids", "allowed_token_ids must not be empty: nothing could be generated.")
	}
	errs.inVocabulary("allowed_token_ids", p.Allowed, vocabSize)
	errs.noEmpty("bad_words", p.BadWords)
}

// validateEnd is about when to stop.
func (p *sampling) validateEnd(errs *complaints, vocabSize int) {
	if n := p.MinTokens; n != nil && *n < 0 {
		errs.refuse("min_tokens", "min_tokens must be greater than or equal to 0, got %d.", *n)
	}
	if len(p.Stop) > maxStopStrings {
		errs.refuse("stop", "stop holds %d strings, more than the %d allowed; VLLM_MAX_STOP_STRINGS of the server raises that.", len(p.Stop), maxStopStrings)
	}
	errs.noEmpty("stop", p.Stop)
	errs.inVocabulary("stop_token_ids", p.StopTokenIDs, vocabSize)
}

// validateLogprobs is about log probabilities; how many of generated tokens
// is for the endpoint, whose field has a name of its own.
func (s *Server) validateLogprobs(p *sampling, errs *complaints) {
	errs.add(s.checkLogprobs("prompt_logprobs", p.PromptLogprobs))
	if k := deref(p.PromptLogprobs, 0); p.Stream && k != 0 {
		errs.refuse("prompt_logprobs", "`prompt_logprobs` are not available when `stream=True`.")
	}
	if n := len(p.LogprobTokenIDs); n > maxLogprobTokenIDs {
		errs.refuse("logprob_token_ids", "logprob_token_ids holds %d IDs, more than the %d allowed.", n, maxLogprobTokenIDs)
	}
	errs.inVocabulary("logprob_token_ids", p.LogprobTokenIDs, s.cfg.VocabSize)
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

// params makes the engine's sampling parameters; d holds where fields not given
// get their values. maxTokens is resolved.
func (s *Server) params(p *sampling, d *Defaults, maxTokens int) (*protocol.SamplingParams, error) {
	sp := protocol.DefaultSamplingParams()
	sp.Temperature = deref(cmp.Or(p.Temperature, d.Temperature), 1)
	sp.TopP = deref(cmp.Or(p.TopP, d.TopP), 1)
	sp.TopK = max(0, deref(cmp.Or(p.TopK, d.TopK), 0))
	sp.MinP = deref(cmp.Or(p.MinP, d.MinP), 0)
	sp.RepetitionPenalty = deref(cmp.Or(p.Repetition, d.Repetition), 1)
	sp.PresencePenalty, sp.FrequencyPenalty = deref(p.Presence, 0), deref(p.Frequency, 0)
	sp.LogitBias, sp.AllowedTokenIDs = p.LogitBias, p.Allowed
	sp.Logprobs, sp.PromptLogprobs = p.Logprobs, p.PromptLogprobs
	if len(p.LogprobTokenIDs) > 0 {
		sp.Logprobs, sp.LogprobTokenIDs = nil, p.LogprobTokenIDs
	}
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
	sp.SkipReadingPrefixCache = p.SkipReadingCache
	sp.MaxTokens = &maxTokens
	sp.MinTokens = deref(p.MinTokens, 0)
	sp.IgnoreEOS = p.IgnoreEOS
	sp.OutputKind = protocol.OutputDelta
	sp.SkipSpecialTokens, sp.SpacesBetweenSpecialTokens = p.SkipSpecial, p.SpacesBetween
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

// lengthField is how a request says how long its output may be.
type lengthField struct {
	name  string
	asked *int // nil: it did not say
	// fits says that what does not fit behind the prompt is shortened, not
	// refused: nobody chose the number, or the prompt was shortened as well.
	fits bool
}

// maxTokens resolves how many tokens a request may generate after a prompt of
// the given length.
func (s *Server) maxTokens(f lengthField, promptLen int, minTokens *int) (int, *APIError) {
	limit := s.cfg.MaxModelLen
	if promptLen >= limit {
		return 0, invalid("prompt", "This model's maximum context length is %d tokens. However, your prompt has %d tokens, which leaves no room for output. Please shorten it.", limit, promptLen)
	}
	room := limit - promptLen
	n := room
	if f.asked != nil {
		n = *f.asked
		switch {
		case n < 1:
			return 0, invalid(f.name, "%s must be at least 1, got %d.", f.name, n)
		case n > room && !f.fits:
			return 0, invalid(f.name, "This model's maximum context length is %d tokens. However, your prompt has %d tokens and %s asks for %d more (%d in total). Please shorten the prompt or ask for at most %d tokens.",
				limit, promptLen, f.name, n, promptLen+n, room)
		}
		n = min(n, room)
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
	return s.findModel(name)
}

func (s *Server) findModel(name string) *APIError {
	if slices.Contains(s.cfg.ServedModelNames, name) {
		return nil
	}
	return &APIError{Status: 404, Type: "NotFoundError", Param: "model",
		Message: fmt.Sprintf("The model `%s` does not exist. This server has: %s.", abbreviate(name), quotedList(s.cfg.ServedModelNames))}
}
