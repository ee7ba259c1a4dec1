// Package hubtest is a Hugging Face hub for tests: repositories in memory,
// served over HTTP in the hub's own terms, with a second server for large files
// that the first redirects to, as the hub does.
//
// Python's huggingface_hub downloads from it too; see TestPython of package hub.
package hubtest

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Repo is a repository at one commit.
type Repo struct {
	Commit   string            // 40 hex digits
	Branches []string          // and tags; "main" is always one
	Files    map[string][]byte // by path
	Gated    bool              // files need a token with access
	Private  bool              // everything does
}

// Hub is a running server. Fields may be set until the first request.
type Hub struct {
	URL   string
	Repos map[string]*Repo
	// Token has access to gated and private repositories; OtherToken is an
	// account's without it. Any other token is refused.
	Token, OtherToken string
	// NoMetadata leaves sizes and checksums out of lists, as some mirrors do.
	NoMetadata bool

	large *httptest.Server // another origin

	mu        sync.Mutex
	requests  []Request
	intercept Interceptor
}

// Interceptor answers a request in place of next, or calls it.
type Interceptor func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc)

// Intercept sends all requests from now on to f; nil: to nobody.
func (h *Hub) Intercept(f Interceptor) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.intercept = f
}

// Request is one that came.
type Request struct {
	Method, Path, Range, Authorization string
	Large                              bool // at the server of large files
}

// New starts a hub that ends with the test.
func New(t testing.TB, repos map[string]*Repo) *Hub {
	t.Helper()
	h := &Hub{Repos: repos, Token: "hf_good", OtherToken: "hf_other"}
	api, files := http.NewServeMux(), http.NewServeMux() // their patterns overlap
	api.HandleFunc("GET /api/models/{owner}/{name}/revision/{revision}", h.info)
	api.HandleFunc("GET /api/models/{owner}/{name}/tree/{revision}", h.tree)
	files.HandleFunc("GET /{owner}/{name}/resolve/{revision}/{path...}", h.resolve)
	h.large = httptest.NewServer(h.record(true, http.HandlerFunc(h.blob)))
	server := httptest.NewServer(h.record(false, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/") {
			api.ServeHTTP(w, r)
			return
		}
		files.ServeHTTP(w, r)
	})))
	h.URL = server.URL
	t.Cleanup(server.Close)
	t.Cleanup(h.large.Close)
	return h
}

func (h *Hub) record(large bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.requests = append(h.requests, Request{Method: r.Method, Path: r.URL.Path, Range: r.Header.Get("Range"),
			Authorization: r.Header.Get("Authorization"), Large: large})
		intercept := h.intercept
		h.mu.Unlock()
		if intercept != nil {
			intercept(w, r, next.ServeHTTP)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Requests returns those that came so far.
func (h *Hub) Requests() []Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.requests)
}

// Downloads counts the requests for a file's content, wherever it is kept.
func (h *Hub) Downloads(repo, file string) int {
	n := 0
	for _, r := range h.Requests() {
		if r.Method == http.MethodGet && !r.Large && strings.HasPrefix(r.Path, "/"+repo+"/resolve/") && strings.HasSuffix(r.Path, "/"+file) {
			n++
		}
	}
	return n
}

// IsLarge says whether a file is kept in LFS, under its SHA-256.
func IsLarge(file string) bool {
	switch path.Ext(file) {
	case ".safetensors", ".gguf", ".bin":
		return true
	}
	return false
}

// Hash is a file's name in the cache: its SHA-256 if large, else git's SHA-1.
func Hash(file string, content []byte) string {
	if IsLarge(file) {
		sum := sha256.Sum256(content)
		return hex.EncodeToString(sum[:])
	}
	return gitHash(content)
}

func gitHash(content []byte) string {
	sum := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(content)), content...))
	return hex.EncodeToString(sum[:])
}

// CutAfter is a ResponseWriter that breaks the connection after n bytes of the
// body.
func CutAfter(w http.ResponseWriter, n int) http.ResponseWriter {
	return &cutter{ResponseWriter: w, left: n}
}

type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	if len(p) <= c.left {
		c.left -= len(p)
		return c.ResponseWriter.Write(p)
	}
	_, _ = c.ResponseWriter.Write(p[:c.left])
	_ = http.NewResponseController(c.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}

// find returns the repository and checks revision and token, answering itself
// if one of them will not do. content is asked for besides the list.
func (h *Hub) find(w http.ResponseWriter, r *http.Request, content bool) *Repo {
	token, hasToken := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if hasToken && token != h.Token && token != h.OtherToken {
		refuse(w, http.StatusUnauthorized, "", "Invalid credentials in Authorization header")
		return nil
	}
	repo := h.Repos[r.PathValue("owner")+"/"+r.PathValue("name")]
	if repo == nil || (repo.Private && token != h.Token) {
		status := http.StatusUnauthorized
		if hasToken {
			status = http.StatusNotFound
		}
		refuse(w, status, "RepoNotFound", "Repository not found")
		return nil
	}
	if rev := r.PathValue("revision"); rev != "main" && rev != repo.Commit && !slices.Contains(repo.Branches, rev) {
		refuse(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+rev)
		return nil
	}
	if content && repo.Gated && token != h.Token {
		status := http.StatusForbidden
		if !hasToken {
			status = http.StatusUnauthorized
		}
		refuse(w, status, "GatedRepo", "Access to this model is restricted")
		return nil
	}
	return repo
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("X-Error-Code", code)
	w.Header().Set("X-Error-Message", message)
	w.WriteHeader(status)
}

func (h *Hub) info(w http.ResponseWriter, r *http.Request) {
	repo := h.find(w, r, false)
	if repo == nil {
		return
	}
	siblings := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(repo.Files)) {
		content := repo.Files[name]
		s := map[string]any{"rfilename": name}
		if !h.NoMetadata && r.URL.Query().Get("blobs") != "" {
			s["size"], s["blobId"] = len(content), gitHash(content)
			if IsLarge(name) {
				s["lfs"] = map[string]any{"sha256": Hash(name, content), "size": len(content), "pointerSize": 134}
			}
		}
		siblings = append(siblings, s)
	}
	answer(w, map[string]any{"id": r.PathValue("owner") + "/" + r.PathValue("name"), "sha": repo.Commit, "siblings": siblings})
}

func (h *Hub) tree(w http.ResponseWriter, r *http.Request) {
	repo := h.find(w, r, false)
	if repo == nil {
		return
	}
	entries := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(repo.Files)) {
		content := repo.Files[name]
		e := map[string]any{"type": "file", "path": name, "size": len(content), "oid": gitHash(content)}
		if IsLarge(name) {
			e["lfs"] = map[string]any{"oid": Hash(name, content), "size": len(content), "pointerSize": 134}
		}
		entries = append(entries, e)
	}
	answer(w, entries)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that is gone has no use for it
}

func (h *Hub) resolve(w http.ResponseWriter, r *http.Request) {
	repo := h.find(w, r, true)
	if repo == nil {
		return
	}
	name := r.PathValue("path")
	content, ok := repo.Files[name]
	if !ok {
		refuse(w, http.StatusNotFound, "EntryNotFound", "Entry not found")
		return
	}
	w.Header().Set("X-Repo-Commit", repo.Commit)
	if IsLarge(name) {
		w.Header().Set("X-Linked-Etag", `"`+Hash(name, content)+`"`)
		w.Header().Set("X-Linked-Size", fmt.Sprint(len(content)))
		http.Redirect(w, r, h.large.URL+"/"+Hash(name, content)+"?signature="+url.QueryEscape("a secret"), http.StatusFound)
		return
	}
	w.Header().Set("ETag", `"`+Hash(name, content)+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// blob serves large files. A token that reaches it is a leak, which it refuses.
func (h *Hub) blob(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "" {
		http.Error(w, "the token came to another host", http.StatusBadRequest)
		return
	}
	for _, repo := range h.Repos {
		for name, content := range repo.Files {
			if IsLarge(name) && r.URL.Path == "/"+Hash(name, content) {
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
				return
			}
		}
	}
	http.NotFound(w, r)
}
