package openapi

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

type inner struct {
	N int32 `json:"n"`
}

type custom struct{}

func (*custom) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

func TestSchemaOf(t *testing.T) {
	type all struct {
		inner
		Text   string            `json:"text"`
		Score  float32           `json:"score,omitzero"`
		Maybe  *bool             `json:"maybe"`
		List   []inner           `json:"list"`
		Map    map[string]string `json:"map"`
		Any    any               `json:"any"`
		Custom *custom           `json:"custom"`
		hidden int
	}
	_ = all{hidden: 1}
	got, err := json.Marshal(SchemaOf[all](), json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"properties":{"any":{},"custom":{},` +
		`"list":{"anyOf":[{"items":{"properties":{"n":{"type":"integer"}},"required":["n"],"type":"object"},"type":"array"},{"type":"null"}]},` +
		`"map":{"additionalProperties":{"type":"string"},"type":"object"},` +
		`"maybe":{"anyOf":[{"type":"boolean"},{"type":"null"}]},` +
		`"n":{"type":"integer"},"score":{"type":"number"},"text":{"type":"string"}},` +
		`"required":["n","text","maybe","list","map","any","custom"],"type":"object"}`
	if string(got) != want {
		t.Errorf("SchemaOf = %s, want\n%s", got, want)
	}
}

// The page names no other server.
func TestPage(t *testing.T) {
	w := httptest.NewRecorder()
	Page(w, httptest.NewRequest("GET", "/docs", nil))
	if elsewhere := regexp.MustCompile(`https?:|src=|@import|//[a-z]`).FindString(w.Body.String()); elsewhere != "" {
		t.Errorf("the page holds %q", elsewhere)
	}
	if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") {
		t.Errorf("Content-Security-Policy is %q", csp)
	}
}
