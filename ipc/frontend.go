package ipc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	zmq "github.com/pebbe/zmq4"

	"govllm/protocol"
)

// FrontendOptions configures a frontend's end of the connections.
type FrontendOptions struct {
	// HandshakeAddress is bound, e.g. "tcp://127.0.0.1:29550"; port 0 picks
	// one. The input and output sockets bind to free ports of the same host.
	HandshakeAddress string
	// EngineCount is how many engines there are, ranks 0 … EngineCount-1.
	// Default 1.
	EngineCount int
	// Log gets what goes wrong without ending a connection; default slog's.
	Log *slog.Logger
}

// Validate reports every problem at once.
func (o *FrontendOptions) Validate() error {
	var errs []error
	if _, err := bindHost(o.HandshakeAddress); err != nil {
		errs = append(errs, err)
	}
	if o.EngineCount < 0 || o.EngineCount > maxRank+1 {
		errs = append(errs, fmt.Errorf("frontend: EngineCount is %d, want 1 … %d", o.EngineCount, maxRank+1))
	}
	return errors.Join(errs...)
}

// bindHost takes the host out of tcp://HOST:PORT. It must be one that engines
// can connect to, for it is announced to them.
func bindHost(address string) (string, error) {
	rest, ok := strings.CutPrefix(address, "tcp://")
	host, _, err := net.SplitHostPort(rest)
	if !ok || err != nil || host == "" || host == "*" {
		return "", fmt.Errorf("frontend: HandshakeAddress is %q, want tcp://HOST:PORT", address)
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return "", fmt.Errorf("frontend: HandshakeAddress is %q: engines cannot connect to %s, name this host's address", address, host)
	}
	return host, nil
}

// EngineInfo is what an engine said of itself. Registered is false for old
// engines, whose registration is empty.
type EngineInfo struct {
	Rank         int
	Local        bool
	Headless     bool
	Registered   bool
	Registration protocol.Registration
}

// FrontendConn is the frontend's end. Its methods may be called from any
// goroutine.
type FrontendConn struct {
	opts    FrontendOptions
	log     *slog.Logger
	ctx     *zmq.Context
	buffers buffers

	greeter greeter
	input   *port
	output  *port
	init    []byte // the INIT payload, the same for every engine

	lost   chan error
	gone   chan struct{} // closed with the first loss, which is then in fatal
	closed chan struct{}
	ready  chan struct{} // closed when every engine is serving

	mu       sync.Mutex
	engines  []engineState
	fatal    *LostError // the first loss, once it is certain
	running  bool       // Run owns the output socket
	isClosed bool

	// The output owner's.
	decoder    protocol.OutputsDecoder
	deliver    func(*protocol.EngineCoreOutputs)
	outputDown time.Time  // when a connection of the output socket last broke
	dying      *LostError // seen on input; reported when output is drained
	dyingUntil time.Time
}

// engineState is what the frontend knows of one rank.
type engineState struct {
	info       EngineInfo
	holder     *zmtpPeer // handshake connection that has the rank
	status     string    // "", StatusHello, StatusReady
	registered bool
	inputFD    int // connection of its registration
}

// Listen binds the three sockets. It returns ErrAddressInUse if another
// process listens at HandshakeAddress.
func Listen(opts FrontendOptions) (*FrontendConn, error) {
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("ipc: %w", err)
	}
	if opts.EngineCount == 0 {
		opts.EngineCount = 1
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	zctx, err := zmq.NewContext()
	if err != nil {
		return nil, fmt.Errorf("ipc: %w", err)
	}
	c := &FrontendConn{
		opts: opts, log: opts.Log, ctx: zctx,
		lost:    make(chan error, 1),
		gone:    make(chan struct{}),
		closed:  make(chan struct{}),
		ready:   make(chan struct{}),
		engines: make([]engineState, opts.EngineCount),
	}
	for rank := range c.engines {
		c.engines[rank].info.Rank = rank
		c.engines[rank].inputFD = -1
	}
	if err := c.bindAll(); err != nil {
		for _, p := range []*port{c.input, c.output} {
			if p != nil {
				p.discard()
			}
		}
		if c.greeter.listener != nil {
			c.greeter.close()
		}
		zctx.Term()
		return nil, err
	}
	go c.input.loop(nil)
	c.greeter.serve(c.greet)
	return c, nil
}

func (c *FrontendConn) bindAll() (err error) {
	host, err := bindHost(c.opts.HandshakeAddress)
	if err != nil {
		return err
	}
	if err := c.greeter.listen(c.opts.HandshakeAddress); err != nil {
		return err
	}
	free := "tcp://" + net.JoinHostPort(host, "0")
	var in, out string
	if c.input, in, err = c.bind("input", zmq.ROUTER, free); err != nil {
		return err
	}
	if c.output, out, err = c.bind("output", zmq.PULL, free); err != nil {
		return err
	}
	c.init = protocol.AppendInit(nil, &protocol.Init{
		Addresses:      protocol.Addresses{Inputs: []string{in}, Outputs: []string{out}},
		ParallelConfig: map[string]any{},
		Heartbeats:     true,
	})
	c.input.withFD = true
	c.input.onEvent, c.input.onMessage = c.onInputEvent, c.onInput
	c.input.onSendErr = func(m message, err error) {
		c.log.Warn("a request found no engine", "rank", binary.LittleEndian.Uint16(m.identity), "error", err)
	}
	c.output.onEvent, c.output.onMessage = c.onOutputEvent, c.onOutput
	return nil
}

// bind makes a port and returns the address it got.
func (c *FrontendConn) bind(name string, t zmq.Type, address string) (*port, string, error) {
	p, err := newPort(c.ctx, name, t, &c.buffers)
	if err != nil {
		return nil, "", err
	}
	if t == zmq.ROUTER {
		// An unknown identity is an error and not silence.
		err = p.sock.SetRouterMandatory(1)
	}
	if err == nil {
		err = p.sock.Bind(address)
	}
	if err == nil {
		address, err = p.sock.GetLastEndpoint()
	}
	if err == nil {
		return p, address, nil
	}
	p.discard()
	return nil, "", fmt.Errorf("ipc: bind %s to %s: %w", name, address, err)
}

// HandshakeAddress is the bound address, with its port.
func (c *FrontendConn) HandshakeAddress() string {
	return "tcp://" + c.greeter.listener.Addr().String()
}

// WaitReady waits until every engine has shaken hands and registered, in any
// order, and returns them by rank. An engine that dies before READY may be
// started again meanwhile. A second engine of a connected rank is refused, now
// and as long as the connection lives. Ends with ctx's error.
func (c *FrontendConn) WaitReady(ctx context.Context) ([]EngineInfo, error) {
	select {
	case <-c.ready:
	case <-c.gone:
		return nil, c.fatal
	case <-c.closed:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	infos := make([]EngineInfo, len(c.engines))
	for rank := range c.engines {
		infos[rank] = c.engines[rank].info
	}
	return infos, nil
}

// checkReady ends WaitReady when all is there. Called with mu held.
func (c *FrontendConn) checkReady() {
	for rank := range c.engines {
		if e := &c.engines[rank]; e.status != protocol.StatusReady || !e.registered {
			return
		}
	}
	select {
	case <-c.ready:
	default:
		close(c.ready)
	}
}

// rankOf reads an identity; ok is false for one that is no expected rank.
func (c *FrontendConn) rankOf(id []byte) (rank int, ok bool) {
	if len(id) != 2 {
		return 0, false
	}
	rank = int(binary.LittleEndian.Uint16(id))
	return rank, rank < len(c.engines)
}

// onInput runs on the owner of the input socket. Engines send one message on
// it, their registration.
func (c *FrontendConn) onInput(frames [][]byte, fd int) {
	rank, ok := c.rankOf(frames[0])
	if !ok || len(frames) != 2 {
		c.log.Warn("ignored a message on the input socket", "identity", fmt.Sprintf("%x", frames[0]), "frames", len(frames))
		return
	}
	var reg protocol.Registration
	if len(frames[1]) > 0 { // empty before vLLM 0.20
		r, err := protocol.DecodeRegistration(frames[1])
		if err != nil {
			c.log.Warn("ignored a registration", "rank", rank, "error", err)
			return
		}
		reg = *r
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := &c.engines[rank]
	if e.registered {
		c.log.Warn("ignored a second registration", "rank", rank)
		return
	}
	e.registered, e.inputFD = true, fd
	e.info.Registered, e.info.Registration = len(frames[1]) > 0, reg
	c.checkReady()
}

// onInputEvent notices the end of a registered engine. What it last sent may
// still wait on the output socket, so that one's owner reports the loss.
func (c *FrontendConn) onInputEvent(e zmq.Event, fd int) {
	if e != zmq.EVENT_DISCONNECTED {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for rank := range c.engines {
		engine := &c.engines[rank]
		if engine.inputFD != fd {
			continue
		}
		engine.inputFD = -1
		if engine.status != protocol.StatusReady {
			engine.registered = false // it may be started again
			continue
		}
		lost := &LostError{Engine: rank, Detail: "input connection", Err: ErrDisconnected}
		if c.running {
			c.output.post(func() { c.setDying(lost) })
		} else {
			c.lose(lost)
		}
	}
}

// Buffer returns an empty buffer to encode one message into, recycled from
// sent ones.
func (c *FrontendConn) Buffer() []byte { return c.buffers.get() }

// kinds are the type frames, by RequestType.
var kinds = [...][]byte{
	protocol.RequestAdd:         {byte(protocol.RequestAdd)},
	protocol.RequestAbort:       {byte(protocol.RequestAbort)},
	protocol.RequestStartDPWave: {byte(protocol.RequestStartDPWave)},
	protocol.RequestUtility:     {byte(protocol.RequestUtility)},
}

// Send queues one message for an engine and returns at once. The buffer
// belongs to the connection from here on. Valid after WaitReady.
func (c *FrontendConn) Send(engine int, t protocol.RequestType, payload []byte) error {
	if engine < 0 || engine >= len(c.engines) {
		return fmt.Errorf("ipc: engine is %d, want 0 … %d", engine, len(c.engines)-1)
	}
	if int(t) >= len(kinds) {
		return fmt.Errorf("ipc: request type is 0x%02x, want 0x00 … 0x%02x", byte(t), len(kinds)-1)
	}
	return c.input.send(message{identity: identity(engine), kind: kinds[t], payload: payload})
}

// drainLimit bounds the wait for the output connection of an engine whose
// input connection broke: both end together unless the network is at fault.
const drainLimit = 500 * time.Millisecond

// Run receives outputs until ctx ends (nil), Close (ErrClosed), or an engine is
// lost (*LostError), and hands each to deliver on the calling goroutine. Only
// strings in the value may be kept: structs, slices and maps are reused by the
// next message. What an engine sent before its end is delivered before Run
// returns. Call it once, after WaitReady.
func (c *FrontendConn) Run(ctx context.Context, deliver func(*protocol.EngineCoreOutputs)) error {
	c.mu.Lock()
	if c.isClosed {
		c.mu.Unlock()
		return ErrClosed
	}
	if c.running {
		c.mu.Unlock()
		return errors.New("ipc: Run was called before")
	}
	c.running = true
	fatal := c.fatal
	c.mu.Unlock()
	if fatal != nil {
		c.dying = fatal // there may be outputs to deliver
	}

	defer context.AfterFunc(ctx, func() { c.output.post(func() {}) })()
	c.deliver = deliver
	c.output.loop(func() bool {
		if c.dying != nil && c.drained() {
			c.mu.Lock()
			c.lose(c.dying)
			c.mu.Unlock()
			return true
		}
		return ctx.Err() != nil
	})

	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = false
	if c.isClosed {
		c.output.finish()
		return ErrClosed
	}
	if c.fatal != nil {
		return c.fatal
	}
	return nil
}

// setDying has the loss reported when the output connection has ended too, or
// after drainLimit. Runs on the owner of the output socket.
func (c *FrontendConn) setDying(lost *LostError) {
	switch {
	case c.dying == nil:
		c.awaitEnd(lost, drainLimit)
	case c.dying.Engine == unknownEngine: // the sentinel was quicker
		lost.Detail, lost.Err = c.dying.Detail, c.dying.Err
		c.awaitEnd(lost, drainLimit)
	}
}

func (c *FrontendConn) awaitEnd(lost *LostError, limit time.Duration) {
	c.dying, c.dyingUntil = lost, time.Now().Add(limit)
	time.AfterFunc(limit, func() { c.output.post(func() {}) })
}

// drained reports that nothing more will come of a dying engine.
func (c *FrontendConn) drained() bool {
	return !time.Now().Before(c.dyingUntil) || c.dying.Engine >= 0 && time.Since(c.outputDown) < drainLimit
}

func (c *FrontendConn) onOutputEvent(e zmq.Event, _ int) {
	if e == zmq.EVENT_DISCONNECTED {
		c.outputDown = time.Now()
	}
}

// onOutput runs on the owner of the output socket.
func (c *FrontendConn) onOutput(frames [][]byte, _ int) {
	if len(frames) == 1 && string(frames[0]) == protocol.EngineDead {
		c.onDead()
		return
	}
	o, err := c.decoder.Decode(frames)
	if err != nil {
		c.log.Error("cannot decode a message of an engine", "error", err)
	}
	if o.EngineIndex >= len(c.engines) {
		c.log.Warn("ignored outputs of an unknown engine", "rank", o.EngineIndex, "engines", len(c.engines))
		return
	}
	if o.Family() != protocol.FamilyEmpty {
		c.deliver(o)
	}
}

// onDead handles the sentinel, which does not say who sends it. Of several
// engines, the one whose input connection ends too is meant.
func (c *FrontendConn) onDead() {
	lost := &LostError{Engine: unknownEngine, Detail: "output socket", Err: ErrEngineDead}
	switch {
	case c.dying != nil: // its connection was quicker
		lost.Engine = c.dying.Engine
		c.dying = lost
	case len(c.engines) == 1:
		lost.Engine = 0
		c.dying = lost // at once: dyingUntil is zero
	default:
		c.awaitEnd(lost, lingerLimit)
	}
}

// Lost delivers one *LostError when an engine is gone, after Run has delivered
// its last outputs.
func (c *FrontendConn) Lost() <-chan error { return c.lost }

// lose makes a loss known, the first one only. Called with mu held.
func (c *FrontendConn) lose(lost *LostError) {
	if c.fatal == nil && !c.isClosed {
		c.fatal = lost
		c.lost <- lost
		close(c.gone)
	}
}

// Close flushes what was sent, for up to 4 seconds or until ctx ends, and
// closes the sockets. No goroutine is left when it returns, and Run has returned
// or is about to. Not to be called from Run's deliver.
func (c *FrontendConn) Close(ctx context.Context) error {
	c.mu.Lock()
	if c.isClosed {
		c.mu.Unlock()
		return nil
	}
	c.isClosed = true
	close(c.closed)
	linger := lingerWithin(ctx)
	if c.fatal != nil && len(c.engines) == 1 {
		linger = 0 // to whom?
	}
	c.input.stop(linger)
	c.output.stop(0)
	if !c.running {
		c.output.finish()
	}
	c.mu.Unlock()
	c.greeter.close()
	<-c.input.done
	<-c.output.done
	return c.ctx.Term() // waits for the lingering sockets
}
