package model

import (
	"fmt"
	"slices"

	"govllm/kernels"
	"govllm/protocol/modelfile"
)

// ResolveDType turns --dtype into the type that weights are packed to: "auto"
// takes the checkpoint's own, which for quantized GGUF files is float16, as in
// vLLM; the package documentation has what that costs. What the device can't
// pack is refused.
func ResolveDType(flag string, checkpoint modelfile.DType, caps kernels.Caps) (kernels.DType, error) {
	want := fileDTypes[checkpoint]
	if flag != "auto" && flag != "" {
		if want = dtypeOf(flag); want == 0 {
			return 0, fmt.Errorf("--dtype %s is unknown; there are auto, float32, bfloat16 and float16", flag)
		}
	}
	if !slices.Contains(caps.WeightDTypes, want) {
		return 0, fmt.Errorf("--dtype %s means %v, which this device can't compute with; it can %v", flag, want, caps.WeightDTypes)
	}
	return want, nil
}

// ResolveKVDType turns --kv-cache-dtype into the type of the KV cache: "auto"
// takes the weights', or float32 where the cache can't have that.
func ResolveKVDType(flag string, weights kernels.DType, caps kernels.Caps) (kernels.DType, error) {
	if flag == "auto" || flag == "" {
		if slices.Contains(caps.KVDTypes, weights) {
			return weights, nil
		}
		flag = kernels.F32.String()
	}
	want := dtypeOf(flag)
	if want == 0 || !slices.Contains(caps.KVDTypes, want) {
		return 0, fmt.Errorf("--kv-cache-dtype %s is not what this device can do; it can %v", flag, caps.KVDTypes)
	}
	return want, nil
}

var fileDTypes = map[modelfile.DType]kernels.DType{
	modelfile.F32:  kernels.F32,
	modelfile.F16:  kernels.F16,
	modelfile.BF16: kernels.BF16,
}

// dtypeOf reads vLLM's spellings; 0 if it is none of them.
func dtypeOf(name string) kernels.DType {
	switch name {
	case "float32", "float":
		return kernels.F32
	case "bfloat16":
		return kernels.BF16
	case "float16", "half":
		return kernels.F16
	}
	return 0
}

// widths are the columns of a step's activations.
type widths struct {
	hidden, qkv, attn, mlp int
}

func widthsOf(cfg modelfile.Config) widths {
	return widths{
		hidden: cfg.HiddenSize,
		qkv:    (cfg.NumHeads + 2*cfg.NumKVHeads) * cfg.HeadDim,
		attn:   cfg.NumHeads * cfg.HeadDim,
		mlp:    cfg.IntermediateSize,
	}
}

// WeightBytes returns what the packed matrices of a model take on a device.
// Vectors come on top and are small beside it.
func WeightBytes(dev kernels.Device, cfg modelfile.Config, dtype kernels.DType) int64 {
	w := widthsOf(cfg)
	mlp := dev.WeightBytes(dtype, 2*w.mlp, w.hidden) + dev.WeightBytes(dtype, w.hidden, w.mlp)
	if cfg.NumExperts > 0 {
		mlp = dev.WeightBytes(dtype, cfg.NumExperts, w.hidden) + int64(cfg.NumExperts)*mlp
	}
	perLayer := dev.WeightBytes(dtype, w.qkv, w.hidden) + dev.WeightBytes(dtype, w.hidden, w.attn) + mlp
	tables := dev.WeightBytes(dtype, cfg.VocabSize, w.hidden)
	if !cfg.TieWordEmbeddings {
		tables *= 2
	}
	return perLayer*int64(cfg.NumLayers) + tables
}

// WorkspaceBytes returns what a Workspace takes, at 4 bytes a value, and the
// rope tables.
func WorkspaceBytes(cfg modelfile.Config, maxTokens, maxLogits, maxModelLen int) int64 {
	w := widthsOf(cfg)
	perToken := int64(2*w.hidden + w.qkv + w.attn)
	if k := cfg.ExpertsPerToken; k > 0 {
		perToken += int64(cfg.NumExperts + 2*k + k*(3*w.mlp+w.hidden))
	} else {
		perToken += int64(3 * w.mlp)
	}
	perLogit := int64(w.hidden + w.attn + cfg.VocabSize)
	perPosition := int64(cfg.Rope.Dim)
	if cfg.Local != nil && !cfg.RopeLocal.Equal(cfg.Rope) {
		perPosition += int64(cfg.RopeLocal.Dim)
	}
	return 4 * (perToken*int64(maxTokens) + perLogit*int64(maxLogits) + perPosition*int64(maxModelLen))
}

// KVShape describes the KV cache of a model.
func KVShape(cfg modelfile.Config, numBlocks, blockSize int, dtype kernels.DType) kernels.KVShape {
	return kernels.KVShape{
		Layers:    cfg.NumLayers,
		NumBlocks: numBlocks,
		BlockSize: blockSize,
		KVHeads:   cfg.NumKVHeads,
		HeadDim:   cfg.HeadDim,
		DType:     dtype,
	}
}
