package observability

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"govllm/test/load/bench"
	"govllm/test/load/system"
)

// endpoint is what a gateway keeps of a model server.
type endpoint struct {
	Waiting, Running int
	KVCacheUsage     float64
	BlockSize        int // 0 and NumBlocks 0: not told
	NumBlocks        int

	MaxActiveModels int
	RunningLoRA     []string
	WaitingLoRA     []string
	UpdatedAt       time.Time
}

// readEndpoint parses an exposition by the scrape contract of the Gateway API
// Inference Extension's model server protocol: text format; required gauges;
// of several samples of a family, the one with the largest timestamp, which
// without timestamps is the first; cache_config_info's labels must be integers;
// lora_requests_info's value is a time. LoRA may be absent, nothing else.
func readEndpoint(r io.Reader) (*endpoint, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r)
	if err != nil {
		return nil, err
	}
	e := &endpoint{}
	var errs []error
	gauge := func(name string) float64 {
		m, err := latest(families[name], name)
		if err != nil {
			errs = append(errs, err)
			return 0
		}
		return m.GetGauge().GetValue()
	}
	e.Waiting = int(gauge("vllm:num_requests_waiting"))
	e.Running = int(gauge("vllm:num_requests_running"))
	e.KVCacheUsage = gauge("vllm:kv_cache_usage_perc")
	errs = append(errs, e.cacheConfig(families["vllm:cache_config_info"]))
	if f := families["vllm:lora_requests_info"]; f != nil {
		errs = append(errs, e.lora(f))
	}
	return e, errors.Join(errs...)
}

func latest(f *dto.MetricFamily, name string) (*dto.Metric, error) {
	if f == nil || len(f.Metric) == 0 {
		return nil, fmt.Errorf("metric family %q not found", name)
	}
	best := f.Metric[0]
	for _, m := range f.Metric {
		if m.GetTimestampMs() > best.GetTimestampMs() {
			best = m
		}
	}
	return best, nil
}

func (e *endpoint) cacheConfig(f *dto.MetricFamily) error {
	m, err := latest(f, "vllm:cache_config_info")
	if err != nil {
		return err
	}
	for name, to := range map[string]*int{"block_size": &e.BlockSize, "num_gpu_blocks": &e.NumBlocks} {
		n, err := strconv.Atoi(label(m, name))
		if err != nil {
			return fmt.Errorf("vllm:cache_config_info: label %s: %w", name, err)
		}
		*to = n
	}
	return nil
}

// lora takes the sample with the largest value: every combination of adapters
// that ever was leaves one.
func (e *endpoint) lora(f *dto.MetricFamily) error {
	var best *dto.Metric
	for _, m := range f.Metric {
		if best == nil || m.GetGauge().GetValue() > best.GetGauge().GetValue() {
			best = m
		}
	}
	if best == nil {
		return nil
	}
	n, err := strconv.Atoi(label(best, "max_lora"))
	if err != nil {
		return fmt.Errorf("vllm:lora_requests_info: label max_lora: %w", err)
	}
	list := func(name string) []string {
		return strings.FieldsFunc(label(best, name), func(r rune) bool { return r == ',' || r == ' ' })
	}
	e.MaxActiveModels, e.RunningLoRA, e.WaitingLoRA = n, list("running_lora_adapters"), list("waiting_lora_adapters")
	e.UpdatedAt = time.Unix(int64(best.GetGauge().GetValue()), 0)
	return nil
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

func TestReadEndpoint(t *testing.T) {
	const required = `# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0"} 3
vllm:num_requests_waiting{engine="1"} 4
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0"} 5
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0"} 0.25
`
	const config = "# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"100\"} 1\n"
	for _, tc := range []struct{ name, text, says string }{
		{"all", required + config, ""},
		{"None is no integer", required + strings.Replace(config, `"100"`, `"None"`, 1), "num_gpu_blocks"},
		{"no family", config, `"vllm:num_requests_waiting" not found`},
		{"not the format", "{", "text format"},
		{"LoRA", required + config + `# TYPE vllm:lora_requests_info gauge
vllm:lora_requests_info{max_lora="2",running_lora_adapters="a,b",waiting_lora_adapters=""} 200
vllm:lora_requests_info{max_lora="x",running_lora_adapters="c",waiting_lora_adapters=""} 100
`, ""},
	} {
		e, err := readEndpoint(strings.NewReader(tc.text))
		switch {
		case tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.says)
		case tc.says == "" && err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case tc.says == "" && (e.Waiting != 3 || e.Running != 5 || e.KVCacheUsage != 0.25 || e.BlockSize != 16 || e.NumBlocks != 100):
			t.Errorf("%s: %+v", tc.name, e)
		case tc.name == "LoRA" && (e.MaxActiveModels != 2 || len(e.RunningLoRA) != 2 || e.UpdatedAt.Unix() != 200):
			t.Errorf("%s: %+v", tc.name, e)
		}
	}
}

// A gateway scrapes every 50 ms: before, during and after traffic it finds what
// its contract asks for. The engines take 20 ms a step, so that there is a during.
func TestGatewayReadsTheFrontend(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes; not with -short")
	}
	for _, engines := range []int{1, 3} {
		t.Run(fmt.Sprint(engines, " engines"), func(t *testing.T) {
			s := start(t, system.Options{Engines: engines,
				Core: []string{"--device", "mock", "--mock-step-time", "0.02", "--num-gpu-blocks-override", "101", "--block-size", "16", "--max-num-seqs", "2"}})
			before := scrape(t, s)
			if before.Waiting != 0 || before.Running != 0 || before.KVCacheUsage != 0 || before.BlockSize != 16 || before.NumBlocks != 101 {
				t.Errorf("before traffic: %+v, want nothing under way, 101 blocks of 16", before)
			}
			var busy endpoint // the most that was seen
			done := make(chan error, 1)
			go func() { done <- load(t, s, 6*engines) }()
			for running := true; running; {
				select {
				case err := <-done:
					if err != nil {
						t.Fatal(err)
					}
					running = false
				case <-time.After(50 * time.Millisecond):
				}
				e := scrape(t, s)
				busy.Waiting, busy.Running = max(busy.Waiting, e.Waiting), max(busy.Running, e.Running)
				busy.KVCacheUsage = max(busy.KVCacheUsage, e.KVCacheUsage)
			}
			if busy.Running == 0 || busy.Running > 2 || busy.Waiting == 0 || busy.KVCacheUsage <= 0 || busy.KVCacheUsage > 1 {
				t.Errorf("during traffic at most %+v, want up to 2 running, some waiting, part of the cache in use", busy)
			}
		})
	}
}

func scrape(t *testing.T, s *system.System) *endpoint {
	t.Helper()
	resp, err := http.Get(s.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if ct := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || !strings.HasPrefix(ct, "text/plain; version=0.0.4") {
		t.Fatalf("GET /metrics: status %d, content type %q", resp.StatusCode, ct)
	}
	e, err := readEndpoint(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// load sends n streaming requests at once.
func load(t *testing.T, s *system.System, n int) error {
	c := bench.Default()
	c.BaseURL, c.NumPrompts, c.InputLen, c.OutputLen, c.IgnoreEOS = s.URL, n, 24, 30, true
	r, err := bench.Run(t.Context(), c)
	if err == nil && r.Failed > 0 {
		err = fmt.Errorf("%d of %d requests failed: %v", r.Failed, n, r.Errors)
	}
	return err
}
