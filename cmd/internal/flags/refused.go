package flags

// refused are flags of `vllm serve` that neither command serves, with the
// reason and the way out. A flag leaves this table when it is served.
var refused = []struct {
	reason string
	names  []string
}{
	{"LoRA adapters are not served; merge them into the weights", []string{
		"enable-lora", "max-loras", "max-lora-rank", "lora-modules", "lora-dtype", "max-cpu-loras", "fully-sharded-loras",
	}},
	{"only text models are served", []string{
		"limit-mm-per-prompt", "mm-processor-kwargs", "mm-processor-cache-gb", "media-io-kwargs", "trust-request-mm-kwargs", "interleave-mm-strings",
		"allowed-local-media-path", "allowed-media-domains", "skip-mm-profiling", "enable-prompt-embeds", "mm-encoder-tp-mode",
	}},
	{"only text generation is served; leave it out", []string{"runner", "convert", "task", "pooler-config"}},
	{"no code comes with a model here", []string{"code-revision"}},
	{"config.json is read as it is; change it there", []string{"hf-config-path", "hf-overrides", "config-format", "rope-scaling", "rope-theta"}},
	{"scales of the KV cache are not read; leave it out", []string{"quantization-param-path"}},
	{"text in and out is what this server does; leave it out", []string{"skip-tokenizer-init", "tokens-only", "tokenizer-mode", "tokenizer-pool-size"}},
	{"nothing is compiled at run time; leave it out", []string{"compilation-config", "enforce-eager", "cudagraph-metrics", "cuda-graph-sizes", "max-seq-len-to-capture"}},
	{"a core uses one device; start several cores with --data-parallel-rank instead", []string{
		"data-parallel-hybrid-lb", "data-parallel-external-lb", "data-parallel-start-rank", "data-parallel-backend",
		"distributed-executor-backend", "enable-expert-parallel", "all2all-backend", "enable-eplb", "eplb-config", "enable-dbo",
		"decode-context-parallel-size", "nnodes", "node-rank", "master-addr", "master-port", "worker-cls", "worker-extension-cls",
		"max-parallel-loading-workers", "disable-custom-all-reduce", "ray-workers-use-nsight",
	}},
	{"vllm-core and vllm-frontend are separate commands; start vllm-core for an engine without an API", []string{"headless"}},
	{"speculative decoding is not served", []string{"speculative-config"}},
	{"the KV cache stays on its device", []string{
		"kv-transfer-config", "kv-events-config", "kv-offloading-size", "kv-offloading-backend", "cpu-offload-gb", "swap-space",
		"disable-hybrid-kv-cache-manager", "calculate-kv-scales", "ec-transfer-config",
	}},
	{"the size of the CPU's KV cache is --kv-cache-memory-bytes", []string{"gpu-memory-utilization"}},
	{"structured output is not served", []string{"structured-outputs-config", "guided-decoding-backend"}},
	{"tool and reasoning parsers are not served", []string{
		"enable-auto-tool-choice", "tool-call-parser", "tool-parser-plugin", "reasoning-parser", "tool-server", "tool-strict-level",
	}},
	{"the template itself decides between text and parts", []string{"chat-template-content-format"}},
	{"logits are changed by request parameters alone", []string{"logits-processors", "logits-processor-pattern"}},
	{"the scheduler admits by --max-num-seqs and --max-num-batched-tokens", []string{
		"scheduler-cls", "max-num-partial-prefills", "max-long-partial-prefills", "max-num-active-seqs", "disable-chunked-mm-input",
		"scheduler-reserve-full-isl", "num-lookahead-slots",
	}},
	{"middleware is code in Python; put a proxy in front", []string{"middleware"}},
	{"the level and form of all logs are --log-level and --logging-config", []string{"uvicorn-log-level", "log-config-file"}},
	{"there is one HTTP server and no gRPC; leave it out", []string{"disable-frontend-multiprocessing", "grpc", "grpc-port"}},
	{"errors are logged with all that is known of them; leave it out", []string{"log-error-stack"}},
	{"requests are logged only with --enable-log-requests; leave it out", []string{"disable-log-requests"}},
	{"there is no such endpoint", []string{"cohere-is-reasoning-model", "cohere-format", "anthropic-disabled-thinking-effort", "enable-flash-late-interaction"}},
	{"such response fields are not served", []string{
		"enable-per-request-metrics", "enable-tokenizer-info-endpoint",
	}},
	{"tracing is not served", []string{"otlp-traces-endpoint", "collect-detailed-traces"}},
	{"there is no such endpoint", []string{"io-processor-plugin"}},
	{"sleep mode is not served", []string{"enable-sleep-mode"}},
	{"it chooses between implementations of vLLM in Python; leave it out", []string{
		"model-impl", "disable-cascade-attn", "disable-sliding-window", "model-loader-extra-config", "safetensors-load-strategy",
		"ignore-patterns", "use-tqdm-on-load", "pt-load-map-location", "additional-config", "fail-on-environ-validation",
		"mamba-cache-dtype", "mamba-ssm-cache-dtype", "mamba-block-size", "attention-backend", "profiler-config",
		"data-parallel-supervisor-port", "dp-supervisor-probe-interval", "dp-supervisor-probe-timeout", "dp-supervisor-probe-failures",
	}},
}
