package engineclient_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"govllm/frontend/engineclient"
	"govllm/ipc"
	"govllm/protocol"
	"govllm/stats"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeConn is a connection whose engines are the test.
type fakeConn struct {
	messages chan *protocol.EngineCoreOutputs
	handled  chan struct{}
	lost     chan error

	mu      sync.Mutex
	changed sync.Cond // sent grew
	sent    []sent
	sendErr error
	onAdd   func() // called before an ADD is sent
}

type sent struct {
	engine  int
	message protocol.FrontendMessage
}

func newFakeConn() *fakeConn {
	f := &fakeConn{
		messages: make(chan *protocol.EngineCoreOutputs),
		handled:  make(chan struct{}),
		lost:     make(chan error, 1),
	}
	f.changed.L = &f.mu
	return f
}

func (f *fakeConn) Buffer() []byte { return nil }

func (f *fakeConn) Send(engine int, t protocol.RequestType, payload []byte) error {
	if f.onAdd != nil && t == protocol.RequestAdd {
		f.onAdd()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sendErr != nil {
		return f.sendErr
	}
	m := protocol.DecodeFrontendMessage([][]byte{{byte(t)}, payload})
	f.sent = append(f.sent, sent{engine, m})
	f.changed.Broadcast()
	return nil
}

// waitSent waits until n messages were sent since the last takeSent.
func (f *fakeConn) waitSent(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.sent) < n {
		f.changed.Wait()
	}
}

func (f *fakeConn) Run(ctx context.Context, deliver func(*protocol.EngineCoreOutputs)) error {
	for {
		select {
		case m := <-f.messages:
			deliver(m)
			scribble(m)
			f.handled <- struct{}{}
		case err := <-f.lost:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// say delivers one message and returns once it has been handled.
func (f *fakeConn) say(m *protocol.EngineCoreOutputs) {
	f.messages <- m
	<-f.handled
}

// scribble is what a connection does with a message that it has delivered:
// the memory is used again.
func scribble(m *protocol.EngineCoreOutputs) {
	for i := range m.Outputs {
		o := &m.Outputs[i]
		for j := range o.NewTokenIDs {
			o.NewTokenIDs[j] = -7
		}
		for _, l := range []*protocol.LogprobsLists{o.NewLogprobs, o.NewPromptLogprobs} {
			if l == nil {
				continue
			}
			for j := range l.TokenIDs {
				l.TokenIDs[j], l.Logprobs[j] = -7, float32(math.NaN())
			}
			for j := range l.Ranks {
				l.Ranks[j] = -7
			}
			*l = protocol.LogprobsLists{}
		}
		*o = protocol.EngineCoreOutput{RequestID: "scribbled over"}
	}
}

// takeSent returns what was sent since the last call, as "engine: message".
func (f *fakeConn) takeSent() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, s := range f.sent {
		switch m := s.message.(type) {
		case *protocol.EngineCoreRequest:
			all = append(all, fmt.Sprintf("%d: ADD %s", s.engine, m.RequestID))
		case protocol.Abort:
			all = append(all, fmt.Sprintf("%d: ABORT %v", s.engine, []string(m)))
		case *protocol.UtilityCall:
			all = append(all, fmt.Sprintf("%d: UTILITY %d %s %v", s.engine, m.CallID.Bits, m.Method, m.Args))
		default:
			all = append(all, fmt.Sprintf("%d: %T %v", s.engine, m, m))
		}
	}
	f.sent = nil
	return all
}

// fakeRecorder keeps what it was told.
type fakeRecorder struct {
	mu       sync.Mutex
	finished []stats.FinishedRequest
	parents  []stats.FinishedParent
	ttft     int
	tokens   int
	onRecord func(*stats.Iteration)
}

func (r *fakeRecorder) Record(engine int, s *protocol.SchedulerStats, it *stats.Iteration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finished = append(r.finished, it.Finished...)
	r.parents = append(r.parents, it.Parents...)
	r.ttft += len(it.TimeToFirstToken)
	r.tokens += it.NumGenerationTokens
	if r.onRecord != nil {
		r.onRecord(it)
	}
}

func (r *fakeRecorder) RecordSent(int, time.Duration)      {}
func (r *fakeRecorder) RecordDelivered(int, time.Duration) {}

// reasons lists how requests ended, as recorded so far.
func (r *fakeRecorder) reasons() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, f := range r.finished {
		all = append(all, fmt.Sprintf("%v %d", f.Reason, f.NumGenerationTokens))
	}
	return fmt.Sprint(all)
}

// fixture is a running client over a fakeConn.
type fixture struct {
	t      *testing.T
	conn   *fakeConn
	rec    *fakeRecorder
	client *engineclient.Client
	stop   context.CancelFunc
	ran    chan error // Run's result
}

func newFixture(t *testing.T, numEngines int) *fixture {
	t.Helper()
	f := &fixture{t: t, conn: newFakeConn(), rec: &fakeRecorder{}, ran: make(chan error, 1)}
	f.start(numEngines, f.rec)
	return f
}

func ranks(numEngines int) []ipc.EngineInfo {
	engines := make([]ipc.EngineInfo, numEngines)
	for i := range engines {
		engines[i].Rank = i
	}
	return engines
}

func (f *fixture) start(numEngines int, rec engineclient.Recorder) {
	f.startWith(numEngines, rec, engineclient.Options{})
}

func (f *fixture) startWith(numEngines int, rec engineclient.Recorder, opt engineclient.Options) {
	opt.Recorder = rec
	f.client = engineclient.New(f.conn, ranks(numEngines), opt)
	ctx, cancel := context.WithCancel(context.Background())
	f.stop = cancel
	go func() {
		defer close(f.ran)
		f.ran <- f.client.Run(ctx)
	}()
	f.t.Cleanup(func() {
		cancel()
		for range f.ran {
		}
	})
}

func (f *fixture) submit(id string, meta engineclient.Meta) *engineclient.Stream {
	f.t.Helper()
	if meta.Arrival.IsZero() {
		meta.Arrival = time.Now()
	}
	s, err := f.client.Submit(context.Background(), request(id, 4), meta)
	if err != nil {
		f.t.Fatalf("Submit(%s): %v", id, err)
	}
	return s
}

func request(id string, numPrompt int) *protocol.EngineCoreRequest {
	params := protocol.DefaultSamplingParams()
	return &protocol.EngineCoreRequest{RequestID: id, PromptTokenIDs: make([]int32, numPrompt), SamplingParams: &params}
}

// outputs makes a message of engine 0.
func outputs(at float64, outs ...protocol.EngineCoreOutput) *protocol.EngineCoreOutputs {
	return &protocol.EngineCoreOutputs{Timestamp: at, Outputs: outs}
}

func output(id string, finish protocol.FinishReason, tokens ...int32) protocol.EngineCoreOutput {
	return protocol.EngineCoreOutput{RequestID: id, NewTokenIDs: slices.Clone(tokens), FinishReason: finish}
}

// next describes what Next returns, or that there is nothing to take.
func next(s *engineclient.Stream) string {
	ctx, cancel := context.WithCancelCause(context.Background())
	errNothing := errors.New("nothing yet")
	cancel(errNothing)
	u, err := s.Next(ctx)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%v %s", u.TokenIDs, u.Finish)
}
