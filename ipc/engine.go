package ipc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	zmq "github.com/pebbe/zmq4"

	"govllm/protocol"
)

// EngineOptions configures an engine's end of the connection.
type EngineOptions struct {
	// HandshakeAddress is where the frontend binds, e.g.
	// "tcp://127.0.0.1:29550". It need not be there yet.
	HandshakeAddress string
	// Rank is the engine's data-parallel rank, 0 … 65535: its identity.
	Rank int
	// Local and Headless are what HELLO says; Python frontends check them.
	Local    bool
	Headless bool
	// InitTimeout bounds the wait for INIT; default 5 minutes, as in vLLM.
	InitTimeout time.Duration
	// Log gets what goes wrong without ending the connection; default slog's.
	Log *slog.Logger
}

// Validate reports every problem at once.
func (o *EngineOptions) Validate() error {
	var errs []error
	if o.HandshakeAddress == "" {
		errs = append(errs, errors.New("engine: HandshakeAddress is empty, want e.g. tcp://127.0.0.1:29550"))
	}
	if o.Rank < 0 || o.Rank > maxRank {
		errs = append(errs, fmt.Errorf("engine: Rank is %d, want 0 … %d", o.Rank, maxRank))
	}
	if o.InitTimeout < 0 {
		errs = append(errs, fmt.Errorf("engine: InitTimeout is %v, want 0 (the default) or more", o.InitTimeout))
	}
	return errors.Join(errs...)
}

const (
	maxRank            = 1<<16 - 1 // two bytes of identity
	defaultInitTimeout = 5 * time.Minute
	waitingLogInterval = 10 * time.Second

	// The handshake's connection may come back within this, before it counts
	// as lost; the frontend does not take offence.
	handshakeGrace = 2 * time.Second
	// connectTimeout bounds Ready: addresses in INIT are bound already.
	connectTimeout = 10 * time.Second

	// A peer that stops answering is lost after at most 0.5 s + 2.5 s; the
	// frontend notices from the first heartbeat on.
	heartbeatInterval = 500 * time.Millisecond
	heartbeatTimeout  = 2500 * time.Millisecond

	// lingerLimit bounds what Close flushes, as in vLLM.
	lingerLimit = 4 * time.Second

	// Requests wait here while a step runs; what is more waits in the socket.
	requestBuffer = 1024
	abortBuffer   = 256
)

// identity is how frontends address an engine: its rank, little-endian.
func identity(rank int) []byte {
	return binary.LittleEndian.AppendUint16(nil, uint16(rank))
}

// EngineConn is the engine's end. Its methods may be called from any
// goroutine; Requests and Aborts have one reader each.
//
// States, each entered in one place: greeting (DialEngine) → initialized →
// serving (Ready) → closed.
type EngineConn struct {
	opts EngineOptions
	log  *slog.Logger
	ctx  *zmq.Context

	requests chan protocol.FrontendMessage
	aborts   chan protocol.Abort
	lost     chan error
	gone     chan struct{} // closed with the loss, which is then in lostErr
	closed   chan struct{}
	buffers  buffers

	handshake *port
	initc     chan *protocol.Init // from the handshake's owner to DialEngine
	init      *protocol.Init      // set before DialEngine returns

	mu       sync.Mutex
	inputs   []*port
	outputs  []*port
	waiting  int           // sockets that Ready waits for
	allUp    chan struct{} // closed when none is left
	lostErr  *LostError
	isClosed bool

	// The handshake owner's.
	answered *protocol.Init
	broken   *time.Timer
}

// DialEngine says HELLO and waits for INIT. It returns ErrRefused if the
// frontend has another engine of this rank, ErrHandshakeTimeout after
// InitTimeout, and ctx's error if that comes first.
func DialEngine(ctx context.Context, opts EngineOptions) (*EngineConn, error) {
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("ipc: %w", err)
	}
	if opts.InitTimeout == 0 {
		opts.InitTimeout = defaultInitTimeout
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	zctx, err := zmq.NewContext()
	if err != nil {
		return nil, fmt.Errorf("ipc: %w", err)
	}
	c := &EngineConn{
		opts: opts, log: opts.Log, ctx: zctx,
		requests: make(chan protocol.FrontendMessage, requestBuffer),
		aborts:   make(chan protocol.Abort, abortBuffer),
		lost:     make(chan error, 1),
		gone:     make(chan struct{}),
		closed:   make(chan struct{}),
		initc:    make(chan *protocol.Init, 1),
		allUp:    make(chan struct{}),
	}
	if err := c.dialHandshake(); err != nil {
		zctx.Term()
		return nil, err
	}
	if err := c.awaitInit(ctx); err != nil {
		c.Close(context.Background())
		return nil, err
	}
	return c, nil
}

func (c *EngineConn) dialHandshake() error {
	p, err := newPort(c.ctx, "handshake", zmq.DEALER, &c.buffers)
	if err != nil {
		return err
	}
	p.onMessage, p.onEvent = c.onHandshake, c.onHandshakeEvent
	if err := errors.Join(
		p.sock.SetIdentity(string(identity(c.opts.Rank))),
		p.sock.Connect(c.opts.HandshakeAddress),
	); err != nil {
		p.discard()
		return fmt.Errorf("ipc: connect to %q: %w", c.opts.HandshakeAddress, err)
	}
	c.handshake = p
	go p.loop(nil)
	return nil
}

func (c *EngineConn) awaitInit(ctx context.Context) error {
	timeout := time.NewTimer(c.opts.InitTimeout)
	defer timeout.Stop()
	remind := time.NewTicker(waitingLogInterval)
	defer remind.Stop()
	start := time.Now()
	for {
		select {
		case m := <-c.initc:
			if m.Refusal != "" {
				return fmt.Errorf("%w at %s: %s", ErrRefused, c.opts.HandshakeAddress, m.Refusal)
			}
			c.init = m
			return nil
		case <-remind.C:
			c.log.Info("waiting for the frontend", "address", c.opts.HandshakeAddress,
				"for", time.Since(start).Round(time.Second))
		case <-timeout.C:
			return fmt.Errorf("%w from %s within %v: is the frontend running, and no other engine of rank %d?",
				ErrHandshakeTimeout, c.opts.HandshakeAddress, c.opts.InitTimeout, c.opts.Rank)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// onHandshakeEvent says HELLO on each new connection until there is an answer,
// so that a frontend restarted meanwhile learns of us; and afterwards again to
// one of ours, whose answer tells whether it is still the same.
func (c *EngineConn) onHandshakeEvent(e zmq.Event, _ int) {
	switch e {
	case zmq.EVENT_HANDSHAKE_SUCCEEDED:
		if c.broken != nil {
			c.broken.Stop()
			c.broken = nil
		}
		if c.answered == nil || c.answered.Heartbeats {
			c.handshake.send(message{payload: c.hello(protocol.StatusHello)})
		}
	case zmq.EVENT_DISCONNECTED:
		if c.answered != nil && c.broken == nil {
			c.broken = time.AfterFunc(handshakeGrace, func() { c.lose("handshake " + c.opts.HandshakeAddress) })
		}
	}
}

func (c *EngineConn) hello(status string) []byte {
	return protocol.AppendHello(c.Buffer(), &protocol.Hello{
		Status: status, Local: c.opts.Local, Headless: c.opts.Headless})
}

func (c *EngineConn) onHandshake(frames [][]byte, _ int) {
	if len(frames) != 1 {
		c.log.Warn("ignored a handshake message", "frames", len(frames), "want", 1)
		return
	}
	m, err := protocol.DecodeInit(frames[0])
	if err != nil {
		c.log.Warn("ignored a handshake message", "error", err)
		return
	}
	switch {
	case c.answered == nil:
		c.answered = m
		c.initc <- m
	case m.Refusal != "":
		c.lose("handshake: " + m.Refusal)
	case !slices.Equal(m.Addresses.Inputs, c.answered.Addresses.Inputs):
		c.lose("handshake: another frontend took its place")
	}
}

// Init returns what the frontend announced.
func (c *EngineConn) Init() *protocol.Init { return c.init }

// NumClients is how many frontend processes there are; client indices are
// below it.
func (c *EngineConn) NumClients() int { return len(c.init.Addresses.Inputs) }

// Ready connects to every frontend process, registers with each, tells the
// handshake socket READY and closes it. Requests flow from here on.
func (c *EngineConn) Ready(ctx context.Context, reg *protocol.Registration) error {
	if err := c.dialData(); err != nil {
		return err
	}
	timeout := time.NewTimer(connectTimeout)
	defer timeout.Stop()
	select {
	case <-c.allUp:
	case <-c.gone:
		return c.lostErr
	case <-c.closed:
		return ErrClosed
	case <-timeout.C:
		return fmt.Errorf("%w: no connection to %v and %v within %v", ErrDisconnected,
			c.init.Addresses.Inputs, c.init.Addresses.Outputs, connectTimeout)
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, p := range c.inputs {
		if err := p.send(message{payload: protocol.AppendRegistration(c.Buffer(), reg)}); err != nil {
			return err
		}
	}
	if err := c.handshake.send(message{payload: c.hello(protocol.StatusReady)}); err != nil {
		return err
	}
	c.handshake.stop(lingerLimit)
	<-c.handshake.done
	if c.broken != nil {
		c.broken.Stop()
	}
	return nil
}

// dialData connects the sockets that INIT announced and starts their owners.
func (c *EngineConn) dialData() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		return ErrClosed
	}
	if c.waiting > 0 {
		return errors.New("ipc: Ready was called before")
	}
	a := &c.init.Addresses
	c.waiting = len(a.Inputs) + len(a.Outputs)
	for k, address := range a.Inputs {
		p, err := c.dial(fmt.Sprintf("input%d", k), zmq.DEALER, address)
		if err != nil {
			return err
		}
		p.onMessage = func(frames [][]byte, _ int) { c.onRequest(p, frames) }
		c.inputs = append(c.inputs, p)
		go p.loop(nil)
	}
	for k, address := range a.Outputs {
		p, err := c.dial(fmt.Sprintf("output%d", k), zmq.PUSH, address)
		if err != nil {
			return err
		}
		c.outputs = append(c.outputs, p)
		go p.loop(nil)
	}
	return nil
}

func (c *EngineConn) dial(name string, t zmq.Type, address string) (*port, error) {
	p, err := newPort(c.ctx, name, t, &c.buffers)
	if err != nil {
		return nil, err
	}
	up := false
	p.onEvent = func(e zmq.Event, _ int) {
		switch {
		case e == zmq.EVENT_HANDSHAKE_SUCCEEDED && !up:
			up = true
			c.connected()
		case e == zmq.EVENT_DISCONNECTED && up:
			c.lose(name + " " + address)
		}
	}
	p.onSendErr = func(m message, err error) {
		c.log.Error("lost a message", "socket", name, "bytes", len(m.payload), "error", err)
	}
	if t == zmq.DEALER {
		err = p.sock.SetIdentity(string(identity(c.opts.Rank)))
	}
	if err == nil && c.init.Heartbeats {
		// We ask and the frontend's ZeroMQ answers; the time to live makes it
		// notice in turn when nothing is asked any more. Frontends that are not
		// ours are not asked: some would fail on it.
		err = errors.Join(
			p.sock.SetHeartbeatIvl(heartbeatInterval),
			p.sock.SetHeartbeatTimeout(heartbeatTimeout),
			p.sock.SetHeartbeatTtl(heartbeatTimeout),
		)
	}
	if err == nil {
		err = p.sock.Connect(address)
	}
	if err != nil {
		p.discard()
		return nil, fmt.Errorf("ipc: connect %s to %q: %w", name, address, err)
	}
	return p, nil
}

func (c *EngineConn) connected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting--; c.waiting == 0 {
		close(c.allUp)
	}
}

// onRequest runs on the owner of an input socket.
func (c *EngineConn) onRequest(p *port, frames [][]byte) {
	m := protocol.DecodeFrontendMessage(frames)
	switch m := m.(type) {
	case protocol.Abort:
		select {
		case c.aborts <- m:
		default: // it comes again below
		}
	case *protocol.FieldError:
		c.log.Warn("cannot decode a request", "socket", p.name, "error", m)
		if m.RequestID == "" && m.CallID == nil {
			return // nobody to answer
		}
	}
	select {
	case c.requests <- m:
	case <-c.closed:
	}
}

// Requests delivers every message of the frontends in order of arrival, ABORTs
// included: an ADD and its ABORT keep their order here. A *protocol.FieldError
// stands for a message that could not be decoded and wants an answer.
// The receiver owns what it gets. Never closed: select on Lost too.
func (c *EngineConn) Requests() <-chan protocol.FrontendMessage { return c.requests }

// Aborts delivers a copy of each ABORT at once, ahead of the messages before
// it, so that a step's end can drop requests aborted while it ran. IDs not yet
// known are to be ignored: the ABORT comes again through Requests. A copy is
// dropped if the reader is far behind.
func (c *EngineConn) Aborts() <-chan protocol.Abort { return c.aborts }

// Buffer returns an empty buffer to encode one message into, recycled from
// sent ones.
func (c *EngineConn) Buffer() []byte { return c.buffers.get() }

// Send queues payload for the output socket of a client and returns at once.
// The buffer belongs to the connection from here on, and payload must not be
// empty. A client index that does not exist is an error; so is ErrClosed.
// Valid after Ready.
func (c *EngineConn) Send(clientIndex int, payload []byte) error {
	if clientIndex < 0 || clientIndex >= len(c.outputs) {
		return fmt.Errorf("ipc: client index is %d, the frontends are 0 … %d", clientIndex, len(c.outputs)-1)
	}
	return c.outputs[clientIndex].send(message{payload: payload})
}

// SendDead queues the last message of an engine that failed, to every client.
func (c *EngineConn) SendDead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.outputs {
		p.send(message{payload: []byte(protocol.EngineDead)})
	}
}

// Lost delivers one *LostError when a frontend is gone, within 4 seconds.
func (c *EngineConn) Lost() <-chan error { return c.lost }

func (c *EngineConn) lose(detail string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lostErr == nil && !c.isClosed {
		c.lostErr = &LostError{Engine: theFrontend, Detail: detail, Err: ErrDisconnected}
		c.lost <- c.lostErr
		close(c.gone)
	}
}

// Close flushes what was sent, for up to 4 seconds or until ctx ends, and
// closes the sockets. No goroutine is left when it returns.
func (c *EngineConn) Close(ctx context.Context) error {
	c.mu.Lock()
	if c.isClosed {
		c.mu.Unlock()
		return nil
	}
	c.isClosed = true
	close(c.closed)
	linger := lingerWithin(ctx)
	if c.lostErr != nil {
		linger = 0 // to whom?
	}
	ports := slices.Concat([]*port{c.handshake}, c.inputs, c.outputs)
	c.mu.Unlock()
	for _, p := range ports {
		p.stop(linger)
	}
	for _, p := range ports {
		<-p.done
	}
	if c.broken != nil {
		c.broken.Stop()
	}
	return c.ctx.Term() // waits for the lingering sockets
}

// lingerWithin is how long a Close may flush.
func lingerWithin(ctx context.Context) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	if deadline, ok := ctx.Deadline(); ok {
		return max(0, min(lingerLimit, time.Until(deadline)))
	}
	return lingerLimit
}
