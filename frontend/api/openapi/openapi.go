// Package openapi writes OpenAPI 3.1 descriptions: the parts of a document that
// an API of JSON bodies needs, JSON Schemas of Go types, and a page that shows
// the document in a browser and loads nothing from elsewhere.
//
// Source: OpenAPI Specification 3.1, JSON Schema 2020-12.
package openapi

import (
	_ "embed"
	"encoding"
	"net/http"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
)

// Document is the root.
type Document struct {
	OpenAPI    string           `json:"openapi"`
	Info       Info             `json:"info"`
	Servers    []ServerURL      `json:"servers,omitempty"`
	Paths      map[string]Path  `json:"paths"`
	Components Components       `json:"components"`
	Security   []map[string]any `json:"security,omitempty"` // any of them will do
}

type Info struct {
	Title       string `json:"title"`
	Version     string `json:"version"`
	Description string `json:"description,omitempty"`
}

type ServerURL struct {
	URL string `json:"url"`
}

// Path holds the operations of a path by method, in lower case.
type Path map[string]*Operation

type Operation struct {
	Summary     string              `json:"summary"`
	Parameters  []Parameter         `json:"parameters,omitempty"`
	RequestBody *Body               `json:"requestBody,omitempty"`
	Responses   map[string]Response `json:"responses"` // by status, or "default"
	Security    []map[string]any    `json:"security,omitzero"`
}

type Parameter struct {
	Name     string `json:"name"`
	In       string `json:"in"` // query, path or header
	Required bool   `json:"required,omitempty"`
	Schema   any    `json:"schema"`
}

type Body struct {
	Required bool             `json:"required"`
	Content  map[string]Media `json:"content"`
}

type Response struct {
	Description string           `json:"description"`
	Content     map[string]Media `json:"content,omitempty"`
}

// Media is one content type's schema.
type Media struct {
	Schema any `json:"schema"`
}

type Components struct {
	Schemas         map[string]any `json:"schemas"`
	SecuritySchemes map[string]any `json:"securitySchemes,omitempty"`
}

// JSON is the content of a body in JSON.
func JSON(schema any) map[string]Media { return map[string]Media{"application/json": {schema}} }

// Ref points to a schema among the components.
func Ref(name string) map[string]any {
	return map[string]any{"$ref": "#/components/schemas/" + name}
}

var (
	marshaler = reflect.TypeFor[json.Marshaler]()
	texts     = reflect.TypeFor[encoding.TextMarshaler]()
)

// SchemaOf is the schema of what a Go type gives as JSON, by its json tags. A
// type that writes itself may be anything.
func SchemaOf[T any]() any { return schemaOf(reflect.TypeFor[T]()) }

func schemaOf(t reflect.Type) any {
	if t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler) {
		return map[string]any{}
	}
	if t.Implements(texts) {
		return map[string]any{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Slice:
		return orNull(map[string]any{"type": "array", "items": schemaOf(t.Elem())})
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.Pointer:
		return orNull(schemaOf(t.Elem()))
	case reflect.Struct:
		return object(t)
	}
	return map[string]any{}
}

func orNull(schema any) any {
	return map[string]any{"anyOf": []any{schema, map[string]any{"type": "null"}}}
}

func object(t reflect.Type) any {
	properties := map[string]any{}
	required := []string{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" || name == "-" {
			continue
		}
		properties[name] = schemaOf(f.Type)
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required}
}

// Handler serves the document.
func (d *Document) Handler() http.HandlerFunc {
	body, err := json.Marshal(d, json.Deterministic(true))
	if err != nil { // our own types always marshal
		panic(err)
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}
}

//go:embed page.html
var page []byte

// Page serves the page. It looks for openapi.json beside itself.
func Page(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	_, _ = w.Write(page)
}
