package model_test

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"govllm/enginecore/model"
	"govllm/kernels"
	"govllm/kernels/cpu"
	_ "govllm/kernels/ref"
	"govllm/protocol/modelfile"
	"govllm/protocol/modelfile/builtin/weights"
)

// goldenDir holds what transformers computes; its README says how.
const goldenDir = "../../test/golden"

var goldenModels = []string{"tiny-llama-f32", "tiny-llama-bf16", "tiny-llama-hd64", "tiny-qwen2-f16", "tiny-qwen2-sharded",
	"tiny-llama3", "tiny-mistral", "tiny-smollm3", "tiny-qwen3", "tiny-qwen3moe", "tiny-mixtral", "tiny-phi3", "tiny-gemma2", "tiny-gemma3", "builtin"}

type golden struct {
	Cases []goldenCase `json:"cases"`
}

type goldenCase struct {
	Name      string  `json:"name"`
	Prompt    []int32 `json:"prompt"`
	Positions []int   `json:"positions"`
	Logits    []byte  `json:"logits"` // float32 [len(Positions), vocab]
	Greedy    []int32 `json:"greedy"`
}

func readGolden(t testing.TB, name string) golden {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(goldenDir, name, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Cases) == 0 {
		t.Fatalf("%s: no cases", name)
	}
	return g
}

func floats(data []byte) []float32 {
	values := make([]float32, len(data)/4)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return values
}

// bench runs a model on a device, one sequence at a time, with blocks of the
// cache in a scrambled order.
type bench struct {
	t     testing.TB
	dev   kernels.Device
	model *model.Model
	queue kernels.Queue
	work  *model.Workspace
	kv    kernels.KVCache
	table []int32
	in    model.Inputs
}

const (
	benchTokens = 1024
	blockSize   = 32
)

// devices are the reference and every level of the CPU backend.
func devices() []string {
	names := []string{"ref"}
	for _, isa := range cpu.Levels() {
		names = append(names, "cpu:"+isa)
	}
	return names
}

func openDevice(t testing.TB, name string) kernels.Device {
	t.Helper()
	name, isa, _ := strings.Cut(name, ":")
	dev, err := kernels.Open(name, kernels.Options{ISA: isa})
	must(t, err)
	t.Cleanup(func() { must(t, dev.Close()) })
	return dev
}

// openBench loads a golden model (or a directory) in float32, which the golden
// numbers were computed in.
func openBench(t testing.TB, device, name string) *bench {
	t.Helper()
	return openBenchAs(t, device, name, "float32")
}

// openBenchAs packs weights and cache to what --dtype says.
func openBenchAs(t testing.TB, device, name, dtype string) *bench {
	t.Helper()
	path := filepath.Join(goldenDir, name)
	if name == modelfile.Builtin || filepath.IsAbs(name) {
		path = name
	}
	m, err := modelfile.Open(path, modelfile.Options{BuiltinWeights: weights.FS})
	must(t, err)
	src, err := m.OpenWeights()
	must(t, err)
	defer src.Close()
	dev := openDevice(t, device)
	weightType, err := model.ResolveDType(dtype, m.Config.DType, dev.Caps())
	must(t, err)
	kvType, err := model.ResolveKVDType("auto", weightType, dev.Caps())
	must(t, err)
	loaded, err := model.Load(dev, m.Config, src, model.Options{DType: weightType, MaxModelLen: m.Config.MaxPositionEmbeddings})
	must(t, err)
	return newBench(t, dev, loaded, kvType)
}

func newBench(t testing.TB, dev kernels.Device, m *model.Model, kvType kernels.DType) *bench {
	t.Helper()
	numBlocks := benchTokens/blockSize + 1
	b := &bench{t: t, dev: dev, model: m}
	var err error
	b.queue, err = dev.NewQueue(m.NumOps() + 8)
	must(t, err)
	b.work, err = m.NewWorkspace(dev, benchTokens, benchTokens)
	must(t, err)
	b.kv, err = dev.NewKVCache(model.KVShape(m.Config(), numBlocks, blockSize, kvType))
	must(t, err)
	for i := range int32(numBlocks - 1) {
		b.table = append(b.table, 1+(i*7+3)%int32(numBlocks-1))
	}
	for _, a := range []struct {
		dst *kernels.Ints
		n   int
	}{
		{&b.in.TokenIDs, benchTokens}, {&b.in.Positions, benchTokens}, {&b.in.Slots, benchTokens}, {&b.in.LogitRows, benchTokens},
		{&b.in.Batch.QueryStart, 2}, {&b.in.Batch.SeqLens, 1}, {&b.in.Batch.BlockTable, len(b.table)},
	} {
		*a.dst, err = dev.NewInts(a.n)
		must(t, err)
	}
	b.in.KV = b.kv
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// logits computes tokens at positions [start, …) of the sequence and returns
// the logits of the given rows among them.
func (b *bench) logits(start int, tokens []int32, rows ...int32) [][]float32 {
	b.t.Helper()
	positions, slots := make([]int32, len(tokens)), make([]int32, len(tokens))
	for i := range tokens {
		p := start + i
		positions[i], slots[i] = int32(p), b.table[p/blockSize]*blockSize+int32(p%blockSize)
	}
	in := b.in
	in.NumTokens, in.NumLogits = len(tokens), len(rows)
	in.Batch.NumSeqs, in.Batch.MaxBlocks = 1, len(b.table)
	b.queue.Upload(in.TokenIDs, tokens)
	b.queue.Upload(in.Positions, positions)
	b.queue.Upload(in.Slots, slots)
	b.queue.Upload(in.LogitRows, rows)
	b.queue.Upload(in.Batch.QueryStart, []int32{0, int32(len(tokens))})
	b.queue.Upload(in.Batch.SeqLens, []int32{int32(start + len(tokens))})
	b.queue.Upload(in.Batch.BlockTable, b.table)
	logits := b.model.Forward(b.queue, b.work, in)
	vocab := b.model.Config().VocabSize
	values := make([]float32, len(rows)*vocab)
	if len(rows) > 0 {
		b.queue.DownloadRows(values, logits, len(rows))
	}
	must(b.t, b.queue.Sync())
	return slices.Collect(slices.Chunk(values, vocab))
}

func argmax(values []float32) int32 {
	best := 0
	for i, v := range values {
		if v > values[best] {
			best = i
		}
	}
	return int32(best)
}

// relativeError is the largest difference over the largest magnitude.
func relativeError(got, want []float32) float64 {
	worst, scale := 0.0, 0.0
	for i := range want {
		worst = max(worst, math.Abs(float64(got[i])-float64(want[i])))
		scale = max(scale, math.Abs(float64(want[i])))
	}
	return worst / scale
}

// Float32 weights and cache give transformers' logits and greedy tokens, on
// every device.
func TestGolden(t *testing.T) {
	for _, device := range devices() {
		for _, name := range goldenModels {
			t.Run(device+"/"+name, func(t *testing.T) {
				skipUnderRace(t, device, name)
				b := openBench(t, device, name)
				for _, c := range readGolden(t, name).Cases {
					b.checkLogits(c, 1e-4)
					if got := b.continueGreedily(c); !slices.Equal(got, c.Greedy) {
						t.Errorf("%s: greedy tokens = %v, want %v", c.Name, got, c.Greedy)
					}
				}
			})
		}
	}
}

// In the checkpoint's own types the cache is rounded. That moves logits a
// little, alike on every device, so that all draw the same greedy tokens. The
// builtin, whose logits lie further apart, keeps transformers' (and is not run
// on ref again, where it takes seconds).
func TestGoldenInTheCheckpointsTypes(t *testing.T) {
	for _, name := range goldenModels {
		var want [][]int32 // by case; from ref, which comes first
		for _, device := range devices() {
			if name == modelfile.Builtin && device == "ref" {
				continue
			}
			t.Run(name+"/"+device, func(t *testing.T) {
				skipUnderRace(t, device, name)
				b := openBenchAs(t, device, name, "auto")
				for i, c := range readGolden(t, name).Cases {
					b.checkLogits(c, 3e-2)
					got := b.continueGreedily(c)
					if name == modelfile.Builtin {
						want = append(want, c.Greedy)
					} else if device == "ref" {
						want = append(want, got)
					}
					if !slices.Equal(got, want[i]) {
						t.Errorf("%s: greedy tokens = %v, want %v", c.Name, got, want[i])
					}
				}
			})
		}
	}
}

func skipUnderRace(t *testing.T, device, name string) {
	if raceEnabled && (device == "ref" || name != modelfile.Builtin) {
		t.Skip("under the race detector, which makes ref ten times slower, one model on cpu is enough")
	}
}

// checkLogits computes a case's prompt at once.
func (b *bench) checkLogits(c goldenCase, tolerance float64) {
	b.t.Helper()
	rows := make([]int32, len(c.Positions))
	for i, p := range c.Positions {
		rows[i] = int32(p)
	}
	want := slices.Collect(slices.Chunk(floats(c.Logits), b.model.Config().VocabSize))
	got := b.logits(0, c.Prompt, rows...)
	if len(got) != len(want) {
		b.t.Fatalf("%s: %d rows of logits, want %d", c.Name, len(got), len(want))
	}
	for i := range want {
		if e := relativeError(got[i], want[i]); !(e <= tolerance) {
			b.t.Errorf("%s: logits at position %d are off by %.2g of the largest, want at most %.2g", c.Name, c.Positions[i], e, tolerance)
		}
	}
}

// continueGreedily decodes as many tokens as the case has, after its prompt
// was computed.
func (b *bench) continueGreedily(c goldenCase) []int32 {
	b.t.Helper()
	last, out := c.Prompt[len(c.Prompt)-1], make([]int32, len(c.Greedy))
	for i := range out {
		last = argmax(b.logits(len(c.Prompt)-1+i, []int32{last}, 0)[0])
		out[i] = last
	}
	return out
}
