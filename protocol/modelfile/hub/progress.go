package hub

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const (
	drawEvery = 100 * time.Millisecond // of the bar
	logEvery  = 10 * time.Second       // of log lines, without a terminal
	barWidth  = 24
)

// meter counts what has come and shows it: as a bar on a terminal, else in log
// lines. The goroutines of one download share it.
type meter struct {
	c     *Client
	repo  string
	total int64

	mu     sync.Mutex
	done   int64
	before int64 // of done: from earlier runs and other processes
	start  time.Time
	shown  time.Time
	waits  bool // said so
}

func newMeter(c *Client, repo string, missing map[string][]file) *meter {
	now := time.Now()
	m := &meter{c: c, repo: repo, start: now}
	if c.terminal == nil {
		m.shown = now // by the line below; a bar shows at once
	}
	for _, same := range missing {
		m.total += same[0].size
	}
	c.log.Info("fetching", "model", repo, "files", len(missing), "size", bytesText(m.total), "from", c.endpoint, "to", c.cacheDir)
	return m
}

// add counts bytes that came (or, if negative, have to come again).
func (m *meter) add(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += n
	now := time.Now()
	switch since := now.Sub(m.shown); {
	case m.c.terminal != nil && since >= drawEvery:
		m.draw(m.c.terminal, now)
	case m.c.terminal == nil && since >= logEvery:
		m.c.log.Info("fetching", "model", m.repo, "MiB", m.done>>20, "of", m.total>>20)
	default:
		return
	}
	m.shown = now
}

// had counts bytes that are here and did not come now.
func (m *meter) had(n int64) {
	m.mu.Lock()
	m.before += n
	m.mu.Unlock()
	m.add(n)
}

// waiting says, once, that another process is at it.
func (m *meter) waiting() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.waits {
		m.waits = true
		m.c.log.Info("another process is fetching; waiting for it", "model", m.repo)
	}
}

// draw writes the bar and parks the cursor at the line's start, so that a log
// line of this or another process replaces it.
func (m *meter) draw(w io.Writer, now time.Time) {
	part := 1.0
	if m.total > 0 {
		part = float64(m.done) / float64(m.total)
	}
	full := int(part * barWidth)
	rate := float64(max(m.done-m.before, 0)) / max(now.Sub(m.start).Seconds(), 1e-3)
	left := ""
	if rate > 0 && m.done < m.total {
		left = fmt.Sprintf(", %v left", time.Duration(float64(m.total-m.done)/rate*float64(time.Second)).Round(time.Second))
	}
	fmt.Fprintf(w, "\r\x1b[K[%s%s] %3.0f %% of %s, %s/s%s\r", strings.Repeat("=", full), strings.Repeat(" ", barWidth-full),
		100*part, bytesText(m.total), bytesText(int64(rate)), left)
}

// close removes the bar.
func (m *meter) close() {
	if m.c.terminal != nil {
		fmt.Fprint(m.c.terminal, "\r\x1b[K")
	}
}

// finished says what came, or that others brought it.
func (m *meter) finished(commit string) {
	came, what := m.done-m.before, "fetched"
	if came == 0 && m.waits {
		what = "fetched by the other process"
	}
	m.c.log.Info(what, "model", m.repo, "commit", commit, "size", bytesText(came), "took", time.Since(m.start).Round(time.Millisecond))
}

// bytesText is a size for people.
func bytesText(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
