package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"govllm/frontend/dashboard"
)

// twoEngines are data with three points; unknown columns are left out.
func twoEngines() *dashboard.Data {
	column := func(v ...float64) map[string]dashboard.Values {
		return map[string]dashboard.Values{"running": v, "kv_usage": {0.1, 0.2, 0.305}, "ttft_p95": {0.01, math.NaN(), 0.0123}, "stalled": {0, 0, 0}}
	}
	d := &dashboard.Data{Model: "m", Now: 1_700_000_000, Interval: 5, Times: []int64{0, 5000, 10000}, Series: []dashboard.Series{
		{Engine: "all", Columns: column(2, 4, 8)}, {Engine: "0", Columns: column(1, 2, 3)}, {Engine: "1", Columns: column(1, 2, 5)}}}
	d.Series[2].Columns["stalled"] = dashboard.Values{0, 0, 1}
	return d
}

func TestScreen(t *testing.T) {
	got := screen("http://x", twoEngines(), nil, 100)
	for _, want := range []string{
		"m at http://x  2 engines",
		"STALLED: engine 1",
		"last 10 seconds",
		"requests running             8  ▃▅█",
		"KV cache in use         30.5 %  ▃▆█",
		"TTFT p95              12.30 ms  ▇ █",
		"requests queued              –",
		"\n1              5         –         –    30.5 %  12.30 ms",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("screen lacks %q:\n%s", want, got)
		}
	}
	for line := range strings.Lines(screen("http://x", twoEngines(), nil, 40)) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 40 {
			t.Errorf("line of %d columns on a terminal of 40: %q", n, line)
		}
	}
	if got := screen("http://x", nil, errors.New("connection refused"), 80); !strings.Contains(got, "no answer: connection refused") {
		t.Errorf("screen of an error = %q", got)
	}
	if got := screen("http://x", &dashboard.Data{}, nil, 80); !strings.Contains(got, "--disable-log-stats") {
		t.Errorf("screen without series = %q", got)
	}
}

func TestSparkline(t *testing.T) {
	nan := math.NaN()
	for _, tc := range []struct {
		values []float64
		width  int
		want   string
	}{
		{nil, 10, ""},
		{[]float64{0, 0}, 10, "▁▁"},
		{[]float64{0, 1, 2, nan, 8}, 10, "▁▂▃ █"},
		{[]float64{1, 8, nan, nan, nan, 4}, 3, "█ ▅"},
	} {
		if got := sparkline(tc.values, tc.width); got != tc.want {
			t.Errorf("sparkline(%v, %d) = %q, want %q", tc.values, tc.width, got, tc.want)
		}
	}
}

func TestUnits(t *testing.T) {
	for _, tc := range []struct {
		unit func(float64) string
		v    float64
		want string
	}{
		{count, 0, "0"}, {count, 0.25, "0.25"}, {count, 1234.5, "1234"}, {count, 123456, "123k"}, {count, 2_500_000, "2.50M"},
		{duration, 0.0012, "1.20 ms"}, {duration, 0.25, "250 ms"}, {duration, 2.5, "2.50 s"}, {percent, 0.5, "50.0 %"},
	} {
		if got := tc.unit(tc.v); got != tc.want {
			t.Errorf("unit of %v = %q, want %q", tc.v, got, tc.want)
		}
	}
}

// The server's own history if it has one, its /metrics if not, and what to do
// about a key.
func TestTopOnce(t *testing.T) {
	scrapes := 0
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		scrapes++
		fmt.Fprintf(w, "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\",model_name=\"foreign\"} 7\n"+
			"# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total{engine=\"0\"} %d\n", 1_000_000*scrapes)
	})
	foreign := httptest.NewServer(mux)
	defer foreign.Close()
	ours := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer k" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_ = json.NewEncoder(w).Encode(twoEngines())
	}))
	defer ours.Close()
	for _, tc := range []struct{ name, url, key, want, says string }{
		{"history", ours.URL, "k", "m at " + ours.URL, ""},
		{"no scheme", strings.TrimPrefix(ours.URL, "http://"), "k", "m at " + ours.URL, ""},
		{"no key", ours.URL + "/", "", "", "--api-key"},
		{"metrics", foreign.URL, "", "foreign at " + foreign.URL + "  1 engine ", ""},
		{"nobody", "http://127.0.0.1:1", "", "", "connection refused"},
	} {
		path := filepath.Join(t.TempDir(), "out")
		out, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		err = watch(context.Background(), &topOptions{URL: tc.url, APIKey: tc.key, Interval: 0.01}, out)
		out.Close()
		got, _ := os.ReadFile(path)
		if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.says)
		}
		if !strings.Contains(string(got), tc.want) {
			t.Errorf("%s: output lacks %q:\n%s", tc.name, tc.want, got)
		}
	}
	if scrapes != 2 {
		t.Errorf("%d scrapes for one screen, want 2: rates need two", scrapes)
	}
}
