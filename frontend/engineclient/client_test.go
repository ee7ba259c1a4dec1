package engineclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"govllm/frontend/engineclient"
	"govllm/protocol"
	"govllm/stats"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const (
	none   = protocol.FinishNone
	stop   = protocol.FinishStop
	length = protocol.FinishLength
	abort  = protocol.FinishAbort
)

func check(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateErrors()); diff != "" {
		t.Errorf("%s, -want +got:\n%s", what, diff)
	}
}

func TestStreamCoalesces(t *testing.T) {
	f := newFixture(t, 1)
	s := f.submit("a", engineclient.Meta{})
	check(t, "before any output", next(s), "nothing yet")

	first := output("a", none, 1)
	first.PrefillStats = &protocol.PrefillStats{NumPromptTokens: 4, NumComputedTokens: 1, NumCachedTokens: 3, NumLocalCachedTokens: 3}
	f.conn.say(outputs(1, first))
	f.conn.say(outputs(2, output("a", none, 2, 3)))
	u, err := s.Next(context.Background())
	check(t, "two outputs", u, engineclient.Update{TokenIDs: []int32{1, 2, 3}, NumPromptTokens: 4, NumCachedTokens: 3})
	check(t, "error", err, nil)
	check(t, "all taken", next(s), "nothing yet")

	last := output("a", stop, 4)
	last.StopReason = protocol.StopReason{Kind: protocol.StopReasonToken, TokenID: 4}
	f.conn.say(outputs(3, last))
	u, _ = s.Next(context.Background())
	check(t, "the end", u, engineclient.Update{TokenIDs: []int32{4}, NumPromptTokens: 4, NumCachedTokens: 3,
		Finish: stop, StopReason: protocol.StopReason{Kind: protocol.StopReasonToken, TokenID: 4}})
	check(t, "after the end", next(s), io.EOF.Error())
	s.Close()
	check(t, "after Close", next(s), io.EOF.Error())
	check(t, "recorded", f.rec.reasons(), "[stop 4]")
	check(t, "sent", f.conn.takeSent(), []string{"0: ADD a"})
}

func TestStreamLogprobs(t *testing.T) {
	f := newFixture(t, 1)
	s := f.submit("a", engineclient.Meta{})
	row := func(width int, first int32) *protocol.LogprobsLists {
		l := &protocol.LogprobsLists{NumTokens: 1, Width: width, Ranks: []int64{int64(first)}}
		for i := range int32(width) {
			l.TokenIDs = append(l.TokenIDs, first+i)
			l.Logprobs = append(l.Logprobs, -float32(first+i))
		}
		return l
	}
	say := func(tokens *protocol.LogprobsLists, prompt *protocol.LogprobsLists) {
		o := output("a", none, 1)
		o.NewLogprobs, o.NewPromptLogprobs = tokens, prompt
		f.conn.say(outputs(1, o))
	}
	inf := float32(math.Inf(-1))

	say(row(2, 10), row(3, 90))
	say(row(2, 20), nil)
	u, _ := s.Next(context.Background())
	check(t, "rows", u.Logprobs, &protocol.LogprobsLists{NumTokens: 2, Width: 2,
		TokenIDs: []int32{10, 11, 20, 21}, Logprobs: []float32{-10, -11, -20, -21}, Ranks: []int64{10, 20}})
	check(t, "prompt rows", u.PromptLogprobs, row(3, 90))

	say(row(1, 30), nil)
	say(row(2, 40), nil)
	say(row(1, 50), nil)
	u, _ = s.Next(context.Background())
	check(t, "rows of changing width", u.Logprobs, &protocol.LogprobsLists{NumTokens: 3, Width: 2,
		TokenIDs: []int32{30, -1, 40, 41, 50, -1}, Logprobs: []float32{-30, inf, -40, -41, -50, inf}, Ranks: []int64{30, 40, 50}})
	check(t, "no prompt rows again", u.PromptLogprobs == nil, true)

	f.conn.say(outputs(2, output("a", length, 1)))
	u, _ = s.Next(context.Background())
	check(t, "no rows", u.Logprobs == nil, true)
}

// A request ends once, is recorded once, and its engine is told only if it
// does not know.
func TestEnds(t *testing.T) {
	type env struct {
		*fixture
		s *engineclient.Stream
	}
	say := func(e env, o protocol.EngineCoreOutput) { e.conn.say(outputs(2, o)) }
	close := func(e env) { e.s.Close() }
	finishStop := func(e env) { e.s.Finish(stop) }
	lateOutput := func(e env) { say(e, output("a", length, 8, 9)) }
	engineStops := func(e env) { say(e, output("a", length, 2)) }
	takeAll := func(e env) {
		for next(e.s) != io.EOF.Error() {
		}
	}

	for _, tt := range []struct {
		name        string
		stopStrings bool
		do          []func(env)
		recorded    string // after one token
		aborts      int
		left        string // what Next returns at last
	}{
		{"live", false, nil, "[]", 0, "[1] "},
		{"client gone", false, []func(env){close}, "[abort 1]", 1, "EOF"},
		{"client gone, twice", false, []func(env){close, close}, "[abort 1]", 1, "EOF"},
		{"client gone, the engine runs on", false, []func(env){close, lateOutput, close}, "[abort 1]", 1, "EOF"},
		{"engine ends", false, []func(env){engineStops}, "[length 2]", 0, "[1 2] length"},
		{"engine ends, client takes it and leaves", false, []func(env){engineStops, takeAll, close}, "[length 2]", 0, "EOF"},
		{"engine ends before the client goes", false, []func(env){engineStops, close}, "[length 2]", 0, "EOF"},
		{"engine ends twice", false, []func(env){engineStops, lateOutput}, "[length 2]", 0, "[1 2] length"},
		{"stop string", true, []func(env){finishStop, close}, "[stop 1]", 1, "EOF"},
		{"stop string, the engine runs on", true, []func(env){finishStop, lateOutput, close}, "[stop 1]", 1, "EOF"},
		{"stop string in the engine's last tokens", true, []func(env){engineStops, finishStop, close}, "[stop 2]", 0, "EOF"},
		{"engine ends, the handler has not looked", true, []func(env){engineStops}, "[]", 0, "[1 2] length"},
		{"engine ends, no stop string", true, []func(env){engineStops, takeAll}, "[length 2]", 0, "EOF"},
		{"engine ends, client gone", true, []func(env){engineStops, close}, "[length 2]", 0, "EOF"},
		{"engine ends, Finish without stop strings is too late", false, []func(env){engineStops, finishStop}, "[length 2]", 0, "EOF"},
		{"server aborts", false, []func(env){func(e env) { e.client.AbortAll() }, lateOutput}, "[abort 1]", 1, "[1] abort"},
		{"server aborts what the client gave up", false, []func(env){close, func(e env) { e.client.AbortAll() }}, "[abort 1]", 1, "EOF"},
		{"engine aborts", false, []func(env){func(e env) { say(e, output("a", abort)) }}, "[abort 1]", 0, "[1] abort"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, 1)
			e := env{f, f.submit("a", engineclient.Meta{StopStrings: tt.stopStrings})}
			f.conn.say(outputs(1, output("a", none, 1)))
			for _, do := range tt.do {
				do(e)
			}
			check(t, "recorded", f.rec.reasons(), tt.recorded)
			check(t, "aborts", f.conn.takeSent()[1:], slices.Repeat([]string{"0: ABORT [a]"}, tt.aborts)[:tt.aborts:tt.aborts])
			check(t, "Next", next(e.s), tt.left)
			if ended := tt.name != "live"; ended {
				check(t, "live", f.client.NumLive(), 0)
			}
		})
	}
}

// Who has seen a request end finds it counted.
func TestEndIsRecordedBeforeItIsSeen(t *testing.T) {
	f := newFixture(t, 1)
	s := f.submit("a", engineclient.Meta{})
	other := f.submit("b", engineclient.Meta{})
	seen := []string{}
	f.rec.onRecord = func(*stats.Iteration) { seen = append(seen, next(s), next(other)) }
	f.conn.say(outputs(1, output("a", stop, 1), output("b", none, 2)))
	f.rec.onRecord = nil
	check(t, "while recording", seen, []string{"nothing yet", "[2] "})
	check(t, "afterwards", next(s), "[1] stop")
}

// An ABORT that overtakes its ADD means nothing to the engine, so it is sent
// again.
func TestAbortAllDuringSubmit(t *testing.T) {
	f := newFixture(t, 1)
	f.conn.onAdd = f.client.AbortAll
	s := f.submit("a", engineclient.Meta{})
	check(t, "sent", f.conn.takeSent(), []string{"0: ABORT [a]", "0: ADD a", "0: ABORT [a]"})
	check(t, "Next", next(s), "[] abort")
	check(t, "recorded", f.rec.reasons(), "[abort 0]")
}

// A blocked Next wakes up for each of the things that end the wait.
func TestNextWaits(t *testing.T) {
	for name, act := range map[string]func(f *fixture, s *engineclient.Stream, cancel context.CancelFunc){
		"[1] ": func(f *fixture, _ *engineclient.Stream, _ context.CancelFunc) {
			f.conn.say(outputs(1, output("a", none, 1)))
		},
		"[] abort":         func(f *fixture, _ *engineclient.Stream, _ context.CancelFunc) { f.client.AbortAll() },
		"EOF":              func(_ *fixture, s *engineclient.Stream, _ context.CancelFunc) { s.Close() },
		"context canceled": func(_ *fixture, _ *engineclient.Stream, cancel context.CancelFunc) { cancel() },
		"engineclient: engine is dead: bang": func(f *fixture, _ *engineclient.Stream, _ context.CancelFunc) {
			f.conn.lost <- errors.New("bang")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 1)
				s := f.submit("a", engineclient.Meta{})
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				got := make(chan string)
				go func() {
					u, err := s.Next(ctx)
					if err != nil {
						got <- err.Error()
						return
					}
					got <- fmt.Sprintf("%v %s", u.TokenIDs, u.Finish)
				}()
				synctest.Wait() // until Next blocks
				act(f, s, cancel)
				check(t, "Next", <-got, name)
			})
		})
	}
}

// The reader waits for no one: a client that takes nothing costs memory only.
func TestSlowClientStallsNoOne(t *testing.T) {
	f := newFixture(t, 1)
	slow, quick := f.submit("slow", engineclient.Meta{}), f.submit("quick", engineclient.Meta{})
	for i := range int32(10_000) {
		f.conn.say(outputs(1, output("slow", none, i), output("quick", none, i)))
		if got, want := next(quick), fmt.Sprintf("[%d] ", i); got != want {
			t.Fatalf("message %d: Next = %q, want %q", i, got, want)
		}
	}
	u, err := slow.Next(context.Background())
	if len(u.TokenIDs) != 10_000 || err != nil {
		t.Errorf("slow client got %d tokens, %v, want 10000", len(u.TokenIDs), err)
	}
}

func TestSubmitRefuses(t *testing.T) {
	f := newFixture(t, 1)
	submit := func(ctx context.Context, id string) error {
		_, err := f.client.Submit(ctx, request(id, 4), engineclient.Meta{Arrival: time.Now()})
		return err
	}
	ctx := context.Background()
	s := f.submit("a", engineclient.Meta{})
	check(t, "duplicate", errors.Is(submit(ctx, "a"), engineclient.ErrDuplicateRequest), true)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	check(t, "client gone", errors.Is(submit(gone, "b"), context.Canceled), true)

	f.conn.mu.Lock()
	f.conn.sendErr = errors.New("no route")
	f.conn.mu.Unlock()
	check(t, "connection lost", errors.Is(submit(ctx, "c"), engineclient.ErrEngineDead), true)
	check(t, "live", f.client.NumLive(), 1)

	drained := make(chan error)
	expired, cancel := context.WithCancel(ctx)
	go func() { drained <- f.client.Drain(expired) }()
	cancel()
	check(t, "drain with a live request", <-drained, context.Canceled)
	check(t, "draining", errors.Is(submit(ctx, "d"), engineclient.ErrDraining), true)
	go func() { drained <- f.client.Drain(ctx) }()
	s.Close()
	check(t, "drain", <-drained, nil)
	check(t, "drain when idle", f.client.Drain(ctx), nil)
	check(t, "recorded", f.rec.reasons(), "[abort 0]")
}

func TestEngineDeath(t *testing.T) {
	f := newFixture(t, 1)
	s := f.submit("a", engineclient.Meta{})
	ended := f.submit("b", engineclient.Meta{})
	gone := f.submit("c", engineclient.Meta{})
	gone.Close()
	f.conn.say(outputs(1, output("a", none, 1), output("b", stop, 2)))

	answered := make(chan error)
	go func() {
		_, err := f.client.Utility(context.Background(), "is_sleeping")
		answered <- err
	}()
	f.conn.waitSent(5) // three ADDs, one ABORT, the UTILITY
	check(t, "healthy", f.client.Healthy(), nil)

	cause := errors.New("sentinel")
	f.conn.lost <- cause
	for what, err := range map[string]error{"Run": <-f.ran, "Utility": <-answered, "Healthy": f.client.Healthy()} {
		if !errors.Is(err, engineclient.ErrEngineDead) || !errors.Is(err, cause) {
			t.Errorf("%s = %v, want ErrEngineDead because of the sentinel", what, err)
		}
	}
	<-f.client.Dead()
	check(t, "what came before", next(s), "[1] ")
	check(t, "then the error", next(s), "engineclient: engine is dead: sentinel")
	s.Close()
	check(t, "an ended stream keeps its end", next(ended), "[2] stop")
	check(t, "recorded", f.rec.reasons(), "[abort 0 stop 1 error 1]")
	check(t, "live", f.client.NumLive(), 0)
	if _, err := f.client.Submit(context.Background(), request("d", 4), engineclient.Meta{}); !errors.Is(err, engineclient.ErrEngineDead) {
		t.Errorf("Submit = %v, want ErrEngineDead", err)
	}
	if _, err := f.client.Utility(context.Background(), "sleep"); !errors.Is(err, engineclient.ErrEngineDead) {
		t.Errorf("Utility = %v, want ErrEngineDead", err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	f := newFixture(t, 1)
	f.stop()
	check(t, "Run", <-f.ran, nil)
	check(t, "healthy", f.client.Healthy() == nil, false)
}

func TestUtility(t *testing.T) {
	f := newFixture(t, 2)
	type result struct {
		Value any
		Err   string
	}
	call := func(ctx context.Context, method string, args ...any) chan result {
		done := make(chan result, 1)
		go func() {
			v, err := f.client.Utility(ctx, method, args...)
			done <- result{v, fmt.Sprint(err)}
		}()
		return done
	}
	waitSent := func(want ...string) {
		t.Helper()
		f.conn.waitSent(len(want))
		check(t, "sent", f.conn.takeSent(), want)
	}
	answer := func(id uint64, failure string, value any) {
		f.conn.say(&protocol.EngineCoreOutputs{UtilityOutput: &protocol.UtilityOutput{
			CallID: protocol.CallID{Bits: id}, Failure: failure, Result: value}})
	}

	done := call(context.Background(), "reset_prefix_cache", false, true)
	waitSent("0: UTILITY 1 reset_prefix_cache [false true]", "1: UTILITY 2 reset_prefix_cache [false true]")
	answer(2, "", "second")
	answer(1, "", "first")
	check(t, "the first engine's result", <-done, result{"first", "<nil>"})

	done = call(context.Background(), "pin_lora", int64(3))
	waitSent("0: UTILITY 3 pin_lora [3]", "1: UTILITY 4 pin_lora [3]")
	answer(3, "", true)
	answer(4, "no such adapter", nil)
	check(t, "one refuses", <-done, result{nil, "engineclient: utility pin_lora: no such adapter"})

	ctx, cancel := context.WithCancel(context.Background())
	done = call(ctx, "sleep", int64(1))
	waitSent("0: UTILITY 5 sleep [1]", "1: UTILITY 6 sleep [1]")
	cancel()
	check(t, "gave up", <-done, result{nil, "context canceled"})
	answer(5, "", nil) // late
	answer(6, "", nil)
	answer(6, "", nil) // unknown
}

func TestLeastLoadedEngine(t *testing.T) {
	f := newFixture(t, 3)
	var streams []*engineclient.Stream
	for i := range 6 {
		streams = append(streams, f.submit(fmt.Sprint("r", i), engineclient.Meta{}))
	}
	engines := map[string]int{}
	for i, s := range f.conn.takeSent() {
		if engines[s[:1]]++; s[:1] == "1" {
			streams[i].Close()
		}
	}
	check(t, "idle engines share", engines, map[string]int{"0": 2, "1": 2, "2": 2})
	f.conn.takeSent()
	f.submit("r6", engineclient.Meta{})
	f.submit("r7", engineclient.Meta{})
	check(t, "an engine whose requests ended gets the next", f.conn.takeSent(), []string{"1: ADD r6", "1: ADD r7"})

	say := func(engine int, s protocol.SchedulerStats) {
		f.conn.say(&protocol.EngineCoreOutputs{EngineIndex: engine, SchedulerStats: &s})
	}
	say(0, protocol.SchedulerStats{NumRunningReqs: 4})
	say(1, protocol.SchedulerStats{NumRunningReqs: 2, NumWaitingReqs: 1, KVCacheUsage: 0.9}) // 3 + 2.4
	say(2, protocol.SchedulerStats{NumRunningReqs: 4, NumSkippedWaitingReqs: 1})
	say(7, protocol.SchedulerStats{NumRunningReqs: 9}) // an engine that never registered
	s := f.submit("x", engineclient.Meta{})
	check(t, "least loaded by its statistics", f.conn.takeSent(), []string{"0: ADD x"})
	s.Close()
	check(t, "its engine is told of the abort", f.conn.takeSent(), []string{"0: ABORT [x]"})
}

func TestParent(t *testing.T) {
	f := newFixture(t, 1)
	parent := engineclient.NewParent(3)
	var streams []*engineclient.Stream
	for i := range 3 {
		streams = append(streams, f.submit(engineclient.ChildRequestID(i, "p"), engineclient.Meta{Parent: parent}))
	}
	check(t, "sent", f.conn.takeSent(), []string{"0: ADD 0_p", "0: ADD 1_p", "0: ADD 2_p"})
	f.conn.say(outputs(1, output("0_p", length, 1, 2), output("1_p", none, 1), output("2_p", none, 1, 2, 3)))
	f.conn.say(outputs(2, output("1_p", stop, 2, 3, 4)))
	check(t, "parents with a child alive", len(f.rec.parents), 0)
	streams[2].Close()
	check(t, "parents", f.rec.parents, []stats.FinishedParent{{N: 3, MaxNumGenerationTokens: 4}})
	check(t, "children", f.rec.reasons(), "[length 2 stop 4 abort 3]")
	check(t, "first tokens", f.rec.ttft, 3)
}

func TestRequestIDs(t *testing.T) {
	a, b := engineclient.NewRequestID("cmpl-1"), engineclient.NewRequestID("cmpl-1")
	if a == b || !strings.HasPrefix(a, "cmpl-1-") || len(a) != len("cmpl-1-")+8 {
		t.Errorf("NewRequestID(cmpl-1) = %q and %q, want cmpl-1- and 8 characters, never the same", a, b)
	}
}

// Handlers come, take, find stop strings and leave while an engine runs on:
// whatever the order, each request ends once and no token is lost or counted
// twice.
func TestConcurrentHandlers(t *testing.T) {
	f := newFixture(t, 2)
	const handlers, perHandler = 16, 40
	stopEngine := make(chan struct{})
	engineDone := make(chan struct{})
	go func() { // the engine: a few tokens to everyone live, ends some
		defer close(engineDone)
		rnd := rand.New(rand.NewPCG(1, 2))
		live := map[string]int{}
		for at := 1.0; ; at++ {
			select {
			case <-stopEngine:
				return
			default:
			}
			f.conn.mu.Lock()
			for _, s := range f.conn.sent {
				switch m := s.message.(type) {
				case *protocol.EngineCoreRequest:
					live[m.RequestID] = 1 + rnd.IntN(8)
				case protocol.Abort:
					for _, id := range m {
						delete(live, id)
					}
				}
			}
			f.conn.sent = nil
			f.conn.mu.Unlock()
			m := outputs(at)
			for id, left := range live {
				o := output(id, none, 1)
				if live[id]--; left == 1 {
					o.FinishReason = length
					delete(live, id)
				}
				m.Outputs = append(m.Outputs, o)
			}
			if len(m.Outputs) > 0 {
				f.conn.say(m)
			}
		}
	}()

	var wg sync.WaitGroup
	for h := range handlers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(h), 3))
			for i := range perHandler {
				s, err := f.client.Submit(context.Background(), request(fmt.Sprintf("%d-%d", h, i), 4),
					engineclient.Meta{Arrival: time.Now(), StopStrings: rnd.IntN(2) == 0})
				if err != nil {
					t.Error(err)
					return
				}
				for patience := rnd.IntN(8); ; patience-- {
					u, err := s.Next(context.Background())
					if err != nil || patience == 0 {
						break
					}
					if rnd.IntN(8) == 0 && u.Finish == none {
						s.Finish(stop)
					}
				}
				s.Close()
			}
		})
	}
	wg.Wait()
	close(stopEngine)
	<-engineDone

	tokens := 0
	for _, r := range f.rec.finished {
		tokens += r.NumGenerationTokens
	}
	check(t, "requests recorded", len(f.rec.finished), handlers*perHandler)
	check(t, "tokens of recorded requests", tokens, f.rec.tokens)
	check(t, "live", f.client.NumLive(), 0)
}
