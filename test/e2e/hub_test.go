package e2e

import (
	"io/fs"
	"strings"
	"testing"
	"time"

	"govllm/protocol/modelfile/builtin"
	"govllm/protocol/modelfile/builtin/weights"
	"govllm/protocol/modelfile/hub/hubtest"
)

const hubModel = "govllm/fairy-tales"

// startHub serves the builtin model as a repository, and points the processes
// at it and at an empty cache.
func startHub(t *testing.T) *hubtest.Hub {
	t.Helper()
	repo := &hubtest.Repo{Commit: "0123456789abcdef0123456789abcdef01234567", Files: map[string][]byte{"README.md": []byte("# Fairy tales")}}
	for _, files := range []fs.FS{builtin.FS, weights.FS} {
		entries, err := fs.ReadDir(files, ".")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if repo.Files[e.Name()], err = fs.ReadFile(files, e.Name()); err != nil {
				t.Fatal(err)
			}
		}
	}
	h := hubtest.New(t, map[string]*hubtest.Repo{hubModel: repo})
	t.Setenv("HF_ENDPOINT", h.URL)
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	t.Setenv("HF_HUB_OFFLINE", "")
	t.Setenv("HF_TOKEN", "")
	return h
}

// Both processes are given a repository of the hub: every file comes once, and
// the model is the one it would be from the program.
func TestModelOfTheHub(t *testing.T) {
	const question = `{"prompt": "Once upon a time", "max_tokens": 20, "temperature": 0}`
	_, want := start(t, options{}).post(t, "/v1/completions", question)

	h := startHub(t)
	model := []string{"--model", hubModel}
	s := start(t, options{core: model, frontend: model})
	status, got := s.post(t, "/v1/completions", question)
	if status != 200 || at(got, "model") != hubModel || at(got, "choices", 0, "text") != at(want, "choices", 0, "text") {
		t.Errorf("the model of the hub answers %v, want the text of %v", got, want)
	}
	for _, file := range []string{"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"} {
		if n := h.Downloads(hubModel, file); n != 1 {
			t.Errorf("%s was downloaded %d times, want once", file, n)
		}
	}
	if n := h.Downloads(hubModel, "README.md"); n != 0 {
		t.Errorf("README.md was downloaded %d times, which nobody needs", n)
	}
}

func TestFrontendFetchesNoWeights(t *testing.T) {
	h := startHub(t)
	frontend := launch(t, "vllm-frontend", nil, "--model", hubModel, "--host", "127.0.0.1", "--port", freePort(t), "--data-parallel-rpc-port", freePort(t))
	for deadline := time.Now().Add(patience); !strings.Contains(frontend.output(), "waiting for engines"); {
		select {
		case <-frontend.done:
			t.Fatal("the frontend ended")
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal("the frontend does not come to wait for engines")
		}
	}
	if n := h.Downloads(hubModel, "model.safetensors"); n != 0 || h.Downloads(hubModel, "tokenizer.json") != 1 {
		t.Errorf("the frontend downloaded the weights %d times; requests: %v", n, h.Requests())
	}
}

func TestModelThatTheHubLacks(t *testing.T) {
	startHub(t)
	for _, name := range []string{"vllm-core", "vllm-frontend"} {
		p := launch(t, name, nil, "--model", "govllm/fairy-tails", "--data-parallel-rpc-port", freePort(t))
		if status := p.exit(t); status != 1 || !strings.Contains(p.output(), "/govllm/fairy-tails; check the spelling") {
			t.Errorf("%s exits with %d and says:\n%s", name, status, p.output())
		}
	}
}
