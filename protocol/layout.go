package protocol

// Layouts say which field stands at which position of an array on the wire.
// vLLM inserted fields mid-array three times in a year, so positions live here
// and nowhere else; a further version is a further slice.

type requestField uint8

const (
	reqRequestID requestField = iota
	reqPromptTokenIDs
	reqMMFeatures
	reqSamplingParams
	reqPoolingParams
	reqArrivalTime
	reqLoRARequest
	reqCacheSalt
	reqDataParallelRank
	reqPromptEmbeds
	reqPromptIsTokenIDs
	reqClientIndex
	reqCurrentWave
	reqPriority
	reqTraceHeaders
	reqResumable
	reqExternalReqID
	reqReasoningEnded
	reqReasoningParserKwargs
	reqAbortImmediately
	reqSessionID
	reqKVHints
	numRequestFields
)

var requestNames = [numRequestFields]string{
	"request_id", "prompt_token_ids", "mm_features", "sampling_params", "pooling_params",
	"arrival_time", "lora_request", "cache_salt", "data_parallel_rank", "prompt_embeds",
	"prompt_is_token_ids", "client_index", "current_wave", "priority", "trace_headers",
	"resumable", "external_req_id", "reasoning_ended", "reasoning_parser_kwargs",
	"abort_immediately", "session_id", "kv_hints",
}

// requestLayout is that of vLLM since August 2026; kv_hints came with 0.32.
var requestLayout = []requestField{
	reqRequestID, reqPromptTokenIDs, reqMMFeatures, reqSamplingParams, reqPoolingParams,
	reqArrivalTime, reqLoRARequest, reqCacheSalt, reqDataParallelRank, reqPromptEmbeds,
	reqPromptIsTokenIDs, reqClientIndex, reqCurrentWave, reqPriority, reqTraceHeaders,
	reqResumable, reqExternalReqID, reqReasoningEnded, reqReasoningParserKwargs,
	reqAbortImmediately, reqSessionID, reqKVHints,
}

// requestRequired is how many leading elements have no default.
const requestRequired = 9

type outputField uint8

const (
	outRequestID outputField = iota
	outNewTokenIDs
	outNewLogprobs
	outNewPromptLogprobs
	outPoolingOutput
	outFinishReason
	outStopReason
	outEvents
	outKVTransferParams
	outECTransferParams
	outTraceHeaders
	outPrefillStats
	outRoutedExperts
	outNumNaNsInLogits
	outMMCacheMissHashes
	outNewSamplingMask
	outSpecDecodeMetrics
	outPromptTokenIDLogprobs
	outError
	numOutputFields
)

var outputNames = [numOutputFields]string{
	"request_id", "new_token_ids", "new_logprobs", "new_prompt_logprobs_tensors",
	"pooling_output", "finish_reason", "stop_reason", "events", "kv_transfer_params",
	"ec_transfer_params", "trace_headers", "prefill_stats", "routed_experts",
	"num_nans_in_logits", "mm_cache_miss_hashes", "new_sampling_mask", "spec_decode_metrics",
	"prompt_token_id_logprobs", "error",
}

// outputLayout is that of vLLM since July 2026; the elements from
// mm_cache_miss_hashes on came later, error with 0.33.
var outputLayout = []outputField{
	outRequestID, outNewTokenIDs, outNewLogprobs, outNewPromptLogprobs,
	outPoolingOutput, outFinishReason, outStopReason, outEvents, outKVTransferParams,
	outECTransferParams, outTraceHeaders, outPrefillStats, outRoutedExperts,
	outNumNaNsInLogits, outMMCacheMissHashes, outNewSamplingMask, outSpecDecodeMetrics,
	outPromptTokenIDLogprobs, outError,
}

// outputRequired is how many leading elements have no default.
const outputRequired = 2

// The envelope's order never changed; weight_version came ninth in 0.32.
var outputsNames = [...]string{
	"engine_index", "outputs", "scheduler_stats", "timestamp", "utility_output",
	"finished_requests", "wave_complete", "start_wave",
}
