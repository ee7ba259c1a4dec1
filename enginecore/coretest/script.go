package coretest

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

const separator = "----"

// Command is one line of a script: a verb, its arguments in order, and options.
//
//	add a b prompt=1..8 skip-cache
type Command struct {
	Verb string
	Args []string
	opts map[string]string
	used map[string]bool
}

func parseCommand(line string) *Command {
	words := strings.Fields(line)
	c := &Command{Verb: words[0], opts: map[string]string{}, used: map[string]bool{}}
	for _, w := range words[1:] {
		if key, value, ok := strings.Cut(w, "="); ok {
			c.opts[key] = value
		} else {
			c.Args = append(c.Args, w)
		}
	}
	return c
}

// Str returns an option, or def.
func (c *Command) Str(key, def string) string {
	c.used[key] = true
	if v, ok := c.opts[key]; ok {
		return v
	}
	return def
}

// Int returns an option as a number, or def.
func (c *Command) Int(key string, def int) int {
	s := c.Str(key, "")
	if s == "" {
		return def
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(fmt.Sprintf("%s: %s=%s is not a number", c.Verb, key, s))
	}
	return n
}

// Has reports an option that may have no value: "key=" or "key=yes".
func (c *Command) Has(key string) bool {
	c.used[key] = true
	_, ok := c.opts[key]
	return ok
}

// Tokens returns an option as token IDs: "1..4,9" is 1 2 3 4 9.
func (c *Command) Tokens(key string) []int32 {
	var out []int32
	for _, part := range strings.Split(c.Str(key, ""), ",") {
		if part == "" {
			continue
		}
		lo, hi, isRange := strings.Cut(part, "..")
		if !isRange {
			hi = lo
		}
		a, err1 := strconv.Atoi(lo)
		b, err2 := strconv.Atoi(hi)
		if err1 != nil || err2 != nil {
			panic(fmt.Sprintf("%s: %s=%s is not a list of tokens", c.Verb, key, part))
		}
		for v := a; v <= b; v++ {
			out = append(out, int32(v))
		}
	}
	return out
}

// unknown returns an option that nothing has asked for.
func (c *Command) unknown() string {
	for key := range c.opts {
		if !c.used[key] {
			return key
		}
	}
	return ""
}

// RunFile runs a script: handle answers each command. Answers that differ from
// the file's are errors, or, with rewrite, replace them.
func RunFile(t *testing.T, path string, rewrite bool, handle func(*Command) string) {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	lines := strings.Split(strings.TrimRight(string(src), "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		if line == "" || line[0] == '#' {
			fmt.Fprintln(&out, lines[i])
			continue
		}
		at := i + 1
		var got strings.Builder
		for ; i < len(lines) && lines[i] != separator && lines[i] != ""; i++ {
			fmt.Fprintln(&out, lines[i])
			got.WriteString(answer(handle, lines[i]))
		}
		var want strings.Builder
		if i < len(lines) && lines[i] == separator {
			for i++; i < len(lines) && lines[i] != ""; i++ {
				want.WriteString(lines[i] + "\n")
			}
		}
		i-- // the blank line is the next one's
		fmt.Fprintf(&out, "%s\n%s", separator, got.String())
		if !rewrite && got.String() != want.String() {
			t.Errorf("%s:%d: %s\ngot:\n%swant:\n%s", path, at, line, got.String(), want.String())
		}
	}
	if rewrite {
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// answer runs one line; a script's own mistakes are answers too.
func answer(handle func(*Command) string, line string) (text string) {
	c := parseCommand(line)
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprintf("panic: %v\n", p)
		}
	}()
	text = handle(c)
	if key := c.unknown(); key != "" {
		return fmt.Sprintf("unknown option %s=\n", key)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}
