// Package models holds the whole engine against transformers on two real
// models, as GGUF files people use: SmolLM2-135M-Instruct in Q4_1, a Llama, and
// Gemma 3 270M in Q4_K_M. `make test-models` fetches them and runs this;
// enginecore/model's documentation has the figures.
//
// testdata/ holds what transformers makes of the same files, dequantised to
// float32; make_truth.py is its maker.
package models

import (
	"bytes"
	"compress/zlib"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"govllm/enginecore"
	"govllm/enginecore/model"
	"govllm/enginecore/modelrunner"
	"govllm/enginecore/sched"
	"govllm/enginecore/step"
	"govllm/frontend/tokenizer"
	"govllm/kernels"
	_ "govllm/kernels/cpu"
	_ "govllm/kernels/ref"
	"govllm/protocol"
	"govllm/protocol/modelfile"
)

// tie is how little the best logit may lead for another token to do as well.
const tie = 1e-3

type truth struct {
	File    string   `json:"file"`
	SHA256  string   `json:"sha256"`
	Prompts []prompt `json:"prompts"`
	Text    text     `json:"text"`
}

type prompt struct {
	Text   string    `json:"text"`
	IDs    []int32   `json:"ids"`
	Greedy []int32   `json:"greedy"`
	Leads  []float32 `json:"leads"` // of the best logit over the second
}

// text is a long text, computed in windows of so many tokens, each after start.
type text struct {
	File       string  `json:"file"`
	Tokens     int     `json:"tokens"`
	Window     int     `json:"window"`
	Start      []int32 `json:"start"`
	IDsSHA256  string  `json:"ids_sha256"`
	Perplexity float64 `json:"perplexity"`
	MostLikely []byte  `json:"most_likely"` // zlib of int32, for each token but a window's first
}

// The reference, in float32, continues every prompt as transformers does.
func TestReference(t *testing.T) {
	eachModel(t, func(t *testing.T, want truth, m *modelfile.Model) {
		e := open(t, m, "ref", "float32", 256, len(want.Prompts))
		tok := newTokenizer(t, m)
		for _, p := range want.Prompts {
			ids, err := tok.Encode(p.Text, true)
			check(t, err)
			if !slices.Equal(ids, p.IDs) {
				t.Errorf("Encode(%q) = %v, want %v", p.Text, ids, p.IDs)
			}
			e.add(p.IDs, len(p.Greedy), nil)
		}
		same := 0
		for i, got := range e.run() {
			p := want.Prompts[i]
			n := agreement(got.tokens, p.Greedy)
			switch {
			case n == len(p.Greedy):
				same++
			case p.Leads[n] < tie:
				t.Logf("%q: another token at %d, where the best leads by %v", p.Text, n, p.Leads[n])
			default:
				t.Errorf("%q: greedy tokens = %v, want %v", p.Text, got.tokens, p.Greedy)
			}
		}
		t.Logf("%s on %s: %d of %d prompts continued by the same %d tokens", want.File, e.name, same, len(want.Prompts), len(want.Prompts[0].Greedy))
	})
}

// The CPU backend, in the types it serves the file in, reads a text nearly as
// transformers does in float32.
func TestCPU(t *testing.T) {
	eachModel(t, func(t *testing.T, want truth, m *modelfile.Model) {
		x := want.Text
		ids := textTokens(t, m, x)
		e := open(t, m, "cpu", "auto", x.Window+len(x.Start)+1, 4)
		one := 1
		for at := 0; at < len(ids); at += x.Window {
			e.add(slices.Concat(x.Start, ids[at:min(at+x.Window, len(ids))]), 1, &one)
		}
		began, mostLikely := time.Now(), unpack(t, x.MostLikely)
		same, loss, n := 0, 0.0, 0
		for _, got := range e.run() {
			l := got.prompt
			for i := range l.NumTokens {
				loss -= float64(l.Logprobs[i*l.Width])
				if l.TokenIDs[i*l.Width+1] == mostLikely[n] {
					same++
				}
				n++
			}
		}
		if n != len(mostLikely) {
			t.Fatalf("%d predictions, want %d", n, len(mostLikely))
		}
		agree, perplexity := float64(same)/float64(n), math.Exp(loss/float64(n))
		t.Logf("%s on %s in %v: %.2f %% of %d most likely tokens agree, perplexity %.4f beside %.4f (%+.2f %%), %.0f s",
			want.File, e.name, e.dtype, 100*agree, n, perplexity, x.Perplexity, 100*(perplexity/x.Perplexity-1), time.Since(began).Seconds())
		if agree < 0.98 || math.Abs(perplexity/x.Perplexity-1) > 0.01 {
			t.Errorf("want at least 98 %% and a perplexity within 1 %%")
		}
	})
}

// eachModel runs f for each file that is there.
func eachModel(t *testing.T, f func(*testing.T, truth, *modelfile.Model)) {
	dir := os.Getenv("GOVLLM_MODELS")
	if dir == "" {
		t.Skip("GOVLLM_MODELS names no folder of real models; `make test-models` fetches them")
	}
	names, err := filepath.Glob("testdata/*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("testdata: %d truths, %v", len(names), err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		check(t, err)
		var want truth
		check(t, json.Unmarshal(data, &want))
		t.Run(want.File, func(t *testing.T) {
			path := filepath.Join(dir, want.File)
			file, err := os.ReadFile(path)
			if err != nil {
				t.Skipf("%s is not there; `make test-models` fetches it", path)
			}
			if got := sha256.Sum256(file); hex.EncodeToString(got[:]) != want.SHA256 {
				t.Fatalf("%s is another file: SHA-256 %x, want %s", path, got, want.SHA256)
			}
			m, err := modelfile.Open(path, modelfile.Options{})
			check(t, err)
			f(t, want, m)
		})
	}
}

// textTokens returns the tokens of the text, which lies in GOVLLM_DATA.
func textTokens(t *testing.T, m *modelfile.Model, x text) []int32 {
	t.Helper()
	dir := os.Getenv("GOVLLM_DATA")
	if dir == "" {
		dir = "../../../shared/data"
	}
	data, err := os.ReadFile(filepath.Join(dir, x.File))
	if err != nil {
		t.Skipf("%s is not in GOVLLM_DATA (%s)", x.File, dir)
	}
	ids, err := newTokenizer(t, m).Encode(string([]rune(string(data))[:8*x.Tokens]), false)
	check(t, err)
	ids = ids[:x.Tokens]
	if got := sha256.Sum256(little(ids)); hex.EncodeToString(got[:]) != x.IDsSHA256 {
		t.Fatalf("the %d tokens of %s are others than transformers': SHA-256 %x, want %s", len(ids), x.File, got, x.IDsSHA256)
	}
	return ids
}

func newTokenizer(t *testing.T, m *modelfile.Model) *tokenizer.Tokenizer {
	t.Helper()
	v := m.GGUFVocabulary
	tok, err := tokenizer.LoadGGUF(&tokenizer.GGUF{
		Model: v.Model, Pre: v.Pre, Tokens: v.Tokens, Scores: v.Scores, Types: v.Types, Merges: v.Merges,
		BOS: &v.BOS, EOS: &v.EOS, AddBOS: v.AddBOS, AddEOS: v.AddEOS, AddSpacePrefix: v.AddSpacePrefix,
	})
	check(t, err)
	return tok
}

func little(ids []int32) []byte {
	var b []byte
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	return b
}

func unpack(t *testing.T, data []byte) []int32 {
	t.Helper()
	r, err := zlib.NewReader(bytes.NewReader(data))
	check(t, err)
	raw, err := io.ReadAll(r)
	check(t, err)
	ids := make([]int32, len(raw)/4)
	for i := range ids {
		ids[i] = int32(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return ids
}

// agreement is the length of the common start.
func agreement(a, b []int32) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// engine is a Core over a real model, without processes.
type engine struct {
	t       *testing.T
	name    string
	dtype   kernels.DType
	core    *enginecore.Core
	intake  *enginecore.Intake
	results []result
}

type result struct {
	tokens []int32
	prompt protocol.LogprobsLists
}

const blockSize = 32

func open(t *testing.T, m *modelfile.Model, device, dtype string, maxModelLen, numSeqs int) *engine {
	t.Helper()
	dev, err := kernels.Open(device, kernels.Options{})
	check(t, err)
	t.Cleanup(func() { check(t, dev.Close()) })
	src, err := m.OpenWeights()
	check(t, err)
	defer src.Close()
	e := &engine{t: t, name: dev.Name()}
	checkpoint := m.Config.DType
	if checkpoint == "" {
		checkpoint = src.DType()
	}
	e.dtype, err = model.ResolveDType(dtype, checkpoint, dev.Caps())
	check(t, err)
	kvType, err := model.ResolveKVDType("auto", e.dtype, dev.Caps())
	check(t, err)
	net, err := model.Load(dev, m.Config, src, model.Options{DType: e.dtype, MaxModelLen: maxModelLen})
	check(t, err)
	cfg := sched.DefaultConfig()
	cfg.MaxNumSeqs, cfg.MaxNumBatchedTokens, cfg.MaxModelLen = numSeqs, 512, maxModelLen
	cfg.BlockSize, cfg.NumBlocks = blockSize, 1+numSeqs*(maxModelLen/blockSize+1)
	runner, err := modelrunner.New(dev, net, modelrunner.Config{
		MaxNumSeqs: numSeqs, MaxNumBatchedTokens: cfg.MaxNumBatchedTokens, MaxModelLen: maxModelLen,
		BlockSize: blockSize, NumBlocks: cfg.NumBlocks, KVDType: kvType,
	})
	check(t, err)
	t.Cleanup(func() { check(t, runner.Close()) })
	began := time.Now()
	e.core, err = enginecore.NewCore(enginecore.Config{Sched: cfg, VocabSize: m.Config.VocabSize, MaxLogprobs: 1},
		joined{runner}, func() float64 { return time.Since(began).Seconds() })
	check(t, err)
	e.intake = e.core.NewIntake()
	return e
}

// joined gives modelrunner's concrete pass as the interface of enginecore.
type joined struct{ *modelrunner.Runner }

func (r joined) Start(plan *step.SchedulerOutput) enginecore.Pass { return r.Runner.Start(plan) }

// add asks for n greedy tokens after a prompt, and for log probabilities of it.
func (e *engine) add(ids []int32, n int, promptLogprobs *int) {
	e.t.Helper()
	p := protocol.DefaultSamplingParams()
	p.Temperature, p.MaxTokens, p.PromptLogprobs = 0, &n, promptLogprobs
	r, err := e.intake.Prepare(&protocol.EngineCoreRequest{
		RequestID: fmt.Sprint(len(e.results)), PromptTokenIDs: ids, SamplingParams: &p,
	})
	check(e.t, err)
	e.core.Add(r)
	e.results = append(e.results, result{})
}

// run computes what was added.
func (e *engine) run() []result {
	e.t.Helper()
	for e.core.HasWork() {
		messages, err := e.core.Step()
		check(e.t, err)
		for _, m := range messages {
			for _, o := range m.Outputs.Outputs {
				var i int
				_, err := fmt.Sscan(o.RequestID, &i)
				check(e.t, err)
				r := &e.results[i]
				r.tokens = append(r.tokens, o.NewTokenIDs...)
				if l := o.NewPromptLogprobs; l != nil {
					r.prompt.NumTokens, r.prompt.Width = r.prompt.NumTokens+l.NumTokens, l.Width
					r.prompt.TokenIDs = append(r.prompt.TokenIDs, l.TokenIDs...)
					r.prompt.Logprobs = append(r.prompt.Logprobs, l.Logprobs...)
				}
			}
		}
	}
	return e.results
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
