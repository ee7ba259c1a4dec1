package openai

import (
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"govllm/frontend/admission"
	"govllm/frontend/chat"
	"govllm/frontend/engineclient"
	"govllm/frontend/tokenizer"
	"govllm/protocol"
)

// Config is what the API needs to know. All of it is fixed at start.
type Config struct {
	Client    *engineclient.Client
	Admission *admission.Limiter // nil: one without limits
	Tokenizer *tokenizer.Tokenizer
	// Templates are the model's chat templates; nil if it has none, and then
	// a chat is refused, never guessed.
	Templates *chat.Set

	ServedModelNames []string // the first is shown
	ModelRoot        string   // path the model was loaded from, for /v1/models
	MaxModelLen      int      // tokens, prompt and output
	VocabSize        int      // of the model's embedding
	MaxLogprobs      int      // that a request may ask for; -1: the vocabulary
	EOSTokenIDs      []int32  // the first is the EOS, others stop as stop tokens
	Defaults         Defaults
	ResponseRole     string
	Options
	ErrorFormat ErrorFormat
	Logger      *slog.Logger
	Now         func() time.Time // nil: time.Now

	Docs       Docs
	RequestLog RequestLog
	DevMode    bool              // routes for development; not for production
	Settings   map[string]string // the server's options by flag, without secrets, for /server_info

	// Extra routes, such as /metrics and /load.
	Routes map[string]http.Handler
}

// Server answers the API's routes.
type Server struct {
	cfg     Config
	log     *slog.Logger
	now     func() time.Time
	started time.Time
	mux     *http.ServeMux

	live live

	unknownMu   sync.Mutex
	unknownSeen map[string]bool
}

// New returns a server of an engine that is ready.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, log: cfg.Logger, now: cfg.Now, mux: http.NewServeMux(), unknownSeen: map[string]bool{}}
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.cfg.Admission == nil {
		s.cfg.Admission = admission.New(admission.Config{})
	}
	s.started = s.now()
	s.routes()
	return s
}

// handlers are the routes of this package.
func (s *Server) handlers() map[string]http.HandlerFunc {
	handlers := map[string]http.HandlerFunc{
		"POST /v1/completions":              s.admitted(s.createCompletion),
		"POST /v1/chat/completions":         s.admitted(s.createChatCompletion),
		"POST /tokenize":                    s.tokenize,
		"POST /detokenize":                  s.detokenize,
		"GET /v1/models":                    s.listModels,
		"GET /v1/models/{model...}":         s.retrieveModel,
		"POST /v1/completions/render":       s.renderCompletion,
		"POST /v1/chat/completions/render":  s.renderChatCompletion,
		"POST /inference/v1/abort_requests": s.abortRequests,
		"POST /inference/v1/generate":       s.admitted(s.generate),
		"DELETE /v1/requests/{id}":          s.cancelRequest,
		"GET /health":                       s.health,
		"GET /ping":                         s.health,
		"POST /ping":                        s.health,
		"GET /version":                      s.version,
		"GET /ready":                        s.ready,
	}
	if s.cfg.DevMode {
		maps.Copy(handlers, s.devRoutes())
	}
	if !s.cfg.Docs.Off {
		patterns := slices.Concat(slices.Collect(maps.Keys(handlers)), slices.Collect(maps.Keys(s.cfg.Routes)))
		maps.Copy(handlers, s.docsRoutes(patterns))
	}
	return handlers
}

// routes registers every endpoint. A path without a method also gets an
// answer for the other methods: 405 in the API's own shape.
func (s *Server) routes() {
	methods := map[string][]string{}
	add := func(pattern string, h http.Handler) {
		s.mux.Handle(pattern, h)
		method, path, _ := strings.Cut(pattern, " ")
		methods[path] = append(methods[path], method)
	}
	for pattern, h := range s.handlers() {
		add(pattern, h)
	}
	for pattern, h := range s.cfg.Routes {
		add(pattern, h)
	}
	for path, allowed := range methods {
		slices.Sort(allowed)
		s.mux.Handle(path, s.methodNotAllowed(allowed))
	}
	s.mux.HandleFunc("/", s.notFound)
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// NotReady answers while the engines are starting.
func NotReady(f ErrorFormat) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		e := unavailable("The engine is starting.")
		e.RetryAfter = time.Second
		f.Write(w, e)
	})
}

func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	s.cfg.ErrorFormat.Write(w, refusal(http.StatusNotFound, "There is no %s here.", abbreviate(r.URL.Path)))
}

func (s *Server) methodNotAllowed(allowed []string) http.HandlerFunc {
	allow := strings.Join(allowed, ", ")
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allow)
		s.cfg.ErrorFormat.Write(w, refusal(http.StatusMethodNotAllowed, "%s is not allowed here, only %s.", abbreviate(r.Method), allow))
	}
}

// health is liveness: 200 while the engine lives, else 503.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if s.cfg.Client.Healthy() != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"version": protocol.VLLMVersion})
}

func quotedList(names []string) string {
	return "`" + strings.Join(names, "`, `") + "`"
}
