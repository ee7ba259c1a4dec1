// Package observability reads the frontend's /metrics as its real consumers
// do: a gateway's endpoint picker (always), and Prometheus with every query
// that dashboards and autoscalers make, and a browser with the live page
// (`make e2e-observability`).
package observability

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"govllm/test/load/system"
)

var binDir string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if binDir, err = os.MkdirTemp("", "govllm-observability-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(binDir)
	return m.Run()
}

// build compiles the commands for the first test that starts them.
var build = sync.OnceValue(func() error { return system.Build(context.Background(), binDir) })

func start(t *testing.T, opt system.Options) *system.System {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	opt.BinDir = binDir
	s, err := system.Start(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(s.Output())
		}
	})
	return s
}

// extra skips tests that need programs which not every machine has, and that
// take longer than a plain `go test` may.
func extra(t *testing.T) {
	t.Helper()
	if os.Getenv("GOVLLM_OBSERVABILITY") == "" {
		t.Skip("run by make e2e-observability, which sets GOVLLM_OBSERVABILITY=1")
	}
}
