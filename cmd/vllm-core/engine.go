package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"govllm/cmd/internal/flags"
	"govllm/cmd/internal/source"
	"govllm/enginecore"
	"govllm/enginecore/mockrunner"
	"govllm/enginecore/model"
	"govllm/enginecore/modelrunner"
	"govllm/enginecore/perf"
	"govllm/enginecore/step"
	"govllm/kernels"
	"govllm/protocol"
	"govllm/protocol/modelfile"
	"govllm/protocol/modelfile/builtin/weights"
	"govllm/protocol/modelfile/hub"
)

// engine is a model on a device, ready to compute steps.
type engine struct {
	device      kernels.Device      // nil: --device mock
	model       *modelrunner.Runner // nil: --device mock
	runner      enginecore.Runner
	vocabSize   int
	maxModelLen int
	numBlocks   int
	dtype       kernels.DType
	kvDType     kernels.DType
	config      modelfile.Config
}

// load opens the model and puts it on its device. What cannot be served is
// refused before anything large is read.
func load(ctx context.Context, opts *flags.Core, log *slog.Logger) (_ *engine, err error) {
	path, err := source.Path(ctx, source.Want{Name: opts.Model, Revision: opts.Revision, Part: part(opts)}, &opts.Hub, log)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	m, err := modelfile.Open(path, modelfile.Options{BuiltinWeights: weights.FS, NoTokenizer: true})
	if err != nil {
		return nil, err
	}
	maxModelLen, err := m.MaxModelLen(opts.MaxModelLen)
	if err != nil {
		return nil, err
	}
	if opts.Device == "mock" {
		return mock(opts, m, maxModelLen, log)
	}
	dev, err := kernels.Open(opts.Device, kernels.Options{Threads: opts.Threads})
	if err != nil {
		return nil, fmt.Errorf("--device: %w", err)
	}
	e := &engine{device: dev, vocabSize: m.Config.VocabSize, maxModelLen: maxModelLen, config: m.Config}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	src, err := openWeights(opts, m)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", opts.Model, err)
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	cfg, err := e.plan(opts, m, src)
	if err != nil {
		return nil, err
	}
	e.kvDType = cfg.KVDType
	net, err := model.Load(dev, m.Config, src, model.Options{
		DType: e.dtype, MaxModelLen: maxModelLen, Threads: opts.Threads, Progress: progress(log),
	})
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", opts.Model, err)
	}
	if e.model, err = modelrunner.New(dev, net, cfg); err != nil {
		return nil, err
	}
	e.runner = joined{e.model}
	log.Info("model loaded", "model", opts.Model, "architecture", m.Config.Architecture, "device", dev.Name(), "dtype", e.dtype,
		"took", time.Since(start).Round(time.Millisecond))
	log.Info("KV cache", "blocks", e.numBlocks-1, "block_size", opts.BlockSize, "tokens", (e.numBlocks-1)*opts.BlockSize,
		"dtype", cfg.KVDType, "max_model_len", maxModelLen)
	return e, nil
}

// part is what of the model is needed: no weights, if none are computed with.
func part(opts *flags.Core) hub.Part {
	if opts.Device == "mock" || opts.LoadFormat == "dummy" {
		return hub.Description
	}
	return hub.Everything
}

// openWeights maps the weights, if they are what the flags say.
func openWeights(opts *flags.Core, m *modelfile.Model) (*modelfile.Weights, error) {
	if want, is := strings.TrimSuffix(opts.Quantization, "_marlin"), m.Quantization(); want != "" && want != is {
		return nil, fmt.Errorf("--quantization %s: its weights are quantized by %s; leave it out", opts.Quantization, cmp.Or(is, "nothing"))
	}
	switch opts.LoadFormat {
	case "dummy":
		return modelfile.DummyWeights(), nil
	case "auto", m.Format():
		return m.OpenWeights()
	}
	return nil, fmt.Errorf("--load-format %s: its weights are stored as %s; leave it out", opts.LoadFormat, m.Format())
}

// mock is an engine that computes nothing: seeded tokens, at once. It keeps the
// model's vocabulary and limits, and block tables over a cache of the size
// asked for that holds no data.
func mock(opts *flags.Core, m *modelfile.Model, maxModelLen int, log *slog.Logger) (*engine, error) {
	r, err := mockrunner.New(opts.MaxNumSeqs, m.Config.VocabSize)
	if err != nil {
		return nil, err
	}
	r.StepTime = time.Duration(opts.MockStepTime * float64(time.Second))
	e := &engine{runner: r, vocabSize: m.Config.VocabSize, maxModelLen: maxModelLen, dtype: kernels.F32, kvDType: kernels.F32, config: m.Config}
	if e.numBlocks, err = numBlocks(opts, model.KVShape(m.Config, 0, opts.BlockSize, e.dtype), maxModelLen, modelrunner.AvailableMemory()); err != nil {
		return nil, err
	}
	log.Warn("no model: --device mock answers with random tokens", "vocabulary", e.vocabSize, "blocks", e.numBlocks-1)
	return e, nil
}

// numBlocks sizes the KV cache, the null block included.
func numBlocks(opts *flags.Core, shape kernels.KVShape, maxModelLen int, available int64) (int, error) {
	if opts.NumBlocksOverride > 0 {
		return opts.NumBlocksOverride, nil
	}
	return modelrunner.KVBlocks(shape, kvBytes(opts, available), maxModelLen)
}

// plan decides types and sizes and checks that all of it fits the memory.
func (e *engine) plan(opts *flags.Core, m *modelfile.Model, src *modelfile.Weights) (cfg modelrunner.Config, err error) {
	checkpoint := m.Config.DType
	if checkpoint == "" {
		checkpoint = src.DType()
	}
	if e.dtype, err = model.ResolveDType(opts.DType, checkpoint, e.device.Caps()); err != nil {
		return cfg, err
	}
	kvType, err := model.ResolveKVDType(opts.KVCacheDType, e.dtype, e.device.Caps())
	if err != nil {
		return cfg, err
	}
	available := modelrunner.AvailableMemory()
	shape := model.KVShape(m.Config, 0, opts.BlockSize, kvType)
	if e.numBlocks, err = numBlocks(opts, shape, e.maxModelLen, available); err != nil {
		return cfg, err
	}
	shape.NumBlocks = e.numBlocks
	cfg = modelrunner.Config{
		MaxNumSeqs: opts.MaxNumSeqs, MaxNumBatchedTokens: opts.MaxNumBatchedTokens, MaxModelLen: e.maxModelLen,
		BlockSize: opts.BlockSize, NumBlocks: e.numBlocks, KVDType: kvType,
		ProcessedLogprobs: opts.LogprobsMode == "processed_logprobs",
	}
	if err := cfg.Validate(e.device.Caps()); err != nil {
		return cfg, err
	}
	need := modelrunner.Need{
		Weights:   model.WeightBytes(e.device, m.Config, e.dtype),
		Workspace: model.WorkspaceBytes(m.Config, opts.MaxNumBatchedTokens, cfg.MaxLogits(), e.maxModelLen),
		KV:        e.device.KVCacheBytes(shape),
	}
	return cfg, need.Check(available)
}

// kvBytes is the size of the KV cache: --kv-cache-memory-bytes,
// --kv-cache-space (or its environment variable), else by the machine.
func kvBytes(opts *flags.Core, available int64) int64 {
	switch {
	case opts.KVCacheBytes > 0:
		return int64(opts.KVCacheBytes)
	case opts.KVCacheSpaceGiB > 0: // 0 means the default to vLLM too
		return int64(opts.KVCacheSpaceGiB * (1 << 30))
	}
	return modelrunner.KVBytes(available)
}

// progress logs how far loading is and how fast it goes, at most once a second.
func progress(log *slog.Logger) func(done, total int64) {
	start := time.Now()
	last := start
	return func(done, total int64) {
		now := time.Now()
		if now.Sub(last) < time.Second {
			return
		}
		last = now
		log.Info("loading weights", "MiB", done>>20, "of", total>>20, "MiB/s", int64(float64(done>>20)/now.Sub(start).Seconds()))
	}
}

func (e *engine) close() error {
	if e.model != nil {
		if err := e.model.Close(); err != nil {
			return err
		}
	}
	if e.device != nil {
		return e.device.Close()
	}
	return nil
}

// registration is what the frontends are told of this engine.
func (e *engine) registration(opts *flags.Core, instance string) *protocol.Registration {
	tokens := (e.numBlocks - 1) * opts.BlockSize
	return &protocol.Registration{
		MaxModelLen: e.maxModelLen, NumGPUBlocks: e.numBlocks, BlockSize: opts.BlockSize,
		DType: e.dtype.String(), VLLMVersion: protocol.VLLMVersion,
		WorldSize: 1, DataParallelSize: 1, TensorParallelSize: 1, PipelineParallelSize: 1, DecodeContextParallelSize: 1,
		DataParallelRank: opts.Rank, MaxNumSeqs: opts.MaxNumSeqs, MaxNumBatchedTokens: opts.MaxNumBatchedTokens,
		InstanceID: instance, KVCacheSizeTokens: tokens, KVCacheMaxConcurrency: float64(tokens) / float64(e.maxModelLen),
		CacheDType: e.kvDType.String(), EnablePrefixCaching: &opts.EnablePrefixCaching,
	}
}

// perf estimates the work of steps; nil unless it is asked for.
func (e *engine) perf(opts *flags.Core) *perf.Estimator {
	if !opts.MFUMetrics {
		return nil
	}
	c, local := &e.config, 0
	for _, isLocal := range e.config.Local {
		if isLocal {
			local++
		}
	}
	return perf.New(perf.Model{
		NumLayers: c.NumLayers, NumLocalLayers: local, SlidingWindow: c.SlidingWindow,
		HiddenSize: c.HiddenSize, IntermediateSize: c.IntermediateSize,
		NumExperts: c.NumExperts, ExpertsPerToken: c.ExpertsPerToken,
		NumHeads: c.NumHeads, NumKVHeads: c.NumKVHeads, HeadDim: c.HeadDim, VocabSize: c.VocabSize,
		WeightBytes: e.dtype.Size(), ActivationBytes: e.dtype.Size(), CacheBytes: e.kvDType.Size(),
	})
}

// joined gives modelrunner's concrete pass as the interface of enginecore.
type joined struct{ *modelrunner.Runner }

func (r joined) Start(plan *step.SchedulerOutput) enginecore.Pass { return r.Runner.Start(plan) }
