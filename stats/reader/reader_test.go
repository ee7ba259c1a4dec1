package reader

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Two engines' metrics, as /metrics shows them.
const page = `# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3
vllm:num_requests_running{engine="1",model_name="m"} 0
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 1.5e+06
# TYPE vllm:prompt_tokens_created gauge
vllm:prompt_tokens_created{engine="0",model_name="m"} 1.7e+09
# TYPE vllm:iteration_tokens_total histogram
vllm:iteration_tokens_total_bucket{engine="0",model_name="m",le="1.0"} 2
vllm:iteration_tokens_total_bucket{engine="0",model_name="m",le="8"} 4
vllm:iteration_tokens_total_bucket{engine="0",model_name="m",le="+Inf"} 5
vllm:iteration_tokens_total_sum{engine="0",model_name="m"} 30.5
vllm:iteration_tokens_total_count{engine="0",model_name="m"} 5
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 10
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="2"} 2
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",model_name="m",position="1"} 3
# TYPE http_requests_total counter
http_requests_total{handler="/v1/completions"} 7
`

func TestParse(t *testing.T) {
	got, err := Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	labels := func(engine string) map[string]string { return map[string]string{"engine": engine, "model_name": "m"} }
	want := []Metric{
		&Histogram{Series{"vllm:iteration_tokens_total", labels("0")}, 5, 30.5, map[string]int64{"1.0": 2, "8.0": 4, "+Inf": 5}},
		&Gauge{Series{"vllm:num_requests_running", labels("0")}, 3},
		&Gauge{Series{"vllm:num_requests_running", labels("1")}, 0},
		&Counter{Series{"vllm:prompt_tokens", labels("0")}, 1500000},
		&Vector{Series{"vllm:spec_decode_num_accepted_tokens_per_pos", labels("0")}, []int64{10, 0, 2}},
		&Vector{Series{"vllm:spec_decode_num_accepted_tokens_per_pos", labels("1")}, []int64{0, 3, 0}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Parse, -want +got:\n%s", diff)
	}
}

func TestJSON(t *testing.T) {
	text, err := AppendJSON(nil, []Metric{
		&Counter{Series{"vllm:prompt_tokens", map[string]string{"engine": "0"}}, 9007199254740993},
		&Histogram{Series{"vllm:e2e", nil}, 1, 0.5, map[string]int64{"+Inf": 1}},
		&Vector{Series{"v", nil}, []int64{1, 2}},
		&Gauge{Series{"g", nil}, 0.25},
	})
	const want = `[{"type":"counter","name":"vllm:prompt_tokens","labels":{"engine":"0"},"value":9007199254740993},` +
		`{"type":"histogram","name":"vllm:e2e","labels":{},"count":1,"sum":0.5,"buckets":{"+Inf":1}},` +
		`{"type":"vector","name":"v","labels":{},"values":[1,2]},{"type":"gauge","name":"g","labels":{},"value":0.25}]`
	if err != nil || string(text) != want {
		t.Errorf("AppendJSON = %s, %v, want %s", text, err, want)
	}
}

func TestRefusals(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"vllm:x{ 1\n", "reader: text format parsing error"},
		{`vllm:spec_decode_num_accepted_tokens_per_pos_total{position="99999999"} 1` + "\n", `position is "99999999", want 0 to 1023`},
	} {
		if _, err := Parse(strings.NewReader(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Parse(%q) = %v, want %q", tt.text, err, tt.want)
		}
	}
}

// A small report of what a server has done.
func ExampleParse() {
	metrics, err := Parse(strings.NewReader(page))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range metrics {
		name, labels := Of(m)
		fmt.Printf("engine %s %s: ", labels["engine"], strings.TrimPrefix(name, "vllm:"))
		switch m := m.(type) {
		case *Counter:
			fmt.Println(m.Value)
		case *Gauge:
			fmt.Println(m.Value)
		case *Histogram:
			fmt.Printf("%d, %.1f on average\n", m.Count, m.Sum/float64(m.Count))
		case *Vector:
			fmt.Println(m.Values)
		}
	}
	// Output:
	// engine 0 iteration_tokens_total: 5, 6.1 on average
	// engine 0 num_requests_running: 3
	// engine 1 num_requests_running: 0
	// engine 0 prompt_tokens: 1500000
	// engine 0 spec_decode_num_accepted_tokens_per_pos: [10 0 2]
	// engine 1 spec_decode_num_accepted_tokens_per_pos: [0 3 0]
}
