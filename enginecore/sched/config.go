package sched

import (
	"errors"
	"fmt"

	"govllm/enginecore/kvcache"
)

// Policy says who is admitted first and who is preempted (--scheduling-policy).
type Policy string

const (
	// FCFS serves in order of addition and preempts the last admitted.
	FCFS Policy = "fcfs"
	// Priority serves by (priority, arrival), lower first, and preempts the
	// worst by the same order.
	Priority Policy = "priority"
)

// Policies lists the policies for flags and their help.
var Policies = []Policy{FCFS, Priority}

// Config is what the scheduler works within. DefaultConfig gives the defaults
// named here; counts of blocks and the model's limit have none.
type Config struct {
	// MaxNumSeqs is how many requests run at a time, and so the number of rows
	// of the runner's batch. Default 128.
	MaxNumSeqs int
	// MaxNumBatchedTokens is the token budget of a step. More lets prompts in
	// faster, less keeps the step, and so the time between tokens, short.
	// Default 2048.
	MaxNumBatchedTokens int
	// MaxModelLen bounds prompt + output, in tokens.
	MaxModelLen int
	// LongPrefillTokenThreshold caps what one request gets of a step's budget,
	// so that a long prompt leaves room for short ones. 0, the default: no cap.
	LongPrefillTokenThreshold int
	// NoChunkedPrefill admits a prompt only if all of it fits the step's
	// budget. MaxNumBatchedTokens must then be at least MaxModelLen.
	NoChunkedPrefill bool
	// Policy of admission and preemption. Default FCFS.
	Policy Policy
	// Async lets a step be scheduled before the tokens of the previous one are
	// known (--async-scheduling). The text is the same.
	Async bool

	// BlockSize is the number of tokens of a KV block. Default 16.
	BlockSize int
	// NumBlocks is how many KV blocks there are, the null block included.
	NumBlocks int
	// NoPrefixCaching computes every prompt in full.
	NoPrefixCaching bool
	// HashAlgo names blocks for prefix caching. Default SHA256.
	HashAlgo kvcache.HashAlgo
	// HashSeed makes hashes reproducible; "": a random root for every process.
	HashSeed string

	// NoLogStats leaves events and statistics out (--disable-log-stats).
	NoLogStats bool
	// KVMetricsSample is the share of KV blocks whose residency is told of, 0
	// to 1 (--kv-cache-metrics-sample). Default 0: none.
	KVMetricsSample float64
}

// DefaultConfig returns the defaults; NumBlocks and MaxModelLen are the
// caller's.
func DefaultConfig() Config {
	return Config{
		MaxNumSeqs:          128,
		MaxNumBatchedTokens: 2048,
		Policy:              FCFS,
		BlockSize:           16,
		HashAlgo:            kvcache.SHA256,
	}
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	var errs []error
	atLeast := func(name string, v, bound int) {
		if v < bound {
			errs = append(errs, fmt.Errorf("%s is %d, must be at least %d", name, v, bound))
		}
	}
	atLeast("max-num-seqs", c.MaxNumSeqs, 1)
	atLeast("max-num-batched-tokens", c.MaxNumBatchedTokens, 1)
	atLeast("max-model-len", c.MaxModelLen, 2)
	atLeast("long-prefill-token-threshold", c.LongPrefillTokenThreshold, 0)
	atLeast("block-size", c.BlockSize, 1)
	atLeast("number of KV blocks (one of them is reserved)", c.NumBlocks, 2)
	if c.NoChunkedPrefill && c.MaxNumBatchedTokens < c.MaxModelLen {
		errs = append(errs, fmt.Errorf("max-num-batched-tokens is %d, must be at least max-model-len %d without chunked prefill",
			c.MaxNumBatchedTokens, c.MaxModelLen))
	}
	if c.NoChunkedPrefill && c.LongPrefillTokenThreshold > 0 {
		errs = append(errs, fmt.Errorf("long-prefill-token-threshold is %d, must be 0 without chunked prefill", c.LongPrefillTokenThreshold))
	}
	if !(c.KVMetricsSample >= 0 && c.KVMetricsSample <= 1) {
		errs = append(errs, fmt.Errorf("kv-cache-metrics-sample is %v, must be above 0 and at most 1", c.KVMetricsSample))
	}
	switch c.Policy {
	case FCFS, Priority:
	default:
		errs = append(errs, fmt.Errorf("scheduling-policy %q is not one of %q", c.Policy, Policies))
	}
	if _, err := kvcache.NewHasher(c.HashAlgo, max(1, c.BlockSize), "check"); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// CheckFits reports whether a prompt of n tokens can ever be served, and if
// not, why: the numbers, the bound, the way out.
func (c *Config) CheckFits(n int) error {
	if n >= c.MaxModelLen {
		return fmt.Errorf("%w: %d tokens leave no room for output under max-model-len %d; shorten it", ErrPromptTooLong, n, c.MaxModelLen)
	}
	need, have := (n+c.BlockSize-1)/c.BlockSize, c.NumBlocks-1
	if need > have {
		return fmt.Errorf("%w: %d tokens need %d blocks of %d tokens, there are %d; give more KV cache memory or a shorter prompt",
			ErrNeverFits, n, need, c.BlockSize, have)
	}
	return nil
}
