package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"
)

// ask sends a request and returns its status and body.
func ask(t *testing.T, client *http.Client, method, url, body string, headers ...string) (status int, header http.Header, text string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, readAll(t, resp)
}

// With a key nothing but probes is answered without it; request IDs come back;
// development routes answer, and say what the engine cannot do.
func TestEdges(t *testing.T) {
	s := start(t, options{frontend: strings.Fields("--api-key one --api-key two --enable-request-id-headers --root-path /llm --error-format openai --server-dev-mode " +
		"--enable-log-requests --enable-log-outputs --max-log-len 3 --disable-access-log-for-endpoints /v1/models")})
	const chat = `{"messages":[{"role":"user","content":"my secret"}],"max_tokens":4}`
	for _, tc := range []struct {
		call, body string
		headers    []string
		status     int
		want       string
	}{
		{"POST /v1/chat/completions", chat, nil, 401, `"code":"invalid_api_key"`},
		{"POST /v1/chat/completions", chat, []string{"Authorization: Bearer three"}, 401, "invalid_api_key"},
		{"POST /v1/chat/completions", chat, []string{"Authorization: Bearer two"}, 200, `"chat.completion"`},
		{"POST /llm/v1/chat/completions", chat, []string{"x-api-key: one", "X-Request-Id: mine"}, 200, `"id":"chatcmpl-mine"`},
		{"GET /metrics", "", nil, 200, "vllm:"},
		{"GET /llm/ready", "", nil, 200, "ready"},
		{"GET /docs", "", nil, 401, ""},
		{"GET /docs", "", []string{"x-api-key: one"}, 200, "<!doctype html>"},
		{"GET /openapi.json", "", []string{"x-api-key: one"}, 200, `"/v1/chat/completions"`},
		{"GET /v1/nothing", "", []string{"x-api-key: one"}, 404, `"type":"invalid_request_error"`},
		{"PUT /v1/models", "", []string{"x-api-key: one"}, 405, "only GET"},
		{"POST /reset_prefix_cache", "", []string{"x-api-key: one"}, 200, `{"success":true}`},
		{"POST /sleep", "", []string{"x-api-key: one"}, 501, "sleep mode is not supported"},
		{"POST /pause?mode=keep", "", []string{"x-api-key: one"}, 200, `{"status":"paused"}`},
		{"GET /is_paused", "", []string{"x-api-key: one"}, 200, `{"is_paused":true}`},
		{"POST /resume", "", []string{"x-api-key: one"}, 200, `{"status":"resumed"}`},
		{"POST /pause?clear_cache=perhaps", "", []string{"x-api-key: one"}, 400, "clear_cache"},
		{"GET /server_info?config_format=json", "", []string{"x-api-key: one"}, 200, `"root-path":"/llm"`},
	} {
		method, path, _ := strings.Cut(tc.call, " ")
		status, header, text := ask(t, http.DefaultClient, method, s.url+path, tc.body, tc.headers...)
		if status != tc.status || !strings.Contains(text, tc.want) || header.Get("X-Request-Id") == "" {
			t.Errorf("%s %q = %d, ID %q, %s, want %d %s", tc.call, tc.headers, status, header.Get("X-Request-Id"), text, tc.status, tc.want)
		}
		if strings.Contains(text, `"one"`) {
			t.Errorf("%s shows a key: %s", tc.call, text)
		}
	}
	log := s.frontend.output()
	for _, want := range []string{`received request request_id=chatcmpl-mine`, `generated response request_id=chatcmpl-mine`, `POST /llm/v1/chat/completions status=200 request_id=mine`, "development routes"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
	for _, never := range []string{"secret", "/v1/models", "two"} {
		if strings.Contains(log, never) {
			t.Errorf("the log holds %q:\n%s", never, log)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "api")
	handshake := freePort(t)
	frontend := launch(t, "vllm-frontend", nil, "--uds", path, "--data-parallel-rpc-port", handshake)
	launch(t, "vllm-core", nil, "--data-parallel-rpc-port", handshake, "--kv-cache-memory-bytes", "64M", "--cpu-threads", "1")
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	s := &system{frontend: frontend}
	s.eventually(t, "the server answers on the socket", func() bool {
		resp, err := client.Get("http://vllm/ready")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	if status, _, text := ask(t, client, "POST", "http://vllm/v1/completions", `{"prompt":"Once","max_tokens":2}`); status != http.StatusOK {
		t.Errorf("POST over the socket = %d %s", status, text)
	}
	frontend.signal(t, syscall.SIGTERM)
	if code := frontend.exit(t); code != 0 {
		t.Errorf("the frontend exits with %d", code)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket file is left behind")
	}
}

// While draining, what runs is finished, new requests and /ready get 503, and
// /health stays 200.
func TestDrain(t *testing.T) {
	s := start(t, options{frontend: []string{"--shutdown-timeout", "60"}})
	resp := s.open(t, context.Background(), "/v1/completions", long)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() {
		t.Fatal("the stream ended at once")
	}
	s.frontend.signal(t, syscall.SIGTERM)
	s.eventually(t, "/ready says that the server drains", func() bool {
		status, _, text := ask(t, http.DefaultClient, "GET", s.url+"/ready", "")
		return status == http.StatusServiceUnavailable && strings.Contains(text, "shutting down")
	})
	if status, _, _ := ask(t, http.DefaultClient, "GET", s.url+"/health", ""); status != http.StatusOK {
		t.Errorf("/health while draining is %d, want 200", status)
	}
	if status, a := s.post(t, "/v1/completions", `{"prompt":"a"}`); status != http.StatusServiceUnavailable {
		t.Errorf("a new request while draining gives %d: %v", status, a)
	}
	var last []string
	for lines.Scan() {
		if event, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			last = append(last[max(0, len(last)-1):], event)
		}
	}
	if len(last) != 2 || !strings.Contains(last[0], `"finish_reason":"length"`) || last[1] != "[DONE]" {
		t.Errorf("the stream ends with %q, want its end and [DONE]", last)
	}
	if code := s.frontend.exit(t); code != 0 {
		t.Errorf("the frontend exits with %d", code)
	}
}

// Over the limit requests get 503 at once and are counted; a request that could
// never be let in is told so. What was held comes back.
func TestAdmission(t *testing.T) {
	s := start(t, options{frontend: strings.Fields("--max-num-queued-reqs 3 --max-num-queued-tokens 100000")})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	three := s.open(t, ctx, "/v1/completions", strings.Replace(long, `"temperature":0`, `"n":3,"temperature":1`, 1))
	if !bufio.NewScanner(three.Body).Scan() {
		t.Fatal("the stream ended at once")
	}
	status, header, text := ask(t, http.DefaultClient, "POST", s.url+"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}]}`)
	if status != http.StatusServiceUnavailable || !strings.Contains(text, "3 sequences are in flight, this request needs 1 more, and 3 are allowed") {
		t.Errorf("over the limit a request gets %d %s", status, text)
	}
	if retry := header.Get("Retry-After"); retry != "" {
		t.Errorf("Retry-After is %s although nothing has ever left", retry)
	}
	if status, a := s.post(t, "/v1/completions", `{"prompt":["a","b"],"n":2}`); status != http.StatusBadRequest || !strings.Contains(fmt.Sprint(a), "asks for 4 sequences") {
		t.Errorf("a request for 4 of 3 sequences gets %d %v", status, a)
	}
	if n := value(s.metrics(t), "vllm:admission_rejections_total", "reason", "max_num_queued_reqs"); n != 1 {
		t.Errorf("vllm:admission_rejections_total is %v, want 1", n)
	}
	cancel()
	three.Body.Close()
	s.eventually(t, "all three places are free again", func() bool {
		status, _ := s.post(t, "/v1/completions", `{"prompt":"Once","n":3,"max_tokens":2}`)
		return status == http.StatusOK
	})
}

// goroutines and open files of the frontend, by its own metrics.
func (s *system) held(t *testing.T) (goroutines, files float64) {
	m := s.metrics(t)
	return value(m, "go_goroutines"), value(m, "process_open_fds")
}

// Clients that stop in every way leave nothing behind: no goroutine, no open
// file, no KV cache block, no admitted place.
func TestNoLeaks(t *testing.T) {
	s := start(t, options{frontend: strings.Fields("--max-num-queued-reqs 64 --request-read-timeout 1")})
	address := strings.TrimPrefix(s.url, "http://")
	head := func(body string, length int) string {
		return fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", length, body)
	}
	whole := head(long, len(long))
	unstreamed := strings.Replace(long, `,"stream":true`, "", 1)
	http.DefaultClient.CloseIdleConnections()
	goroutines, files := s.held(t)

	const times = 5 // each way is gone: what it leaves behind shows as that many
	ways := map[string]func(c net.Conn){
		"nothing sent":    func(c net.Conn) {},
		"half a header":   func(c net.Conn) { fmt.Fprint(c, "POST /v1/completions HTTP/1.1\r\nHo") },
		"half a body":     func(c net.Conn) { fmt.Fprint(c, head(`{"prompt":`, 500)) },
		"streaming":       func(c net.Conn) { fmt.Fprint(c, whole); _, _ = bufio.NewReader(c).ReadString('\n') },
		"waiting":         func(c net.Conn) { fmt.Fprint(c, head(unstreamed, len(unstreamed))) },
		"half-closed":     func(c net.Conn) { fmt.Fprint(c, whole); _ = c.(*net.TCPConn).CloseWrite() },
		"reset":           func(c net.Conn) { fmt.Fprint(c, whole); _ = c.(*net.TCPConn).SetLinger(0) },
		"two in a row":    func(c net.Conn) { fmt.Fprint(c, whole+whole) },
		"not even read":   func(c net.Conn) { _ = c.(*net.TCPConn).SetReadBuffer(1); fmt.Fprint(c, whole) },
		"refused":         func(c net.Conn) { fmt.Fprint(c, head(`{"prompt":1}`, 12)) },
		"slow, cut by us": func(c net.Conn) { fmt.Fprint(c, head("{", 500)); _, _ = io.Copy(io.Discard, c) }, // until the server ends it
	}
	var all sync.WaitGroup
	for _, way := range ways {
		for range times {
			all.Go(func() {
				c, err := net.Dial("tcp", address)
				if err != nil {
					t.Error(err)
					return
				}
				way(c)
				c.Close()
			})
		}
	}
	all.Wait()
	s.idle(t)
	s.eventually(t, "goroutines and files are as many as before, but for the server's own", func() bool {
		http.DefaultClient.CloseIdleConnections()
		g, f := s.held(t)
		return g < goroutines+times && f < files+times
	})
	m := s.metrics(t)
	for _, name := range []string{"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"} {
		if v := value(m, name); v != 0 {
			t.Errorf("%s is %v, want 0", name, v)
		}
	}
	// Every place is free: a request for all of them is let in.
	if status, a := s.post(t, "/v1/completions", `{"prompt":"Once","n":64,"max_tokens":1}`); status != http.StatusOK {
		t.Errorf("a request for all 64 places gets %d %v", status, a)
	}
}

// Idle connections cost memory and nothing else: requests are served beside
// them, and nothing is left once they go. GOVLLM_IDLE_CONNECTIONS sets how many
// there are.
func TestIdleConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("idle connections are skipped with -short")
	}
	number := 1000
	if text := os.Getenv("GOVLLM_IDLE_CONNECTIONS"); text != "" {
		var err error
		if number, err = strconv.Atoi(text); err != nil {
			t.Fatalf("GOVLLM_IDLE_CONNECTIONS: %v", err)
		}
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < uint64(number)+100 {
		t.Skipf("%d connections need more than the %d open files allowed (ulimit -n)", number, limit.Cur)
	}
	s := start(t, options{})
	goroutines, files := s.held(t)
	conns := make([]net.Conn, number)
	for i := range conns {
		var err error
		if conns[i], err = net.Dial("tcp", strings.TrimPrefix(s.url, "http://")); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		if i%2 == 0 { // half of them have been used
			fmt.Fprint(conns[i], "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
		}
	}
	s.eventually(t, "the server holds them all", func() bool {
		_, f := s.held(t)
		return f >= files+float64(number)
	})
	if status, a := s.post(t, "/v1/completions", `{"prompt":"Once","max_tokens":3}`); status != http.StatusOK {
		t.Errorf("beside %d idle connections a request gets %d %v", number, status, a)
	}
	t.Logf("%d idle connections: resident memory %.0f MiB", number, value(s.metrics(t), "process_resident_memory_bytes")/(1<<20))
	for _, c := range conns {
		c.Close()
	}
	s.eventually(t, "goroutines and files are as many as before, but for the server's own", func() bool {
		g, f := s.held(t)
		return g < goroutines+5 && f < files+5
	})
}

// The description is one that other programs can read: every reference leads
// somewhere.
func TestOpenAPIReferences(t *testing.T) {
	s := start(t, options{})
	_, _, text := ask(t, http.DefaultClient, "GET", s.url+"/openapi.json", "")
	var d map[string]any
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	schemas, _ := at(d, "components", "schemas").(map[string]any)
	references := 0
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				references++
				if schemas[strings.TrimPrefix(ref, "#/components/schemas/")] == nil {
					t.Errorf("%s leads nowhere", ref)
				}
			}
			for _, member := range v {
				walk(member)
			}
		case []any:
			for _, item := range v {
				walk(item)
			}
		}
	}
	walk(d)
	if d["openapi"] != "3.1.0" || references == 0 {
		t.Errorf("openapi is %v with %d references, want 3.1.0 and some", d["openapi"], references)
	}
}
