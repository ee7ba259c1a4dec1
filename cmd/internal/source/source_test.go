package source

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"govllm/cmd/internal/flags"
	"govllm/protocol/modelfile/hub"
	"govllm/protocol/modelfile/hub/hubtest"
)

const commit = "0123456789abcdef0123456789abcdef01234567"

// startHub serves one repository, with an empty cache and no token around.
func startHub(t *testing.T) *hubtest.Hub {
	h := hubtest.New(t, map[string]*hubtest.Repo{"govllm/tiny": {Commit: commit, Branches: []string{"v1"}, Gated: true,
		Files: map[string][]byte{"config.json": []byte("{}"), "tokenizer.json": []byte("{}"), "tiny-Q8_0.gguf": []byte("GGUF")}}})
	t.Setenv("HF_ENDPOINT", h.URL)
	t.Setenv("HF_HOME", t.TempDir())
	t.Setenv("HF_HUB_OFFLINE", "")
	t.Setenv("HF_TOKEN", "")
	return h
}

func TestPath(t *testing.T) {
	h := startHub(t)
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("here/model", 0o755); err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	snapshot := filepath.Join(cache, "models--govllm--tiny", "snapshots", commit)
	opt := &flags.Hub{DownloadDir: cache, Token: h.Token}
	for _, tc := range []struct {
		want Want
		path string
		says string
	}{
		{want: Want{Name: "builtin"}, path: "builtin"},
		{want: Want{Name: "here/model"}, path: "here/model"}, // though it could be a repository's name
		{want: Want{Name: "./nowhere"}, path: "./nowhere"},
		{want: Want{Name: "some/model.gguf"}, path: "some/model.gguf"},
		{want: Want{Name: "govllm/tiny", Part: hub.Description}, path: snapshot},
		{want: Want{Name: "govllm/tiny", Part: hub.Tokenizer, Revision: "v1"}, path: snapshot},
		{want: Want{Name: "govllm/tiny:Q8_0", Part: hub.Description}, path: filepath.Join(snapshot, "tiny-Q8_0.gguf")},
		{want: Want{Name: "builtin", Revision: "v1", Part: hub.Everything}, says: "--revision v1 is for repositories of the Hugging Face hub, which the model builtin is not"},
		{want: Want{Name: "here/model", Revision: "v1", Part: hub.Tokenizer}, says: "--tokenizer-revision v1 is for repositories"},
		{want: Want{Name: "here/modle", Part: hub.Everything}, says: "model here/modle is neither a directory here nor to be had from the hub: not found at"},
	} {
		got, err := Path(t.Context(), tc.want, opt, slog.New(slog.DiscardHandler))
		if (err != nil) != (tc.says != "") || got != tc.path || (err != nil && !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("Path(%+v) = %q, %v, want %q, an error that says %q", tc.want, got, err, tc.path, tc.says)
		}
	}
}

// --hf-token wins; its value true, as vLLM has it, means the one that is stored.
func TestToken(t *testing.T) {
	startHub(t)
	_, err := Path(t.Context(), Want{Name: "govllm/tiny"}, &flags.Hub{}, slog.New(slog.DiscardHandler))
	if err == nil || !strings.HasPrefix(err.Error(), "tokenizer govllm/tiny: access denied: it is gated") {
		t.Errorf("Path without a token = %v, want it denied", err)
	}
	for _, tc := range []struct{ flag, env, want string }{
		{"hf_good", "hf_other", "Bearer hf_good"},
		{"true", "hf_good", "Bearer hf_good"},
		{"", "hf_good", "Bearer hf_good"},
	} {
		h := startHub(t)
		t.Setenv("HF_TOKEN", tc.env)
		if _, err := Path(t.Context(), Want{Name: "govllm/tiny"}, &flags.Hub{Token: tc.flag}, slog.New(slog.DiscardHandler)); err != nil {
			t.Error(err)
		}
		if got := h.Requests()[0].Authorization; got != tc.want {
			t.Errorf("--hf-token %q with HF_TOKEN %q sends %q, want %q", tc.flag, tc.env, got, tc.want)
		}
	}
}
