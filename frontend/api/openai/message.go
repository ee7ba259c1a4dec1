package openai

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"govllm/frontend/chat"
	"govllm/frontend/chat/jinja"
)

// message is one turn of a conversation.
type message struct {
	role      string
	texts     []string // content: its text parts in order; none for null
	name      string
	toolCalls jinja.Value // of an assistant's turn; None if absent or empty
	toolID    *string     // tool_call_id, of a tool's turn
	reasoning *string     // of an assistant's turn
	tools     jinja.Value // of a developer's turn; nil if absent
	task      string
}

// text is the content as one text.
func (m message) text() string { return strings.Join(m.texts, "\n") }

const messagesSchema = `{"type":"array","minItems":1,"items":{"type":"object","required":["role"],"properties":{"role":{"type":"string"},"content":{"type":["string","array","null"]}}}}`

func (c *conversation) messagesField() field {
	return field{"messages", messagesSchema, func(raw jsontext.Value) *APIError {
		c.Messages = nil
		if raw.Kind() != '[' {
			return wrongType("messages", "a list of messages", raw)
		}
		for i, v := range elements(raw) {
			m, err := parseMessage(fmt.Sprintf("messages.%d", i), v)
			if err != nil {
				return err
			}
			c.Messages = append(c.Messages, m)
		}
		return nil
	}}
}

func parseMessage(at string, raw jsontext.Value) (message, *APIError) {
	m := message{toolCalls: jinja.None}
	if raw.Kind() != '{' {
		return m, wrongType(at, "an object with role and content", raw)
	}
	var reasoningContent *string
	fields := []field{
		stringField(at+".role", &m.role),
		{at + ".content", "", func(v jsontext.Value) (e *APIError) { m.texts, e = parseContent(at+".content", v); return e }},
		stringField(at+".name", &m.name),
		optStringField(at+".tool_call_id", &m.toolID),
		optStringField(at+".reasoning", &m.reasoning),
		optStringField(at+".reasoning_content", &reasoningContent), // its older name
		stringField(at+".task", &m.task),
		{at + ".tool_calls", "", func(v jsontext.Value) (e *APIError) { m.toolCalls, e = parseToolCalls(at+".tool_calls", v); return e }},
		toolsField(at+".tools", &m.tools),
	}
	for i := range fields { // messages name the whole path, members only their own
		fields[i].name = strings.TrimPrefix(fields[i].name, at+".")
	}
	if _, err := decodeObject(raw, fields); err != nil {
		return m, toAPIError(err, "")
	}
	if m.role == "" {
		return m, malformed(at+".role", "`%s.role` must be provided and non-empty.", at)
	}
	if m.reasoning == nil {
		m.reasoning = reasoningContent
	}
	if m.role == "system" {
		m.texts = dropBillingHeader(m.texts)
	}
	return m, nil
}

// billingHeader begins a line that one coding client puts before its system
// text. It differs in every request, so that a prompt with it never finds its
// prefix in the cache. Source: vllm/renderers/chat_utils.py.
const billingHeader = "x-anthropic-billing-header"

func dropBillingHeader(texts []string) []string {
	var kept []string
	for _, text := range texts {
		if strings.HasPrefix(text, billingHeader) {
			if _, text, _ = strings.Cut(text, "\n"); text == "" {
				continue
			}
		}
		kept = append(kept, text)
	}
	return kept
}

// parseContent takes a text, a list of text parts, or null, which assistants'
// tool-call turns have.
func parseContent(at string, raw jsontext.Value) ([]string, *APIError) {
	switch raw.Kind() {
	case 'n':
		return nil, nil
	case '"':
		return []string{unquote(raw)}, nil
	case '[':
		var texts []string
		for i, part := range elements(raw) {
			text, err := parsePart(fmt.Sprintf("%s.%d", at, i), part)
			if err != nil {
				return nil, err
			}
			texts = append(texts, text)
		}
		return texts, nil
	}
	return nil, wrongType(at, "a text or a list of text parts", raw)
}

func parsePart(at string, raw jsontext.Value) (string, *APIError) {
	if raw.Kind() == '"' {
		return unquote(raw), nil
	}
	if raw.Kind() != '{' {
		return "", wrongType(at, "a text part", raw)
	}
	var kind string
	var text, refusal, thinking *string
	_, err := decodeObject(raw, []field{
		stringField(at+".type", &kind).named("type"),
		optStringField(at+".text", &text).named("text"),
		optStringField(at+".refusal", &refusal).named("refusal"),
		optStringField(at+".thinking", &thinking).named("thinking"),
	})
	if err != nil {
		return "", toAPIError(err, "")
	}
	if kind == "" && text != nil {
		kind = "text"
	}
	member := "text"
	switch kind {
	case "text", "input_text", "output_text":
	case "refusal":
		member, text = kind, cmp.Or(refusal, text)
	case "thinking":
		member, text = kind, thinking
	default:
		member = ""
	}
	switch {
	case member != "" && text == nil:
		return "", malformed(at+"."+member, "`%s.%s` must be provided.", at, member)
	case member != "":
		return *text, nil
	}
	return "", invalid(at+".type", "Content of type %q is not supported by this server: only text is served.", abbreviate(kind))
}

// parseToolCalls keeps an assistant's calls as the template wants them: the
// members that the API has, in the order of its types, and arguments as an
// object, not as JSON text. Arguments that are no JSON object become an empty
// one, so that a conversation with such a turn can go on.
// Source: vllm/renderers/chat_utils.py, _postprocess_messages.
func parseToolCalls(at string, raw jsontext.Value) (jinja.Value, *APIError) {
	if raw.Kind() == 'n' {
		return jinja.None, nil
	}
	if raw.Kind() != '[' {
		return jinja.None, wrongType(at, "a list of tool calls", raw)
	}
	var calls []jinja.Value
	for i, v := range elements(raw) {
		call, err := parseToolCall(fmt.Sprintf("%s.%d", at, i), v)
		if err != nil {
			return jinja.None, err
		}
		calls = append(calls, call)
	}
	if len(calls) == 0 {
		return jinja.None, nil
	}
	return jinja.NewList(calls...), nil
}

func parseToolCall(at string, raw jsontext.Value) (jinja.Value, *APIError) {
	v, err := parseObject(at, raw)
	if err != nil {
		return jinja.None, err
	}
	call, _ := v.(*jinja.Dict)
	kind, hasKind := call.Get("type")
	fn, _ := call.Get("function")
	function, ok := fn.(*jinja.Dict)
	if !ok || (hasKind && kind != jinja.Str("function")) {
		return jinja.None, invalid(at, "`%s`: only tool calls of type 'function' are supported.", at)
	}
	named := jinja.NewDict()
	arguments, _ := function.Get("arguments")
	named.Set("arguments", callArguments(arguments))
	copyMember(named, function, "name")
	out := jinja.NewDict()
	copyMember(out, call, "id")
	out.Set("function", named)
	out.Set("type", jinja.Str("function"))
	return out, nil
}

func copyMember(to, from *jinja.Dict, name string) {
	if v, ok := from.Get(name); ok {
		to.Set(name, v)
	}
}

func callArguments(arguments jinja.Value) jinja.Value {
	if text, ok := arguments.(jinja.Str); ok {
		arguments, _ = jinja.FromJSON([]byte(text))
	}
	if d, ok := arguments.(*jinja.Dict); ok {
		return d
	}
	return jinja.NewDict()
}

// messagesFor are the messages as a template takes them: to one that knows no
// developer, developers are the system, and all of the system's words come
// first, in one message.
// Source: vllm/renderers/hf.py, safe_apply_chat_template.
func (c *conversation) messagesFor(t *chat.Template) []message {
	isDeveloper := func(m message) bool { return m.role == "developer" }
	if !slices.ContainsFunc(c.Messages, isDeveloper) || t.NamesRole("developer") {
		return c.Messages
	}
	var system, all []message
	for _, m := range c.Messages {
		if isDeveloper(m) {
			m.role, m.tools = "system", nil
		}
		all = append(all, m)
		if m.role == "system" {
			system = append(system, m)
		}
	}
	if len(system) == 1 && all[0].role == "system" {
		return all
	}
	var words []string
	for _, m := range system {
		if text := m.text(); text != "" {
			words = append(words, text)
		}
	}
	merged := message{role: "system", texts: []string{strings.Join(words, "\n\n")}, toolCalls: jinja.None}
	others := slices.DeleteFunc(all, func(m message) bool { return m.role == "system" })
	return append([]message{merged}, others...)
}

// value is the message as a template sees it.
func (m message) value(contentFormat string) jinja.Value {
	d := jinja.NewDict()
	d.Set("role", jinja.Str(m.role))
	if contentFormat == chat.FormatOpenAI && m.role != "tool" {
		parts := make([]jinja.Value, len(m.texts))
		for i, text := range m.texts {
			part := jinja.NewDict()
			part.Set("type", jinja.Str("text"))
			part.Set("text", jinja.Str(text))
			parts[i] = part
		}
		d.Set("content", jinja.NewList(parts...))
	} else {
		d.Set("content", jinja.Str(m.text()))
	}
	switch {
	case m.role == "assistant":
		if m.toolCalls != jinja.None {
			d.Set("tool_calls", m.toolCalls)
		}
		if m.reasoning != nil {
			d.Set("reasoning", jinja.Str(*m.reasoning))
			d.Set("reasoning_content", jinja.Str(*m.reasoning))
		}
	case m.role == "tool" && m.toolID != nil:
		d.Set("tool_call_id", jinja.Str(*m.toolID))
	}
	if m.name != "" {
		d.Set("name", jinja.Str(m.name))
	}
	if m.task != "" {
		d.Set("task", jinja.Str(m.task))
	}
	if m.role == "developer" {
		d.Set("tools", jinja.None)
		if m.tools != nil {
			d.Set("tools", m.tools)
		}
	}
	return d
}
