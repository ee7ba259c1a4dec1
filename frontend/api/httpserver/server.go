package httpserver

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Config of a Server. All of it is fixed at start.
type Config struct {
	// Refuse answers a request that the API does not get to see.
	Refuse func(w http.ResponseWriter, status int, message string)
	Log    *slog.Logger

	APIKeys   []string // any of them opens; none: no key is asked for
	OpenPaths []string // that want no key
	CORS      CORS
	TLS       TLS
	RootPath  string // that a proxy in front puts before every path; "" for none

	EchoRequestID bool // as X-Request-Id
	AccessLog     bool
	QuietPaths    []string // that the access log leaves out

	MaxBodyBytes   int64         // of a request
	MaxHeaderBytes int           // of all its headers
	MaxHeaders     int           // their number
	ReadTimeout    time.Duration // for the headers, and to begin with for the body: minBodyRate extends it
	WriteTimeout   time.Duration // that a client may leave a write unread
	IdleTimeout    time.Duration // of a connection between two requests
}

// DefaultOpenPaths are asked for by probes and scrapers, which have no keys.
func DefaultOpenPaths() []string { return []string{"/health", "/ping", "/ready", "/metrics"} }

// Validate reports everything that is wrong with c, by vLLM's names of the
// options.
func (c *Config) Validate() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if slices.Contains(c.APIKeys, "") {
		refuse("--api-key is empty: everyone would have it; leave it out to ask for no key")
	}
	for _, p := range slices.Concat(c.OpenPaths, c.QuietPaths) {
		if !strings.HasPrefix(p, "/") {
			refuse("path %q (--unauthenticated-paths, --disable-access-log-for-endpoints) must begin with /", p)
		}
	}
	if c.RootPath != "" && (!strings.HasPrefix(c.RootPath, "/") || strings.HasSuffix(c.RootPath, "/")) {
		refuse("--root-path is %q, want one that begins with / and does not end with it, as /llm", c.RootPath)
	}
	errs = append(errs, c.TLS.validate())
	return errors.Join(errs...)
}

// Server serves one API on one listener.
type Server struct {
	cfg  Config
	log  *slog.Logger
	keys keys
	cors *cors // nil: no cross-origin access
	next http.Handler
	http http.Server
}

// New returns a server of the API next. It reads the TLS files.
func New(cfg Config, next http.Handler) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, log: cfg.Log, keys: newKeys(cfg.APIKeys), cors: newCORS(cfg.CORS), next: next}
	tls, err := cfg.TLS.config(cfg.Log)
	if err != nil {
		return nil, err
	}
	s.http = http.Server{
		Handler:           s,
		Protocols:         new(http.Protocols),
		TLSConfig:         tls,
		ReadHeaderTimeout: cfg.ReadTimeout, // the TLS handshake's as well
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    cfg.MaxHeaderBytes,
		ErrorLog:          log.New(errorLog{cfg.Log}, "", 0),
	}
	s.http.Protocols.SetHTTP1(true) // as vLLM: no HTTP/2
	return s, nil
}

// Serve takes connections from l until Shutdown or Close, and returns
// http.ErrServerClosed then.
func (s *Server) Serve(l net.Listener) error {
	if s.http.TLSConfig != nil {
		return s.http.ServeTLS(l, "", "")
	}
	return s.http.Serve(l)
}

// Shutdown closes the listener and idle connections and waits until the rest
// are idle.
func (s *Server) Shutdown(ctx context.Context) error { return s.http.Shutdown(ctx) }

// Close ends every connection.
func (s *Server) Close() error { return s.http.Close() }

// ServeHTTP takes one request through everything that stands before the API.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := s.newExchange(w, r)
	r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
	defer s.finish(x, r)
	defer s.rescue(x)
	r = s.withoutRoot(r)
	x.path = r.URL.Path
	switch {
	case s.cors.answer(x, r):
	case numHeaders(r) > s.cfg.MaxHeaders:
		s.cfg.Refuse(x, http.StatusRequestHeaderFieldsTooLarge,
			fmt.Sprintf("The request has %d headers, more than the %d allowed; --h11-max-header-count of the server raises that.", numHeaders(r), s.cfg.MaxHeaders))
	case !s.authorized(r):
		w.Header().Set("WWW-Authenticate", challenge(r))
		s.cfg.Refuse(x, http.StatusUnauthorized, "This server wants an API key: send the header `Authorization: Bearer KEY` or `x-api-key: KEY`.")
	case r.ContentLength > s.cfg.MaxBodyBytes:
		w.Header().Set("Connection", "close") // nobody will read the body
		s.cfg.Refuse(x, http.StatusRequestEntityTooLarge,
			fmt.Sprintf("The request body has %d bytes, more than the %d allowed; --max-request-body-bytes of the server raises that.", r.ContentLength, s.cfg.MaxBodyBytes))
	case r.Header.Get("Content-Encoding") != "" && r.Header.Get("Content-Encoding") != "identity":
		s.cfg.Refuse(x, http.StatusUnsupportedMediaType, "The request body is compressed (Content-Encoding); send it as it is.")
	default:
		r.Body = x.bound(r.Body, s.cfg.MaxBodyBytes, s.cfg.ReadTimeout)
		s.next.ServeHTTP(x, r)
	}
}

// withoutRoot takes the root path off the request's; a proxy may have done so
// already.
func (s *Server) withoutRoot(r *http.Request) *http.Request {
	path, ok := strings.CutPrefix(r.URL.Path, s.cfg.RootPath)
	if s.cfg.RootPath == "" || !ok || !strings.HasPrefix(path, "/") {
		return r
	}
	u := *r.URL
	u.Path, u.RawPath = path, strings.TrimPrefix(u.RawPath, s.cfg.RootPath)
	r = r.WithContext(r.Context()) // a copy
	r.URL = &u
	return r
}

func numHeaders(r *http.Request) (n int) {
	for _, values := range r.Header {
		n += len(values)
	}
	return n
}

// rescue answers for a handler that has panicked; of a response that has
// begun the client must see that it is not whole.
func (s *Server) rescue(x *exchange) {
	v := recover()
	if v == nil {
		return
	}
	if v != http.ErrAbortHandler {
		s.log.Error("panic while serving a request", "request_id", x.id, "panic", v, "stack", string(debug.Stack()))
		if x.status == 0 {
			s.cfg.Refuse(x, http.StatusInternalServerError, fmt.Sprintf("Internal error while serving request %s.", x.id))
			return
		}
	}
	x.aborted = true
}

// errorLog takes what net/http reports of connections, most of it the doing of
// port scanners.
type errorLog struct{ log *slog.Logger }

func (l errorLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	level := slog.LevelDebug
	if strings.HasPrefix(text, "http: Accept error") {
		level = slog.LevelError
	}
	l.log.Log(context.Background(), level, text)
	return len(line), nil
}
