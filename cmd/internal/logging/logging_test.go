package logging

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/slogtest"
)

func newTestHandler(w *strings.Builder, level slog.Level) *handler {
	return &handler{w: w, mu: new(sync.Mutex), process: "core", level: level}
}

func TestLine(t *testing.T) {
	for _, tc := range []struct {
		log  func(*slog.Logger)
		want string // behind the time
	}{
		{func(l *slog.Logger) { l.Info("loaded", "tensors", 12) }, "[core] loaded tensors=12"},
		{func(l *slog.Logger) { l.Error("failed", "error", errors.New("no room")) }, `[core] failed error="no room"`},
		{func(l *slog.Logger) { l.With("id", "a\nb").Warn("x") }, `[core] x id="a\nb"`},
		{func(l *slog.Logger) { l.WithGroup("kv").Info("x", "blocks", 3, "empty", "") }, `[core] x kv.blocks=3 kv.empty=""`},
		{func(l *slog.Logger) { l.Info("x", slog.Group("g", "a", 1)) }, "[core] x g.a=1"},
		{func(l *slog.Logger) { l.Debug("hidden") }, ""},
	} {
		var b strings.Builder
		tc.log(slog.New(newTestHandler(&b, slog.LevelInfo)))
		_, got, _ := strings.Cut(strings.TrimSuffix(b.String(), "\n"), " [")
		if got != "" {
			got = "[" + got
		}
		if got != tc.want {
			t.Errorf("line = %q, want %q", got, tc.want)
		}
	}
}

func TestParseLevel(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want slog.Level
		ok   bool
	}{
		{"", slog.LevelInfo, true}, {"debug", slog.LevelDebug, true}, {"WARNING", slog.LevelWarn, true},
		{"ERROR", slog.LevelError, true}, {"loud", 0, false},
	} {
		if got, err := parseLevel(tc.in); got != tc.want || (err == nil) != tc.ok {
			t.Errorf("parseLevel(%q) = %v, %v, want %v, ok %t", tc.in, got, err, tc.want, tc.ok)
		}
	}
}

// The handler keeps slog's rules for empty attributes, groups and values that
// resolve themselves, as far as a flat line can show them.
func TestSlogRules(t *testing.T) {
	var b strings.Builder
	h := newTestHandler(&b, slog.LevelDebug)
	results := func() []map[string]any {
		var out []map[string]any
		for line := range strings.Lines(b.String()) {
			out = append(out, parseLine(strings.TrimSuffix(line, "\n")))
		}
		return out
	}
	if err := slogtest.TestHandler(h, results); err != nil {
		t.Error(err)
	}
}

// parseLine reads a line back into slogtest's nested maps.
func parseLine(line string) map[string]any {
	m := map[string]any{}
	words := strings.Fields(line)
	m[slog.LevelKey] = words[0]
	words = words[1:]
	if words[0] != "[core]" {
		m[slog.TimeKey] = words[0] + " " + words[1]
		words = words[2:]
	}
	var msg []string
	for _, w := range words[1:] {
		key, value, ok := strings.Cut(w, "=")
		if !ok {
			msg = append(msg, w)
			continue
		}
		at := m
		path := strings.Split(key, ".")
		for _, p := range path[:len(path)-1] {
			next, ok := at[p].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[p] = next
			}
			at = next
		}
		at[path[len(path)-1]] = value
	}
	m[slog.MessageKey] = strings.Join(msg, " ")
	return m
}
