package openai

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"govllm/frontend/chat/jinja"
)

// message is one turn of a conversation.
type message struct {
	role      string
	texts     []string // content: its text parts in order; none for null
	name      string
	toolCalls jinja.Value // of an assistant's turn; None if absent or empty
	toolID    string      // tool_call_id, of a tool's turn
	reasoning string
}

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
	var reasoningContent string
	fields := []field{
		stringField(at+".role", &m.role),
		{at + ".content", "", func(v jsontext.Value) (e *APIError) { m.texts, e = parseContent(at+".content", v); return e }},
		stringField(at+".name", &m.name),
		stringField(at+".tool_call_id", &m.toolID),
		stringField(at+".reasoning", &m.reasoning),
		stringField(at+".reasoning_content", &reasoningContent), // its older name
		{at + ".tool_calls", "", func(v jsontext.Value) (e *APIError) { m.toolCalls, e = parseToolCalls(at+".tool_calls", v); return e }},
	}
	for i := range fields { // messages name the whole path, members only their own
		fields[i].name = strings.TrimPrefix(fields[i].name, at+".")
	}
	if _, err := decodeObject(raw, fields); err != nil {
		return m, toAPIError(err, "")
	}
	if m.role == "" {
		return m, invalid(at+".role", "`%s.role` must be provided and non-empty.", at)
	}
	if m.reasoning == "" {
		m.reasoning = reasoningContent
	}
	return m, nil
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
	var text *string
	_, err := decodeObject(raw, []field{
		stringField("type", &kind),
		{"text", "", func(v jsontext.Value) *APIError {
			if v.Kind() != '"' {
				return wrongType(at+".text", "a text", v)
			}
			s := unquote(v)
			text = &s
			return nil
		}},
	})
	if err != nil {
		return "", toAPIError(err, "")
	}
	if kind == "" && text != nil {
		kind = "text"
	}
	switch kind {
	case "text", "input_text", "output_text", "refusal":
		if text == nil {
			return "", invalid(at+".text", "`%s.text` must be provided.", at)
		}
		return *text, nil
	}
	return "", invalid(at+".type", "Content of type %q is not supported by this server: only text is served.", abbreviate(kind))
}

// parseToolCalls keeps an assistant's calls as the template wants them:
// arguments as an object, not as JSON text. Arguments that are no JSON become
// an empty object, so that a conversation with such a turn can go on.
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
	call, err := jinja.FromJSON(raw)
	if err != nil {
		return jinja.None, invalid(at, "`%s`: %v", at, err)
	}
	dict, ok := call.(*jinja.Dict)
	if !ok {
		return jinja.None, wrongType(at, "an object", raw)
	}
	fn, _ := dict.Get("function")
	function, ok := fn.(*jinja.Dict)
	kind, hasKind := dict.Get("type")
	if !ok || (hasKind && kind != jinja.Str("function")) {
		return jinja.None, invalid(at, "`%s`: only tool calls of type 'function' are supported.", at)
	}
	arguments, _ := function.Get("arguments")
	if _, isObject := arguments.(*jinja.Dict); !isObject {
		var parsed jinja.Value = jinja.NewDict()
		if text, ok := arguments.(jinja.Str); ok {
			if v, err := jinja.FromJSON([]byte(text)); err == nil {
				parsed = v
			}
		}
		function.Set("arguments", parsed)
	}
	return call, nil
}

// value is the message as a template sees it.
func (m message) value(contentFormat string) jinja.Value {
	d := jinja.NewDict()
	d.Set("role", jinja.Str(m.role))
	if contentFormat == "openai" && m.role != "tool" {
		parts := make([]jinja.Value, len(m.texts))
		for i, text := range m.texts {
			part := jinja.NewDict()
			part.Set("type", jinja.Str("text"))
			part.Set("text", jinja.Str(text))
			parts[i] = part
		}
		d.Set("content", jinja.NewList(parts...))
	} else {
		d.Set("content", jinja.Str(strings.Join(m.texts, "\n")))
	}
	if m.role == "assistant" {
		if m.toolCalls != jinja.None {
			d.Set("tool_calls", m.toolCalls)
		}
		if m.reasoning != "" {
			d.Set("reasoning", jinja.Str(m.reasoning))
			d.Set("reasoning_content", jinja.Str(m.reasoning))
		}
	}
	if m.role == "tool" && m.toolID != "" {
		d.Set("tool_call_id", jinja.Str(m.toolID))
	}
	if m.name != "" {
		d.Set("name", jinja.Str(m.name))
	}
	return d
}
