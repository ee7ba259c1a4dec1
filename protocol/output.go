package protocol

// FinishReason says why a request ended; the zero value is "not yet". On the
// wire it is one less (STOP = 0), or nil.
//
// Source: vllm/v1/engine/__init__.py, FinishReason.
type FinishReason uint8

const (
	FinishNone FinishReason = iota
	FinishStop
	FinishLength
	FinishAbort
	FinishError
	FinishRepetition
)

// FinishReasons lists every reason a request can end with, in wire order.
var FinishReasons = [...]FinishReason{FinishStop, FinishLength, FinishAbort, FinishError, FinishRepetition}

// String returns the spelling of the API and of the finished_reason label.
func (r FinishReason) String() string {
	switch r {
	case FinishStop:
		return "stop"
	case FinishLength:
		return "length"
	case FinishAbort:
		return "abort"
	case FinishError:
		return "error"
	case FinishRepetition:
		return "repetition"
	}
	return ""
}

// StopReason is what stopped a request: nothing to tell (EOS, length), a stop
// token's ID, or a text. On the wire it is nil, int or str.
type StopReason struct {
	Kind    StopReasonKind
	TokenID int32
	Text    string
}

type StopReasonKind uint8

const (
	StopReasonNone StopReasonKind = iota
	StopReasonToken
	StopReasonText
)

// EventType is a moment in a request's life in the scheduler.
type EventType int

const (
	EventQueued    EventType = 1
	EventScheduled EventType = 2
	EventPreempted EventType = 3
)

// EngineCoreEvent is one event of a request. Timestamp is in seconds of the
// engine's monotonic clock: only differences within one engine mean anything.
type EngineCoreEvent struct {
	Type      EventType
	Timestamp float64
}

// PrefillStats tells where a request's prompt tokens came from. It rides on
// the request's first output. Computed + Cached = Prompt; Local + External =
// Cached.
type PrefillStats struct {
	NumPromptTokens         int
	NumComputedTokens       int
	NumCachedTokens         int
	NumLocalCachedTokens    int
	NumExternalCachedTokens int
	NumCacheCreationTokens  int
}

// LogprobsLists are log probabilities for the tokens of one output.
//
//	TokenIDs  [numTokens, width]; column 0 is the sampled token
//	Logprobs  [numTokens, width]
//	Ranks     [numTokens]; 1-based rank of the sampled token
type LogprobsLists struct {
	NumTokens int
	Width     int // k+1
	TokenIDs  []int32
	Logprobs  []float32
	Ranks     []int64
}

// EngineCoreOutput is what one request got from one step.
//
// Source: vllm/v1/engine/__init__.py, EngineCoreOutput.
type EngineCoreOutput struct {
	RequestID         string
	NewTokenIDs       []int32
	NewLogprobs       *LogprobsLists
	NewPromptLogprobs *LogprobsLists // torch dtypes on the wire
	FinishReason      FinishReason
	StopReason        StopReason
	Events            []EngineCoreEvent // since the request's last output
	TraceHeaders      map[string]string
	PrefillStats      *PrefillStats // first output only
	NumNaNsInLogits   int
	// Error may say more about FinishError. vLLM has it since 0.33; older
	// Python frontends skip it, older Rust ones close on it.
	Error *RequestError
}

// RequestError is why one request failed, in an engine that is well.
//
// Source: vllm/outputs.py, RequestError.
type RequestError struct {
	Code      string // "validation_error" becomes a 400, others a 500
	Message   string
	Retryable bool // then a 503
}

// EngineCoreOutputs is one message to one frontend. It belongs to exactly one
// family, and foreign frontends close for ever on a mixture:
//
//	outputs, scheduler_stats and finished_requests, any of them; or
//	utility_output; or wave_complete; or start_wave
//
// An empty message must never be sent.
//
// Source: vllm/v1/engine/__init__.py, EngineCoreOutputs.
type EngineCoreOutputs struct {
	EngineIndex      int
	Outputs          []EngineCoreOutput
	SchedulerStats   *SchedulerStats
	Timestamp        float64 // seconds of the engine's monotonic clock
	UtilityOutput    *UtilityOutput
	FinishedRequests []string
	WaveComplete     *int
	StartWave        *int
}

// UtilityOutput answers a UtilityCall. Failure is "" on success. A void
// method's Result is nil, which still travels as the pair [nil, nil].
type UtilityOutput struct {
	CallID  CallID
	Failure string
	Result  any // nil, bool, int, int64, uint64, float64, string, []any, []string, map[string]any
}

// EngineDead is the single frame a dying engine sends to every frontend.
const EngineDead = "ENGINE_CORE_DEAD"
