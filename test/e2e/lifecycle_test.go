package e2e

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// long is a request that goes on until it is stopped.
const long = `{"prompt":"Once","max_tokens":1000,"ignore_eos":true,"temperature":0,"stream":true}`

func TestEitherOrder(t *testing.T) {
	for name, coreFirst := range map[string]bool{"core first": true, "frontend first": false} {
		t.Run(name, func(t *testing.T) {
			s := start(t, options{coreFirst: coreFirst})
			if status, a := s.post(t, "/v1/completions", `{"prompt":"Once","max_tokens":3}`); status != http.StatusOK {
				t.Errorf("status %d: %v", status, a)
			}
			// SIGTERM ends both with status 0.
			s.frontend.signal(t, syscall.SIGTERM)
			s.core.signal(t, syscall.SIGTERM)
			if f, c := s.frontend.exit(t), s.core.exit(t); f != 0 || c != 0 {
				t.Errorf("after SIGTERM the frontend exits with %d and the core with %d, want 0", f, c)
			}
		})
	}
}

// A client that goes away frees what it held, streaming or not.
func TestDisconnect(t *testing.T) {
	s := start(t, options{})
	for name, body := range map[string]string{
		"streaming": long,
		"waiting":   strings.Replace(long, `,"stream":true`, "", 1),
	} {
		before := value(s.metrics(t), "vllm:request_success_total", "finished_reason", "abort")
		ctx, cancel := context.WithCancel(context.Background())
		if name == "streaming" {
			resp := s.open(t, ctx, "/v1/completions", body)
			if !bufio.NewScanner(resp.Body).Scan() {
				t.Fatal("the stream ended at once")
			}
			cancel()
			resp.Body.Close()
		} else {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/completions", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				if resp, err := http.DefaultClient.Do(req); err == nil {
					resp.Body.Close()
				}
			}()
			s.eventually(t, "the request runs", func() bool { return value(s.metrics(t), "vllm:num_requests_running") > 0 })
			cancel()
			<-gone
		}
		s.idle(t)
		s.eventually(t, name+": the abort is counted once", func() bool {
			return value(s.metrics(t), "vllm:request_success_total", "finished_reason", "abort") == before+1
		})
	}
}

// When the core dies, streams end with an error, new requests and /health say
// 503, and the frontend exits with a status that tells of it.
func TestCoreDies(t *testing.T) {
	s := start(t, options{})
	resp := s.open(t, context.Background(), "/v1/completions", long)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() {
		t.Fatal("the stream ended at once")
	}
	s.core.signal(t, syscall.SIGKILL)
	var events []string
	for lines.Scan() {
		if event, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			events = append(events, event)
		}
	}
	if n := len(events); n < 2 || !strings.Contains(events[n-2], `"error"`) || events[n-1] != "[DONE]" {
		t.Errorf("the stream ends with %q, want an error and [DONE]", events)
	}
	health, err := http.Get(s.url + "/health")
	if err != nil {
		t.Fatalf("the frontend is gone before probes could see it: %v", err)
	}
	health.Body.Close()
	if health.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("/health is %d, want 503", health.StatusCode)
	}
	if status, a := s.post(t, "/v1/completions", `{"prompt":"a"}`); status != http.StatusServiceUnavailable {
		t.Errorf("a new request gives %d: %v", status, a)
	}
	if code := s.frontend.exit(t); code == 0 {
		t.Error("the frontend exits with 0 although its engine died")
	}
}

// When the frontend dies, is stopped or cut off, the core does not stay behind.
func TestFrontendDies(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			s := start(t, options{})
			s.frontend.signal(t, signal)
			if code := s.core.exit(t); code == 0 {
				t.Error("the core exits with 0 although its frontend is gone")
			}
		})
	}
}

func TestStartRefusals(t *testing.T) {
	s := start(t, options{})
	_, port, _ := strings.Cut(strings.TrimPrefix(s.url, "http://"), ":")
	for _, tc := range []struct {
		name, bin string
		args      string
		want      string
	}{
		{"API port in use", "vllm-frontend", "--host 127.0.0.1 --port " + port + " --data-parallel-rpc-port " + freePort(t), "in use"},
		{"handshake port in use", "vllm-frontend", "--port 0 --data-parallel-rpc-port " + s.handshakePort, "in use"},
		{"second core of a rank", "vllm-core", "--kv-cache-memory-bytes 64M --data-parallel-rpc-port " + s.handshakePort, "rank"},
		{"no such model", "vllm-core", "--model /no/such/model", "/no/such/model"},
		{"no such model, frontend", "vllm-frontend", "/no/such/model", "/no/such/model"},
		{"unknown flag", "vllm-core", "--max-num-sqs 3", "did you mean --max-num-seqs?"},
		{"flag of the other", "vllm-core", "--port 80", "vllm-frontend"},
		{"flag not served", "vllm-frontend", "--enable-lora", "not supported"},
		{"context too long", "vllm-core", "--max-model-len 1000000", "1000000"},
		{"cache too small", "vllm-core", "--kv-cache-memory-bytes 1K", "KV"},
		{"block size", "vllm-core", "--block-size 7", "7"},
	} {
		p := launch(t, tc.bin, nil, strings.Fields(tc.args)...)
		code := p.exit(t)
		if code == 0 || !strings.Contains(p.output(), tc.want) {
			t.Errorf("%s: %s %s exits with %d and says %q, want %q", tc.name, tc.bin, tc.args, code, p.output(), tc.want)
		}
	}
	// None of that disturbed the system that was running.
	if status, a := s.post(t, "/v1/completions", `{"prompt":"Once","max_tokens":3}`); status != http.StatusOK {
		t.Errorf("status %d: %v", status, a)
	}
}

// A second signal does not wait for anything.
func TestSecondSignal(t *testing.T) {
	s := start(t, options{frontend: []string{"--shutdown-timeout", "3600"}})
	resp := s.open(t, context.Background(), "/v1/completions", long)
	defer resp.Body.Close()
	s.frontend.signal(t, syscall.SIGTERM)
	s.eventually(t, "new requests are refused", func() bool {
		status, _ := s.post(t, "/v1/completions", `{"prompt":"a","max_tokens":1}`)
		return status == http.StatusServiceUnavailable
	})
	s.frontend.signal(t, syscall.SIGTERM)
	if code := s.frontend.exit(t); code == 0 {
		t.Error("the second signal gives status 0")
	}
}
