package httpserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// config is that of a server whose refusals read "STATUS message".
func config() Config {
	return Config{
		Refuse: func(w http.ResponseWriter, status int, message string) {
			w.WriteHeader(status)
			fmt.Fprint(w, message)
		},
		Log:            slog.New(slog.DiscardHandler),
		OpenPaths:      DefaultOpenPaths(),
		MaxBodyBytes:   1000,
		MaxHeaderBytes: 1 << 16,
		MaxHeaders:     20,
		ReadTimeout:    30 * time.Second,
		WriteTimeout:   time.Minute,
		IdleTimeout:    2 * time.Minute,
	}
}

// echo is an API that answers with the path and body of the request.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	case err == nil:
		fmt.Fprintf(w, "%s %s", r.URL.Path, body)
	}
}

func newServer(t *testing.T, cfg Config, api http.HandlerFunc) *Server {
	t.Helper()
	s, err := New(cfg, api)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ask sends one request; headers are "Name: value".
func ask(s *Server, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func TestKeys(t *testing.T) {
	cfg := config()
	cfg.APIKeys = []string{"first", "second key"}
	s := newServer(t, cfg, echo)
	for _, tc := range []struct {
		path, header string
		want         int
	}{
		{"/v1/models", "", 401},
		{"/v1/models", "Authorization: Bearer first", 200},
		{"/v1/models", "Authorization: bEARER second key", 200},
		{"/v1/models", "Authorization: Bearer second", 401},
		{"/v1/models", "Authorization: Bearer first ", 401},
		{"/v1/models", "Authorization: Bearer", 401},
		{"/v1/models", "Authorization: Basic first", 401},
		{"/v1/models", "Authorization: first", 401},
		{"/v1/models", "X-Api-Key: first", 200},
		{"/v1/models", "X-Api-Key: firs", 401},
		{"/tokenize", "", 401},
		{"/docs", "", 401},
		{"/nowhere", "", 401},
		{"/", "", 401},
		{"/health", "", 200},
		{"/ping", "", 200},
		{"/ready", "", 200},
		{"/metrics", "", 200},
		{"/metrics/", "", 401},
		{"//metrics", "", 401},
		{"/health/../v1/models", "", 401},
	} {
		var headers []string
		if tc.header != "" {
			headers = []string{tc.header}
		}
		w := ask(s, "GET", tc.path, "", headers...)
		if w.Code != tc.want {
			t.Errorf("GET %s with %q = %d, want %d", tc.path, tc.header, w.Code, tc.want)
		}
		if challenge := w.Header().Get("WWW-Authenticate"); (challenge != "") != (tc.want == 401) {
			t.Errorf("GET %s with %q: WWW-Authenticate is %q", tc.path, tc.header, challenge)
		}
	}
	cfg.OpenPaths = []string{"/health", "/version"}
	s = newServer(t, cfg, echo)
	for path, want := range map[string]int{"/metrics": 401, "/version": 200, "/health": 200} {
		if w := ask(s, "GET", path, ""); w.Code != want {
			t.Errorf("with other open paths GET %s = %d, want %d", path, w.Code, want)
		}
	}
}

// The answers of Starlette's CORSMiddleware.
func TestCORS(t *testing.T) {
	all := CORS{Origins: []string{"*"}, Methods: []string{"*"}, Headers: []string{"*"}}
	some := CORS{Origins: []string{"https://a.example"}, Methods: []string{"GET", "POST"}, Headers: []string{"X-One"}}
	credentials := all
	credentials.Credentials = true
	for _, tc := range []struct {
		name    string
		cors    CORS
		method  string
		headers []string
		status  int
		want    string // Allow-Origin | Allow-Methods | Allow-Headers | Allow-Credentials | Vary
	}{
		{"off", CORS{}, "GET", []string{"Origin: https://a.example"}, 200, "||||"},
		{"no origin", all, "GET", nil, 200, "||||"},
		{"simple", all, "GET", []string{"Origin: https://a.example"}, 200, "*||||"},
		{"simple, named", some, "GET", []string{"Origin: https://a.example"}, 200, "https://a.example||||Origin"},
		{"simple, another", some, "GET", []string{"Origin: https://b.example"}, 200, "||||"},
		{"simple, credentials", credentials, "GET", []string{"Origin: https://b.example"}, 200, "https://b.example|||true|Origin"},
		{"preflight", all, "OPTIONS", []string{"Origin: https://a.example", "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization"}, 200,
			"*|DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT|authorization||"},
		{"preflight, named", some, "OPTIONS", []string{"Origin: https://a.example", "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: x-one, content-type"}, 200,
			"https://a.example|GET, POST|Accept, Accept-Language, Content-Language, Content-Type, X-One||Origin"},
		{"preflight, refused", some, "OPTIONS", []string{"Origin: https://b.example", "Access-Control-Request-Method: PUT", "Access-Control-Request-Headers: x-two"}, 400,
			"|GET, POST|Accept, Accept-Language, Content-Language, Content-Type, X-One||"},
		{"options that is none", all, "OPTIONS", []string{"Origin: https://a.example"}, 401, "*||||"},
	} {
		cfg := config()
		cfg.CORS, cfg.APIKeys, cfg.OpenPaths = tc.cors, []string{"k"}, nil
		s := newServer(t, cfg, echo)
		if tc.method != "OPTIONS" {
			tc.headers = append(tc.headers, "X-Api-Key: k")
		}
		w := ask(s, tc.method, "/v1/models", "", tc.headers...)
		h := w.Header()
		got := strings.Join([]string{h.Get("Access-Control-Allow-Origin"), h.Get("Access-Control-Allow-Methods"),
			h.Get("Access-Control-Allow-Headers"), h.Get("Access-Control-Allow-Credentials"), h.Get("Vary")}, "|")
		if w.Code != tc.status || got != tc.want {
			t.Errorf("%s: %d %s, want %d %s", tc.name, w.Code, got, tc.status, tc.want)
		}
	}
}

func TestRootPath(t *testing.T) {
	cfg := config()
	cfg.RootPath, cfg.APIKeys = "/llm", []string{"k"}
	s := newServer(t, cfg, echo)
	for path, want := range map[string]string{
		"/llm/health": "/health ", "/health": "/health ", "/llm/v1/models": "", "/llmhealth": "", "/llm": "", "/llm//v1": "",
	} {
		w := ask(s, "GET", path, "")
		if got := w.Body.String(); (want == "") != (w.Code == 401) || (want != "" && got != want) {
			t.Errorf("GET %s = %d %q, want %q", path, w.Code, got, want)
		}
	}
}

// A client's ID is bounded, and the same in header, log and body; without one
// it is new.
func TestRequestID(t *testing.T) {
	cfg := config()
	var log bytes.Buffer
	cfg.Log, cfg.AccessLog, cfg.EchoRequestID = slog.New(slog.NewTextHandler(&log, nil)), true, true
	var fromBody, seen string
	s := newServer(t, cfg, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/uses" {
			seen = RequestID(r, fromBody)
		}
	})
	for _, tc := range []struct{ path, header, body, want string }{
		{"/uses", "h", "b", "h"},
		{"/uses", "", "b", "b"},
		{"/uses", "", strings.Repeat("b", 1000), strings.Repeat("b", maxRequestIDLen)},
		{"/uses", strings.Repeat("é", 1000), "", strings.Repeat("é", maxRequestIDLen/2)},
		{"/uses", "", "", ""},
		{"/other", "h", "", "h"},
		{"/other", "", "", ""},
	} {
		log.Reset()
		var headers []string
		if tc.header != "" {
			headers = []string{"X-Request-Id: " + tc.header}
		}
		fromBody = tc.body
		echoed := ask(s, "GET", tc.path, "", headers...).Header().Get("X-Request-Id")
		if tc.want != "" && echoed != tc.want || len(echoed) == 0 {
			t.Errorf("%s, header %.10q, body %.10q: X-Request-Id is %q, want %q", tc.path, tc.header, tc.body, echoed, tc.want)
		}
		if tc.path == "/uses" && seen != echoed {
			t.Errorf("the API has the ID %q, the response %q", seen, echoed)
		}
		if !strings.Contains(log.String(), "request_id="+echoed+" ") {
			t.Errorf("the log does not name %q: %s", echoed, log.String())
		}
	}
	if got := RequestID(httptest.NewRequest("GET", "/", nil), ""); len(got) != 32 {
		t.Errorf("RequestID without a server = %q, want 32 digits", got)
	}
	cfg.EchoRequestID = false
	if got := ask(newServer(t, cfg, echo), "GET", "/", "", "X-Request-Id: h").Header().Get("X-Request-Id"); got != "" {
		t.Errorf("X-Request-Id is %q although it is not to be echoed", got)
	}
}

func TestAccessLog(t *testing.T) {
	cfg := config()
	var log bytes.Buffer
	cfg.Log, cfg.AccessLog, cfg.QuietPaths = slog.New(slog.NewTextHandler(&log, nil)), true, []string{"/v1/models"}
	s := newServer(t, cfg, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/panic":
			panic("bug")
		case "/late":
			_, _ = w.Write([]byte("half"))
			panic("bug")
		}
		echo(w, r)
	})
	for path, want := range map[string]string{
		"/v1/completions": `msg="POST /v1/completions" status=200`,
		"/v1/models":      "",
		"/health":         "", // at the debug level
		"/panic":          `msg="POST /panic" status=500`,
		"/late":           `msg="POST /late" status=200`,
	} {
		log.Reset()
		func() {
			defer func() {
				if v := recover(); v != nil && path != "/late" {
					t.Errorf("POST %s ends the connection: %v", path, v)
				}
			}()
			ask(s, "POST", path, "text")
		}()
		if got := log.String(); !strings.Contains(got, want) || (want == "" && got != "") {
			t.Errorf("POST %s logs %q, want %q", path, got, want)
		}
		if strings.Contains(log.String(), "text") {
			t.Errorf("POST %s logs its body: %s", path, log.String())
		}
	}
	cfg.AccessLog = false
	log.Reset()
	if ask(newServer(t, cfg, echo), "POST", "/v1/completions", ""); log.Len() > 0 {
		t.Errorf("without access log it logs %q", log.String())
	}
}

func TestLimits(t *testing.T) {
	s := newServer(t, config(), echo)
	many := slices.Repeat([]string{"X-Many: 1"}, 21)
	for _, tc := range []struct {
		name    string
		body    io.Reader
		headers []string
		want    int
	}{
		{"body that fits", strings.NewReader(strings.Repeat("a", 1000)), nil, 200},
		{"body announced too large", strings.NewReader(strings.Repeat("a", 1001)), nil, 413},
		{"body that turns out too large", io.MultiReader(strings.NewReader(strings.Repeat("a", 1001))), nil, 413},
		{"headers", strings.NewReader(""), many, 431},
		{"compressed", strings.NewReader("x"), []string{"Content-Encoding: gzip"}, 415},
		{"not compressed", strings.NewReader("x"), []string{"Content-Encoding: identity"}, 200},
	} {
		r := httptest.NewRequest("POST", "/", tc.body)
		for _, h := range tc.headers {
			name, value, _ := strings.Cut(h, ": ")
			r.Header.Add(name, value)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != tc.want {
			t.Errorf("%s: %d %s, want %d", tc.name, w.Code, w.Body.String(), tc.want)
		}
	}
}

func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"--api-key is empty":             func(c *Config) { c.APIKeys = []string{"a", ""} },
		"must begin with /":              func(c *Config) { c.OpenPaths = []string{"health"} },
		"--root-path is \"/a/\"":         func(c *Config) { c.RootPath = "/a/" },
		"--ssl-certfile is missing":      func(c *Config) { c.TLS.KeyFile = "k" },
		"--ssl-cert-reqs 2 needs":        func(c *Config) { c.TLS = TLS{CertFile: "c", ClientCerts: ClientCertsRequired} },
		"\"NULL-SHA\" is not served":     func(c *Config) { c.TLS = TLS{CertFile: "c", Ciphers: "NULL-SHA"} },
		"no such file":                   func(c *Config) { c.TLS = TLS{CertFile: "/no/such/file"} },
		"--disable-access-log-for-endpo": func(c *Config) { c.QuietPaths = []string{"x"} },
	} {
		cfg := config()
		change(&cfg)
		if _, err := New(cfg, http.HandlerFunc(echo)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New = %v, want %q", err, want)
		}
	}
}

// pipes is a listener of connections in memory, whose time synctest can turn.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.accept <- server
	return client
}

// inBubble serves api on connections in memory while test runs. The bubble
// ends only if no goroutine is left.
func inBubble(t *testing.T, api http.HandlerFunc, test func(t *testing.T, dial func() net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, config(), api)
		l := &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		test(t, l.dial)
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve = %v", err)
		}
	})
}

// status reads a response and returns its status line.
func status(c net.Conn) string {
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

// A connection that sends its headers or its body a byte at a time is ended;
// one that sends steadily is not.
func TestSlowClients(t *testing.T) {
	const head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n"
	t.Run("headers", func(t *testing.T) {
		inBubble(t, echo, func(t *testing.T, dial func() net.Conn) {
			c, start := dial(), time.Now()
			defer c.Close()
			go func() { _, _ = io.Copy(io.Discard, c) }() // the refusal
			for _, b := range []byte(head) {
				if _, err := c.Write([]byte{b}); err != nil {
					if waited := time.Since(start); waited < 30*time.Second || waited > 50*time.Second {
						t.Errorf("the connection ends after %v, want about 30 s", waited)
					}
					return
				}
				time.Sleep(10 * time.Second)
			}
			t.Error("headers may take as long as they like")
		})
	})
	t.Run("body", func(t *testing.T) {
		inBubble(t, echo, func(t *testing.T, dial func() net.Conn) {
			c, start := dial(), time.Now()
			defer c.Close()
			answer := make(chan string)
			go func() { answer <- status(c) }()
			fmt.Fprint(c, head)
			for time.Since(start) < 5*time.Minute {
				time.Sleep(10 * time.Second)
				if _, err := c.Write([]byte("a")); err != nil {
					break
				}
			}
			if got := <-answer; got != "HTTP/1.1 408 Request Timeout" {
				t.Errorf("a slow body gets %q", got)
			}
			if waited := time.Since(start); waited > time.Minute {
				t.Errorf("a slow body is waited for %v", waited)
			}
		})
	})
	t.Run("none", func(t *testing.T) {
		inBubble(t, echo, func(t *testing.T, dial func() net.Conn) {
			c := dial()
			defer c.Close()
			answer := make(chan string)
			go func() { answer <- status(c) }()
			fmt.Fprint(c, head+strings.Repeat("a", 400))
			time.Sleep(25 * time.Second)
			fmt.Fprint(c, strings.Repeat("a", 500))
			if got := <-answer; got != "HTTP/1.1 200 OK" {
				t.Errorf("a body in two parts gets %q", got)
			}
		})
	})
	t.Run("long answer", func(t *testing.T) {
		inBubble(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			time.Sleep(time.Hour) // the body's time does not run on
			if r.Context().Err() == nil {
				_, _ = w.Write([]byte("done"))
			}
		}, func(t *testing.T, dial func() net.Conn) {
			c := dial()
			defer c.Close()
			fmt.Fprint(c, head+strings.Repeat("a", 900))
			if got := status(c); got != "HTTP/1.1 200 OK" {
				t.Errorf("a request that takes an hour gets %q", got)
			}
		})
	})
	t.Run("idle", func(t *testing.T) {
		inBubble(t, echo, func(t *testing.T, dial func() net.Conn) {
			c, start := dial(), time.Now()
			defer c.Close()
			go fmt.Fprint(c, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
			rest, err := io.ReadAll(c)
			if err != nil || !bytes.HasPrefix(rest, []byte("HTTP/1.1 200 OK")) || time.Since(start) != 2*time.Minute {
				t.Errorf("an idle connection ends after %v with %v: %q", time.Since(start), err, rest)
			}
		})
	})
}

// A client that does not read is dropped, and the handler hears of it.
func TestClientThatDoesNotRead(t *testing.T) {
	var failed error
	inBubble(t, func(w http.ResponseWriter, r *http.Request) {
		for failed == nil {
			if _, failed = w.Write(make([]byte, 4096)); failed == nil {
				failed = http.NewResponseController(w).Flush()
			}
		}
	}, func(t *testing.T, dial func() net.Conn) {
		c, start := dial(), time.Now()
		defer c.Close()
		fmt.Fprint(c, "GET /v1/completions HTTP/1.1\r\nHost: x\r\n\r\n")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if failed == nil {
			t.Errorf("after %v nothing read the handler still writes", time.Since(start))
		}
	})
}

// A handler that generates for a long time hears at once of a client that
// leaves, be it in the middle of the body, half-closed or gone.
func TestDisconnect(t *testing.T) {
	for name, sent := range map[string]string{
		"mid-body":  "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\nabc",
		"waiting":   "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
		"no body":   "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"mid-chunk": "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
	} {
		t.Run(name, func(t *testing.T) {
			done := make(chan error, 1)
			inBubble(t, func(w http.ResponseWriter, r *http.Request) {
				_, err := io.ReadAll(r.Body)
				if err == nil {
					<-r.Context().Done()
					err = r.Context().Err()
				}
				done <- err
			}, func(t *testing.T, dial func() net.Conn) {
				c, start := dial(), time.Now()
				fmt.Fprint(c, sent)
				time.Sleep(20 * time.Second)
				c.Close()
				if err := <-done; err == nil || time.Since(start) != 20*time.Second {
					t.Errorf("the handler ends %v after the client's coming with %v", time.Since(start), err)
				}
			})
		})
	}
}

func TestListenUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen("", 0, path); err == nil {
		t.Fatal("a second listener got a socket that is in use")
	}
	left.SetUnlinkOnClose(false) // as after a crash
	left.Close()
	l, err := Listen("", 0, path)
	if err != nil {
		t.Fatalf("a socket file that a process left behind stands in the way: %v", err)
	}
	l.Close()
}
