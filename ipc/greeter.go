package ipc

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"govllm/protocol"
)

// greeter listens for engines on the handshake address: one goroutine accepts,
// one serves each connection. It outlives WaitReady, to refuse latecomers.
type greeter struct {
	listener net.Listener
	tasks    sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

func (g *greeter) listen(address string) error {
	ln, err := net.Listen("tcp", strings.TrimPrefix(address, "tcp://"))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: %s: stop the other process or choose another port", ErrAddressInUse, address)
	}
	if err != nil {
		return fmt.Errorf("ipc: listen at %s: %w", address, err)
	}
	g.listener, g.conns = ln, map[net.Conn]bool{}
	return nil
}

// serve calls handle for each connection, on a goroutine of its own, and
// closes the connection when that returns.
func (g *greeter) serve(handle func(net.Conn)) {
	g.tasks.Go(func() {
		for {
			conn, err := g.listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // such as too many open files: others may close some
				time.Sleep(100 * time.Millisecond)
				continue
			}
			if !g.add(conn) {
				conn.Close()
				return
			}
			g.tasks.Go(func() {
				defer g.remove(conn)
				handle(conn)
			})
		}
	})
}

func (g *greeter) add(conn net.Conn) bool {
	if tcp, ok := conn.(*net.TCPConn); ok { // a host that is gone: 3 seconds
		tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 2})
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.conns[conn] = true
	return true
}

func (g *greeter) remove(conn net.Conn) {
	conn.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, conn)
}

// close ends every connection and waits for the goroutines.
func (g *greeter) close() {
	g.listener.Close()
	g.mu.Lock()
	g.closed = true
	for conn := range g.conns {
		conn.Close()
	}
	g.mu.Unlock()
	g.tasks.Wait()
}

// greet serves one connection of the handshake socket.
func (c *FrontendConn) greet(conn net.Conn) {
	peer, err := acceptZMTP(conn)
	if err != nil {
		c.log.Warn("closed a handshake connection", "from", conn.RemoteAddr(), "error", err)
		return
	}
	defer c.leave(peer)
	for {
		frames, err := peer.receive()
		if err != nil {
			return
		}
		if answer := c.onHandshake(peer, frames); answer != nil {
			if err := peer.send(answer); err != nil {
				return
			}
		}
	}
}

// onHandshake returns the answer to a message, or nil where there is none.
func (c *FrontendConn) onHandshake(peer *zmtpPeer, frames [][]byte) []byte {
	id := []byte(peer.identity)
	if len(frames) != 1 || len(id) != 2 {
		c.log.Warn("ignored a handshake message", "identity", fmt.Sprintf("%x", id), "frames", len(frames))
		return nil
	}
	h, err := protocol.DecodeHello(frames[0])
	if err != nil {
		c.log.Warn("ignored a handshake message", "identity", fmt.Sprintf("%x", id), "error", err)
		return nil
	}
	rank, ok := c.rankOf(id)
	if !ok {
		return c.refuse("the engine's rank is %d, this frontend has %d engine(s), ranks 0 … %d",
			rank, len(c.engines), len(c.engines)-1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := &c.engines[rank]
	switch {
	case h.Status == protocol.StatusReady && e.holder == peer:
		e.status = protocol.StatusReady
		e.info.Local, e.info.Headless = h.Local, h.Headless
		c.checkReady()
		return nil
	case h.Status == protocol.StatusReady:
		c.log.Warn("ignored READY without HELLO", "rank", rank)
		return nil
	case e.status == protocol.StatusReady || e.holder != nil && e.holder != peer:
		return c.refuse("another engine with rank %d is connected", rank)
	}
	e.status, e.holder = protocol.StatusHello, peer
	return c.init
}

func (c *FrontendConn) refuse(format string, args ...any) []byte {
	reason := fmt.Sprintf(format, args...)
	c.log.Warn("refused an engine", "reason", reason)
	return protocol.AppendInit(nil, &protocol.Init{Refusal: reason})
}

// leave frees the rank of an engine that went away before it was ready.
func (c *FrontendConn) leave(peer *zmtpPeer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for rank := range c.engines {
		e := &c.engines[rank]
		if e.holder != peer {
			continue
		}
		e.holder = nil
		if e.status == protocol.StatusHello && !c.isClosed {
			e.status = ""
			c.log.Warn("an engine went away before it was ready", "rank", rank)
		}
	}
}
