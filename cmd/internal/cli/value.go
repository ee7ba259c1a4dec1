package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Value is a flag's destination.
type Value interface {
	// set takes the texts given to the flag; key is that of --flag.key.
	set(key string, values []string) error
	// text is the current value for the help text; "" hides it.
	text() string
	// hint names the kind of value in the help text.
	hint() string
	arity() arity
}

type arity int

const (
	none arity = iota // a switch
	one
	many
)

var errOne = errors.New("expects one value")

// scalar is a Value read from one text by parse.
type scalar[T any] struct {
	dest   *T
	kind   string
	parse  func(string) (T, error)
	format func(T) string
}

func (v *scalar[T]) set(_ string, values []string) error {
	if len(values) != 1 {
		return errOne
	}
	x, err := v.parse(values[0])
	if err != nil {
		return err
	}
	*v.dest = x
	return nil
}

func (v *scalar[T]) text() string {
	if v.format != nil {
		return v.format(*v.dest)
	}
	return fmt.Sprint(*v.dest)
}
func (v *scalar[T]) hint() string { return v.kind }
func (v *scalar[T]) arity() arity { return one }

// String is a text; *dest is the default.
func String(dest *string) Value {
	return &scalar[string]{dest: dest, kind: "TEXT", parse: func(s string) (string, error) { return s, nil }}
}

// Enum is one of the given words.
func Enum(dest *string, words ...string) Value {
	return &scalar[string]{dest: dest, kind: "{" + strings.Join(words, ",") + "}", parse: func(s string) (string, error) {
		for _, w := range words {
			if s == w {
				return s, nil
			}
		}
		return "", fmt.Errorf("%q is not one of %s", s, strings.Join(words, ", "))
	}}
}

// Int is a whole number from low to high, with vLLM's size letters: k, m, g, t
// are powers of 1000, K, M, G, T powers of 1024.
func Int(dest *int, low, high int) Value {
	return &scalar[int]{dest: dest, kind: "N", parse: func(s string) (int, error) {
		n, err := parseSize(s)
		if err != nil {
			return 0, err
		}
		if n < int64(low) || n > int64(high) {
			if high == math.MaxInt {
				return 0, fmt.Errorf("%s is out of bounds: at least %d", s, low)
			}
			return 0, fmt.Errorf("%s is out of bounds: %d to %d", s, low, high)
		}
		return int(n), nil
	}}
}

// OptInt is an Int whose zero value means "not given" and is not shown.
func OptInt(dest *int, low, high int) Value {
	v := Int(dest, low, high).(*scalar[int])
	v.format = func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	return v
}

// AutoInt is an Int that also takes "auto" or -1, which leave it at 0.
func AutoInt(dest *int, low, high int) Value {
	v := OptInt(dest, low, high).(*scalar[int])
	inner := v.parse
	v.parse = func(s string) (int, error) {
		if s == "auto" || s == "-1" {
			return 0, nil
		}
		return inner(s)
	}
	return v
}

func parseSize(s string) (int64, error) {
	unit := int64(1)
	digits := s
	if n := len(s); n > 1 {
		i := strings.IndexByte("kmgt", s[n-1]|0x20)
		if i >= 0 {
			base := int64(1000)
			if s[n-1] < 'a' {
				base = 1024
			}
			for range i + 1 {
				unit *= base
			}
			digits = s[:n-1]
		}
	}
	if unit > 1 {
		if f, err := strconv.ParseFloat(digits, 64); err == nil && math.Abs(f*float64(unit)) < math.MaxInt64 {
			return int64(f * float64(unit)), nil
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", s)
	}
	if unit > 1 {
		return 0, fmt.Errorf("%q is out of bounds", s)
	}
	return n, nil
}

// Float is a number from low to high.
func Float(dest *float64, low, high float64) Value {
	return &scalar[float64]{dest: dest, kind: "X", parse: func(s string) (float64, error) {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(x) {
			return 0, fmt.Errorf("%q is not a number", s)
		}
		if x < low || x > high {
			return 0, fmt.Errorf("%s is out of bounds: %g to %g", s, low, high)
		}
		return x, nil
	}}
}

// OptFloat is a Float whose zero value means "not given" and is not shown.
func OptFloat(dest *float64, low, high float64) Value {
	v := Float(dest, low, high).(*scalar[float64])
	v.format = func(x float64) string {
		if x == 0 {
			return ""
		}
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	return v
}

// Fixed is a flag of vLLM that knows one way here: giving that way is fine,
// asking for another is refused with the reason.
func Fixed(value, reason string) Value {
	dest := new(string)
	*dest = value
	return &scalar[string]{dest: dest, kind: value, parse: func(s string) (string, error) {
		if !strings.EqualFold(s, value) {
			return "", fmt.Errorf("%q is not supported, only %s: %s", s, value, reason)
		}
		return value, nil
	}, format: func(string) string { return "" }}
}

// FixedSwitch is Fixed for a switch.
func FixedSwitch(value bool, reason string) Value {
	dest := new(bool)
	*dest = value
	return &switchValue{dest: dest, only: reason}
}

type switchValue struct {
	dest *bool
	only string // not empty: why the value cannot change
}

// Bool is a switch: --x, --no-x, --x=false.
func Bool(dest *bool) Value { return &switchValue{dest: dest} }

func (v *switchValue) set(_ string, values []string) error {
	if len(values) != 1 {
		return errOne
	}
	b, err := strconv.ParseBool(strings.ToLower(values[0]))
	if err != nil {
		return fmt.Errorf("%q is neither true nor false", values[0])
	}
	if v.only != "" && b != *v.dest {
		return fmt.Errorf("%t is not supported: %s", b, v.only)
	}
	*v.dest = b
	return nil
}

// Not is a switch that turns *dest off.
func Not(dest *bool) Value { return &inverse{switchValue{dest: dest}} }

type inverse struct{ switchValue }

func (v *inverse) set(key string, values []string) error {
	if err := v.switchValue.set(key, values); err != nil {
		return err
	}
	*v.dest = !*v.dest
	return nil
}
func (v *inverse) text() string { return "" }

func (v *switchValue) text() string {
	if v.only != "" {
		return ""
	}
	return strconv.FormatBool(*v.dest)
}
func (v *switchValue) hint() string { return "" }
func (v *switchValue) arity() arity { return none }

type listValue struct{ dest *[]string }

// Strings takes one or more texts; each use of the flag replaces the last.
func Strings(dest *[]string) Value { return &listValue{dest} }

func (v *listValue) set(_ string, values []string) error {
	*v.dest = append([]string(nil), values...)
	return nil
}
func (v *listValue) text() string { return strings.Join(*v.dest, " ") }
func (v *listValue) hint() string { return "TEXT [TEXT ...]" }
func (v *listValue) arity() arity { return many }

// List is Strings that also takes the texts as one JSON list.
func List(dest *[]string) Value { return &jsonListValue{listValue{dest}} }

type jsonListValue struct{ listValue }

func (v *jsonListValue) set(key string, values []string) error {
	if len(values) == 1 && strings.HasPrefix(values[0], "[") {
		var texts []string
		if err := json.Unmarshal([]byte(values[0]), &texts); err != nil {
			return fmt.Errorf("%q is not a JSON list of texts", values[0])
		}
		values = texts
	}
	return v.listValue.set(key, values)
}

// Secret is a String that is never shown.
func Secret(dest *string) Value {
	v := String(dest).(*scalar[string])
	v.format = func(string) string { return "" }
	return v
}

// Secrets is Strings whose values are never shown. On the command line several
// uses of the flag add up.
func Secrets(dest *[]string) Value { return &secretsValue{listValue{dest}} }

type secretsValue struct{ listValue }

func (v *secretsValue) text() string { return "" }

type jsonValue struct{ dest *map[string]any }

// JSON is an object, given whole or key by key as --flag.key VALUE.
func JSON(dest *map[string]any) Value { return &jsonValue{dest} }

func (v *jsonValue) set(key string, values []string) error {
	if len(values) != 1 {
		return errOne
	}
	if key == "" {
		var m map[string]any
		if err := json.Unmarshal([]byte(values[0]), &m); err != nil || m == nil {
			return fmt.Errorf("%q is not a JSON object", values[0])
		}
		*v.dest = m
		return nil
	}
	if *v.dest == nil {
		*v.dest = map[string]any{}
	}
	at := *v.dest
	parts := strings.Split(key, ".")
	for _, p := range parts[:len(parts)-1] {
		next, ok := at[p].(map[string]any)
		if !ok {
			next = map[string]any{}
			at[p] = next
		}
		at = next
	}
	var x any
	if json.Unmarshal([]byte(values[0]), &x) != nil {
		x = values[0] // a bare word is a text
	}
	at[parts[len(parts)-1]] = x
	return nil
}
func (v *jsonValue) text() string {
	if len(*v.dest) == 0 {
		return ""
	}
	b, _ := json.Marshal(*v.dest) // came from JSON
	return string(b)
}
func (v *jsonValue) hint() string { return "JSON" }
func (v *jsonValue) arity() arity { return one }

func yamlToJSON(n *yaml.Node) (string, error) {
	var x map[string]any
	if err := n.Decode(&x); err != nil {
		return "", err
	}
	b, err := json.Marshal(x)
	return string(b), err
}
