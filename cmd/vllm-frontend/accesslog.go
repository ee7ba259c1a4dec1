package main

import (
	"log/slog"
	"net/http"
	"time"
)

// accessLog logs each request when it has been answered. Health checks and
// scrapes, which come every second, go to the debug level. A nil log is none.
func accessLog(log *slog.Logger, next http.Handler) http.Handler {
	if log == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		sw := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(sw, r)
		level := slog.LevelInfo
		switch r.URL.Path {
		case "/health", "/ping", "/metrics", "/load", "/version":
			level = slog.LevelDebug
		}
		log.Log(r.Context(), level, r.Method+" "+r.URL.Path, "status", sw.status,
			"client", r.RemoteAddr, "duration", time.Since(start).Round(time.Millisecond))
	})
}

// statusWriter remembers the status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
