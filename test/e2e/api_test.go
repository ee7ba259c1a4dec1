package e2e

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// TestAPI runs what needs no system of its own.
func TestAPI(t *testing.T) {
	s := start(t, options{})
	for name, test := range map[string]func(*testing.T, *system){
		"completion":        testCompletion,
		"stream equals not": testStreamEqualsNot,
		"prompt forms":      testPromptForms,
		"chat":              testChat,
		"usage in streams":  testStreamUsage,
		"stop strings":      testStopStrings,
		"seeded sampling":   testSeed,
		"several choices":   testChoices,
		"shaped sampling":   testShapedSampling,
		"log probabilities": testLogprobs,
		"limits":            testLimits,
		"refusals":          testRefusals,
		"tokenize":          testTokenize,
		"plain routes":      testRoutes,
		"official client":   testOpenAIClient,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
	// Whatever was asked above, the engine is unharmed and holds nothing.
	s.idle(t)
	if status, answer := s.post(t, "/v1/completions", `{"prompt":"Once","max_tokens":2}`); status != http.StatusOK {
		t.Errorf("after all tests a completion gives %d: %v", status, answer)
	}
}

// idle waits until no request runs or waits and no block is in use.
func (s *system) idle(t *testing.T) {
	t.Helper()
	s.eventually(t, "no request runs, none waits, no KV block is in use", func() bool {
		m := s.metrics(t)
		return value(m, "vllm:num_requests_running") == 0 && value(m, "vllm:num_requests_waiting") == 0 &&
			value(m, "vllm:kv_cache_usage_perc") == 0
	})
}

const story = "Once upon a time there was a king"

func testCompletion(t *testing.T, s *system) {
	status, a := s.post(t, "/v1/completions", `{"model":"builtin","prompt":"`+story+`","max_tokens":12,"temperature":0}`)
	if status != http.StatusOK {
		t.Fatalf("status %d: %v", status, a)
	}
	text, _ := at(a, "choices", 0, "text").(string)
	if text == "" || at(a, "object") != "text_completion" || at(a, "model") != "builtin" ||
		at(a, "choices", 0, "finish_reason") != "length" || at(a, "usage", "completion_tokens") != 12.0 {
		t.Errorf("answer %v", a)
	}
	prompt, _ := at(a, "usage", "prompt_tokens").(float64)
	if total := at(a, "usage", "total_tokens"); prompt < 1 || total != prompt+12 {
		t.Errorf("usage %v", a["usage"])
	}
	if id, _ := at(a, "id").(string); !strings.HasPrefix(id, "cmpl-") {
		t.Errorf("id %q, want cmpl-…", id)
	}
	// Members that clients look for are there, though null.
	for _, member := range []string{"logprobs", "stop_reason", "token_ids", "prompt_logprobs"} {
		if choice, _ := at(a, "choices", 0).(map[string]any); choice != nil {
			if v, ok := choice[member]; !ok || v != nil {
				t.Errorf("choice member %s = %v, present %t, want null", member, v, ok)
			}
		}
	}
}

// text joins the deltas of a stream and checks its frame.
func streamText(t *testing.T, events []string, path ...any) (text, finish string) {
	t.Helper()
	if len(events) < 2 || events[len(events)-1] != "[DONE]" {
		t.Fatalf("stream does not end with [DONE]: %q", events)
	}
	for _, event := range events[:len(events)-1] {
		var chunk map[string]any
		if err := json.Unmarshal([]byte(event), &chunk); err != nil {
			t.Fatalf("event %s: %v", event, err)
		}
		if choice, ok := at(chunk, "choices", 0).(map[string]any); ok {
			if _, has := choice["finish_reason"]; !has {
				t.Errorf("event without finish_reason: %s", event)
			}
		}
		delta, _ := at(chunk, path...).(string)
		text += delta
		if f, ok := at(chunk, "choices", 0, "finish_reason").(string); ok {
			finish = f
		}
	}
	return text, finish
}

func testStreamEqualsNot(t *testing.T, s *system) {
	for _, body := range []string{
		`{"prompt":"` + story + `","max_tokens":40,"temperature":0`,
		`{"prompt":"` + story + `","max_tokens":60,"temperature":0.8,"seed":7,"stop":[".", "the king"]`,
		`{"prompt":[1,2,3,4,5],"max_tokens":20,"temperature":0,"ignore_eos":true`,
	} {
		_, a := s.post(t, "/v1/completions", body+"}")
		want, _ := at(a, "choices", 0, "text").(string)
		got, finish := streamText(t, s.stream(t, "/v1/completions", body+`,"stream":true}`), "choices", 0, "text")
		if got != want || finish != at(a, "choices", 0, "finish_reason") {
			t.Errorf("%s: streamed %q (%s), unstreamed %q (%v)", body, got, finish, want, at(a, "choices", 0, "finish_reason"))
		}
	}
}

func testPromptForms(t *testing.T, s *system) {
	_, a := s.post(t, "/tokenize", `{"prompt":"`+story+`"}`)
	ids, err := json.Marshal(at(a, "tokens"))
	if err != nil {
		t.Fatal(err)
	}
	rest := `,"max_tokens":8,"temperature":0}`
	_, text := s.post(t, "/v1/completions", `{"prompt":"`+story+`"`+rest)
	want := at(text, "choices", 0, "text")
	for _, form := range []string{string(ids), `["` + story + `"]`, `[` + string(ids) + `]`} {
		if _, a := s.post(t, "/v1/completions", `{"prompt":`+form+rest); at(a, "choices", 0, "text") != want {
			t.Errorf("prompt %s gives %v, want %q", form, a, want)
		}
	}
	_, two := s.post(t, "/v1/completions", `{"prompt":["`+story+`","The wolf"]`+rest)
	if at(two, "choices", 0, "text") != want || at(two, "choices", 1, "index") != 1.0 || at(two, "usage", "completion_tokens") != 16.0 {
		t.Errorf("two prompts give %v", two)
	}
	// Streams of several prompts carry every index to its end.
	finished := map[any]bool{}
	for _, event := range s.stream(t, "/v1/completions", `{"stream":true,"prompt":["`+story+`","The wolf"]`+rest) {
		var chunk map[string]any
		if json.Unmarshal([]byte(event), &chunk) == nil && at(chunk, "choices", 0, "finish_reason") != nil {
			finished[at(chunk, "choices", 0, "index")] = true
		}
	}
	if !reflect.DeepEqual(finished, map[any]bool{0.0: true, 1.0: true}) {
		t.Errorf("finished choices %v, want 0 and 1", finished)
	}
}

func testChat(t *testing.T, s *system) {
	body := `{"messages":[{"role":"user","content":[{"type":"text","text":"` + story + `."}]}],"max_tokens":24,"temperature":0`
	status, a := s.post(t, "/v1/chat/completions", body+"}")
	if status != http.StatusOK || at(a, "object") != "chat.completion" || at(a, "choices", 0, "message", "role") != "assistant" {
		t.Fatalf("status %d: %v", status, a)
	}
	want, _ := at(a, "choices", 0, "message", "content").(string)
	events := s.stream(t, "/v1/chat/completions", body+`,"stream":true}`)
	if !strings.Contains(events[0], `"delta":{"role":"assistant","content":""}`) {
		t.Errorf("first event %s, want the role", events[0])
	}
	got, finish := streamText(t, events, "choices", 0, "delta", "content")
	if got != want || want == "" || finish != at(a, "choices", 0, "finish_reason") {
		t.Errorf("streamed %q (%s), unstreamed %q", got, finish, want)
	}
	// Plain content is the same as one text part.
	_, plain := s.post(t, "/v1/chat/completions", strings.Replace(body, `[{"type":"text","text":"`+story+`."}]`, `"`+story+`."`, 1)+"}")
	if at(plain, "choices", 0, "message", "content") != want {
		t.Errorf("plain content gives %v, want %q", plain, want)
	}
	// A turn with tool calls and no content is accepted.
	for _, content := range []string{`"content":null,`, ``, `"content":[],`} {
		status, a := s.post(t, "/v1/chat/completions", `{"max_tokens":1,"messages":[{"role":"user","content":"a"},{"role":"assistant",`+content+
			`"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"b"}]}`)
		if status != http.StatusOK {
			t.Errorf("assistant turn with %q gives %d: %v", content, status, a)
		}
	}
}

func testStreamUsage(t *testing.T, s *system) {
	for _, path := range []string{"/v1/completions", "/v1/chat/completions"} {
		input := `"prompt":"` + story + `"`
		if path != "/v1/completions" {
			input = `"messages":[{"role":"user","content":"` + story + `"}]`
		}
		body := `{"stream":true,"max_tokens":5,"ignore_eos":true,` + input
		for _, event := range s.stream(t, path, body+"}") {
			if strings.Contains(event, `"usage"`) {
				t.Errorf("%s: usage without being asked: %s", path, event)
			}
		}
		events := s.stream(t, path, body+`,"stream_options":{"include_usage":true}}`)
		last := events[len(events)-2]
		if !strings.Contains(last, `"choices":[]`) || !strings.Contains(last, `"completion_tokens":5`) {
			t.Errorf("%s: last event %s, want no choices and 5 tokens", path, last)
		}
		for _, event := range events[:len(events)-2] {
			if strings.Contains(event, `"usage"`) {
				t.Errorf("%s: usage before the last event: %s", path, event)
			}
		}
		prompt, completion := -1.0, 0.0
		for _, event := range s.stream(t, path, body+`,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`) {
			var chunk map[string]any
			if json.Unmarshal([]byte(event), &chunk) != nil {
				continue
			}
			p, _ := at(chunk, "usage", "prompt_tokens").(float64)
			c, _ := at(chunk, "usage", "completion_tokens").(float64)
			if (prompt >= 0 && p != prompt) || c < completion {
				t.Errorf("%s: usage went from %v+%v to %v+%v", path, prompt, completion, p, c)
			}
			prompt, completion = p, c
		}
		if completion != 5 {
			t.Errorf("%s: continuous usage ends at %v, want 5", path, completion)
		}
	}
}

func testStopStrings(t *testing.T, s *system) {
	_, a := s.post(t, "/v1/completions", `{"prompt":"`+story+`","max_tokens":40,"temperature":0}`)
	whole, _ := at(a, "choices", 0, "text").(string)
	if len(whole) < 20 {
		t.Fatalf("text %q is too short for this test", whole)
	}
	stop := whole[8:13]
	want := whole[:strings.Index(whole, stop)]
	quoted, _ := json.Marshal(stop)
	_, a = s.post(t, "/v1/completions", `{"prompt":"`+story+`","max_tokens":40,"temperature":0,"stop":`+string(quoted)+`}`)
	if at(a, "choices", 0, "text") != want || at(a, "choices", 0, "finish_reason") != "stop" || at(a, "choices", 0, "stop_reason") != stop {
		t.Errorf("stop %q of %q gives %v", stop, whole, at(a, "choices", 0))
	}
	_, a = s.post(t, "/v1/completions", `{"prompt":"`+story+`","max_tokens":40,"temperature":0,"include_stop_str_in_output":true,"stop":`+string(quoted)+`}`)
	if at(a, "choices", 0, "text") != want+stop {
		t.Errorf("included stop gives %v, want %q", at(a, "choices", 0, "text"), want+stop)
	}
}

func testSeed(t *testing.T, s *system) {
	text := func(seed string) any {
		_, a := s.post(t, "/v1/completions", `{"prompt":"`+story+`","max_tokens":30,"temperature":1,"seed":`+seed+`}`)
		return at(a, "choices", 0, "text")
	}
	if a, b := text("5"), text("5"); a != b {
		t.Errorf("one seed gives %q and %q", a, b)
	}
	if a, b := text("5"), text("6"); a == b {
		t.Errorf("two seeds give the same 30 tokens, %q", a)
	}
}

// n continuations of one prompt have indices of their own, differ, and pay for
// the prompt once.
func testChoices(t *testing.T, s *system) {
	body := `{"prompt":["` + story + `","The wolf"],"n":3,"seed":4,"temperature":1,"max_tokens":12,"ignore_eos":true`
	_, one := s.post(t, "/v1/completions", strings.Replace(body, `"n":3`, `"n":1`, 1)+"}")
	_, a := s.post(t, "/v1/completions", body+"}")
	choices, _ := at(a, "choices").([]any)
	if len(choices) != 6 {
		t.Fatalf("n = 3 of two prompts gives %v", a)
	}
	texts := map[any]bool{}
	for i := range choices {
		if at(a, "choices", i, "index") != float64(i) || at(a, "choices", i, "finish_reason") != "length" {
			t.Errorf("choice %d is %v", i, choices[i])
		}
		texts[at(a, "choices", i, "text")] = true
	}
	if len(texts) != 6 || at(a, "choices", 0, "text") != at(one, "choices", 0, "text") {
		t.Errorf("six choices have %d texts; the first is %v, alone it was %v", len(texts), at(a, "choices", 0, "text"), at(one, "choices", 0, "text"))
	}
	if at(a, "usage", "prompt_tokens") != at(one, "usage", "prompt_tokens") || at(a, "usage", "completion_tokens") != 72.0 {
		t.Errorf("usage %v, of one choice each %v", at(a, "usage"), at(one, "usage"))
	}
	streamed := map[any]string{}
	for _, event := range s.stream(t, "/v1/completions", body+`,"stream":true}`) {
		var chunk map[string]any
		if json.Unmarshal([]byte(event), &chunk) == nil {
			text, _ := at(chunk, "choices", 0, "text").(string)
			streamed[at(chunk, "choices", 0, "index")] += text
		}
	}
	for i := range choices {
		if want := at(a, "choices", i, "text"); streamed[float64(i)] != want {
			t.Errorf("choice %d streamed %q, unstreamed %q", i, streamed[float64(i)], want)
		}
	}
	_, chat := s.post(t, "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"n":2,"max_tokens":4,"temperature":1}`)
	if at(chat, "choices", 1, "index") != 1.0 {
		t.Errorf("a chat of two choices gives %v", chat)
	}
}

// What shapes the distribution reaches the engine.
func testShapedSampling(t *testing.T, s *system) {
	ids := func(text string) []any {
		quoted, _ := json.Marshal(text)
		_, a := s.post(t, "/tokenize", `{"prompt":`+string(quoted)+`}`)
		tokens, _ := at(a, "tokens").([]any)
		return tokens
	}
	text := func(extra string) string {
		status, a := s.post(t, "/v1/completions", `{"prompt":"`+story+`","max_tokens":12,"temperature":0,"ignore_eos":true,`+extra+`}`)
		if status != http.StatusOK {
			t.Fatalf("%s gives %d: %v", extra, status, a)
		}
		out, _ := at(a, "choices", 0, "text").(string)
		return out
	}
	plain := text(`"n":1`)
	king := ids(" king")
	if len(king) != 1 {
		t.Fatalf("' king' is %v, want one token for this test", king)
	}
	id := strconv.Itoa(int(king[0].(float64)))
	if got := text(`"logit_bias":{"` + id + `":100}`); got != strings.Repeat(" king", 12) {
		t.Errorf("a bias of 100 gives %q, want only that token", got)
	}
	if got := text(`"allowed_token_ids":[` + id + `]`); got != strings.Repeat(" king", 12) {
		t.Errorf("one allowed token gives %q, want only that token", got)
	}
	// As in vLLM, the form after a space is banned too if it has as many tokens.
	word := ""
	for _, w := range strings.Fields(plain) {
		if len(ids(w)) == 1 && len(ids(" "+w)) == 1 {
			word = w
		}
	}
	if word == "" {
		t.Fatalf("no word of %q is one token with and without a space", plain)
	}
	quoted, _ := json.Marshal(word)
	if got := text(`"bad_words":[` + string(quoted) + `]`); slices.Contains(strings.Fields(got), word) {
		t.Errorf("without the word %q still: %q", word, got)
	}
	// Greedy text of this length repeats words; penalties change it.
	long := text(`"max_tokens":100`)
	for _, penalty := range []string{`"repetition_penalty":1.8`, `"presence_penalty":2`, `"frequency_penalty":2`} {
		if got := text(`"max_tokens":100,` + penalty); got == long {
			t.Errorf("%s changes nothing: %q", penalty, got)
		}
	}
}

// Tokens join to the text, offsets count code points, greedy tokens are their
// own best alternative, and streams tell the same.
func testLogprobs(t *testing.T, s *system) {
	body := `{"prompt":"` + story + `","max_tokens":20,"temperature":0,"ignore_eos":true,"logprobs":3`
	_, a := s.post(t, "/v1/completions", body+"}")
	text, _ := at(a, "choices", 0, "text").(string)
	tokens, _ := at(a, "choices", 0, "logprobs", "tokens").([]any)
	joined := ""
	for i, token := range tokens {
		if got, want := at(a, "choices", 0, "logprobs", "text_offset", i), float64(len([]rune(joined))); got != want {
			t.Errorf("offset of token %d is %v, want %v", i, got, want)
		}
		joined += token.(string)
		top, _ := at(a, "choices", 0, "logprobs", "top_logprobs", i).(map[string]any)
		logprob, _ := at(a, "choices", 0, "logprobs", "token_logprobs", i).(float64)
		if len(top) < 1 || len(top) > 4 || top[token.(string)] != logprob || logprob > 0 {
			t.Errorf("token %q has the logprob %v and the alternatives %v", token, logprob, top)
		}
		for other, p := range top {
			if p.(float64) > logprob {
				t.Errorf("greedy took %q although %q is likelier", token, other)
			}
		}
	}
	if joined != text || len(tokens) != 20 {
		t.Errorf("%d tokens join to %q, want %q", len(tokens), joined, text)
	}
	if _, plain := s.post(t, "/v1/completions", strings.Replace(body, `,"logprobs":3`, "", 1)+"}"); at(plain, "choices", 0, "text") != text {
		t.Errorf("with log probabilities %q, without %v", text, at(plain, "choices", 0, "text"))
	}
	streamed := ""
	var offsets []any
	for _, event := range s.stream(t, "/v1/completions", body+`,"stream":true}`) {
		var chunk map[string]any
		if json.Unmarshal([]byte(event), &chunk) != nil {
			continue
		}
		list, _ := at(chunk, "choices", 0, "logprobs", "tokens").([]any)
		for _, token := range list {
			streamed += token.(string)
		}
		more, _ := at(chunk, "choices", 0, "logprobs", "text_offset").([]any)
		offsets = append(offsets, more...)
	}
	if streamed != text || !reflect.DeepEqual(offsets, at(a, "choices", 0, "logprobs", "text_offset")) {
		t.Errorf("streamed tokens join to %q at %v, want %q", streamed, offsets, text)
	}
	_, c := s.post(t, "/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"max_tokens":12,"temperature":0,"ignore_eos":true,"logprobs":true,"top_logprobs":2}`)
	content, _ := at(c, "choices", 0, "logprobs", "content").([]any)
	var raw []byte
	for _, entry := range content {
		for _, b := range at(entry, "bytes").([]any) {
			raw = append(raw, byte(b.(float64)))
		}
		if top, _ := at(entry, "top_logprobs").([]any); len(top) != 2 || at(top[0], "token") != at(entry, "token") {
			t.Errorf("entry %v, want two alternatives, itself first", entry)
		}
	}
	if want := at(c, "choices", 0, "message", "content"); string(raw) != want {
		t.Errorf("bytes join to %q, want %q", raw, want)
	}
}

func testLimits(t *testing.T, s *system) {
	_, models := s.post(t, "/tokenize", `{"prompt":"x"}`)
	limit := int(at(models, "max_model_len").(float64))
	prompt := "[1" + strings.Repeat(",1", limit-2) + "]" // leaves room for one token
	if status, a := s.post(t, "/v1/completions", `{"prompt":`+prompt+`,"max_tokens":1}`); status != http.StatusOK {
		t.Errorf("the longest prompt gives %d: %v", status, a)
	}
	if status, a := s.post(t, "/v1/completions", `{"prompt":`+prompt+`}`); status != http.StatusOK || at(a, "usage", "completion_tokens") != 1.0 {
		t.Errorf("the default of max_tokens is not fitted to the room left: %d %v", status, a)
	}
	status, a := s.post(t, "/v1/completions", `{"prompt":`+prompt+`,"max_tokens":2}`)
	message, _ := at(a, "error", "message").(string)
	for _, number := range []int{limit, limit - 1, 2} {
		if !strings.Contains(message, " "+strconv.Itoa(number)+" ") {
			t.Errorf("message %q lacks %d", message, number)
		}
	}
	if status != http.StatusBadRequest || at(a, "error", "param") != "max_tokens" {
		t.Errorf("too many tokens give %d: %v", status, a)
	}
}

func testRefusals(t *testing.T, s *system) {
	for _, tc := range []struct {
		path, body  string
		status      int
		param, text string
	}{
		{"/v1/completions", `{"prompt"`, 400, "", "not valid JSON"},
		{"/v1/completions", `{"prompt":"a"} x`, 400, "", "after the JSON object"},
		{"/v1/completions", `[1]`, 400, "", "must be a JSON object"},
		{"/v1/completions", "{\"prompt\":\"\xff\"}", 400, "", "UTF-8"},
		{"/v1/completions", `{"prompt":"a","temperature":NaN}`, 400, "", "not valid JSON"},
		{"/v1/completions", `{}`, 400, "prompt", "must be provided"},
		{"/v1/completions", `{"prompt":""}`, 400, "prompt", "empty"},
		{"/v1/completions", `{"prompt":[]}`, 400, "prompt", "non-empty"},
		{"/v1/completions", `{"prompt":[[]]}`, 400, "prompt", "empty"},
		{"/v1/completions", `{"prompt":[[-1]]}`, 400, "prompt", "-1"},
		{"/v1/completions", `{"prompt":[99999999]}`, 400, "prompt", "99999999"},
		{"/v1/completions", `{"prompt":[1,"a"]}`, 400, "prompt.1", "whole number"},
		{"/v1/completions", `{"prompt":["a",[1]]}`, 400, "prompt", "not both"},
		{"/v1/completions", `{"prompt":"a","max_tokens":"ten"}`, 400, "max_tokens", "whole number"},
		{"/v1/completions", `{"prompt":"a","max_tokens":1.5}`, 400, "max_tokens", "whole number"},
		{"/v1/completions", `{"prompt":"a","max_tokens":0}`, 400, "max_tokens", "at least 1"},
		{"/v1/completions", `{"prompt":"a","max_tokens":-5}`, 400, "max_tokens", "at least 1"},
		{"/v1/completions", `{"prompt":"a","max_tokens":1e30}`, 400, "max_tokens", "64 bits"},
		{"/v1/completions", `{"prompt":"a","temperature":-1}`, 400, "temperature", "[0, 2]"},
		{"/v1/completions", `{"prompt":"a","temperature":1e999}`, 400, "temperature", "finite"},
		{"/v1/completions", `{"prompt":"a","top_p":0}`, 400, "top_p", "(0, 1]"},
		{"/v1/completions", `{"prompt":"a","top_k":-2}`, 400, "top_k", "-2"},
		{"/v1/completions", `{"prompt":"a","min_p":2}`, 400, "min_p", "[0, 1]"},
		{"/v1/completions", `{"prompt":"a","seed":1e40}`, 400, "seed", "64 bits"},
		{"/v1/completions", `{"prompt":"a","stop":[""]}`, 400, "stop", "empty"},
		{"/v1/completions", `{"prompt":"a","stop_token_ids":[99999999]}`, 400, "stop_token_ids", "99999999"},
		{"/v1/completions", `{"prompt":"a","min_tokens":9,"max_tokens":3}`, 400, "min_tokens", "less than or equal"},
		{"/v1/completions", `{"prompt":"a","stream_options":{"include_usage":true}}`, 400, "stream_options", "stream=True"},
		{"/v1/completions", `{"prompt":"a","temperature":-1,"top_p":7}`, 400, "temperature", "2 validation errors"},
		{"/v1/completions", `{"prompt":"a","n":0}`, 400, "n", "at least 1"},
		{"/v1/completions", `{"prompt":"a","n":2,"temperature":0}`, 400, "n", "greedy"},
		{"/v1/completions", `{"prompt":"a","best_of":2}`, 400, "best_of", "not supported"},
		{"/v1/completions", `{"prompt":"a","logprobs":21}`, 400, "logprobs", "20 allowed"},
		{"/v1/completions", `{"prompt":"a","logprobs":-2}`, 400, "logprobs", "-1"},
		{"/v1/completions", `{"prompt":"a","prompt_logprobs":21}`, 400, "prompt_logprobs", "20 allowed"},
		{"/v1/completions", `{"prompt":"a","prompt_logprobs":1,"stream":true}`, 400, "prompt_logprobs", "not available when `stream=True`"},
		{"/v1/completions", `{"prompt":"a","logprob_token_ids":[1]}`, 400, "logprob_token_ids", "`logprobs` must be set"},
		{"/v1/completions", `{"prompt":"a","logprobs":1,"logprob_token_ids":[99999999]}`, 400, "logprob_token_ids", "99999999"},
		{"/v1/completions", `{"prompt":"a","logprobs":1,"logprob_token_ids":[1],"echo":true,"max_tokens":0}`, 400, "logprob_token_ids", "no output tokens"},
		{"/v1/completions", `{"prompt":"a","truncate_prompt_tokens":-2}`, 400, "truncate_prompt_tokens", "-2"},
		{"/v1/completions", `{"prompt":"a","truncate_prompt_tokens":0}`, 400, "prompt", "empty"},
		{"/v1/completions", `{"prompt":"a","truncate_prompt_tokens":1000000}`, 400, "truncate_prompt_tokens", "1000000"},
		{"/v1/completions", `{"prompt":"a","truncation_side":"top"}`, 400, "truncation_side", "top"},
		{"/v1/completions", `{"prompt":"a","stream_interval":0}`, 400, "stream_interval", "at least 1"},
		{"/v1/completions", `{"prompt":"a","timeout_ms":0}`, 400, "timeout_ms", "at least 1"},
		{"/v1/completions", `{"prompt":"a","use_beam_search":true}`, 400, "use_beam_search", "not supported"},
		{"/v1/completions", `{"prompt":"a","vllm_xargs":{"a":1}}`, 400, "vllm_xargs", "not supported"},
		{"/v1/completions", `{"prompt":"a","structured_outputs":{"choice":["a"]}}`, 400, "structured_outputs", "not supported"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"top_logprobs":2}`, 400, "top_logprobs", "`logprobs` must be set"},
		{"/v1/completions", `{"prompt":"a","logit_bias":{"x":2}}`, 400, "logit_bias", "no token ID"},
		{"/v1/completions", `{"prompt":"a","logit_bias":{"1":null}}`, 400, "logit_bias", "null"},
		{"/v1/completions", `{"prompt":"a","logit_bias":{"99999999":2}}`, 400, "logit_bias", "99999999"},
		{"/v1/completions", `{"prompt":"a","frequency_penalty":3}`, 400, "frequency_penalty", "[-2, 2]"},
		{"/v1/completions", `{"prompt":"a","presence_penalty":-3}`, 400, "presence_penalty", "[-2, 2]"},
		{"/v1/completions", `{"prompt":"a","repetition_penalty":0}`, 400, "repetition_penalty", "greater than zero"},
		{"/v1/completions", `{"prompt":"a","allowed_token_ids":[]}`, 400, "allowed_token_ids", "empty"},
		{"/v1/completions", `{"prompt":"a","allowed_token_ids":[99999999]}`, 400, "allowed_token_ids", "99999999"},
		{"/v1/completions", `{"prompt":"a","bad_words":[""]}`, 400, "bad_words", "empty"},
		{"/v1/completions", `{"prompt":"a","cache_salt":"a/b"}`, 400, "cache_salt", "128"},
		{"/v1/completions", `{"prompt":"a","suffix":"b"}`, 400, "suffix", "not supported"},
		{"/v1/completions", `{"prompt":"a","model":"gpt-9"}`, 404, "model", "`gpt-9` does not exist"},
		{"/v1/chat/completions", `{}`, 400, "messages", "must be provided"},
		{"/v1/chat/completions", `{"messages":[]}`, 400, "messages", "non-empty"},
		{"/v1/chat/completions", `{"messages":"hi"}`, 400, "messages", "list of messages"},
		{"/v1/chat/completions", `{"messages":[{"content":"a"}]}`, 400, "messages.0.role", "must be provided"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`, 400, "messages.0.content.0.type", "image_url"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"tools":[]}`, 400, "tools", "empty array"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{}}]}`, 400, "tools.0.function.name", "must be provided"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"tool_choice":"auto"}`, 400, "tool_choice", "`tools` must be set"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required"}`, 400, "tool_choice", "not supported"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"chat_template":"x"}`, 400, "chat_template", "--trust-request-chat-template"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"chat_template_kwargs":{"chat_template":"x"}}`, 400, "chat_template_kwargs", "own field"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"documents":[{"title":1}]}`, 400, "documents.0", "title"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"reasoning_effort":"some"}`, 400, "reasoning_effort", "minimal"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"response_format":{"type":"json_object"}}`, 400, "response_format", "not supported"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"max_completion_tokens":1000000}`, 400, "max_completion_tokens", "1000000"},
		{"/detokenize", `{"tokens":[99999999]}`, 400, "tokens", "99999999"},
		{"/detokenize", `{}`, 400, "tokens", "must be provided"},
		{"/tokenize", `{}`, 400, "prompt", "must be provided"},
	} {
		status, a := s.post(t, tc.path, tc.body)
		param, _ := at(a, "error", "param").(string)
		message, _ := at(a, "error", "message").(string)
		if status != tc.status || param != tc.param || !strings.Contains(message, tc.text) || at(a, "error", "code") != float64(tc.status) {
			t.Errorf("POST %s %s = %d %v, want %d, param %q, %q", tc.path, tc.body, status, a, tc.status, tc.param, tc.text)
		}
	}
	// What asks for the default of an unserved field, or for a field that is
	// nobody's, is served.
	for _, extra := range []string{`"n":1`, `"logprobs":null`, `"frequency_penalty":0.0`, `"best_of":1`, `"user":"me"`, `"no_such_field":[1]`, `"response_format":{"type":"text"}`} {
		if status, a := s.post(t, "/v1/completions", `{"prompt":"a","max_tokens":1,`+extra+`}`); status != http.StatusOK {
			t.Errorf("%s gives %d: %v", extra, status, a)
		}
	}
	resp, err := http.Post(s.url+"/v1/completions", "text/plain", strings.NewReader(`{"prompt":"a"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a body that is not announced as JSON gives %d, want 400", resp.StatusCode)
	}
}

func testTokenize(t *testing.T, s *system) {
	text := "The  old king’s crown — naïve 狼\n"
	quoted, _ := json.Marshal(text)
	_, a := s.post(t, "/tokenize", `{"prompt":`+string(quoted)+`,"return_token_strs":true}`)
	tokens, _ := at(a, "tokens").([]any)
	strs, _ := at(a, "token_strs").([]any)
	if at(a, "count") != float64(len(tokens)) || len(tokens) == 0 || len(strs) != len(tokens) {
		t.Fatalf("tokenize gives %v", a)
	}
	ids, _ := json.Marshal(tokens)
	if _, a := s.post(t, "/detokenize", `{"tokens":`+string(ids)+`}`); at(a, "prompt") != text {
		t.Errorf("detokenize gives %v, want %q", a, text)
	}
	if _, a := s.post(t, "/tokenize", `{"prompt":""}`); at(a, "count") != 0.0 {
		t.Errorf("an empty text gives %v, want no tokens", a)
	}
	_, chat := s.post(t, "/tokenize", `{"messages":[{"role":"user","content":"a"}]}`)
	_, bare := s.post(t, "/tokenize", `{"messages":[{"role":"user","content":"a"}],"add_generation_prompt":false}`)
	if c, b := at(chat, "count"), at(bare, "count"); c == nil || b == nil || c.(float64) <= b.(float64) {
		t.Errorf("a chat gives %v tokens with and %v without the generation prompt", c, b)
	}
}

func testRoutes(t *testing.T, s *system) {
	for _, tc := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/health", 200, ""},
		{"GET", "/ping", 200, ""},
		{"GET", "/version", 200, `"version"`},
		{"GET", "/v1/models/builtin", 200, `"id":"builtin"`},
		{"GET", "/v1/models/a/b", 404, "The model `a/b` does not exist. This server has: `builtin`."},
		{"GET", "/v1/models", 200, `"id":"builtin"`},
		{"GET", "/metrics", 200, "vllm:num_requests_running"},
		{"GET", "/nowhere", 404, `"code":404`},
		{"GET", "/v1/completions", 405, `"code":405`},
		{"DELETE", "/v1/models", 405, `"code":405`},
	} {
		req, err := http.NewRequest(tc.method, s.url+tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body := readAll(t, resp)
		if resp.StatusCode != tc.status || !strings.Contains(body, tc.body) {
			t.Errorf("%s %s = %d %s, want %d %s", tc.method, tc.path, resp.StatusCode, body, tc.status, tc.body)
		}
	}
	resp, err := http.Get(s.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, resp)
	if got, want := resp.Header.Get("Content-Type"), "text/plain; version=0.0.4; charset=utf-8"; got != want {
		t.Errorf("content type of /metrics is %q, want %q", got, want)
	}
}

func testOpenAIClient(t *testing.T, s *system) {
	client := openai.NewClient(option.WithBaseURL(s.url+"/v1"), option.WithAPIKey("unused"), option.WithMaxRetries(0))
	ctx := context.Background()
	models, err := client.Models.List(ctx)
	if err != nil || len(models.Data) != 1 || models.Data[0].ID != "builtin" {
		t.Fatalf("models = %+v, %v", models, err)
	}
	params := openai.ChatCompletionNewParams{
		Model:               "builtin",
		Messages:            []openai.ChatCompletionMessageParamUnion{openai.UserMessage(story + ".")},
		MaxCompletionTokens: openai.Int(16),
		Temperature:         openai.Float(0),
	}
	reply, err := client.Chat.Completions.New(ctx, params)
	if err != nil || len(reply.Choices) != 1 || reply.Choices[0].Message.Content == "" {
		t.Fatalf("chat = %+v, %v", reply, err)
	}
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := client.Chat.Completions.NewStreaming(ctx, params)
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		acc.AddChunk(stream.Current())
	}
	if stream.Err() != nil || len(acc.Choices) != 1 {
		t.Fatalf("stream = %+v, %v", acc, stream.Err())
	}
	if got, want := acc.Choices[0].Message.Content, reply.Choices[0].Message.Content; got != want {
		t.Errorf("streamed %q, unstreamed %q", got, want)
	}
	if acc.Usage.CompletionTokens != reply.Usage.CompletionTokens || acc.Usage.CompletionTokens == 0 {
		t.Errorf("streamed usage %+v, unstreamed %+v", acc.Usage, reply.Usage)
	}
	// A refusal comes as the client's own error type.
	params.Model, params.StreamOptions = "gpt-9", openai.ChatCompletionStreamOptionsParam{}
	_, err = client.Chat.Completions.New(ctx, params)
	var apiErr *openai.Error
	if !errors.As(err, &apiErr) || apiErr.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown model gives %v, want a 404", err)
	}
}
