package httpserver

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"
)

// keys are the hashes of the keys that open. Hashes are of one length, so a
// comparison tells nothing of a key's.
type keys [][sha256.Size]byte

func newKeys(texts []string) keys {
	var k keys
	for _, t := range texts {
		k = append(k, sha256.Sum256([]byte(t)))
	}
	return k
}

// has compares with every key, in constant time.
func (k keys) has(text string) bool {
	hash := sha256.Sum256([]byte(text))
	found := 0
	for i := range k {
		found |= subtle.ConstantTimeCompare(k[i][:], hash[:])
	}
	return found == 1
}

// authorized says whether the API may see a request: no key is asked for, the
// path is open, or the request has a key.
func (s *Server) authorized(r *http.Request) bool {
	if len(s.keys) == 0 || slices.Contains(s.cfg.OpenPaths, r.URL.Path) {
		return true
	}
	key, given := sentKey(r)
	return given && s.keys.has(key)
}

// sentKey is the key of a request: OpenAI's clients send it as a bearer token,
// Anthropic's as x-api-key.
func sentKey(r *http.Request) (key string, given bool) {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, key, _ := strings.Cut(header, " ")
		return strings.TrimLeft(key, " "), strings.EqualFold(scheme, "bearer")
	}
	key = r.Header.Get("X-Api-Key")
	return key, key != ""
}

// challenge tells whether a key was missing or wrong. Source: RFC 6750 §3.
func challenge(r *http.Request) string {
	if _, given := sentKey(r); given {
		return `Bearer error="invalid_token", error_description="unknown API key"`
	}
	return "Bearer"
}
