package jinja

import (
	"strings"
	"testing"
)

// benchTemplate is a template of our own in the manner of Llama 3's: headers,
// trimmed content, tools in the system turn, tool calls and results.
const benchTemplate = `{{- bos_token }}
{%- set today = strftime_now("%d %b %Y") %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set system_message = "You are a helpful assistant." %}
    {%- set rest = messages %}
{%- endif %}
{{- "<|head|>system<|end_head|>\n\nToday is " + today + "\n" }}
{%- if tools %}
    {{- "Functions:\n" }}
    {%- for tool in tools %}
        {{- tool | tojson(indent=2) }}
        {{- "\n\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message + "<|eot|>" }}
{%- for message in rest %}
    {%- if message.tool_calls is defined and message.tool_calls %}
        {{- '<|head|>assistant<|end_head|>\n\n' }}
        {%- for call in message.tool_calls %}
            {{- '{"name": "' ~ call.function.name ~ '", "arguments": ' ~ call.function.arguments | tojson ~ '}' }}
            {%- if not loop.last %}{{ "; " }}{% endif %}
        {%- endfor %}
        {{- '<|eot|>' }}
    {%- elif message.role in ['tool', 'ipython'] %}
        {{- '<|head|>ipython<|end_head|>\n\n' }}
        {{- message.content if message.content is string else message.content | tojson }}
        {{- '<|eot|>' }}
    {%- elif message.role in ['user', 'assistant'] %}
        {{- '<|head|>' + message['role'] + '<|end_head|>\n\n' + message['content'] | trim + '<|eot|>' }}
    {%- else %}
        {{- raise_exception('Unknown role: ' + message.role) }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|head|>assistant<|end_head|>\n\n' }}
{%- endif %}`

// benchConversation has a system turn and ten messages.
func benchConversation(tb testing.TB) *Dict {
	tb.Helper()
	v, err := FromJSON([]byte(`{"bos_token": "<|begin|>", "add_generation_prompt": true, "tools": null, "messages": [
		{"role": "system", "content": "Answer briefly. "},
		{"role": "user", "content": "What is the weather in Zürich today?"},
		{"role": "assistant", "content": null, "tool_calls": [{"type": "function", "function":
			{"name": "weather", "arguments": {"city": "Zürich", "days": 1, "units": "C"}}}]},
		{"role": "tool", "content": {"temperature": 21.5, "sky": "clear"}},
		{"role": "assistant", "content": "It is 21.5 °C and clear."},
		{"role": "user", "content": "  And tomorrow?  "},
		{"role": "assistant", "content": "I only asked for today."},
		{"role": "user", "content": "` + strings.Repeat("Please write a longer text about it. ", 20) + `"},
		{"role": "assistant", "content": "` + strings.Repeat("The weather was fine in all the land. ", 40) + `"},
		{"role": "user", "content": "Thank you"},
		{"role": "assistant", "content": "You are welcome"}]}`))
	if err != nil {
		tb.Fatal(err)
	}
	return v.(*Dict)
}

func BenchmarkRender(b *testing.B) {
	t, err := Parse(benchTemplate)
	if err != nil {
		b.Fatal(err)
	}
	data := benchConversation(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := t.Render(data, Options{Now: corpusNow}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(benchTemplate); err != nil {
			b.Fatal(err)
		}
	}
}
