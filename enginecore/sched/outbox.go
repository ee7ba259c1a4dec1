package sched

import (
	"slices"

	"govllm/protocol"
)

// Outbox gathers what the clients are to be told, until the step's messages
// are made. Everything in it is reused by the next step.
type Outbox struct {
	// Ended asks for finished IDs beside terminal outputs; set where a
	// coordinator counts requests.
	Ended   bool
	clients []ClientOutbox
	failed  []Failure
}

// ClientOutbox is one client's share.
type ClientOutbox struct {
	Outputs  []protocol.EngineCoreOutput
	Finished []string // IDs that ended
}

// Failure is a request that ended in an error, for the log.
type Failure struct {
	ID  string
	Err error
}

// Client returns the share of a client.
func (o *Outbox) Client(i int) *ClientOutbox {
	for len(o.clients) <= i {
		o.clients = append(o.clients, ClientOutbox{})
	}
	return &o.clients[i]
}

// Clients returns all shares, by client index.
func (o *Outbox) Clients() []ClientOutbox { return o.clients }

// Failures returns the requests that ended in an error since Reset.
func (o *Outbox) Failures() []Failure { return o.failed }

// Empty reports whether nobody is to be told anything.
func (o *Outbox) Empty() bool {
	for i := range o.clients {
		if len(o.clients[i].Outputs)+len(o.clients[i].Finished) > 0 {
			return false
		}
	}
	return len(o.failed) == 0
}

// Reset forgets everything that was gathered.
func (o *Outbox) Reset() {
	for i := range o.clients {
		c := &o.clients[i]
		c.Outputs, c.Finished = c.Outputs[:0], c.Finished[:0]
	}
	o.failed = o.failed[:0]
}

// next returns a zeroed output for the client.
func (o *Outbox) next(client int, id string) *protocol.EngineCoreOutput {
	c := o.Client(client)
	c.Outputs = append(c.Outputs, protocol.EngineCoreOutput{RequestID: id})
	return &c.Outputs[len(c.Outputs)-1]
}

// End tells a client of an end without a token: an abort by the engine or an
// error. As in vLLM, such outputs always come with the finished ID.
func (o *Outbox) End(client int, id string, why protocol.FinishReason) *protocol.EngineCoreOutput {
	out := o.next(client, id)
	out.FinishReason = why
	c := o.Client(client)
	c.Finished = append(c.Finished, id)
	return out
}

// Drop takes back what has been gathered for an ID that its client gave up.
// Between steps there is next to nothing to look through.
func (o *Outbox) Drop(id string) {
	for i := range o.clients {
		c := &o.clients[i]
		c.Outputs = slices.DeleteFunc(c.Outputs, func(out protocol.EngineCoreOutput) bool { return out.RequestID == id })
	}
}

// Finished notes an ID that ended, where somebody counts.
func (o *Outbox) Finished(client int, id string) {
	if o.Ended {
		c := o.Client(client)
		c.Finished = append(c.Finished, id)
	}
}

// Failed notes the reason of an error for the log.
func (o *Outbox) Failed(id string, err error) {
	o.failed = append(o.failed, Failure{ID: id, Err: err})
}
