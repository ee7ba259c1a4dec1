// Package imports holds the map of which package may import which, and asks
// the go command whether it is true. Run it with -count=1: the test cache
// cannot see that another package's imports changed.
package imports

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "govllm"

// may says, for each folder, which other folders of this module its packages
// may import. The longest matching folder decides; a folder may always import
// itself and what lies below it. `*` in a list stands for everything.
var may = map[string][]string{
	"protocol": {},
	"stats":    {"protocol"},
	"ipc":      {"protocol"},

	"kernels":            {},
	"kernels/ref":        {"kernels"},
	"kernels/cpu":        {"kernels"},
	"kernels/kerneltest": {"kernels"},

	"enginecore":             {"protocol", "stats", "ipc"},
	"enginecore/internal":    {},
	"enginecore/request":     {"protocol", "enginecore/internal"},
	"enginecore/kvcache":     {"protocol", "enginecore/request", "enginecore/internal"},
	"enginecore/step":        {"protocol"},
	"enginecore/perf":        {"protocol", "enginecore/step"},
	"enginecore/sched":       {"protocol", "enginecore/request", "enginecore/kvcache", "enginecore/step", "enginecore/internal"},
	"enginecore/sampler":     {"protocol", "kernels"},
	"enginecore/model":       {"protocol", "kernels"},
	"enginecore/modelrunner": {"protocol", "kernels", "enginecore/step", "enginecore/model", "enginecore/sampler", "enginecore/internal"},
	"enginecore/mockrunner":  {"protocol", "kernels", "enginecore"},
	"enginecore/coretest":    {"protocol", "enginecore"},

	"frontend":                {"protocol", "stats", "ipc"},
	"frontend/admission":      {"stats"},
	"frontend/tokenizer":      {},
	"frontend/chat":           {},
	"frontend/engineclient":   {"protocol", "stats", "ipc"},
	"frontend/metrics":        {"protocol", "stats"},
	"frontend/api/httpserver": {},
	"frontend/api/openapi":    {},
	"frontend/outputs":        {"protocol", "frontend/tokenizer", "frontend/engineclient"},

	"cmd":  {"*"},
	"test": {"*"},
}

type pkg struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func listPackages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", module+"/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// rule returns the folder of the map that decides about a package.
func rule(path string) (string, bool) {
	for {
		if _, ok := may[path]; ok {
			return path, true
		}
		cut := strings.LastIndexByte(path, '/')
		if cut < 0 {
			return "", false
		}
		path = path[:cut]
	}
}

func within(path, folder string) bool {
	return folder == "*" || path == folder || strings.HasPrefix(path, folder+"/")
}

func allowed(from, to string) bool {
	folder, ok := rule(from)
	if !ok {
		return false
	}
	if within(to, folder) {
		return true
	}
	for _, f := range may[folder] {
		if within(to, f) {
			return true
		}
	}
	return false
}

func TestImportDirections(t *testing.T) {
	for _, p := range listPackages(t) {
		from := strings.TrimPrefix(p.ImportPath, module+"/")
		if _, ok := rule(from); !ok {
			t.Errorf("%s is in no folder of the map", from)
			continue
		}
		for _, to := range p.Imports {
			if to, ours := strings.CutPrefix(to, module+"/"); ours && !allowed(from, to) {
				t.Errorf("%s must not import %s", from, to)
			}
		}
		// Tests may use every helper but never join the two processes:
		// that is what test/ is for.
		for _, to := range append(p.TestImports, p.XTestImports...) {
			to, ours := strings.CutPrefix(to, module+"/")
			if ours && ((within(from, "enginecore") && within(to, "frontend")) || (within(from, "frontend") && within(to, "enginecore"))) {
				t.Errorf("a test of %s must not import %s", from, to)
			}
		}
	}
}

// The map itself keeps the rules of the house.
func TestMap(t *testing.T) {
	for _, arrow := range []struct {
		from, to string
		want     bool
	}{
		{"enginecore", "frontend/outputs", false},
		{"frontend/api/openai", "enginecore", false},
		{"enginecore/sched", "enginecore/modelrunner", false},
		{"enginecore/modelrunner", "enginecore/sched", false},
		{"protocol", "ipc", false},
		{"stats", "frontend/metrics", false},
		{"kernels/cpu", "protocol", false},
		{"enginecore/model", "protocol/modelfile", true},
		{"enginecore/sched", "enginecore/internal/invariants", true},
		{"frontend/api/openai", "frontend/outputs", true},
		{"cmd/vllm-core", "enginecore", true},
	} {
		if got := allowed(arrow.from, arrow.to); got != arrow.want {
			t.Errorf("allowed(%s → %s) = %t, want %t", arrow.from, arrow.to, got, arrow.want)
		}
	}
}
