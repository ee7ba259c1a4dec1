// Package kernels is the boundary between the model and the machine: one
// interface that every backend implements.
//
// A Device owns memory; a Queue records one step's operations and runs them in
// order. Recording is cheap and returns nothing: only Sync waits, and only
// after Sync may downloaded values be read. The CPU backend runs a whole step
// behind one C call, a GPU backend enqueues on its stream.
//
// Buffers are opaque: the layout of weights, activations and KV cache is the
// backend's own business, and so is the arithmetic type of activations. Every
// backend keeps this promise: what a row computes depends on that row (and the
// KV cache it reads) alone, never on its batch mates, on how a prompt was cut
// into chunks, on the block size or on the number of threads. So the order in
// which a sum over K or over the context is taken is fixed by absolute
// positions, and equal for one row and for many.
//
// Shape errors are ours and panic while recording; device failures come from
// Sync.
package kernels

import "fmt"

// DType is the type of one number in a file, a weight or a KV cache.
type DType uint8

const (
	F32 DType = iota + 1
	BF16
	F16
)

// Size returns the bytes of one value.
func (t DType) Size() int {
	if t == F32 {
		return 4
	}
	return 2
}

// String returns the spelling of vLLM's flags and of config.json.
func (t DType) String() string {
	switch t {
	case F32:
		return "float32"
	case BF16:
		return "bfloat16"
	case F16:
		return "float16"
	}
	return "invalid"
}

// Weight is a packed matrix [N, K] (or a table [rows, cols]) of one Device.
type Weight interface{ WeightShape() (n, k int) }

// Vector is a float32 vector of constants (norm weights, biases, rope tables).
type Vector interface{ Len() int }

// Activation holds up to Rows rows of Cols values of a step.
type Activation interface{ ActivationShape() (rows, cols int) }

// Ints is an int32 array: token IDs, positions, slots, block tables.
type Ints interface{ Len() int }

// KVCache is the paged cache of all layers.
type KVCache interface{ KVShape() KVShape }

// KVShape describes a KV cache. Its bytes are
// Layers × NumBlocks × BlockSize × KVHeads × HeadDim × 2 × DType.Size(),
// rounded up as the backend needs.
type KVShape struct {
	Layers    int
	NumBlocks int // block 0 is the null block and never holds data
	BlockSize int // tokens
	KVHeads   int
	HeadDim   int
	DType     DType
}

// BlockBytes returns the bytes that one block takes over all layers.
func (s KVShape) BlockBytes() int64 {
	return int64(s.Layers) * int64(s.BlockSize) * int64(s.KVHeads) * int64(s.HeadDim) * 2 * int64(s.DType.Size())
}

// Options configures a Device.
type Options struct {
	// Threads that compute, this step's caller included; 0 means one per core
	// that the process may use.
	Threads int
	// ISA forces a lower level of the CPU backend ("generic", "avx2", …); ""
	// takes the best the machine has.
	ISA string
}

// Caps says what a Device can do, so that flags are refused at start by name.
type Caps struct {
	WeightDTypes []DType // that NewWeight knows
	KVDTypes     []DType
	// BlockSizeMultiple divides every block size the device accepts.
	BlockSizeMultiple int
	MaxHeadDim        int
}

// Device owns memory and packs what is constant. Its methods may be called
// from one goroutine at a time, but for Pack.
type Device interface {
	Name() string // "ref", "cpu (avx2, 2 threads)", …
	Caps() Caps

	// NewWeight allocates a matrix [n, k] of the wanted type in the device's own
	// layout, all zeros; Pack fills it. Its memory is taken when it is written.
	NewWeight(want DType, n, k int) (Weight, error)
	// Pack writes rows [row, row+len(src)/(k·srcType.Size())) of w, converted
	// from the row-major little-endian matrix src, which is not kept. Unlike
	// the other methods it may be called from several goroutines at a time, if
	// no two write the same row, so that loading can read, decode and pack
	// piece by piece.
	Pack(w Weight, row int, srcType DType, src []byte) error
	// NewVector keeps float32 constants.
	NewVector(values []float32) (Vector, error)
	NewActivation(rows, cols int) (Activation, error)
	NewInts(n int) (Ints, error)
	NewKVCache(shape KVShape) (KVCache, error)

	// WeightBytes and KVCacheBytes are what NewWeight and NewKVCache take.
	WeightBytes(want DType, n, k int) int64
	KVCacheBytes(shape KVShape) int64

	// NewQueue returns the queue of a step loop that never schedules more than
	// maxOps operations between two Syncs.
	NewQueue(maxOps int) (Queue, error)

	Close() error
}

// PackWeight makes a Weight of one whole matrix.
func PackWeight(dev Device, want DType, n, k int, srcType DType, src []byte) (Weight, error) {
	if n <= 0 || k <= 0 || len(src) != n*k*srcType.Size() {
		return nil, fmt.Errorf("kernels: %d bytes of %v are no [%d, %d] matrix", len(src), srcType, n, k)
	}
	w, err := dev.NewWeight(want, n, k)
	if err != nil {
		return nil, err
	}
	return w, dev.Pack(w, 0, srcType, src)
}

// AttnShape is what every attention operation of a layer shares.
type AttnShape struct {
	Heads   int
	KVHeads int // divides Heads; query head h reads KV head h/(Heads/KVHeads)
	HeadDim int
	Scale   float32 // of q·k, usually 1/√HeadDim
	// Window > 0 lets a query see only the last Window positions, its own
	// included.
	Window int
	// SoftCap > 0 bounds scores to SoftCap·tanh(score/SoftCap).
	SoftCap float32
}

// Batch describes the sequences of a step for attention. All arrays were
// uploaded in this step.
//
//	QueryStart [NumSeqs+1]          row where each sequence's queries begin
//	SeqLens    [NumSeqs]            tokens in the cache after this step's writes
//	BlockTable [NumSeqs, MaxBlocks] block IDs in order; entries past the length are not read
//
// Row r of sequence s is the query at position
// SeqLens[s] − (QueryStart[s+1] − QueryStart[s]) + (r − QueryStart[s]).
type Batch struct {
	NumSeqs    int
	MaxBlocks  int
	QueryStart Ints
	SeqLens    Ints
	BlockTable Ints
}

// RopeStyle says which two values of a head turn together.
type RopeStyle uint8

const (
	RopeNeoX        RopeStyle = iota // i and i+rotary/2 (Llama, Qwen as HF stores them)
	RopeInterleaved                  // 2i and 2i+1
)

// Rope describes rotary embedding of a layer.
//
//	Cos, Sin [maxPosition, RotaryDim/2]
type Rope struct {
	Style     RopeStyle
	RotaryDim int // ≤ HeadDim; the rest of a head passes unturned
	Cos, Sin  Vector
}

// GateKind is the activation of a gated MLP.
type GateKind uint8

const (
	SiLU     GateKind = iota // x·σ(x)
	GELUTanh                 // the tanh approximation
)

// SamplingRow is one row of Sample. The zero TopK, TopP = 1, MinP = 0 switch
// their filter off; the zero value of what follows Position changes no logit.
type SamplingRow struct {
	Temperature float32 // 0: the highest logit, the lowest ID among equals
	TopP        float32
	MinP        float32
	TopK        int32
	// Seed and Position (tokens generated so far) choose the random number:
	// the same pair gives the same draw in any batch.
	Seed     uint64
	Position uint64

	// What changes logits first, in this order. The slices are read while
	// recording only; an ID beyond the row changes nothing.
	Allowed []int32     // not nil: every other token's logit becomes −∞
	Banned  []int32     // logit −∞: bad words, the stop tokens below min_tokens
	Bias    []TokenBias // is added
	// Seen lists the tokens so far, each ID once. The logit x of each becomes
	// x/Repetition if above 0, else x·Repetition (Repetition 0 is off); then
	// Frequency·Output is taken off, and Presence if Output > 0.
	Seen                            []TokenCount
	Repetition, Frequency, Presence float32
}

// TokenBias is what is added to one token's logit.
type TokenBias struct {
	ID   int32
	Bias float32
}

// TokenCount is a token of the prompt or the output, and how often it stands in
// the output.
type TokenCount struct{ ID, Output int32 }

// LogprobRow asks for log probabilities from one row of logits: of the chosen
// token, then of the K most likely ones, or of IDs instead if there are any.
type LogprobRow struct {
	Row int // of the logits, and of what was chosen there
	K   int
	IDs []int32 // read while recording only
}

// Width is how many log probabilities the row gets.
func (r *LogprobRow) Width() int {
	if len(r.IDs) > 0 {
		return 1 + len(r.IDs)
	}
	return 1 + r.K
}

// Logprobs is where log probabilities go. TokenIDs and Values hold the widths
// of all rows one after the other, Ranks one number a row.
type Logprobs struct {
	TokenIDs []int32
	Values   []float32
	Ranks    []int32
}

// Queue records operations. T is the number of rows a step computes; each
// operation touches rows [0, T) of its activations. Buffers passed to Upload
// are copied while recording; those of Download are written by Sync.
type Queue interface {
	Upload(dst Ints, src []int32)
	Download(dst []int32, src Ints)
	// DownloadRows copies rows [0, n) of an activation as float32, row-major
	// [n, cols]. For tests, logprobs and debugging.
	DownloadRows(dst []float32, src Activation, n int)

	// Embed sets out[t] = table[ids[t]]·scale.
	Embed(out Activation, table Weight, ids Ints, scale float32, T int)

	// RMSNorm sets out[t] = x[t]/√(mean(x[t]²)+eps)·w. out may be x.
	RMSNorm(out, x Activation, w Vector, eps float32, T int)

	// AddRMSNorm adds x[t]/√(mean(x[t]²)+eps)·w to out[t]. out must not be x.
	AddRMSNorm(out, x Activation, w Vector, eps float32, T int)

	// Linear sets out[t] = w·x[t] + bias, or adds that to out when accumulate.
	// bias may be nil. out must not be x.
	Linear(out, x Activation, w Weight, bias Vector, accumulate bool, T int)

	// GateMul sets out[t, i] = gate(gu[t, i])·gu[t, F+i], where gu comes from
	// a Linear over a weight whose rows are gate's, then up's, and F = cols(out).
	GateMul(out, gu Activation, kind GateKind, T int)

	// Route picks k columns of each row of logits: the highest, in descending
	// order, the lower column among equals. ids[t·k+j] is the j-th, weights[t, j]
	// its part of the softmax over all columns, or, if normalize, over those
	// picked.
	Route(ids Ints, weights, logits Activation, k int, normalize bool, T int)

	// LinearEach sets out[s] = ws[ids[s]]·x[s/each] for s < S. The matrices have
	// one shape and type. out must not be x.
	LinearEach(out, x Activation, ws []Weight, ids Ints, each, S int)

	// AddWeighted adds Σⱼ weights[t, j]·x[t·k+j] to out[t], where k is the columns
	// of weights. out must not be x.
	AddWeighted(out, x, weights Activation, T int)

	// SoftCap sets x[t, i] to cap·tanh(x[t, i]/cap); cap is positive.
	SoftCap(x Activation, cap float32, T int)

	// RopeKVWrite takes qkv[t] = (q heads, k heads, v heads), turns q and k by
	// positions[t], writes q back into qkv and k, v into the cache at
	// slots[t] = blockID·BlockSize + offset of the given layer. qNorm and
	// kNorm, if not nil, are RMSNorm weights [HeadDim] applied per head first.
	// The k and v of qkv are undefined afterwards: read them from the cache.
	RopeKVWrite(qkv Activation, kv KVCache, layer int, positions, slots Ints,
		rope Rope, shape AttnShape, qNorm, kNorm Vector, eps float32, T int)

	// PagedAttention sets out[t] (Heads·HeadDim) to softmax(q·kᵀ·scale)·v over
	// the cached positions up to t's own. K and V are always read from the
	// cache, and all of a layer's writes precede its reads.
	// Source: Kwon et al. 2023, §4.1.
	PagedAttention(out, qkv Activation, kv KVCache, layer int, b Batch, shape AttnShape, T int)

	// GatherRows sets out[i] = x[rows[i]] for i < n.
	GatherRows(out, x Activation, rows Ints, n int)

	// Sample draws one token per row of logits [0, n), which stay as they are.
	//
	// What SamplingRow lists changes the logits first, each operation rounded
	// to float32 by itself. Then temperature scales, and min-p, top-k and top-p
	// filter on the probabilities (as vLLM V1 does: min-p on the full
	// distribution; top-p keeps the smallest set of most likely tokens whose
	// mass reaches it, always at least one). The draw is by inverse CDF over
	// the kept tokens in ascending ID order with a Philox4x32-10 number of
	// (Seed, Position).
	//
	// A row that holds a NaN, or whose highest logit is not finite, draws −1.
	Sample(out Ints, logits Activation, rows []SamplingRow)

	// Process overwrites rows [0, n) of logits by those that Sample draws from:
	// changed, divided by the temperature, and −∞ where a filter drops the
	// token. Without temperature they are only changed.
	Process(logits Activation, rows []SamplingRow)

	// Logprobs takes log-softmax of rows of logits, as float32 with an error
	// below 1e-6·(1+|x|). chosen holds a token for each row of logits that is
	// asked about. Its rank is how many logits are at least its own. The most
	// likely tokens come in descending order of logit, equal ones by ID. In a
	// row without a distribution (see Sample), and for an ID beyond the row,
	// the value is NaN, the rank 1. out is written by Sync.
	Logprobs(out Logprobs, logits Activation, chosen Ints, rows []LogprobRow)

	// CopyBlocks copies whole blocks of every layer: pairs [n, 2] from, to.
	CopyBlocks(kv KVCache, pairs Ints, n int)

	// Sync runs what was recorded, in order, waits, and empties the queue. It
	// returns the device's failure, after which the device is unusable: an
	// ErrIndex where an Ints holds a number that points outside.
	Sync() error
}
