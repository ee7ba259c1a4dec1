package ipc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	zmq "github.com/pebbe/zmq4"
	"golang.org/x/sys/unix"
)

// port is one socket, its monitor, and the goroutine that owns both: whoever
// runs loop. Everything else reaches it through send, post and stop.
//
// The owner waits in Go's netpoller on an epoll descriptor that holds the event
// descriptors of both sockets, so that a waiting port costs no thread, a
// message wakes it as fast as a network connection would, and any goroutine can
// wake it by moving the read deadline. A ZeroMQ event descriptor says "look",
// not "a message is there", and only once: the owner asks the sockets
// themselves before each wait, and reads until they have no more.
type port struct {
	name string
	sock *zmq.Socket
	mon  *zmq.Socket
	file *os.File // the epoll descriptor
	raw  syscall.RawConn

	// Handlers run on the owner. Frames are the handler's to keep, the slice
	// that holds them is not. fd is the connection a message came by, where
	// withFD asks for it: monitor events carry the same number, and those that
	// precede a message are handled before it.
	onMessage func(frames [][]byte, fd int)
	onEvent   func(e zmq.Event, fd int)
	onSendErr func(m message, err error)
	withFD    bool

	mu      sync.Mutex
	queue   []message
	tasks   []func()
	woken   bool // the read deadline has passed and stands in the past
	closing bool
	linger  time.Duration

	// The owner's.
	spareQueue []message
	spareTasks []func()
	frames     [][]byte
	ready      func(uintptr) bool
	buffers    *buffers
	done       chan struct{} // closed when the sockets are
}

// message is what a socket sends: identity and type frame where there are any,
// then the payload.
type message struct {
	identity []byte
	kind     []byte
	payload  []byte
}

// monitored are the events that handlers see.
const monitored = zmq.EVENT_ACCEPTED | zmq.EVENT_CONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED

var past = time.Unix(1, 0)

// newPort makes the sockets; bind or connect comes next, then loop.
func newPort(ctx *zmq.Context, name string, t zmq.Type, bufs *buffers) (p *port, err error) {
	p = &port{name: name, buffers: bufs, done: make(chan struct{})}
	p.ready = func(uintptr) bool {
		// Both are asked always: asking is what takes the signal off a
		// descriptor, also of a socket that only sends.
		data, events := readable(p.sock), readable(p.mon)
		return data && p.onMessage != nil || events
	}
	defer func() {
		if err != nil {
			p.discard()
			p = nil
		}
	}()
	if p.sock, err = ctx.NewSocket(t); err != nil {
		return p, fmt.Errorf("ipc: %s socket: %w", name, err)
	}
	err = errors.Join(
		p.sock.SetLinger(0),
		p.sock.SetSndhwm(0), // back-pressure is the scheduler's business
		p.sock.SetRcvhwm(0),
		// A peer whose host is gone is noticed in 3 to 4 seconds: idle
		// connections by keepalive, others by unacknowledged data.
		p.sock.SetTcpKeepalive(1),
		p.sock.SetTcpKeepaliveIdle(1),
		p.sock.SetTcpKeepaliveIntvl(1),
		p.sock.SetTcpKeepaliveCnt(2),
		p.sock.SetTcpMaxrt(3*time.Second),
	)
	if err != nil {
		return p, fmt.Errorf("ipc: %s socket options: %w", name, err)
	}
	monitor := fmt.Sprintf("inproc://monitor-%s-%p", name, p)
	if err = p.sock.Monitor(monitor, monitored); err != nil {
		return p, fmt.Errorf("ipc: %s monitor: %w", name, err)
	}
	if p.mon, err = ctx.NewSocket(zmq.PAIR); err != nil {
		return p, fmt.Errorf("ipc: %s monitor: %w", name, err)
	}
	if err = errors.Join(p.mon.SetLinger(0), p.mon.SetRcvhwm(0), p.mon.Connect(monitor)); err != nil {
		return p, fmt.Errorf("ipc: %s monitor: %w", name, err)
	}
	if err = p.watch(); err != nil {
		return p, fmt.Errorf("ipc: %s poller: %w", name, err)
	}
	return p, nil
}

// watch puts both event descriptors behind one that the netpoller waits on.
func (p *port) watch() error {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(epfd, true); err != nil { // else os.File would block
		unix.Close(epfd)
		return err
	}
	p.file = os.NewFile(uintptr(epfd), "zmq "+p.name)
	for _, s := range []*zmq.Socket{p.sock, p.mon} {
		fd, err := s.GetFd()
		if err != nil {
			return err
		}
		if err := unix.EpollCtl(epfd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
			return err
		}
	}
	p.raw, err = p.file.SyscallConn()
	return err
}

// discard closes what newPort had made, or a port whose loop never ran.
func (p *port) discard() {
	if p.file != nil {
		p.file.Close()
	}
	if p.sock != nil {
		p.sock.Monitor("", 0) // see close
	}
	for _, s := range []*zmq.Socket{p.sock, p.mon} {
		if s != nil {
			s.Close()
		}
	}
}

func readable(s *zmq.Socket) bool {
	events, err := s.GetEvents()
	return err != nil || events&zmq.POLLIN != 0
}

// send queues a message; it never blocks.
func (p *port) send(m message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return ErrClosed
	}
	p.queue = append(p.queue, m)
	if len(p.queue) == 1 {
		p.wake()
	}
	return nil
}

// post has the owner call f, unless the port is closed first.
func (p *port) post(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closing {
		p.tasks = append(p.tasks, f)
		p.wake()
	}
}

// stop has the owner send what is queued, then close; linger bounds how long
// the sockets may go on sending in the background.
func (p *port) stop(linger time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closing {
		p.closing, p.linger = true, linger
		p.wake()
	}
}

// wake ends the owner's wait, this one or the next. Called with mu held.
func (p *port) wake() {
	if !p.woken {
		p.woken = true
		p.file.SetReadDeadline(past)
	}
}

// batch bounds the messages between two looks at the queue.
const batch = 64

// loop owns the sockets until stop, or until until (if given) returns true
// after everything received so far was handled. Then the caller may loop again.
func (p *port) loop(until func() bool) {
	for {
		closing := p.take()
		for _, f := range p.spareTasks {
			f()
		}
		clear(p.spareTasks)
		p.flush()
		if closing {
			p.close()
			return
		}
		if more := p.receive(); more {
			continue
		}
		if until != nil && until() {
			return
		}
		p.raw.Read(p.ready) // a message, or the deadline
	}
}

// finish closes a stopped port whose loop has returned for another reason.
func (p *port) finish() {
	select {
	case <-p.done:
	default:
		p.loop(nil)
	}
}

// take moves what was queued to the owner.
func (p *port) take() (closing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.woken {
		p.woken = false
		p.file.SetReadDeadline(time.Time{})
	}
	p.queue, p.spareQueue = p.spareQueue[:0], p.queue
	p.tasks, p.spareTasks = p.spareTasks[:0], p.tasks
	return p.closing
}

func (p *port) flush() {
	for i := range p.spareQueue {
		m := &p.spareQueue[i]
		if err := p.sendNow(m); err != nil && p.onSendErr != nil {
			p.onSendErr(*m, err)
		}
		p.buffers.put(m.payload)
		*m = message{}
	}
}

// sendNow copies the frames into the socket, which has no limit.
func (p *port) sendNow(m *message) error {
	for _, head := range [...][]byte{m.identity, m.kind} {
		if head == nil {
			continue
		}
		if _, err := p.sock.SendBytes(head, zmq.SNDMORE|zmq.DONTWAIT); err != nil {
			return err
		}
	}
	_, err := p.sock.SendBytes(m.payload, zmq.DONTWAIT)
	return err
}

// receive handles what is there; more says that it stopped before the end.
func (p *port) receive() (more bool) {
	p.drainEvents()
	if p.onMessage == nil {
		return false
	}
	for range batch {
		fd, ok := p.recv()
		if !ok {
			return false
		}
		if p.withFD {
			p.drainEvents()
		}
		p.onMessage(p.frames, fd)
		clear(p.frames)
	}
	return true
}

// recv reads one whole message into frames.
func (p *port) recv() (fd int, ok bool) {
	p.frames, fd = p.frames[:0], -1
	for {
		var frame []byte
		var err error
		if p.withFD && len(p.frames) == 1 {
			// "__fd" is libzmq's own name for what its SRCFD option reads. The
			// identity frame lacks it if a poll came before the receive.
			var meta map[string]string
			frame, meta, err = p.sock.RecvBytesWithMetadata(zmq.DONTWAIT, "__fd")
			if n, numErr := strconv.Atoi(meta["__fd"]); numErr == nil {
				fd = n
			}
		} else {
			frame, err = p.sock.RecvBytes(zmq.DONTWAIT)
		}
		if err != nil {
			return 0, false
		}
		p.frames = append(p.frames, frame)
		if more, err := p.sock.GetRcvmore(); err != nil || !more {
			return fd, err == nil
		}
	}
}

// drainEvents handles the monitor's events: two frames, the first of which is
// the event (16 bits) and its value (32 bits) in the machine's byte order.
func (p *port) drainEvents() {
	for {
		frame, err := p.mon.RecvBytes(zmq.DONTWAIT)
		if err != nil {
			return
		}
		if more, _ := p.mon.GetRcvmore(); more {
			p.mon.RecvBytes(zmq.DONTWAIT) // the address
		}
		if len(frame) == 6 && p.onEvent != nil {
			p.onEvent(zmq.Event(binary.NativeEndian.Uint16(frame)), int(binary.NativeEndian.Uint32(frame[2:])))
		}
	}
}

// close stops the monitor first: libzmq's I/O thread would wait for ever to
// deliver an event that nobody receives.
func (p *port) close() {
	p.sock.Monitor("", 0)
	p.sock.SetLinger(p.linger)
	p.file.Close()
	p.sock.Close()
	p.mon.Close()
	close(p.done)
}

// buffers recycles payloads, so that steady traffic allocates none.
type buffers struct {
	mu   sync.Mutex
	free [][]byte
}

const (
	maxFree      = 512     // an engine whose steps take microseconds runs that far ahead of its socket
	maxFreeBytes = 1 << 20 // a rare long prompt need not stay
)

func (b *buffers) get() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.free); n > 0 {
		buf := b.free[n-1]
		b.free = b.free[:n-1]
		return buf
	}
	return make([]byte, 0, 4096)
}

func (b *buffers) put(buf []byte) {
	if cap(buf) == 0 || cap(buf) > maxFreeBytes {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.free) < maxFree {
		b.free = append(b.free, buf[:0])
	}
}
