// Package kvcache hands out KV-cache blocks and finds shared prefixes.
//
// A block is null (ID 0, never handed out), used (refs ≥ 1) or free (refs = 0,
// on the free queue; its hash stays valid until reuse). Every block is exactly
// one of the three. A full block may be findable: then its hash, which covers
// its tokens and everything before them, leads to it, used or free, and a new
// request with the same prefix shares it instead of computing it again. Blocks
// are never copied and never change their ID while used, so a block table only
// grows at its end; two blocks with equal content may therefore coexist.
//
//	Pool     blocks, reference counts, the free queue
//	Hasher   tokens → chain of hashes; used where requests are decoded
//	Index    hash → node: who wants it, who computes it, which blocks hold it
//	Cache    the four verbs of the scheduler: Lookup, Admit, Grow, Free
//
// The free queue is in order of last use, a request's last block first; a block
// that nobody can find is reused before any that can be found.
//
// Follows vLLM V1 block_pool.py and kv_cache_manager.py; we differ in: no KV
// events, one cache group, and hashes interned to small numbers, so that the
// step loop neither hashes a prompt nor compares 32 bytes.
//
// Owned by the engine loop: no locks. A Hasher belongs to one goroutine.
package kvcache
