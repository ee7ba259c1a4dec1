// Package coretest plays the engine core without a model.
//
//	Runner   a runner that computes nothing and checks everything
//	Env      a Core under a fake clock, driven by a script
//	RunFile  reads a script, runs it, compares or rewrites its answers
//
// Runner keeps a KV cache in which every slot holds a digest of its token and
// of the slot before it, read back through the block table. What it samples
// depends on that digest alone. So a block that is shared wrongly, reused too
// early or never written changes the text, and the text of a request must not
// depend on budget, block size, caching, preemption or its neighbours.
//
// A script is a conversation with the scheduler. Blocks are separated by blank
// lines; a line of dashes parts what is said from what is answered, a "#" line
// says why. With -rewrite the answers are written anew: read the difference
// before committing it.
//
//	add a prompt=1..8 max=3
//	----
//	ok
//
//	step
//	----
//	a: prefill 8 tokens, blocks [1 2]
//	...
package coretest
