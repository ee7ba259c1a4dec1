package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"govllm/cmd/internal/flags"
	"govllm/frontend/api/openai"
	"govllm/ipc"
	"govllm/protocol"
)

// fingerprint is the system_fingerprint of answers, by which a client sees that
// the server has changed: version, number of engines unless it is one, and 8
// digits that stand for the model and how the engines run it.
// Source: vllm/entrypoints/serve/utils/fingerprint.py.
func fingerprint(opts *flags.Frontend, cfg *openai.Config, engines []ipc.EngineInfo) string {
	switch opts.FingerprintMode {
	case "none":
		return ""
	case "custom":
		return opts.FingerprintValue
	}
	h := sha256.New()
	fmt.Fprintln(h, cfg.ModelRoot, cfg.MaxModelLen, cfg.VocabSize, cfg.EOSTokenIDs)
	for i := range engines {
		r := &engines[i].Registration
		fmt.Fprintln(h, r.VLLMVersion, r.DType, r.BlockSize, r.TensorParallelSize, r.PipelineParallelSize)
	}
	parallel := ""
	if n := len(engines); n > 1 && opts.FingerprintMode == "full" {
		parallel = fmt.Sprintf("-dp%d", n)
	}
	return "vllm-" + protocol.VLLMVersion + parallel + "-" + hex.EncodeToString(h.Sum(nil))[:8]
}
