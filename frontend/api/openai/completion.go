package openai

import (
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"govllm/protocol"
)

// completionRequest is the body of POST /v1/completions.
// Source: vllm/entrypoints/openai/completion/protocol.py.
type completionRequest struct {
	sampling
	Prompts          []prompt
	MaxTokens        *int
	AddSpecialTokens bool
}

// prompt is a text, or the IDs that it would have given.
type prompt struct {
	text   string
	ids    []int32
	isText bool
}

type completionChoice struct {
	Index          int         `json:"index"`
	Text           string      `json:"text"`
	Logprobs       any         `json:"logprobs"` // *completionLogprobs or null
	FinishReason   string      `json:"finish_reason"`
	StopReason     *stopReason `json:"stop_reason"`
	TokenIDs       []int32     `json:"token_ids"`
	PromptLogprobs *struct{}   `json:"prompt_logprobs"`
	PromptTokenIDs []int32     `json:"prompt_token_ids"`
	RoutedExperts  *string     `json:"routed_experts"`
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
		c.promptField(),
		intField("max_tokens", &c.MaxTokens),
		boolField("add_special_tokens", &c.AddSpecialTokens),
		unservedField("echo", "put the prompt before the text yourself", "false"),
		intField("logprobs", &c.Logprobs),
		unservedField("suffix", "no model here fills in the middle", `""`),
		unservedField("prompt_embeds", "send text or token IDs"),
	)
}

// maxPrompts is vLLM's bound on a list of prompts, VLLM_MAX_COMPLETION_PROMPTS.
var maxPrompts = envInt("VLLM_MAX_COMPLETION_PROMPTS", 1024)

const promptSchema = `{"type":["string","array"],"items":{"anyOf":[{"type":"string"},{"type":"integer","minimum":0},{"type":"array","items":{"type":"integer","minimum":0}}]}}`

// promptField takes a text, a list of texts, a list of token IDs or a list of
// such lists.
func (c *completionRequest) promptField() field {
	return field{"prompt", promptSchema, func(raw jsontext.Value) *APIError {
		c.Prompts = nil
		switch raw.Kind() {
		case 'n':
			return nil
		case '"':
			c.Prompts = []prompt{{text: unquote(raw), isText: true}}
			return nil
		case '[':
			return c.promptList(elements(raw))
		}
		return wrongType("prompt", "a text, a list of texts, a list of token IDs or a list of such lists", raw)
	}}
}

func (c *completionRequest) promptList(values []jsontext.Value) *APIError {
	if len(values) > 0 && values[0].Kind() == '0' {
		ids, err := parseTokenIDs("prompt", values)
		c.Prompts = []prompt{{ids: ids}}
		return err
	}
	if len(values) > maxPrompts {
		return invalid("prompt", "prompt holds %d prompts, more than the %d allowed; VLLM_MAX_COMPLETION_PROMPTS of the server raises that.", len(values), maxPrompts)
	}
	for _, v := range values {
		switch {
		case v.Kind() != values[0].Kind():
			return invalid("prompt", "`prompt` must hold texts or lists of token IDs, not both.")
		case v.Kind() == '"':
			c.Prompts = append(c.Prompts, prompt{text: unquote(v), isText: true})
		case v.Kind() == '[':
			ids, err := parseTokenIDs("prompt", elements(v))
			if err != nil {
				return err
			}
			c.Prompts = append(c.Prompts, prompt{ids: ids})
		default:
			return wrongType("prompt", "a text, a list of texts, a list of token IDs or a list of such lists", v)
		}
	}
	return nil
}

func (s *Server) validateCompletion(c *completionRequest) *APIError {
	errs := c.sampling.validate(s.cfg.VocabSize)
	if e := s.checkLogprobs("logprobs", c.Logprobs); e != nil {
		errs = append(errs, e)
	}
	if len(c.Prompts) == 0 {
		errs = append(errs, invalid("prompt", "`prompt` must be provided and non-empty."))
	}
	return joinErrors(errs)
}

// completionJobs tokenizes the prompts and resolves max_tokens for each.
func (s *Server) completionJobs(c *completionRequest) ([]job, error) {
	asked := c.MaxTokens
	if asked == nil {
		sixteen := 16 // OpenAI's default
		asked = &sixteen
	}
	jobs := make([]job, len(c.Prompts))
	for i, p := range c.Prompts {
		ids, err := s.promptIDs(p, c.AddSpecialTokens)
		if err != nil {
			return nil, err
		}
		n, apiErr := s.maxTokens("max_tokens", s.clampDefault(c.MaxTokens, asked, len(ids)), len(ids), c.MinTokens)
		if apiErr != nil {
			return nil, apiErr
		}
		if jobs[i], err = s.newJob(&c.sampling, ids, n); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

// newJob asks for the request's n continuations of a prompt.
func (s *Server) newJob(p *sampling, ids []int32, maxTokens int) (job, error) {
	params, err := s.params(p, maxTokens)
	return job{promptIDs: ids, params: params, n: deref(p.N, 1), cacheSalt: p.CacheSalt}, err
}

// clampDefault shortens a default that does not fit behind the prompt: only a
// number that the client chose can be refused.
func (s *Server) clampDefault(given, value *int, promptLen int) *int {
	if room := s.cfg.MaxModelLen - promptLen; given == nil && room > 0 && *value > room {
		return &room
	}
	return value
}

// promptIDs gives a prompt's token IDs, all of them in the vocabulary.
func (s *Server) promptIDs(p prompt, addSpecial bool) ([]int32, error) {
	ids := p.ids
	if p.isText {
		var err error
		if ids, err = s.cfg.Tokenizer.Encode(p.text, addSpecial); err != nil {
			return nil, invalid("prompt", "The prompt cannot be tokenized: %v", err)
		}
	}
	if len(ids) == 0 {
		return nil, invalid("prompt", "The prompt must not be empty: it gives no tokens.")
	}
	for _, id := range ids {
		if int(id) >= s.cfg.VocabSize {
			return nil, invalid("prompt", "Token ID %d is out of vocabulary: the highest is %d.", id, s.cfg.VocabSize-1)
		}
	}
	return ids, nil
}

// createCompletion serves POST /v1/completions.
func (s *Server) createCompletion(w http.ResponseWriter, r *http.Request) {
	arrival := s.now()
	var c completionRequest
	unknown, err := decodeBody(r, c.fields())
	id := "cmpl-" + requestID(r, c.RequestID)
	if err != nil {
		s.fail(w, r, err, id)
		return
	}
	s.logUnknown(unknown)
	if e := firstError(s.validateCompletion(&c), s.checkModel(c.Model)); e != nil {
		s.fail(w, r, e, id)
		return
	}
	jobs, err := s.completionJobs(&c)
	if err != nil {
		s.fail(w, r, err, id)
		return
	}
	seqs, err := s.submit(r.Context(), arrival, id, jobs)
	if err != nil {
		s.fail(w, r, err, id)
		return
	}
	defer closeAll(seqs)
	model, created := s.cfg.ServedModelNames[0], arrival.Unix()
	if c.Stream {
		final, continuous := c.usage()
		s.respond(w, r, id, seqs, newChunker(false, "", id, model, created, continuous), final)
		return
	}
	resp := completionResponse{ID: id, Object: "text_completion", Created: created, Model: model}
	for _, q := range seqs {
		done, err := q.collect(r.Context())
		if err != nil {
			s.fail(w, r, err, id)
			return
		}
		resp.Choices = append(resp.Choices, completionChoice{
			Index: q.index, Text: done.text, Logprobs: done.logprobs, FinishReason: done.finish.String(), StopReason: newStopReason(done.reason),
		})
	}
	resp.Usage = totals(seqs)
	writeJSON(w, http.StatusOK, resp)
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
