package modelfile

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// object is one JSON object of a model file, read key by key. A reader asks
// for all it wants and then for err, which tells every problem at once.
//
// A key whose value is null counts as absent, as it does in transformers.
type object struct {
	where string // file, and key path inside it, for messages
	keys  map[string]jsontext.Value
	errs  *[]error // shared with the objects inside

	accepted map[string]bool // keys that need no second look
}

// parseObject reads data as one object. Of duplicate keys the last wins, as in
// Python.
func parseObject(where string, data []byte) (*object, error) {
	o := &object{where: where, errs: new([]error)}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if err := json.Unmarshal(data, &o.keys, jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, fmt.Errorf("%s: %w JSON object: %v", where, ErrInvalid, err)
	}
	return o, nil
}

func (o *object) err() error { return errors.Join(*o.errs...) }

func (o *object) has(key string) bool {
	v, ok := o.keys[key]
	return ok && v.Kind() != 'n'
}

// invalid reports a value of the wrong type or range.
func (o *object) invalid(key, want string) {
	*o.errs = append(*o.errs, fmt.Errorf("%s: %w %s = %s: must be %s", o.where, ErrInvalid, key, o.short(key), want))
}

// refuse reports a value that is meant well and that we can't do.
func (o *object) refuse(key, why string) {
	*o.errs = append(*o.errs, fmt.Errorf("%s: %s = %s is %w: %s", o.where, key, o.short(key), ErrUnsupported, why))
}

// require reports keys that are not there and whose default is not the shared
// one.
func (o *object) require(keys ...string) {
	for _, key := range keys {
		if !o.has(key) {
			o.missing(key)
		}
	}
}

func (o *object) missing(key string) {
	*o.errs = append(*o.errs, fmt.Errorf("%s: %w: no %s", o.where, ErrInvalid, key))
}

// short is a key's value as written, cut to a readable length.
func (o *object) short(key string) string {
	v := slices.Clone(o.keys[key])
	if v.Compact() != nil {
		return "?"
	}
	if len(v) > 120 {
		return string(v[:120]) + "…"
	}
	return string(v)
}

// decode reads a present key into dst and says whether it did.
func (o *object) decode(key string, dst any, want string) bool {
	if !o.has(key) {
		return false
	}
	if err := json.Unmarshal(o.keys[key], dst, jsontext.AllowDuplicateNames(true)); err != nil {
		o.invalid(key, want)
		return false
	}
	return true
}

// optional reads a number where null means that there is no such thing, and
// absence means def. 0 is none.
func (o *object) optional(key string, def float64) float64 {
	if _, ok := o.keys[key]; ok && !o.has(key) {
		return 0
	}
	return o.float(key, def)
}

func (o *object) float(key string, def float64) float64 {
	v := def
	o.decode(key, &v, "a number")
	return v
}

func (o *object) bool(key string, def bool) bool {
	v := def
	o.decode(key, &v, "true or false")
	return v
}

func (o *object) string(key, def string) string {
	v := def
	o.decode(key, &v, "a string")
	return v
}

// int accepts 3 and 3.0.
func (o *object) int(key string, def int) int {
	f := float64(def)
	if !o.decode(key, &f, "an integer") {
		return def
	}
	if f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		o.invalid(key, "an integer")
		return def
	}
	return int(f)
}

// size is a required int in [1, 1<<30]; the bound keeps products of two sizes
// far from overflow.
func (o *object) size(key string) int {
	if !o.has(key) {
		o.missing(key)
		return 1
	}
	return o.sizeOr(key, 1)
}

func (o *object) sizeOr(key string, def int) int {
	if !o.has(key) {
		return def
	}
	v := o.int(key, def)
	if v < 1 || v > 1<<30 {
		o.invalid(key, fmt.Sprintf("between 1 and %d", 1<<30))
		return def
	}
	return v
}

// object returns the object under key, nil if there is none.
func (o *object) object(key string) *object {
	var keys map[string]jsontext.Value
	if !o.decode(key, &keys, "an object") {
		return nil
	}
	return &object{where: o.where + ": " + key, keys: keys, errs: o.errs}
}

// equals says whether key's value is the same as one of the JSON texts.
func (o *object) equals(key string, texts ...string) bool {
	var got any
	if json.Unmarshal(o.keys[key], &got, jsontext.AllowDuplicateNames(true)) != nil {
		return false
	}
	return slices.ContainsFunc(texts, func(text string) bool {
		var want any
		return json.Unmarshal([]byte(text), &want) == nil && reflect.DeepEqual(got, want)
	})
}
