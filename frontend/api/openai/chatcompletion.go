package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"govllm/frontend/chat"
	"govllm/frontend/chat/jinja"
)

// chatRequest is the body of POST /v1/chat/completions.
// Source: vllm/entrypoints/openai/chat_completion/protocol.py.
type chatRequest struct {
	sampling
	conversation
	logprobs            chatLogprobsFields
	MaxTokens           *int
	MaxCompletionTokens *int
	ToolChoice          toolChoice // "": not given
	Echo                bool
	ReturnPromptText    bool
}

// conversation is what a chat template is rendered with; /tokenize takes it
// too.
type conversation struct {
	Messages             []message
	AddGenerationPrompt  bool
	ContinueFinalMessage bool
	AddSpecialTokens     *bool // nil: no, the template has written them already
	Template             *string
	TemplateKwargs       *jinja.Dict
	Tools                jinja.Value // nil: none
	Documents            jinja.Value // nil: none
	ReasoningEffort      string
}

type chatMessage struct {
	Role         string    `json:"role"`
	Content      string    `json:"content"`
	Refusal      *string   `json:"refusal"`
	Annotations  *struct{} `json:"annotations"`
	Audio        *struct{} `json:"audio"`
	FunctionCall *struct{} `json:"function_call"`
	Reasoning    *string   `json:"reasoning"`
}

type chatChoice struct {
	Index         int         `json:"index"`
	Message       chatMessage `json:"message"`
	Logprobs      any         `json:"logprobs"` // *chatLogprobs or null
	FinishReason  string      `json:"finish_reason"`
	StopReason    *stopReason `json:"stop_reason"`
	TokenIDs      []int32     `json:"token_ids"`
	RoutedExperts *string     `json:"routed_experts"`
}

type chatResponse struct {
	ID                string             `json:"id"`
	Object            string             `json:"object"`
	Created           int64              `json:"created"`
	Model             string             `json:"model"`
	Choices           []chatChoice       `json:"choices"`
	ServiceTier       *string            `json:"service_tier"`
	SystemFingerprint *string            `json:"system_fingerprint"`
	Usage             usage              `json:"usage"`
	PromptLogprobs    promptLogprobsJSON `json:"prompt_logprobs"`
	PromptTokenIDs    []int32            `json:"prompt_token_ids"`
	PromptText        *string            `json:"prompt_text"`
	KVTransferParams  *struct{}          `json:"kv_transfer_params"`
	ECTransferParams  *struct{}          `json:"ec_transfer_params"`
	Metrics           *struct{}          `json:"metrics"`
}

func (c *conversation) fields() []field {
	c.AddGenerationPrompt = true
	return []field{
		c.messagesField(),
		boolField("add_generation_prompt", &c.AddGenerationPrompt),
		boolField("continue_final_message", &c.ContinueFinalMessage),
		optBoolField("add_special_tokens", &c.AddSpecialTokens),
		optStringField("chat_template", &c.Template),
		c.kwargsField(),
		toolsField("tools", &c.Tools),
		documentsField(&c.Documents),
		c.reasoningEffortField(),
		unservedField("media_io_kwargs", "only text is served", "{}"),
		unservedField("mm_processor_kwargs", "only text is served", "{}"),
	}
}

func (c *chatRequest) fields() []field {
	fields := append(c.sampling.fields(), c.conversation.fields()...)
	fields = append(fields, c.logprobs.fields()...)
	return append(fields,
		intField("max_tokens", &c.MaxTokens),
		intField("max_completion_tokens", &c.MaxCompletionTokens),
		toolChoiceField(&c.ToolChoice),
		boolField("echo", &c.Echo),
		boolField("return_prompt_text", &c.ReturnPromptText),
		unservedField("parallel_tool_calls", "tool calls are not parsed", "true", "false"),
		// Without a reasoning parser there is none to leave out, as in vLLM.
		unservedField("include_reasoning", "reasoning is not told apart from the text; leave it out", "true", "false"),
	)
}

func (c *conversation) kwargsField() field {
	return field{"chat_template_kwargs", objectSchema, func(raw jsontext.Value) *APIError {
		c.TemplateKwargs = nil
		v, err := parseObject("chat_template_kwargs", raw)
		if d, ok := v.(*jinja.Dict); ok {
			c.TemplateKwargs = d
		}
		return err
	}}
}

// documentsField takes a list of objects of texts, in the client's key order.
func documentsField(dest *jinja.Value) field {
	return field{"documents", objectsSchema, func(raw jsontext.Value) *APIError {
		*dest = nil
		switch {
		case raw.Kind() == 'n':
			return nil
		case raw.Kind() != '[':
			return wrongType("documents", "a list of objects", raw)
		}
		list := jinja.NewList()
		for i, v := range elements(raw) {
			at := fmt.Sprintf("documents.%d", i)
			if v.Kind() != '{' {
				return wrongType(at, "an object, best with title and text", v)
			}
			document, err := parseObject(at, v)
			if err != nil {
				return err
			}
			for key, text := range document.(*jinja.Dict).All() {
				if _, ok := text.(jinja.Str); !ok {
					return invalid(at, "`%s` must hold only texts, but %q is none.", at, abbreviate(string(key.(jinja.Str))))
				}
			}
			list.Append(document)
		}
		*dest = list
		return nil
	}}
}

// reasoningEfforts are the values that vLLM takes; templates may know fewer.
var reasoningEfforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// reasoningEffortField takes one of them for the template to see.
func (c *conversation) reasoningEffortField() field {
	const name = "reasoning_effort"
	return field{name, stringSchema, func(raw jsontext.Value) *APIError {
		c.ReasoningEffort = ""
		if err := stringField(name, &c.ReasoningEffort).set(raw); err != nil || raw.Kind() == 'n' {
			return err
		}
		if !slices.Contains(reasoningEfforts, c.ReasoningEffort) {
			return invalid(name, "reasoning_effort must be one of %s, got %q.", strings.Join(reasoningEfforts, ", "), abbreviate(c.ReasoningEffort))
		}
		return nil
	}}
}

// kwargs are what the template gets beside its usual variables: the server's
// defaults, the request's, and what follows from its fields. As in vLLM, null
// and "auto" leave a default.
// Source: build_chat_params, and merge_kwargs in vllm/renderers/params.py.
func (c *conversation) kwargs(defaults *jinja.Dict) *jinja.Dict {
	if defaults == nil && c.TemplateKwargs == nil && c.ReasoningEffort == "" {
		return nil
	}
	merged := defaults.Clone()
	for key, v := range c.TemplateKwargs.All() {
		if v != jinja.None && v != jinja.Str("auto") {
			merged.Set(string(key.(jinja.Str)), v) // of a JSON object
		}
	}
	if c.ReasoningEffort != "" {
		merged.Set("reasoning_effort", jinja.Str(c.ReasoningEffort))
		if _, given := c.TemplateKwargs.Get("enable_thinking"); !given {
			merged.Set("enable_thinking", jinja.Bool(c.ReasoningEffort != "none"))
		}
	}
	return merged
}

func (s *Server) validateConversation(c *conversation, errs *complaints) {
	if len(c.Messages) == 0 {
		errs.add(malformed("messages", "`messages` must be provided and non-empty."))
	}
	if c.AddGenerationPrompt && c.ContinueFinalMessage {
		errs.refuse("continue_final_message", "Cannot set both `continue_final_message` and `add_generation_prompt` to True.")
	}
	if v, ok := c.TemplateKwargs.Get("chat_template"); ok && v != jinja.None {
		errs.refuse("chat_template_kwargs", "chat_template_kwargs cannot hold chat_template: use the request's own field.")
	}
	if c.Template != nil && !s.cfg.TrustRequestTemplate {
		errs.refuse("chat_template", "Chat template is passed with request, but --trust-request-chat-template is not set. Refused request with untrusted chat template.")
	}
}

func (s *Server) validateChat(c *chatRequest) *APIError {
	errs := s.validate(&c.sampling)
	s.validateConversation(&c.conversation, &errs)
	c.logprobs.resolve(&c.sampling, &errs)
	if len(c.LogprobTokenIDs) == 0 {
		errs.add(s.checkLogprobs("top_logprobs", c.Logprobs))
	}
	if c.Tools == nil && c.ToolChoice == toolsAuto {
		errs.refuse("tool_choice", "When using `tool_choice`, `tools` must be set.")
	}
	return joinErrors(errs)
}

// renderChat gives the prompt of a conversation: under the request's own
// template, if it has one, else the model's.
func (s *Server) renderChat(ctx context.Context, c *conversation, how tokenizing) (tokens, error) {
	template, limits, err := s.template(c)
	if err != nil {
		return tokens{}, err
	}
	in := chat.Input{
		Tools:                c.Tools,
		Documents:            c.Documents,
		AddGenerationPrompt:  c.AddGenerationPrompt,
		ContinueFinalMessage: c.ContinueFinalMessage,
		Kwargs:               c.kwargs(s.cfg.TemplateKwargs),
		Context:              ctx,
		Now:                  s.now,
		Limits:               limits,
	}
	in.BOSToken, in.EOSToken = s.specialText(s.cfg.Tokenizer.BOS()), s.specialText(s.cfg.Tokenizer.EOS())
	for _, m := range c.messagesFor(template) {
		in.Messages = append(in.Messages, m.value(template.ContentFormat()))
	}
	text, err := template.Render(in)
	var own *jinja.Error
	if c.Template != nil && errors.As(err, &own) { // the request's template, the request's fault
		return tokens{}, invalid("chat_template", "chat_template: %v", own)
	}
	if err != nil {
		return tokens{}, err
	}
	return s.tokenizePrompt(prompt{text: text, isText: true}, how)
}

// What a template that came with a request may take: a tenth of the model's
// own. The model's is trusted to need what it needs.
const (
	maxRequestTemplate = 1 << 20 // bytes
	requestShare       = 10
)

func (s *Server) template(c *conversation) (*chat.Template, jinja.Limits, error) {
	if c.Template == nil {
		if s.cfg.Templates == nil {
			return nil, jinja.Limits{}, invalid("messages", "The model has no chat template, and none is guessed. Start the server with --chat-template FILE, or use /v1/completions.")
		}
		return s.cfg.Templates.For(c.Tools != nil), jinja.Limits{}, nil
	}
	if s.cfg.Templates != nil { // as in transformers, one of the model's may be named
		if t := s.cfg.Templates.Named(*c.Template); t != nil {
			return t, jinja.Limits{}, nil
		}
	}
	if n := len(*c.Template); n > maxRequestTemplate {
		return nil, jinja.Limits{}, invalid("chat_template", "chat_template has %d bytes, more than the %d allowed; give it to the server with --chat-template FILE.", n, maxRequestTemplate)
	}
	template, err := chat.ParseTemplate(*c.Template)
	if err != nil {
		return nil, jinja.Limits{}, invalid("chat_template", "chat_template: %v", err)
	}
	limits := jinja.DefaultLimits
	limits.Steps, limits.Bytes, limits.Output = limits.Steps/requestShare, limits.Bytes/requestShare, limits.Output/requestShare
	return template, limits, nil
}

func (s *Server) specialText(id int32, ok bool) string {
	if !ok {
		return ""
	}
	text, _ := s.cfg.Tokenizer.IDToToken(id)
	return text
}

// chatJob renders the conversation and resolves how long the reply may be: as
// asked, or as the model's generation config says, or the rest of the context.
func (s *Server) chatJob(ctx context.Context, c *chatRequest) (job, error) {
	conversation := c.conversation
	if c.ToolChoice == toolsNone && s.cfg.ExcludeToolsForNone {
		conversation.Tools = nil
	}
	prompt, err := s.renderChat(ctx, &conversation, c.tokenizing(deref(c.AddSpecialTokens, false), false))
	if err != nil {
		return job{}, err
	}
	length := lengthField{name: "max_completion_tokens", asked: c.MaxCompletionTokens, fits: c.TruncatePrompt != nil}
	if length.asked == nil {
		length.name, length.asked = "max_tokens", c.MaxTokens
	}
	if length.asked == nil {
		length.asked, length.fits = s.cfg.Defaults.MaxTokens, true
	}
	p := c.sampling
	if c.Echo && p.PromptLogprobs == nil && !c.Stream { // a stream has no place for them
		top := deref(c.logprobs.top, 0)
		p.PromptLogprobs = &top
	}
	return s.newJob(&p, prompt, length)
}

// role is whose turn the reply is: the server's, or, where the last message is
// continued, that message's.
func (s *Server) role(c *conversation) string {
	if c.AddGenerationPrompt {
		return s.cfg.ResponseRole
	}
	return c.Messages[len(c.Messages)-1].role
}

// echoed is what echo puts before a reply of that role: the last message, if
// it is the same one's.
func (c *chatRequest) echoed(role string) string {
	last := c.Messages[len(c.Messages)-1]
	if !c.Echo || last.role != role {
		return ""
	}
	return last.text()
}

// createChatCompletion serves POST /v1/chat/completions.
func (s *Server) createChatCompletion(w http.ResponseWriter, r *http.Request) {
	arrival := s.now()
	var c chatRequest
	base, err := s.decode(r, &c.sampling, c.fields())
	id := "chatcmpl-" + base
	if err != nil {
		s.fail(w, r, err, id)
		return
	}
	if e := firstError(s.validateChat(&c), s.checkModel(c.Model)); e != nil {
		s.fail(w, r, e, id)
		return
	}
	ctx, end := s.begin(r.Context(), arrival, c.TimeoutMS, id, base)
	defer end()
	if err := s.admit(ctx, deref(c.N, 1)); err != nil {
		s.fail(w, r, err, id)
		return
	}
	j, err := s.chatJob(r.Context(), &c)
	if err != nil {
		s.fail(w, r, err, id)
		return
	}
	o := newOrder(&c.sampling, id, arrival, []job{j}, s.wording(&c.sampling, chatForm, deref(c.Logprobs, 0)))
	o.chat = true
	seqs, err := s.submit(ctx, o)
	if err != nil {
		s.fail(w, r, err, id)
		return
	}
	defer closeAll(seqs)
	if c.Stream {
		s.respond(ctx, w, r, &c.sampling, id, seqs, newChunker(s.chatChunks(&c, &j, id, arrival)))
		return
	}
	s.answerChat(ctx, w, r, &c, chatResponse{ID: id, Object: "chat.completion", Created: arrival.Unix(), Model: s.cfg.ServedModelNames[0],
		SystemFingerprint: s.fingerprint()}, seqs)
}

func (s *Server) chatChunks(c *chatRequest, j *job, id string, arrival time.Time) chunkForm {
	form := s.chunkForm(&c.sampling, id, arrival)
	form.chat, form.role, form.choices = true, s.role(&c.conversation), j.n
	form.echo = c.echoed(form.role)
	if c.ReturnPromptText {
		form.promptText = &j.prompt.text
	}
	return form
}

func (s *Server) answerChat(ctx context.Context, w http.ResponseWriter, r *http.Request, c *chatRequest, resp chatResponse, seqs []*sequence) {
	all, err := collectAll(ctx, seqs)
	if err != nil {
		s.fail(w, r, err, resp.ID)
		return
	}
	role := s.role(&c.conversation)
	for i, done := range all {
		q := seqs[i]
		choice := chatChoice{Index: q.index, Message: chatMessage{Role: role, Content: c.echoed(role) + done.text},
			Logprobs: q.logprobs.form(done.logprobs), FinishReason: done.finish.String(), StopReason: newStopReason(done.reason)}
		if c.ReturnTokenIDs {
			choice.TokenIDs = orEmpty(done.tokenIDs)
		}
		resp.Choices = append(resp.Choices, choice)
	}
	first := seqs[0]
	resp.PromptLogprobs = first.scores.value()
	if c.ReturnTokenIDs {
		resp.PromptTokenIDs = first.prompt.ids
	}
	if c.ReturnPromptText {
		resp.PromptText = &first.prompt.text
	}
	resp.Usage = s.totals(seqs)
	writeJSON(w, http.StatusOK, resp)
	delivered(seqs)
}
