package openai

import (
	"net/http"
	"strconv"

	"govllm/protocol"
)

// renderedRequest is what POST /v1/chat/completions/render answers, and
// /v1/completions/render a list of: the body of POST /inference/v1/generate that
// gives the same tokens. Source: GenerateRequest.
type renderedRequest struct {
	RequestID             string         `json:"request_id"`
	TokenIDs              []int32        `json:"token_ids"`
	TokenOffsets          *struct{}      `json:"token_offsets"`
	Features              *struct{}      `json:"features"`
	ContentParts          *struct{}      `json:"content_parts"`
	SamplingParams        renderedParams `json:"sampling_params"`
	Model                 *string        `json:"model"`
	ReasoningEnded        *bool          `json:"reasoning_ended"`
	ReasoningParserKwargs *struct{}      `json:"reasoning_parser_kwargs"`
	ReturnTokenIDs        *bool          `json:"return_token_ids"`
	OutputMode            string         `json:"output_mode"`
	Stream                bool           `json:"stream"`
	StreamOptions         *streamOptions `json:"stream_options"`
	CacheSalt             *string        `json:"cache_salt"`
	Priority              int            `json:"priority"`
	KVTransferParams      *struct{}      `json:"kv_transfer_params"`
	ECTransferParams      *struct{}      `json:"ec_transfer_params"`
}

// renderedParams are vLLM's SamplingParams: members that hold their default are
// left out, but for those that vLLM writes all the same, and for max_tokens,
// which says something else where it is missing.
type renderedParams struct {
	N                          int               `json:"n,omitzero"`
	PresencePenalty            float64           `json:"presence_penalty"`
	FrequencyPenalty           float64           `json:"frequency_penalty"`
	RepetitionPenalty          float64           `json:"repetition_penalty"`
	Temperature                float64           `json:"temperature"`
	TopP                       *float64          `json:"top_p,omitzero"`
	TopK                       int               `json:"top_k,omitzero"`
	MinP                       *float64          `json:"min_p,omitzero"`
	Seed                       *int64            `json:"seed,omitzero"`
	Stop                       []string          `json:"stop"`
	StopTokenIDs               []int32           `json:"stop_token_ids"`
	IgnoreEOS                  bool              `json:"ignore_eos,omitzero"`
	MaxTokens                  int               `json:"max_tokens"`
	MinTokens                  int               `json:"min_tokens,omitzero"`
	Logprobs                   *int              `json:"logprobs,omitzero"`
	PromptLogprobs             *int              `json:"prompt_logprobs,omitzero"`
	LogprobTokenIDs            []int32           `json:"logprob_token_ids,omitempty"`
	SkipSpecialTokens          *bool             `json:"skip_special_tokens,omitzero"`
	SpacesBetweenSpecialTokens *bool             `json:"spaces_between_special_tokens,omitzero"`
	IncludeStopStrInOutput     bool              `json:"include_stop_str_in_output,omitzero"`
	OutputKind                 int               `json:"output_kind"`
	StreamInterval             *int              `json:"stream_interval,omitzero"`
	SkipClone                  bool              `json:"skip_clone"`
	OutputTextBufferLength     int               `json:"output_text_buffer_length,omitzero"`
	LogitBias                  map[int32]float64 `json:"logit_bias,omitempty"`
	AllowedTokenIDs            []int32           `json:"allowed_token_ids,omitempty"`
	BadWords                   []string          `json:"bad_words"`
	SkipReadingPrefixCache     bool              `json:"skip_reading_prefix_cache"`
}

// unless gives a value that is not its default.
func unless[T comparable](v, byDefault T) *T {
	if v == byDefault {
		return nil
	}
	return &v
}

func newRenderedParams(p *sampling, j *job) renderedParams {
	sp := j.params
	out := renderedParams{
		PresencePenalty: sp.PresencePenalty, FrequencyPenalty: sp.FrequencyPenalty, RepetitionPenalty: sp.RepetitionPenalty,
		Temperature: sp.Temperature, TopK: sp.TopK, Seed: sp.Seed,
		Stop: orNone(p.Stop), StopTokenIDs: orEmpty(p.StopTokenIDs), IgnoreEOS: sp.IgnoreEOS, MaxTokens: *sp.MaxTokens, MinTokens: sp.MinTokens,
		Logprobs: sp.Logprobs, PromptLogprobs: sp.PromptLogprobs, LogprobTokenIDs: sp.LogprobTokenIDs,
		SkipSpecialTokens: unless(sp.SkipSpecialTokens, true), SpacesBetweenSpecialTokens: unless(sp.SpacesBetweenSpecialTokens, true),
		IncludeStopStrInOutput: sp.IncludeStopStrInOutput, OutputKind: int(protocol.OutputFinalOnly), StreamInterval: p.StreamInterval, SkipClone: true,
		LogitBias: sp.LogitBias, AllowedTokenIDs: sp.AllowedTokenIDs, BadWords: orNone(p.BadWords), SkipReadingPrefixCache: sp.PromptLogprobs != nil,
	}
	if sp.Temperature > 0 {
		out.TopP, out.MinP = &sp.TopP, &sp.MinP
	}
	if j.n != 1 {
		out.N = j.n
	}
	if p.Stream {
		out.OutputKind = int(protocol.OutputDelta)
	}
	if !p.IncludeStop {
		for _, stop := range p.Stop {
			out.OutputTextBufferLength = max(out.OutputTextBufferLength, len([]rune(stop))-1)
		}
	}
	return out
}

// orNone makes a list of no texts [], not null.
func orNone(texts []string) []string {
	if texts == nil {
		return []string{}
	}
	return texts
}

func (s *Server) rendered(p *sampling, j *job, id string) renderedRequest {
	out := renderedRequest{RequestID: id, TokenIDs: j.prompt.ids, SamplingParams: newRenderedParams(p, j),
		OutputMode: modeTokens, Stream: p.Stream, CacheSalt: p.CacheSalt, Priority: p.Priority}
	if p.Model != "" {
		out.Model = &p.Model
	}
	if p.Stream {
		out.StreamOptions = p.StreamOptions
	}
	return out
}

// renderChatCompletion serves POST /v1/chat/completions/render: what the chat
// would ask of the engine, without asking.
func (s *Server) renderChatCompletion(w http.ResponseWriter, r *http.Request) {
	var c chatRequest
	base, err := s.decode(r, &c.sampling, c.fields())
	id := "chatcmpl-" + base
	if err == nil {
		err = firstError(s.validateChat(&c), s.checkModel(c.Model))
	}
	var j job
	if err == nil {
		j, err = s.chatJob(r.Context(), &c)
	}
	if err != nil {
		s.fail(w, r, err, id)
		return
	}
	writeJSON(w, http.StatusOK, s.rendered(&c.sampling, &j, id))
}

// renderCompletion serves POST /v1/completions/render: one entry per prompt.
func (s *Server) renderCompletion(w http.ResponseWriter, r *http.Request) {
	var c completionRequest
	base, err := s.decode(r, &c.sampling, c.fields())
	id := "cmpl-" + base
	if err == nil {
		err = firstError(s.validateCompletion(&c), s.checkModel(c.Model))
	}
	var jobs []job
	if err == nil {
		jobs, err = s.completionJobs(&c)
	}
	if err != nil {
		s.fail(w, r, err, id)
		return
	}
	all := make([]renderedRequest, len(jobs))
	for i := range jobs {
		item := id
		if len(jobs) > 1 {
			item += "-" + strconv.Itoa(i)
		}
		all[i] = s.rendered(&c.sampling, &jobs[i], item)
	}
	writeJSON(w, http.StatusOK, all)
}
