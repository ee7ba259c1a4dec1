package stats

import "slices"

// ID names one metric of the catalog.
type ID int

// Every metric of the vllm: namespace that this project exports. The order is
// that of the documentation.
const (
	NumRequestsRunning ID = iota
	NumRequestsWaiting
	NumRequestsWaitingByReason
	KVCacheUsage
	EngineSleepState
	CacheConfigInfo

	PrefixCacheQueries
	PrefixCacheHits
	ExternalPrefixCacheQueries
	ExternalPrefixCacheHits
	MMCacheQueries
	MMCacheHits
	NumPreemptions
	PromptTokens
	PromptTokensBySource
	PromptTokensCached
	PromptTokensCachedBySource
	GenerationTokens
	RequestSuccess
	EstimatedFlops
	EstimatedReadBytes
	EstimatedWriteBytes

	TimeToFirstToken
	InterTokenLatency
	RequestTimePerOutputToken
	E2ERequestLatency
	RequestQueueTime
	RequestPrefillTime
	RequestDecodeTime
	RequestInferenceTime
	RequestPromptTokens
	RequestGenerationTokens
	RequestMaxNumGenerationTokens
	RequestParamsN
	RequestParamsMaxTokens
	RequestPrefillKVComputedTokens
	RequestNumPreemptions
	IterationTokens

	SpecDecodeNumDrafts
	SpecDecodeNumDraftTokens
	SpecDecodeNumAcceptedTokens
	SpecDecodeNumAcceptedTokensPerPos

	NumPreemptionsByReason
	NumTokensWaiting
	NumTokensWaitingUncached
	NumTokensRunning
	NumTokensPending
	NumTokensLoad
	NumTokensRecomputed
	StepScheduledTokens
	StepPrefillTokens
	StepDecodeTokens
	StepPrefillRequests
	StepDecodeRequests
	StepDuration

	AdmissionRejections
	RequestPreparationTime
	OutputDeliveryTime
	RequestsInFlight
	EngineStalled
	EngineMessageAge
	EngineStepAge
	EngineTokenAge
	EngineRunningStepTime
	RequestsNotTakenIn
	StatsAnomalies

	CorruptedRequests
	KVBlockLifetime
	KVBlockIdleBeforeEvict
	KVBlockReuseGap

	GPUCacheUsage
	GPUPrefixCacheQueries
	GPUPrefixCacheHits
	TimePerOutputToken

	NumMetrics
)

// Kind is a metric's Prometheus type.
type Kind string

const (
	Gauge     Kind = "gauge"
	Counter   Kind = "counter"
	Histogram Kind = "histogram"
)

// Metric declares one metric: all that registration and documentation need.
type Metric struct {
	Name    string // on the wire
	Kind    Kind
	Labels  []string // besides model_name and engine
	Family  BucketFamily
	PerProc bool   // no engine label: it belongs to the frontend as a whole
	When    string // when its series exist; "" from the start on
	Gate    Gate
	Help    string

	Deprecated *Deprecation // nil: it is not
}

// Gate is a switch without which a metric is not registered at all.
type Gate int

const (
	GateNone    Gate = iota
	GateKVCache      // --kv-cache-metrics
	GateNaNs         // VLLM_COMPUTE_NANS_IN_LOGITS=1

	numGates
)

// Gates are the switches that are on.
type Gates [numGates]bool

// Open says whether g lets a metric through.
func (on Gates) Open(g Gate) bool { return g == GateNone || on[g] }

var gateNames = [numGates]string{GateKVCache: "--kv-cache-metrics", GateNaNs: "VLLM_COMPUTE_NANS_IN_LOGITS=1"}

// Releases that hid metrics.
var (
	v0_11 = Version{0, 11}
	v0_12 = Version{0, 12}
)

const (
	whenDrafting = "once an engine reports speculative decoding"
	whenOurs     = "once an engine reports steps (vllm-core does, vLLM's engine does not)"
)

var catalog = [NumMetrics]Metric{
	NumRequestsRunning: {Name: "vllm:num_requests_running", Kind: Gauge,
		Help: "Requests in the scheduler's running list after the latest step."},
	NumRequestsWaiting: {Name: "vllm:num_requests_waiting", Kind: Gauge,
		Help: "Requests in the scheduler's queues, for whatever reason."},
	NumRequestsWaitingByReason: {Name: "vllm:num_requests_waiting_by_reason", Kind: Gauge, Labels: []string{"reason"},
		Help: "Waiting requests by reason: capacity (no room yet) or deferred (something else must come first). The two sum to vllm:num_requests_waiting."},
	KVCacheUsage: {Name: "vllm:kv_cache_usage_perc", Kind: Gauge,
		Help: "KV cache blocks in use, as a fraction from 0 to 1. Blocks kept only for prefix reuse count as free."},
	EngineSleepState: {Name: "vllm:engine_sleep_state", Kind: Gauge, Labels: []string{"sleep_state"},
		Help: "1 for the state the engine is in: awake, weights_offloaded (sleep level 1) or discard_all (level 2)."},
	CacheConfigInfo: {Name: "vllm:cache_config_info", Kind: Gauge,
		Labels: []string{"block_size", "cache_dtype", "enable_prefix_caching", "gpu_memory_utilization",
			"kv_cache_max_concurrency", "kv_cache_size_tokens", "num_gpu_blocks"},
		Help: "Always 1; the labels hold the engine's KV cache configuration, None where it did not tell."},

	PrefixCacheQueries: {Name: "vllm:prefix_cache_queries_total", Kind: Counter,
		Help: "Tokens looked up in the prefix cache when requests were admitted."},
	PrefixCacheHits: {Name: "vllm:prefix_cache_hits_total", Kind: Counter,
		Help: "Tokens found in the prefix cache. Only whole blocks are shared, so a common prefix shorter than block_size (vllm:cache_config_info) never hits."},
	ExternalPrefixCacheQueries: {Name: "vllm:external_prefix_cache_queries_total", Kind: Counter,
		Help: "Tokens looked up through a KV connector; 0 without one."},
	ExternalPrefixCacheHits: {Name: "vllm:external_prefix_cache_hits_total", Kind: Counter,
		Help: "Tokens found through a KV connector; 0 without one."},
	MMCacheQueries: {Name: "vllm:mm_cache_queries_total", Kind: Counter,
		Help: "Items looked up in the multimodal cache; 0 for text models."},
	MMCacheHits: {Name: "vllm:mm_cache_hits_total", Kind: Counter,
		Help: "Items found in the multimodal cache; 0 for text models."},
	NumPreemptions: {Name: "vllm:num_preemptions_total", Kind: Counter,
		Help: "Requests put back in the queue because KV cache blocks ran out."},
	PromptTokens: {Name: "vllm:prompt_tokens_total", Kind: Counter,
		Help: "Prompt tokens, cached ones included, of requests that got their first token."},
	PromptTokensBySource: {Name: "vllm:prompt_tokens_by_source_total", Kind: Counter, Labels: []string{"source"},
		Help: "The same prompt tokens by where their KV came from: local_compute, local_cache_hit or external_kv_transfer."},
	PromptTokensCached: {Name: "vllm:prompt_tokens_cached_total", Kind: Counter,
		Help: "The same prompt tokens that were not computed: local_cache_hit and external_kv_transfer."},
	PromptTokensCachedBySource: {Name: "vllm:prompt_tokens_cached_by_source_total", Kind: Counter, Labels: []string{"source"},
		Help: "Prefix cache hits in tokens, by the cache that held them: device, host, p2p, disk or external_unspecified (a KV connector). Counted at admission; sums to vllm:prefix_cache_hits_total + vllm:external_prefix_cache_hits_total."},
	GenerationTokens: {Name: "vllm:generation_tokens_total", Kind: Counter,
		Help: "Generated tokens, those that a stop string later cut off included."},
	RequestSuccess: {Name: "vllm:request_success_total", Kind: Counter, Labels: []string{"finished_reason"},
		Help: "Ended requests by reason. Aborts and errors count here once each, whatever the name says."},
	EstimatedFlops: {Name: "vllm:estimated_flops_per_gpu_total", Kind: Counter,
		Help: "Estimated floating-point operations per device; 0 unless the engine estimates them."},
	EstimatedReadBytes: {Name: "vllm:estimated_read_bytes_per_gpu_total", Kind: Counter,
		Help: "Estimated bytes read from memory per device; 0 unless the engine estimates them."},
	EstimatedWriteBytes: {Name: "vllm:estimated_write_bytes_per_gpu_total", Kind: Counter,
		Help: "Estimated bytes written to memory per device; 0 unless the engine estimates them."},

	TimeToFirstToken: {Name: "vllm:time_to_first_token_seconds", Kind: Histogram, Family: FamilyTTFT,
		Help: "From the HTTP request's arrival to its first token, queueing included; one sample per sequence that got one."},
	InterTokenLatency: {Name: "vllm:inter_token_latency_seconds", Kind: Histogram, Family: FamilyITL,
		Help: "Between two outputs of a request; one sample per output after the first, preemptions included."},
	RequestTimePerOutputToken: {Name: "vllm:request_time_per_output_token_seconds", Kind: Histogram, Family: FamilyITL,
		Help: "Decode time over generated tokens less one; 0 for a single token."},
	E2ERequestLatency: {Name: "vllm:e2e_request_latency_seconds", Kind: Histogram, Family: FamilyLatency,
		Help: "From the HTTP request's arrival to its end, aborted requests included."},
	RequestQueueTime: {Name: "vllm:request_queue_time_seconds", Kind: Histogram, Family: FamilyLatency,
		Help: "From the scheduler's queue to the first time scheduled; later waits after preemption are not in it."},
	RequestPrefillTime: {Name: "vllm:request_prefill_time_seconds", Kind: Histogram, Family: FamilyLatency,
		Help: "From first scheduled to the first token, preemptions in between included."},
	RequestDecodeTime: {Name: "vllm:request_decode_time_seconds", Kind: Histogram, Family: FamilyLatency,
		Help: "From the first token to the last, of requests that were not cut short."},
	RequestInferenceTime: {Name: "vllm:request_inference_time_seconds", Kind: Histogram, Family: FamilyLatency,
		Help: "From first scheduled to the last token, of requests that were not cut short."},
	RequestPromptTokens: {Name: "vllm:request_prompt_tokens", Kind: Histogram, Family: FamilyLength,
		Help: "Prompt length of ended requests, in tokens."},
	RequestGenerationTokens: {Name: "vllm:request_generation_tokens", Kind: Histogram, Family: FamilyLength,
		Help: "Generated tokens of ended requests, one sample per sequence."},
	RequestMaxNumGenerationTokens: {Name: "vllm:request_max_num_generation_tokens", Kind: Histogram, Family: FamilyLength,
		Help: "Generated tokens of the longest of a request's n sequences."},
	RequestParamsN: {Name: "vllm:request_params_n", Kind: Histogram, Family: FamilyN,
		Help: "The n parameter of requests."},
	RequestParamsMaxTokens: {Name: "vllm:request_params_max_tokens", Kind: Histogram, Family: FamilyLength,
		Help: "The max_tokens parameter of requests, one sample per sequence."},
	RequestPrefillKVComputedTokens: {Name: "vllm:request_prefill_kv_computed_tokens", Kind: Histogram, Family: FamilyLength,
		Help: "Prompt tokens whose KV was computed and not found in a cache, per request."},
	RequestNumPreemptions: {Name: "vllm:request_num_preemptions", Kind: Histogram, Family: FamilyPreemptions,
		Help: "How often an ended request had been preempted."},
	IterationTokens: {Name: "vllm:iteration_tokens_total", Kind: Histogram, Family: FamilyTokensPerStep,
		Help: "Per message with outputs: computed tokens of the prompts that ended in it and new tokens. vLLM's form, which charges a chunked prefill to its last chunk; vllm:step_scheduled_tokens has every step."},

	SpecDecodeNumDrafts: {Name: "vllm:spec_decode_num_drafts_total", Kind: Counter, When: whenDrafting,
		Help: "Drafts proposed by speculative decoding."},
	SpecDecodeNumDraftTokens: {Name: "vllm:spec_decode_num_draft_tokens_total", Kind: Counter, When: whenDrafting,
		Help: "Tokens in those drafts."},
	SpecDecodeNumAcceptedTokens: {Name: "vllm:spec_decode_num_accepted_tokens_total", Kind: Counter, When: whenDrafting,
		Help: "Draft tokens that the model accepted. Mean acceptance length is 1 + accepted / drafts."},
	SpecDecodeNumAcceptedTokensPerPos: {Name: "vllm:spec_decode_num_accepted_tokens_per_pos_total", Kind: Counter,
		Labels: []string{"position"}, When: whenDrafting,
		Help: "Accepted draft tokens by their position in the draft, from 0."},

	NumPreemptionsByReason: {Name: "vllm:num_preemptions_by_reason_total", Kind: Counter, Labels: []string{"reason"}, When: whenOurs,
		Help: "The same preemptions by reason: kv_full (no block was free), priority (a better request took the place) or prefix_cache_reset."},
	NumTokensWaiting: {Name: "vllm:num_tokens_waiting", Kind: Gauge, When: whenOurs,
		Help: "Tokens of the waiting requests, prompt and output so far."},
	NumTokensWaitingUncached: {Name: "vllm:num_tokens_waiting_uncached", Kind: Gauge, When: whenOurs,
		Help: "Those of them that must be computed: no prefix that is cached, about to be computed or shared between waiting requests counts twice."},
	NumTokensRunning: {Name: "vllm:num_tokens_running", Kind: Gauge, When: whenOurs,
		Help: "Computed tokens in the KV cache blocks that are in use, shared ones once."},
	NumTokensPending: {Name: "vllm:num_tokens_pending", Kind: Gauge, When: whenOurs,
		Help: "Tokens that running requests have and must still compute."},
	NumTokensLoad: {Name: "vllm:num_tokens_load", Kind: Gauge, When: whenOurs,
		Help: "Tokens in the KV cache and in the queue, for autoscaling: num_tokens_running + num_tokens_pending + num_tokens_waiting_uncached."},
	NumTokensRecomputed: {Name: "vllm:num_tokens_recomputed_total", Kind: Counter, When: whenOurs,
		Help: "Tokens computed again because their request had been preempted."},
	StepScheduledTokens: {Name: "vllm:step_scheduled_tokens", Kind: Histogram, Family: FamilyTokensPerStep, When: whenOurs,
		Help: "Tokens the model was fed in a step; its count is the number of steps."},
	StepPrefillTokens: {Name: "vllm:step_prefill_tokens", Kind: Histogram, Family: FamilyTokensPerStep, When: whenOurs,
		Help: "Those of prefill: prompts, and tokens computed again after a preemption."},
	StepDecodeTokens: {Name: "vllm:step_decode_tokens", Kind: Histogram, Family: FamilyTokensPerStep, When: whenOurs,
		Help: "Those of decode: the last known token of a request that generates."},
	StepPrefillRequests: {Name: "vllm:step_prefill_requests", Kind: Histogram, Family: FamilyTokensPerStep, When: whenOurs,
		Help: "Requests in prefill in a step."},
	StepDecodeRequests: {Name: "vllm:step_decode_requests", Kind: Histogram, Family: FamilyTokensPerStep, When: whenOurs,
		Help: "Requests in decode in a step."},
	StepDuration: {Name: "vllm:step_duration_seconds", Kind: Histogram, Family: FamilyStepDuration, When: whenOurs,
		Help: "Duration of a step, from scheduling to its results."},

	AdmissionRejections: {Name: "vllm:admission_rejections_total", Kind: Counter, Labels: []string{"reason"}, PerProc: true,
		Help: "Requests that were turned away for the length of the queue, by the limit that they met: max_num_queued_reqs or max_num_queued_tokens. They enter no other metric of this table."},
	RequestPreparationTime: {Name: "vllm:request_preparation_time_seconds", Kind: Histogram, Family: FamilyHandling,
		Help: "From the HTTP request's arrival until it was sent to the engine: parsing, template, tokenizing, admission; one sample per sequence."},
	OutputDeliveryTime: {Name: "vllm:output_delivery_time_seconds", Kind: Histogram, Family: FamilyHandling,
		Help: "From the arrival of an engine's message until what came of it was written to the client; one sample per write, of the oldest output in it."},
	RequestsInFlight: {Name: "vllm:num_requests_in_flight", Kind: Gauge, Labels: []string{"stage"},
		Help: "Requests by stage, from the frontend's own table: tokenizing (HTTP requests that are not with an engine yet, without an engine label), sent (the scheduler has not shown them yet), queued and running."},
	EngineStalled: {Name: "vllm:engine_stalled", Kind: Gauge,
		Help: "1 while requests are with the engine and it has completed no step for longer than --engine-stall-timeout."},
	EngineMessageAge: {Name: "vllm:engine_last_message_age_seconds", Kind: Gauge,
		Help: "Time since the engine's last message, by the frontend's clock; vllm-core sends one at least every few seconds."},
	EngineStepAge: {Name: "vllm:engine_last_step_age_seconds", Kind: Gauge,
		Help: "Time since the frontend learned of the engine's last completed step. It grows while the engine is idle."},
	EngineTokenAge: {Name: "vllm:engine_last_token_age_seconds", Kind: Gauge,
		Help: "Time since the engine's last token, by the frontend's clock. It grows while the engine is idle."},
	EngineRunningStepTime: {Name: "vllm:engine_running_step_seconds", Kind: Gauge, When: whenOurs,
		Help: "How long the engine has been at a step that lasts, by its own word and the time since; 0 between steps and during short ones."},
	RequestsNotTakenIn: {Name: "vllm:num_requests_not_taken_in", Kind: Gauge, When: whenOurs,
		Help: "Requests that had reached the engine's process and not its scheduler when it last said so, as happens during a long step."},
	CorruptedRequests: {Name: "vllm:corrupted_requests_total", Kind: Counter, Gate: GateNaNs,
		Help: "Ended requests for which the engine found NaNs among the logits."},
	KVBlockLifetime: {Name: "vllm:kv_block_lifetime_seconds", Kind: Histogram, Family: FamilyResidency, Gate: GateKVCache,
		Help: "From a KV block's allocation until it lost what it held; of the sampled share of blocks (--kv-cache-metrics-sample of the core)."},
	KVBlockIdleBeforeEvict: {Name: "vllm:kv_block_idle_before_evict_seconds", Kind: Histogram, Family: FamilyResidency, Gate: GateKVCache,
		Help: "From a sampled block's last use until it lost what it held."},
	KVBlockReuseGap: {Name: "vllm:kv_block_reuse_gap_seconds", Kind: Histogram, Family: FamilyResidency, Gate: GateKVCache,
		Help: "Between the latest uses of a sampled block, of which four are remembered."},

	GPUCacheUsage: {Name: "vllm:gpu_cache_usage_perc", Kind: Gauge, Deprecated: &Deprecation{v0_11, KVCacheUsage},
		Help: "Deprecated: use vllm:kv_cache_usage_perc."},
	GPUPrefixCacheQueries: {Name: "vllm:gpu_prefix_cache_queries_total", Kind: Counter, Deprecated: &Deprecation{v0_11, PrefixCacheQueries},
		Help: "Deprecated: use vllm:prefix_cache_queries_total."},
	GPUPrefixCacheHits: {Name: "vllm:gpu_prefix_cache_hits_total", Kind: Counter, Deprecated: &Deprecation{v0_11, PrefixCacheHits},
		Help: "Deprecated: use vllm:prefix_cache_hits_total."},
	TimePerOutputToken: {Name: "vllm:time_per_output_token_seconds", Kind: Histogram, Family: FamilyITL,
		Deprecated: &Deprecation{v0_12, InterTokenLatency},
		Help:       "Deprecated: use vllm:inter_token_latency_seconds."},

	StatsAnomalies: {Name: "vllm:stats_anomalies_total", Kind: Counter, Labels: []string{"kind"}, PerProc: true,
		Help: "Impossible numbers that were clamped, by kind. Serving goes on; the first of each kind is logged."},
}

// Metric returns the declaration of id.
func (id ID) Metric() *Metric { return &catalog[id] }

// Catalog lists every metric, in the order of the documentation.
func Catalog() []Metric { return slices.Clone(catalog[:]) }

// LabelNames are all labels of m's series, the common ones first.
func (m *Metric) LabelNames() []string {
	names := []string{"model_name", "engine"}
	if m.PerProc {
		names = names[:1]
	}
	return append(names, m.Labels...)
}
