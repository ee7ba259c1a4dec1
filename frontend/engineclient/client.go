package engineclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"govllm/ipc"
	"govllm/protocol"
	"govllm/stats"
)

var (
	// ErrEngineDead matches every *EngineDeadError.
	ErrEngineDead = errors.New("engineclient: engine is dead")
	// ErrDraining refuses new requests while the frontend shuts down.
	ErrDraining = errors.New("engineclient: shutting down, no new requests")
	// ErrDuplicateRequest reports a Submit whose ID is still live.
	ErrDuplicateRequest = errors.New("engineclient: duplicate request ID")
)

// EngineDeadError is what every stream, utility call and Submit gets once an
// engine is gone. Err says how that was noticed.
type EngineDeadError struct{ Err error }

func (e *EngineDeadError) Error() string {
	return fmt.Sprintf("%v: %v", ErrEngineDead, e.Err)
}

func (e *EngineDeadError) Is(target error) bool { return target == ErrEngineDead }

func (e *EngineDeadError) Unwrap() error { return e.Err }

// Conn is what the client needs of the connection to the engines, which are
// numbered by rank; *ipc.FrontendConn is it.
type Conn interface {
	// Buffer returns an empty buffer to encode one message into.
	Buffer() []byte
	// Send queues one message, from any goroutine, and keeps payload.
	Send(engine int, t protocol.RequestType, payload []byte) error
	// Run hands every message to deliver, one at a time, until ctx ends or the
	// connection is lost, and says why. Of a message only strings may be kept.
	Run(ctx context.Context, deliver func(*protocol.EngineCoreOutputs)) error
}

var _ Conn = (*ipc.FrontendConn)(nil)

// Recorder takes statistics; package metrics has the real one. It is called
// by the reader once per message and by handlers that end a request, so at
// the same time. It keeps neither pointer and must not call the client.
type Recorder interface {
	Record(engine int, s *protocol.SchedulerStats, it *stats.Iteration)
	// RecordSent takes the time from a request's arrival until its ADD was sent.
	RecordSent(engine int, took time.Duration)
	// RecordDelivered takes the time from the arrival of a message until what a
	// stream got by it was written to its client.
	RecordDelivered(engine int, took time.Duration)
}

// Options of a Client.
type Options struct {
	Recorder Recorder         // nil: --disable-log-stats
	Logger   *slog.Logger     // nil: slog.Default()
	Now      func() time.Time // nil: time.Now; must carry a monotonic reading

	// StallTimeout is how long an engine with requests may complete no step
	// before it counts as stalled, and at least 10 times its longest step.
	// 0: it never does.
	StallTimeout time.Duration
	// StallFailsHealth makes Healthy report stalled engines, as Ready does.
	StallFailsHealth bool
}

// Client is the registry of live requests. Safe for concurrent use.
type Client struct {
	conn     Conn
	recorder Recorder
	log      *slog.Logger
	now      func() time.Time
	infos    []ipc.EngineInfo // by rank
	dead     chan struct{}    // closed once deadErr is set

	stallTimeout     time.Duration
	stallFailsHealth bool

	mu       sync.Mutex // guards what follows; never held while a stream's is
	engines  []engineLoad
	next     int // where the search for the least loaded engine starts
	live     map[string]*Stream
	idle     chan struct{} // closed when live empties; nil unless draining
	draining bool
	deadErr  *EngineDeadError
	calls    map[protocol.CallID]chan protocol.UtilityOutput
	lastCall uint64

	preparing  int // HTTP requests, see Preparing
	sleepLevel int // 0: awake

	message message // the reader's alone
}

// New returns a client of the engines behind conn, at least one, as WaitReady
// returned them.
func New(conn Conn, engines []ipc.EngineInfo, opt Options) *Client {
	if opt.Logger == nil {
		opt.Logger = slog.Default()
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	c := &Client{
		conn:     conn,
		recorder: opt.Recorder,
		log:      opt.Logger,
		now:      opt.Now,
		infos:    engines,
		dead:     make(chan struct{}),
		engines:  make([]engineLoad, len(engines)),
		live:     make(map[string]*Stream),
		calls:    make(map[protocol.CallID]chan protocol.UtilityOutput),

		stallTimeout:     opt.StallTimeout,
		stallFailsHealth: opt.StallFailsHealth,
	}
	now := c.now()
	for i := range c.engines {
		c.engines[i].progress = progress{message: now, step: now, token: now, busySince: now}
	}
	return c
}

// Run reads engine messages until the connection ends, then fails whatever is
// live. It returns nil if ctx ended it, else the *EngineDeadError.
func (c *Client) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	watchCtx, stop := context.WithCancel(ctx)
	if c.stallTimeout > 0 {
		watching.Go(func() { c.watch(watchCtx) })
	}
	err := c.conn.Run(ctx, c.handle)
	stop()
	watching.Wait()
	if ctx.Err() != nil {
		c.die(fmt.Errorf("connection closed: %w", context.Cause(ctx)))
		return nil
	}
	if err == nil {
		err = errors.New("connection closed")
	}
	return c.die(err)
}

// Meta is what the engine need not know of a request.
type Meta struct {
	Arrival time.Time // when the HTTP request came in; carries a monotonic reading
	Parent  *Parent   // nil for a request of one sequence

	// StopStrings says the handler looks for stop strings and has the last
	// word on how the request ended: an engine's terminal output is recorded
	// only when the handler says Finish, takes io.EOF, or closes the stream.
	StopStrings bool
}

// Submit sends one ADD to the least loaded engine. The request's ID must be
// unique (NewRequestID); req is not kept. A ctx that has ended is refused, but
// the stream does not follow it: it lives until it ends or Close.
//
// Errors: *EngineDeadError, ErrDraining, ErrDuplicateRequest and ctx's. A
// request that was not sent enters no statistics.
func (c *Client) Submit(ctx context.Context, req *protocol.EngineCoreRequest, meta Meta) (*Stream, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("submit %q: %w", req.RequestID, context.Cause(ctx))
	}
	s := newStream(c, req, meta)
	if err := c.register(s); err != nil {
		return nil, fmt.Errorf("submit %q: %w", req.RequestID, err)
	}
	if err := c.send(s.engine, protocol.RequestAdd, protocol.AppendRequest(c.conn.Buffer(), req)); err != nil {
		c.forget(s)
		return nil, fmt.Errorf("submit %q: %w", req.RequestID, err)
	}
	if c.recorder != nil {
		c.recorder.RecordSent(s.engine, c.now().Sub(meta.Arrival))
	}
	if s.hasLeft() { // AbortAll was faster, and its ABORT came before the ADD
		c.sendAbort(s)
	}
	return s, nil
}

// send fails as a dead engine does if the connection is lost: the reader may
// not have noticed yet.
func (c *Client) send(engine int, t protocol.RequestType, payload []byte) error {
	if err := c.conn.Send(engine, t, payload); err != nil {
		return &EngineDeadError{err}
	}
	return nil
}

// Healthy is nil while every engine lives, else the *EngineDeadError; with
// Options.StallFailsHealth also what Ready says. Liveness rests on it.
func (c *Client) Healthy() error {
	if c.stallFailsHealth {
		return c.Ready()
	}
	return c.died()
}

func (c *Client) died() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deadErr != nil {
		return c.deadErr
	}
	return nil
}

// Dead is closed when an engine has died.
func (c *Client) Dead() <-chan struct{} { return c.dead }

// Engines lists the engines by rank, as they registered.
func (c *Client) Engines() []ipc.EngineInfo { return c.infos }

// NumLive is how many sequences are with the engines.
func (c *Client) NumLive() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.live)
}
