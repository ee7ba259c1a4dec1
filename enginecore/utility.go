package enginecore

import (
	"errors"
	"fmt"

	"govllm/enginecore/sched"
	"govllm/protocol"
)

// ErrShuttingDown is the answer to utility calls once the engine drains.
//
//lint:ignore ST1005 vLLM's spelling, which clients read
var ErrShuttingDown = errors.New("Server shutting down")

// utilities are the methods a frontend may call, by vLLM's names. Each gets its
// positional arguments and returns the result that goes back; errDeferred says
// that the answer comes later.
var utilities = map[string]func(c *Core, call *protocol.UtilityCall) (any, error){
	"get_supported_tasks": func(*Core, *protocol.UtilityCall) (any, error) { return []string{"generate"}, nil },
	"reset_prefix_cache":  resetPrefixCache,
	"reset_mm_cache":      nothing, // there is none to reset
	"reset_encoder_cache": nothing,
	"is_sleeping":         func(*Core, *protocol.UtilityCall) (any, error) { return false, nil },
	"pause_scheduler":     pauseScheduler,
	"resume_scheduler":    resumeScheduler,
	"is_scheduler_paused": func(c *Core, _ *protocol.UtilityCall) (any, error) { return c.sched.Paused() != sched.Unpaused, nil },
	"list_loras":          func(*Core, *protocol.UtilityCall) (any, error) { return []any{}, nil },
	"add_lora":            refused("LoRA is not supported"),
	"remove_lora":         refused("LoRA is not supported"),
	"pin_lora":            refused("LoRA is not supported"),
	"sleep":               refused("sleep mode is not supported"),
	"wake_up":             refused("sleep mode is not supported"),
	"profile":             refused("profiling over the wire is not supported"),
}

var errDeferred = errors.New("answered later")

// Utility carries out a call between steps. Its answer is among the messages of
// the next Step, or of a later one for a pause that waits.
func (c *Core) Utility(call *protocol.UtilityCall) {
	if c.draining {
		c.fail(call, ErrShuttingDown)
		return
	}
	method, ok := utilities[call.Method]
	if !ok {
		c.fail(call, errors.New("the engine has no such method"))
		return
	}
	result, err := method(c, call)
	switch {
	case err == nil:
		c.reply(call.ClientIndex, protocol.UtilityOutput{CallID: call.CallID, Result: result})
	case !errors.Is(err, errDeferred):
		c.fail(call, err)
	}
}

func (c *Core) fail(call *protocol.UtilityCall, err error) {
	c.RejectUtility(call.ClientIndex, call.CallID, call.Method, err)
}

// RejectUtility answers a call that could not even be read.
func (c *Core) RejectUtility(client int, id protocol.CallID, method string, err error) {
	c.log.Warn("utility call failed", "method", method, "client", client, "reason", err)
	c.reply(client, protocol.UtilityOutput{
		CallID:  id,
		Failure: fmt.Sprintf("Call to %s method failed: %v", method, err),
	})
}

func (c *Core) reply(client int, out protocol.UtilityOutput) {
	if client < 0 || client >= c.cfg.NumClients {
		c.log.Warn("utility call of a client that does not exist", "client", client, "clients", c.cfg.NumClients)
		return
	}
	m := c.message(client, c.now())
	m.Outputs.UtilityOutput = &out
	c.replies = append(c.replies, m)
}

func nothing(*Core, *protocol.UtilityCall) (any, error) { return nil, nil }

func refused(why string) func(*Core, *protocol.UtilityCall) (any, error) {
	return func(*Core, *protocol.UtilityCall) (any, error) { return nil, errors.New(why) }
}

// resetPrefixCache(reset_running=false, reset_connector=false) → whether it
// could: it refuses while requests hold blocks, unless they are to be preempted.
func resetPrefixCache(c *Core, call *protocol.UtilityCall) (any, error) {
	running, err := argument(call, 0, "reset_running_requests", false)
	if err != nil {
		return nil, err
	}
	c.land()
	return c.sched.ResetPrefixCache(running, c.now()), nil
}

// pendingPause is a pause that is answered when nothing runs any more.
type pendingPause struct {
	client     int
	id         protocol.CallID
	clearCache bool
}

// pauseScheduler(mode="abort", clear_cache=true) holds new requests back.
//
//	abort  what is there ends, with ABORT outputs
//	wait   what runs goes on; answered when it has ended
//	keep   everything stops where it is
//
// Source: vllm/v1/engine/core.py, pause_scheduler.
func pauseScheduler(c *Core, call *protocol.UtilityCall) (any, error) {
	mode, err := argument(call, 0, "mode", "abort")
	if err != nil {
		return nil, err
	}
	clearCache, err := argument(call, 1, "clear_cache", true)
	if err != nil {
		return nil, err
	}
	switch mode {
	case "abort":
		c.land()
		c.AbortAll()
		c.sched.SetPause(sched.PausedNew)
	case "wait":
		c.sched.SetPause(sched.PausedNew)
		c.pausing = append(c.pausing, pendingPause{call.ClientIndex, call.CallID, clearCache})
		return nil, errDeferred
	case "keep":
		c.land()
		c.sched.SetPause(sched.PausedAll)
	default:
		return nil, fmt.Errorf("pause mode %q is not abort, wait or keep", mode)
	}
	if clearCache {
		c.sched.ResetPrefixCache(true, c.now())
	}
	return nil, nil
}

func resumeScheduler(c *Core, _ *protocol.UtilityCall) (any, error) {
	c.sched.SetPause(sched.Unpaused)
	c.answerPauses() // they will not come about any more
	return nil, nil
}

// settlePauses answers the pauses that waited for the running requests.
func (c *Core) settlePauses() {
	if len(c.pausing) == 0 || c.sched.NumRunning() > 0 || c.flight.plan != nil {
		return
	}
	for _, p := range c.pausing {
		if p.clearCache {
			c.sched.ResetPrefixCache(false, c.now())
		}
	}
	c.answerPauses()
}

func (c *Core) answerPauses() {
	for _, p := range c.pausing {
		c.reply(p.client, protocol.UtilityOutput{CallID: p.id})
	}
	c.pausing = c.pausing[:0]
}

// argument returns a positional argument, or its default where it is missing or
// nil.
func argument[T any](call *protocol.UtilityCall, i int, name string, def T) (T, error) {
	if i >= len(call.Args) || call.Args[i] == nil {
		return def, nil
	}
	v, ok := call.Args[i].(T)
	if !ok {
		return def, fmt.Errorf("argument %d (%s) is %v, want a %T", i, name, call.Args[i], def)
	}
	return v, nil
}
