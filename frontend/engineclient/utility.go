package engineclient

import (
	"context"
	"fmt"

	"govllm/protocol"
)

// UtilityError is an engine's refusal of a utility call, in its words.
type UtilityError struct {
	Method  string
	Message string
}

func (e *UtilityError) Error() string {
	return fmt.Sprintf("engineclient: utility %s: %s", e.Method, e.Message)
}

// Utility calls a method of every engine and returns the first one's result,
// once all have answered. Errors: *UtilityError if any of them refused,
// *EngineDeadError, and ctx's; an answer that comes after ctx ended is
// dropped.
func (c *Client) Utility(ctx context.Context, method string, args ...any) (any, error) {
	answers := make([]chan protocol.UtilityOutput, len(c.infos))
	for engine := range c.infos {
		id, answer, err := c.expect()
		if err != nil {
			return nil, err
		}
		defer c.unexpect(id)
		answers[engine] = answer
		call := &protocol.UtilityCall{CallID: id, Method: method, Args: args}
		payload := protocol.AppendUtilityCall(c.conn.Buffer(), call)
		if err := c.send(engine, protocol.RequestUtility, payload); err != nil {
			return nil, fmt.Errorf("utility %s: %w", method, err)
		}
	}
	result, err := c.collect(ctx, method, answers)
	if err == nil {
		c.noteUtility(method, args)
	}
	return result, err
}

func (c *Client) collect(ctx context.Context, method string, answers []chan protocol.UtilityOutput) (any, error) {
	var first any
	for engine, answer := range answers {
		select {
		case out, ok := <-answer:
			switch {
			case !ok:
				return nil, c.died()
			case out.Failure != "":
				return nil, &UtilityError{method, out.Failure}
			case engine == 0:
				first = out.Result
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return first, nil
}

// expect makes a call number and the channel its answer will come through: one
// slot, so that the reader never waits. It is closed if the engine dies.
func (c *Client) expect() (protocol.CallID, chan protocol.UtilityOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deadErr != nil {
		return protocol.CallID{}, nil, c.deadErr
	}
	c.lastCall++
	id := protocol.CallID{Bits: c.lastCall}
	answer := make(chan protocol.UtilityOutput, 1)
	c.calls[id] = answer
	return id, answer, nil
}

func (c *Client) unexpect(id protocol.CallID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, id)
}

// answer hands a result to whoever waits for it.
func (c *Client) answer(out *protocol.UtilityOutput) {
	c.mu.Lock()
	answer := c.calls[out.CallID]
	delete(c.calls, out.CallID)
	c.mu.Unlock()
	if answer == nil {
		c.log.Debug("answer to no utility call", "call_id", out.CallID.Bits, "failure", out.Failure)
		return
	}
	answer <- *out
}
