// Package logging writes log lines as vLLM's users read them, as text or JSON:
//
//	INFO 11-30 12:00:00 [frontend] Engine 000: Avg prompt throughput: …
//	WARNING 11-30 12:00:01 [core] request failed request_id=cmpl-1 error="…"
//	{"asctime":"2026-11-30T12:00:00.5+01:00","levelname":"INFO","processName":"core","process":7,"message":"…"}
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

// Config says what is logged and how.
type Config struct {
	Level  string // "": VLLM_LOGGING_LEVEL, INFO without that
	Format string // text or json; "": text
}

// New returns the fields of a vLLM --logging-config object, with --log-level,
// which wins over the object's. The keys are vLLM's; those of Python's logging
// are refused.
//
// Source: vllm/config/logging.py, LoggingConfig.
func New(object map[string]any, level string) (Config, error) {
	c := Config{Level: level}
	for key, value := range object {
		text, isText := value.(string)
		switch {
		case key == "log_level" && isText:
			if level == "" {
				c.Level = text
			}
		case key == "formatter" && (text == "text" || text == "json"):
			c.Format = text
		case key == "configure_logging" && value == true:
		case key == "log_level", key == "formatter":
			return c, fmt.Errorf("--logging-config.%s is %v; log_level takes a level and formatter text or json", key, value)
		default:
			return c, fmt.Errorf("--logging-config.%s is not served; it takes log_level and formatter", key)
		}
	}
	_, err := c.level()
	return c, err
}

// Setup makes slog's default a logger of the named process on standard error.
func Setup(process string, c Config) (*slog.Logger, error) {
	level, err := c.level()
	if err != nil {
		return nil, err
	}
	log := slog.New(c.handler(os.Stderr, process, level))
	slog.SetDefault(log)
	return log, nil
}

func (c Config) handler(w io.Writer, process string, level slog.Level) slog.Handler {
	if c.Format != "json" {
		return &handler{w: w, mu: new(sync.Mutex), process: process, level: level}
	}
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: jsonAttr}).
		WithAttrs([]slog.Attr{slog.String("processName", process), slog.Int("process", os.Getpid())})
}

// jsonAttr gives the members the names of Python's log records, and durations
// their text.
func jsonAttr(groups []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.String(a.Key, a.Value.Duration().String())
	}
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		a.Key = "asctime"
	case slog.LevelKey:
		if level, ok := a.Value.Any().(slog.Level); ok {
			return slog.String("levelname", levelName(level))
		}
	case slog.MessageKey:
		a.Key = "message"
	}
	return a
}

// level resolves what is logged.
func (c Config) level() (slog.Level, error) {
	name, from := c.Level, "--log-level"
	if name == "" {
		name, from = os.Getenv(LevelEnv), LevelEnv
	}
	switch strings.ToUpper(name) {
	case "", "INFO":
		return slog.LevelInfo, nil
	case "DEBUG", "NOTSET":
		return slog.LevelDebug, nil
	case "WARNING", "WARN":
		return slog.LevelWarn, nil
	case "ERROR", "CRITICAL":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("%s: %q is not one of DEBUG, INFO, WARNING, ERROR", from, name)
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
