package openai

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"govllm/frontend/api/openapi"
	"govllm/protocol"
)

// Docs says whether and how the API describes itself at /docs and
// /openapi.json.
type Docs struct {
	Off      bool
	RootPath string // that a proxy in front puts before every path
	Keys     bool   // a key is asked for
	// OpenPaths want none, if others do.
	OpenPaths []string
}

// endpoint describes one route.
type endpoint struct {
	summary  string
	request  string         // name of the body's schema; "" for none
	fields   func() []field // of the body
	required []string       // of them
	query    []openapi.Parameter
	response any  // schema of the answer; nil: empty, or not JSON
	streams  bool // if asked to
}

func query(name, schema string) openapi.Parameter {
	return openapi.Parameter{Name: name, In: "query", Schema: jsontext.Value(schema)}
}

// endpoints describes every route of this package. Bodies are described by the
// fields that parse them.
func endpoints() map[string]endpoint {
	truth := `{"type":"boolean"}`
	mode := query("mode", `{"type":"string","enum":["abort","wait","keep"],"default":"abort"}`)
	status := openapi.SchemaOf[map[string]any]()
	return map[string]endpoint{
		"POST /v1/completions": {summary: "Continue prompts.", request: "CompletionRequest", required: []string{"prompt"},
			fields: func() []field { return new(completionRequest).fields() }, response: openapi.SchemaOf[completionResponse](), streams: true},
		"POST /v1/chat/completions": {summary: "Answer a conversation.", request: "ChatCompletionRequest", required: []string{"messages"},
			fields: func() []field { return new(chatRequest).fields() }, response: openapi.SchemaOf[chatResponse](), streams: true},
		"POST /tokenize": {summary: "The tokens of a prompt, or of a conversation under the chat template.", request: "TokenizeRequest",
			fields: func() []field { return new(tokenizeRequest).fields() }, response: openapi.SchemaOf[tokenizeResponse]()},
		"POST /detokenize": {summary: "The text of tokens.", request: "DetokenizeRequest", required: []string{"tokens"},
			fields:   func() []field { return detokenizeFields(new(string), new([]int32)) },
			response: openapi.SchemaOf[map[string]string]()},
		"POST /v1/completions/render": {summary: "What /v1/completions would send to the engine, a list with one entry per prompt.", request: "CompletionRequest", required: []string{"prompt"},
			fields: func() []field { return new(completionRequest).fields() }, response: openapi.SchemaOf[[]renderedRequest]()},
		"POST /v1/chat/completions/render": {summary: "What /v1/chat/completions would send to the engine.", request: "ChatCompletionRequest", required: []string{"messages"},
			fields: func() []field { return new(chatRequest).fields() }, response: openapi.SchemaOf[renderedRequest]()},
		"POST /inference/v1/generate": {summary: "Tokens in, tokens out.", request: "GenerateRequest", required: []string{"token_ids", "sampling_params"},
			fields: func() []field { return new(generateRequest).fields() }, response: openapi.SchemaOf[generateResponse](), streams: true},
		"POST /inference/v1/abort_requests": {summary: "End the running requests of those IDs, as DELETE /v1/requests/{id} does one by one.", request: "AbortRequest", required: []string{"request_ids"},
			fields: func() []field { return abortFields(new([]string)) }},
		"GET /v1/models":            {summary: "The names that requests may give as model.", response: openapi.SchemaOf[modelList]()},
		"GET /v1/models/{model...}": {summary: "One of them.", response: openapi.SchemaOf[modelCard]()},
		"DELETE /v1/requests/{id}":  {summary: "End the running requests of that ID; they are answered with what they have.", response: openapi.SchemaOf[cancelResponse]()},
		"GET /health":               {summary: "Liveness: 503 once the engine is dead."},
		"GET /ping":                 {summary: "The same as /health."},
		"POST /ping":                {summary: "The same as /health."},
		"GET /ready":                {summary: "Readiness: 503 while requests should go elsewhere.", response: status},
		"GET /version":              {summary: "The version of vLLM whose API this is.", response: openapi.SchemaOf[map[string]string]()},

		"GET /docs":         {summary: "This description as a page."},
		"GET /openapi.json": {summary: "This description.", response: openapi.SchemaOf[map[string]any]()},
		"GET /metrics":      {summary: "Statistics in Prometheus' text format."},
		"GET /load":         {summary: "The number of requests in flight.", response: openapi.SchemaOf[map[string]int]()},

		"POST /reset_prefix_cache": {summary: "Forget cached prefixes.", response: status,
			query: []openapi.Parameter{query("reset_running_requests", truth), query("reset_external", truth)}},
		"POST /reset_mm_cache":      {summary: "Forget cached media."},
		"POST /reset_encoder_cache": {summary: "Forget encoded media."},
		"POST /sleep": {summary: "Free the engine's memory.", response: status,
			query: []openapi.Parameter{query("level", `{"type":"integer","minimum":0,"maximum":2,"default":1}`), mode}},
		"POST /wake_up":    {summary: "End a sleep.", response: status, query: []openapi.Parameter{query("tags", `{"type":"array","items":{"type":"string"}}`)}},
		"GET /is_sleeping": {summary: "Whether the engine sleeps.", response: status},
		"POST /pause":      {summary: "Hold requests back.", response: status, query: []openapi.Parameter{mode, query("clear_cache", truth)}},
		"POST /resume":     {summary: "End a pause.", response: status},
		"GET /is_paused":   {summary: "Whether requests are held back.", response: status},
		"GET /server_info": {summary: "Configuration and environment.", response: status,
			query: []openapi.Parameter{query("config_format", `{"type":"string","enum":["text","json"],"default":"text"}`)}},
	}
}

// describe makes the document of the given routes.
func (s *Server) describe(patterns []string) *openapi.Document {
	d := &openapi.Document{
		OpenAPI: "3.1.0",
		Info: openapi.Info{Title: "vLLM API", Version: protocol.VLLMVersion,
			Description: "The OpenAI-compatible API of " + s.cfg.ServedModelNames[0] + ". Members of a request that are not described are ignored; those marked x-served: false are refused."},
		Paths:      map[string]openapi.Path{},
		Components: openapi.Components{Schemas: map[string]any{"ErrorResponse": openapi.SchemaOf[errorBody]()}},
	}
	if root := s.cfg.Docs.RootPath; root != "" {
		d.Servers = []openapi.ServerURL{{URL: root}}
	}
	if s.cfg.Docs.Keys {
		d.Components.SecuritySchemes = map[string]any{
			"bearer":    map[string]string{"type": "http", "scheme": "bearer"},
			"x-api-key": map[string]string{"type": "apiKey", "in": "header", "name": "x-api-key"},
		}
		d.Security = []map[string]any{{"bearer": []string{}}, {"x-api-key": []string{}}}
	}
	known := endpoints()
	for _, pattern := range patterns {
		if _, ok := known[pattern]; !ok {
			continue // a page for people, such as the dashboard
		}
		method, path := describedPath(pattern)
		if d.Paths[path] == nil {
			d.Paths[path] = openapi.Path{}
		}
		d.Paths[path][strings.ToLower(method)] = s.operation(d, path, known[pattern])
	}
	return d
}

// describedPath splits a pattern of net/http, whose mark of a rest that may hold
// slashes OpenAPI lacks.
func describedPath(pattern string) (method, path string) {
	method, path, _ = strings.Cut(pattern, " ")
	return method, strings.ReplaceAll(path, "...}", "}")
}

func (s *Server) operation(d *openapi.Document, path string, e endpoint) *openapi.Operation {
	op := &openapi.Operation{Summary: e.summary, Parameters: e.query, Responses: map[string]openapi.Response{
		"200":     {Description: "Done."},
		"default": {Description: "Refused or failed: what is wrong, and the way out.", Content: openapi.JSON(openapi.Ref("ErrorResponse"))},
	}}
	for _, part := range strings.Split(path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			op.Parameters = append(op.Parameters, openapi.Parameter{Name: strings.TrimSuffix(name, "}"), In: "path", Required: true, Schema: jsontext.Value(`{"type":"string"}`)})
		}
	}
	if e.fields != nil {
		d.Components.Schemas[e.request] = describeFields(e.fields(), e.required)
		op.RequestBody = &openapi.Body{Required: true, Content: openapi.JSON(openapi.Ref(e.request))}
	}
	if e.response != nil {
		answer := openapi.Response{Description: "The answer.", Content: openapi.JSON(e.response)}
		if e.streams {
			answer.Description = "The answer; with stream, its pieces as server-sent events."
			answer.Content["text/event-stream"] = openapi.Media{Schema: jsontext.Value(`{"type":"string"}`)}
		}
		op.Responses["200"] = answer
	}
	for _, open := range s.cfg.Docs.OpenPaths {
		if open == path && s.cfg.Docs.Keys {
			op.Security = []map[string]any{}
		}
	}
	return op
}

// describeFields is the schema of an object that the fields parse.
func describeFields(fields []field, required []string) any {
	properties := map[string]any{}
	for i := range fields {
		properties[fields[i].name] = describeField(&fields[i])
	}
	schema := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

// describeField is a field's own schema. One without is refused or ignored;
// which of the two, and why, it says itself when it is given something.
func describeField(f *field) any {
	if f.schema != "" {
		return jsontext.Value(f.schema)
	}
	refused := f.set(jsontext.Value(`{"x-probe":"x-probe"}`))
	if refused == nil {
		return map[string]any{"description": "Accepted and ignored."}
	}
	return map[string]any{"x-served": false, "description": "Refused, but for null and its default. " + refused.Message}
}

// docsRoutes serves the description of the given routes and its own.
func (s *Server) docsRoutes(patterns []string) map[string]http.HandlerFunc {
	own := []string{"GET /docs", "GET /openapi.json"}
	return map[string]http.HandlerFunc{
		own[0]: openapi.Page,
		own[1]: s.describe(append(patterns, own...)).Handler(),
	}
}

var _ json.Marshaler = (*stopReason)(nil) // whose schema is therefore open
