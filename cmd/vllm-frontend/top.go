package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sys/unix"

	dto "github.com/prometheus/client_model/go"

	"govllm/cmd/internal/cli"
	"govllm/frontend/dashboard"
)

// topOptions are those of `vllm-frontend top`.
type topOptions struct {
	URL      string
	APIKey   string
	Interval float64 // seconds
	Once     bool
}

const topSummary = `
usage: vllm-frontend top [URL] [flags]

Shows a running server in the terminal: requests, tokens, latencies, KV cache
and steps, with the last 15 minutes as small charts. It reads the server's
/dashboard/data, or /metrics where that is missing: vLLM's own server can be
looked at too, from now on. Ctrl-C ends it.`

func newTop() (*topOptions, *cli.Set) {
	o := &topOptions{URL: "http://127.0.0.1:8000", Interval: 2}
	return o, &cli.Set{Command: "vllm-frontend top", Summary: topSummary, Positional: "url", Flags: []cli.Flag{
		{Name: "url", Group: "Server", Help: "where the server is", Value: cli.String(&o.URL)},
		{Name: "api-key", Group: "Server", Help: "key of a server that asks for one", Env: "VLLM_API_KEY", Value: cli.String(&o.APIKey)},
		{Name: "interval", Group: "Screen", Help: "seconds between two looks", Value: cli.Float(&o.Interval, 0.1, 3600)},
		{Name: "once", Group: "Screen", Help: "print once and end, as also happens where output is no terminal", Value: cli.Bool(&o.Once)},
	}}
}

// top is the command of that name; it returns the exit status.
func top(args []string) int {
	opts, set := newTop()
	switch err := set.Parse(args); {
	case errors.Is(err, cli.ErrHelp):
		set.Help(os.Stdout)
		return 0
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %v\n", set.Command, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := watch(ctx, opts, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", set.Command, err)
		return 1
	}
	return 0
}

// watch draws until ctx ends. A server that goes away is waited for: the
// screen says so.
func watch(ctx context.Context, opts *topOptions, out *os.File) error {
	w := &watcher{base: strings.TrimSuffix(opts.URL, "/"), key: opts.APIKey, history: dashboard.NewHistory()}
	if !strings.Contains(w.base, "://") {
		w.base = "http://" + w.base
	}
	interval := time.Duration(opts.Interval * float64(time.Second))
	width, tty := terminal(out)
	if opts.Once || !tty {
		return once(ctx, w, interval, width, out)
	}
	fmt.Fprint(out, "\x1b[?25l") // no cursor
	defer fmt.Fprint(out, "\x1b[?25h")
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		d, err := w.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		width, _ = terminal(out)
		fmt.Fprint(out, "\x1b[H"+strings.ReplaceAll(screen(w.base, d, err, width), "\n", "\x1b[K\n")+"\x1b[J")
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// once prints one screen. Rates need two looks where the server keeps no past.
func once(ctx context.Context, w *watcher, interval time.Duration, width int, out io.Writer) error {
	d, err := w.look(ctx)
	if err == nil && w.scrapes {
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return nil
		}
		d, err = w.look(ctx)
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, screen(w.base, d, nil, width))
	return err
}

// terminal returns the width of f, 80 if it has none.
func terminal(f *os.File) (width int, tty bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 {
		return 80, false
	}
	return int(size.Col), true
}

// watcher asks a server for its history, or keeps one from its /metrics.
type watcher struct {
	base, key string
	scrapes   bool // the server has no /dashboard/data
	history   *dashboard.History
}

// lookTimeout bounds one question.
const lookTimeout = 10 * time.Second

func (w *watcher) look(ctx context.Context) (*dashboard.Data, error) {
	if !w.scrapes {
		resp, err := w.get(ctx, "/dashboard/data")
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		switch resp.StatusCode {
		case http.StatusOK:
			d := new(dashboard.Data)
			if err := json.NewDecoder(resp.Body).Decode(d); err != nil {
				return nil, fmt.Errorf("%s/dashboard/data: %w", w.base, err)
			}
			return d, nil
		case http.StatusNotFound:
			w.scrapes = true
		default:
			return nil, w.refused(resp)
		}
	}
	return w.scrape(ctx)
}

func (w *watcher) scrape(ctx context.Context) (*dashboard.Data, error) {
	resp, err := w.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, w.refused(resp)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	parsed, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%s/metrics: %w", w.base, err)
	}
	var families []*dto.MetricFamily
	for _, f := range parsed {
		families = append(families, f)
	}
	now := time.Now()
	w.history.Add(now, families)
	return w.history.Data(now), nil
}

func (w *watcher) get(ctx context.Context, path string) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.base+path, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	if w.key != "" {
		req.Header.Set("Authorization", "Bearer "+w.key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("%w; if the server is elsewhere, give its URL: vllm-frontend top URL", err)
	}
	resp.Body = &cancelling{resp.Body, cancel}
	return resp, nil
}

// cancelling ends a question's context with its body.
type cancelling struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (c *cancelling) Close() error {
	defer c.cancel()
	return c.ReadCloser.Close()
}

func (w *watcher) refused(resp *http.Response) error {
	if resp.StatusCode == http.StatusUnauthorized {
		return fmt.Errorf("%s asks for a key; give it with --api-key or VLLM_API_KEY", w.base)
	}
	return fmt.Errorf("%s answers %s", resp.Request.URL, resp.Status)
}

// row is one line of the screen: a column of all engines together, and how it
// went.
type row struct {
	name, column string
	unit         func(float64) string
}

var rows = []row{
	{"requests running", "running", count},
	{"requests queued", "queued", count},
	{"requests sent", "sent", count},
	{"requests tokenizing", "tokenizing", count},
	{"requests finished/s", "finished", count},
	{"generated tokens/s", "generated_tokens", count},
	{"prompt tokens/s", "prompt_tokens", count},
	{"TTFT p50", "ttft_p50", duration},
	{"TTFT p95", "ttft_p95", duration},
	{"TTFT p99", "ttft_p99", duration},
	{"ITL p50", "itl_p50", duration},
	{"ITL p95", "itl_p95", duration},
	{"ITL p99", "itl_p99", duration},
	{"KV cache in use", "kv_usage", percent},
	{"tokens in KV cache", "tokens_running", count},
	{"tokens pending", "tokens_pending", count},
	{"tokens waiting", "tokens_waiting", count},
	{"preemptions/s", "preemptions", count},
	{"steps/s", "steps", count},
	{"step p50", "step_p50", duration},
	{"step p99", "step_p99", duration},
}

// perEngine are the columns of the table of engines, if there are several.
var perEngine = []row{
	{"running", "running", count}, {"queued", "queued", count}, {"tok/s", "generated_tokens", count}, {"KV", "kv_usage", percent},
	{"TTFT p95", "ttft_p95", duration}, {"ITL p95", "itl_p95", duration}, {"step p50", "step_p50", duration}, {"preempt/s", "preemptions", count},
}

// screen is what the terminal shows, width columns wide.
func screen(base string, d *dashboard.Data, err error, width int) string {
	var b strings.Builder
	line := func(s string) { b.WriteString(clip(s, width) + "\n") }
	switch {
	case err != nil:
		line(base + "  " + time.Now().Format(time.TimeOnly))
		line("no answer: " + err.Error())
		return b.String()
	case len(d.Series) == 0:
		line(base + "  " + time.Now().Format(time.TimeOnly))
		line("no numbers yet; none come with --disable-log-stats")
		return b.String()
	}
	line(fmt.Sprintf("%s at %s  %d engine%s  %s", orElse(d.Model, "no statistics"), base, len(d.Series)-1, plural(len(d.Series)-1),
		time.UnixMilli(int64(d.Now*1000)).Format(time.TimeOnly)))
	for _, s := range d.Series[1:] {
		if v := newest(s.Columns["stalled"]); v > 0 {
			line("STALLED: engine " + s.Engine + " has requests and completes no step")
		}
	}
	chart := max(8, width-34)
	line(fmt.Sprintf("%-20s %9s  last %s", "", "now", lengthOf(d)))
	for _, r := range rows {
		values := d.Series[0].Columns[r.column]
		line(fmt.Sprintf("%-20s %9s  %s", r.name, show(r.unit, newest(values)), sparkline(values, chart)))
	}
	if len(d.Series) > 2 {
		line("")
		head := fmt.Sprintf("%-6s", "engine")
		for _, r := range perEngine {
			head += fmt.Sprintf(" %9s", r.name)
		}
		line(head)
		for _, s := range d.Series[1:] {
			text := fmt.Sprintf("%-6s", s.Engine)
			for _, r := range perEngine {
				text += fmt.Sprintf(" %9s", show(r.unit, newest(s.Columns[r.column])))
			}
			line(text)
		}
	}
	return b.String()
}

// sparkline draws values, oldest first, in at most width bars between 0 and
// their maximum. Several values in one bar show as the largest; a gap is
// unknown.
func sparkline(values []float64, width int) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	n := min(width, len(values))
	most := 0.0
	for _, v := range values {
		most = math.Max(most, orZero(v))
	}
	var b strings.Builder
	for i := range n {
		v := math.NaN()
		for _, x := range values[i*len(values)/n : (i+1)*len(values)/n] {
			if math.IsNaN(v) || x > v {
				v = x
			}
		}
		switch {
		case math.IsNaN(v):
			b.WriteByte(' ')
		case most == 0:
			b.WriteRune(bars[0])
		default:
			b.WriteRune(bars[min(int(v/most*float64(len(bars))), len(bars)-1)])
		}
	}
	return b.String()
}

func orZero(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

func newest(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return values[len(values)-1]
}

func lengthOf(d *dashboard.Data) string {
	if len(d.Times) < 2 {
		return "look"
	}
	span := time.Duration(d.Times[len(d.Times)-1]-d.Times[0]) * time.Millisecond
	if span >= 2*time.Minute {
		return fmt.Sprintf("%.0f minutes", span.Minutes())
	}
	return fmt.Sprintf("%.0f seconds", span.Seconds())
}

func show(unit func(float64) string, v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return unit(v)
}

func count(v float64) string {
	switch {
	case v >= 999_500:
		return fmt.Sprintf("%.2fM", v/1e6)
	case v >= 99_950:
		return fmt.Sprintf("%.0fk", v/1e3)
	case v == math.Trunc(v) || v >= 999.5:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func duration(v float64) string {
	switch {
	case v < 0.0995:
		return fmt.Sprintf("%.2f ms", v*1e3)
	case v < 0.9995:
		return fmt.Sprintf("%.0f ms", v*1e3)
	}
	return fmt.Sprintf("%.2f s", v)
}

func percent(v float64) string { return fmt.Sprintf("%.1f %%", v*100) }

func clip(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return string(r[:width])
	}
	return s
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}
