// Package mockserver is an API server that does next to nothing: it answers a
// streaming completion or chat with constant events, each flushed by itself as
// a real server must. It shows what a load generator can take: a generator
// that is not far faster against it than against the real server measures
// itself.
package mockserver

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Config of the server.
type Config struct {
	Interval       time.Duration // pause before each event
	TokensPerEvent func() int    // asked at each request; nil: one
}

// New returns the server's handler. The request's max_tokens says how many
// tokens come.
func New(cfg Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"object":"list","data":[{"id":"mock","object":"model"}]}`)
	})
	mux.Handle("POST /v1/completions", handler(cfg, `"text":" word","logprobs":null,"finish_reason":null,"stop_reason":null`))
	mux.Handle("POST /v1/chat/completions", handler(cfg, `"delta":{"content":" word"},"logprobs":null,"finish_reason":null`))
	return mux
}

// maxTokens finds the number in a body without parsing the rest.
var maxTokens = regexp.MustCompile(`"max(?:_completion)?_tokens":(\d+)`)

func handler(cfg Config, choice string) http.HandlerFunc {
	const head = `data: {"id":"cmpl-0123456789abcdef0123456789abcdef","object":"text_completion","created":1700000000,"model":"mock","choices":[`
	event := []byte(head + `{"index":0,` + choice + "}]}\n\n")
	return func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		if _, err := body.ReadFrom(r.Body); err != nil {
			return
		}
		asked := maxTokens.FindSubmatch(body.Bytes())
		if asked == nil || !bytes.Contains(body.Bytes(), []byte(`"stream":true`)) {
			http.Error(w, "want a body with max_tokens and stream true", http.StatusBadRequest)
			return
		}
		n, _ := strconv.Atoi(string(asked[1]))
		prompt := strings.Count(body.String(), ",") // near enough
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		rc := http.NewResponseController(w)
		size := 1
		if cfg.TokensPerEvent != nil {
			size = max(1, cfg.TokensPerEvent())
		}
		for range (n + size - 1) / size {
			if cfg.Interval > 0 {
				time.Sleep(cfg.Interval)
			}
			if _, err := w.Write(event); err != nil {
				return
			}
			if err := rc.Flush(); err != nil {
				return
			}
		}
		fmt.Fprintf(w, head+`],"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}}`+"\n\ndata: [DONE]\n\n", prompt, prompt+n, n)
	}
}
