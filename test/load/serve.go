package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"govllm/test/load/bench"
	"govllm/test/load/mockserver"
)

// serve is the command of that name.
func serve(ctx context.Context, set *flag.FlagSet, args []string) error {
	cfg := bench.Default()
	benchFlags(set, &cfg)
	set.StringVar(&cfg.BaseURL, "base-url", cfg.BaseURL, "`URL` of the server")
	host := set.String("host", "", "`name` of the server, instead of --base-url")
	port := set.Int("port", 8000, "its port, with --host")
	dataset := set.String("dataset-name", "random", "`name` of the data set; only random is served")
	saveResult := set.Bool("save-result", false, "write the result as JSON, too")
	detailed := set.Bool("save-detailed", false, "and with it the numbers of each request")
	resultDir := set.String("result-dir", ".", "`directory` for it")
	resultFile := set.String("result-filename", "", "`name` of the file; by date if not given")
	quiet := set.Bool("disable-tqdm", false, "no progress on standard error")
	if err := parse(set, args); err != nil {
		return err
	}
	if *dataset != "random" {
		return fmt.Errorf("dataset-name %q, want random: lengths are set by --random-input-len and --random-output-len", *dataset)
	}
	if *host != "" {
		cfg.BaseURL = "http://" + net.JoinHostPort(*host, strconv.Itoa(*port))
	}
	cfg.BaseURL = strings.TrimSuffix(cfg.BaseURL, "/")
	if !*quiet {
		cfg.Progress = progress(time.Now)
	}
	result, err := bench.Run(ctx, cfg)
	if err != nil {
		return err
	}
	if err := result.WriteText(os.Stdout); err != nil {
		return err
	}
	if *saveResult || *detailed || *resultFile != "" {
		name := *resultFile
		if name == "" {
			name = fmt.Sprintf("%s-%s.json", cfg.Backend, result.Date.Format("20060102-150405"))
		}
		if err := save(result, filepath.Join(*resultDir, name), *detailed); err != nil {
			return err
		}
	}
	if result.Completed == 0 {
		return fmt.Errorf("none of %d requests completed", cfg.NumPrompts)
	}
	return nil
}

// benchFlags declares the options of a run under vLLM's names.
func benchFlags(set *flag.FlagSet, c *bench.Config) {
	set.StringVar(&c.Backend, "backend", c.Backend, "`API`: openai (completions with token IDs) or openai-chat")
	set.StringVar(&c.Endpoint, "endpoint", c.Endpoint, "`path` of the API, if not the backend's")
	set.StringVar(&c.Model, "model", c.Model, "`name` to ask for; the server's first if not given")
	set.IntVar(&c.NumPrompts, "num-prompts", c.NumPrompts, "requests to send")
	set.IntVar(&c.NumWarmups, "num-warmups", c.NumWarmups, "requests to send before the measurement")
	set.Var(floatFlag{&c.RequestRate}, "request-rate", "requests a `second`; inf sends all at once")
	set.Var(floatFlag{&c.Burstiness}, "burstiness", "`shape` of the gamma distribution of intervals: 1 is Poisson, less comes in bursts, more is even")
	set.IntVar(&c.MaxConcurrency, "max-concurrency", c.MaxConcurrency, "most requests under way at once; 0 for no bound")
	set.IntVar(&c.InputLen, "random-input-len", c.InputLen, "tokens of a prompt (words, of a chat's)")
	set.IntVar(&c.OutputLen, "random-output-len", c.OutputLen, "max_tokens of a request")
	set.IntVar(&c.PrefixLen, "random-prefix-len", c.PrefixLen, "tokens that all prompts begin with, besides")
	set.Var(floatFlag{&c.RangeRatio}, "random-range-ratio", "lengths are uniform within this `part` around the above, from 0 up to below 1")
	set.IntVar(&c.VocabSize, "random-vocab-size", c.VocabSize, "token IDs of prompts are drawn below this; any model has 256")
	set.Uint64Var(&c.Seed, "seed", c.Seed, "of prompts and intervals")
	set.BoolVar(&c.IgnoreEOS, "ignore-eos", c.IgnoreEOS, "go on to max_tokens whatever the model says")
	set.Var(jsonFlag{&c.ExtraBody}, "extra-body", "members to add to each request, as a `JSON` object")
	set.Var(listFlag{&c.PercentileMetrics}, "percentile-metrics", "which of `ttft,tpot,itl,e2el` to print")
	set.Var(floatsFlag{&c.Percentiles}, "metric-percentiles", "`percentiles` to print, such as 50,99")
	set.Var(goodputFlag{&c.Goodput}, "goodput", "count requests within `ttft:MS tpot:MS e2el:MS`, quoted or comma separated")
	set.Var(secondsFlag{&c.ReadyTimeout}, "ready-check-timeout-sec", "`seconds` to wait for /health; 0 does not ask")
	set.Var(secondsFlag{&c.Timeout}, "request-timeout-sec", "`seconds` that one request may take")
}

// progress prints how many requests have ended, at most every two seconds.
func progress(now func() time.Time) func(done, total int) {
	next := make(chan time.Time, 1) // holds one value: also a lock
	next <- now().Add(2 * time.Second)
	return func(done, total int) {
		at := <-next
		if t := now(); t.After(at) {
			fmt.Fprintf(os.Stderr, "%d/%d requests\n", done, total)
			at = t.Add(2 * time.Second)
		}
		next <- at
	}
}

func save(r *bench.Result, path string, detailed bool) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := r.WriteJSON(f, detailed); err != nil {
		f.Close()
		return err
	}
	fmt.Fprintln(os.Stderr, "result written to", path)
	return f.Close()
}

// mockServer is the command of that name.
func mockServer(ctx context.Context, set *flag.FlagSet, args []string) error {
	address := set.String("address", "127.0.0.1:8001", "`host:port` to listen on")
	interval := set.Duration("interval", 0, "pause before each token, such as 20ms")
	if err := parse(set, args); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "serving constant tokens at http://"+listener.Addr().String())
	server := &http.Server{Handler: mockserver.New(mockserver.Config{Interval: *interval})}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}

// The flag values that package flag lacks, each around the variable it sets.

type floatFlag struct{ p *float64 }

func (f floatFlag) String() string {
	if f.p == nil {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(*f.p, 'g', -1, 64), "+"))
}

func (f floatFlag) Set(s string) (err error) {
	*f.p, err = strconv.ParseFloat(s, 64)
	return err
}

type secondsFlag struct{ p *time.Duration }

func (f secondsFlag) String() string {
	if f.p == nil {
		return ""
	}
	return strconv.FormatFloat(f.p.Seconds(), 'f', -1, 64)
}

func (f secondsFlag) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	*f.p = time.Duration(v * float64(time.Second))
	return err
}

type listFlag struct{ p *[]string }

func (f listFlag) String() string {
	if f.p == nil {
		return ""
	}
	return strings.Join(*f.p, ",")
}

func (f listFlag) Set(s string) error {
	*f.p = strings.Split(s, ",")
	return nil
}

type floatsFlag struct{ p *[]float64 }

func (f floatsFlag) String() string {
	if f.p == nil {
		return ""
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(*f.p), " ", ","), "[]")
}

func (f floatsFlag) Set(s string) error {
	*f.p = nil
	for part := range strings.SplitSeq(s, ",") {
		v, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return err
		}
		*f.p = append(*f.p, v)
	}
	return nil
}

type goodputFlag struct{ p *map[string]float64 }

func (f goodputFlag) String() string { return "" }

func (f goodputFlag) Set(s string) error {
	*f.p = map[string]float64{}
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == ',' }) {
		name, bound, _ := strings.Cut(part, ":")
		v, err := strconv.ParseFloat(bound, 64)
		if err != nil {
			return fmt.Errorf("%q, want NAME:MS", part)
		}
		(*f.p)[name] = v
	}
	return nil
}

type jsonFlag struct{ p *map[string]any }

func (f jsonFlag) String() string { return "" }

func (f jsonFlag) Set(s string) error { return json.Unmarshal([]byte(s), f.p) }
