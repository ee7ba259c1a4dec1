// Package flags declares the options of both commands under vLLM's names.
//
// Common holds what both must agree on, Core and Frontend what one of them
// serves. Each command also knows the other's flags, so that it can say where
// they belong, and every other flag of `vllm serve`, so that it can say why it
// is refused (refused.go).
package flags

import (
	"math"
	"slices"

	"govllm/cmd/internal/cli"
	"govllm/cmd/internal/logging"
)

// The names of the two commands.
const (
	CoreCommand     = "vllm-core"
	FrontendCommand = "vllm-frontend"
)

// Common are the options of both processes.
type Common struct {
	Hub
	Model           string
	MaxModelLen     int // tokens; 0: the model's own limit
	MaxLogprobs     int // -1: the whole vocabulary
	HandshakeHost   string
	HandshakePort   int
	Handshake       string // tcp://host:port; overrides the two above
	DisableLogStats bool
	KVCacheMetrics  bool
	ShutdownTimeout int // seconds; 0: abort at once
	LogLevel        string
	LoggingConfig   map[string]any
}

// Logging is what the two options of logging say together.
func (c *Common) Logging() (logging.Config, error) {
	return logging.New(c.LoggingConfig, c.LogLevel)
}

// HandshakeAddress returns the ZeroMQ endpoint where the processes meet.
func (c *Common) HandshakeAddress() string {
	if c.Handshake != "" {
		return c.Handshake
	}
	return tcpEndpoint(c.HandshakeHost, c.HandshakePort)
}

// Core are the options of vllm-core.
type Core struct {
	Common
	Rank                      int
	Device                    string
	Threads                   int
	DType                     string
	LoadFormat                string
	Quantization              string // "": as the checkpoint says
	MaxNumSeqs                int
	MaxNumBatchedTokens       int
	LongPrefillTokenThreshold int
	SchedulingPolicy          string
	AsyncScheduling           bool
	BlockSize                 int
	KVCacheBytes              int // 0: from VLLM_CPU_KVCACHE_SPACE, else by the machine
	KVCacheSpaceGiB           float64
	KVCacheDType              string
	NumBlocksOverride         int
	EnablePrefixCaching       bool
	PrefixCachingHashAlgo     string
	Seed                      int
	LogprobsMode              string
	StepStatsInterval         float64 // seconds
	KVCacheMetricsSample      float64
	MFUMetrics                bool
	IterationDetails          bool
	MockStepTime              float64 // seconds
}

// Frontend are the options of vllm-frontend.
type Frontend struct {
	Common
	Answers
	ServedModelNames         []string
	Tokenizer                string
	TokenizerRevision        string
	ChatTemplate             string
	ResponseRole             string
	GenerationConfig         string
	OverrideGenerationConfig map[string]any
	NumEngines               int
	ErrorFormat              string
	HTTP
	ServerLoadTracking     bool
	LogStatsInterval       float64 // seconds
	CustomHistogramBuckets map[string]any
	ShowHiddenMetrics      string // a version
	AggregateEngineLogging bool
	MetricsJSON            bool
	EngineStallTimeout     float64 // seconds; 0: never
	StallFailsHealth       bool
}

// NewCore returns vllm-core's options with their defaults, and their flags.
func NewCore() (*Core, *cli.Set) {
	c := &Core{
		Common:              defaultCommon(),
		Device:              "cpu",
		DType:               "auto",
		LoadFormat:          "auto",
		MaxNumSeqs:          128,
		MaxNumBatchedTokens: 2048,
		SchedulingPolicy:    "fcfs",
		BlockSize:           32,
		KVCacheDType:        "auto",
		LogprobsMode:        "raw_logprobs",
		StepStatsInterval:   0.5,

		KVCacheMetricsSample: 0.01,

		EnablePrefixCaching:   true,
		PrefixCachingHashAlgo: "sha256",
	}
	mine := append(commonFlags(&c.Common), coreFlags(c)...)
	other := slices.Concat(frontendFlags(&Frontend{}), httpFlags(&HTTP{}))
	return c, newSet(CoreCommand, coreSummary, mine, other, FrontendCommand)
}

// NewFrontend returns vllm-frontend's options with their defaults, and their
// flags.
func NewFrontend() (*Frontend, *cli.Set) {
	f := &Frontend{
		Answers:          defaultAnswers(),
		Common:           defaultCommon(),
		ResponseRole:     "assistant",
		ErrorFormat:      "vllm",
		GenerationConfig: "auto",
		NumEngines:       1,
		HTTP:             defaultHTTP(),
		LogStatsInterval: 10,

		EngineStallTimeout: 30,
	}
	mine := slices.Concat(commonFlags(&f.Common), frontendFlags(f), httpFlags(&f.HTTP))
	other := coreFlags(&Core{})
	return f, newSet(FrontendCommand, frontendSummary, mine, other, CoreCommand)
}

const coreSummary = `
usage: vllm-core [MODEL] [flags]

The engine core: scheduler, paged KV cache and model. It connects to a
vllm-frontend (or to vLLM's own) at --data-parallel-address and
--data-parallel-rpc-port, in whichever order the two are started.`

const frontendSummary = `
usage: vllm-frontend [MODEL] [flags]
       vllm-frontend top [URL]        shows a running server in the terminal

The OpenAI-compatible API and /metrics. It waits for one or more vllm-core (or
vLLM engine) processes at --data-parallel-address and --data-parallel-rpc-port.`

func defaultCommon() Common {
	return Common{Model: "builtin", MaxLogprobs: 20, HandshakeHost: "127.0.0.1", HandshakePort: 29550}
}

// newSet joins a command's own flags, those of the other command and those
// that are refused. A flag that both serve is the command's own.
func newSet(command, summary string, mine, others []cli.Flag, other string) *cli.Set {
	set := &cli.Set{Command: command, Summary: summary, Positional: "model", Flags: mine}
	known := map[string]bool{}
	for _, f := range mine {
		known[f.Name] = true
	}
	for _, f := range others {
		if !known[f.Name] {
			known[f.Name] = true
			set.Flags = append(set.Flags, cli.Flag{Name: f.Name, Aliases: f.Aliases, Value: f.Value, Other: other})
		}
	}
	for _, r := range refused {
		for _, name := range r.names {
			if !known[name] {
				set.Flags = append(set.Flags, cli.Flag{Name: name, Refusal: r.reason})
			}
		}
	}
	return set
}

func commonFlags(c *Common) []cli.Flag {
	return append([]cli.Flag{
		{Name: "model", Group: "Model", Help: "a directory in Hugging Face form, a .gguf file, a repository of the Hugging Face hub (OWNER/NAME, or OWNER/NAME:Q4_K_M for one of its GGUF files), or builtin: the small model inside this program", Value: cli.String(&c.Model)},
		{Name: "max-model-len", Group: "Model", Help: "longest prompt plus output in tokens; from the model's config if not given", Value: cli.AutoInt(&c.MaxModelLen, 1, math.MaxInt32)},
		{Name: "max-logprobs", Group: "Model", Help: "most log probabilities that a request may ask for, of each token; -1: the whole vocabulary", Value: cli.Int(&c.MaxLogprobs, -1, math.MaxInt32)},
		{Name: "trust-remote-code", Group: "Model", Help: "no code comes with a model here", Value: cli.FixedSwitch(false, "a model's own code is never run")},

		{Name: "data-parallel-address", Aliases: []string{"handshake-host"}, Group: "Processes", Help: "address where frontend and cores meet", Value: cli.String(&c.HandshakeHost)},
		{Name: "data-parallel-rpc-port", Aliases: []string{"handshake-port"}, Group: "Processes", Help: "port where frontend and cores meet; the frontend listens", Value: cli.Int(&c.HandshakePort, 1, 65535)},
		{Name: "handshake-address", Group: "Processes", Help: "both of the above as one endpoint, tcp://HOST:PORT", Value: cli.String(&c.Handshake)},
		{Name: "tensor-parallel-size", Short: "-tp", Group: "Processes", Help: "devices that share one copy of the model", Value: cli.Fixed("1", "a model runs on one device")},
		{Name: "pipeline-parallel-size", Short: "-pp", Group: "Processes", Help: "devices in a row", Value: cli.Fixed("1", "a model runs on one device")},
		{Name: "shutdown-timeout", Group: "Processes", Help: "seconds that running requests may take to finish after SIGTERM; 0 aborts them at once", Value: cli.Int(&c.ShutdownTimeout, 0, 86400)},
		{Name: "config", Group: "Processes", Help: "YAML file of flags; the command line wins. One file can serve both commands", Value: cli.String(new(string))},

		{Name: "kv-cache-metrics", Group: "Observability", Help: "how long KV blocks live, lie idle and wait for reuse; give it to core and frontend", Value: cli.Bool(&c.KVCacheMetrics)},
		{Name: "disable-log-stats", Group: "Observability", Help: "no statistics: no engine metrics and no log line", Value: cli.Bool(&c.DisableLogStats)},
		{Name: "log-level", Group: "Logging", Help: "least level that is logged: DEBUG, INFO, WARNING or ERROR; VLLM_LOGGING_LEVEL or INFO if not given", Value: cli.String(&c.LogLevel)},
		{Name: "logging-config", Group: "Logging", Help: "the same as log_level, and formatter: text or json", Value: cli.JSON(&c.LoggingConfig)},
	}, hubFlags(&c.Hub)...)
}

func coreFlags(c *Core) []cli.Flag {
	return []cli.Flag{
		{Name: "dtype", Group: "Model", Help: "type of the weights; auto: the checkpoint's", Value: cli.Enum(&c.DType, "auto", "float32", "float", "bfloat16", "float16", "half")},
		{Name: "load-format", Group: "Model", Help: "how weights are stored; auto: as the model's files are; dummy: random weights, none are read", Value: cli.Enum(&c.LoadFormat, "auto", "safetensors", "gguf", "dummy")},
		{Name: "quantization", Group: "Model", Help: "what the checkpoint is quantized by, which it says itself; another is refused", Value: cli.Enum(&c.Quantization, "awq", "awq_marlin", "gptq", "gptq_marlin", "compressed-tensors", "gguf")},
		{Name: "seed", Group: "Model", Help: "of sampling, for requests without their own", Value: cli.Int(&c.Seed, math.MinInt, math.MaxInt)},
		{Name: "logprobs-mode", Group: "Model", Help: "log probabilities before (raw) or after (processed) penalties, temperature and filters", Value: cli.Enum(&c.LogprobsMode, "raw_logprobs", "processed_logprobs")},
		{Name: "data-parallel-rank", Aliases: []string{"dp-rank"}, Group: "Processes", Help: "number of this core among those of one frontend", Value: cli.Int(&c.Rank, 0, 65535)},
		{Name: "device", Group: "Device", Help: "where the model runs: cpu; ref, the plain definition of every kernel; or mock, random tokens at once, to measure all the rest", Value: cli.Enum(&c.Device, "cpu", "ref", "mock")},
		{Name: "cpu-threads", Group: "Device", Help: "threads that compute; one per core if not given", Value: cli.OptInt(&c.Threads, 1, 1024)},

		{Name: "max-num-seqs", Group: "Scheduler", Help: "requests that may run at once", Value: cli.Int(&c.MaxNumSeqs, 1, 1<<20)},
		{Name: "max-num-batched-tokens", Group: "Scheduler", Help: "tokens that one step may compute", Value: cli.Int(&c.MaxNumBatchedTokens, 1, 1<<24)},
		{Name: "enable-chunked-prefill", Group: "Scheduler", Help: "long prompts share steps with other requests", Value: cli.FixedSwitch(true, "every step is planned that way")},
		{Name: "long-prefill-token-threshold", Group: "Scheduler", Help: "most tokens of one prompt in a step; 0 for no such limit", Value: cli.Int(&c.LongPrefillTokenThreshold, 0, math.MaxInt32)},
		{Name: "scheduling-policy", Group: "Scheduler", Help: "order of waiting requests", Value: cli.Enum(&c.SchedulingPolicy, "fcfs", "priority")},
		{Name: "async-scheduling", Group: "Scheduler", Help: "plan a step while the device computes the one before; the text is the same", Value: cli.Bool(&c.AsyncScheduling)},

		{Name: "block-size", Group: "KV cache", Help: "tokens in a block", Value: cli.Int(&c.BlockSize, 1, 4096)},
		{Name: "kv-cache-memory-bytes", Group: "KV cache", Help: "size of the cache; if not given, the smaller of 4 GiB and a quarter of the memory that this process may use", Value: cli.OptInt(&c.KVCacheBytes, 1, math.MaxInt)},
		{Name: "kv-cache-space", Group: "KV cache", Help: "the same in GiB", Env: "VLLM_CPU_KVCACHE_SPACE", Value: cli.OptFloat(&c.KVCacheSpaceGiB, 0, 1<<20)},
		{Name: "num-gpu-blocks-override", Group: "KV cache", Help: "number of blocks, whatever the memory says", Value: cli.OptInt(&c.NumBlocksOverride, 2, math.MaxInt32)},
		{Name: "kv-cache-dtype", Group: "KV cache", Help: "type of cached keys and values; auto: the weights'", Value: cli.Enum(&c.KVCacheDType, "auto", "float32", "bfloat16", "float16")},
		{Name: "enable-prefix-caching", Group: "KV cache", Help: "keep blocks for prompts that begin alike", Value: cli.Bool(&c.EnablePrefixCaching)},
		{Name: "prefix-caching-hash-algo", Group: "KV cache", Help: "hash that names a block", Value: cli.Enum(&c.PrefixCachingHashAlgo, "sha256", "sha256_cbor", "xxhash")},

		{Name: "kv-cache-metrics-sample", Group: "Observability", Help: "share of the blocks that --kv-cache-metrics follows", Value: cli.Float(&c.KVCacheMetricsSample, 1e-9, 1)},
		{Name: "enable-mfu-metrics", Group: "Observability", Help: "estimate the operations and the memory traffic of each step", Value: cli.Bool(&c.MFUMetrics)},
		{Name: "enable-logging-iteration-details", Group: "Observability", Help: "have the frontend log a line for each step", Value: cli.Bool(&c.IterationDetails)},
		{Name: "mock-step-time", Group: "Device", Help: "seconds that each step of --device mock takes", Value: cli.Float(&c.MockStepTime, 0, 3600)},
		{Name: "step-stats-interval", Group: "Observability", Help: "seconds that a step may take before statistics are sent without waiting for its end, and then as often", Value: cli.Float(&c.StepStatsInterval, 0.01, 3600)},
	}
}

func frontendFlags(f *Frontend) []cli.Flag {
	return append(answerFlags(&f.Answers), []cli.Flag{
		{Name: "served-model-name", Group: "Server", Help: "names that clients may give as model; the first is shown and labels the metrics", Value: cli.Strings(&f.ServedModelNames)},
		{Name: "response-role", Group: "Server", Help: "role of chat replies", Value: cli.String(&f.ResponseRole)},
		{Name: "error-format", Group: "Server", Help: "shape of error bodies: vllm (its Python server's, with the status as code) or openai (OpenAI's types and codes)", Value: cli.Enum(&f.ErrorFormat, "vllm", "openai")},
		{Name: "enable-server-load-tracking", Group: "Server", Help: "count requests in flight for GET /load", Value: cli.Bool(&f.ServerLoadTracking)},

		{Name: "tokenizer", Group: "Model", Help: "where the tokenizer is, if not with the model; any form that --model takes", Value: cli.String(&f.Tokenizer)},
		{Name: "tokenizer-revision", Group: "Model", Help: "branch, tag or commit of the tokenizer's repository; the model's if it is the same one", Value: cli.String(&f.TokenizerRevision)},
		{Name: "chat-template", Group: "Model", Help: "file with a Jinja chat template, or the template itself", Value: cli.String(&f.ChatTemplate)},
		{Name: "generation-config", Group: "Model", Help: "where sampling defaults come from: auto (the model), vllm (none) or a directory", Value: cli.String(&f.GenerationConfig)},
		{Name: "override-generation-config", Group: "Model", Help: "sampling defaults that win over those", Value: cli.JSON(&f.OverrideGenerationConfig)},

		{Name: "data-parallel-size", Short: "-dp", Group: "Processes", Help: "cores to wait for", Value: cli.Int(&f.NumEngines, 1, 4096)},
		{Name: "data-parallel-size-local", Group: "Processes", Help: "cores that this process starts itself", Value: cli.Fixed("0", "cores are processes of their own; start vllm-core")},
		{Name: "api-server-count", Group: "Processes", Help: "API processes", Value: cli.Fixed("1", "one process uses all cores")},
		{Name: "custom-histogram-buckets", Group: "Observability", Help: "bounds by family, such as {\"request_latency\": [0.01, 0.1, 1]}, or \"fine\" for more at the low end", Value: cli.JSON(&f.CustomHistogramBuckets)},
		{Name: "show-hidden-metrics-for-version", Group: "Observability", Help: "export metrics too that this release of vLLM still had, such as 0.10", Value: cli.String(&f.ShowHiddenMetrics)},
		{Name: "enable-metrics-json", Group: "Observability", Help: "serve the metrics at GET /metrics.json too, as typed records", Value: cli.Bool(&f.MetricsJSON)},
		{Name: "aggregate-engine-logging", Group: "Observability", Help: "one log line of statistics for all cores", Value: cli.Bool(&f.AggregateEngineLogging)},
		{Name: "engine-stall-timeout", Group: "Observability", Help: "seconds that a core with requests may complete no step, and at least 10 times its longest one, before it counts as stalled and GET /ready fails; 0: it never does", Value: cli.Float(&f.EngineStallTimeout, 0, 86400)},
		{Name: "stall-fails-health", Group: "Observability", Help: "GET /health fails too while a core is stalled, so that it is restarted", Value: cli.Bool(&f.StallFailsHealth)},
		{Name: "log-stats-interval", Group: "Observability", Help: "seconds between log lines of statistics", Env: "VLLM_LOG_STATS_INTERVAL", Value: cli.Float(&f.LogStatsInterval, 0, 86400)},
	}...)
}
