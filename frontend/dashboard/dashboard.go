package dashboard

import (
	"context"
	"embed"
	"encoding/json"
	"log/slog"
	"net/http"
	"path"
	"time"

	dto "github.com/prometheus/client_model/go"
)

//go:embed static
var static embed.FS

// Source gives the present value of every metric; metrics.Registry is one.
type Source interface {
	Gather() ([]*dto.MetricFamily, error)
}

// Dashboard serves the page of one frontend.
type Dashboard struct {
	source  Source
	log     *slog.Logger
	history *History
}

// New returns a dashboard without a past; Run gives it one. log may be nil.
func New(source Source, log *slog.Logger) *Dashboard {
	if log == nil {
		log = slog.Default()
	}
	return &Dashboard{source: source, log: log, history: NewHistory()}
}

// Run samples the source every Interval until ctx ends.
func (d *Dashboard) Run(ctx context.Context) {
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		families, err := d.source.Gather()
		if err != nil {
			d.log.Warn("dashboard: some metrics are missing", "error", err)
		}
		d.history.Add(time.Now(), families)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Routes are the page's, by ServeMux pattern.
func (d *Dashboard) Routes() map[string]http.Handler {
	return map[string]http.Handler{
		"GET /dashboard":               file("index.html", "text/html; charset=utf-8"),
		"GET /dashboard/{$}":           http.RedirectHandler("../dashboard", http.StatusTemporaryRedirect),
		"GET /dashboard/dashboard.css": file("dashboard.css", "text/css; charset=utf-8"),
		"GET /dashboard/dashboard.js":  file("dashboard.js", "text/javascript; charset=utf-8"),
		"GET /dashboard/data":          http.HandlerFunc(d.data),
	}
}

// file serves an embedded file. The page may load only what is its own.
func file(name, contentType string) http.Handler {
	body, err := static.ReadFile(path.Join("static", name))
	if err != nil {
		panic(err) // it is in the binary
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", contentType)
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'")
		h.Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(body)
	})
}

func (d *Dashboard) data(w http.ResponseWriter, _ *http.Request) {
	body, err := json.Marshal(d.history.Data(time.Now()))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(body)
}
