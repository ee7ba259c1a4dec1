// Package engineclient owns the frontend's side of the conversation with the
// engines: which requests are live and where, their streams, their aborts,
// and what happens to all of them when an engine dies.
//
// One goroutine, Run, reads every engine message. It copies tokens into the
// streams, never waits for anyone, and then records statistics. An HTTP
// handler owns its Stream and takes what has gathered since it last looked,
// so a slow client costs memory bounded by its max_tokens and no one's time.
//
// A request is recorded exactly once, by whoever ends it first: the engine
// (terminal output), its handler (Finish, Close), shutdown (AbortAll) or the
// engine's death. Its stream tells of the end only after that.
//
// Follows vLLM V1 engine/async_llm.py and output_processor.py; we differ in:
// aborts are recorded, and text is made by the handlers, not by the reader.
package engineclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

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

// EngineInfo is what an engine said of itself when it registered.
type EngineInfo struct {
	Index         int // its EngineIndex in messages, and the engine label
	MaxModelLen   int
	NumGPUBlocks  int
	BlockSize     int // tokens
	DType         string
	VLLMVersion   string
	MaxNumSeqs    int
	KVSizeTokens  int     // 0 if not told
	KVConcurrency float64 // requests of MaxModelLen that fit at once; 0 if not told
}

// Conn is the connection to all engines; package ipc has the real one. Sends
// only queue, and may be called from any goroutine. engine is a position in
// Engines.
type Conn interface {
	Engines() []EngineInfo
	Add(engine int, req *protocol.EngineCoreRequest) error
	Abort(engine int, ids []string) error
	Utility(engine int, call *protocol.UtilityCall) error

	// Run calls handle for every message, one at a time, until ctx ends or
	// the connection is lost, and says why. A message and its slices belong to
	// the connection again once handle has returned.
	Run(ctx context.Context, handle func(*protocol.EngineCoreOutputs)) error
}

// Recorder takes statistics; package metrics has the real one. It is called
// by the reader once per message and by handlers that end a request, so at
// the same time. It keeps neither pointer.
type Recorder interface {
	Record(engine int, s *protocol.SchedulerStats, it *stats.Iteration)
}

// Options of a Client.
type Options struct {
	Recorder Recorder         // nil: --disable-log-stats
	Logger   *slog.Logger     // nil: slog.Default()
	Now      func() time.Time // nil: time.Now; must carry a monotonic reading
}

// Client is the registry of live requests. Safe for concurrent use.
type Client struct {
	conn     Conn
	recorder Recorder
	log      *slog.Logger
	now      func() time.Time
	infos    []EngineInfo
	dead     chan struct{} // closed once deadErr is set

	mu       sync.Mutex // guards what follows; never held while a stream's is
	engines  []engineLoad
	next     int // where the search for the least loaded engine starts
	live     map[string]*Stream
	idle     chan struct{} // closed when live empties; nil unless draining
	draining bool
	deadErr  *EngineDeadError
	calls    map[protocol.CallID]chan protocol.UtilityOutput
	lastCall uint64

	message message // the reader's alone
}

// New returns a client of the engines behind conn, which have registered.
func New(conn Conn, opt Options) *Client {
	if opt.Logger == nil {
		opt.Logger = slog.Default()
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	infos := conn.Engines()
	return &Client{
		conn:     conn,
		recorder: opt.Recorder,
		log:      opt.Logger,
		now:      opt.Now,
		infos:    infos,
		dead:     make(chan struct{}),
		engines:  make([]engineLoad, len(infos)),
		live:     make(map[string]*Stream),
		calls:    make(map[protocol.CallID]chan protocol.UtilityOutput),
	}
}

// Run reads engine messages until the connection ends, then fails whatever is
// live. It returns nil if ctx ended it, else the *EngineDeadError.
func (c *Client) Run(ctx context.Context) error {
	err := c.conn.Run(ctx, c.handle)
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
// unique (NewRequestID); it keeps req. ctx bounds the sending only: the
// stream lives until it ends or Close.
//
// Errors: *EngineDeadError, ErrDraining, ErrDuplicateRequest, ctx's, and the
// connection's. A request that was not sent enters no statistics.
func (c *Client) Submit(ctx context.Context, req *protocol.EngineCoreRequest, meta Meta) (*Stream, error) {
	s, err := c.submit(ctx, req, meta)
	if err != nil {
		meta.Parent.childFailed(c)
		return nil, fmt.Errorf("submit %q: %w", req.RequestID, err)
	}
	return s, nil
}

func (c *Client) submit(ctx context.Context, req *protocol.EngineCoreRequest, meta Meta) (*Stream, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	s := newStream(c, req, meta)
	if err := c.register(s); err != nil {
		return nil, err
	}
	if err := c.conn.Add(s.engine, req); err != nil {
		c.forget(s)
		return nil, err
	}
	return s, nil
}

// Healthy is nil while every engine lives, else the *EngineDeadError.
func (c *Client) Healthy() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deadErr != nil {
		return c.deadErr
	}
	return nil
}

// Dead is closed when an engine has died.
func (c *Client) Dead() <-chan struct{} { return c.dead }

// Engines lists the engines as they registered.
func (c *Client) Engines() []EngineInfo { return c.infos }

// NumLive is how many sequences are with the engines.
func (c *Client) NumLive() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.live)
}
