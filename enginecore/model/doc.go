// Package model is the decoder: one graph over kernels.Queue that all
// architectures share.
//
//	x = embed(tokens) · scale
//	for each layer:
//	    x += norm(out(attention(rope(norm(qkv(norm(x)))))))
//	    x += norm(down(gate(gate_up(norm(x)))))
//	logits = cap(head(norm(x))), for the rows that need them
//
// The norms but the first of each line, the scale and the cap are there where
// the config says so; the MLP may be a mixture of experts. What differs between architectures is data, not code:
// sizes and switches come from modelfile.Config, tensor names from a family
// (families.go), and each layer has its own attention (window, soft cap) and
// rope, or none.
//
//	Llama 2 to 3.3, SmolLM2   rope scaling linear, llama3, yarn
//	Mistral                   every layer local, in early checkpoints
//	SmolLM3                   layers that don't turn
//	Qwen2, Qwen2.5            q, k and v biases; local layers, if in use
//	Qwen3                     norms of query and key heads
//	Qwen3-MoE, Mixtral        a router picks the experts of each token
//	Phi-3, Phi-4              fused projections, a part of each head turns;
//	                          LongRoPE within its original length
//	Gemma 2, Gemma 3 (text)   four norms, scaled embedding, local and global
//	                          layers; soft caps (2), norms of heads and two
//	                          ropes (3)
//
// Local layers keep the keys and values of the whole sequence, like the others,
// and read the window's: right, though larger than it need be.
//
// # Loading
//
// Pieces of 64 Ki values are read from the mapped file, decoded if they are
// quantized, packed, and their pages given back, on all threads. The peak of
// memory is the packed weights and a piece for each thread: 97.5 MiB for 96.7 of
// weights, and never over a tenth more:
//
//	go test ./enginecore/model -run LoadPeak -v
//
// The program itself (some 30 MiB) and the rope tables, of which vllm-core's
// check at start counts the tables, come on top. VmHWM in /proc/PID/status once
// vllm-core says "model loaded":
//
//	SmolLM2-135M Q4_1   256.6 MiB packed, 4 of rope tables     289 MiB
//	Gemma 3 270M Q4_K_M 511.4 MiB packed, 64 of rope tables    605 MiB
//
// Quantized values are packed as 16-bit numbers, float16 unless --dtype says
// otherwise: its 11 bits hold a scale times a small integer better than
// bfloat16's 8. Against float32, over 512 tokens of text (perplexity; KL
// divergence; agreement on the likeliest token):
//
//	                    float32   float16               bfloat16
//	SmolLM2-135M Q4_1   34.529    34.528 2e-6 512/512   34.489 8e-5 510/512
//	Gemma 3 270M Q4_K_M 28.651    28.647 1e-6 510/512   28.645 8e-5 505/512
//
//	GOVLLM_GGUF=FILE go test ./enginecore/model -run DTypesOfQuantized -v
//
// # To add an architecture
//
// Phi-3 was added so, in three places and one golden model. Its reader in
// modelfile/families.go takes what its config.json says beyond what all say, and
// accepts the keys that it has read:
//
//	"Phi3ForCausalLM": readPhi3,
//
//	func readPhi3(o *object, c *Config) {
//		c.RMSNormEps = float32(o.float("rms_norm_eps", 1e-5)) // another default
//		c.Rope.Dim = int(float64(c.HeadDim) * o.float("partial_rotary_factor", 1))
//		o.rope(c, 10000)
//		o.layers(c, o.window(0), everyLayer)
//		o.accept("partial_rotary_factor")
//	}
//
// Its tensors' names in families.go here, where one name for several matrices
// says that they are stored fused:
//
//	"Phi3ForCausalLM": llama.phi3(),
//
//	func (f family) phi3() family {
//		f.qkv, f.gateUp = []string{"self_attn.qkv_proj"}, []string{"mlp.gate_up_proj"}
//		return f
//	}
//
// A tiny config in modelfiletest, which the tests of both packages run over, and
// a tiny random model in test/golden/make_golden.py, with what transformers
// makes of it. Only an architecture that computes something new touches the
// graph: a field of Config, a constant of layer, and an operation in forward.go
// that is not recorded for the others; a new operation needs its definition in
// kernels/ref and its tests in kernels/kerneltest first.
//
// # Truth
//
// On every device, tiny random models of each family give transformers' logits
// within 1e-4 of the largest, and its 64 greedy tokens (go test ./enginecore/model).
// Real models run through the whole engine, against transformers 5.24 that
// dequantises the same GGUF file to float32 (make test-models):
//
//	                                  ref, float32        cpu, as served (float16)
//	                                  10 prompts of 32    most likely token   perplexity
//	                                  greedy tokens       of 20,000 of text   beside it
//	SmolLM2-135M-Instruct, Q4_1       10 the same         99.93 %             +0.01 %
//	Gemma 3 270M, Q4_K_M              10 the same         99.91 %              0.00 %
//
// A Model is constant once loaded. A Workspace holds what a step writes.
// Device methods run on one goroutine at a time, and so do Load, NewWorkspace
// and Forward.
package model
