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
// To add an architecture, say one with fused projections:
//
//  1. modelfile/families.go: a reader that takes its config.json keys into
//     Config, and accepts those that change nothing.
//  2. families.go here: its tensor names. `qkv: []string{"self_attn.qkv_proj"}`
//     says that q, k and v come stacked in one tensor.
//  3. If it computes something new: a Config field, a constant in layer, and
//     the operation in forward.go, where it is nil or zero for the others.
//  4. test/golden: a tiny random model of it and what transformers computes.
//
// A Model is constant once loaded. A Workspace holds what a step writes.
// Device methods run on one goroutine at a time, and so do Load, NewWorkspace
// and Forward.
package model
