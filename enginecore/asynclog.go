package enginecore

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// asyncLog writes log records on a goroutine of its own, so that a full pipe
// behind stderr cannot stop the step loop. When its queue is full, records are
// dropped and counted, and the next one that fits says how many.
type asyncLog struct {
	records chan record
	dropped atomic.Int64
	quit    chan struct{} // closed by stop
	done    chan struct{} // closed by run
}

type record struct {
	to slog.Handler
	r  slog.Record
}

// logQueue is how many records may wait: an engine logs a line per failed
// request and per change of state, so this is seconds of trouble.
const logQueue = 1024

func newAsyncLog() *asyncLog {
	return &asyncLog{records: make(chan record, logQueue), quit: make(chan struct{}), done: make(chan struct{})}
}

// run writes records until stop, and then what is queued.
func (a *asyncLog) run() {
	defer close(a.done)
	for {
		select {
		case rec := <-a.records:
			a.write(rec)
		case <-a.quit:
			for {
				select {
				case rec := <-a.records:
					a.write(rec)
				default:
					return
				}
			}
		}
	}
}

func (a *asyncLog) write(rec record) {
	if n := a.dropped.Swap(0); n > 0 {
		rec.r.AddAttrs(slog.Int64("log_records_dropped", n))
	}
	_ = rec.to.Handle(context.Background(), rec.r) // a log that fails has nobody to tell
}

// stop returns when everything that was logged is written, or cannot be: an
// engine does not fail to end because nobody reads its log.
func (a *asyncLog) stop() {
	close(a.quit)
	select {
	case <-a.done:
	case <-time.After(time.Second):
	}
}

func (a *asyncLog) handler(to slog.Handler) slog.Handler { return asyncHandler{log: a, to: to} }

// asyncHandler queues records for the handler behind it.
type asyncHandler struct {
	log *asyncLog
	to  slog.Handler
}

func (h asyncHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.to.Enabled(ctx, level)
}

func (h asyncHandler) Handle(_ context.Context, r slog.Record) error {
	select {
	case h.log.records <- record{to: h.to, r: r.Clone()}:
	default:
		h.log.dropped.Add(1)
	}
	return nil
}

func (h asyncHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return asyncHandler{log: h.log, to: h.to.WithAttrs(attrs)}
}

func (h asyncHandler) WithGroup(name string) slog.Handler {
	return asyncHandler{log: h.log, to: h.to.WithGroup(name)}
}
