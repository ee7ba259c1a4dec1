package flags

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"govllm/frontend/api/httpserver"
)

// Every flag of the HTTP server reaches its configuration.
func TestServerFlags(t *testing.T) {
	defaults := func() httpserver.Config {
		return httpserver.Config{
			OpenPaths:    []string{"/health", "/ping", "/ready", "/metrics"},
			CORS:         httpserver.CORS{Methods: []string{"*"}, Headers: []string{"*"}},
			AccessLog:    true,
			MaxBodyBytes: 64 << 20, MaxHeaderBytes: 4 << 20, MaxHeaders: 256,
			ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, WriteTimeout: time.Minute,
		}
	}
	for args, change := range map[string]func(*httpserver.Config){
		"":                        func(*httpserver.Config) {},
		"--api-key a --api-key b": func(c *httpserver.Config) { c.APIKeys = []string{"a", "b"} },
		"--unauthenticated-paths /health /version":          func(c *httpserver.Config) { c.OpenPaths = []string{"/health", "/version"} },
		`--allowed-origins ["https://a"]`:                   func(c *httpserver.Config) { c.CORS.Origins = []string{"https://a"} },
		"--allowed-methods GET":                             func(c *httpserver.Config) { c.CORS.Methods = []string{"GET"} },
		"--allowed-headers X-A":                             func(c *httpserver.Config) { c.CORS.Headers = []string{"X-A"} },
		"--allow-credentials":                               func(c *httpserver.Config) { c.CORS.Credentials = true },
		"--ssl-certfile c --ssl-keyfile k":                  func(c *httpserver.Config) { c.TLS.CertFile, c.TLS.KeyFile = "c", "k" },
		"--ssl-ca-certs a --ssl-cert-reqs 2":                func(c *httpserver.Config) { c.TLS.CAFile, c.TLS.ClientCerts = "a", httpserver.ClientCertsRequired },
		"--ssl-ciphers X --enable-ssl-refresh":              func(c *httpserver.Config) { c.TLS.Ciphers, c.TLS.Refresh = "X", true },
		"--root-path /llm":                                  func(c *httpserver.Config) { c.RootPath = "/llm" },
		"--enable-request-id-headers":                       func(c *httpserver.Config) { c.EchoRequestID = true },
		"--disable-uvicorn-access-log":                      func(c *httpserver.Config) { c.AccessLog = false },
		"--disable-access-log-for-endpoints /health,/a":     func(c *httpserver.Config) { c.QuietPaths = []string{"/health", "/a"} },
		"--max-request-body-bytes 1k":                       func(c *httpserver.Config) { c.MaxBodyBytes = 1000 },
		"--h11-max-incomplete-event-size 1K":                func(c *httpserver.Config) { c.MaxHeaderBytes = 1024 },
		"--h11-max-header-count 9":                          func(c *httpserver.Config) { c.MaxHeaders = 9 },
		"--request-read-timeout 0.5 --timeout-keep-alive 5": func(c *httpserver.Config) { c.ReadTimeout, c.IdleTimeout = time.Second/2, 5*time.Second },
	} {
		f, set := NewFrontend()
		want := defaults()
		change(&want)
		if err := set.Parse(strings.Fields(args)); err != nil {
			t.Errorf("Parse(%q) = %v", args, err)
		} else if got := f.Server(); !reflect.DeepEqual(got, want) {
			t.Errorf("%q gives %+v, want %+v", args, got, want)
		}
	}
}

// The other options of what is let in and what is told of it.
func TestEdgeFlags(t *testing.T) {
	t.Setenv("VLLM_API_KEY", "e")
	t.Setenv("VLLM_SERVER_DEV_MODE", "1")
	t.Setenv("VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "7")
	f, set := NewFrontend()
	args := "--uds /s --sse-keep-alive-interval 1.5 --max-num-queued-reqs 3 --max-num-queued-tokens 4k --enable-log-requests --enable-log-outputs --no-enable-log-deltas --max-log-len 9 --disable-fastapi-docs --enable-offline-docs --log-level debug --logging-config.formatter json"
	if err := set.Parse(strings.Fields(args)); err != nil {
		t.Fatal(err)
	}
	want := defaultHTTP()
	want.SSEKeepAlive = 1.5
	want.UDS, want.MaxQueuedReqs, want.MaxQueuedTokens = "/s", 3, 4000
	want.LogRequests, want.LogOutputs, want.LogDeltas, want.MaxLogLen = true, true, false, 9
	want.DisableDocs, want.DevMode, want.APIKeys, want.KeepAlive = true, true, []string{"e"}, 7
	if !reflect.DeepEqual(f.HTTP, want) {
		t.Errorf("options are %+v, want %+v", f.HTTP, want)
	}
	if l, err := f.Logging(); err != nil || l.Level != "debug" || l.Format != "json" {
		t.Errorf("Logging() = %+v, %v, want debug and json", l, err)
	}
	for _, bad := range []string{"--max-num-queued-reqs 0", "--ssl-cert-reqs 3", "--max-log-len -2", "--middleware a.b", "--uvicorn-log-level debug"} {
		if _, set := NewFrontend(); set.Parse(strings.Fields(bad)) == nil {
			t.Errorf("Parse(%q) is accepted", bad)
		}
	}
}
