package httpserver

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	// maxRequestIDLen bounds what is taken from a client as a request ID: it
	// is repeated in every chunk of a stream.
	maxRequestIDLen = 128
	// minBodyRate is the pace, in bytes a second, below which a body is too
	// slow once its ReadTimeout is over.
	minBodyRate = 1 << 10
	// minWriteRate is the same for a large answer.
	minWriteRate = 16 << 10
	// statusClientClosed is what the access log says of a request whose client
	// left before the answer; the number is nginx's.
	statusClientClosed = 499
)

// exchange is one request and its response. It is the response writer that the
// API sees.
type exchange struct {
	http.ResponseWriter
	server  *Server
	control *http.ResponseController
	start   time.Time

	id      string // of the request
	path    string // without the root path
	status  int    // 0 until the header is written
	size    int64  // bytes of the response's body
	slow    bool   // the body came too slowly
	aborted bool   // a panic: the connection must end
}

type exchangeKey struct{}

func (s *Server) newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{ResponseWriter: w, server: s, control: http.NewResponseController(w), start: time.Now()}
	if x.id = boundID(r.Header.Get("X-Request-Id")); x.id == "" {
		x.id = NewID()
	}
	_ = x.control.SetWriteDeadline(time.Time{}) // the last request's may be over
	return x
}

// RequestID is the ID of a request: the client's, from the header X-Request-Id
// or else from its body, or a new one. Log lines and the header of the response
// have it from then on.
func RequestID(r *http.Request, fromBody string) string {
	id := boundID(r.Header.Get("X-Request-Id"))
	if id == "" {
		id = boundID(fromBody)
	}
	x, ok := r.Context().Value(exchangeKey{}).(*exchange)
	switch {
	case ok && id == "":
		return x.id
	case ok:
		x.id = id
	case id == "":
		id = NewID()
	}
	return id
}

// NewID is a random ID of 32 hexadecimal digits.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func boundID(id string) string {
	if len(id) > maxRequestIDLen {
		id = strings.ToValidUTF8(id[:maxRequestIDLen], "")
	}
	return id
}

func (x *exchange) WriteHeader(status int) {
	if x.status == 0 && status >= http.StatusOK { // 1xx may precede the real one
		x.status = status
		if x.server.cfg.EchoRequestID {
			x.Header().Set("X-Request-Id", x.id)
		}
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write gives the client time to take what is written, and no more.
func (x *exchange) Write(b []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	patience := x.server.cfg.WriteTimeout + time.Duration(len(b)/minWriteRate)*time.Second
	_ = x.control.SetWriteDeadline(time.Now().Add(patience)) // recorders of tests know no deadlines
	n, err := x.ResponseWriter.Write(b)
	x.size += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// bound holds a body to a size and a pace.
func (x *exchange) bound(body io.ReadCloser, size int64, timeout time.Duration) io.ReadCloser {
	if body == nil || body == http.NoBody {
		return body
	}
	b := &pacedBody{ReadCloser: body, x: x, deadline: x.start.Add(timeout)}
	_ = x.control.SetReadDeadline(b.deadline)
	return http.MaxBytesReader(x.ResponseWriter, b, size)
}

// pacedBody is a body that must keep coming: a deadline that every byte moves
// on a little. At its end the deadline goes, so that the server can watch for
// the client's leaving.
type pacedBody struct {
	io.ReadCloser
	x        *exchange
	deadline time.Time
}

func (b *pacedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.x.slow = errors.Is(err, os.ErrDeadlineExceeded)
		if errors.Is(err, io.EOF) {
			_ = b.x.control.SetReadDeadline(time.Time{})
		}
		return n, err
	}
	b.deadline = b.deadline.Add(time.Duration(n) * time.Second / minBodyRate)
	_ = b.x.control.SetReadDeadline(b.deadline)
	return n, err
}

// finish answers where the API left that out, and logs.
func (s *Server) finish(x *exchange, r *http.Request) {
	gone := r.Context().Err() != nil
	switch {
	case x.status != 0 || x.aborted:
	case x.slow:
		x.Header().Set("Connection", "close")
		s.cfg.Refuse(x, http.StatusRequestTimeout, "The request body did not come in time; send it faster than 1 KiB/s.")
	case gone:
		x.status = statusClientClosed
	default:
		x.WriteHeader(http.StatusOK)
	}
	s.logAccess(x, r)
	if x.aborted {
		panic(http.ErrAbortHandler)
	}
}

// probes are asked for every few seconds by machines, and logged at the debug
// level.
var probes = []string{"/health", "/ping", "/ready", "/metrics", "/load", "/version", "/dashboard/data"}

func (s *Server) logAccess(x *exchange, r *http.Request) {
	if !s.cfg.AccessLog || slices.Contains(s.cfg.QuietPaths, x.path) {
		return
	}
	level := slog.LevelInfo
	if slices.Contains(probes, x.path) {
		level = slog.LevelDebug
	}
	s.log.LogAttrs(context.Background(), level, r.Method+" "+r.URL.Path,
		slog.Int("status", x.status),
		slog.String("request_id", x.id),
		slog.String("client", r.RemoteAddr),
		slog.Int64("bytes", x.size),
		slog.Duration("duration", time.Since(x.start).Round(time.Millisecond)))
}
