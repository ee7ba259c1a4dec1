package openai

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"govllm/frontend/chat"
	"govllm/frontend/chat/jinja"
	"govllm/frontend/engineclient"
	"govllm/frontend/outputs"
	"govllm/frontend/tokenizer"
	"govllm/ipc"
	"govllm/protocol"
	"govllm/protocol/modelfile"
)

// scripted is a connection to an engine that answers each ADD as the test says.
type scripted struct {
	answer func(*protocol.EngineCoreRequest) []protocol.EngineCoreOutput // nil: never
	out    chan *protocol.EngineCoreOutputs
	adds   chan struct{} // one for each ADD

	mu      sync.Mutex
	added   []*protocol.EngineCoreRequest
	aborted []string
}

func (s *scripted) Buffer() []byte { return nil }

func (s *scripted) Send(_ int, t protocol.RequestType, payload []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m := protocol.DecodeFrontendMessage([][]byte{{byte(t)}, payload}).(type) {
	case *protocol.EngineCoreRequest:
		s.added = append(s.added, m)
		s.adds <- struct{}{}
		if s.answer != nil {
			for _, o := range s.answer(m) {
				o.RequestID = m.RequestID
				s.out <- &protocol.EngineCoreOutputs{Outputs: []protocol.EngineCoreOutput{o}}
			}
		}
	case protocol.Abort:
		s.aborted = append(s.aborted, m...)
	}
	return nil
}

func (s *scripted) Run(ctx context.Context, deliver func(*protocol.EngineCoreOutputs)) error {
	for {
		select {
		case m := <-s.out:
			deliver(m)
		case <-ctx.Done():
			return nil
		}
	}
}

var builtinTokenizer = sync.OnceValue(func() *tokenizer.Tokenizer {
	m, err := modelfile.Open("builtin", modelfile.Options{})
	if err != nil {
		panic(err)
	}
	t, err := tokenizer.Load(m.TokenizerJSON, m.TokenizerConfigJSON)
	if err != nil {
		panic(err)
	}
	return t
})

// newScripted is a server of a scripted engine.
func newScripted(t *testing.T, answer func(*protocol.EngineCoreRequest) []protocol.EngineCoreOutput, change func(*Config)) (*Server, *scripted) {
	t.Helper()
	engine := &scripted{answer: answer, out: make(chan *protocol.EngineCoreOutputs, 100), adds: make(chan struct{}, 100)}
	client := engineclient.New(engine, []ipc.EngineInfo{{}}, engineclient.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = client.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	template, err := chat.FindTemplate(nil, []byte("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Client: client, Tokenizer: builtinTokenizer(), Templates: template, ServedModelNames: []string{"m"}, ModelRoot: "m",
		MaxModelLen: 100, VocabSize: builtinTokenizer().VocabSize(), MaxLogprobs: 20, ResponseRole: "assistant", Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	return New(cfg), engine
}

func post(s *Server, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// tokensOf answers with these tokens, one an output, and length.
func tokensOf(ids ...int32) func(*protocol.EngineCoreRequest) []protocol.EngineCoreOutput {
	return func(*protocol.EngineCoreRequest) []protocol.EngineCoreOutput {
		var outs []protocol.EngineCoreOutput
		for i, id := range ids {
			o := protocol.EngineCoreOutput{NewTokenIDs: []int32{id}}
			if i == len(ids)-1 {
				o.FinishReason = protocol.FinishLength
			}
			outs = append(outs, o)
		}
		return outs
	}
}

// What a request says reaches the engine: the request's word, else the
// model's, else OpenAI's.
func TestParametersReachTheEngine(t *testing.T) {
	temperature, k := 0.5, 7
	defaults := Defaults{Temperature: &temperature, TopK: &k}
	for _, tc := range []struct {
		path, body string
		headers    []string
		want       string
	}{
		{"/v1/completions", `{"prompt":"a"}`, nil, "t=0.5 k=7 max=16 prio=0"},
		{"/v1/completions", `{"prompt":"a","temperature":0.25,"top_k":-1}`, nil, "t=0.25 k=0 max=16 prio=0"},
		{"/v1/completions", `{"prompt":"a","temperature":1e-9}`, nil, "t=0.01 k=7 max=16 prio=0"},
		{"/v1/completions", `{"prompt":"a","priority":-3,"session_id":"s"}`, nil, "t=0.5 k=7 max=16 prio=-3 session=s"},
		{"/v1/completions", `{"prompt":"a","priority":-3,"session_id":"s"}`, []string{"X-Vllm-Priority", "5", "X-Session-ID", "h"}, "t=0.5 k=7 max=16 prio=5 session=s"},
		{"/v1/completions", `{"prompt":"a"}`, []string{"X-Vllm-Priority", "high", "X-Session-ID", "h"}, "t=0.5 k=7 max=16 prio=0 session=h"},
		{"/v1/completions", `{"prompt":"a","logprobs":3,"logprob_token_ids":[1,2]}`, nil, "t=0.5 k=7 max=16 prio=0 ids=[1 2]"},
		{"/v1/completions", `{"prompt":"a","logprobs":3,"echo":true}`, nil, "t=0.5 k=7 max=16 prio=0 logprobs=3 prompt=3"},
		{"/v1/completions", `{"prompt":"a","max_tokens":0,"echo":true}`, nil, "t=0.5 k=7 max=1 prio=0"},
		{"/v1/completions", `{"prompt":"a","seed":-1}`, nil, "t=0.5 k=7 max=16 prio=0"},
		{"/v1/completions", `{"prompt":"a","seed":-2}`, nil, "t=0.5 k=7 max=16 prio=0 seed=-2"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}]}`, nil, "t=0.5 k=7 max=95 prio=0"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"max_tokens":5,"max_completion_tokens":4}`, nil, "t=0.5 k=7 max=4 prio=0"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"logprobs":true}`, nil, "t=0.5 k=7 max=95 prio=0 logprobs=0"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"echo":true}`, nil, "t=0.5 k=7 max=95 prio=0 prompt=0"},
		{"/inference/v1/generate", `{"token_ids":[7],"sampling_params":{}}`, nil, "t=1 k=0 max=99 prio=0"},
	} {
		s, engine := newScripted(t, tokensOf(5), func(c *Config) { c.Defaults = defaults })
		w := post(s, tc.path, tc.body, tc.headers...)
		if len(engine.added) != 1 {
			t.Errorf("%s %s = %d %s", tc.path, tc.body, w.Code, w.Body)
			continue
		}
		if got := describeADD(engine.added[0]); got != tc.want {
			t.Errorf("%s %s asks the engine for %s, want %s", tc.path, tc.body, got, tc.want)
		}
	}
}

func describeADD(r *protocol.EngineCoreRequest) string {
	p := r.SamplingParams
	s := fmt.Sprintf("t=%v k=%d max=%d prio=%d", p.Temperature, p.TopK, *p.MaxTokens, r.Priority)
	if r.SessionID != "" {
		s += " session=" + r.SessionID
	}
	if p.Seed != nil {
		s += fmt.Sprintf(" seed=%d", *p.Seed)
	}
	if p.Logprobs != nil {
		s += fmt.Sprintf(" logprobs=%d", *p.Logprobs)
	}
	if p.LogprobTokenIDs != nil {
		s += fmt.Sprintf(" ids=%v", p.LogprobTokenIDs)
	}
	if p.PromptLogprobs != nil {
		s += fmt.Sprintf(" prompt=%d", *p.PromptLogprobs)
	}
	return s
}

// Continuations have seeds of their own.
func TestChildSeeds(t *testing.T) {
	s, engine := newScripted(t, tokensOf(5), nil)
	post(s, "/v1/completions", `{"prompt":["a","b"],"n":2,"seed":9}`)
	var got []int64
	for _, r := range engine.added {
		got = append(got, *r.SamplingParams.Seed)
	}
	if fmt.Sprint(got) != "[9 10 9 10]" {
		t.Errorf("seeds %v, want [9 10 9 10]", got)
	}
}

// An engine that leaves log probabilities out fails the request, and only it.
func TestEngineWithoutLogprobs(t *testing.T) {
	s, _ := newScripted(t, tokensOf(5, 6), nil)
	for _, field := range []string{`"logprobs":1`, `"prompt_logprobs":1`} {
		if w := post(s, "/v1/completions", `{"prompt":"a b c",`+field+`}`); w.Code != http.StatusInternalServerError {
			t.Errorf("%s = %d %s, want 500", field, w.Code, w.Body)
		}
	}
	if w := post(s, "/v1/completions", `{"prompt":"a"}`); w.Code != http.StatusOK {
		t.Errorf("afterwards %d %s", w.Code, w.Body)
	}
}

// A prompt of one token has one entry, null, and an engine has nothing to say.
func TestPromptLogprobsOfOneToken(t *testing.T) {
	s, _ := newScripted(t, tokensOf(5), nil)
	w := post(s, "/v1/completions", `{"prompt":[7],"prompt_logprobs":1}`)
	if !strings.Contains(w.Body.String(), `"prompt_logprobs":[null]`) {
		t.Errorf("one token gives %d %s", w.Code, w.Body)
	}
}

// A request that waits in the queue counts that time, too, and its engine is
// told that nobody waits any more.
func TestTimeoutInTheQueue(t *testing.T) {
	s, engine := newScripted(t, nil, nil)
	for _, body := range []string{`{"prompt":"a","n":2,"timeout_ms":1}`, `{"prompt":"a","timeout_ms":1,"stream":true}`} {
		engine.aborted, engine.added = nil, nil
		w := post(s, "/v1/completions", body)
		if w.Code != http.StatusRequestTimeout || !strings.Contains(w.Body.String(), `"param":"timeout_ms"`) {
			t.Errorf("%s = %d %s, want 408", body, w.Code, w.Body)
		}
		if len(engine.aborted) != len(engine.added) { // none if it was over before it began
			t.Errorf("%s: %d requests, %d aborts", body, len(engine.added), len(engine.aborted))
		}
	}
}

// Cancelling finds a request by either ID and ends all of that ID, before the
// engine has said anything, too.
func TestCancelByID(t *testing.T) {
	s, engine := newScripted(t, nil, nil)
	type answer struct {
		code int
		body string
	}
	for _, by := range []string{"mine", "cmpl-mine"} {
		answers := make(chan answer)
		for range 2 {
			go func() {
				w := post(s, "/v1/completions", `{"prompt":"a"}`, "X-Request-Id", "mine")
				answers <- answer{w.Code, w.Body.String()}
			}()
		}
		for range 2 { // both are there
			<-engine.adds
		}
		r := httptest.NewRequest(http.MethodDelete, "/v1/requests/"+by, nil)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if want := `{"id":"` + by + `","object":"request.cancelled","cancelled":2}`; w.Code != http.StatusOK || w.Body.String() != want {
			t.Errorf("DELETE %s = %d %s, want %s", by, w.Code, w.Body, want)
		}
		for range 2 {
			if a := <-answers; a.code != http.StatusOK || !strings.Contains(a.body, `"text":"","logprobs":null,"finish_reason":"abort"`) {
				t.Errorf("a cancelled request answers %d %s", a.code, a.body)
			}
		}
	}
	if len(s.live.byID) != 0 {
		t.Errorf("the registry still holds %v", s.live.byID)
	}
}

// A request that is cancelled while it is being sent has nothing to tell, and
// nothing of it is left running.
func TestCancelWhileSending(t *testing.T) {
	var s *Server
	var engine *scripted
	s, engine = newScripted(t, func(*protocol.EngineCoreRequest) []protocol.EngineCoreOutput {
		s.live.cancel("mine")
		return nil
	}, nil)
	w := post(s, "/v1/completions", `{"prompt":"a","n":3,"request_id":"mine"}`)
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "cancelled") {
		t.Errorf("the request answers %d %s, want 400", w.Code, w.Body)
	}
	if len(engine.added) != 1 || len(engine.aborted) != 1 {
		t.Errorf("%d requests were sent and %d aborted, want 1 and 1", len(engine.added), len(engine.aborted))
	}
}

// Names that nobody knows are told once each, and only so many of them.
func TestUnknownFieldsAreToldOnce(t *testing.T) {
	var logged bytes.Buffer
	s, _ := newScripted(t, tokensOf(5), func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&logged, nil)) })
	for range 3 {
		if w := post(s, "/v1/completions", `{"prompt":"a","guided_json":{},"x":1}`); w.Code != http.StatusOK {
			t.Fatalf("unknown fields give %d %s", w.Code, w.Body)
		}
	}
	if n := strings.Count(logged.String(), "guided_json"); n != 1 {
		t.Errorf("a name is told %d times, want once:\n%s", n, logged.String())
	}
	for i := range 2 * maxUnknownNames {
		s.logUnknown([]string{fmt.Sprint("field", i)})
	}
	if n := strings.Count(logged.String(), "\n"); n != maxUnknownNames {
		t.Errorf("%d names are told, want %d", n, maxUnknownNames)
	}
}

func TestForceIncludeUsage(t *testing.T) {
	s, _ := newScripted(t, tokensOf(5, 6), func(c *Config) { c.ForceIncludeUsage = true })
	w := post(s, "/v1/completions", `{"prompt":"a","stream":true}`)
	events := strings.Count(w.Body.String(), "data: {")
	if n := strings.Count(w.Body.String(), `"usage":{`); n != events || n < 2 {
		t.Errorf("%d of %d events have the usage:\n%s", n, events, w.Body)
	}
}

// withLogprobs answers with one token and its log probability.
func withLogprobs(*protocol.EngineCoreRequest) []protocol.EngineCoreOutput {
	return []protocol.EngineCoreOutput{{NewTokenIDs: []int32{70}, FinishReason: protocol.FinishLength,
		NewLogprobs: &protocol.LogprobsLists{NumTokens: 1, Width: 1, TokenIDs: []int32{70}, Logprobs: []float32{-1}, Ranks: []int64{1}}}}
}

// What the server was told holds where a request does not say otherwise.
func TestOptions(t *testing.T) {
	tools := `"messages":[{"role":"user","content":"a"}],"tools":[{"function":{"name":"f"}}],"return_prompt_text":true`
	for _, tc := range []struct {
		name       string
		options    Options
		path, body string
		want       string // part of the answer
	}{
		{"names", Options{}, "/v1/completions", `{"prompt":"a","logprobs":0}`, `"tokens":["c"]`},
		{"IDs", Options{TokensAsTokenIDs: true}, "/v1/completions", `{"prompt":"a","logprobs":0}`, `"tokens":["token_id:70"]`},
		{"IDs, but", Options{TokensAsTokenIDs: true}, "/v1/completions", `{"prompt":"a","logprobs":0,"return_tokens_as_token_ids":false}`, `"tokens":["c"]`},
		{"tools", Options{}, "/v1/chat/completions", `{` + tools + `,"tool_choice":"none"}`, `"prompt_text":"tools"`},
		{"tools hidden", Options{ExcludeToolsForNone: true}, "/v1/chat/completions", `{` + tools + `,"tool_choice":"none"}`, `"prompt_text":"no tools"`},
		{"tools not hidden", Options{ExcludeToolsForNone: true}, "/v1/chat/completions", `{` + tools + `}`, `"prompt_text":"tools"`},
		{"no fingerprint", Options{}, "/v1/completions", `{"prompt":"a"}`, `"system_fingerprint":null`},
		{"fingerprint", Options{SystemFingerprint: "fp"}, "/v1/chat/completions", `{` + tools + `}`, `"system_fingerprint":"fp"`},
		{"fingerprint at the end", Options{SystemFingerprint: "fp"}, "/v1/completions", `{"prompt":"a","stream":true}`, `"token_ids":null}],"system_fingerprint":"fp"}`},
		{"fingerprint with the usage", Options{SystemFingerprint: "fp"}, "/v1/completions", `{"prompt":"a","stream":true,"stream_options":{"include_usage":true}}`, `"completion_tokens":1},"system_fingerprint":"fp"}`},
	} {
		s, _ := newScripted(t, withLogprobs, func(c *Config) {
			c.Options = tc.options
			c.Templates, _ = chat.FindTemplate(nil, []byte("{{ 'tools' if tools else 'no tools' }}{# messages content #}"))
		})
		w := post(s, tc.path, tc.body)
		if got := w.Body.String(); !strings.Contains(got, tc.want) || strings.Count(got, "system_fingerprint") > 1 {
			t.Errorf("%s: %d %s, want %s", tc.name, w.Code, got, tc.want)
		}
	}
}

// Chunks gather tokens, but the first tokens and the end go out at once.
func TestGather(t *testing.T) {
	q := &sequence{}
	var got []string
	for i := range 9 {
		d := delta{Delta: outputs.Delta{Text: itoa(i), TokenIDs: []int32{int32(i)}}}
		if i == 8 {
			d.Finish = protocol.FinishLength
		}
		if d, ready := q.gather(d, 3); ready {
			got = append(got, fmt.Sprint(d.Text, d.TokenIDs))
		}
	}
	if want := "[0[0] 123[1 2 3] 456[4 5 6] 78[7 8]]"; fmt.Sprint(got) != want {
		t.Errorf("by threes %v, want %v", got, want)
	}
}

// The template's own tokens stay where no side is named.
func TestTruncateKeepsTheTemplate(t *testing.T) {
	s := &Server{cfg: Config{MaxModelLen: 6}}
	for _, tc := range []struct {
		keep int
		side string
		want string
	}{
		{4, "", "[0 4 5 9]"}, {-1, "", "[0 3 4 5 9]"}, {3, "", "[0 5 9]"}, {2, "", "[5 9]"}, {7, "", "[0 1 2 3 4 5 9]"},
		{3, "left", "[4 5 9]"}, {3, "right", "[0 1 2]"}, {0, "", "[]"},
	} {
		tok := tokens{ids: []int32{0, 1, 2, 3, 4, 5, 9}, before: 1, after: 1}
		s.truncate(&tok, tokenizing{truncate: &tc.keep, side: tc.side})
		if got := fmt.Sprint(tok.ids); got != tc.want || tok.before+tok.after > len(tok.ids) {
			t.Errorf("truncate(%d, %q) = %s with %d and %d of the template, want %s", tc.keep, tc.side, got, tok.before, tok.after, tc.want)
		}
	}
}

// Special tokens that the text leaves out do not move the offsets.
func TestOffsetsLeaveOutHiddenTokens(t *testing.T) {
	tok := builtinTokenizer()
	special := func(text string) int32 {
		id, ok := tok.TokenToID(text)
		if !ok || !tok.IsSpecial(id) {
			t.Fatalf("%s is no special token", text)
		}
		return id
	}
	word, err := tok.Encode("é", false)
	if err != nil || len(word) == 0 {
		t.Fatal(word, err)
	}
	ids := append([]int32{special("<|user|>")}, word...)
	ids = append(ids, special("<|assistant|>"), word[0])
	for _, tc := range []struct {
		skip bool
		want int // offset of the last token
	}{{true, 1}, {false, 1 + len("<|user|>") + len("<|assistant|>")}} {
		cfg := outputs.LogprobsConfig{TokenBytes: tok.TokenBytes, Detokenizer: tok.NewDetokenizer(nil, tc.skip)}
		if tc.skip {
			cfg.Hidden = tok.IsSpecial
		}
		form := &logprobsForm{wording: wording{kind: completionForm}, words: outputs.NewLogprobs(cfg)}
		rows := &protocol.LogprobsLists{NumTokens: len(ids), Width: 1, TokenIDs: ids, Logprobs: make([]float32, len(ids))}
		c := form.form(form.entries(ids, rows)).(*completionLogprobs)
		if got := c.TextOffset[len(ids)-1]; got != tc.want {
			t.Errorf("special tokens skipped %t: offsets %v of %q, want the last %d", tc.skip, c.TextOffset, c.Tokens, tc.want)
		}
	}
}

func TestMessages(t *testing.T) {
	for _, tc := range []struct {
		message string
		want    string // as a template prints it, or the refusal
	}{
		{`{"role":"user","content":"a","name":"n"}`, `{"role": "user", "content": "a", "name": "n"}`},
		{`{"content":["a",{"type":"text","text":"b","cache_control":{}}],"role":"user"}`, `{"role": "user", "content": "a\nb"}`},
		{`{"role":"assistant","content":null,"tool_calls":[]}`, `{"role": "assistant", "content": ""}`},
		{`{"role":"assistant","reasoning":"","reasoning_content":"x"}`, `{"role": "assistant", "content": "", "reasoning": "", "reasoning_content": ""}`},
		{`{"role":"assistant","reasoning":null,"reasoning_content":"x"}`, `{"role": "assistant", "content": "", "reasoning": "x", "reasoning_content": "x"}`},
		{`{"role":"user","content":"a","reasoning":"x","tool_call_id":"1","name":null}`, `{"role": "user", "content": "a"}`},
		{`{"role":"assistant","content":"a","refusal":null,"audio":null,"function_call":null}`, `{"role": "assistant", "content": "a"}`},
		{`{"role":"assistant","content":[{"type":"refusal","refusal":"no"},{"type":"thinking","thinking":"hm"}]}`, `{"role": "assistant", "content": "no\nhm"}`},
		{`{"role":"assistant","tool_calls":[{"index":0,"id":"1","function":{"name":"f","arguments":"[1]"}}]}`,
			`{"role": "assistant", "content": "", "tool_calls": [{"id": "1", "function": {"arguments": {}, "name": "f"}, "type": "function"}]}`},
		{`{"role":"tool","content":"a","tool_call_id":""}`, `{"role": "tool", "content": "a", "tool_call_id": ""}`},
		{`{"role":"system","content":"x-anthropic-billing-header: 1\nbe good"}`, `{"role": "system", "content": "be good"}`},
		{`{"role":"developer","content":"a"}`, `{"role": "developer", "content": "a", "tools": null}`},
		{`{"role":"assistant","tool_calls":[{"type":"custom","function":{}}]}`, "refused: messages.0.tool_calls.0"},
		{`{"role":"assistant","tool_calls":{}}`, "refused: messages.0.tool_calls"},
		{`{"role":"user","content":7}`, "refused: messages.0.content"},
		{`{"role":"user","content":[{"type":"input_audio"}]}`, "refused: messages.0.content.0.type"},
		{`{"role":"user","content":[{"type":"text"}]}`, "refused: messages.0.content.0.text"},
		{`{"role":7}`, "refused: messages.0.role"},
	} {
		m, err := parseMessage("messages.0", jsontext.Value(tc.message))
		var got string
		if err != nil {
			got = "refused: " + err.Param
		} else {
			got = printed(t, m.value(chat.FormatString))
		}
		if got != tc.want {
			t.Errorf("parseMessage(%s) = %s, want %s", tc.message, got, tc.want)
		}
	}
}

func printed(t *testing.T, v jinja.Value) string {
	t.Helper()
	template, err := jinja.Parse("{{ v | tojson }}")
	if err != nil {
		t.Fatal(err)
	}
	vars := jinja.NewDict()
	vars.Set("v", v)
	out, err := template.Render(vars, jinja.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Whatever comes in is decoded or refused with a 4xx, and what is told is
// valid JSON of bounded size.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{
		`{"prompt":"a","max_tokens":3,"logit_bias":{"1":2},"stream_options":{"include_usage":true},"stream":true}`,
		`{"prompt":[[1,2],[3]],"echo":true,"logprobs":1,"truncate_prompt_tokens":-1,"response_format":{"type":"text"}}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}]}`,
		`{"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"a":[1,{"b":null}]}}}],"documents":[{"a":"b"}],"chat_template_kwargs":{"x":1e400}}`,
		`{"token_ids":[1,2],"sampling_params":{"stop":"a","logprob_token_ids":[1],"seed":-9223372036854775808}}`,
		`{"tokens":[1],"prompt":null,"reasoning_effort":"low"}`,
	} {
		f.Add(seed)
	}
	s := &Server{cfg: Config{VocabSize: 100, MaxModelLen: 50, MaxLogprobs: 20}}
	f.Fuzz(func(t *testing.T, body string) {
		var c completionRequest
		var ch chatRequest
		var g generateRequest
		var tok tokenizeRequest
		for name, decode := range map[string]func() error{
			"completion": func() error {
				_, err := decodeObject([]byte(body), c.fields())
				return firstOf(err, s.validateCompletion(&c))
			},
			"chat": func() error {
				_, err := decodeObject([]byte(body), ch.fields())
				return firstOf(err, s.validateChat(&ch))
			},
			"generate": func() error {
				_, err := decodeObject([]byte(body), g.fields())
				return firstOf(err, s.validateGenerate(&g))
			},
			"tokenize": func() error { _, err := decodeObject([]byte(body), tok.fields()); return err },
		} {
			err := decode()
			if err == nil {
				continue
			}
			e := toAPIError(err, "")
			if e.Status < 400 || e.Status >= 500 {
				t.Errorf("%s: %q gives %d %s", name, body, e.Status, e.Message)
			}
			if raw, err := json.Marshal(FormatVLLM.body(e)); err != nil || len(raw) > 40*1024 {
				t.Errorf("%s: %q is refused with %d bytes, %v", name, body, len(raw), err)
			}
		}
	})
}

func firstOf(err error, e *APIError) error {
	if err == nil && e != nil {
		return e
	}
	return err
}
