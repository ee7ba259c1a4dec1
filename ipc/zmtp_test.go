package ipc

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// replay is a peer whose bytes are all there from the start.
type replay struct {
	net.Conn // nil: what is not overridden must not be called
	in       bytes.Reader
	out      bytes.Buffer
}

func newReplay(in []byte) *replay {
	r := &replay{}
	r.in.Reset(in)
	return r
}

func (r *replay) Read(p []byte) (int, error)  { return r.in.Read(p) }
func (r *replay) Write(p []byte) (int, error) { return r.out.Write(p) }
func (r *replay) SetDeadline(time.Time) error { return nil }

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The bytes of a DEALER with identity 00 00, by ZMTP 3.0.
const (
	zmtpGreeting = "ff 00 00 00 00 00 00 00 00 7f 03 00 4e 55 4c 4c 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00" +
		"00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
	zmtpReady = "04 2b 05 52 45 41 44 59 0b 53 6f 63 6b 65 74 2d 54 79 70 65 00 00 00 06 44 45 41 4c 45 52" +
		"08 49 64 65 6e 74 69 74 79 00 00 00 02 00 00"
)

func TestZMTP(t *testing.T) {
	peer := newReplay(unhex(t, zmtpGreeting+zmtpReady+
		"04 0a 04 50 49 4e 47 00 0a 61 62 63"+ // PING, time to live 1 s, context abc
		"01 01 61 02 00 00 00 00 00 00 00 01 62")) // a, then b in a long frame
	p, err := acceptZMTP(peer)
	if err != nil {
		t.Fatal(err)
	}
	if p.identity != "\x00\x00" {
		t.Errorf("identity = %q, want 00 00", p.identity)
	}
	frames, err := p.receive()
	if err != nil || len(frames) != 2 || string(frames[0]) != "a" || string(frames[1]) != "b" {
		t.Errorf("receive() = %q, %v, want [a b]", frames, err)
	}
	if _, err := p.receive(); !errors.Is(err, io.EOF) {
		t.Errorf("receive() at the end = %v, want EOF", err)
	}
	if err := p.send(bytes.Repeat([]byte{7}, 300)); err != nil {
		t.Fatal(err)
	}
	// Our greeting, our READY, PONG with the context, a long frame of 300.
	want := append(unhex(t, zmtpGreeting+
		"04 29 05 52 45 41 44 59 0b 53 6f 63 6b 65 74 2d 54 79 70 65 00 00 00 06 52 4f 55 54 45 52"+
		"08 49 64 65 6e 74 69 74 79 00 00 00 00"+
		"04 08 04 50 4f 4e 47 61 62 63"+
		"02 00 00 00 00 00 00 01 2c"), bytes.Repeat([]byte{7}, 300)...)
	if got := peer.out.Bytes(); !bytes.Equal(got, want) {
		t.Errorf("we sent % x, want % x", got, want)
	}
}

func TestZMTPRefusals(t *testing.T) {
	for name, in := range map[string]string{
		"not ZMTP":      strings.Repeat("47", 64),
		"version 2":     strings.Replace(zmtpGreeting, "7f 03", "7f 01", 1) + zmtpReady,
		"CURVE":         strings.Replace(zmtpGreeting, "4e 55 4c 4c 00", "43 55 52 56 45", 1) + zmtpReady,
		"another PUSH":  zmtpGreeting + "04 1a 05 52 45 41 44 59 0b 53 6f 63 6b 65 74 2d 54 79 70 65 00 00 00 04 50 55 53 48",
		"message first": zmtpGreeting + "00 01 61",
		"bad property":  zmtpGreeting + "04 0a 05 52 45 41 44 59 0b 53 6f 63",
		"huge frame":    zmtpGreeting + "06 7f ff ff ff ff ff ff ff",
		"cut":           zmtpGreeting + zmtpReady[:20],
	} {
		if _, err := acceptZMTP(newReplay(unhex(t, in))); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzZMTP(f *testing.F) {
	f.Add(unhex(f, zmtpGreeting+zmtpReady+"01 01 61 02 00 00 00 00 00 00 00 01 62"))
	f.Add(unhex(f, zmtpGreeting+zmtpReady+"04 0a 04 50 49 4e 47 00 0a 61 62 63"))
	f.Add(unhex(f, zmtpGreeting))
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := acceptZMTP(newReplay(in))
		for err == nil {
			_, err = p.receive()
		}
	})
}
