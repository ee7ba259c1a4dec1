package modelrunner

import (
	"errors"
	"fmt"
	"slices"

	"govllm/kernels"
)

// Config sizes a Runner. All fields are required, but for the switch at the end.
type Config struct {
	// MaxNumSeqs bounds the running requests, and so the rows.
	MaxNumSeqs int
	// MaxNumBatchedTokens bounds the tokens of one step (the token budget).
	MaxNumBatchedTokens int
	// MaxModelLen bounds the tokens of one sequence.
	MaxModelLen int
	// BlockSize is the tokens of a KV block, a multiple of what the device's
	// Caps say.
	BlockSize int
	// NumBlocks of the KV cache, the null block 0 included; see KVBlocks.
	NumBlocks int
	// KVDType of the cache; see model.ResolveKVDType.
	KVDType kernels.DType
	// ProcessedLogprobs takes the log probabilities of sampled tokens from the
	// distribution that they were drawn from, with penalties, temperature and
	// filters (--logprobs-mode processed_logprobs). Default: from the model's.
	// Those of prompts are always the model's, as in vLLM.
	ProcessedLogprobs bool
}

// Validate reports every field that a device with these caps can't serve.
func (c *Config) Validate(caps kernels.Caps) error {
	var errs []error
	must := func(ok bool, field string, value any, bound string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s = %v must be %s", field, value, bound))
		}
	}
	must(c.MaxNumSeqs >= 1, "max_num_seqs", c.MaxNumSeqs, "at least 1")
	must(c.MaxNumBatchedTokens >= c.MaxNumSeqs, "max_num_batched_tokens", c.MaxNumBatchedTokens,
		fmt.Sprintf("at least max_num_seqs = %d, so that every request can decode", c.MaxNumSeqs))
	must(c.MaxModelLen >= 1, "max_model_len", c.MaxModelLen, "at least 1")
	must(c.BlockSize >= 1 && c.BlockSize%max(caps.BlockSizeMultiple, 1) == 0, "block_size", c.BlockSize,
		fmt.Sprintf("a multiple of %d on this device", caps.BlockSizeMultiple))
	must(c.NumBlocks >= 2, "num_blocks", c.NumBlocks, "at least 2, as block 0 holds nothing")
	must(slices.Contains(caps.KVDTypes, c.KVDType), "kv_cache_dtype", c.KVDType, fmt.Sprintf("one of %v on this device", caps.KVDTypes))
	return errors.Join(errs...)
}

// minLogits keeps the pieces small in number that a prompt with log
// probabilities is cut into.
const minLogits = 64

// MaxLogits is how many rows of logits the workspace has.
func (c *Config) MaxLogits() int { return max(c.MaxNumSeqs, min(minLogits, c.MaxNumBatchedTokens)) }

// maxBlocks is the most blocks that one sequence can have.
func (c *Config) maxBlocks() int { return ceilDiv(c.MaxModelLen, c.BlockSize) }

func ceilDiv(a, b int) int { return (a + b - 1) / b }
