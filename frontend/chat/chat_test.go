package chat

import (
	"errors"
	"strings"
	"testing"
	"time"

	"govllm/frontend/chat/jinja"
)

// plain writes each message as it is, then the head of the next turn.
const plain = `{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}`

func value(t *testing.T, text string) jinja.Value {
	t.Helper()
	v, err := jinja.FromJSON([]byte(text))
	if err != nil {
		t.Fatalf("FromJSON(%s) = %v", text, err)
	}
	return v
}

func messages(t *testing.T, text string) []jinja.Value {
	t.Helper()
	list := value(t, text).(*jinja.List)
	out := make([]jinja.Value, list.Len())
	for i := range out {
		out[i] = list.At(i)
	}
	return out
}

func template(t *testing.T, source string) *Template {
	t.Helper()
	tmpl, err := ParseTemplate(source)
	if err != nil {
		t.Fatalf("ParseTemplate(%q) = %v", source, err)
	}
	return tmpl
}

const twoTurns = `[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello, I "}]`

func TestRender(t *testing.T) {
	now := func() time.Time { return time.Date(2025, 6, 7, 8, 9, 10, 0, time.UTC) }
	for _, c := range []struct {
		name, source string
		in           Input
		want         string
	}{
		{"generation prompt", plain, Input{Messages: messages(t, twoTurns), AddGenerationPrompt: true}, "<user>Hi</s><assistant>Hello, I </s><assistant>"},
		{"no generation prompt", plain, Input{Messages: messages(t, twoTurns)}, "<user>Hi</s><assistant>Hello, I </s>"},
		{"tokens", "{{ bos_token }}|{{ eos_token }}|{{ pad_token is defined }}|{{ unk_token }}", Input{BOSToken: "<s>", EOSToken: "</s>", UnkToken: "<unk>"}, "<s>|</s>|False|<unk>"},
		{"absent lists", "{{ tools }} {{ documents }} {{ add_generation_prompt }}", Input{}, "None None False"},
		{"tools in the client's key order", "{{ tools | tojson }}", Input{Tools: value(t, `[{"z": 1, "a": 1e3}]`)}, `[{"z": 1, "a": 1000.0}]`},
		{"documents", "{{ documents[0].title }}", Input{Documents: value(t, `[{"title": "T"}]`)}, "T"},
		{"clock", "{{ strftime_now('%d %b %Y') }}", Input{Now: now}, "07 Jun 2025"},
		{"kwargs reach the template", "{{ enable_thinking }}{{ unused is defined }}", Input{Kwargs: value(t, `{"enable_thinking": false, "other": 1}`).(*jinja.Dict)}, "FalseFalse"},
		{"kwargs replace a token", "{{ bos_token }}", Input{BOSToken: "a", Kwargs: value(t, `{"bos_token": "b"}`).(*jinja.Dict)}, "b"},
		{"kwargs do not replace request fields", "{{ add_generation_prompt }}", Input{AddGenerationPrompt: true, Kwargs: value(t, `{"add_generation_prompt": false}`).(*jinja.Dict)}, "True"},
		{"kwargs may bring documents", "{{ documents }}", Input{Kwargs: value(t, `{"documents": [{"a": 1}]}`).(*jinja.Dict)}, "[{'a': 1}]"},
		{"the request's documents win", "{{ documents }}", Input{Documents: value(t, `[{"b": 1}]`), Kwargs: value(t, `{"documents": [{"a": 1}]}`).(*jinja.Dict)}, "[{'b': 1}]"},
		{"kwargs do not replace functions", "{{ range(2) | list }}", Input{Kwargs: value(t, `{"range": 1}`).(*jinja.Dict)}, "[0, 1]"},
		{"library parameters stay outside", "{{ max_length is defined }}", Input{Kwargs: value(t, `{"max_length": 1}`).(*jinja.Dict)}, "False"},
	} {
		got, err := template(t, c.source).Render(c.in)
		if err != nil || got != c.want {
			t.Errorf("%s: Render = %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	kwargs := func(text string) Input { return Input{Kwargs: value(t, text).(*jinja.Dict)} }
	for _, c := range []struct {
		name string
		in   Input
		want string // part of the message
	}{
		{"messages as kwargs", kwargs(`{"messages": []}`), `"messages"`},
		{"tools as kwargs", kwargs(`{"tools": []}`), `"tools"`},
		{"conversation as kwargs", kwargs(`{"conversation": []}`), `"conversation"`},
		{"template as kwargs", kwargs(`{"chat_template": "x"}`), `"chat_template"`},
		{"tokenize as kwargs", kwargs(`{"tokenize": true}`), `"tokenize"`},
		{"tools no list", Input{Tools: value(t, `{}`)}, "tools must be a list"},
		{"tool no object", Input{Tools: value(t, `[{}, 1]`)}, "tools[1]"},
		{"document no object", Input{Documents: value(t, `["x"]`)}, "documents[0]"},
		{"message no object", Input{Messages: messages(t, `["x"]`)}, "messages[0]"},
		{"both prompts", Input{Messages: messages(t, twoTurns), AddGenerationPrompt: true, ContinueFinalMessage: true}, "not compatible"},
	} {
		got, err := template(t, plain).Render(c.in)
		var e *InputError
		if !errors.As(err, &e) || !strings.Contains(e.Msg, c.want) {
			t.Errorf("%s: Render = %q, %v, want an InputError with %q", c.name, got, err, c.want)
		}
	}
	_, err := template(t, "{{ raise_exception('no system turn') }}").Render(Input{})
	var e *jinja.Error
	if !errors.As(err, &e) || e.Kind != jinja.KindRaised || e.Msg != "no system turn" {
		t.Errorf("raise_exception: Render = %v, want its message as a raised error", err)
	}
}

func TestContinueFinalMessage(t *testing.T) {
	trimmed := `{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</s>{% endfor %}`
	parts := `{% for m in messages %}<{{ m.role }}>{% for p in m.content %}{{ p.text }};{% endfor %}{% endfor %}`
	for _, c := range []struct{ name, source, messages, want string }{
		{"kept blank", plain, twoTurns, "<user>Hi</s><assistant>Hello, I "},
		{"trimmed", trimmed, twoTurns, "<user>Hi</s><assistant>Hello, I"},
		{"empty", plain, `[{"role": "assistant", "content": ""}]`, "<assistant>"},
		{"parts", parts, `[{"role": "assistant", "content": [{"text": "a"}, {"text": "b"}, {"image": 1}]}]`, "<assistant>a;b"},
		{"same text before", plain, `[{"role": "user", "content": "x"}, {"role": "assistant", "content": "x"}]`, "<user>x</s><assistant>x"},
	} {
		in := Input{Messages: messages(t, c.messages), ContinueFinalMessage: true}
		got, err := template(t, c.source).Render(in)
		if err != nil || got != c.want {
			t.Errorf("%s: Render = %q, %v, want %q", c.name, got, err, c.want)
		}
		if last, _ := in.Messages[len(in.Messages)-1].(*jinja.Dict).Get("content"); strings.Contains(textOf(last), "CONTINUE") {
			t.Errorf("%s: the caller's message was changed to %q", c.name, last)
		}
	}
	for _, c := range []struct{ name, source, messages string }{
		{"empty conversation", plain, `[]`},
		{"no content", plain, `[{"role": "assistant"}]`},
		{"null content", plain, `[{"role": "assistant", "content": null}]`},
		{"content of a wrong type", plain, `[{"role": "assistant", "content": 5}]`},
		{"parts without text", plain, `[{"role": "assistant", "content": [{"image": 1}]}]`},
		{"part that is no object", plain, `[{"role": "assistant", "content": ["a"]}]`},
		{"text that is no string", plain, `[{"role": "assistant", "content": [{"text": 1}]}]`},
		{"template drops the message", `{% for m in messages[:-1] %}{{ m.content }}{% endfor %}`, twoTurns},
		{"template knows no content", `{{ messages[0].role }}`, twoTurns},
		{"template rewrites the message", `{{ messages[-1].content | replace("Hello", "Bye") }}`, twoTurns},
	} {
		got, err := template(t, c.source).Render(Input{Messages: messages(t, c.messages), ContinueFinalMessage: true})
		var e *InputError
		if !errors.As(err, &e) {
			t.Errorf("%s: Render = %q, %v, want an InputError", c.name, got, err)
		}
	}
}

func textOf(v jinja.Value) string {
	s, _ := v.(jinja.Str)
	return string(s)
}

func TestContentFormat(t *testing.T) {
	for source, want := range map[string]string{
		plain: FormatString,
		"{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}": FormatOpenAI,
		"{% for a, b in messages %}{% for p in a.content %}{% endfor %}{% endfor %}":          FormatString,
	} {
		if got := template(t, source).ContentFormat(); got != want {
			t.Errorf("ContentFormat of %q = %q, want %q", source, got, want)
		}
	}
}

func TestFindTemplate(t *testing.T) {
	named := `{"chat_template": [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}, {"name": "rag", "template": "R"}]}`
	for _, c := range []struct {
		name, config, file string
		noTools, withTools string
	}{
		{"text", `{"model_max_length": 1e30, "chat_template": "C"}`, "", "C", "C"},
		{"list", named, "", "D", "T"},
		{"list without tool_use", `{"chat_template": [{"name": "default", "template": "D"}]}`, "", "D", "D"},
		{"file", "", "F", "F", "F"},
		{"file before config", named, "F", "F", "F"},
	} {
		set, err := FindTemplate(bytesOrNil(c.config), bytesOrNil(c.file))
		if err != nil {
			t.Errorf("%s: FindTemplate = %v", c.name, err)
			continue
		}
		for hasTools, want := range map[bool]string{false: c.noTools, true: c.withTools} {
			if got, err := set.For(hasTools).Render(Input{}); got != want || err != nil {
				t.Errorf("%s: For(%v) renders %q, %v, want %q", c.name, hasTools, got, err, want)
			}
		}
	}
	set, err := FindTemplate([]byte(named), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(set.Names(), " "), "default rag tool_use"; got != want {
		t.Errorf("Names() = %q, want %q", got, want)
	}
	if set.Named("rag") == nil || set.Named("nope") != nil {
		t.Errorf("Named: rag %v, nope %v, want a template and nil", set.Named("rag"), set.Named("nope"))
	}
}

func bytesOrNil(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

func TestFindTemplateRefuses(t *testing.T) {
	for _, config := range []string{"", `{}`, `{"chat_template": null}`, `{"chat_template": []}`, `{"chat_template": [{"name": "tool_use", "template": "T"}]}`} {
		if _, err := FindTemplate(bytesOrNil(config), nil); !errors.Is(err, ErrNoTemplate) {
			t.Errorf("FindTemplate(%s) = %v, want ErrNoTemplate", config, err)
		}
	}
	for _, config := range []string{`[]`, `{`, `{"chat_template": 5}`, `{"chat_template": ["x"]}`, `{"chat_template": [{"name": "default"}]}`, `{"chat_template": [{"name": 1, "template": "x"}]}`} {
		if _, err := FindTemplate([]byte(config), nil); err == nil || errors.Is(err, ErrNoTemplate) {
			t.Errorf("FindTemplate(%s) = %v, want an error about the file", config, err)
		}
	}
	for _, c := range [][2]string{{`{"chat_template": "a\n{% include 'x' %}"}`, ""}, {"", "a\n{% include 'x' %}"}} {
		_, err := FindTemplate(bytesOrNil(c[0]), bytesOrNil(c[1]))
		var e *jinja.Error
		if !errors.As(err, &e) || e.Line != 2 || e.Kind != jinja.KindUnsupported {
			t.Errorf("FindTemplate(%q) = %v, want the unsupported tag at line 2", c, err)
		}
	}
}
