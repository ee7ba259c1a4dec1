package chat

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"govllm/frontend/chat/jinja"
)

// ErrNoTemplate reports a model without a chat template: it has no chat, unless
// one is given (--chat-template).
var ErrNoTemplate = errors.New("chat: the model has no chat template; give one with --chat-template")

// Set is the chat templates of a model, by name.
type Set struct{ byName map[string]*Template }

// The names transformers gives a meaning to.
const (
	defaultName = "default"
	toolsName   = "tool_use"
)

// FindTemplate reads a model's templates. jinjaFile is the text of
// chat_template.jinja, nil if there is none; if there is one it counts alone, as
// in transformers. Else it is the chat_template of tokenizerConfig
// (tokenizer_config.json, nil if there is none): text, or a list of
// {"name": …, "template": …}.
//
// The error wraps ErrNoTemplate if there is no template, or none named default
// among several, and a *jinja.Error if one does not compile.
func FindTemplate(tokenizerConfig, jinjaFile []byte) (*Set, error) {
	s := &Set{byName: map[string]*Template{}}
	if jinjaFile != nil {
		if err := s.add(defaultName, string(jinjaFile)); err != nil {
			return nil, err
		}
		return s, nil
	}
	if tokenizerConfig == nil {
		return nil, ErrNoTemplate
	}
	v, err := jinja.FromJSON(tokenizerConfig)
	if err != nil {
		return nil, fmt.Errorf("chat: tokenizer_config.json: %w", err)
	}
	config, ok := v.(*jinja.Dict)
	if !ok {
		return nil, errors.New("chat: tokenizer_config.json is no JSON object")
	}
	entry, _ := config.Get("chat_template")
	switch entry := orNone(entry).(type) {
	case jinja.Str:
		err = s.add(defaultName, string(entry))
	case *jinja.List:
		err = s.addAll(entry)
	default:
		if entry != jinja.None {
			return nil, errors.New("chat: chat_template in tokenizer_config.json is neither text nor a list")
		}
		return nil, ErrNoTemplate
	}
	if err != nil {
		return nil, err
	}
	if s.byName[defaultName] == nil {
		return nil, fmt.Errorf("%w (tokenizer_config.json has %s, but none named %q)",
			ErrNoTemplate, strings.Join(s.Names(), ", "), defaultName)
	}
	return s, nil
}

func (s *Set) addAll(list *jinja.List) error {
	for i := range list.Len() {
		entry, _ := list.At(i).(*jinja.Dict)
		name, _ := entry.Get("name")
		source, _ := entry.Get("template")
		nameText, ok1 := name.(jinja.Str)
		sourceText, ok2 := source.(jinja.Str)
		if !ok1 || !ok2 {
			return fmt.Errorf(`chat: chat_template[%d] in tokenizer_config.json is not {"name": text, "template": text}`, i)
		}
		if err := s.add(string(nameText), string(sourceText)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Set) add(name, source string) error {
	t, err := ParseTemplate(source)
	if err != nil {
		return fmt.Errorf("chat: chat template %q: %w", name, err)
	}
	s.byName[name] = t
	return nil
}

// For returns the template for a conversation with or without tools: with
// tools the one named tool_use if there is one, else the default. Never nil.
func (s *Set) For(hasTools bool) *Template {
	if t := s.byName[toolsName]; hasTools && t != nil {
		return t
	}
	return s.byName[defaultName]
}

// Named returns the template of that name, nil if there is none.
func (s *Set) Named(name string) *Template { return s.byName[name] }

// Names lists the templates, sorted.
func (s *Set) Names() []string {
	names := make([]string, 0, len(s.byName))
	for name := range s.byName {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
