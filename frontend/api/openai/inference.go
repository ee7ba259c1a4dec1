package openai

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"govllm/protocol"
)

// generateRequest is the body of POST /inference/v1/generate: tokens in, tokens
// out. What POST /v1/…/render answers is one.
// Source: vllm/entrypoints/scale_out/token_in_token_out/protocol.py.
type generateRequest struct {
	sampling
	TokenIDs   []int32
	MaxTokens  *int
	Detokenize bool
	OutputMode string // "tokens" or "text"
	hasParams  bool
}

// The output modes.
const (
	modeTokens = "tokens" // IDs alone
	modeText   = "text"   // the text and its log probabilities as well
)

type generateChoice struct {
	Index          int          `json:"index"`
	FinishReason   string       `json:"finish_reason"`
	StopReason     *stopReason  `json:"stop_reason"`
	TokenIDs       []int32      `json:"token_ids"`
	RoutedExperts  *string      `json:"routed_experts"`
	SamplingMask   *struct{}    `json:"sampling_mask"`
	WeightVersions []weightSpan `json:"weight_versions"`
	Text           *string      `json:"text,omitzero"` // in text mode
	Logprobs       any          `json:"logprobs"`      // *generateLogprobs, *chatLogprobs or null
}

// weightSpan says which weights sampled tokens start to end-1. Weights do not
// change while this server runs. Source: WeightVersionSpan.
type weightSpan struct {
	Version string `json:"version"`
	Start   int    `json:"start"`
	End     int    `json:"end"`
}

func weightSpans(numTokens int) []weightSpan {
	if numTokens == 0 {
		return nil
	}
	return []weightSpan{{Version: "default", End: numTokens}}
}

type generateResponse struct {
	RequestID             string             `json:"request_id"`
	Model                 string             `json:"model"`
	Created               int64              `json:"created"`
	Usage                 usage              `json:"usage"`
	PromptLogprobs        promptLogprobsJSON `json:"prompt_logprobs"`
	PromptTokenIDLogprobs *string            `json:"prompt_token_id_logprobs"`
	PromptTokenIDs        []int32            `json:"prompt_token_ids"`
	MMPlaceholders        *struct{}          `json:"mm_placeholders"`
	Metrics               *struct{}          `json:"metrics"`
	KVTransferParams      *struct{}          `json:"kv_transfer_params"`
	ECTransferParams      *struct{}          `json:"ec_transfer_params"`
	OutputMode            string             `json:"output_mode"`
	Choices               []generateChoice   `json:"choices"`
}

func (g *generateRequest) fields() []field {
	g.OutputMode = modeTokens
	g.SkipSpecial, g.SpacesBetween, g.Detokenize = true, true, true
	return []field{
		stringField("request_id", &g.RequestID),
		tokenIDsField("token_ids", &g.TokenIDs),
		g.samplingParamsField(),
		stringField("model", &g.Model),
		boolField("return_token_ids", &g.ReturnTokenIDs),
		g.outputModeField(),
		boolField("stream", &g.Stream),
		g.streamOptionsField(),
		optStringField("cache_salt", &g.CacheSalt),
		priorityField(&g.Priority),
		intField("timeout_ms", &g.TimeoutMS),
		ignoredField("token_offsets"), // of the text that the tokens were made from
		unservedField("features", "only text is served"),
		unservedField("content_parts", "only text is served", "[]"),
		unservedField("reasoning_ended", "structured outputs are not served; leave it out", "true", "false"),
		unservedField("reasoning_parser_kwargs", "reasoning is not told apart from the text; leave it out"),
		unservedField("kv_transfer_params", "the KV cache stays in its engine"),
		unservedField("ec_transfer_params", "only text is served"),
	}
}

// samplingParamsField takes vLLM's SamplingParams.
// Source: vllm/sampling_params.py.
func (g *generateRequest) samplingParamsField() field {
	const name = "sampling_params"
	return field{name, objectSchema, func(raw jsontext.Value) *APIError {
		if raw.Kind() != '{' {
			return wrongType(name, "an object", raw)
		}
		g.hasParams = true
		_, err := decodeObject(raw, g.samplingParamsFields()) // unknown members are dropped, as in vLLM
		if err != nil {
			return toAPIError(err, "")
		}
		return nil
	}}
}

func (g *generateRequest) samplingParamsFields() []field {
	p := &g.sampling
	return append(p.paramsFields(),
		intField("max_tokens", &g.MaxTokens),
		intField("logprobs", &p.Logprobs),
		boolField("detokenize", &g.Detokenize),
		optBoolField("skip_reading_prefix_cache", &p.SkipReadingCache),
		// How vLLM's own processes hand things around: nothing of the result.
		ignoredField("output_kind"), ignoredField("skip_clone"), ignoredField("flat_logprobs"), ignoredField("output_text_buffer_length"),
		unservedField("watermarking", "leave it out", "false"),
		unservedField("structured_outputs", "ask for the form in the prompt"),
		unservedField("prompt_logprob_token_ids", "ask for prompt_logprobs"),
		unservedField("prompt_logprob_start", "ask for prompt_logprobs"),
		unservedField("extra_args", "there are no extensions that read it", "{}"),
		unservedField("thinking_token_budget", "leave it out", "-1"),
		unservedField("repetition_detection", "leave it out"),
		unservedField("routed_experts_prompt_start", "leave it out", "0"),
		unservedField("trace_decode_token_ids", "leave it out"),
	)
}

func (g *generateRequest) outputModeField() field {
	return field{"output_mode", `{"enum":["tokens","text"]}`, func(raw jsontext.Value) *APIError {
		if raw.Kind() == '"' {
			if mode := unquote(raw); mode == modeTokens || mode == modeText {
				g.OutputMode = mode
				return nil
			}
		}
		return wrongType("output_mode", `"tokens" or "text"`, raw)
	}}
}

func (s *Server) validateGenerate(g *generateRequest) *APIError {
	errs := s.validate(&g.sampling)
	errs.add(s.checkLogprobs("logprobs", g.Logprobs))
	if n := len(g.LogprobTokenIDs); n > 0 && g.Logprobs != nil && *g.Logprobs != n {
		errs.refuse("logprob_token_ids", "When both logprobs and logprob_token_ids are set, logprobs must equal len(logprob_token_ids). Got logprobs=%d, len(logprob_token_ids)=%d.", *g.Logprobs, n)
	}
	if len(g.TokenIDs) == 0 {
		errs.add(malformed("token_ids", "`token_ids` must be provided and non-empty."))
	}
	if !g.hasParams {
		errs.add(malformed("sampling_params", "`sampling_params` must be provided; {} takes the defaults."))
	}
	if skip := g.SkipReadingCache; skip != nil && !*skip && g.PromptLogprobs != nil {
		errs.refuse("skip_reading_prefix_cache", "skip_reading_prefix_cache is false, but prompt_logprobs need the whole prompt computed; leave it out.")
	}
	if !g.Detokenize && len(g.Stop) > 0 {
		errs.refuse("stop", "stop strings are only supported when detokenize is True. Set detokenize=True to use stop.")
	}
	if !g.Detokenize && g.OutputMode != modeTokens {
		errs.refuse("output_mode", "output_mode='%s' requires sampling_params.detokenize to be true", g.OutputMode)
	}
	return joinErrors(errs)
}

// generateJob has no defaults of the model but the length: where none is asked
// for, the rest of the context, as for a chat.
func (s *Server) generateJob(g *generateRequest) (job, error) {
	prompt, err := s.tokenizePrompt(prompt{ids: g.TokenIDs}, tokenizing{})
	if err != nil {
		return job{}, err
	}
	length := lengthField{name: "max_tokens", asked: g.MaxTokens}
	if length.asked == nil {
		length.asked, length.fits = s.cfg.Defaults.MaxTokens, true
	}
	n, apiErr := s.maxTokens(length, len(prompt.ids), g.MinTokens)
	if apiErr != nil {
		return job{}, apiErr
	}
	params, err := s.params(&g.sampling, &Defaults{}, n)
	return job{prompt: prompt, params: params, n: deref(g.N, 1)}, err
}

// wording of token IDs shows at least the token itself.
func (s *Server) generateWording(g *generateRequest) wording {
	num := deref(g.Logprobs, 0)
	if num != -1 {
		num = max(num, 1)
	}
	kind := idForm
	if g.OutputMode == modeText {
		kind = chatForm
	}
	return s.wording(&g.sampling, kind, num)
}

// generate serves POST /inference/v1/generate.
func (s *Server) generate(w http.ResponseWriter, r *http.Request) {
	arrival := s.now()
	var g generateRequest
	base, err := s.decode(r, &g.sampling, g.fields())
	id := "generate-tokens-" + base
	if err != nil {
		s.fail(w, r, err, id)
		return
	}
	if e := firstError(s.validateGenerate(&g), s.checkModel(g.Model)); e != nil {
		s.fail(w, r, e, id)
		return
	}
	ctx, end := s.begin(r.Context(), arrival, g.TimeoutMS, id, base)
	defer end()
	if err := s.admit(ctx, deref(g.N, 1)); err != nil {
		s.fail(w, r, err, id)
		return
	}
	j, err := s.generateJob(&g)
	if err != nil {
		s.fail(w, r, err, id)
		return
	}
	seqs, err := s.submit(ctx, newOrder(&g.sampling, id, arrival, []job{j}, s.generateWording(&g)))
	if err != nil {
		s.fail(w, r, err, id)
		return
	}
	defer closeAll(seqs)
	if g.Stream {
		_, continuous := s.usage(&g.sampling)
		s.respond(ctx, w, r, &g.sampling, id, seqs, &tokenEvents{id: id, mode: g.OutputMode, prompt: g.ReturnTokenIDs, continuous: continuous})
		return
	}
	s.answerGenerate(ctx, w, r, &g, id, arrival, seqs)
}

func (s *Server) answerGenerate(ctx context.Context, w http.ResponseWriter, r *http.Request, g *generateRequest, id string, arrival time.Time, seqs []*sequence) {
	all, err := collectAll(ctx, seqs)
	if err != nil {
		s.fail(w, r, err, id)
		return
	}
	resp := generateResponse{RequestID: id, Model: s.cfg.ServedModelNames[0], Created: arrival.Unix(), OutputMode: g.OutputMode,
		PromptLogprobs: seqs[0].scores.value()}
	for i, done := range all {
		q := seqs[i]
		choice := generateChoice{Index: q.index, FinishReason: done.finish.String(), StopReason: newStopReason(done.reason),
			TokenIDs: orEmpty(done.tokenIDs), WeightVersions: weightSpans(len(done.tokenIDs)), Logprobs: q.logprobs.form(done.logprobs)}
		if g.OutputMode == modeText {
			choice.Text = &done.text
		}
		resp.Choices = append(resp.Choices, choice)
	}
	if g.ReturnTokenIDs {
		resp.PromptTokenIDs = seqs[0].prompt.ids
	}
	resp.Usage = s.totals(seqs)
	writeJSON(w, http.StatusOK, resp)
	delivered(seqs)
}

// tokenEvents words the events of a stream of tokens: every member shows, null
// included, but for the prompt's IDs, which only the first event has.
type tokenEvents struct {
	id         string
	mode       string
	prompt     bool // the first event has the prompt's IDs
	continuous bool
	buf        []byte
}

func (e *tokenEvents) delta(q *sequence, d delta) []byte {
	if len(d.TokenIDs) == 0 && d.Finish == protocol.FinishNone && (e.mode != modeText || d.Text == "") {
		return nil
	}
	b := e.head(e.buf[:0])
	if e.continuous {
		b = appendJSON(b, newUsage(len(q.prompt.ids), q.out.NumTokens()))
	} else {
		b = append(b, "null"...)
	}
	if e.prompt {
		e.prompt = false
		b = append(b, `,"prompt_token_ids":`...)
		b = appendIDs(b, q.prompt.ids, true)
	}
	b = append(b, `,"output_mode":"`+e.mode+`","choices":[{"index":`...)
	b = strconv.AppendInt(b, int64(q.index), 10)
	b = appendFinish(append(b, `,"finish_reason":`...), d.Finish)
	b = appendStopReason(append(b, `,"stop_reason":`...), d.Reason)
	b = appendIDs(append(b, `,"token_ids":`...), d.TokenIDs, true)
	b = append(b, `,"routed_experts":null,"sampling_mask":null,"weight_versions":`...)
	if d.Finish == protocol.FinishNone {
		b = append(b, "null"...)
	} else {
		b = appendJSON(b, weightSpans(q.out.NumTokens()))
	}
	if e.mode == modeText {
		b = appendQuoted(append(b, `,"text":`...), d.Text)
	}
	b = appendJSON(append(b, `,"logprobs":`...), q.logprobs.form(d.logprobs))
	e.buf = append(b, "}]}\n\n"...)
	return e.buf
}

func (e *tokenEvents) usage(u usage) []byte {
	b := u.appendTo(e.head(e.buf[:0]))
	b = append(b, `,"output_mode":"`+e.mode+`","choices":[]}`...)
	e.buf = append(b, "\n\n"...)
	return e.buf
}

func (e *tokenEvents) head(b []byte) []byte {
	b = appendQuoted(append(b, `data: {"request_id":`...), e.id)
	return append(b, `,"usage":`...)
}
