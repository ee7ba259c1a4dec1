package hub_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"govllm/protocol/modelfile/hub"
)

// pythonEnv names a Python that has huggingface_hub; `make test-hub` sets it.
const pythonEnv = "GOVLLM_HUB_PYTHON"

type pythonSnapshot struct {
	Path     string
	Files    map[string]string
	Warnings []string
}

func python(t *testing.T, verb, cache, revision string) (s pythonSnapshot) {
	t.Helper()
	cmd := exec.Command(os.Getenv(pythonEnv), filepath.Join("testdata", "python_cache.py"), verb, cache, repoName, revision)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &s)
	}
	if err != nil {
		t.Fatalf("python_cache.py %s: %v\n%s", verb, err, out)
	}
	if len(s.Warnings) > 0 {
		t.Errorf("python_cache.py %s: scan_cache_dir warns %q", verb, s.Warnings)
	}
	return s
}

func needPython(t *testing.T) {
	if os.Getenv(pythonEnv) == "" {
		t.Skip("needs Python with huggingface_hub; make test-hub sets it up")
	}
}

// Python finds without network what we fetched.
func TestPythonResolvesOurCache(t *testing.T) {
	needPython(t)
	h := newHub(t)
	cache := t.TempDir()
	c := newClient(t, hub.Options{CacheDir: cache, Endpoint: h.URL})
	for _, revision := range []string{"main", "v1.0", "refs/pr/1", commit} {
		dir := fetch(t, c, hub.Request{Repo: repoName, Revision: revision, Part: hub.Everything})
		s := python(t, "resolve", cache, revision)
		files := slices.Sorted(maps.Keys(s.Files))
		want := slices.Sorted(slices.Values(everythingOf))
		if s.Path != dir || !slices.Equal(files, want) {
			t.Errorf("revision %s: Python finds %v in %s, want %v in %s", revision, files, s.Path, want, dir)
		}
	}
}

// We find without network what Python fetched (from the same fake hub, which
// shows that the fake is like the hub), and with it download nothing again.
func TestWeResolvePythonsCache(t *testing.T) {
	needPython(t)
	h := newHub(t)
	cache := t.TempDir()
	t.Setenv("HF_ENDPOINT", h.URL)
	s := python(t, "fetch", cache, "main")
	wantFiles(t, s.Path, h.Repos[repoName], slices.Collect(maps.Keys(h.Repos[repoName].Files))...)
	if dir := fetch(t, newClient(t, hub.Options{CacheDir: cache, Offline: true}), everything); dir != s.Path {
		t.Errorf("Fetch offline = %s, want %s", dir, s.Path)
	}
	before := len(h.Requests())
	if dir := fetch(t, newClient(t, hub.Options{CacheDir: cache}), everything); dir != s.Path || len(h.Requests()) != before+1 {
		t.Errorf("Fetch = %s with %d requests, want %s with one", dir, len(h.Requests())-before, s.Path)
	}
}
