package ipc

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	zmq "github.com/pebbe/zmq4"

	"govllm/protocol"
)

// Foreign peers are plain ZeroMQ sockets that speak the protocol, as vLLM's
// processes do: no heartbeats, no keys of ours.

func foreignSocket(t *testing.T, kind zmq.Type, id string) *zmq.Socket {
	t.Helper()
	ctx, err := zmq.NewContext()
	if err != nil {
		t.Fatal(err)
	}
	s, err := ctx.NewSocket(kind)
	if err != nil {
		t.Fatal(err)
	}
	s.SetLinger(0)
	s.SetRcvtimeo(patience)
	if id != "" {
		if err := s.SetIdentity(id); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		s.Close()
		ctx.Term()
	})
	return s
}

func bound(t *testing.T, s *zmq.Socket) (address string) {
	t.Helper()
	if err := s.Bind("tcp://127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	address, err := s.GetLastEndpoint()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func mustSend(t *testing.T, s *zmq.Socket, parts ...any) {
	t.Helper()
	if _, err := s.SendMessage(parts...); err != nil {
		t.Fatal(err)
	}
}

func mustReceive(t *testing.T, s *zmq.Socket) [][]byte {
	t.Helper()
	frames, err := s.RecvMessageBytes(0)
	if err != nil {
		t.Fatalf("receive: %v", err)
	}
	return frames
}

// foreignEngine shakes hands as vLLM's EngineCoreProc does, up to and without
// the registration.
func foreignEngine(t *testing.T, address string) (h, in, out *zmq.Socket) {
	t.Helper()
	h = foreignSocket(t, zmq.DEALER, "\x00\x00")
	if err := h.Connect(address); err != nil {
		t.Fatal(err)
	}
	mustSend(t, h, protocol.AppendHello(nil, &protocol.Hello{Status: protocol.StatusHello, Headless: true}))
	init, err := protocol.DecodeInit(mustReceive(t, h)[0])
	if err != nil {
		t.Fatal(err)
	}
	in, out = foreignSocket(t, zmq.DEALER, "\x00\x00"), foreignSocket(t, zmq.PUSH, "")
	if err := in.Connect(init.Addresses.Inputs[0]); err != nil {
		t.Fatal(err)
	}
	if err := out.Connect(init.Addresses.Outputs[0]); err != nil {
		t.Fatal(err)
	}
	return h, in, out
}

func TestForeignEngine(t *testing.T) {
	ready := protocol.AppendHello(nil, &protocol.Hello{Status: protocol.StatusReady, Headless: true})
	for _, c := range []struct {
		name          string
		readyFirst    bool
		registration  []byte
		wantRegistred bool
	}{
		{"registers first", false, protocol.AppendRegistration(nil, &testRegistration), true},
		{"READY first", true, protocol.AppendRegistration(nil, &testRegistration), true},
		{"empty registration", false, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := listen(t, FrontendOptions{})
			h, in, out := foreignEngine(t, f.HandshakeAddress())
			if c.readyFirst {
				mustSend(t, h, ready)
			}
			mustSend(t, in, c.registration)
			if !c.readyFirst {
				mustSend(t, h, ready)
			}
			infos, err := f.WaitReady(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			if infos[0].Registered != c.wantRegistred {
				t.Errorf("Registered = %v, want %v", infos[0].Registered, c.wantRegistred)
			}
			outputs, _ := run(t, f)
			f.Send(0, protocol.RequestAbort, protocol.AppendAbort(nil, []string{"r"}))
			if got := mustReceive(t, in); len(got) != 2 || string(got[0]) != "\x01" || string(got[1]) != "\x91\xa1r" {
				t.Errorf("engine received %q, want the ABORT of r", got)
			}
			mustSend(t, out, protocol.AppendOutputs(nil, &protocol.EngineCoreOutputs{FinishedRequests: []string{"r"}}))
			if got := receive(t, "output", outputs); got.FinishedRequests[0] != "r" {
				t.Errorf("output = %+v, want r finished", got)
			}
		})
	}
}

func TestForeignFrontends(t *testing.T) {
	h := foreignSocket(t, zmq.ROUTER, "")
	address := bound(t, h)
	const n = 2 // API servers
	var in, out [n]*zmq.Socket
	init := &protocol.Init{ParallelConfig: map[string]any{}}
	for k := range n {
		in[k], out[k] = foreignSocket(t, zmq.ROUTER, ""), foreignSocket(t, zmq.PULL, "")
		init.Addresses.Inputs = append(init.Addresses.Inputs, bound(t, in[k]))
		init.Addresses.Outputs = append(init.Addresses.Outputs, bound(t, out[k]))
	}
	status := make(chan string, 2)
	go func() {
		for range 2 {
			frames, err := h.RecvMessageBytes(0)
			if err != nil {
				return
			}
			hello, err := protocol.DecodeHello(frames[1])
			if err != nil {
				return
			}
			if hello.Status == protocol.StatusHello {
				h.SendMessage(frames[0], protocol.AppendInit(nil, init))
			}
			status <- string(frames[0]) + hello.Status
		}
	}()
	const rank = 300
	e := dial(t, address, rank)
	if err := e.Ready(testContext(t), &testRegistration); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\x2c\x01HELLO", "\x2c\x01READY"} {
		if got := receive(t, want, status); got != want {
			t.Errorf("handshake socket received %q, want %q", got, want)
		}
	}
	if e.NumClients() != n {
		t.Errorf("NumClients() = %d, want %d", e.NumClients(), n)
	}
	for k := range n {
		if got := mustReceive(t, in[k]); len(got) != 2 || string(got[0]) != "\x2c\x01" {
			t.Errorf("input %d received %q, want a registration of rank 300", k, got)
		}
		mustSend(t, in[k], "\x2c\x01", "\x01", protocol.AppendAbort(nil, []string{"r"}))
		if got, ok := receive(t, "ABORT", e.Requests()).(protocol.Abort); !ok || got[0] != "r" {
			t.Errorf("Requests() = %v, want the ABORT of r", got)
		}
		e.Send(k, []byte{byte(k)})
		if got := mustReceive(t, out[k]); got[0][0] != byte(k) {
			t.Errorf("output %d received %q, want %q", k, got, []byte{byte(k)})
		}
	}
	e.SendDead()
	for k := range n {
		if got := mustReceive(t, out[k]); string(got[0]) != protocol.EngineDead {
			t.Errorf("output %d received %q, want %q", k, got, protocol.EngineDead)
		}
	}
	if err := e.Send(n, []byte{0}); err == nil {
		t.Errorf("Send(%d) = nil, want an error", n)
	}
}

// TestGarbage sends what no engine would on every socket of a frontend, which
// still works afterwards.
func TestGarbage(t *testing.T) {
	f := listen(t, FrontendOptions{})
	stranger := foreignSocket(t, zmq.DEALER, "stranger")
	stranger.Connect(f.HandshakeAddress())
	mustSend(t, stranger, "hello")
	mustSend(t, stranger, protocol.AppendHello(nil, &protocol.Hello{Status: protocol.StatusHello}), "and more")
	tcp, err := net.Dial("tcp", strings.TrimPrefix(f.HandshakeAddress(), "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	tcp.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: a very usual one, of 64 bytes\r\n\r\n"))
	if _, err := tcp.Read(make([]byte, 1<<16)); err != nil {
		t.Errorf("a wrong greeting got no answer: %v", err)
	}
	tcp.Close()

	h, in, out := foreignEngine(t, f.HandshakeAddress())
	mustSend(t, in, "not a registration")
	mustSend(t, in, "one", "frame", "too", "many")
	mustSend(t, in, protocol.AppendRegistration(nil, &testRegistration))
	mustSend(t, in, protocol.AppendRegistration(nil, &testRegistration)) // again
	mustSend(t, h, "READY")
	mustSend(t, h, protocol.AppendHello(nil, &protocol.Hello{Status: protocol.StatusReady}))
	if _, err := f.WaitReady(testContext(t)); err != nil {
		t.Fatal(err)
	}
	outputs, _ := run(t, f)
	for _, junk := range []string{"\xc1", "", "\x92\x05\x90", "\x90", "\x92\x00\xdd\xff\xff\xff\xff"} {
		mustSend(t, out, junk)
	}
	mustSend(t, out, protocol.EngineDead, "in two frames")
	mustSend(t, out, protocol.AppendOutputs(nil, &protocol.EngineCoreOutputs{FinishedRequests: []string{"r"}}))
	if got := receive(t, "output", outputs); len(got.FinishedRequests) != 1 {
		t.Errorf("output after garbage = %+v, want r finished", got)
	}
}

func TestEngineGetsGarbage(t *testing.T) {
	f, e := connect(t)
	for _, m := range []message{
		{kind: []byte{9}, payload: []byte{0x90}},
		{kind: []byte{}, payload: []byte{0x90}},
		{kind: []byte("READY"), payload: []byte{}},
		{payload: []byte{0}},
		{kind: []byte{1}, payload: []byte("\xc1")},
		{kind: []byte{0}, payload: []byte("\x99\xa1r\x91\xa1x\xc0\x80\xc0\x01\xc0\xc0\xc0")}, // prompt ["x"]
		{kind: []byte{3}, payload: []byte("\x93\x00\x07\xa1m")},
	} {
		m.identity = identity(0)
		if err := f.input.send(m); err != nil {
			t.Fatal(err)
		}
	}
	add, ok := receive(t, "bad ADD", e.Requests()).(*protocol.FieldError)
	if !ok || add.RequestID != "r" || add.Field != "prompt_token_ids[0]" {
		t.Errorf("Requests() = %+v, want a FieldError of r's prompt_token_ids[0]", add)
	}
	call, ok := receive(t, "bad UTILITY", e.Requests()).(*protocol.FieldError)
	if !ok || call.CallID == nil || *call.CallID != protocol.NewCallID(7) {
		t.Errorf("Requests() = %+v, want a FieldError of call 7", call)
	}
}

func TestCloseFlushes(t *testing.T) {
	f, e := connect(t)
	outputs, _ := run(t, f)
	big := make([]int32, 1<<16)
	const n = 50
	for range n {
		e.Send(0, protocol.AppendOutputs(e.Buffer(), &protocol.EngineCoreOutputs{
			Outputs: []protocol.EngineCoreOutput{{RequestID: "r", NewTokenIDs: big}}}))
	}
	if err := e.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	for range n {
		receive(t, "output", outputs)
	}
	if err := e.Send(0, []byte{0}); err != ErrClosed {
		t.Errorf("Send after Close = %v, want ErrClosed", err)
	}
}

func TestRunEnds(t *testing.T) {
	f, _ := connect(t)
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	start := func() { go func() { result <- f.Run(ctx, func(*protocol.EngineCoreOutputs) {}) }() }
	start()
	time.AfterFunc(10*time.Millisecond, cancel)
	if err := receive(t, "end of Run", result); err != nil {
		t.Errorf("Run(cancelled) = %v, want nil", err)
	}
	ctx = context.Background()
	start()
	time.AfterFunc(10*time.Millisecond, func() { f.Close(context.Background()) })
	if err := receive(t, "end of Run", result); err != ErrClosed {
		t.Errorf("Run(closed) = %v, want ErrClosed", err)
	}
}
