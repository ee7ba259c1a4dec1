package main

import (
	"context"
	"flag"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"govllm/test/load/bench"
	"govllm/test/load/mockserver"
)

func TestServeCommand(t *testing.T) {
	server := httptest.NewServer(mockserver.New(mockserver.Config{}))
	defer server.Close()
	dir := t.TempDir()
	args := strings.Fields("serve --num-prompts 6 --max-concurrency 2 --random-input-len 4 --random-output-len 3 --disable-tqdm " +
		"--goodput ttft:60000,e2el:60000 --percentile-metrics ttft,e2el --metric-percentiles 50,99.9 --save-detailed --result-filename r.json " +
		"--extra-body {\"temperature\":0} --base-url " + server.URL + "/ --result-dir " + dir)
	if err := runCommand(t.Context(), args); err != nil {
		t.Fatal(err)
	}
	saved, err := os.ReadFile(filepath.Join(dir, "r.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"completed": 6`, `"total_output_tokens": 18`, `"p99.9_e2el_ms"`, `"request_goodput"`, `"itls"`} {
		if !strings.Contains(string(saved), want) {
			t.Errorf("the result lacks %s:\n%s", want, saved)
		}
	}
}

func TestCommandsRefuse(t *testing.T) {
	for args, says := range map[string]string{
		"sevre":                                "no command",
		"serve stray":                          "stray",
		"serve --dataset-name sharegpt":        "random",
		"serve --request-rate -1 --model m":    "request-rate",
		"serve --base-url http://127.0.0.1:1":  "is the server up",
		"serve --goodput ttft --model m":       "NAME:MS",
		"serve --metric-percentiles x":         "x",
		"overhead --of everything --pairs 1 x": "x",
	} {
		silence(t)
		if err := runCommand(t.Context(), strings.Fields(args)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("load %s: error %v, want %q", args, err, says)
		}
	}
}

// silence keeps package flag's usage texts out of the test's output.
func silence(t *testing.T) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = null
	t.Cleanup(func() { os.Stderr = before; null.Close() })
}

func TestHelpNamesEveryFlag(t *testing.T) {
	cfg := bench.Default()
	set := flag.NewFlagSet("load serve", flag.ContinueOnError)
	benchFlags(set, &cfg)
	var b strings.Builder
	set.SetOutput(&b)
	help(set, "summary")
	set.VisitAll(func(f *flag.Flag) {
		if !strings.Contains(b.String(), "--"+f.Name) {
			t.Errorf("help lacks --%s", f.Name)
		}
	})
	for _, want := range []string{"--request-rate second", "(inf)", "(1024)", "(ttft,tpot,itl)"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("help lacks %q:\n%s", want, b.String())
		}
	}
}

func TestStatistics(t *testing.T) {
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("median = %v, want 2.5", got)
	}
	// Pairs are drawn as pairs: what is always a tenth more stays so.
	low, high := ratioInterval([2][]float64{{11, 22, 33}, {10, 20, 30}})
	if math.Abs(low-1.1) > 1e-9 || math.Abs(high-1.1) > 1e-9 {
		t.Errorf("ratio between %v and %v, want 1.1", low, high)
	}
	low, high = ratioInterval([2][]float64{{9, 10, 11, 9, 10, 11, 9, 11}, {10, 10, 10, 10, 10, 10, 10, 10}})
	if low >= 1 || high <= 1 {
		t.Errorf("ratio between %v and %v, want 1 between them", low, high)
	}
	var a answer
	if !strings.Contains(a.String(), "not asked") {
		t.Errorf("no answers: %s", &a)
	}
	for i := range 101 {
		a.take(time.Duration(100-i)*time.Millisecond, nil)
	}
	if want := "101 answers, ms: p50 50.00, p90 90.00, p99 99.00, max 100.00"; a.String() != want {
		t.Errorf("answers = %s, want %s", &a, want)
	}
}

func TestPollEveryAsksUntilStopped(t *testing.T) {
	asked := make(chan struct{}, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		_, _ = io.WriteString(w, "ok")
	}))
	defer server.Close()
	told := make(chan error, 1000)
	stop := pollEvery(context.Background(), server.URL, time.Millisecond, func(_ time.Duration, err error) { told <- err })
	for range 3 {
		<-asked
		if err := <-told; err != nil {
			t.Error(err)
		}
	}
	stop()
	if err := get(t.Context(), server.URL+"/"); err != nil {
		t.Error(err)
	}
}
