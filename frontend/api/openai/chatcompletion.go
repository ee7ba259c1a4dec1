package openai

import (
	"context"
	"net/http"

	"govllm/frontend/chat"
	"govllm/frontend/chat/jinja"

	"github.com/go-json-experiment/json/jsontext"
)

// chatRequest is the body of POST /v1/chat/completions.
// Source: vllm/entrypoints/openai/chat_completion/protocol.py.
type chatRequest struct {
	sampling
	conversation
	logprobs            chatLogprobsFields
	MaxTokens           *int
	MaxCompletionTokens *int
}

// conversation is what a chat template is rendered with; /tokenize takes it
// too.
type conversation struct {
	Messages             []message
	AddGenerationPrompt  bool
	ContinueFinalMessage bool
	AddSpecialTokens     *bool // nil: no, the template has written them already
	TemplateKwargs       *jinja.Dict
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
	ID                string       `json:"id"`
	Object            string       `json:"object"`
	Created           int64        `json:"created"`
	Model             string       `json:"model"`
	Choices           []chatChoice `json:"choices"`
	ServiceTier       *string      `json:"service_tier"`
	SystemFingerprint *string      `json:"system_fingerprint"`
	Usage             usage        `json:"usage"`
	PromptLogprobs    *struct{}    `json:"prompt_logprobs"`
	PromptTokenIDs    []int32      `json:"prompt_token_ids"`
	PromptText        *string      `json:"prompt_text"`
	KVTransferParams  *struct{}    `json:"kv_transfer_params"`
	ECTransferParams  *struct{}    `json:"ec_transfer_params"`
	Metrics           *struct{}    `json:"metrics"`
}

func (c *conversation) fields() []field {
	c.AddGenerationPrompt = true
	return []field{
		c.messagesField(),
		boolField("add_generation_prompt", &c.AddGenerationPrompt),
		boolField("continue_final_message", &c.ContinueFinalMessage),
		optBoolField("add_special_tokens", &c.AddSpecialTokens),
		c.kwargsField(),
		unservedField("chat_template", "the model's own template is used"),
		unservedField("tools", "tools are not served; describe them in a message"),
		unservedField("documents", "put documents into a message"),
		unservedField("media_io_kwargs", "only text is served"),
		unservedField("mm_processor_kwargs", "only text is served"),
	}
}

func (c *chatRequest) fields() []field {
	fields := append(c.sampling.fields(), c.conversation.fields()...)
	fields = append(fields, c.logprobs.fields()...)
	return append(fields,
		intField("max_tokens", &c.MaxTokens),
		intField("max_completion_tokens", &c.MaxCompletionTokens),
		unservedField("tool_choice", "tools are not served", `"none"`, `"auto"`),
		unservedField("parallel_tool_calls", "tools are not served", "true", "false"),
		unservedField("reasoning_effort", "reasoning is not served; leave it out"),
		unservedField("include_reasoning", "reasoning is not served; leave it out", "true"),
		unservedField("echo", "put the last message before the text yourself", "false"),
		unservedField("return_prompt_text", "POST /tokenize shows what a chat becomes", "false"),
	)
}

func (c *conversation) kwargsField() field {
	return field{"chat_template_kwargs", objectSchema, func(raw jsontext.Value) *APIError {
		c.TemplateKwargs = nil
		switch raw.Kind() {
		case 'n':
			return nil
		case '{':
			v, err := jinja.FromJSON(raw)
			if err != nil {
				return invalid("chat_template_kwargs", "chat_template_kwargs: %v", err)
			}
			c.TemplateKwargs = v.(*jinja.Dict) // the value of a JSON object
			return nil
		}
		return wrongType("chat_template_kwargs", "an object", raw)
	}}
}

func (c *conversation) validate() []*APIError {
	var errs []*APIError
	if len(c.Messages) == 0 {
		errs = append(errs, invalid("messages", "`messages` must be provided and non-empty."))
	}
	if c.AddGenerationPrompt && c.ContinueFinalMessage {
		errs = append(errs, invalid("continue_final_message", "Cannot set both `continue_final_message` and `add_generation_prompt` to True."))
	}
	return errs
}

func (s *Server) validateChat(c *chatRequest) *APIError {
	errs := append(c.sampling.validate(s.cfg.VocabSize), c.conversation.validate()...)
	for _, e := range []*APIError{c.logprobs.resolve(&c.sampling), s.checkLogprobs("top_logprobs", c.Logprobs)} {
		if e != nil {
			errs = append(errs, e)
		}
	}
	return joinErrors(errs)
}

// renderChat gives the token IDs of a conversation under the model's template.
func (s *Server) renderChat(ctx context.Context, c *conversation) ([]int32, error) {
	if s.cfg.Templates == nil {
		return nil, invalid("messages", "The model has no chat template, and none is guessed. Start the server with --chat-template FILE, or use /v1/completions.")
	}
	template := s.cfg.Templates.For(false)
	in := chat.Input{
		AddGenerationPrompt:  c.AddGenerationPrompt,
		ContinueFinalMessage: c.ContinueFinalMessage,
		Kwargs:               c.TemplateKwargs,
		Context:              ctx,
		Now:                  s.now,
	}
	in.BOSToken, in.EOSToken = s.specialText(s.cfg.Tokenizer.BOS()), s.specialText(s.cfg.Tokenizer.EOS())
	for _, m := range c.Messages {
		in.Messages = append(in.Messages, m.value(template.ContentFormat()))
	}
	text, err := template.Render(in)
	if err != nil {
		return nil, err
	}
	return s.promptIDs(prompt{text: text, isText: true}, deref(c.AddSpecialTokens, false))
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
	ids, err := s.renderChat(ctx, &c.conversation)
	if err != nil {
		return job{}, err
	}
	name, asked := "max_completion_tokens", c.MaxCompletionTokens
	if asked == nil {
		name, asked = "max_tokens", c.MaxTokens
	}
	if asked == nil && s.cfg.Defaults.MaxTokens != nil {
		asked = s.clampDefault(nil, s.cfg.Defaults.MaxTokens, len(ids))
	}
	n, apiErr := s.maxTokens(name, asked, len(ids), c.MinTokens)
	if apiErr != nil {
		return job{}, apiErr
	}
	j, err := s.newJob(&c.sampling, ids, n)
	j.chat = true
	return j, err
}

// role is whose turn the reply is: the server's, or, where the last message is
// continued, that message's.
func (s *Server) role(c *conversation) string {
	if c.AddGenerationPrompt {
		return s.cfg.ResponseRole
	}
	return c.Messages[len(c.Messages)-1].role
}

// createChatCompletion serves POST /v1/chat/completions.
func (s *Server) createChatCompletion(w http.ResponseWriter, r *http.Request) {
	arrival := s.now()
	var c chatRequest
	unknown, err := decodeBody(r, c.fields())
	id := "chatcmpl-" + requestID(r, c.RequestID)
	if err != nil {
		s.fail(w, r, err, id)
		return
	}
	s.logUnknown(unknown)
	if e := firstError(s.validateChat(&c), s.checkModel(c.Model)); e != nil {
		s.fail(w, r, e, id)
		return
	}
	j, err := s.chatJob(r.Context(), &c)
	if err != nil {
		s.fail(w, r, err, id)
		return
	}
	seqs, err := s.submit(r.Context(), arrival, id, []job{j})
	if err != nil {
		s.fail(w, r, err, id)
		return
	}
	defer closeAll(seqs)
	model, created, role := s.cfg.ServedModelNames[0], arrival.Unix(), s.role(&c.conversation)
	if c.Stream {
		final, continuous := c.usage()
		s.respond(w, r, id, seqs, newChunker(true, role, id, model, created, continuous), final)
		return
	}
	resp := chatResponse{ID: id, Object: "chat.completion", Created: created, Model: model}
	for _, q := range seqs {
		done, err := q.collect(r.Context())
		if err != nil {
			s.fail(w, r, err, id)
			return
		}
		resp.Choices = append(resp.Choices, chatChoice{
			Index: q.index, Message: chatMessage{Role: role, Content: done.text}, Logprobs: done.logprobs,
			FinishReason: done.finish.String(), StopReason: newStopReason(done.reason),
		})
	}
	resp.Usage = totals(seqs)
	writeJSON(w, http.StatusOK, resp)
}
