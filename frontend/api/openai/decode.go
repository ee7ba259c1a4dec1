package openai

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// field is one entry of a request: its name, what it may hold and what to do
// with it.
type field struct {
	name   string
	schema string // JSON Schema of what set takes; "" where nothing is served
	set    func(raw jsontext.Value) *APIError
}

// named is f under another name: that of a member whose path f's messages tell.
func (f field) named(name string) field {
	f.name = name
	return f
}

// JSON Schemas of the common kinds of fields. null leaves the default.
const (
	boolSchema     = `{"type":["boolean","null"]}`
	intSchema      = `{"type":["integer","null"]}`
	numberSchema   = `{"type":["number","null"]}`
	stringSchema   = `{"type":["string","null"]}`
	stringsSchema  = `{"type":["string","array","null"],"items":{"type":"string"}}`
	tokenIDsSchema = `{"type":["array","null"],"items":{"type":"integer","minimum":0}}`
	objectSchema   = `{"type":["object","null"]}`
	objectsSchema  = `{"type":["array","null"],"items":{"type":"object"}}`
)

// decodeBody reads a JSON object and hands each member to its field. It
// reports every faulty field, and returns the names that no field has.
func decodeBody(r *http.Request, fields []field) (unknown []string, err error) {
	if mt, _, e := mime.ParseMediaType(r.Header.Get("Content-Type")); e != nil || mt != "application/json" {
		return nil, malformed("", "Unsupported Media Type: Only 'application/json' is allowed")
	}
	body, err := io.ReadAll(r.Body) // the HTTP server bounds it
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return nil, refusal(http.StatusRequestEntityTooLarge,
				"The request body has more than the %d bytes allowed; --max-request-body-bytes of the server raises that.", tooLarge.Limit)
		}
		return nil, errClientGone
	}
	return decodeObject(body, fields)
}

// decodeObject is decodeBody on bytes. As in Python, the last of two members
// with one name wins.
func decodeObject(body []byte, fields []field) (unknown []string, err error) {
	dec := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true))
	if dec.PeekKind() != '{' {
		if v, err := dec.ReadValue(); err != nil {
			return nil, syntaxError(err)
		} else {
			return nil, malformed("", "The request body must be a JSON object, not %s.", describe(v))
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, syntaxError(err)
	}
	byName := make(map[string]*field, len(fields))
	for i := range fields {
		byName[fields[i].name] = &fields[i]
	}
	faults := map[string]*APIError{}
	var order []string
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, syntaxError(err)
		}
		key := name.String()
		raw, err := dec.ReadValue()
		if err != nil {
			return nil, syntaxError(err)
		}
		f := byName[key]
		if f == nil {
			unknown = append(unknown, key)
			continue
		}
		if _, seen := faults[key]; !seen {
			order = append(order, key)
		}
		faults[key] = f.set(raw)
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, syntaxError(err)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, malformed("", "The request body has something after the JSON object, at byte %d.", dec.InputOffset())
	}
	var errs []*APIError
	for _, key := range order {
		if e := faults[key]; e != nil {
			errs = append(errs, e)
		}
	}
	if e := joinErrors(errs); e != nil {
		return nil, e
	}
	return unknown, nil
}

func syntaxError(err error) *APIError {
	e := malformed("", "The request body is not valid JSON: it ends too early.")
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		e = malformed("", "The request body is not valid JSON: %v at byte %d.", syntactic.Err, syntactic.ByteOffset)
	}
	e.Code = "json_parse_error"
	return e
}

// describe names a JSON value in a message.
func describe(raw jsontext.Value) string {
	switch raw.Kind() {
	case 'n':
		return "null"
	case '{':
		return "an object"
	case '[':
		return "a list"
	}
	return abbreviate(string(raw))
}

// wrongType refuses a value of another JSON type.
func wrongType(name, want string, raw jsontext.Value) *APIError {
	return malformed(name, "`%s` must be %s, got %s.", name, want, describe(raw))
}

// boolField takes true, false and null (which leaves the default).
func boolField(name string, dest *bool) field {
	return field{name, boolSchema, func(raw jsontext.Value) *APIError {
		switch raw.Kind() {
		case 'n':
		case 't', 'f':
			*dest = raw.Kind() == 't'
		default:
			return wrongType(name, "true or false", raw)
		}
		return nil
	}}
}

// optBoolField is a boolField whose default depends on what else is asked.
func optBoolField(name string, dest **bool) field {
	return field{name, boolSchema, func(raw jsontext.Value) *APIError {
		*dest = nil
		if raw.Kind() == 'n' {
			return nil
		}
		*dest = new(bool)
		return boolField(name, *dest).set(raw)
	}}
}

// intField takes a whole number (1.0 is one) and null.
func intField[T int | int64](name string, dest **T) field {
	return field{name, intSchema, func(raw jsontext.Value) *APIError {
		if raw.Kind() == 'n' {
			*dest = nil
			return nil
		}
		n, err := parseInt(name, raw)
		if err != nil {
			return err
		}
		v := T(n)
		*dest = &v
		return nil
	}}
}

// parseInt reads a whole number of 64 bits.
func parseInt(name string, raw jsontext.Value) (int64, *APIError) {
	if raw.Kind() != '0' {
		return 0, wrongType(name, "a whole number", raw)
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.Abs(f) >= 1<<63 {
		return 0, invalid(name, "`%s` is out of bounds: %s does not fit 64 bits.", name, abbreviate(string(raw)))
	}
	if f != math.Trunc(f) {
		return 0, wrongType(name, "a whole number", raw)
	}
	return int64(f), nil
}

// floatField takes a finite number and null.
func floatField(name string, dest **float64) field {
	return field{name, numberSchema, func(raw jsontext.Value) *APIError {
		if raw.Kind() == 'n' {
			*dest = nil
			return nil
		}
		if raw.Kind() != '0' {
			return wrongType(name, "a number", raw)
		}
		f, err := strconv.ParseFloat(string(raw), 64)
		if err != nil {
			return malformed(name, "`%s` must be a finite number, got %s.", name, abbreviate(string(raw)))
		}
		*dest = &f
		return nil
	}}
}

func stringField(name string, dest *string) field {
	return field{name, stringSchema, func(raw jsontext.Value) *APIError {
		switch raw.Kind() {
		case 'n':
			return nil
		case '"':
			*dest = unquote(raw)
			return nil
		}
		return wrongType(name, "a text", raw)
	}}
}

// optStringField is a stringField that tells "" from nothing given.
func optStringField(name string, dest **string) field {
	return field{name, stringSchema, func(raw jsontext.Value) *APIError {
		*dest = nil
		if raw.Kind() == 'n' {
			return nil
		}
		*dest = new(string)
		return stringField(name, *dest).set(raw)
	}}
}

// stringsField takes one text, a list of them, or null.
func stringsField(name string, dest *[]string) field {
	return field{name, stringsSchema, func(raw jsontext.Value) *APIError {
		*dest = nil
		switch raw.Kind() {
		case 'n':
			return nil
		case '"':
			*dest = []string{unquote(raw)}
			return nil
		case '[':
			for i, v := range elements(raw) {
				if v.Kind() != '"' {
					return wrongType(fmt.Sprintf("%s.%d", name, i), "a text", v)
				}
				*dest = append(*dest, unquote(v))
			}
			return nil
		}
		return wrongType(name, "a text or a list of texts", raw)
	}}
}

// tokenIDsField takes a list of token IDs or null. Whether the vocabulary has
// them is checked later.
func tokenIDsField(name string, dest *[]int32) field {
	return field{name, tokenIDsSchema, func(raw jsontext.Value) *APIError {
		*dest = nil
		if raw.Kind() == 'n' {
			return nil
		}
		if raw.Kind() != '[' {
			return wrongType(name, "a list of token IDs", raw)
		}
		ids, err := parseTokenIDs(name, elements(raw))
		*dest = ids
		return err
	}}
}

func parseTokenIDs(name string, values []jsontext.Value) ([]int32, *APIError) {
	ids := make([]int32, 0, len(values))
	for i, v := range values {
		n, err := parseInt(fmt.Sprintf("%s.%d", name, i), v)
		if err != nil {
			return nil, err
		}
		if n < 0 || n > math.MaxInt32 {
			return nil, malformed(name, "`%s` holds %d, which is no token ID.", name, n)
		}
		ids = append(ids, int32(n))
	}
	return ids, nil
}

// logitBiasField takes an object from token IDs, as texts, to numbers; a bias
// is held to [-100, 100], as OpenAI and vLLM do.
func logitBiasField(dest *map[int32]float64) field {
	const name = "logit_bias"
	return field{name, `{"type":["object","null"],"additionalProperties":{"type":"number"}}`, func(raw jsontext.Value) *APIError {
		*dest = nil
		if raw.Kind() == 'n' {
			return nil
		}
		if raw.Kind() != '{' {
			return wrongType(name, "an object from token IDs to numbers", raw)
		}
		var entries map[string]*float64
		if err := json.Unmarshal(raw, &entries, jsontext.AllowDuplicateNames(true)); err != nil {
			return wrongType(name, "an object from token IDs to numbers", raw)
		}
		biases := make(map[int32]float64, len(entries))
		for key, bias := range entries {
			id, err := strconv.ParseInt(key, 10, 32)
			switch {
			case err != nil || id < 0:
				return invalid(name, "logit_bias holds the key %q, which is no token ID.", abbreviate(key))
			case bias == nil:
				return invalid(name, "logit_bias holds null for token ID %d; give a number.", id)
			}
			biases[int32(id)] = min(100, max(-100, *bias))
		}
		*dest = biases
		return nil
	}}
}

// unservedField refuses anything but null and the given JSON defaults.
func unservedField(name, way string, defaults ...string) field {
	return field{name, "", func(raw jsontext.Value) *APIError {
		if raw.Kind() == 'n' {
			return nil
		}
		compact := string(raw)
		if v := raw.Clone(); v.Compact() == nil {
			compact = string(v)
		}
		for _, d := range defaults {
			if compact == d || compact == d+".0" {
				return nil
			}
		}
		return notServed(name, way)
	}}
}

func isEmptyObject(raw jsontext.Value) bool {
	if raw.Kind() != '{' {
		return false
	}
	return len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0
}

// ignoredField is one that vLLM accepts and does nothing with.
func ignoredField(name string) field {
	return field{name, "", func(jsontext.Value) *APIError { return nil }}
}

// elements splits a list that the decoder has already checked.
func elements(raw jsontext.Value) []jsontext.Value {
	dec := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true))
	_, _ = dec.ReadToken()
	var out []jsontext.Value
	for dec.PeekKind() != ']' {
		v, err := dec.ReadValue()
		if err != nil { // checked before
			panic(err)
		}
		out = append(out, v.Clone())
	}
	return out
}

func unquote(raw jsontext.Value) string {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil { // checked before
		panic(err)
	}
	return s
}

// logUnknown tells once per name of fields that neither this server nor vLLM
// knows; they are accepted, as vLLM accepts them.
func (s *Server) logUnknown(names []string) {
	for _, name := range names {
		if len(name) > 64 {
			name = name[:64]
		}
		s.unknownMu.Lock()
		seen := s.unknownSeen[name] || len(s.unknownSeen) >= maxUnknownNames
		if !seen {
			s.unknownSeen[name] = true
		}
		s.unknownMu.Unlock()
		if !seen {
			s.log.Info("requests hold a field that is not part of the API; it is ignored", "field", strings.ToValidUTF8(name, "?"))
		}
	}
}

// maxUnknownNames bounds what clients can make the server remember.
const maxUnknownNames = 256
