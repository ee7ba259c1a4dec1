package protocol

// RequestType is the one-byte frame that precedes a frontend → engine payload.
// Source: vllm/v1/engine/__init__.py, EngineCoreRequestType.
type RequestType byte

const (
	RequestAdd         RequestType = 0x00 // payload: EngineCoreRequest
	RequestAbort       RequestType = 0x01 // payload: array of request IDs
	RequestStartDPWave RequestType = 0x02 // payload: [wave, exclude_engine]
	RequestUtility     RequestType = 0x03 // payload: [client_index, call_id, method, args]
)

// EngineCoreRequest is one ADD: a sampled continuation of one prompt.
//
// On the wire it is an array; the positions are those of layout S0 (21
// elements). Fields that this project refuses are kept only as "present", so
// that the refusal can name them.
//
// Source: vllm/v1/engine/__init__.py, EngineCoreRequest.
type EngineCoreRequest struct {
	RequestID      string  // unique among the engine's live requests; opaque bytes
	PromptTokenIDs []int32 // never empty for a request that is served
	SamplingParams *SamplingParams
	ArrivalTime    float64 // Unix seconds of the frontend's wall clock
	CacheSalt      string  // "" when nil; mixed into the first block's prefix hash
	ClientIndex    int     // which of the outputs sockets gets the answer
	CurrentWave    int
	Priority       int // lower runs first; only under the priority policy
	TraceHeaders   map[string]string
	ExternalReqID  string // the ID the user sees; "" when nil
	SessionID      string // "" when nil

	// Unsupported names the fields that were set although this project does
	// not serve them (mm_features, pooling_params, lora_request,
	// prompt_embeds, resumable, abort_immediately, …), in wire order.
	Unsupported []string
}

// OutputKind says how a Python frontend assembles text; the engine ignores it
// and always sends deltas.
type OutputKind int

const (
	OutputCumulative OutputKind = 0
	OutputDelta      OutputKind = 1
	OutputFinalOnly  OutputKind = 2
)

// SamplingParams is the sampling part of an ADD, a map on the wire.
//
// DefaultSamplingParams gives vLLM's defaults; a missing key means its
// default. A pointer is nil where the wire says nil.
//
// Source: vllm/sampling_params.py, SamplingParams.
type SamplingParams struct {
	N                 int
	PresencePenalty   float64
	FrequencyPenalty  float64
	RepetitionPenalty float64
	Temperature       float64 // 0 is greedy
	TopP              float64 // (0, 1]
	TopK              int     // 0 or -1: all
	MinP              float64 // [0, 1]
	Seed              *int64
	StopTokenIDs      []int32
	MaxTokens         *int // nil: to the model's limit
	MinTokens         int
	Logprobs          *int // alternatives beside the sampled token; -1: all
	PromptLogprobs    *int
	LogprobTokenIDs   []int32
	EOSTokenID        *int32  // _eos_token_id; nil: no EOS stop (ignore_eos)
	AllStopTokenIDs   []int32 // _all_stop_token_ids: masked while below MinTokens
	LogitBias         map[int32]float64
	AllowedTokenIDs   []int32
	BadWordsTokenIDs  [][]int32 // _bad_words_token_ids
	// SkipReadingPrefixCache is nil where unset: then prompt logprobs decide.
	SkipReadingPrefixCache *bool
	// RepetitionDetection, StructuredOutputs, ThinkingTokenBudget and the
	// like are refused by name until they are served.
	Unsupported []string

	// Fields below matter only to frontends; the engine carries none of them.
	Stop                       []string
	IgnoreEOS                  bool
	Detokenize                 bool
	SkipSpecialTokens          bool
	SpacesBetweenSpecialTokens bool
	IncludeStopStrInOutput     bool
	OutputKind                 OutputKind
}

const defaultMaxTokens = 16

// DefaultSamplingParams returns the values that missing keys stand for.
func DefaultSamplingParams() SamplingParams {
	maxTokens := defaultMaxTokens
	return SamplingParams{
		N:                          1,
		RepetitionPenalty:          1,
		Temperature:                1,
		TopP:                       1,
		MaxTokens:                  &maxTokens,
		Detokenize:                 true,
		SkipSpecialTokens:          true,
		SpacesBetweenSpecialTokens: true,
	}
}

// UtilityCall is one UTILITY request. CallID is a correlation number of the
// frontend, echoed unchanged: Python uses the full uint64 range, reserved
// notifications are negative, so it travels as the raw 64 bits plus a sign.
//
// Source: vllm/v1/engine/core_client.py, call_utility.
type UtilityCall struct {
	ClientIndex int
	CallID      CallID
	Method      string
	Args        []any // nil, bool, int64, uint64, float64, string, []byte, []any, map[string]any
}

// CallID is a utility call's number: an unsigned value, or a negative one.
type CallID struct {
	Bits     uint64 // two's complement when Negative
	Negative bool
}
