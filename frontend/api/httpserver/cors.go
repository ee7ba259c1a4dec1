package httpserver

import (
	"net/http"
	"slices"
	"strings"
)

// CORS says which web pages' scripts may use the API. No origins: none.
type CORS struct {
	Origins     []string // such as https://example.com, or * for all
	Methods     []string // or *
	Headers     []string // or *, besides those that are always allowed
	Credentials bool     // cookies and client certificates too
}

// cors answers as Starlette's CORSMiddleware does, which vLLM uses.
type cors struct {
	CORS
	allOrigins, allHeaders bool
	methods, headers       string
}

var (
	allMethods  = []string{"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}
	safeHeaders = []string{"Accept", "Accept-Language", "Content-Language", "Content-Type"}
)

// preflightSeconds is how long a browser may remember what it was told.
const preflightSeconds = "600"

func newCORS(c CORS) *cors {
	if len(c.Origins) == 0 {
		return nil
	}
	if slices.Contains(c.Methods, "*") {
		c.Methods = allMethods
	}
	headers := slices.Concat(safeHeaders, c.Headers)
	slices.Sort(headers)
	return &cors{CORS: c,
		allOrigins: slices.Contains(c.Origins, "*"), allHeaders: slices.Contains(c.Headers, "*"),
		methods: strings.Join(c.Methods, ", "), headers: strings.Join(slices.Compact(headers), ", "),
	}
}

// answer writes the headers that a browser looks for. It reports whether that
// was all: a preflight request is not the API's business.
func (c *cors) answer(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if c == nil || origin == "" {
		return false
	}
	allowed := c.allOrigins || slices.Contains(c.Origins, origin)
	if allowed {
		c.allow(w.Header(), origin)
	}
	method := r.Header.Get("Access-Control-Request-Method")
	if r.Method != http.MethodOptions || method == "" {
		return false
	}
	c.preflight(w, r, allowed, method)
	return true
}

// allow names the origin, or all of them where that is the same for everyone:
// with credentials it may not be.
func (c *cors) allow(h http.Header, origin string) {
	if c.allOrigins && !c.Credentials {
		origin = "*"
	} else {
		h.Add("Vary", "Origin")
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "Retry-After, X-Request-Id")
	if c.Credentials {
		h.Set("Access-Control-Allow-Credentials", "true")
	}
}

func (c *cors) preflight(w http.ResponseWriter, r *http.Request, allowed bool, method string) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", c.methods)
	h.Set("Access-Control-Max-Age", preflightSeconds)
	asked := r.Header.Get("Access-Control-Request-Headers")
	if c.allHeaders && asked != "" {
		h.Set("Access-Control-Allow-Headers", asked)
	} else {
		h.Set("Access-Control-Allow-Headers", c.headers)
	}
	var refused []string
	if !allowed {
		refused = append(refused, "origin")
	}
	if !slices.Contains(c.Methods, method) {
		refused = append(refused, "method")
	}
	if !c.headersAllowed(asked) {
		refused = append(refused, "headers")
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	if refused != nil {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte("Disallowed CORS " + strings.Join(refused, ", ")))
		return
	}
	_, _ = w.Write([]byte("OK"))
}

func (c *cors) headersAllowed(asked string) bool {
	if c.allHeaders || asked == "" {
		return true
	}
	for name := range strings.SplitSeq(asked, ",") {
		same := func(header string) bool { return strings.EqualFold(header, strings.TrimSpace(name)) }
		if !slices.ContainsFunc(c.Headers, same) && !slices.ContainsFunc(safeHeaders, same) {
			return false
		}
	}
	return true
}
