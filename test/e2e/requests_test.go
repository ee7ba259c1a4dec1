package e2e

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// TestRequests is about fields and routes beyond the plain ones, with the
// switches on that some of them need.
func TestRequests(t *testing.T) {
	s := start(t, options{frontend: []string{"--enable-prompt-tokens-details", "--trust-request-chat-template",
		"--default-chat-template-kwargs", `{"tone":"grim","mood":"bad"}`}})
	for name, test := range map[string]func(*testing.T, *system){
		"echo":                  testEcho,
		"scores":                testScores,
		"streams":               testEveryStreamEqualsNot,
		"token IDs":             testTokenIDs,
		"named alternatives":    testNamedAlternatives,
		"truncation":            testTruncation,
		"chat template":         testChatTemplate,
		"continued messages":    testContinued,
		"tokens in and out":     testTokensInOut,
		"cached tokens":         testCachedTokens,
		"chunks of many tokens": testStreamInterval,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
	s.idle(t)
}

// TestEarlyEnds ends requests while they run. Their tokens are random, one every
// 20 ms, so that 900 last long however fast the machine is.
func TestEarlyEnds(t *testing.T) {
	s := start(t, options{core: []string{"--device", "mock", "--mock-step-time", "0.02"}})
	t.Run("cancel", func(t *testing.T) { testCancel(t, s) })
	t.Run("timeout", func(t *testing.T) { testTimeout(t, s) })
}

// ok posts a request that must succeed.
func (s *system) ok(t *testing.T, path, body string) map[string]any {
	t.Helper()
	status, a := s.post(t, path, body)
	if status != http.StatusOK {
		t.Fatalf("POST %s %s = %d %v", path, body, status, a)
	}
	return a
}

func quoted(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func testEcho(t *testing.T, s *system) {
	plain := s.ok(t, "/v1/completions", `{"prompt":"`+story+`","max_tokens":6,"temperature":0,"logprobs":2}`)
	a := s.ok(t, "/v1/completions", `{"prompt":"`+story+`","max_tokens":6,"temperature":0,"logprobs":2,"echo":true}`)
	text, _ := at(a, "choices", 0, "text").(string)
	if want := story + at(plain, "choices", 0, "text").(string); text != want {
		t.Errorf("echoed text %q, want %q", text, want)
	}
	tokens, _ := at(a, "choices", 0, "logprobs", "tokens").([]any)
	for i, token := range tokens {
		offset, _ := at(a, "choices", 0, "logprobs", "text_offset", i).(float64)
		if !strings.HasPrefix(string([]rune(text)[int(offset):]), token.(string)) {
			t.Errorf("token %d, %q, is not at its offset %v of %q", i, token, offset, text)
		}
	}
	if len(tokens) != int(at(a, "usage", "total_tokens").(float64)) || at(a, "choices", 0, "logprobs", "token_logprobs", 0) != nil ||
		at(a, "choices", 0, "logprobs", "top_logprobs", 0) != nil {
		t.Errorf("log probabilities %v: want one entry per token, null for the first", at(a, "choices", 0, "logprobs"))
	}
	// The idiom for judging a text: nothing is generated, as far as one sees.
	scored := s.ok(t, "/v1/completions", `{"prompt":"`+story+`","max_tokens":0,"echo":true,"logprobs":2}`)
	if at(scored, "choices", 0, "text") != story {
		t.Errorf("max_tokens 0 gives the text %v, want the prompt", at(scored, "choices", 0, "text"))
	}
	alone, _ := at(scored, "choices", 0, "logprobs", "token_logprobs").([]any)
	both, _ := at(a, "choices", 0, "logprobs", "token_logprobs").([]any)
	if len(alone) == 0 || !reflect.DeepEqual(alone, both[:len(alone)]) {
		t.Errorf("the prompt scores %v alone and %v with output", alone, both)
	}
}

// What a prompt's tokens are given as log probabilities is what they had when
// they were generated.
func testScores(t *testing.T, s *system) {
	a := s.ok(t, "/v1/completions", `{"prompt":"`+story+`","max_tokens":8,"temperature":0,"ignore_eos":true,"logprobs":0,"return_token_ids":true}`)
	var ids []any
	ids = append(ids, at(a, "choices", 0, "prompt_token_ids").([]any)...)
	ids = append(ids, at(a, "choices", 0, "token_ids").([]any)...)
	b := s.ok(t, "/v1/completions", `{"prompt":`+quoted(ids)+`,"max_tokens":1,"prompt_logprobs":2}`)
	scores, _ := at(b, "choices", 0, "prompt_logprobs").([]any)
	if len(scores) != len(ids) || scores[0] != nil {
		t.Fatalf("%d entries for %d tokens, the first %v", len(scores), len(ids), scores[0])
	}
	first := len(ids) - 8
	for i := range 8 {
		key := fmt.Sprint(ids[first+i])
		entry := at(scores[first+i], key)
		was, _ := at(a, "choices", 0, "logprobs", "token_logprobs", i).(float64)
		is, _ := at(entry, "logprob").(float64)
		if math.Abs(was-is) > 0.01 || at(entry, "rank") != 1.0 || at(entry, "decoded_token") != at(a, "choices", 0, "logprobs", "tokens", i) {
			t.Errorf("token %s: generated as %q at %v, scored %v", key, at(a, "choices", 0, "logprobs", "tokens", i), was, entry)
		}
		if n := len(scores[first+i].(map[string]any)); n != 2 {
			t.Errorf("token %s has %d alternatives, want 2: it is one of the likeliest", key, n)
		}
	}
	chat := s.ok(t, "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"max_tokens":1,"prompt_logprobs":0,"return_token_ids":true}`)
	if n := len(at(chat, "prompt_logprobs").([]any)); n != len(at(chat, "prompt_token_ids").([]any)) {
		t.Errorf("a chat has %d prompt log probabilities", n)
	}
}

// assembled is a completions stream put together: each choice's texts, token
// IDs and log probabilities, and how it ended.
func assembled(t *testing.T, events []string) map[float64]map[string]any {
	t.Helper()
	choices := map[float64]map[string]any{}
	for _, event := range events {
		var chunk map[string]any
		if json.Unmarshal([]byte(event), &chunk) != nil || at(chunk, "choices", 0) == nil {
			continue
		}
		index := at(chunk, "choices", 0, "index").(float64)
		c := choices[index]
		if c == nil {
			c = map[string]any{"text": "", "token_ids": []any{}}
			choices[index] = c
		}
		delta, _ := at(chunk, "choices", 0).(map[string]any)
		c["text"] = c["text"].(string) + delta["text"].(string)
		for _, list := range []string{"text_offset", "token_logprobs", "tokens", "top_logprobs"} {
			more, _ := at(delta, "logprobs", list).([]any)
			old, _ := c[list].([]any)
			c[list] = append(old, more...)
		}
		more, _ := delta["token_ids"].([]any)
		c["token_ids"] = append(c["token_ids"].([]any), more...)
		if prompt, ok := delta["prompt_token_ids"].([]any); ok {
			c["prompt_token_ids"] = prompt
		}
		c["finish_reason"], c["stop_reason"] = delta["finish_reason"], delta["stop_reason"]
	}
	return choices
}

func testEveryStreamEqualsNot(t *testing.T, s *system) {
	for _, body := range []string{
		`"prompt":"` + story + `","max_tokens":12,"temperature":0,"echo":true,"logprobs":2`,
		`"prompt":"` + story + `","max_tokens":0,"echo":true,"logprobs":1`,
		`"prompt":"` + story + `","max_tokens":40,"seed":3,"n":3,"logprobs":1,"stop":["the ", "and"],"return_token_ids":true`,
		`"prompt":["` + story + `",""],"max_tokens":3`, // refused both ways
		`"prompt":[[694,342],[262]],"max_tokens":9,"temperature":0,"stop":["a"],"include_stop_str_in_output":true,"logprobs":0,"echo":true,"stream_interval":4`,
		`"prompt":"` + story + `","max_tokens":20,"seed":3,"logprobs":2,"return_tokens_as_token_ids":true,"stream_interval":100`,
	} {
		status, a := s.post(t, "/v1/completions", "{"+body+"}")
		if status != http.StatusOK {
			if status, _ := s.post(t, "/v1/completions", "{"+body+`,"stream":true}`); status != http.StatusBadRequest {
				t.Errorf("%s is refused unstreamed, and %d streamed", body, status)
			}
			continue
		}
		streamed := assembled(t, s.stream(t, "/v1/completions", "{"+body+`,"stream":true}`))
		for i, choice := range at(a, "choices").([]any) {
			got := streamed[float64(i)]
			want := map[string]any{"text": at(choice, "text"), "token_ids": at(choice, "token_ids"),
				"finish_reason": at(choice, "finish_reason"), "stop_reason": at(choice, "stop_reason")}
			for _, list := range []string{"text_offset", "token_logprobs", "tokens", "top_logprobs"} {
				want[list] = at(choice, "logprobs", list)
			}
			for key, w := range want {
				if g := got[key]; !reflect.DeepEqual(g, w) && !(w == nil && reflect.ValueOf(g).Len() == 0) {
					t.Errorf("%s: choice %d: streamed %s is %v, unstreamed %v", body, i, key, g, w)
				}
			}
		}
	}
}

func testTokenIDs(t *testing.T, s *system) {
	tokens := at(s.ok(t, "/tokenize", `{"prompt":"`+story+`"}`), "tokens")
	a := s.ok(t, "/v1/completions", `{"prompt":"`+story+`","max_tokens":5,"temperature":0,"return_token_ids":true}`)
	if got := at(a, "choices", 0, "prompt_token_ids"); !reflect.DeepEqual(got, tokens) {
		t.Errorf("prompt_token_ids = %v, want %v", got, tokens)
	}
	decoded := s.ok(t, "/detokenize", `{"tokens":`+quoted(at(a, "choices", 0, "token_ids"))+`}`)
	if at(decoded, "prompt") != at(a, "choices", 0, "text") {
		t.Errorf("token_ids decode to %v, want %v", at(decoded, "prompt"), at(a, "choices", 0, "text"))
	}
	chat := s.ok(t, "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"max_tokens":4,"temperature":0,"return_token_ids":true,"return_prompt_text":true}`)
	prompt := at(s.ok(t, "/tokenize", `{"messages":[{"role":"user","content":"a"}]}`), "tokens")
	text := at(s.ok(t, "/detokenize", `{"tokens":`+quoted(prompt)+`}`), "prompt")
	if !reflect.DeepEqual(at(chat, "prompt_token_ids"), prompt) || at(chat, "prompt_text") != text || len(at(chat, "choices", 0, "token_ids").([]any)) != 4 {
		t.Errorf("chat %v, want prompt_token_ids %v, prompt_text %v", chat, prompt, text)
	}
}

func testNamedAlternatives(t *testing.T, s *system) {
	a := s.ok(t, "/v1/completions", `{"prompt":"`+story+`","max_tokens":3,"temperature":0,"logprobs":1,"logprob_token_ids":[5,6,700],"return_tokens_as_token_ids":true}`)
	for i := range 3 {
		top, _ := at(a, "choices", 0, "logprobs", "top_logprobs", i).(map[string]any)
		for _, name := range []string{"token_id:5", "token_id:6", "token_id:700", at(a, "choices", 0, "logprobs", "tokens", i).(string)} {
			if _, ok := top[name].(float64); !ok {
				t.Errorf("alternatives %v lack %s", top, name)
			}
		}
	}
	c := s.ok(t, "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"max_tokens":1,"logprobs":true,"logprob_token_ids":[5,6]}`)
	if top, _ := at(c, "choices", 0, "logprobs", "content", 0, "top_logprobs").([]any); len(top) != 3 {
		t.Errorf("a chat tells %v, want the token and the two named", top)
	}
}

func testTruncation(t *testing.T, s *system) {
	tokens, _ := at(s.ok(t, "/tokenize", `{"prompt":"`+story+`"}`), "tokens").([]any)
	for _, tc := range []struct {
		extra string
		want  []any
	}{
		{`"truncate_prompt_tokens":3`, tokens[len(tokens)-3:]},
		{`"truncate_prompt_tokens":3,"truncation_side":"left"`, tokens[len(tokens)-3:]},
		{`"truncate_prompt_tokens":3,"truncation_side":"right"`, tokens[:3]},
		{`"truncate_prompt_tokens":100`, tokens},
		{`"truncate_prompt_tokens":-1`, tokens},
	} {
		for _, prompt := range []string{`"` + story + `"`, quoted(tokens)} {
			a := s.ok(t, "/v1/completions", `{"prompt":`+prompt+`,"max_tokens":1,"return_token_ids":true,`+tc.extra+`}`)
			if got := at(a, "choices", 0, "prompt_token_ids"); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("%s of %s gives %v, want %v", tc.extra, prompt, got, tc.want)
			}
		}
	}
	// What fits leaves room for one token, whatever was asked for.
	limit := int(at(s.ok(t, "/tokenize", `{"prompt":"x"}`), "max_model_len").(float64))
	long := "[1" + strings.Repeat(",1", 2*limit) + "]"
	a := s.ok(t, "/v1/completions", `{"prompt":`+long+`,"max_tokens":9,"truncate_prompt_tokens":-1}`)
	if at(a, "usage", "prompt_tokens") != float64(limit-1) || at(a, "usage", "completion_tokens") != 1.0 {
		t.Errorf("usage %v, want %d and 1", at(a, "usage"), limit-1)
	}
}

func testChatTemplate(t *testing.T, s *system) {
	render := func(template, rest string) any {
		t.Helper()
		return at(s.ok(t, "/v1/chat/completions", `{"chat_template":`+quoted(template)+`,"max_tokens":1,"return_prompt_text":true,`+rest+`}`), "prompt_text")
	}
	user := `"messages":[{"role":"user","content":"a"}]`
	for _, tc := range []struct{ template, rest, want string }{
		{"{{ messages[0].content }}{{ tone }}{{ mood }}", user + `,"chat_template_kwargs":{"mood":"good"}`, "agrimgood"},
		{"{{ tone }}", user + `,"chat_template_kwargs":{"tone":null}`, "grim"},
		{"{{ tools | tojson }}", user + `,"tools":[{"function":{"parameters":{"z":1,"a":2},"name":"f","junk":0},"type":"function"}]`,
			`[{"type": "function", "function": {"name": "f", "description": null, "parameters": {"z": 1, "a": 2}}}]`},
		{"{{ tools | tojson }}", user + `,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none"`,
			`[{"type": "function", "function": {"name": "f", "description": null, "parameters": null}}]`},
		{"{{ documents[0].text }}", user + `,"documents":[{"title":"t","text":"words"}]`, "words"},
		{"{{ reasoning_effort }} {{ enable_thinking }}", user + `,"reasoning_effort":"low"`, "low True"},
		{"{{ enable_thinking }}", user + `,"reasoning_effort":"low","chat_template_kwargs":{"enable_thinking":false}`, "False"},
		{"{% for m in messages %}{{ m | tojson }}{% endfor %}",
			`"messages":[{"role":"assistant","content":null,"reasoning_content":"r","tool_calls":[{"type":"function","id":"1","function":{"name":"f","arguments":"{\"b\":1}"}}]},` +
				`{"role":"tool","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}],"tool_call_id":"1"}]`,
			`{"role": "assistant", "content": "", "tool_calls": [{"id": "1", "function": {"arguments": {"b": 1}, "name": "f"}, "type": "function"}], "reasoning": "r", "reasoning_content": "r"}` +
				`{"role": "tool", "content": "x\ny", "tool_call_id": "1"}`},
		{"{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}",
			`"messages":[{"role":"user","content":"u"},{"role":"developer","content":"d"},{"role":"system","content":"s"}]`, "system:d\n\ns;user:u;"},
		{"{# 'developer' #}{% for m in messages %}{{ m.role }};{% endfor %}", `"messages":[{"role":"developer","content":"d"}]`, "developer;"},
	} {
		if got := render(tc.template, tc.rest); got != tc.want {
			t.Errorf("%s with %s gives %q, want %q", tc.template, tc.rest, got, tc.want)
		}
	}
	// A template that never ends is cut off, one that does not parse refused.
	for _, template := range []string{
		"{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
		"{% if %}", "{{ messages[0].no.such }}", "{{ raise_exception('no') }}", strings.Repeat("{% if 1 %}", 100000), "{{ " + strings.Repeat("(", 100000), strings.Repeat("x", 2<<20),
	} {
		if status, a := s.post(t, "/v1/chat/completions", `{"chat_template":`+quoted(template)+`,`+user+`}`); status != http.StatusBadRequest || at(a, "error", "param") != "chat_template" {
			t.Errorf("template %.40q gives %d %v, want 400 and chat_template", template, status, a)
		}
	}
}

func testContinued(t *testing.T, s *system) {
	body := `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"The king"}],"add_generation_prompt":false,"continue_final_message":true,"max_tokens":5,"temperature":0,"n":1`
	plain := at(s.ok(t, "/v1/chat/completions", body+"}"), "choices", 0, "message", "content")
	a := s.ok(t, "/v1/chat/completions", body+`,"echo":true}`)
	want := "The king" + plain.(string)
	if got := at(a, "choices", 0, "message", "content"); got != want || at(a, "prompt_logprobs") == nil {
		t.Errorf("echo gives %q and prompt log probabilities %v, want %q and some", got, at(a, "prompt_logprobs"), want)
	}
	if got, _ := streamText(t, s.stream(t, "/v1/chat/completions", body+`,"echo":true,"stream":true}`), "choices", 0, "delta", "content"); got != want {
		t.Errorf("streamed echo gives %q, want %q", got, want)
	}
	// A reply of another's turn echoes nothing.
	other := s.ok(t, "/v1/chat/completions", `{"messages":[{"role":"user","content":"zebra"}],"echo":true,"max_tokens":2}`)
	if text, _ := at(other, "choices", 0, "message", "content").(string); strings.Contains(text, "zebra") {
		t.Errorf("the user's words are echoed: %q", text)
	}
}

func testTokensInOut(t *testing.T, s *system) {
	chat := `{"messages":[{"role":"user","content":"a"}],"max_tokens":9,"temperature":0,"logprobs":true,"top_logprobs":2,"stop":["the"],"seed":1,"logit_bias":{"7":-5}}`
	a := s.ok(t, "/v1/chat/completions", chat)
	rendered := s.ok(t, "/v1/chat/completions/render", chat)
	rendered["output_mode"] = "text"
	b := s.ok(t, "/inference/v1/generate", quoted(rendered))
	if got, want := at(b, "choices", 0, "text"), at(a, "choices", 0, "message", "content"); got != want || want == "" {
		t.Errorf("a rendered chat generates %q, the chat %q", got, want)
	}
	if got, want := at(b, "choices", 0, "logprobs", "content"), at(a, "choices", 0, "logprobs", "content"); !reflect.DeepEqual(got, want) {
		t.Errorf("a rendered chat has log probabilities %v, the chat %v", got, want)
	}
	rendered["output_mode"], rendered["stream"], rendered["return_token_ids"] = "tokens", true, true
	var ids []any
	events := s.stream(t, "/inference/v1/generate", quoted(rendered))
	for _, event := range events {
		var chunk map[string]any
		if json.Unmarshal([]byte(event), &chunk) == nil {
			more, _ := at(chunk, "choices", 0, "token_ids").([]any)
			ids = append(ids, more...)
		}
	}
	if !reflect.DeepEqual(ids, at(b, "choices", 0, "token_ids")) || !strings.Contains(events[0], `"prompt_token_ids":`+quoted(rendered["token_ids"])) {
		t.Errorf("streamed token IDs %v after %s, want %v", ids, events[0], at(b, "choices", 0, "token_ids"))
	}
	// Without a length it is the rest of the context, not vLLM's class's 16.
	long := s.ok(t, "/inference/v1/generate", `{"token_ids":`+quoted(rendered["token_ids"])+`,"sampling_params":{"ignore_eos":true,"temperature":0}}`)
	if n, _ := at(long, "usage", "total_tokens").(float64); n != at(s.ok(t, "/tokenize", `{"prompt":""}`), "max_model_len") {
		t.Errorf("without max_tokens the context ends at %v", n)
	}
	for _, body := range []string{`{}`, `{"token_ids":[],"sampling_params":{}}`, `{"token_ids":[99999999],"sampling_params":{}}`, `{"token_ids":[1]}`,
		`{"token_ids":[1],"sampling_params":{"detokenize":false,"stop":["a"]}}`, `{"token_ids":[1],"sampling_params":{},"output_mode":"both"}`,
		`{"token_ids":[1],"sampling_params":{"prompt_logprobs":1,"skip_reading_prefix_cache":false}}`, `{"token_ids":[1],"sampling_params":{"extra_args":{"a":1}}}`} {
		if status, a := s.post(t, "/inference/v1/generate", body); status != http.StatusBadRequest {
			t.Errorf("%s gives %d %v, want 400", body, status, a)
		}
	}
	resp, err := http.Post(s.url+"/v1/completions/render", "application/json", strings.NewReader(`{"prompt":["a b","c"],"max_tokens":3}`))
	if err != nil {
		t.Fatal(err)
	}
	var list []map[string]any
	if raw := readAll(t, resp); json.Unmarshal([]byte(raw), &list) != nil || len(list) != 2 || at(list[1], "sampling_params", "max_tokens") != 3.0 {
		t.Errorf("two prompts render to %s", raw)
	}
}

// cancel asks for the end of the requests of an ID until one is found: the
// request may not have come yet.
func (s *system) cancel(t *testing.T, id string) {
	t.Helper()
	s.eventually(t, "request "+id+" is cancelled", func() bool { return s.tryCancel(t, id) == http.StatusOK })
}

func (s *system) tryCancel(t *testing.T, id string) int {
	t.Helper()
	req, err := http.NewRequest(http.MethodDelete, s.url+"/v1/requests/"+id, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, resp)
	return resp.StatusCode
}

func testCancel(t *testing.T, s *system) {
	long := `{"prompt":"` + story + `","max_tokens":900,"ignore_eos":true`
	// By the ID that it was given, as a whole.
	answer := make(chan map[string]any, 1)
	go func() {
		_, a := s.post(t, "/v1/completions", long+`,"n":2,"request_id":"mine"}`)
		answer <- a
	}()
	s.cancel(t, "mine")
	a := <-answer
	for i := range 2 {
		if at(a, "choices", i, "finish_reason") != "abort" {
			t.Errorf("a cancelled request answers %v, want finish_reason abort", a)
		}
	}
	// By the ID that its stream shows.
	resp := s.open(t, context.Background(), "/v1/completions", long+`,"stream":true}`)
	defer resp.Body.Close()
	head := make([]byte, 200)
	n, err := io.ReadAtLeast(resp.Body, head, 60)
	if err != nil {
		t.Fatal(err)
	}
	_, id, _ := strings.Cut(string(head[:n]), `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	s.eventually(t, "the stream is in the registry", func() bool {
		resp, err := http.Post(s.url+"/inference/v1/abort_requests", "application/json", strings.NewReader(`{"request_ids":["nobody","`+id+`"]}`))
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
		return resp.StatusCode == http.StatusOK
	})
	rest, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(rest), `"finish_reason":"abort"`) || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Errorf("a cancelled stream ends with %q, %v", rest[max(0, len(rest)-300):], err)
	}
	for _, unknown := range []string{id, "mine", "nobody"} {
		if status := s.tryCancel(t, unknown); status != http.StatusNotFound {
			t.Errorf("cancelling %s, which does not run, gives %d, want 404", unknown, status)
		}
	}
	s.idle(t)
}

func testTimeout(t *testing.T, s *system) {
	before := value(s.metrics(t), "vllm:request_success_total", "finished_reason", "abort")
	long := `{"prompt":"` + story + `","max_tokens":900,"ignore_eos":true,"timeout_ms":30`
	status, a := s.post(t, "/v1/completions", long+"}")
	if status != http.StatusRequestTimeout || at(a, "error", "param") != "timeout_ms" || at(a, "error", "type") != "TimeoutError" {
		t.Errorf("a request past its timeout gives %d %v, want 408", status, a)
	}
	resp := s.open(t, context.Background(), "/v1/completions", strings.Replace(long, ":30", ":3000", 1)+`,"stream":true}`)
	raw := readAll(t, resp)
	if resp.StatusCode != http.StatusOK || !strings.Contains(raw, `"type":"TimeoutError"`) || !strings.HasSuffix(raw, "data: [DONE]\n\n") {
		t.Errorf("a stream past its timeout gives %d and ends with %q", resp.StatusCode, raw[max(0, len(raw)-300):])
	}
	s.ok(t, "/v1/completions", `{"prompt":"a","max_tokens":1,"timeout_ms":60000}`)
	s.idle(t)
	s.eventually(t, "both count as aborted", func() bool {
		return value(s.metrics(t), "vllm:request_success_total", "finished_reason", "abort") == before+2
	})
}

func testCachedTokens(t *testing.T, s *system) {
	body := `{"prompt":"` + strings.Repeat("A tale of two wolves. ", 30) + `","max_tokens":2,"cache_salt":"` + fmt.Sprint(time.Now().UnixNano()) + `"`
	cached := func(a map[string]any) float64 {
		n, _ := at(a, "usage", "prompt_tokens_details", "cached_tokens").(float64)
		return n
	}
	first := s.ok(t, "/v1/completions", body+"}")
	second := s.ok(t, "/v1/completions", body+"}")
	if cached(first) != 0 || cached(second) < 32 || cached(second) >= at(second, "usage", "prompt_tokens").(float64) {
		t.Errorf("cached tokens %v, then %v of %v", cached(first), cached(second), at(second, "usage", "prompt_tokens"))
	}
	chat := s.ok(t, "/v1/chat/completions", `{"messages":[{"role":"user","content":"`+strings.Repeat("Of a fox. ", 40)+`"}],"max_tokens":1,"cache_salt":"`+fmt.Sprint(time.Now().UnixNano())+`"}`)
	if n, _ := at(chat, "usage", "prompt_tokens_details", "created_cache_tokens").(float64); n < 32 {
		t.Errorf("a chat's usage is %v, want the tokens that are in the cache since", at(chat, "usage"))
	}
	events := s.stream(t, "/v1/completions", body+`,"stream":true,"stream_options":{"include_usage":true}}`)
	var last map[string]any
	if err := json.Unmarshal([]byte(events[len(events)-2]), &last); err != nil || cached(last) != cached(second) {
		t.Errorf("the stream's usage is %v, want %v cached tokens", last, cached(second))
	}
}

func testStreamInterval(t *testing.T, s *system) {
	events := s.stream(t, "/v1/completions", `{"prompt":"`+story+`","max_tokens":41,"ignore_eos":true,"stream":true,"stream_interval":10,"return_token_ids":true}`)
	if n := len(events) - 1; n > 5 { // 1 token, 4 times 10, and perhaps fewer
		t.Errorf("41 tokens by tens come in %d chunks", n)
	}
}
