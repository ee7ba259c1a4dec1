package stats

import "time"

// EngineStatus is what the frontend knows of an engine at one moment, by its
// own clock and its own table of requests, whether or not the engine answers.
type EngineStatus struct {
	Engine int // index

	// Since when nothing more was heard: for an engine that has not said
	// anything of the kind yet, since the frontend began to listen.
	MessageAge time.Duration
	StepAge    time.Duration // a completed step
	TokenAge   time.Duration
	StepTime   time.Duration // of a step that lasts, as far as it has told

	// Requests with the engine, as the scheduler last showed them. They sum to
	// what the frontend has in its table.
	Sent    int // not seen in the scheduler yet
	Queued  int
	Running int

	Stalled bool // see engineclient.StalledError
	Dead    bool // it will never say anything again
}

// FrontendStatus is EngineStatus of all engines and what is with none of them.
type FrontendStatus struct {
	Tokenizing int // HTTP requests being prepared
	SleepLevel int // of the engines: 0 awake, 1 weights offloaded, 2 all discarded
	Engines    []EngineStatus
}
