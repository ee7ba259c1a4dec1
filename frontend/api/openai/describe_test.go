package openai

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"govllm/frontend/engineclient"
)

// newDescribed is a server whose routes can be asked what they are.
func newDescribed(docs Docs) *Server {
	return New(Config{Client: engineclient.New(nil, nil, engineclient.Options{}), ServedModelNames: []string{"m"}, Docs: docs, DevMode: true,
		Routes: map[string]http.Handler{"GET /metrics": http.NotFoundHandler(), "GET /page": http.NotFoundHandler()}})
}

func document(t *testing.T, s *Server) map[string]any {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", "/openapi.json", nil))
	var d map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil {
		t.Fatalf("GET /openapi.json = %d %s: %v", w.Code, w.Body, err)
	}
	return d
}

// Every route is described, and nothing else.
func TestEveryRouteIsDescribed(t *testing.T) {
	s := newDescribed(Docs{})
	paths := document(t, s)["paths"].(map[string]any)
	described := 0
	for _, p := range paths {
		described += len(p.(map[string]any))
	}
	handlers := s.handlers()
	for pattern := range handlers {
		method, path := describedPath(pattern)
		operations, _ := paths[path].(map[string]any)
		operation, _ := operations[strings.ToLower(method)].(map[string]any)
		if operation == nil || operation["summary"] == "" {
			t.Errorf("%s is not described; add it to endpoints()", pattern)
		}
	}
	if want := len(handlers) + 1; described != want { // and /metrics
		t.Errorf("%d operations are described, want %d", described, want)
	}
	s = newDescribed(Docs{Off: true})
	for _, path := range []string{"/docs", "/openapi.json"} {
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, httptest.NewRequest("GET", path, nil)); w.Code != http.StatusNotFound {
			t.Errorf("GET %s without docs = %d, want 404", path, w.Code)
		}
	}
}

func TestDescribedKeysAndRoot(t *testing.T) {
	d := document(t, newDescribed(Docs{Keys: true, OpenPaths: []string{"/health"}, RootPath: "/llm"}))
	if url := d["servers"].([]any)[0].(map[string]any)["url"]; url != "/llm" {
		t.Errorf("server is %v, want /llm", url)
	}
	security := func(path string) any {
		return d["paths"].(map[string]any)[path].(map[string]any)["get"].(map[string]any)["security"]
	}
	if all, _ := d["security"].([]any); len(all) != 2 {
		t.Errorf("security is %v, want bearer or x-api-key", d["security"])
	}
	if health, ok := security("/health").([]any); !ok || len(health) != 0 {
		t.Errorf("security of /health is %v, want []", security("/health"))
	}
	if security("/v1/models") != nil {
		t.Errorf("security of /v1/models is %v, want the document's", security("/v1/models"))
	}
}

// samples are values of each JSON type. One may be refused for what it is, but
// for its type only if that is not in the schema.
var samples = map[string]string{"null": "null", "boolean": "true", "integer": "7", "number": "0.5", "string": `"a"`, "array": "[]", "object": "{}"}

// What a field's schema says of types is what its parser takes.
func TestFieldSchemas(t *testing.T) {
	for pattern, e := range endpoints() {
		if e.fields == nil {
			continue
		}
		for _, f := range e.fields() {
			if f.schema == "" {
				continue
			}
			var schema struct {
				Type any `json:"type"`
			}
			if err := json.Unmarshal([]byte(f.schema), &schema); err != nil {
				t.Errorf("%s %s: schema %s: %v", pattern, f.name, f.schema, err)
				continue
			}
			types := map[string]bool{}
			switch listed := schema.Type.(type) {
			case string:
				types[listed] = true
			case []any:
				for _, name := range listed {
					types[name.(string)] = true
				}
			case nil:
				continue // open, or by its parts
			}
			for name, sample := range samples {
				err := f.set(jsontext.Value(sample))
				allowed := types[name] || name == "integer" && types["number"]
				if name == "null" && slices.Contains(e.required, f.name) {
					continue // it counts as missing, which is found out later
				}
				if !allowed && err == nil {
					t.Errorf("%s: %s takes %s, which its schema %s does not say", pattern, f.name, sample, f.schema)
				}
				if allowed && err != nil && strings.Contains(err.Message, "` must be ") && name != "object" && name != "array" {
					t.Errorf("%s: %s does not take %s, which its schema %s says: %s", pattern, f.name, sample, f.schema, err.Message)
				}
			}
		}
	}
}

// Refused fields say why.
func TestRefusedFieldsAreDescribed(t *testing.T) {
	d := document(t, newDescribed(Docs{}))
	schema := d["components"].(map[string]any)["schemas"].(map[string]any)["CompletionRequest"].(map[string]any)["properties"].(map[string]any)
	suffix, _ := schema["suffix"].(map[string]any)
	if suffix["x-served"] != false || !strings.Contains(suffix["description"].(string), "fills in the middle") {
		t.Errorf("suffix is described as %v, want refused with its reason", suffix)
	}
	if user, _ := schema["user"].(map[string]any); user["description"] != "Accepted and ignored." {
		t.Errorf("user is described as %v, want ignored", user)
	}
}
