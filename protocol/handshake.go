package protocol

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
}
