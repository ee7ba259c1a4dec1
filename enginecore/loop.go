package enginecore

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"govllm/enginecore/request"
	"govllm/protocol"
)

// Conn is what a Loop needs of the connection to the frontends, an
// *ipc.EngineConn in practice; see there for what its methods promise.
type Conn interface {
	Requests() <-chan protocol.FrontendMessage
	Aborts() <-chan protocol.Abort
	Buffer() []byte
	Send(clientIndex int, payload []byte) error
	SendDead()
	Lost() <-chan error
}

// State is where a Loop is in its life.
type State int32

const (
	Serving  State = iota // takes and computes requests
	Draining              // computes what it has, turns away what comes
	Stopped               // does nothing more
)

func (s State) String() string {
	switch s {
	case Serving:
		return "serving"
	case Draining:
		return "draining"
	case Stopped:
		return "stopped"
	}
	return "invalid"
}

const (
	// preparedAhead is how many checked and hashed messages may wait for the
	// step loop. Behind it the connection's own queue takes over, so that this
	// only has to cover what arrives during a step.
	preparedAhead = 1024
	// lostGrace is how long a step may still take after the last frontend is
	// gone, before Run returns without it.
	lostGrace = 500 * time.Millisecond
)

// Loop is the one goroutine that owns a Core. It takes what has arrived, runs a
// step, sends what the step has to tell, and waits only when there is nothing
// to do: not for a client, a log or a metric.
//
//	conn.Requests ─ intake goroutine ─▶ prepared ─▶ owner: Core.Step ─▶ conn.Send
//	conn.Aborts ──────────────────────────────────▶ (also during a step)
//
// A second goroutine prepares requests, so that hashing a long prompt delays no
// step, and a third tells the frontend of steps that last (pulse.go).
type Loop struct {
	core *Core
	conn Conn
	log  *slog.Logger
	logs *asyncLog

	prepared chan prepared
	// ADDs that the intake has prepared, and those that the owner has taken.
	numPrepared, numTaken atomic.Int64
	drain                 chan struct{} // holds one: Drain was called
	stop                  chan struct{} // holds one: Stop was called
	quit                  chan struct{} // closed: everybody ends
	state                 atomic.Int32  // written by the owner
}

// prepared is one message for the owner; exactly one field is set.
type prepared struct {
	request  *request.Request
	rejected *rejection
	abort    protocol.Abort
	call     *protocol.UtilityCall
	damaged  *protocol.FieldError
}

type rejection struct {
	client int
	id     string
	err    error
}

// NewLoop returns a loop for a core that nobody else uses any more. Messages of
// the core go to log through a queue of their own; nil is slog.Default().
func NewLoop(core *Core, conn Conn, log *slog.Logger) *Loop {
	if log == nil {
		log = slog.Default()
	}
	l := &Loop{
		core:     core,
		conn:     conn,
		logs:     newAsyncLog(),
		prepared: make(chan prepared, preparedAhead),
		drain:    make(chan struct{}, 1),
		stop:     make(chan struct{}, 1),
		quit:     make(chan struct{}),
	}
	l.log = slog.New(l.logs.handler(log.Handler()))
	core.log = l.log
	core.cfg.Aborts = l.abortsSoFar
	return l
}

// State tells where the loop is; for any goroutine.
func (l *Loop) State() State { return State(l.state.Load()) }

// Drain makes Run finish what it has, turn away what comes, and return nil when
// nothing is left. It may be called at any time and returns at once.
func (l *Loop) Drain() { order(l.drain) }

// Stop makes Run end every request with an ABORT output, as soon as the step
// under way is done, and return nil. It may be called at any time, while
// draining too, and returns at once.
func (l *Loop) Stop() { order(l.stop) }

func order(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // ordered already
	}
}

// Run serves until Drain or Stop is done (nil), the last frontend is lost (its
// error), or the engine fails: then every client has been sent ENGINE_CORE_DEAD
// and the error says why. What was sent last needs the connection's Close to
// get out. After an error a step may still hang on the device: end the process.
func (l *Loop) Run() error {
	done := make(chan error, 1)
	var helpers sync.WaitGroup
	go l.logs.run()
	helpers.Go(l.prepare)
	if !l.core.cfg.Sched.NoLogStats {
		helpers.Go(l.beat)
	}
	go func() { done <- l.own() }()

	var err error
	select {
	case err = <-done:
	case err = <-l.conn.Lost():
		l.log.Warn("frontend lost", "reason", err)
		l.Stop()
		select {
		case <-done:
		case <-time.After(lostGrace): // a long step: the process is not to wait for it
		}
	}
	close(l.quit)
	helpers.Wait()
	l.logs.stop()
	return err
}

// prepare checks and hashes what arrives, in order.
func (l *Loop) prepare() {
	intake := l.core.NewIntake()
	for {
		select {
		case m := <-l.conn.Requests():
			if p, ok := l.prepareOne(intake, m); ok {
				select {
				case l.prepared <- p:
				case <-l.quit:
					return
				}
			}
		case <-l.quit:
			return
		}
	}
}

func (l *Loop) prepareOne(intake *Intake, m protocol.FrontendMessage) (prepared, bool) {
	switch m := m.(type) {
	case *protocol.EngineCoreRequest:
		r, err := intake.Prepare(m)
		l.numPrepared.Add(1)
		if err != nil {
			return prepared{rejected: &rejection{client: m.ClientIndex, id: m.RequestID, err: err}}, true
		}
		return prepared{request: r}, true
	case protocol.Abort:
		return prepared{abort: m}, true
	case *protocol.UtilityCall:
		return prepared{call: m}, true
	case *protocol.FieldError:
		return prepared{damaged: m}, true
	case *protocol.StartDPWave:
		l.log.Debug("data-parallel wave ignored: this engine is alone", "wave", m.Wave)
	default:
		l.log.Warn("message of unknown type ignored", "type", fmt.Sprintf("%T", m))
	}
	return prepared{}, false
}

// own is the owner's life: take, step, send. A panic in it is the engine's
// death, told to the clients like any other.
func (l *Loop) own() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("engine core panicked: %v\n%s", p, debug.Stack())
		}
		if err != nil {
			l.log.Error("engine core died", "reason", err)
			l.conn.SendDead()
		}
		l.toStopped()
	}()
	for {
		stop := l.takeAll()
		if !stop && !l.core.HasWork() {
			if l.State() == Draining && l.core.NumLive() == 0 {
				return nil
			}
			stop = l.wait()
		}
		if stop {
			return l.shutDown()
		}
		messages, err := l.core.Step()
		if err == nil {
			err = l.send(messages)
		}
		if err != nil {
			return err
		}
	}
}

// takeAll takes in what has arrived, without waiting for more, and reports
// whether Stop was called. It takes no more than fits the queue at once, so
// that a flood does not keep the device idle.
func (l *Loop) takeAll() (stop bool) {
	for range preparedAhead {
		select {
		case <-l.stop:
			return true
		case <-l.drain:
			l.toDraining()
		case p := <-l.prepared:
			l.handle(p)
		case ids := <-l.conn.Aborts():
			l.abort(ids)
		default:
			return false
		}
	}
	return false
}

// wait is takeAll for one thing, which has not arrived yet.
func (l *Loop) wait() (stop bool) {
	select {
	case <-l.stop:
		return true
	case <-l.drain:
		l.toDraining()
	case p := <-l.prepared:
		l.handle(p)
	case ids := <-l.conn.Aborts():
		l.abort(ids)
	}
	return false
}

// shutDown tells every client that its requests are over.
func (l *Loop) shutDown() error {
	messages, err := l.core.Shutdown()
	if err != nil {
		return err
	}
	return l.send(messages)
}

func (l *Loop) toDraining() {
	if l.State() != Serving {
		return
	}
	l.state.Store(int32(Draining))
	l.log.Info("draining", "requests", l.core.NumLive())
	l.core.Drain()
}

func (l *Loop) toStopped() {
	if l.State() == Stopped {
		return
	}
	l.state.Store(int32(Stopped))
	l.log.Info("stopped")
}

// handle takes in one message. The early copies of aborts come first: they are
// older than the message, and an ID may be used again.
func (l *Loop) handle(p prepared) {
	l.core.applyAborts()
	switch {
	case p.request != nil:
		l.numTaken.Add(1)
		l.core.Add(p.request)
	case p.rejected != nil:
		l.numTaken.Add(1)
		l.core.Reject(p.rejected.client, p.rejected.id, p.rejected.err)
	case p.abort != nil:
		l.abort(p.abort)
	case p.call != nil:
		l.core.Utility(p.call)
	case p.damaged != nil:
		l.answerDamaged(p.damaged)
	}
}

func (l *Loop) abort(ids protocol.Abort) {
	for _, id := range ids {
		l.core.Abort(id)
	}
}

// answerDamaged answers a message that could not be decoded, as far as its
// sender is known.
func (l *Loop) answerDamaged(e *protocol.FieldError) {
	switch {
	case e.CallID != nil:
		l.core.RejectUtility(e.ClientIndex, *e.CallID, "unreadable", e)
	case e.Type == protocol.RequestAdd:
		l.core.Reject(e.ClientIndex, e.RequestID, e)
	default:
		l.log.Warn("message could not be read", "reason", e)
	}
}

// abortsSoFar applies the aborts that have arrived, without waiting for more.
func (l *Loop) abortsSoFar(abort func(id string)) {
	for {
		select {
		case ids := <-l.conn.Aborts():
			for _, id := range ids {
				abort(id)
			}
		default:
			return
		}
	}
}

// send encodes messages here, where they are owned, and queues the bytes.
func (l *Loop) send(messages []Message) error {
	for i := range messages {
		m := &messages[i]
		payload := protocol.AppendOutputs(l.conn.Buffer(), &m.Outputs)
		if err := l.conn.Send(m.Client, payload); err != nil {
			return fmt.Errorf("send to client %d: %w", m.Client, err)
		}
	}
	return nil
}
