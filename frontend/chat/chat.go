// Package chat turns a conversation into a prompt with the model's chat
// template.
//
// A template is the model's own: it comes from tokenizer_config.json or
// chat_template.jinja, and a model without one has no chat (vLLM never
// guesses). It is rendered as transformers' apply_chat_template does, by the
// engine in package jinja, and a conversation the template can't take is an
// error, never a different prompt.
package chat

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"govllm/frontend/chat/jinja"
)

// InputError says why a conversation can't be rendered, in words for the user.
// The template's own complaints are *jinja.Error.
type InputError struct{ Msg string }

func (e *InputError) Error() string { return e.Msg }

func inputErrf(format string, args ...any) error {
	return &InputError{fmt.Sprintf(format, args...)}
}

// Template is one chat template: immutable, safe for concurrent use.
type Template struct {
	source   string
	compiled *jinja.Template
	vars     []string // what it takes from its variables, sorted
	format   string
}

// The content formats of a template.
const (
	FormatString = "string" // message.content is text
	FormatOpenAI = "openai" // message.content is a list of parts, {"type": "text", "text": …}
)

// ParseTemplate compiles a template. The error is a *jinja.Error with the line.
func ParseTemplate(source string) (*Template, error) {
	compiled, err := jinja.Parse(source)
	if err != nil {
		return nil, err
	}
	t := &Template{source: source, compiled: compiled, vars: compiled.Variables(), format: FormatString}
	if found, ok := compiled.LoopsOver("messages", "content"); found && ok {
		t.format = FormatOpenAI
	}
	return t, nil
}

// ContentFormat says in which form the template wants message.content:
// FormatOpenAI if it loops over the parts of a message's content, as vLLM
// detects it, else FormatString.
func (t *Template) ContentFormat() string { return t.format }

// NamesRole reports whether the template knows a role: whether it names it in
// quotes, as vLLM decides it.
func (t *Template) NamesRole(role string) bool {
	return strings.Contains(t.source, `"`+role+`"`) || strings.Contains(t.source, "'"+role+"'")
}

// Input is one conversation to render.
type Input struct {
	Messages  []jinja.Value // dicts in the client's own key order: role, content, name, tool_calls, …
	Tools     jinja.Value   // list of dicts; nil or None when absent
	Documents jinja.Value   // list of dicts; nil or None when absent

	AddGenerationPrompt  bool
	ContinueFinalMessage bool // the prompt ends inside the final message; excludes AddGenerationPrompt

	// Kwargs is the request's chat_template_kwargs; nil when absent.
	Kwargs *jinja.Dict

	// Special tokens; "" is a token the tokenizer has not, undefined in the template.
	BOSToken, EOSToken, PadToken, UnkToken string

	Context context.Context  // ends a long render early; nil never does
	Now     func() time.Time // for strftime_now; nil is time.Now
	Limits  jinja.Limits     // zero fields take jinja.DefaultLimits'
}

// Render writes the prompt. The error is an *InputError or a *jinja.Error.
//
// Source: transformers' render_jinja_template, and vLLM's
// resolve_chat_template_kwargs for what Kwargs may do.
func (t *Template) Render(in Input) (string, error) {
	if in.ContinueFinalMessage && in.AddGenerationPrompt {
		return "", inputErrf("continue_final_message and add_generation_prompt are not compatible. Use continue_final_message when you want the model to continue the final message, and add_generation_prompt when you want to add a header that will prompt it to start a new assistant message instead.")
	}
	vars, err := t.variables(in)
	if err != nil {
		return "", err
	}
	messages := in.Messages
	var final string
	if in.ContinueFinalMessage {
		if messages, final, err = t.tagFinal(messages); err != nil {
			return "", err
		}
	}
	vars.Set("messages", jinja.NewList(messages...))
	out, err := t.compiled.Render(vars, jinja.Options{Context: in.Context, Now: in.Now, Limits: in.Limits})
	if err != nil || !in.ContinueFinalMessage {
		return out, err
	}
	return cutAtTag(out, final)
}

// refusedKwargs would replace what the request gives elsewhere.
var refusedKwargs = []string{"chat_template", "tokenize", "messages", "conversation", "tools"}

// libraryKwargs are parameters of apply_chat_template itself: a template never
// sees them, or sees the request's own field of that name.
var libraryKwargs = []string{
	"add_generation_prompt", "continue_final_message", "documents", "padding", "truncation", "max_length",
	"return_tensors", "return_dict", "return_assistant_tokens_mask", "tokenizer_kwargs",
}

// variables collects all the template sees but the messages.
func (t *Template) variables(in Input) (*jinja.Dict, error) {
	vars := jinja.NewDict()
	for _, tok := range []struct{ name, text string }{
		{"bos_token", in.BOSToken}, {"eos_token", in.EOSToken}, {"unk_token", in.UnkToken}, {"pad_token", in.PadToken},
	} {
		if tok.text != "" {
			vars.Set(tok.name, jinja.Str(tok.text))
		}
	}
	documents := orNone(in.Documents)
	for key, v := range in.Kwargs.All() {
		name, ok := key.(jinja.Str)
		switch {
		case !ok:
			return nil, inputErrf("chat_template_kwargs must have strings as keys")
		case slices.Contains(refusedKwargs, string(name)):
			return nil, inputErrf("chat_template_kwargs can't set %q: use the request's own field", string(name))
		case name == "documents" && documents == jinja.None:
			documents = orNone(v)
		case slices.Contains(libraryKwargs, string(name)):
		case slices.Contains(t.vars, string(name)): // may replace a special token, not a function of Jinja
			vars.Set(string(name), v)
		}
	}
	tools := orNone(in.Tools)
	if err := dictsOnly("tools", "Tools should be JSON schemas", tools); err != nil {
		return nil, err
	}
	if err := dictsOnly("documents", "Documents should be a list of dicts with 'title' and 'text' keys!", documents); err != nil {
		return nil, err
	}
	for i, m := range in.Messages {
		if _, ok := m.(*jinja.Dict); !ok {
			return nil, inputErrf("messages[%d] should be an object", i)
		}
	}
	vars.Set("tools", tools)
	vars.Set("documents", documents)
	vars.Set("add_generation_prompt", jinja.Bool(in.AddGenerationPrompt))
	return vars, nil
}

func orNone(v jinja.Value) jinja.Value {
	if v == nil {
		return jinja.None
	}
	return v
}

func dictsOnly(name, why string, v jinja.Value) error {
	if v == jinja.None {
		return nil
	}
	list, ok := v.(*jinja.List)
	if !ok {
		return inputErrf("%s must be a list. %s", name, why)
	}
	for i := range list.Len() {
		if _, ok := list.At(i).(*jinja.Dict); !ok {
			return inputErrf("%s[%d] is no object. %s", name, i, why)
		}
	}
	return nil
}

// continueTag marks where the final message ends. Its blank tells whether the
// template trims what follows the message.
const continueTag = "CONTINUE_FINAL_MESSAGE_TAG "

// tagFinal returns the messages with the tag at the end of the final one's
// text, and that text.
func (t *Template) tagFinal(messages []jinja.Value) ([]jinja.Value, string, error) {
	if len(messages) == 0 {
		return nil, "", inputErrf("continue_final_message is set but the conversation is empty!")
	}
	last := messages[len(messages)-1].(*jinja.Dict) // variables has checked it
	content, _ := last.Get("content")
	if orNone(content) == jinja.None {
		return nil, "", inputErrf(`continue_final_message is set but the final message has no "content" to continue!`)
	}
	if !strings.Contains(t.source, "content") {
		return nil, "", inputErrf(`continue_final_message is set to "content" but this is not an accepted field in the chat_template`)
	}
	tagged, final, err := tagContent(content)
	if err != nil {
		return nil, "", err
	}
	last = last.Clone()
	last.Set("content", tagged)
	messages = slices.Clone(messages)
	messages[len(messages)-1] = last
	return messages, final, nil
}

func tagContent(content jinja.Value) (tagged jinja.Value, final string, err error) {
	switch content := content.(type) {
	case jinja.Str:
		return content + continueTag, string(content), nil
	case *jinja.List:
		parts := make([]jinja.Value, content.Len())
		for i := range parts {
			parts[i] = content.At(i)
		}
		for i, part := range slices.Backward(parts) {
			block, ok := part.(*jinja.Dict)
			if !ok {
				return nil, "", inputErrf("continue_final_message is set but content[%d] of the final message is no object", i)
			}
			v, ok := block.Get("text")
			if !ok {
				continue
			}
			text, ok := v.(jinja.Str)
			if !ok {
				return nil, "", inputErrf("continue_final_message is set but the text of content[%d] of the final message is no string", i)
			}
			block = block.Clone()
			block.Set("text", text+continueTag)
			parts[i] = block
			return jinja.NewList(parts...), string(text), nil
		}
		return nil, "", inputErrf("continue_final_message is set but we could not find any text to continue in the final message!")
	}
	return nil, "", inputErrf("continue_final_message is set but the final message's content is neither text nor a list of parts")
}

// cutAtTag ends the prompt where the final message's text ends.
func cutAtTag(out, final string) (string, error) {
	i := strings.LastIndex(out, strings.TrimRight(continueTag, " "))
	if i < 0 || !strings.Contains(out, strings.TrimFunc(final, isSpace)) {
		return "", inputErrf("continue_final_message is set but the final message does not appear in the chat after applying the chat template! This can happen if the chat template deletes portions of the final message. Please verify the chat template and final message in your chat to ensure they are compatible.")
	}
	if strings.HasPrefix(out[i:], continueTag) {
		return out[:i], nil
	}
	// The template trims the message, so the model continues from its trimmed text.
	return strings.TrimRightFunc(out[:i], isSpace), nil
}

// isSpace is Python's str.isspace for one code point.
func isSpace(c rune) bool { return unicode.IsSpace(c) || c >= 0x1c && c <= 0x1f }
