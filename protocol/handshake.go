package protocol

import "fmt"

// Handshake statuses. Refused is ours: a frontend answers it to a HELLO that
// it cannot accept; foreign engines fail on it, having found no addresses.
const (
	StatusHello   = "HELLO"
	StatusReady   = "READY"
	StatusRefused = "REFUSED"
)

// Hello is what an engine says on the handshake socket: HELLO when it starts,
// READY when it can serve.
//
// Source: vllm/v1/engine/core.py, startup_handshake and perform_handshakes.
type Hello struct {
	Status   string // StatusHello or StatusReady
	Local    bool   // a child on the frontend's host
	Headless bool   // started without an API server
	// ParallelConfigHash is sent with READY in coordinated data parallelism.
	ParallelConfigHash string
}

// Addresses are the sockets an engine connects to. Inputs[k] and Outputs[k]
// belong to the frontend process k, the client_index of its requests. The
// coordinator's are "" where there is none.
//
// Source: vllm/v1/engine/utils.py, EngineZmqAddresses.
type Addresses struct {
	Inputs                      []string
	Outputs                     []string
	CoordinatorInput            string
	CoordinatorOutput           string
	FrontendStatsPublishAddress string
}

// Init answers a HELLO.
//
// Source: vllm/v1/engine/utils.py, EngineHandshakeMetadata.
type Init struct {
	Addresses Addresses
	// ParallelConfig is empty but for coordinated data parallelism.
	ParallelConfig map[string]any
	// Heartbeats says that the frontend is ours and notices missing ones: key
	// "govllm_heartbeats", absent in foreign messages and skipped by them.
	Heartbeats bool
	// Refusal is the frontend's sentence when it does not want this engine;
	// the other fields are then empty.
	Refusal string
}

// Registration tells a frontend what the engine serves. It is the first and
// only message an engine sends on each input socket.
//
// Source: vllm/v1/engine/__init__.py, EngineCoreReadyResponse.
type Registration struct {
	MaxModelLen                int // tokens
	NumGPUBlocks               int // KV blocks, whatever the device
	BlockSize                  int // tokens
	DPStatsAddress             string
	DType                      string // "float16", "bfloat16" or "float32"
	VLLMVersion                string
	WorldSize                  int
	DataParallelSize           int
	TensorParallelSize         int
	PipelineParallelSize       int
	DecodeContextParallelSize  int
	DataParallelRank           int
	MaxNumSeqs                 int
	MaxNumBatchedTokens        int
	InstanceID                 string
	KVCacheSizeTokens          int     // 0 when nil
	KVCacheMaxConcurrency      float64 // 0 when nil
	SupportsLoRA               bool
	MaxLoRAs                   int
	EnableSleepMode            bool
	SupportsDraftWeightUpdates bool
	// EffectiveAttentionBlockSize in tokens, 0 when nil.
	EffectiveAttentionBlockSize int

	// Ours: keys "govllm_cache_dtype" and "govllm_prefix_caching", which
	// foreign frontends skip; "" and nil where an engine does not tell.
	CacheDType          string
	EnablePrefixCaching *bool
}

// AppendHello appends h, the keys in vLLM's order.
func AppendHello(b []byte, h *Hello) []byte {
	n := 3
	if h.ParallelConfigHash != "" {
		n++
	}
	b = appendMapLen(b, n)
	b = appendStr(appendStr(b, "status"), h.Status)
	b = appendBool(appendStr(b, "local"), h.Local)
	b = appendBool(appendStr(b, "headless"), h.Headless)
	if h.ParallelConfigHash != "" {
		b = appendStr(appendStr(b, "parallel_config_hash"), h.ParallelConfigHash)
	}
	return b
}

// DecodeHello reads a HELLO or READY; the error is a *FieldError.
func DecodeHello(payload []byte) (*Hello, error) {
	var r reader
	r.reset("Hello", [][]byte{payload})
	var h Hello
	r.eachKey(func(key string) bool {
		switch key {
		case "status":
			h.Status = r.str()
		case "local":
			h.Local = r.bool()
		case "headless":
			h.Headless = r.bool()
		case "parallel_config_hash":
			h.ParallelConfigHash = r.strOrNil()
		default:
			return false
		}
		return true
	})
	if h.Status != StatusHello && h.Status != StatusReady {
		r.at("status")
		r.record("want HELLO or READY", quote([]byte(h.Status)))
	}
	return &h, r.err()
}

// AppendInit appends an INIT, or the refusal in its place.
func AppendInit(b []byte, m *Init) []byte {
	if m.Refusal != "" {
		b = appendMapLen(b, 2)
		b = appendStr(appendStr(b, "status"), StatusRefused)
		return appendStr(appendStr(b, "error"), m.Refusal)
	}
	n := 2
	if m.Heartbeats {
		n++
	}
	b = appendMapLen(b, n)
	b = appendStr(b, "addresses")
	a := &m.Addresses
	b = appendMapLen(b, 5)
	b = appendStrs(appendStr(b, "inputs"), a.Inputs)
	b = appendStrs(appendStr(b, "outputs"), a.Outputs)
	b = appendStrOrNil(appendStr(b, "coordinator_input"), a.CoordinatorInput)
	b = appendStrOrNil(appendStr(b, "coordinator_output"), a.CoordinatorOutput)
	b = appendStrOrNil(appendStr(b, "frontend_stats_publish_address"), a.FrontendStatsPublishAddress)
	b = appendAny(appendStr(b, "parallel_config"), m.ParallelConfig)
	if m.Heartbeats {
		b = appendBool(appendStr(b, "govllm_heartbeats"), true)
	}
	return b
}

// DecodeInit reads an INIT or a refusal; the error is a *FieldError.
func DecodeInit(payload []byte) (*Init, error) {
	var r reader
	r.reset("Init", [][]byte{payload})
	var m Init
	var status string
	r.eachKey(func(key string) bool {
		switch key {
		case "addresses":
			r.addresses(&m.Addresses)
		case "parallel_config":
			if !r.null() {
				m.ParallelConfig = r.anyMap(0)
			}
		case "govllm_heartbeats":
			m.Heartbeats = r.boolOrNil()
		case "status":
			status = r.str()
		case "error":
			m.Refusal = r.str()
		default:
			return false
		}
		return true
	})
	a := &m.Addresses
	if status == StatusRefused {
		if m.Refusal == "" {
			m.Refusal = "no reason given"
		}
		return &m, r.err()
	}
	m.Refusal = ""
	if len(a.Inputs) == 0 || len(a.Inputs) != len(a.Outputs) {
		r.at("addresses")
		r.record("want as many inputs as outputs, one or more",
			fmt.Sprintf("%d and %d", len(a.Inputs), len(a.Outputs)))
	}
	return &m, r.err()
}

func (r *reader) addresses(a *Addresses) {
	r.eachKey(func(key string) bool {
		switch key {
		case "inputs":
			a.Inputs = r.strs(nil)
		case "outputs":
			a.Outputs = r.strs(nil)
		case "coordinator_input":
			a.CoordinatorInput = r.strOrNil()
		case "coordinator_output":
			a.CoordinatorOutput = r.strOrNil()
		case "frontend_stats_publish_address":
			a.FrontendStatsPublishAddress = r.strOrNil()
		default:
			return false
		}
		return true
	})
}

// AppendRegistration appends every key that any version of vLLM requires or
// knows, in its order.
func AppendRegistration(b []byte, g *Registration) []byte {
	n := 28
	if g.CacheDType != "" {
		n++
	}
	if g.EnablePrefixCaching != nil {
		n++
	}
	b = appendMapLen(b, n)
	num := func(key string, v int) { b = appendInt(appendStr(b, key), int64(v)) }
	str := func(key, v string) { b = appendStr(appendStr(b, key), v) }
	num("max_model_len", g.MaxModelLen)
	num("num_gpu_blocks", g.NumGPUBlocks)
	num("block_size", g.BlockSize)
	b = appendStrOrNil(appendStr(b, "dp_stats_address"), g.DPStatsAddress)
	str("dtype", g.DType)
	str("vllm_version", g.VLLMVersion)
	num("world_size", g.WorldSize)
	num("data_parallel_size", g.DataParallelSize)
	num("tensor_parallel_size", g.TensorParallelSize)
	num("pipeline_parallel_size", g.PipelineParallelSize)
	num("decode_context_parallel_size", g.DecodeContextParallelSize)
	num("data_parallel_rank", g.DataParallelRank)
	num("max_num_seqs", g.MaxNumSeqs)
	num("max_num_batched_tokens", g.MaxNumBatchedTokens)
	str("instance_id", g.InstanceID)
	b = appendBool(appendStr(b, "supports_lora"), g.SupportsLoRA)
	num("max_loras", g.MaxLoRAs)
	b = appendNil(appendStr(b, "mamba_block_size"))
	b = appendIntOrNil(appendStr(b, "kv_cache_size_tokens"), g.KVCacheSizeTokens)
	b = appendStr(b, "kv_cache_max_concurrency")
	if g.KVCacheMaxConcurrency == 0 {
		b = appendNil(b)
	} else {
		b = appendFloat(b, g.KVCacheMaxConcurrency)
	}
	b = appendNil(appendStr(b, "kv_events_config"))
	b = appendNil(appendStr(b, "weight_transfer_backend"))
	b = appendBool(appendStr(b, "enable_sleep_mode"), g.EnableSleepMode)
	b = appendBool(appendStr(b, "supports_draft_weight_updates"), g.SupportsDraftWeightUpdates)
	b = appendIntOrNil(appendStr(b, "effective_attention_block_size"), g.EffectiveAttentionBlockSize)
	num("coord_store_port", 0)
	b = appendNil(appendStr(b, "coordinator_input_address"))
	b = appendNil(appendStr(b, "coordinator_output_address"))
	if g.CacheDType != "" {
		str("govllm_cache_dtype", g.CacheDType)
	}
	if g.EnablePrefixCaching != nil {
		b = appendBool(appendStr(b, "govllm_prefix_caching"), *g.EnablePrefixCaching)
	}
	return b
}

// DecodeRegistration reads what an engine serves; the error is a *FieldError.
// Keys that old versions lack stay zero.
func DecodeRegistration(payload []byte) (*Registration, error) {
	var r reader
	r.reset("EngineCoreReadyResponse", [][]byte{payload})
	var g Registration
	r.eachKey(func(key string) bool {
		switch key {
		case "max_model_len":
			g.MaxModelLen = r.intOrNil()
		case "num_gpu_blocks":
			g.NumGPUBlocks = r.intOrNil()
		case "block_size":
			g.BlockSize = r.intOrNil()
		case "dp_stats_address":
			g.DPStatsAddress = r.strOrNil()
		case "dtype":
			g.DType = r.strOrNil()
		case "vllm_version":
			g.VLLMVersion = r.strOrNil()
		case "world_size":
			g.WorldSize = r.intOrNil()
		case "data_parallel_size":
			g.DataParallelSize = r.intOrNil()
		case "tensor_parallel_size":
			g.TensorParallelSize = r.intOrNil()
		case "pipeline_parallel_size":
			g.PipelineParallelSize = r.intOrNil()
		case "decode_context_parallel_size":
			g.DecodeContextParallelSize = r.intOrNil()
		case "data_parallel_rank":
			g.DataParallelRank = r.intOrNil()
		case "max_num_seqs":
			g.MaxNumSeqs = r.intOrNil()
		case "max_num_batched_tokens":
			g.MaxNumBatchedTokens = r.intOrNil()
		case "instance_id":
			g.InstanceID = r.strOrNil()
		case "kv_cache_size_tokens":
			g.KVCacheSizeTokens = r.intOrNil()
		case "kv_cache_max_concurrency":
			g.KVCacheMaxConcurrency = r.floatOrNil()
		case "supports_lora":
			g.SupportsLoRA = r.boolOrNil()
		case "max_loras":
			g.MaxLoRAs = r.intOrNil()
		case "enable_sleep_mode":
			g.EnableSleepMode = r.boolOrNil()
		case "supports_draft_weight_updates":
			g.SupportsDraftWeightUpdates = r.boolOrNil()
		case "effective_attention_block_size":
			g.EffectiveAttentionBlockSize = r.intOrNil()
		case "govllm_cache_dtype":
			g.CacheDType = r.strOrNil()
		case "govllm_prefix_caching":
			if !r.null() {
				caching := r.bool()
				g.EnablePrefixCaching = &caching
			}
		default:
			return false
		}
		return true
	})
	return &g, r.err()
}
