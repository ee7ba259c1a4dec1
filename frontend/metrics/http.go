package metrics

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// HTTP counts and times the requests of a ServeMux under the names that
// prometheus-fastapi-instrumentator gives them.
type HTTP struct {
	requests     *prometheus.CounterVec
	requestSize  *prometheus.SummaryVec
	responseSize *prometheus.SummaryVec
	latency      *prometheus.HistogramVec
	highRes      prometheus.Observer
	now          func() time.Time
}

// excluded are the paths that are asked for by machines and not counted.
var excluded = map[string]bool{"/metrics": true, "/health": true, "/load": true,
	"/ping": true, "/ready": true, "/version": true, "/server_info": true}

// NewHTTP registers the http_* metrics.
func (r *Registry) NewHTTP() (*HTTP, error) {
	m := maker{reg: r}
	h := &HTTP{
		requests:     m.counter("http_requests_total", "HTTP requests by route, method and class of status.", "handler", "method", "status"),
		requestSize:  m.summary("http_request_size_bytes", "Length of request bodies as announced; 0 where it was not.", "handler"),
		responseSize: m.summary("http_response_size_bytes", "Length of response bodies as written.", "handler"),
		highRes: m.histogram("http_request_duration_highr_seconds", "Time to the end of the response, of all routes, in fine buckets.",
			[]float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60}).WithLabelValues(),
		latency: m.histogram("http_request_duration_seconds", "Time to the end of the response by route and method, in few buckets.",
			[]float64{0.1, 0.5, 1}, "handler", "method"),
		now: time.Now,
	}
	return h, m.err
}

// Wrap measures what mux serves. It must stand directly around the mux, which
// tells the route by setting the request's Pattern.
func (h *HTTP) Wrap(mux http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if excluded[req.URL.Path] {
			mux.ServeHTTP(w, req)
			return
		}
		start := h.now()
		rw := &responseWriter{ResponseWriter: w}
		returned := false
		defer func() {
			if !returned && rw.status == 0 { // a panic
				rw.status = http.StatusInternalServerError
			}
			h.observe(req, rw, h.now().Sub(start))
		}()
		mux.ServeHTTP(rw, req)
		returned = true
	})
}

func (h *HTTP) observe(req *http.Request, rw *responseWriter, elapsed time.Duration) {
	handler, method := route(req.Pattern), method(req.Method)
	status := strconv.Itoa(max(rw.status, http.StatusOK)/100) + "xx"
	h.requests.WithLabelValues(handler, method, status).Inc()
	h.requestSize.WithLabelValues(handler).Observe(float64(max(req.ContentLength, 0)))
	h.responseSize.WithLabelValues(handler).Observe(float64(rw.size))
	h.highRes.Observe(elapsed.Seconds())
	h.latency.WithLabelValues(handler, method).Observe(elapsed.Seconds())
}

// route is the path of a ServeMux pattern, "none" if no route but a catch-all
// matched.
func route(pattern string) string {
	if i := strings.IndexByte(pattern, '/'); i >= 0 && pattern[i:] != "/" {
		return pattern[i:]
	}
	return "none"
}

// method keeps the label's values few: a client may make methods up.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return m
	}
	return "OTHER"
}

// responseWriter notes the status and size of a response.
type responseWriter struct {
	http.ResponseWriter
	status int // 0 until the header is written
	size   int64
}

func (w *responseWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK { // 1xx may precede the real one
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *responseWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.size += int64(n)
	return n, err
}

// Flush lets handlers stream that look for http.Flusher.
func (w *responseWriter) Flush() {
	if err := http.NewResponseController(w.ResponseWriter).Flush(); err == nil && w.status == 0 {
		w.status = http.StatusOK
	}
}

// Unwrap lets http.ResponseController reach the writer beneath.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Load counts the requests in flight on the inference routes and serves the
// number as /load does: {"server_load": n}.
type Load struct{ inFlight atomic.Int64 }

// Track counts next's requests while they last, of those that ask a model for
// something: POST below /v1/.
func (l *Load) Track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodPost || !strings.HasPrefix(req.URL.Path, "/v1/") {
			next.ServeHTTP(w, req)
			return
		}
		l.inFlight.Add(1)
		defer l.inFlight.Add(-1)
		next.ServeHTTP(w, req)
	})
}

// ServeHTTP answers /load.
func (l *Load) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, "{\"server_load\":%d}", l.inFlight.Load())
}
