// Package cpu runs a step behind one C call: vector kernels chosen for the
// machine at start, a pool of threads that share the work of each operation.
//
// A Queue records operations as an array of C structs; Sync hands the array to
// gk_run (pool.c), which returns when all of them are done. Recording and Sync
// allocate nothing. All memory is mapped by C and never on the Go heap, so the
// collector has nothing to scan, and a KV cache takes memory only as it fills.
//
// Files: gk.h the shared structs; pool.c threads; mem.c memory; dispatch.c which
// level the machine has; pack.c weights; ops.c the operations without vectors; body.h the
// kernels over 16 lanes, and logits.h those beside the sampler, included by one
// k_*.c for each level, whose own part is what a lane is. The levels:
//
//	generic  4-float vectors of the compiler: SSE2, NEON, anything
//	avx2     AVX2, FMA, F16C
//
// GOVLLM_CPU_ISA, or Options.ISA, forces a lower level than the machine's best.
// Activations are float32 rows on all of them. Without cgo the package opens the
// reference instead.
package cpu

import (
	"errors"

	"govllm/kernels"
)

func init() { kernels.Register("cpu", Open) }

// ErrClosed reports the use of a device after Close.
var ErrClosed = errors.New("cpu: the device is closed")

// ISAEnv is the environment variable that names a level where Options.ISA is
// empty.
const ISAEnv = "GOVLLM_CPU_ISA"
