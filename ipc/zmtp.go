package ipc

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// The handshake's listening end speaks ZMTP 3.0 itself (NULL mechanism, one
// message at a time). libzmq's ROUTER cannot do what it needs: it drops the
// second connection of one identity unheard, or (ROUTER_HANDOVER) cuts the
// first one off without closing it, so a second engine of a rank could not be
// told why it gets no answer; and it hides which identity a closed connection
// had.
//
// Source: rfc.zeromq.org/spec/23, ZMTP 3.0.

// zmtpPeer is one accepted connection, past the ZMTP handshake.
type zmtpPeer struct {
	conn     net.Conn
	r        *bufio.Reader
	identity string
}

const (
	zmtpTimeout   = 10 * time.Second // for a peer to say who it is
	maxZMTPFrame  = 1 << 16          // a HELLO has 31 bytes
	maxZMTPFrames = 8
	greetingSize  = 64

	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

var errZMTP = errors.New("not a ZMTP 3 peer")

// acceptZMTP greets a peer that connected to a ROUTER.
func acceptZMTP(conn net.Conn) (*zmtpPeer, error) {
	conn.SetDeadline(time.Now().Add(zmtpTimeout))
	defer conn.SetDeadline(time.Time{})
	greeting := [greetingSize]byte{0: 0xff, 9: 0x7f, 10: 3}
	copy(greeting[12:], "NULL")
	if _, err := conn.Write(greeting[:]); err != nil {
		return nil, err
	}
	p := &zmtpPeer{conn: conn, r: bufio.NewReader(conn)}
	var theirs [greetingSize]byte
	if _, err := io.ReadFull(p.r, theirs[:]); err != nil {
		return nil, err
	}
	if theirs[0] != 0xff || theirs[9]&1 != 1 || theirs[10] < 3 ||
		!bytes.Equal(theirs[12:32], greeting[12:32]) {
		return nil, fmt.Errorf("%w: greeting % x", errZMTP, theirs[:32])
	}
	ready := command("READY", property("Socket-Type", "ROUTER"), property("Identity", ""))
	if _, err := conn.Write(ready); err != nil {
		return nil, err
	}
	flags, body, err := p.frame()
	if err != nil {
		return nil, err
	}
	name, rest, ok := cutShort(body)
	if flags&flagCommand == 0 || !ok || name != "READY" {
		return nil, fmt.Errorf("%w: want READY, got % x", errZMTP, body[:min(len(body), 32)])
	}
	for len(rest) > 0 {
		var key, value string
		if key, value, rest, ok = cutProperty(rest); !ok {
			return nil, fmt.Errorf("%w: malformed READY", errZMTP)
		}
		switch {
		case equalFold(key, "Identity"):
			p.identity = value
		case equalFold(key, "Socket-Type") && value != "DEALER":
			return nil, fmt.Errorf("%w: socket type %q, want DEALER", errZMTP, value)
		}
	}
	return p, nil
}

func equalFold(a, b string) bool { return bytes.EqualFold([]byte(a), []byte(b)) }

func property(key, value string) []byte {
	b := append([]byte{byte(len(key))}, key...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

// command makes a short command frame.
func command(name string, rest ...[]byte) []byte {
	body := append([]byte{byte(len(name))}, name...)
	body = append(body, bytes.Join(rest, nil)...)
	return append([]byte{flagCommand, byte(len(body))}, body...)
}

// cutShort takes a string with a one-byte length off b.
func cutShort(b []byte) (s string, rest []byte, ok bool) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return "", nil, false
	}
	n := 1 + int(b[0])
	return string(b[1:n]), b[n:], true
}

func cutProperty(b []byte) (key, value string, rest []byte, ok bool) {
	key, rest, ok = cutShort(b)
	if !ok || len(rest) < 4 {
		return "", "", nil, false
	}
	n := binary.BigEndian.Uint32(rest)
	rest = rest[4:]
	if uint64(n) > uint64(len(rest)) {
		return "", "", nil, false
	}
	return key, string(rest[:n]), rest[n:], true
}

// frame reads one frame.
func (p *zmtpPeer) frame() (flags byte, body []byte, err error) {
	if flags, err = p.r.ReadByte(); err != nil {
		return 0, nil, err
	}
	size := make([]byte, 1, 8)
	if flags&flagLong != 0 {
		size = size[:8]
	}
	if _, err := io.ReadFull(p.r, size); err != nil {
		return 0, nil, err
	}
	var n uint64
	for _, c := range size {
		n = n<<8 | uint64(c)
	}
	if n > maxZMTPFrame {
		return 0, nil, fmt.Errorf("frame of %d bytes, want at most %d", n, maxZMTPFrame)
	}
	body = make([]byte, n)
	_, err = io.ReadFull(p.r, body)
	return flags, body, err
}

// receive reads one message, answering what heartbeats come before it.
func (p *zmtpPeer) receive() (frames [][]byte, err error) {
	for {
		flags, body, err := p.frame()
		if err != nil {
			return nil, err
		}
		if flags&flagCommand != 0 {
			if err := p.onCommand(body); err != nil {
				return nil, err
			}
			continue
		}
		if frames = append(frames, body); len(frames) > maxZMTPFrames {
			return nil, fmt.Errorf("message of more than %d frames", maxZMTPFrames)
		}
		if flags&flagMore == 0 {
			return frames, nil
		}
	}
}

// onCommand answers PING, which a 3.1 peer may send, with its context.
func (p *zmtpPeer) onCommand(body []byte) error {
	const ttl = 2
	name, rest, ok := cutShort(body)
	if !ok || name != "PING" || len(rest) < ttl || len(rest)-ttl > 16 {
		return nil
	}
	_, err := p.conn.Write(command("PONG", rest[ttl:]))
	return err
}

// send writes a message of one frame.
func (p *zmtpPeer) send(body []byte) error {
	var b []byte
	if len(body) < 1<<8 {
		b = []byte{0, byte(len(body))}
	} else {
		b = binary.BigEndian.AppendUint64([]byte{flagLong}, uint64(len(body)))
	}
	_, err := p.conn.Write(append(b, body...))
	return err
}
