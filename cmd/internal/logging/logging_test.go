package logging

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/slogtest"
	"time"
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

func TestConfig(t *testing.T) {
	t.Setenv(LevelEnv, "debug")
	for _, tc := range []struct {
		object map[string]any
		level  string
		want   slog.Level
		format string
		err    string
	}{
		{nil, "", slog.LevelDebug, "", ""},
		{nil, "WARNING", slog.LevelWarn, "", ""},
		{map[string]any{"log_level": "ERROR", "formatter": "json"}, "", slog.LevelError, "json", ""},
		{map[string]any{"log_level": "ERROR"}, "INFO", slog.LevelInfo, "", ""},
		{nil, "loud", 0, "", `--log-level: "loud" is not one of`},
		{map[string]any{"formatter": "xml"}, "", 0, "", "--logging-config.formatter is xml"},
		{map[string]any{"pylogging_config_file": "f"}, "", 0, "", "--logging-config.pylogging_config_file is not served"},
		{map[string]any{"configure_logging": false}, "", 0, "", "--logging-config.configure_logging is not served"},
	} {
		c, err := New(tc.object, tc.level)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("New(%v, %q) = %v, want %q", tc.object, tc.level, err, tc.err)
			}
			continue
		}
		if level, _ := c.level(); err != nil || level != tc.want || c.Format != tc.format {
			t.Errorf("New(%v, %q) = %v %q, %v, want %v %q", tc.object, tc.level, level, c.Format, err, tc.want, tc.format)
		}
	}
	t.Setenv(LevelEnv, "loud")
	if _, err := New(nil, ""); err == nil || !strings.Contains(err.Error(), LevelEnv) {
		t.Errorf("New with a bad variable = %v, want its name", err)
	}
}

// A line of JSON has the members that Python's JSON formatter gives.
func TestJSON(t *testing.T) {
	var b strings.Builder
	log := slog.New(Config{Format: "json"}.handler(&b, "core", slog.LevelInfo))
	log.Warn("slow", "request_id", "a\nb", "waited", 1500*time.Millisecond, slog.Group("g", "time", 1))
	var line map[string]any
	if err := json.Unmarshal([]byte(b.String()), &line); err != nil {
		t.Fatalf("%s: %v", b.String(), err)
	}
	for key, want := range map[string]any{"levelname": "WARNING", "processName": "core", "message": "slow",
		"request_id": "a\nb", "waited": "1.5s", "process": float64(os.Getpid())} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
	if line["asctime"] == nil || strings.Count(b.String(), "\n") != 1 {
		t.Errorf("line = %q", b.String())
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
