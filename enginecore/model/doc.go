// Package model is the decoder: one graph over kernels.Queue that every dense
// architecture shares.
//
//	x = embed(tokens)
//	for each layer:
//	    x += out(attention(rope(qkv(norm(x)))))
//	    x += down(gate(gate_up(norm(x))))
//	logits = head(norm(x)), for the rows that need them
//
// What differs between architectures is data, not code: sizes and switches
// come from modelfile.Config, tensor names from a family (families.go). A new
// architecture of this kind is a reader in modelfile, an entry in families
// and golden logits; only one that computes something new touches the graph.
//
// A Model is constant once loaded. A Workspace holds what a step writes.
// Device methods run on one goroutine at a time, and so do Load, NewWorkspace
// and Forward.
package model
