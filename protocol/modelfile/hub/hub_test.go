package hub_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"govllm/protocol/modelfile/hub"
	"govllm/protocol/modelfile/hub/hubtest"
)

const (
	repoName = "govllm/tiny"
	commit   = "0123456789abcdef0123456789abcdef01234567"
)

// random content of which every part differs.
func random(seed byte, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b) // never fails
	return b
}

func tinyRepo() *hubtest.Repo {
	return &hubtest.Repo{Commit: commit, Branches: []string{"v1.0", "refs/pr/1"}, Files: map[string][]byte{
		"config.json":               []byte(`{"model_type": "llama"}`),
		"generation_config.json":    []byte(`{}`),
		"tokenizer.json":            random(1, 70_000),
		"tokenizer_config.json":     []byte(`{"eos_token": "</s>"}`),
		"tokenizer.model":           random(2, 1000),
		"model.safetensors":         random(3, 1_000_000),
		"pytorch_model.bin":         random(4, 1000),
		"README.md":                 []byte("# tiny"),
		".gitattributes":            {},
		"original/consolidated.pth": random(5, 1000),
	}}
}

// isolate keeps the tester's own settings away.
func isolate(t *testing.T) {
	for _, name := range []string{"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN",
		"HF_TOKEN_PATH", "HF_ENDPOINT", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_PROGRESS_BARS"} {
		t.Setenv(name, "") // restores it after the test
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", t.TempDir())
}

func newHub(t *testing.T) *hubtest.Hub {
	isolate(t)
	return hubtest.New(t, map[string]*hubtest.Repo{repoName: tinyRepo()})
}

// newClient never waits between tries.
func newClient(t *testing.T, opt hub.Options) *hub.Client {
	t.Helper()
	c, err := hub.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	c.SetPause(func(ctx context.Context, _ time.Duration) error { return ctx.Err() })
	return c
}

func fetch(t *testing.T, c *hub.Client, req hub.Request) string {
	t.Helper()
	path, err := c.Fetch(t.Context(), req)
	if err != nil {
		t.Fatalf("Fetch(%+v) = %v", req, err)
	}
	return path
}

var everything = hub.Request{Repo: repoName, Part: hub.Everything}

// wantFiles checks the whole content of a snapshot.
func wantFiles(t *testing.T, dir string, repo *hubtest.Repo, want ...string) {
	t.Helper()
	var got []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		got = append(got, rel)
		content, err := os.ReadFile(path)
		if err == nil && !bytes.Equal(content, repo.Files[rel]) {
			err = fmt.Errorf("%s has another content than in the hub", rel)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("files of %s = %v, want %v", dir, got, want)
	}
}

var (
	tokenizerOf   = []string{"tokenizer.json", "tokenizer_config.json"}
	descriptionOf = append([]string{"config.json", "generation_config.json"}, tokenizerOf...)
	everythingOf  = append([]string{"model.safetensors"}, descriptionOf...)
)

func TestCacheLayout(t *testing.T) {
	h := newHub(t)
	cache := t.TempDir()
	c := newClient(t, hub.Options{CacheDir: cache, Endpoint: h.URL})
	dir := fetch(t, c, hub.Request{Repo: repoName, Revision: "refs/pr/1", Part: hub.Everything})

	repo := filepath.Join(cache, "models--govllm--tiny")
	if want := filepath.Join(repo, "snapshots", commit); dir != want {
		t.Errorf("Fetch = %s, want %s", dir, want)
	}
	wantFiles(t, dir, h.Repos[repoName], everythingOf...)
	if ref, err := os.ReadFile(filepath.Join(repo, "refs", "refs", "pr", "1")); string(ref) != commit {
		t.Errorf("refs/refs/pr/1 = %q, %v, want the commit and nothing else", ref, err)
	}
	for _, name := range everythingOf {
		link, err := os.Readlink(filepath.Join(dir, name))
		if want := filepath.Join("..", "..", "blobs", hubtest.Hash(name, h.Repos[repoName].Files[name])); err != nil || link != want {
			t.Errorf("%s -> %s, %v, want %s", name, link, err, want)
		}
	}
	blobs, _ := filepath.Glob(filepath.Join(repo, "blobs", "*"))
	if len(blobs) != len(everythingOf) {
		t.Errorf("%d blobs %v, want %d and nothing incomplete", len(blobs), blobs, len(everythingOf))
	}
}

func TestPartsFetchWhatTheyNeed(t *testing.T) {
	for _, tc := range []struct {
		part hub.Part
		want []string
	}{{hub.Tokenizer, tokenizerOf}, {hub.Description, descriptionOf}, {hub.Everything, everythingOf}} {
		h := newHub(t)
		dir := fetch(t, newClient(t, hub.Options{CacheDir: t.TempDir(), Endpoint: h.URL}), hub.Request{Repo: repoName, Part: tc.part})
		wantFiles(t, dir, h.Repos[repoName], tc.want...)
	}
}

func TestSecondFetchDownloadsNothing(t *testing.T) {
	h := newHub(t)
	c := newClient(t, hub.Options{CacheDir: t.TempDir(), Endpoint: h.URL})
	first := fetch(t, c, everything)
	before := len(h.Requests())
	if again := fetch(t, c, everything); again != first || len(h.Requests()) != before+1 {
		t.Errorf("second Fetch = %s with requests %v, want %s with one for the list", again, h.Requests()[before:], first)
	}
}

func TestSameContentComesOnce(t *testing.T) {
	h := newHub(t)
	repo := h.Repos[repoName]
	repo.Files["chat_template.jinja"] = repo.Files["tokenizer_config.json"]
	dir := fetch(t, newClient(t, hub.Options{CacheDir: t.TempDir(), Endpoint: h.URL}), hub.Request{Repo: repoName})
	wantFiles(t, dir, repo, append([]string{"chat_template.jinja"}, tokenizerOf...)...)
	if n := h.Downloads(repoName, "chat_template.jinja") + h.Downloads(repoName, "tokenizer_config.json"); n != 1 {
		t.Errorf("%d downloads of two files of the same content, want one", n)
	}
}

// A GGUF file holds all of a model: its path is what Fetch returns.
func TestGGUF(t *testing.T) {
	h := newHub(t)
	repo := &hubtest.Repo{Commit: commit, Files: map[string][]byte{
		"README.md": []byte("# tiny"), "config.json": []byte("{}"), "BF16/tiny-BF16.gguf": random(21, 3000), "tiny-Q4_K_M.gguf": random(22, 2000),
	}}
	h.Repos["govllm/tiny-GGUF"] = repo
	cache := t.TempDir()
	for _, c := range []*hub.Client{
		newClient(t, hub.Options{CacheDir: cache, Endpoint: h.URL}),
		newClient(t, hub.Options{CacheDir: cache, Offline: true}),
	} {
		path := fetch(t, c, hub.Request{Repo: "govllm/tiny-GGUF", GGUF: "BF16", Part: hub.Description})
		dir := filepath.Join(cache, "models--govllm--tiny-GGUF", "snapshots", commit)
		if want := filepath.Join(dir, "BF16", "tiny-BF16.gguf"); path != want {
			t.Errorf("Fetch = %s, want %s", path, want)
		}
		wantFiles(t, dir, repo, "BF16/tiny-BF16.gguf")
	}
}

func TestShards(t *testing.T) {
	h := newHub(t)
	repo := h.Repos[repoName]
	repo.Files["model.safetensors.index.json"] = []byte(`{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}`)
	repo.Files["model-00001-of-00002.safetensors"] = random(11, 5000)
	repo.Files["model-00002-of-00002.safetensors"] = random(12, 5000)
	repo.Files["consolidated.safetensors"] = random(13, 5000)
	dir := fetch(t, newClient(t, hub.Options{CacheDir: t.TempDir(), Endpoint: h.URL}), everything)
	wantFiles(t, dir, repo, append([]string{"model.safetensors.index.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}, descriptionOf...)...)
}

// cutting breaks the connection of the first requests for large files, each
// time after n bytes.
func cutting(times, n int) hubtest.Interceptor {
	var cuts atomic.Int32
	return func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		if isLargeRequest(r) && int(cuts.Add(1)) <= times {
			w = hubtest.CutAfter(w, n)
		}
		next(w, r)
	}
}

func isLargeRequest(r *http.Request) bool { return r.URL.Query().Has("signature") }

func TestBrokenConnections(t *testing.T) {
	h := newHub(t)
	const times, n = 5 * hub.MaxTries, 30_000 // more in all than tries in a row
	h.Intercept(cutting(times, n))
	dir := fetch(t, newClient(t, hub.Options{CacheDir: t.TempDir(), Endpoint: h.URL}), everything)
	wantFiles(t, dir, h.Repos[repoName], everythingOf...)
	var ranges []string
	for _, r := range h.Requests() {
		if r.Large {
			ranges = append(ranges, r.Range)
		}
	}
	var want []string
	for i := range times + 1 {
		want = append(want, fmt.Sprintf("bytes=%d-", i*n))
	}
	want[0] = ""
	if !slices.Equal(ranges, want) {
		t.Errorf("ranges asked for = %v, want %v", ranges, want)
	}
}

func TestGivesUpWithoutProgress(t *testing.T) {
	h := newHub(t)
	h.Intercept(cutting(1<<30, 0))
	c := newClient(t, hub.Options{CacheDir: t.TempDir(), Endpoint: h.URL})
	_, err := c.Fetch(t.Context(), everything)
	if got := h.Downloads(repoName, "model.safetensors"); err == nil || got != hub.MaxTries || !strings.Contains(err.Error(), "what has come is kept") {
		t.Errorf("Fetch = %v after %d tries, want an error that says how to go on after %d", err, got, hub.MaxTries)
	}
}

// A partial file of an earlier process, in every state it could be in.
func TestPartialFiles(t *testing.T) {
	whole := tinyRepo().Files["model.safetensors"]
	for _, tc := range []struct {
		name    string
		partial []byte
		want    []string // ranges asked for
	}{
		{"a beginning", whole[:123_456], []string{"bytes=123456-"}},
		{"all of it", whole, nil},
		{"empty", nil, []string{""}},
		{"another content", random(99, 1000), []string{"bytes=1000-", ""}},
		{"all of another content", random(99, len(whole)), []string{""}},
		{"too long", random(99, len(whole)+1), []string{""}},
	} {
		h := newHub(t)
		cache := t.TempDir()
		blobs := filepath.Join(cache, "models--govllm--tiny", "blobs")
		if err := os.MkdirAll(blobs, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(blobs, hubtest.Hash("model.safetensors", whole)+".incomplete"), tc.partial, 0o644); err != nil {
			t.Fatal(err)
		}
		dir := fetch(t, newClient(t, hub.Options{CacheDir: cache, Endpoint: h.URL}), everything)
		wantFiles(t, dir, h.Repos[repoName], everythingOf...)
		var ranges []string
		for _, r := range h.Requests() {
			if r.Large {
				ranges = append(ranges, r.Range)
			}
		}
		if !slices.Equal(ranges, tc.want) {
			t.Errorf("%s: ranges asked for = %q, want %q", tc.name, ranges, tc.want)
		}
	}
}

// Servers that do not go on where a file broke off.
func TestServersWithoutRanges(t *testing.T) {
	for name, answer := range map[string]hubtest.Interceptor{
		"ignores Range": func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
			r.Header.Del("Range")
			next(w, r)
		},
		"refuses Range": func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		},
		"another range": func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
			r.Header.Set("Range", "bytes=5-")
			next(w, r)
		},
	} {
		h := newHub(t)
		cut := cutting(1, 50_000)
		h.Intercept(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
			if isLargeRequest(r) && r.Header.Get("Range") != "" {
				answer(w, r, next)
				return
			}
			cut(w, r, next)
		})
		c := newClient(t, hub.Options{CacheDir: t.TempDir(), Endpoint: h.URL})
		dir, err := c.Fetch(t.Context(), everything)
		if err != nil {
			t.Errorf("%s: Fetch = %v", name, err)
			continue
		}
		wantFiles(t, dir, h.Repos[repoName], everythingOf...)
	}
}

func TestStalledDownload(t *testing.T) {
	h := newHub(t)
	var stalls atomic.Int32
	h.Intercept(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		if !isLargeRequest(r) || stalls.Add(1) > 1 {
			next(w, r)
			return
		}
		w.Header().Set("Content-Length", "1000000")
		_, _ = w.Write(h.Repos[repoName].Files["model.safetensors"][:7000])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // says nothing more until the client has gone
	})
	c := newClient(t, hub.Options{CacheDir: t.TempDir(), Endpoint: h.URL})
	c.SetStall(200 * time.Millisecond)
	wantFiles(t, fetch(t, c, everything), h.Repos[repoName], everythingOf...)
}

func TestDamagedContent(t *testing.T) {
	for name, content := range map[string][]byte{
		"another content": random(98, 1_000_000),
		"longer":          random(98, 1_000_001),
	} {
		h := newHub(t)
		h.Intercept(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
			if isLargeRequest(r) {
				_, _ = w.Write(content)
				return
			}
			next(w, r)
		})
		cache := t.TempDir()
		c := newClient(t, hub.Options{CacheDir: cache, Endpoint: h.URL})
		if _, err := c.Fetch(t.Context(), everything); !errors.Is(err, hub.ErrDamaged) || !strings.Contains(err.Error(), "model.safetensors") {
			t.Errorf("%s: Fetch = %v, want ErrDamaged that names the file", name, err)
		}
		blob := filepath.Join(cache, "models--govllm--tiny", "blobs", hubtest.Hash("model.safetensors", h.Repos[repoName].Files["model.safetensors"]))
		if _, err := os.Stat(blob); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the damaged file got its name: %v", name, err)
		}
		h.Intercept(nil)
		wantFiles(t, fetch(t, c, everything), h.Repos[repoName], everythingOf...)
	}
}

func TestSmallFileIsChecked(t *testing.T) {
	h := newHub(t)
	h.Intercept(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		if strings.HasSuffix(r.URL.Path, "/config.json") {
			_, _ = w.Write([]byte(`{"model_type": "other"}`)) // of the same length
			return
		}
		next(w, r)
	})
	c := newClient(t, hub.Options{CacheDir: t.TempDir(), Endpoint: h.URL})
	if _, err := c.Fetch(t.Context(), everything); !errors.Is(err, hub.ErrDamaged) {
		t.Errorf("Fetch = %v, want ErrDamaged", err)
	}
}

func TestBusyServer(t *testing.T) {
	h := newHub(t)
	answers := []int{503, 429, 500, 502, 504, 408}
	var mu sync.Mutex
	seen := map[string]int{}
	h.Intercept(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		mu.Lock()
		i := seen[r.URL.Path]
		seen[r.URL.Path]++
		mu.Unlock()
		if i < hub.MaxTries-1 && !isLargeRequest(r) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(answers[i])
			return
		}
		next(w, r)
	})
	c := newClient(t, hub.Options{CacheDir: t.TempDir(), Endpoint: h.URL})
	c.SetPause(func(ctx context.Context, d time.Duration) error {
		if d < 7*time.Second {
			t.Errorf("a pause of %v, want at least the 7 s of Retry-After", d)
		}
		return ctx.Err()
	})
	wantFiles(t, fetch(t, c, everything), h.Repos[repoName], everythingOf...)
}

func TestPausesGrow(t *testing.T) {
	h := newHub(t)
	h.Intercept(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	c := newClient(t, hub.Options{CacheDir: t.TempDir(), Endpoint: h.URL})
	var pauses []time.Duration
	c.SetPause(func(_ context.Context, d time.Duration) error {
		pauses = append(pauses, d)
		return nil
	})
	if _, err := c.Fetch(t.Context(), everything); !errors.Is(err, hub.ErrUnreachable) || !strings.Contains(err.Error(), "503") {
		t.Errorf("Fetch = %v, want ErrUnreachable with the status", err)
	}
	if len(pauses) != hub.MaxTries-1 {
		t.Fatalf("%d pauses, want one between each of %d tries", len(pauses), hub.MaxTries)
	}
	for i, d := range pauses {
		if most := 500 * time.Millisecond << i; d < most/2 || d > most {
			t.Errorf("pause %d = %v, want between %v and %v", i, d, most/2, most)
		}
	}
}

// What the hub refuses, and what the user reads.
func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		name  string
		repo  string
		token string
		req   hub.Request
		is    error
		says  []string
	}{
		{name: "typo", req: hub.Request{Repo: "govllm/tinny"}, is: hub.ErrNotFound, says: []string{"/govllm/tinny; check the spelling", "HF_TOKEN"}},
		{name: "typo, with a token", token: "hf_other", req: hub.Request{Repo: "govllm/tinny"}, is: hub.ErrNotFound, says: []string{"check the spelling", "the token given may not"}},
		{name: "private", req: hub.Request{Repo: "govllm/private"}, is: hub.ErrNotFound, says: []string{"if it is private set HF_TOKEN"}},
		{name: "wrong token", token: "hf_wrong", req: everything, is: hub.ErrDenied, says: []string{"does not accept the token given", "/settings/tokens"}},
		{name: "gated", req: hub.Request{Repo: "govllm/gated"}, is: hub.ErrDenied, says: []string{"gated; accept its terms at ", "/govllm/gated, then set HF_TOKEN"}},
		{name: "gated, with a token", token: "hf_other", req: hub.Request{Repo: "govllm/gated"}, is: hub.ErrDenied, says: []string{"gated; accept its terms", "with the account of the token given"}},
		{name: "revision", req: hub.Request{Repo: repoName, Revision: "v2"}, is: hub.ErrNotFound, says: []string{`revision "v2" not found`, "/govllm/tiny/tree/main"}},
		{name: "revision outside", req: hub.Request{Repo: repoName, Revision: "../../x"}, is: hub.ErrInvalid, says: []string{`"../../x"`}},
		{name: "repository outside", req: hub.Request{Repo: "../x"}, is: hub.ErrInvalid, says: []string{"OWNER/NAME"}},
		{name: "no config", req: hub.Request{Repo: "govllm/data", Part: hub.Everything}, is: hub.ErrNotFound, says: []string{"config.json not found; it holds README.md"}},
		{name: "only pickles", req: hub.Request{Repo: "govllm/pickle", Part: hub.Everything}, is: hub.ErrNotFound, says: []string{"weights in safetensors not found; it holds config.json, pytorch_model.bin"}},
		{name: "only GGUF", req: hub.Request{Repo: "govllm/gguf", Part: hub.Everything}, is: hub.ErrNotFound, says: []string{"choose one by a colon", "Q4_K_M, Q8_0"}},
		{name: "no such GGUF", req: hub.Request{Repo: "govllm/gguf", GGUF: "Q5_K_M"}, is: hub.ErrNotFound, says: []string{"Q5_K_M not found", "Q4_K_M, Q8_0"}},
	} {
		isolate(t)
		h := hubtest.New(t, map[string]*hubtest.Repo{
			repoName:         tinyRepo(),
			"govllm/private": {Commit: commit, Private: true},
			"govllm/gated":   {Commit: commit, Gated: true, Files: tinyRepo().Files},
			"govllm/data":    {Commit: commit, Files: map[string][]byte{"README.md": nil}},
			"govllm/pickle":  {Commit: commit, Files: map[string][]byte{"config.json": []byte("{}"), "pytorch_model.bin": nil}},
			"govllm/gguf":    {Commit: commit, Files: map[string][]byte{"tiny-Q4_K_M.gguf": nil, "tiny-Q8_0.gguf": nil}},
		})
		c := newClient(t, hub.Options{CacheDir: t.TempDir(), Endpoint: h.URL, Token: tc.token})
		_, err := c.Fetch(t.Context(), tc.req)
		if !errors.Is(err, tc.is) {
			t.Errorf("%s: Fetch = %v, want %v", tc.name, err, tc.is)
			continue
		}
		for _, s := range tc.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: Fetch = %v; want it to say %q", tc.name, err, s)
			}
		}
	}
}

func TestTokenGoesToTheHubAlone(t *testing.T) {
	for _, tc := range []struct {
		name   string
		option string
		setup  func(home string)
		want   string
	}{
		{name: "option", option: "hf_good", setup: func(string) { t.Setenv("HF_TOKEN", "hf_other") }, want: "Bearer hf_good"},
		{name: "environment", setup: func(string) { t.Setenv("HF_TOKEN", " hf_good\n") }, want: "Bearer hf_good"},
		{name: "file", setup: func(home string) { writeFile(t, filepath.Join(home, "token"), "hf_good\n") }, want: "Bearer hf_good"},
		{name: "another file", setup: func(home string) {
			writeFile(t, filepath.Join(home, "mine"), "hf_good")
			t.Setenv("HF_TOKEN_PATH", filepath.Join(home, "mine"))
		}, want: "Bearer hf_good"},
		{name: "none", want: ""},
	} {
		h := newHub(t)
		home := t.TempDir()
		t.Setenv("HF_HOME", home)
		t.Setenv("HF_ENDPOINT", h.URL+"/")
		if tc.setup != nil {
			tc.setup(home)
		}
		c := newClient(t, hub.Options{Token: tc.option})
		if want := filepath.Join(home, "hub"); c.CacheDir() != want {
			t.Errorf("%s: CacheDir() = %s, want %s", tc.name, c.CacheDir(), want)
		}
		fetch(t, c, everything)
		for _, r := range h.Requests() {
			want := tc.want
			if r.Large {
				want = ""
			}
			if r.Authorization != want {
				t.Errorf("%s: %+v carries %q, want %q", tc.name, r, r.Authorization, want)
			}
		}
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestSettings(t *testing.T) {
	for _, tc := range []struct {
		env  map[string]string
		want string // the cache, with HOME cut away
	}{
		{nil, "/.cache/huggingface/hub"},
		{map[string]string{"XDG_CACHE_HOME": "~/c"}, "/c/huggingface/hub"},
		{map[string]string{"XDG_CACHE_HOME": "~/c", "HF_HOME": "$HOME/h"}, "/h/hub"},
		{map[string]string{"HF_HOME": "~/h", "HUGGINGFACE_HUB_CACHE": "~/old"}, "/old"},
		{map[string]string{"HF_HOME": "~/h", "HUGGINGFACE_HUB_CACHE": "~/old", "HF_HUB_CACHE": "~/new"}, "/new"},
	} {
		isolate(t)
		for name, v := range tc.env {
			t.Setenv(name, v)
		}
		if got := strings.TrimPrefix(newClient(t, hub.Options{}).CacheDir(), os.Getenv("HOME")); got != tc.want {
			t.Errorf("CacheDir with %v = ~%s, want ~%s", tc.env, got, tc.want)
		}
	}
	isolate(t)
	for _, tc := range []struct {
		opt  hub.Options
		says string
	}{
		{hub.Options{Endpoint: "huggingface.co"}, `HF_ENDPOINT "huggingface.co"`},
		{hub.Options{Token: "two words"}, "the token given"},
	} {
		if _, err := hub.New(tc.opt); !errors.Is(err, hub.ErrInvalid) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("New(%+v) = %v, want ErrInvalid that says %q", tc.opt, err, tc.says)
		}
	}
}

func TestOffline(t *testing.T) {
	h := newHub(t)
	cache := t.TempDir()
	dir := fetch(t, newClient(t, hub.Options{CacheDir: cache, Endpoint: h.URL}), hub.Request{Repo: repoName, Part: hub.Description})
	before := len(h.Requests())
	t.Setenv("HF_HUB_OFFLINE", "1")
	c := newClient(t, hub.Options{CacheDir: cache, Endpoint: h.URL})
	for _, revision := range []string{"", "main", commit} {
		if got := fetch(t, c, hub.Request{Repo: repoName, Revision: revision, Part: hub.Description}); got != dir {
			t.Errorf("Fetch offline of revision %q = %s, want %s", revision, got, dir)
		}
	}
	for _, tc := range []struct {
		req  hub.Request
		says string
	}{
		{everything, "weights in safetensors not found"},
		{hub.Request{Repo: repoName, Revision: "v1.0"}, "revision v1.0 not found"},
		{hub.Request{Repo: "govllm/other"}, "not found"},
	} {
		_, err := c.Fetch(t.Context(), tc.req)
		if !errors.Is(err, hub.ErrUnreachable) || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), "HF_HUB_OFFLINE is set") {
			t.Errorf("Fetch(%+v) offline = %v, want ErrUnreachable that says %q", tc.req, err, tc.says)
		}
	}
	if got := len(h.Requests()); got != before {
		t.Errorf("%d requests in offline mode", got-before)
	}
}

func TestHubOutOfReach(t *testing.T) {
	h := newHub(t)
	cache := t.TempDir()
	dir := fetch(t, newClient(t, hub.Options{CacheDir: cache, Endpoint: h.URL}), everything)
	const nobody = "http://127.0.0.1:1"
	if got := fetch(t, newClient(t, hub.Options{CacheDir: cache, Endpoint: nobody}), everything); got != dir {
		t.Errorf("Fetch without the hub = %s, want the copy %s", got, dir)
	}
	c := newClient(t, hub.Options{CacheDir: t.TempDir(), Endpoint: nobody})
	tries := 1
	c.SetPause(func(context.Context, time.Duration) error { tries++; return nil })
	_, err := c.Fetch(t.Context(), everything)
	if !errors.Is(err, hub.ErrUnreachable) || tries != 2 {
		t.Errorf("Fetch without hub and copy = %v after %d tries, want ErrUnreachable after 2", err, tries)
	}
	for _, s := range []string{nobody, "HTTPS_PROXY", "local directory", c.CacheDir()} {
		if err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("Fetch without hub and copy = %v, want it to say %q", err, s)
		}
	}
}

func TestCancel(t *testing.T) {
	h := newHub(t)
	ctx, cancel := context.WithCancel(t.Context())
	h.Intercept(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		if isLargeRequest(r) {
			w.Header().Set("Content-Length", "1000000")
			_, _ = w.Write(make([]byte, 1000))
			_ = http.NewResponseController(w).Flush()
			cancel()
			<-r.Context().Done()
			return
		}
		next(w, r)
	})
	c := newClient(t, hub.Options{CacheDir: t.TempDir(), Endpoint: h.URL})
	if _, err := c.Fetch(ctx, everything); !errors.Is(err, context.Canceled) {
		t.Errorf("Fetch = %v, want context.Canceled", err)
	}
}

// Names, checksums and commits that a server could attack with.
func TestHostileLists(t *testing.T) {
	for _, body := range []string{
		`{"sha": "` + commit + `", "siblings": [{"rfilename": "../../config.json"}]}`,
		`{"sha": "` + commit + `", "siblings": [{"rfilename": "/etc/passwd"}]}`,
		`{"sha": "` + commit + `", "siblings": [{"rfilename": "a/../../b"}]}`,
		`{"sha": "` + commit + `", "siblings": [{"rfilename": "a\\..\\b"}]}`,
		`{"sha": "` + commit + `", "siblings": [{"rfilename": ""}]}`,
		`{"sha": "` + commit + `", "siblings": [{"rfilename": "config.json", "blobId": "../../x", "size": 1}]}`,
		`{"sha": "` + commit + `", "siblings": [{"rfilename": "config.json", "blobId": "` + commit + `", "size": -1}]}`,
		`{"sha": "../..", "siblings": []}`,
		`<html>please log in</html>`,
	} {
		h := newHub(t)
		h.Intercept(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) { _, _ = w.Write([]byte(body)) })
		cache := t.TempDir()
		c := newClient(t, hub.Options{CacheDir: cache, Endpoint: h.URL})
		_, err := c.Fetch(t.Context(), everything)
		if !errors.Is(err, hub.ErrInvalid) {
			t.Errorf("Fetch with the list %s = %v, want ErrInvalid", body, err)
		}
		if left, _ := os.ReadDir(cache); len(left) > 0 {
			t.Errorf("Fetch with the list %s left %v", body, left)
		}
	}
}

// Whatever a server lists stays inside the snapshot.
func FuzzList(f *testing.F) {
	f.Add([]byte(`{"sha": "` + commit + `", "siblings": [{"rfilename": "a/b.json", "size": 3, "blobId": "` + commit + `"}]}`))
	f.Add([]byte(`{"sha": "` + commit + `", "siblings": [{"rfilename": "../b", "lfs": {"sha256": "x", "size": -1}}]}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		paths, _ := hub.ListedPaths(answer)
		for _, p := range paths {
			if got := filepath.Join("/snapshot", p); !strings.HasPrefix(got, "/snapshot/") || strings.Contains(p, "..") && !filepath.IsLocal(p) {
				t.Errorf("%q leads to %s", p, got)
			}
		}
	})
}

func TestHostileIndex(t *testing.T) {
	for _, index := range []string{`{"weight_map": {"a": "../model.safetensors"}}`, `{"weight_map": {"a": "absent.safetensors"}}`, `{}`, `[`} {
		h := newHub(t)
		h.Repos[repoName].Files["model.safetensors.index.json"] = []byte(index)
		c := newClient(t, hub.Options{CacheDir: t.TempDir(), Endpoint: h.URL})
		if _, err := c.Fetch(t.Context(), everything); !errors.Is(err, hub.ErrInvalid) && !errors.Is(err, hub.ErrNotFound) {
			t.Errorf("Fetch with the index %s = %v, want it refused", index, err)
		}
	}
}

func TestMirrorWithoutMetadata(t *testing.T) {
	h := newHub(t)
	h.NoMetadata = true
	dir := fetch(t, newClient(t, hub.Options{CacheDir: t.TempDir(), Endpoint: h.URL, Token: "hf_good"}), everything)
	wantFiles(t, dir, h.Repos[repoName], everythingOf...)

	h.Intercept(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		if r.Method == http.MethodHead {
			w.Header().Set("ETag", `"../../../x"`)
			return
		}
		next(w, r)
	})
	c := newClient(t, hub.Options{CacheDir: t.TempDir(), Endpoint: h.URL})
	if _, err := c.Fetch(t.Context(), everything); !errors.Is(err, hub.ErrInvalid) {
		t.Errorf("Fetch with a strange ETag = %v, want ErrInvalid", err)
	}
}

func TestNoSpace(t *testing.T) {
	h := newHub(t)
	h.Intercept(func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		fmt.Fprintf(w, `{"sha": %q, "siblings": [{"rfilename": "config.json", "blobId": %q, "size": %d}]}`, commit, commit, int64(1)<<60)
	})
	c := newClient(t, hub.Options{CacheDir: t.TempDir(), Endpoint: h.URL})
	_, err := c.Fetch(t.Context(), hub.Request{Repo: repoName, Part: hub.Description})
	for _, err := range []error{err, c.WriteError(&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC})} {
		if !errors.Is(err, hub.ErrNoSpace) || !strings.Contains(err.Error(), "--download-dir") || !strings.Contains(err.Error(), c.CacheDir()) {
			t.Errorf("a full disk: %v, want ErrNoSpace with the folder and the way out", err)
		}
	}
}

// A cache that may only be read serves what it has.
func TestReadOnlyCache(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write everywhere")
	}
	h := newHub(t)
	cache := t.TempDir()
	c := newClient(t, hub.Options{CacheDir: cache, Endpoint: h.URL})
	fetch(t, c, everything)
	readOnly := func(mode fs.FileMode) {
		_ = filepath.WalkDir(cache, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				err = os.Chmod(path, mode)
			}
			return err
		})
	}
	readOnly(0o555)
	defer readOnly(0o755)
	fetch(t, c, everything)
	fetch(t, c, hub.Request{Repo: repoName, Revision: "v1.0", Part: hub.Everything}) // the same commit
}

// wantOnce: the cache has all files, and each came once.
func wantOnce(t *testing.T, h *hubtest.Hub, cache string) {
	t.Helper()
	for _, name := range everythingOf {
		if n := h.Downloads(repoName, name); n != 1 {
			t.Errorf("%s was downloaded %d times, want once", name, n)
		}
	}
	wantFiles(t, filepath.Join(cache, "models--govllm--tiny", "snapshots", commit), h.Repos[repoName], everythingOf...)
}

func TestGoroutinesDownloadOnce(t *testing.T) {
	h := newHub(t)
	cache := t.TempDir()
	var group errgroup.Group
	for range 8 {
		c := newClient(t, hub.Options{CacheDir: cache, Endpoint: h.URL})
		group.Go(func() error {
			_, err := c.Fetch(t.Context(), everything)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	wantOnce(t, h, cache)
}

func TestProgress(t *testing.T) {
	h := newHub(t)
	var bar, lines bytes.Buffer
	c := newClient(t, hub.Options{CacheDir: t.TempDir(), Endpoint: h.URL, Terminal: &bar, Log: slog.New(slog.NewTextHandler(&lines, nil))})
	fetch(t, c, everything)
	for _, s := range []string{"[", "] ", " % of 1.0 MiB, ", "/s"} {
		if !strings.Contains(bar.String(), s) {
			t.Errorf("the bar %q lacks %q", bar.String(), s)
		}
	}
	if !strings.HasSuffix(bar.String(), "\r\x1b[K") {
		t.Errorf("the bar %q stays on the screen", bar.String())
	}
	for _, s := range []string{"msg=fetching", "msg=fetched", "files=5"} {
		if !strings.Contains(lines.String(), s) {
			t.Errorf("the log lacks %q:\n%s", s, lines.String())
		}
	}
}
