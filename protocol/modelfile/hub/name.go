package hub

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// nameForm is OWNER/NAME, and after a colon one of its GGUF files.
var nameForm = regexp.MustCompile(`^([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?::([\w.+/-]+))?$`)

const maxNameLen = 96 // of a repository on the hub

// ParseName splits what could be a repository of the hub: OWNER/NAME, and for
// its GGUF files OWNER/NAME:Q4_K_M (a quantization, as in vLLM) or
// OWNER/NAME:FILE.gguf. A name that ends in .gguf is a path, not a repository.
func ParseName(name string) (repo, gguf string, ok bool) {
	m := nameForm.FindStringSubmatch(name)
	if m == nil {
		return "", "", false
	}
	repo, gguf = m[1], m[2]
	if len(repo) > maxNameLen || strings.Contains(repo, "--") || strings.Contains(repo, "..") ||
		strings.HasSuffix(repo, ".git") || isGGUF(repo) {
		return "", "", false
	}
	return repo, gguf, true
}

func isGGUF(path string) bool { return strings.HasSuffix(strings.ToLower(path), ".gguf") }

var (
	commitForm = regexp.MustCompile(`^[0-9a-f]{40}$`)
	sha256Form = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// checkPath accepts what stays inside the snapshot on every system.
func checkPath(path string) error {
	if path == "" || !filepath.IsLocal(filepath.FromSlash(path)) || strings.ContainsAny(path, "\\\x00") || path != filepath.ToSlash(filepath.Clean(path)) {
		return fmt.Errorf("file name %q leads out of the model's folder: %w", path, ErrInvalid)
	}
	return nil
}

func checkRevision(revision string) error {
	if err := checkPath(revision); err != nil || strings.ContainsFunc(revision, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return fmt.Errorf("revision %q: %w: must be a branch, a tag or a commit", revision, ErrInvalid)
	}
	return nil
}

// folder is a repository's name in the cache.
func folder(repo string) string { return "models--" + strings.ReplaceAll(repo, "/", "--") }
