package metrics_test

import (
	"fmt"
	"net/http/httptest"
	"strings"

	"govllm/frontend/metrics"
	"govllm/protocol"
	"govllm/stats"
)

func Example() {
	registry := metrics.NewRegistry(nil)
	recorder, err := registry.NewRecorder(metrics.Config{
		ModelName: "builtin", MaxModelLen: 1024, Engines: []metrics.EngineConfig{{Index: 0}},
	})
	if err != nil {
		panic(err)
	}
	recorder.Record(0, &protocol.SchedulerStats{NumRunningReqs: 3},
		&stats.Iteration{NumOutputs: 3, NumGenerationTokens: 3})

	w := httptest.NewRecorder()
	registry.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "vllm:num_requests_running") || strings.HasPrefix(line, "vllm:generation_tokens_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// vllm:generation_tokens_total{engine="0",model_name="builtin"} 3
	// vllm:num_requests_running{engine="0",model_name="builtin"} 3
}
