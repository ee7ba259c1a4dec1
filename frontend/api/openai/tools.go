package openai

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"govllm/frontend/chat/jinja"
)

// toolChoice is what a chat says of its tools. Calls are not parsed out of the
// output: the template shows the tools, and the text comes as it is.
type toolChoice string

const (
	toolsNone toolChoice = "none"
	toolsAuto toolChoice = "auto"
)

// toolsField takes a list of functions as the template sees them: the members
// that vLLM's models have, in their order, null where one is not given.
// Source: ChatCompletionToolsParam, FunctionDefinition.
func toolsField(name string, dest *jinja.Value) field {
	return field{name, objectsSchema, func(raw jsontext.Value) *APIError {
		*dest = nil
		switch {
		case raw.Kind() == 'n':
			return nil
		case raw.Kind() != '[':
			return wrongType(name, "a list of tools", raw)
		}
		var tools []jinja.Value
		for i, v := range elements(raw) {
			tool, err := parseTool(fmt.Sprintf("%s.%d", name, i), v)
			if err != nil {
				return err
			}
			tools = append(tools, tool)
		}
		if len(tools) == 0 {
			return invalid(name, "`%s` must not be an empty array. Either provide at least one tool or omit the field entirely.", name)
		}
		*dest = jinja.NewList(tools...)
		return nil
	}}
}

func parseTool(at string, raw jsontext.Value) (jinja.Value, *APIError) {
	if raw.Kind() != '{' {
		return nil, wrongType(at, "an object with a function", raw)
	}
	kind := "function"
	var function *jinja.Dict
	var deferred *bool
	_, err := decodeObject(raw, []field{
		stringField(at+".type", &kind).named("type"),
		optBoolField(at+".defer_loading", &deferred).named("defer_loading"),
		{"function", "", func(v jsontext.Value) (e *APIError) { function, e = parseFunction(at+".function", v); return e }},
	})
	switch {
	case err != nil:
		return nil, toAPIError(err, "")
	case kind != "function":
		return nil, invalid(at+".type", "`%s.type` must be 'function', got %q.", at, abbreviate(kind))
	case function == nil:
		return nil, invalid(at+".function", "`%s.function` must be provided.", at)
	}
	tool := jinja.NewDict()
	tool.Set("type", jinja.Str(kind))
	tool.Set("function", function)
	if deferred != nil {
		tool.Set("defer_loading", jinja.Bool(*deferred))
		if _, ok := function.Get("defer_loading"); !ok {
			function.Set("defer_loading", jinja.Bool(*deferred))
		}
	}
	return tool, nil
}

func parseFunction(at string, raw jsontext.Value) (*jinja.Dict, *APIError) {
	if raw.Kind() != '{' {
		return nil, wrongType(at, "an object with a name", raw)
	}
	var name string
	var description *string
	var parameters jinja.Value = jinja.None
	var strict, deferred *bool
	_, err := decodeObject(raw, []field{
		stringField(at+".name", &name).named("name"),
		optStringField(at+".description", &description).named("description"),
		{"parameters", "", func(v jsontext.Value) (e *APIError) { parameters, e = parseObject(at+".parameters", v); return e }},
		optBoolField(at+".strict", &strict).named("strict"),
		optBoolField(at+".defer_loading", &deferred).named("defer_loading"),
	})
	if err != nil {
		return nil, toAPIError(err, "")
	}
	if name == "" {
		return nil, invalid(at+".name", "`%s.name` must be provided and non-empty.", at)
	}
	f := jinja.NewDict()
	f.Set("name", jinja.Str(name))
	f.Set("description", jinja.None)
	if description != nil {
		f.Set("description", jinja.Str(*description))
	}
	f.Set("parameters", parameters)
	if strict != nil {
		f.Set("strict", jinja.Bool(*strict))
	}
	if deferred != nil {
		f.Set("defer_loading", jinja.Bool(*deferred))
	}
	return f, nil
}

// parseObject reads an object in the client's own key order, or null.
func parseObject(at string, raw jsontext.Value) (jinja.Value, *APIError) {
	if raw.Kind() == 'n' {
		return jinja.None, nil
	}
	if raw.Kind() != '{' {
		return nil, wrongType(at, "an object", raw)
	}
	v, err := jinja.FromJSON(raw)
	if err != nil {
		return nil, invalid(at, "`%s`: %s", at, strings.TrimPrefix(err.Error(), "jinja: "))
	}
	return v, nil
}

// toolChoiceField takes "none" and "auto": whoever forces a call wants it
// parsed.
func toolChoiceField(dest *toolChoice) field {
	const name = "tool_choice"
	return field{name, `{"enum":["none","auto",null]}`, func(raw jsontext.Value) *APIError {
		switch raw.Kind() {
		case 'n':
			return nil
		case '"':
			switch choice := unquote(raw); choice {
			case "none", "auto":
				*dest = toolChoice(choice)
				return nil
			case "required":
			default:
				return invalid(name, "Invalid value for `tool_choice`: %s! Only \"none\" and \"auto\" are supported.", abbreviate(choice))
			}
		case '{':
		default:
			return wrongType(name, `"none" or "auto"`, raw)
		}
		return notServed(name, "tool calls are not parsed, so none can be forced; only \"none\" and \"auto\" are accepted")
	}}
}
