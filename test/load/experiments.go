package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"govllm/test/load/bench"
	"govllm/test/load/mockserver"
	"govllm/test/load/system"
)

// saturating is a load whose limit is the server's speed: random tokens from
// --device mock, as many streams as the core runs at once.
func saturating() bench.Config {
	c := bench.Default()
	c.NumPrompts, c.MaxConcurrency, c.InputLen, c.OutputLen, c.IgnoreEOS = 512, 64, 32, 128, true
	return c
}

// engine is what all experiments share besides the load.
type engine struct {
	device   string
	stepTime time.Duration // of the mock
}

func engineFlags(set *flag.FlagSet) *engine {
	e := new(engine)
	set.StringVar(&e.device, "device", "mock", "`device` of vllm-core: mock, or cpu to have the builtin model work")
	set.DurationVar(&e.stepTime, "mock-step-time", 0, "time that a step of the mock takes, so that its batches fill up as a model's do; 0 for none")
	return e
}

// coreFlags make a core whose KV cache never limits saturating's load.
func (e *engine) coreFlags(c *bench.Config) []string {
	blocks, step := "65536", fmt.Sprint(e.stepTime.Seconds())
	if e.device != "mock" {
		blocks = "4096" // these hold something
	}
	return []string{"--device", e.device, "--mock-step-time", step, "--num-gpu-blocks-override", blocks, "--max-num-seqs", fmt.Sprint(max(c.MaxConcurrency, 1))}
}

var quietFrontend = []string{"--disable-uvicorn-access-log"}

// built is a temporary directory with both commands.
func built(ctx context.Context) (dir string, remove func(), err error) {
	if dir, err = os.MkdirTemp("", "govllm-load-"); err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	if err := system.Build(ctx, dir); err != nil {
		remove()
		return "", nil, err
	}
	return dir, remove, nil
}

// start builds both commands and starts them for a load.
func (e *engine) start(ctx context.Context, c *bench.Config) (*system.System, func(), error) {
	dir, remove, err := built(ctx)
	if err != nil {
		return nil, nil, err
	}
	s, err := system.Start(ctx, system.Options{BinDir: dir, Core: e.coreFlags(c), Frontend: quietFrontend})
	if err != nil {
		remove()
		return nil, nil, err
	}
	return s, func() { s.Stop(); remove() }, nil
}

// measured is one run: its result, and the processor time that the server and
// this process used for it.
type measured struct {
	*bench.Result
	frontend, cores, self time.Duration
}

func (m *measured) total() time.Duration { return m.frontend + m.cores + m.self }

// perToken is processor time for one generated token, in microseconds.
func (m *measured) perToken(d time.Duration) float64 {
	return float64(d.Microseconds()) / float64(max(m.OutputTokens, 1))
}

func measure(ctx context.Context, s *system.System, cfg bench.Config) (*measured, error) {
	cfg.BaseURL = s.URL
	frontend, cores, err := s.CPU()
	if err != nil {
		return nil, err
	}
	self, err := system.SelfCPU()
	if err != nil {
		return nil, err
	}
	r, err := bench.Run(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if r.Failed > 0 {
		return nil, fmt.Errorf("%d of %d requests failed: %v", r.Failed, cfg.NumPrompts, r.Errors)
	}
	m := &measured{Result: r}
	if m.frontend, m.cores, err = s.CPU(); err != nil {
		return nil, err
	}
	if m.self, err = system.SelfCPU(); err != nil {
		return nil, err
	}
	m.frontend -= frontend
	m.cores -= cores
	m.self -= self
	return m, nil
}

// headroom is the command of that name.
func headroom(ctx context.Context, set *flag.FlagSet, args []string) error {
	cfg := saturating()
	benchFlags(set, &cfg)
	engine := engineFlags(set)
	runs := set.Int("runs", 5, "runs against each server; medians are compared")
	if err := parse(set, args); err != nil {
		return err
	}
	ours, stopOurs, err := engine.start(ctx, &cfg)
	if err != nil {
		return err
	}
	defer stopOurs()
	var size atomic.Int64
	mock, stop, err := startMock(&size)
	if err != nil {
		return err
	}
	defer stop()

	var sides [2][]*measured // mock, ours
	for run := range *runs + 1 {
		m, err := measure(ctx, ours, cfg)
		if err != nil {
			return err
		}
		// The mock server puts as many tokens in an event as ours did.
		size.Store(int64(math.Round(float64(m.OutputTokens) / float64(m.Events))))
		c := cfg
		c.BaseURL = mock
		r, err := bench.Run(ctx, c)
		if err != nil {
			return err
		}
		if r.Failed > 0 {
			return fmt.Errorf("mock server: %d requests failed: %v", r.Failed, r.Errors)
		}
		if run > 0 { // the first warms up
			sides[0], sides[1] = append(sides[0], &measured{Result: r}), append(sides[1], m)
		}
	}
	var perSecond [2]float64
	for i, name := range []string{"mock server", "vllm-frontend, vllm-core"} {
		perSecond[i] = medianOf(sides[i], func(m *measured) float64 { return m.OutputThroughput() })
		fmt.Printf("%-26s %10.0f tok/s, %.1f tokens in an event\n", name, perSecond[i],
			medianOf(sides[i], func(m *measured) float64 { return float64(m.OutputTokens) / float64(m.Events) }))
	}
	fmt.Printf("%-26s %10.2f times, all sharing this machine's processors\n", "headroom", perSecond[0]/perSecond[1])
	own := medianOf(sides[1], func(m *measured) float64 { return m.self.Seconds() / m.total().Seconds() })
	fmt.Printf("generator's part           %9.0f%% of the processor time of a run against ours\n", 100*own)
	return nil
}

// startMock serves constant tokens, *size of them in an event.
func startMock(size *atomic.Int64) (url string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: mockserver.New(mockserver.Config{TokensPerEvent: func() int { return int(size.Load()) }})}
	go func() { _ = server.Serve(listener) }()
	return "http://" + listener.Addr().String(), func() { _ = server.Close() }, nil
}

// overhead is the command of that name. Both sides stay up all the time and
// get short runs in turn, so that what else happens on the machine meets both;
// which goes first changes with every pair.
func overhead(ctx context.Context, set *flag.FlagSet, args []string) error {
	cfg := saturating()
	benchFlags(set, &cfg)
	engine := engineFlags(set)
	of := set.String("of", "statistics", "`what` the pairs differ in: statistics (against --disable-log-stats), scrapes (of /metrics), or nothing, which shows the noise")
	interval := set.Duration("scrape-interval", 50*time.Millisecond, "time between scrapes")
	pairs := set.Int("pairs", 20, "pairs of runs")
	if err := parse(set, args); err != nil {
		return err
	}
	dir, remove, err := built(ctx)
	if err != nil {
		return err
	}
	defer remove()
	start := func(flags ...string) (*system.System, error) {
		return system.Start(ctx, system.Options{BinDir: dir,
			Core: append(engine.coreFlags(&cfg), flags...), Frontend: append(quietFrontend[:1:1], flags...)})
	}
	with, err := start()
	if err != nil {
		return err
	}
	defer with.Stop()
	without := with
	scraping := func(context.Context, string, time.Duration) func() { return func() {} }
	switch *of {
	case "scrapes":
		scraping = scrapeEvery
	case "statistics", "nothing":
		var flags []string
		if *of == "statistics" {
			flags = []string{"--disable-log-stats"}
		}
		if without, err = start(flags...); err != nil {
			return err
		}
		defer without.Stop()
	default:
		return fmt.Errorf("of %q, want statistics, scrapes or nothing", *of)
	}

	var sides [2][]*measured // with, without
	for pair := range *pairs + 1 {
		var got [2]*measured
		for turn := range 2 {
			side := (pair + turn) % 2
			c, s := cfg, with
			c.Seed += uint64(pair)
			stop := func() {}
			if side == 1 {
				s = without
			} else {
				stop = scraping(ctx, s.URL, *interval)
			}
			got[side], err = measure(ctx, s, c)
			stop()
			if err != nil {
				return err
			}
		}
		if pair == 0 {
			continue // warms up
		}
		sides[0], sides[1] = append(sides[0], got[0]), append(sides[1], got[1])
	}
	writePairs(os.Stdout, *of, sides)
	return nil
}

// writePairs prints what the two sides reached and how they compare.
func writePairs(w io.Writer, of string, sides [2][]*measured) {
	fmt.Fprintf(w, "%d pairs, medians          with %-12s without        ratio  (95%% of resampled medians)\n", len(sides[0]), of)
	for _, row := range []struct {
		name string
		of   func(*measured) float64
	}{
		{"output tokens/s", func(m *measured) float64 { return m.OutputThroughput() }},
		{"requests/s", func(m *measured) float64 { return m.RequestThroughput() }},
		{"frontend µs/token", func(m *measured) float64 { return m.perToken(m.frontend) }},
		{"core µs/token", func(m *measured) float64 { return m.perToken(m.cores) }},
		{"mean TTFT ms", func(m *measured) float64 { return m.Metrics["ttft"].Mean }},
		{"p99 ITL ms", func(m *measured) float64 { return m.Metrics["itl"].Percentiles[0] }},
	} {
		var values [2][]float64
		for side := range sides {
			for _, m := range sides[side] {
				values[side] = append(values[side], row.of(m))
			}
		}
		low, high := ratioInterval(values)
		fmt.Fprintf(w, "%-24s %13.2f %20.2f %12.4f  (%.4f to %.4f)\n", row.name, median(values[0]), median(values[1]),
			median(values[0])/median(values[1]), low, high)
	}
}

// ratioInterval says between which bounds 95 of 100 ratios of medians lie when
// the pairs are drawn again, with replacement.
func ratioInterval(values [2][]float64) (low, high float64) {
	r := rand.New(rand.NewPCG(1, 1))
	ratios := make([]float64, 2000)
	n := len(values[0])
	draw := [2][]float64{make([]float64, n), make([]float64, n)}
	for i := range ratios {
		for j := range n {
			pair := r.IntN(n)
			draw[0][j], draw[1][j] = values[0][pair], values[1][pair]
		}
		ratios[i] = median(draw[0]) / median(draw[1])
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/40], ratios[len(ratios)-1-len(ratios)/40]
}

func medianOf(runs []*measured, of func(*measured) float64) float64 {
	values := make([]float64, len(runs))
	for i, m := range runs {
		values[i] = of(m)
	}
	return median(values)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// scrapeEvery asks for /metrics at an interval until the returned function is
// called.
func scrapeEvery(ctx context.Context, url string, interval time.Duration) (stop func()) {
	return pollEvery(ctx, url+"/metrics", interval, func(time.Duration, error) {})
}

// pollEvery asks for url at an interval and tells how long each answer took.
func pollEvery(ctx context.Context, url string, interval time.Duration, tell func(time.Duration, error)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			start := time.Now()
			err := get(ctx, url)
			if ctx.Err() == nil {
				tell(time.Since(start), err)
			}
		}
	})
	return func() { cancel(); done.Wait() }
}

func get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d", url, resp.StatusCode)
	}
	return nil
}

// probe is the command of that name.
func probe(ctx context.Context, set *flag.FlagSet, args []string) error {
	cfg := saturating()
	cfg.MaxConcurrency, cfg.OutputLen, cfg.NumPrompts = 256, 512, 1024
	benchFlags(set, &cfg)
	engine := engineFlags(set)
	interval := set.Duration("interval", 50*time.Millisecond, "time between questions to each route")
	routes := set.String("routes", "/metrics,/health", "`paths` to ask")
	if err := parse(set, args); err != nil {
		return err
	}
	s, stopSystem, err := engine.start(ctx, &cfg)
	if err != nil {
		return err
	}
	defer stopSystem()

	paths := strings.Split(*routes, ",")
	answers := make([]answer, len(paths))
	var stops []func()
	for i, path := range paths {
		stops = append(stops, pollEvery(ctx, s.URL+path, *interval, answers[i].take))
	}
	result, err := measure(ctx, s, cfg)
	for _, stop := range stops {
		stop()
	}
	if err != nil {
		return err
	}
	fmt.Printf("%d streams at once, %.0f output tokens/s\n", result.PeakConcurrent, result.OutputThroughput())
	var errs []error
	for i, path := range paths {
		fmt.Printf("%-12s %s\n", path, &answers[i])
		errs = append(errs, answers[i].errs...)
	}
	return errors.Join(errs...)
}

// answer gathers how long a route took.
type answer struct {
	ms   []float64
	errs []error
}

func (a *answer) take(d time.Duration, err error) {
	if err != nil {
		a.errs = append(a.errs, err)
	}
	a.ms = append(a.ms, float64(d)/float64(time.Millisecond))
}

func (a *answer) String() string {
	if len(a.ms) == 0 {
		return "not asked: the run was shorter than the interval"
	}
	slices.Sort(a.ms)
	at := func(q float64) float64 { return a.ms[int(q*float64(len(a.ms)-1))] }
	return fmt.Sprintf("%d answers, ms: p50 %.2f, p90 %.2f, p99 %.2f, max %.2f", len(a.ms), at(0.5), at(0.9), at(0.99), at(1))
}
