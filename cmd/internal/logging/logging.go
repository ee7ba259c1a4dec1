// Package logging writes log lines as vLLM's users read them:
//
//	INFO 11-30 12:00:00 [frontend] Engine 000: Avg prompt throughput: …
//	WARNING 11-30 12:00:01 [core] request failed request_id=cmpl-1 error="…"
//
// The level is VLLM_LOGGING_LEVEL, INFO if not set.
package logging

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// LevelEnv names the environment variable of the level.
const LevelEnv = "VLLM_LOGGING_LEVEL"

// Setup makes slog's default a logger of the named process on standard error.
func Setup(process string) (*slog.Logger, error) {
	level, err := parseLevel(os.Getenv(LevelEnv))
	if err != nil {
		return nil, err
	}
	log := slog.New(&handler{w: os.Stderr, mu: new(sync.Mutex), process: process, level: level})
	slog.SetDefault(log)
	return log, nil
}

func parseLevel(s string) (slog.Level, error) {
	switch strings.ToUpper(s) {
	case "", "INFO":
		return slog.LevelInfo, nil
	case "DEBUG":
		return slog.LevelDebug, nil
	case "WARNING", "WARN":
		return slog.LevelWarn, nil
	case "ERROR", "CRITICAL":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("%s: %q is not one of DEBUG, INFO, WARNING, ERROR", LevelEnv, s)
}

func levelName(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "ERROR"
	case l >= slog.LevelWarn:
		return "WARNING"
	case l >= slog.LevelInfo:
		return "INFO"
	}
	return "DEBUG"
}

// handler is a slog.Handler. Groups become prefixes of the keys.
type handler struct {
	w       io.Writer
	mu      *sync.Mutex // shared by all loggers of one w
	process string
	level   slog.Level
	prefix  string // of keys
	attrs   string // formatted already
}

func (h *handler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(levelName(r.Level))
	if !r.Time.IsZero() {
		b.WriteString(r.Time.Format(" 01-02 15:04:05"))
	}
	b.WriteString(" [")
	b.WriteString(h.process)
	b.WriteString("] ")
	b.WriteString(r.Message)
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		writeAttr(&b, h.prefix, a)
		return true
	})
	b.WriteByte('\n')
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := io.WriteString(h.w, b.String())
	return err
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	for _, a := range attrs {
		writeAttr(&b, h.prefix, a)
	}
	next := *h
	next.attrs += b.String()
	return &next
}

func (h *handler) WithGroup(name string) slog.Handler {
	next := *h
	if name != "" {
		next.prefix += name + "."
	}
	return &next
}

func writeAttr(b *strings.Builder, prefix string, a slog.Attr) {
	v := a.Value.Resolve()
	if a.Equal(slog.Attr{}) {
		return
	}
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, member := range v.Group() {
			writeAttr(b, prefix, member)
		}
		return
	}
	b.WriteByte(' ')
	b.WriteString(prefix)
	b.WriteString(a.Key)
	b.WriteByte('=')
	text := v.String()
	if v.Kind() == slog.KindTime {
		text = v.Time().Format(time.RFC3339Nano)
	}
	if text == "" || strings.ContainsFunc(text, needsQuotes) {
		text = strconv.Quote(text)
	}
	b.WriteString(text)
}

func needsQuotes(r rune) bool { return r <= ' ' || r == '"' || r == '=' || r == 0x7f }
