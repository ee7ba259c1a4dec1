package openai

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"govllm/frontend/api/httpserver"
	"govllm/frontend/outputs"
	"govllm/protocol"
)

// completionRequest is the body of POST /v1/completions.
// Source: vllm/entrypoints/openai/completion/protocol.py.
type completionRequest struct {
	sampling
	Prompts          []prompt
	MaxTokens        *int
	AddSpecialTokens bool
	Echo             bool
}

type completionChoice struct {
	Index          int                `json:"index"`
	Text           string             `json:"text"`
	Logprobs       any                `json:"logprobs"` // *completionLogprobs or null
	FinishReason   string             `json:"finish_reason"`
	StopReason     *stopReason        `json:"stop_reason"`
	TokenIDs       []int32            `json:"token_ids"`
	PromptLogprobs promptLogprobsJSON `json:"prompt_logprobs"`
	PromptTokenIDs []int32            `json:"prompt_token_ids"`
	RoutedExperts  *string            `json:"routed_experts"`
}

type completionResponse struct {
	ID                string             `json:"id"`
	Object            string             `json:"object"`
	Created           int64              `json:"created"`
	Model             string             `json:"model"`
	Choices           []completionChoice `json:"choices"`
	ServiceTier       *string            `json:"service_tier"`
	SystemFingerprint *string            `json:"system_fingerprint"`
	Usage             usage              `json:"usage"`
	KVTransferParams  *struct{}          `json:"kv_transfer_params"`
	ECTransferParams  *struct{}          `json:"ec_transfer_params"`
	Metrics           *struct{}          `json:"metrics"`
}

// stopReason is null, a token ID or a text.
type stopReason protocol.StopReason

func newStopReason(r protocol.StopReason) *stopReason {
	if r.Kind == protocol.StopReasonNone {
		return nil
	}
	s := stopReason(r)
	return &s
}

// MarshalJSON writes a token ID as a number and a stop string as a text.
func (r *stopReason) MarshalJSON() ([]byte, error) {
	return appendStopReason(nil, protocol.StopReason(*r)), nil
}

func (c *completionRequest) fields() []field {
	c.AddSpecialTokens = true
	return append(c.sampling.fields(),
		promptField(&c.Prompts),
		intField("max_tokens", &c.MaxTokens),
		boolField("add_special_tokens", &c.AddSpecialTokens),
		boolField("echo", &c.Echo),
		intField("logprobs", &c.Logprobs),
		unservedField("suffix", "no model here fills in the middle", `""`),
		unservedField("prompt_embeds", "send text or token IDs"),
	)
}

// scores reports the idiom for judging a text: echo without output. One token
// is generated all the same, and not shown.
func (c *completionRequest) scores() bool { return c.Echo && c.MaxTokens != nil && *c.MaxTokens == 0 }

func (s *Server) validateCompletion(c *completionRequest) *APIError {
	errs := s.validate(&c.sampling)
	if len(c.LogprobTokenIDs) == 0 {
		errs.add(s.checkLogprobs("logprobs", c.Logprobs))
	} else if c.Logprobs == nil {
		errs.refuse("logprob_token_ids", "when using `logprob_token_ids`, `logprobs` must be set.")
	} else if c.scores() {
		errs.refuse("logprob_token_ids", "`logprob_token_ids` is not supported when `echo=True` and `max_tokens=0` because no output tokens are generated.")
	}
	if len(c.Prompts) == 0 {
		errs.refuse("prompt", "`prompt` must be provided and non-empty.")
	}
	return joinErrors(errs)
}

// completionJobs tokenizes the prompts and resolves max_tokens for each.
func (s *Server) completionJobs(c *completionRequest) ([]job, error) {
	length := lengthField{name: "max_tokens", asked: c.MaxTokens, fits: c.MaxTokens == nil || c.TruncatePrompt != nil}
	one, sixteen := 1, 16 // OpenAI's default
	switch {
	case c.MaxTokens == nil:
		length.asked = &sixteen
	case c.scores():
		length.asked = &one
	}
	p := c.sampling
	if c.Echo && p.PromptLogprobs == nil {
		p.PromptLogprobs = p.Logprobs
	}
	jobs := make([]job, len(c.Prompts))
	for i, prompt := range c.Prompts {
		t, err := s.tokenizePrompt(prompt, c.tokenizing(c.AddSpecialTokens, c.Echo))
		if err != nil {
			return nil, err
		}
		if jobs[i], err = s.newJob(&p, t, length); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

// newJob asks for the request's n continuations of a prompt.
func (s *Server) newJob(p *sampling, prompt tokens, length lengthField) (job, error) {
	n, apiErr := s.maxTokens(length, len(prompt.ids), p.MinTokens)
	if apiErr != nil {
		return job{}, apiErr
	}
	params, err := s.params(p, &s.cfg.Defaults, n)
	return job{prompt: prompt, params: params, n: deref(p.N, 1)}, err
}

// echoed puts the prompt before a choice's text and tokens. As in vLLM its
// text is left out where token IDs are returned.
func (c *completionRequest) echoed(q *sequence, text string, logprobs []outputs.TokenLogprob) (string, []outputs.TokenLogprob) {
	if !c.Echo {
		return text, logprobs
	}
	if c.scores() {
		text, logprobs = "", nil
	}
	if !c.ReturnTokenIDs {
		text = q.prompt.text + text
	}
	if q.logprobs != nil {
		prompt := q.scores.entries
		if c.ReturnTokenIDs { // then the text shows none of them
			prompt = hidden(prompt)
		}
		logprobs = append(prompt[:len(prompt):len(prompt)], logprobs...)
	}
	return text, logprobs
}

// hidden are entries of tokens that the text does not show.
func hidden(entries []outputs.TokenLogprob) []outputs.TokenLogprob {
	out := slices.Clone(entries)
	for i := range out {
		out[i].Chars = 0
	}
	return out
}

// createCompletion serves POST /v1/completions.
func (s *Server) createCompletion(w http.ResponseWriter, r *http.Request) {
	arrival := s.now()
	var c completionRequest
	base, err := s.decode(r, &c.sampling, c.fields())
	id := "cmpl-" + base
	if err != nil {
		s.fail(w, r, err, id)
		return
	}
	if e := firstError(s.validateCompletion(&c), s.checkModel(c.Model)); e != nil {
		s.fail(w, r, e, id)
		return
	}
	ctx, end := s.begin(r.Context(), arrival, c.TimeoutMS, id, base)
	defer end()
	if err := s.admit(ctx, len(c.Prompts)*deref(c.N, 1)); err != nil {
		s.fail(w, r, err, id)
		return
	}
	jobs, err := s.completionJobs(&c)
	if err != nil {
		s.fail(w, r, err, id)
		return
	}
	seqs, err := s.submit(ctx, newOrder(&c.sampling, id, arrival, jobs, s.wording(&c.sampling, completionForm, deref(c.Logprobs, 0))))
	if err != nil {
		s.fail(w, r, err, id)
		return
	}
	defer closeAll(seqs)
	if c.Stream {
		s.respond(ctx, w, r, &c.sampling, id, seqs, newChunker(s.completionChunks(&c, id, arrival)))
		return
	}
	s.answerCompletion(ctx, w, r, &c, completionResponse{ID: id, Object: "text_completion", Created: arrival.Unix(), Model: s.cfg.ServedModelNames[0],
		SystemFingerprint: s.fingerprint()}, seqs)
}

func (s *Server) completionChunks(c *completionRequest, id string, arrival time.Time) chunkForm {
	form := s.chunkForm(&c.sampling, id, arrival)
	if c.Echo {
		form.prefix = c.echoed
	}
	return form
}

func (s *Server) answerCompletion(ctx context.Context, w http.ResponseWriter, r *http.Request, c *completionRequest, resp completionResponse, seqs []*sequence) {
	all, err := collectAll(ctx, seqs)
	if err != nil {
		s.fail(w, r, err, resp.ID)
		return
	}
	for i, done := range all {
		q := seqs[i]
		text, logprobs := c.echoed(q, done.text, done.logprobs)
		choice := completionChoice{Index: q.index, Text: text, Logprobs: q.logprobs.form(logprobs),
			FinishReason: done.finish.String(), StopReason: newStopReason(done.reason), PromptLogprobs: q.scores.value()}
		if c.ReturnTokenIDs {
			choice.TokenIDs, choice.PromptTokenIDs = orEmpty(done.tokenIDs), q.prompt.ids
		}
		resp.Choices = append(resp.Choices, choice)
	}
	resp.Usage = s.totals(seqs)
	writeJSON(w, http.StatusOK, resp)
	delivered(seqs)
}

// fingerprint is null if there is none.
func (s *Server) fingerprint() *string {
	if s.cfg.SystemFingerprint == "" {
		return nil
	}
	return &s.cfg.SystemFingerprint
}

// orEmpty makes a list of no IDs [], not null.
func orEmpty(ids []int32) []int32 {
	if ids == nil {
		return []int32{}
	}
	return ids
}

// decode reads a generating request's body. The ID it returns is the one the
// client gave, or a new one.
func (s *Server) decode(r *http.Request, p *sampling, fields []field) (id string, err error) {
	unknown, err := decodeBody(r, fields)
	id = httpserver.RequestID(r, p.RequestID)
	if err != nil {
		return id, err
	}
	s.logUnknown(unknown)
	p.readHeaders(r.Header)
	return id, nil
}

// readHeaders takes what proxies say about a request: a priority wins over the
// body's, a session does not. Source: GenerateBaseServing.
func (p *sampling) readHeaders(h http.Header) {
	if n, err := strconv.Atoi(h.Get("X-Vllm-Priority")); err == nil {
		p.Priority = n
	}
	if p.SessionID == "" {
		p.SessionID = h.Get("X-Session-Id")
	}
}

// firstError returns the first refusal that is one, as an error.
func firstError(errs ...*APIError) error {
	for _, e := range errs {
		if e != nil {
			return e
		}
	}
	return nil
}
