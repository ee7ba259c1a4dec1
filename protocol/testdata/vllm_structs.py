"""Golden bytes by vLLM 0.33's message definitions, and a check of ours.

    python vllm_structs.py make     # writes vllm-0.33.txt: msgspec's bytes
    python vllm_structs.py check    # decodes govllm.txt with the typed structs

Needs msgspec alone. The definitions repeat the fields, order, defaults and
msgspec options of vllm/v1/engine/__init__.py, vllm/sampling_params.py,
vllm/v1/metrics/stats.py and vllm/v1/engine/utils.py (vllm 0.33.0); what
validates or computes is left out.
"""

import dataclasses
import struct
import sys
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.msgpack import Decoder, Encoder, Ext

HERE = Path(__file__).parent


class SamplingParams(msgspec.Struct, omit_defaults=True, dict=True):
    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    watermarking: bool | None = None
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    prompt_logprob_token_ids: list[list[int]] | None = None
    prompt_logprob_start: int | None = None
    logprob_token_ids: list[int] | None = None
    flat_logprobs: bool = False
    detokenize: bool = True
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    output_kind: int = 0
    stream_interval: int | None = None
    skip_clone: bool = False
    output_text_buffer_length: int = 0
    _eos_token_id: int | None = None
    _all_stop_token_ids: set[int] = msgspec.field(default_factory=set)
    _watermarking_skipped: bool = False
    structured_outputs: dict | None = None
    logit_bias: dict[int, float] | None = None
    allowed_token_ids: list[int] | None = None
    extra_args: dict[str, Any] | None = None
    bad_words: list[str] | None = None
    _bad_words_token_ids: list[list[int]] | None = None
    skip_reading_prefix_cache: bool | None = None
    thinking_token_budget: int | None = None
    repetition_detection: dict | None = None
    routed_experts_prompt_start: int = 0
    trace_decode_token_ids: list[int] | None = None


class EngineCoreRequest(msgspec.Struct, array_like=True, omit_defaults=True):
    request_id: str
    prompt_token_ids: list[int] | None
    mm_features: list | None
    sampling_params: SamplingParams | None
    pooling_params: list | None
    arrival_time: float
    lora_request: list | None
    cache_salt: str | None
    data_parallel_rank: int | None
    prompt_embeds: Any = None
    prompt_is_token_ids: list[bool] | None = None
    client_index: int = 0
    current_wave: int = 0
    priority: int = 0
    trace_headers: dict[str, str] | None = None
    resumable: bool = False
    external_req_id: str | None = None
    reasoning_ended: bool | None = None
    reasoning_parser_kwargs: dict[str, Any] | None = None
    abort_immediately: bool = False
    session_id: str | None = None
    kv_hints: Any = None


class EngineCoreEvent(msgspec.Struct):
    type: int
    timestamp: float


class LogprobsLists(NamedTuple):
    logprob_token_ids: Any
    logprobs: Any
    sampled_token_ranks: Any
    cu_num_generated_tokens: list[int] | None = None


class LogprobsTensors(NamedTuple):
    logprob_token_ids: Any
    logprobs: Any
    selected_token_ranks: Any
    cu_num_generated_tokens: list[int] | None = None
    cu_num_generated_tokens_tensor: Any = None


@dataclasses.dataclass(frozen=True)
class RequestError:
    code: str
    message: str
    retryable: bool = False


@dataclasses.dataclass
class PrefillStats:
    num_prompt_tokens: int = 0
    num_computed_tokens: int = 0
    num_cached_tokens: int = 0
    num_local_cached_tokens: int = 0
    num_external_cached_tokens: int = 0
    num_cache_creation_tokens: int = 0


class EngineCoreOutput(msgspec.Struct, array_like=True, omit_defaults=True):
    request_id: str
    new_token_ids: list[int]
    new_logprobs: LogprobsLists | None = None
    new_prompt_logprobs_tensors: LogprobsTensors | None = None
    pooling_output: Any = None
    finish_reason: int | None = None
    stop_reason: int | str | None = None
    events: list[EngineCoreEvent] | None = None
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None
    trace_headers: dict[str, str] | None = None
    prefill_stats: PrefillStats | None = None
    routed_experts: Any = None
    num_nans_in_logits: int = 0
    mm_cache_miss_hashes: list[str] | None = None
    new_sampling_mask: Any = None
    spec_decode_metrics: Any = None
    prompt_token_id_logprobs: Any = None
    error: RequestError | None = None


class UtilityOutput(msgspec.Struct, array_like=True):
    call_id: int
    failure_message: str | None = None
    result: Any = None


@dataclasses.dataclass
class PrefixCacheStats:
    reset: bool = False
    requests: int = 0
    queries: int = 0
    hits: int = 0
    preempted_requests: int = 0
    preempted_queries: int = 0
    preempted_hits: int = 0
    hits_by_source: dict[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class SpecDecodingStats:
    num_spec_tokens: int
    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    num_accepted_tokens_per_pos: list[int] = dataclasses.field(default_factory=list)
    num_draft_tokens_per_pos: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class KVCacheEvictionEvent:
    lifetime_seconds: float
    idle_seconds: float
    reuse_gaps_seconds: tuple[float, ...]


@dataclasses.dataclass
class SchedulerIterationDetails:
    iteration_index: int
    num_ctx_requests: int
    num_ctx_tokens: int
    num_generation_requests: int
    num_generation_tokens: int
    elapsed_ms: float
    num_encoder_inputs: int = 0
    num_encoder_output_tokens: int = 0
    is_dummy: bool = False


@dataclasses.dataclass
class PerfStats:
    num_flops_per_gpu: int = 0
    num_read_bytes_per_gpu: int = 0
    num_write_bytes_per_gpu: int = 0
    debug_stats: Any = None


@dataclasses.dataclass
class SchedulerStats:
    num_running_reqs: int = 0
    num_waiting_reqs: int = 0
    num_skipped_waiting_reqs: int = 0
    num_kv_fetch_reqs_by_stage: dict[str, int] = dataclasses.field(default_factory=dict)
    step_counter: int = 0
    current_wave: int = 0
    kv_cache_usage: float = 0.0
    iteration_details: SchedulerIterationDetails | None = None
    prefix_cache_stats: PrefixCacheStats = dataclasses.field(default_factory=PrefixCacheStats)
    connector_prefix_cache_stats: PrefixCacheStats | None = None
    kv_cache_eviction_events: list[KVCacheEvictionEvent] = dataclasses.field(default_factory=list)
    spec_decoding_stats: SpecDecodingStats | None = None
    kv_connector_stats: dict[str, Any] | None = None
    ec_connector_stats: dict[str, Any] | None = None
    waiting_lora_adapters: dict[str, int] = dataclasses.field(default_factory=dict)
    running_lora_adapters: dict[str, int] = dataclasses.field(default_factory=dict)
    cudagraph_stats: Any = None
    perf_stats: PerfStats | None = None


class EngineCoreOutputs(msgspec.Struct, array_like=True, omit_defaults=True):
    engine_index: int = 0
    outputs: list[EngineCoreOutput] = []
    scheduler_stats: SchedulerStats | None = None
    timestamp: float = 0.0
    utility_output: UtilityOutput | None = None
    finished_requests: set[str] | None = None
    wave_complete: int | None = None
    start_wave: int | None = None
    weight_version: str | None = None


@dataclasses.dataclass
class EngineZmqAddresses:
    inputs: list[str]
    outputs: list[str]
    coordinator_input: str | None = None
    coordinator_output: str | None = None
    frontend_stats_publish_address: str | None = None


@dataclasses.dataclass
class EngineHandshakeMetadata:
    addresses: EngineZmqAddresses
    parallel_config: dict[str, int | str | list[int]]


@dataclasses.dataclass
class EngineCoreReadyResponse:
    max_model_len: int
    num_gpu_blocks: int
    block_size: int
    dp_stats_address: str | None
    dtype: str
    vllm_version: str
    world_size: int
    data_parallel_size: int
    tensor_parallel_size: int
    pipeline_parallel_size: int
    decode_context_parallel_size: int
    data_parallel_rank: int
    max_num_seqs: int
    max_num_batched_tokens: int
    instance_id: str
    supports_lora: bool
    max_loras: int
    mamba_block_size: int | None = None
    kv_cache_size_tokens: int | None = None
    kv_cache_max_concurrency: float | None = None
    kv_events_config: Any = None
    weight_transfer_backend: str | None = None
    enable_sleep_mode: bool = False
    supports_draft_weight_updates: bool = False
    effective_attention_block_size: int | None = None
    coord_store_port: int = 0
    coordinator_input_address: str | None = None
    coordinator_output_address: str | None = None


def array(dtype, fmt, shape, values):
    return (dtype, shape, Ext(3, struct.pack("<%d%s" % (len(values), fmt), *values)))


def messages():
    params = SamplingParams(
        temperature=0.7, top_p=0.9, top_k=40, min_p=0.05, seed=2**62, stop=[], stop_token_ids=[7, 70000],
        max_tokens=300, min_tokens=2, logprobs=2, output_kind=1, logit_bias={5: -1.5},
        allowed_token_ids=[1, 2, 3], bad_words=[], skip_reading_prefix_cache=False,
        presence_penalty=0.5, frequency_penalty=-0.5, repetition_penalty=1.1)
    params._eos_token_id = 2
    params._all_stop_token_ids = {2}
    params._bad_words_token_ids = [[9], [10, 11]]
    yield "add_full", EngineCoreRequest(
        "r-1", [1, 127, 128, 255, 256, 65535, 65536, 151935], None, params, None, 1700000000.25, None, "salt", None,
        client_index=1, priority=-3, trace_headers={"traceparent": "00-x"}, external_req_id="r", session_id="s")
    yield "add_default", EngineCoreRequest("r-2", [3], None, SamplingParams(), None, 1.5, None, None, None)
    budget = SamplingParams(thinking_token_budget=10, extra_args={"a": 1})
    yield "add_unsupported", EngineCoreRequest(
        "r-3", None, None, budget, None, 1.5, ["l", 1, "/p", None, None, False, False], None, None, resumable=True)
    yield "outputs_full", EngineCoreOutputs(
        engine_index=1,
        outputs=[
            EngineCoreOutput(
                "r-1", [42, 70000],
                new_logprobs=LogprobsLists(
                    array("<i4", "i", (2, 2), [42, 7, 70000, 8]),
                    array("<f4", "f", (2, 2), [-0.5, -1.5, -0.25, -2.0]),
                    array("<i8", "q", (2,), [1, 3])),
                new_prompt_logprobs_tensors=LogprobsTensors(
                    array("int32", "i", (2, 1), [5, 6]),
                    array("float32", "f", (2, 1), [-1.0, -2.0]),
                    array("int64", "q", (2,), [3, 4])),
                events=[EngineCoreEvent(1, 10.25), EngineCoreEvent(2, 10.5)],
                trace_headers={"traceparent": "00-x"},
                prefill_stats=PrefillStats(8, 4, 4, 4, 0, 4)),
            EngineCoreOutput("r-4", [9], finish_reason=0, stop_reason=9),
            EngineCoreOutput("r-6", [], finish_reason=3, error=RequestError("paused", "the engine is paused", True)),
            EngineCoreOutput("r-5", [], finish_reason=4, stop_reason="repetition_detected", num_nans_in_logits=2),
        ],
        scheduler_stats=SchedulerStats(
            num_running_reqs=3, num_waiting_reqs=2, num_skipped_waiting_reqs=1, kv_cache_usage=0.5,
            prefix_cache_stats=PrefixCacheStats(False, 1, 8, 4, 1, 16, 8),
            spec_decoding_stats=SpecDecodingStats(3, 1, 3, 2, [1, 1, 0], [1, 1, 1])),
        timestamp=12345.5, finished_requests={"r-5"}, weight_version="v7")
    yield "outputs_utility", EngineCoreOutputs(
        timestamp=1.5, utility_output=UtilityOutput(2**63 + 5, None, (None, {"a": [1, -2, 2.5, "x", None, True]})))
    yield "init", EngineHandshakeMetadata(
        EngineZmqAddresses(["tcp://127.0.0.1:5001"], ["tcp://127.0.0.1:5002"]), {})
    yield "registration", EngineCoreReadyResponse(
        4096, 1024, 16, None, "bfloat16", "0.33.0", 1, 1, 1, 1, 1, 0, 256, 8192, "i-0", False, 0,
        kv_cache_size_tokens=16384, kv_cache_max_concurrency=4.0, effective_attention_block_size=16)


def write(path, named):
    text = ""
    for name, data in named:
        pairs = [data[i:i + 32].hex(" ") for i in range(0, len(data), 32)]
        text += "# %s\n%s\n\n" % (name, "\n".join(pairs))
    path.write_text(text)


def read(path):
    for part in path.read_text().split("# ")[1:]:
        name, _, body = part.partition("\n")
        yield name, bytes.fromhex(body)


def check():
    """Decodes every message the Go tests wrote; msgspec checks each type."""
    types = {
        "add": EngineCoreRequest, "outputs": EngineCoreOutputs, "init": EngineHandshakeMetadata,
        "registration": EngineCoreReadyResponse, "hello": dict, "utility": list, "abort": list,
    }
    hook = lambda code, data: bytes(data)
    made = {name: m for name, m in messages()}
    for name, data in read(HERE / "govllm.txt"):
        got = Decoder(types[name.split("_")[0]], ext_hook=hook).decode(data)
        print(name, "ok", got)
        if name == "add_default":
            assert got == made["add_default"], got
        if name == "outputs_full":
            want = Decoder(EngineCoreOutputs, ext_hook=hook).decode(Encoder().encode(made[name]))
            want.weight_version = None
            ranks = want.outputs[0].new_prompt_logprobs_tensors.selected_token_ranks
            assert ranks[0] == "int64"
            ranks[:] = array("int32", "i", [2], [3, 4])
            ranks[2] = ranks[2].data
            assert got == want, (got, want)


if __name__ == "__main__":
    if sys.argv[1:] == ["make"]:
        write(HERE / "vllm-0.33.txt", ((n, Encoder().encode(m)) for n, m in messages()))
    elif sys.argv[1:] == ["check"]:
        check()
    else:
        sys.exit(__doc__)
