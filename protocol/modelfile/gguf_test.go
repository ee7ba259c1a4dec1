package modelfile_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"govllm/protocol/modelfile"
	"govllm/protocol/modelfile/modelfiletest"
)

type pair = modelfiletest.Pair

// tokenizerPairs are metadata of a small tokenizer.
var tokenizerPairs = []pair{
	{Key: "tokenizer.ggml.model", Value: "gpt2"},
	{Key: "tokenizer.ggml.pre", Value: "smollm"},
	{Key: "tokenizer.ggml.tokens", Value: []string{"<unk>", "a", "b", "ab", "<|im_end|>", "<s>", "</s>"}},
	{Key: "tokenizer.ggml.token_type", Value: []int32{2, 1, 1, 1, 3, 3, 3}},
	{Key: "tokenizer.ggml.merges", Value: []string{"a b"}},
	{Key: "tokenizer.ggml.bos_token_id", Value: uint32(5)},
	{Key: "tokenizer.ggml.eos_token_id", Value: uint32(6)},
	{Key: "tokenizer.ggml.unknown_token_id", Value: uint32(0)},
	{Key: "tokenizer.ggml.padding_token_id", Value: uint32(math.MaxUint32)},
	{Key: "tokenizer.ggml.add_bos_token", Value: true},
	{Key: "tokenizer.chat_template", Value: "{{ messages }}"},
	{Key: "general.sampling.temp", Value: float32(0.6)},
	{Key: "general.sampling.top_k", Value: int32(20)},
}

// tinyGGUF is a small Llama as a GGUF file, with more metadata.
func tinyGGUF(more ...pair) []byte {
	cfg := modelfiletest.Llama().With(modelfiletest.Config{"num_hidden_layers": 1})
	return modelfiletest.AsGGUF(cfg, modelfiletest.RandomTensors(cfg, "F32", 1), more...)
}

func writeGGUF(t testing.TB, data []byte) string {
	t.Helper()
	dir := t.TempDir()
	modelfiletest.WriteFile(t, dir, "tiny.gguf", data)
	return filepath.Join(dir, "tiny.gguf")
}

func TestOpenGGUF(t *testing.T) {
	path := writeGGUF(t, tinyGGUF(tokenizerPairs...))
	for _, name := range []string{path, filepath.Dir(path)} { // the file, or a directory of nothing else
		m := open(t, name, modelfile.Options{})
		c := m.Config
		if c.Architecture != "LlamaForCausalLM" || c.VocabSize != 131 || c.NumKVHeads != 2 || c.HeadDim != 32 || c.TieWordEmbeddings ||
			!c.Rope.Interleaved || c.Rope.Theta != 10000 || c.RMSNormEps != 1e-5 || c.MaxPositionEmbeddings != 256 {
			t.Errorf("Open(%s).Config = %+v", name, c)
		}
		if got := m.EOSTokenIDs(); !slices.Equal(got, []int32{6, 4}) {
			t.Errorf("EOSTokenIDs() = %v, want </s> and <|im_end|>, [6 4]", got)
		}
		yes := true
		want := &modelfile.GGUFVocabulary{
			Model: "gpt2", Pre: "smollm", Tokens: []string{"<unk>", "a", "b", "ab", "<|im_end|>", "<s>", "</s>"},
			Types: []int32{2, 1, 1, 1, 3, 3, 3}, Merges: []string{"a b"},
			BOS: 5, EOS: 6, EOT: -1, EOM: -1, Unk: 0, Sep: -1, Pad: -1, Mask: -1, AddBOS: &yes,
		}
		if !reflect.DeepEqual(m.GGUFVocabulary, want) {
			t.Errorf("GGUFVocabulary = %+v, want %+v", m.GGUFVocabulary, want)
		}
		if got, want := string(m.TokenizerConfigJSON), `{"add_bos_token":true,"bos_token":"<s>","eos_token":"</s>","unk_token":"<unk>"}`; got != want {
			t.Errorf("TokenizerConfigJSON = %s, want %s", got, want)
		}
		if string(m.ChatTemplateJinja) != "{{ messages }}" || m.TokenizerJSON != nil {
			t.Errorf("ChatTemplateJinja = %s, TokenizerJSON = %s", m.ChatTemplateJinja, m.TokenizerJSON)
		}
		if g := m.Generation; g.Temperature == nil || *g.Temperature != 0.6 || g.TopK == nil || *g.TopK != 20 || g.TopP != nil {
			t.Errorf("Generation = %+v, want temperature 0.6, top_k 20", g)
		}
		w, err := m.OpenWeights()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Tensor("model.layers.0.mlp.down_proj.weight", 64, 96); err != nil || w.DType() != modelfile.F32 {
			t.Errorf("Tensor(down_proj) = %v, DType() = %s", err, w.DType())
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestGGUFOptions(t *testing.T) {
	path := writeGGUF(t, tinyGGUF(tokenizerPairs...))
	if m := open(t, path, modelfile.Options{NoTokenizer: true}); m.GGUFVocabulary != nil || m.ChatTemplateJinja != nil {
		t.Errorf("Open without a tokenizer = %+v", m)
	}
	m := open(t, path, modelfile.Options{GenerationConfig: "vllm", OverrideGenerationConfig: []byte(`{"top_p":0.5}`)})
	if g := m.Generation; g.Temperature != nil || *g.TopP != 0.5 || !slices.Equal(m.EOSTokenIDs(), []int32{6, 4}) {
		t.Errorf("Open with --generation-config vllm = %+v, stop tokens %v", g, m.EOSTokenIDs())
	}
	hf := modelfiletest.WriteDir(t, modelfiletest.Llama())
	modelfiletest.WriteFile(t, hf, "tokenizer.json", []byte("{}"))
	if m := open(t, path, modelfile.Options{Tokenizer: hf}); m.GGUFVocabulary != nil || m.TokenizerJSON == nil {
		t.Errorf("Open of a GGUF file with another tokenizer: it has its own")
	}
	if m := open(t, hf, modelfile.Options{Tokenizer: path}); m.GGUFVocabulary == nil || m.TokenizerJSON != nil {
		t.Errorf("Open of a directory with a GGUF file's tokenizer: it has its own")
	}
	if m := open(t, writeGGUF(t, tinyGGUF()), modelfile.Options{}); m.GGUFVocabulary != nil || m.TokenizerConfigJSON != nil {
		t.Errorf("Open of a GGUF file without a tokenizer: %+v", m.GGUFVocabulary)
	}
}

func TestGGUFChatTemplates(t *testing.T) {
	named := append(slices.Clone(tokenizerPairs), pair{Key: "tokenizer.chat_templates", Value: []string{"tool_use"}})
	m := open(t, writeGGUF(t, tinyGGUF(append(named, pair{Key: "tokenizer.chat_template.tool_use", Value: "T"})...)), modelfile.Options{})
	want := `"chat_template":[{"name":"default","template":"{{ messages }}"},{"name":"tool_use","template":"T"}]`
	if !strings.Contains(string(m.TokenizerConfigJSON), want) || m.ChatTemplateJinja != nil {
		t.Errorf("TokenizerConfigJSON = %s, ChatTemplateJinja = %s, want %s and none", m.TokenizerConfigJSON, m.ChatTemplateJinja, want)
	}
	if _, err := modelfile.Open(writeGGUF(t, tinyGGUF(named...)), modelfile.Options{}); !errors.Is(err, modelfile.ErrInvalid) || !strings.Contains(err.Error(), "tokenizer.chat_template.tool_use") {
		t.Errorf("Open without a template that is named = %v, want ErrInvalid that names it", err)
	}
}

// What the metadata says of the computation, one family and key at a time.
func TestGGUFConfig(t *testing.T) {
	half := math.Sqrt(64)
	for _, c := range []struct {
		name string
		cfg  modelfiletest.Config
		more []pair
		ok   func(c *modelfile.Config) bool
	}{
		{"window of Mistral", modelfiletest.Llama().With(modelfiletest.Config{"sliding_window": 16}), nil,
			func(c *modelfile.Config) bool {
				return c.SlidingWindow == 16 && c.Local[0] && c.RopeLocal.Interleaved
			}},
		{"window as long as the model", modelfiletest.Llama().With(modelfiletest.Config{"sliding_window": 256}), nil,
			func(c *modelfile.Config) bool { return c.Local == nil }},
		{"linear scaling", modelfiletest.Llama(), []pair{{Key: "llama.rope.scaling.type", Value: "linear"}, {Key: "llama.rope.scaling.factor", Value: float32(4)}},
			func(c *modelfile.Config) bool { return len(c.Rope.Divisors) == 16 && c.Rope.Divisors[3] == 4 }},
		{"no scaling", modelfiletest.Llama(), []pair{{Key: "llama.rope.scaling.type", Value: "none"}, {Key: "llama.expert_count", Value: uint32(0)}},
			func(c *modelfile.Config) bool { return c.Rope.Divisors == nil }},
		{"one size for each layer", modelfiletest.Qwen3().With(modelfiletest.Config{"num_key_value_heads": nil}),
			[]pair{{Key: "qwen3.attention.head_count_kv", Value: []int32{2, 2, 2}}},
			func(c *modelfile.Config) bool { return c.NumKVHeads == 2 }},
		{"qwen3", modelfiletest.Qwen3(), nil, func(c *modelfile.Config) bool { return c.QKNorm && !c.Rope.Interleaved && !c.QKVBias }},
		{"qwen2", modelfiletest.Qwen2().With(modelfiletest.Config{"sliding_window": 0}), nil,
			func(c *modelfile.Config) bool { return c.QKVBias && !c.OutBias && c.TieWordEmbeddings }},
		{"gemma2", modelfiletest.Gemma2().With(modelfiletest.Config{"attn_logit_softcapping": nil, "final_logit_softcapping": nil, "sliding_window": nil}), nil,
			func(c *modelfile.Config) bool {
				return c.SlidingWindow == 4096 && c.AttnSoftCap == 50 && c.LogitSoftCap == 30 && slices.Equal(c.Local, []bool{true, false, true}) && c.NormOffset == 0
			}},
		{"gemma3", modelfiletest.Gemma3().With(modelfiletest.Config{"layer_types": nil, "rope_theta": nil, "rope_local_base_freq": nil}), nil,
			func(c *modelfile.Config) bool {
				return slices.Equal(c.Local, []bool{true, true, true}) && c.Rope.Theta == 1e6 && c.RopeLocal.Theta == 1e4 &&
					c.Rope.Divisors[0] == 8 && c.RopeLocal.Divisors == nil && float64(c.EmbedScale) == half && c.QKNorm && c.PostNorms
			}},
	} {
		m := open(t, writeGGUF(t, modelfiletest.AsGGUF(c.cfg, modelfiletest.RandomTensors(c.cfg.With(modelfiletest.Config{"num_key_value_heads": 2}), "F32", 1), c.more...)), modelfile.Options{})
		if !c.ok(&m.Config) {
			t.Errorf("%s: Config = %+v", c.name, m.Config)
		}
	}
}

func TestGGUFRopeDivisors(t *testing.T) {
	cfg := modelfiletest.Llama().With(modelfiletest.Config{"num_hidden_layers": 1})
	tensors := modelfiletest.RandomTensors(cfg, "F32", 1)
	freqs := tensor{Name: "rope_freqs.weight", DType: "F32", Shape: []int{16}}
	for i := range 16 {
		freqs.Data = binary.LittleEndian.AppendUint32(freqs.Data, math.Float32bits(float32(1+i)))
	}
	m := open(t, writeGGUF(t, modelfiletest.AsGGUF(cfg, append(tensors, freqs))), modelfile.Options{})
	if d := m.Config.Rope.Divisors; len(d) != 16 || d[0] != 1 || d[15] != 16 {
		t.Errorf("Divisors = %v, want 1 to 16", d)
	}
	w, err := m.OpenWeights()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if slices.Contains(w.Names(), freqs.Name) {
		t.Errorf("%s is a weight", freqs.Name)
	}
}

func TestGGUFConfigRefusals(t *testing.T) {
	for _, c := range []struct {
		name string
		file []byte
		is   error
		says string
	}{
		{"no architecture", modelfiletest.GGUF(nil), modelfile.ErrInvalid, "general.architecture"},
		{"another architecture", modelfiletest.GGUF([]pair{{Key: "general.architecture", Value: "bert"}}), modelfile.ErrUnsupported, "bert is not supported; there are gemma2, gemma3, llama"},
		{"architecture is a number", modelfiletest.GGUF([]pair{{Key: "general.architecture", Value: uint32(3)}}), modelfile.ErrInvalid, "= 3: must be a string"},
		{"no sizes", modelfiletest.GGUF([]pair{{Key: "general.architecture", Value: "llama"}}), modelfile.ErrInvalid, "no metadata llama.block_count"},
		{"no embedding", modelfiletest.GGUF([]pair{{Key: "general.architecture", Value: "llama"}}), modelfile.ErrInvalid, `no matrix "token_embd.weight"`},
		{"experts", tinyGGUF(pair{Key: "llama.expert_count", Value: uint32(8)}), modelfile.ErrUnsupported, "llama.expert_count = 8"},
		{"yarn", tinyGGUF(pair{Key: "llama.rope.scaling.type", Value: "yarn"}), modelfile.ErrUnsupported, `llama.rope.scaling.type = "yarn"`},
		{"linear without a factor", tinyGGUF(pair{Key: "llama.rope.scaling.type", Value: "linear"}), modelfile.ErrInvalid, "llama.rope.scaling.factor"},
		{"an unknown key", tinyGGUF(pair{Key: "llama.attention.novelty", Value: true}), modelfile.ErrUnsupported, "llama.attention.novelty = true"},
		{"sizes by layer", tinyGGUF(pair{Key: "llama.attention.sliding_window", Value: []int32{1, 2}}), modelfile.ErrUnsupported, "all layers must have the same"},
		{"more tokens than rows", tinyGGUF(pair{Key: "tokenizer.ggml.tokens", Value: make([]string, 132)}), modelfile.ErrInvalid, `tokenizer.ggml.tokens has 132, but tensor "token_embd.weight" 131 rows`},
		{"eos beyond the vocabulary", tinyGGUF(pair{Key: "tokenizer.ggml.eos_token_id", Value: uint32(131)}), modelfile.ErrInvalid, "tokenizer.ggml.eos_token_id = 131: must be a token ID below 131"},
		{"types of other tokens", tinyGGUF(pair{Key: "tokenizer.ggml.tokens", Value: []string{"a"}}, pair{Key: "tokenizer.ggml.token_type", Value: []int32{1, 2}}), modelfile.ErrInvalid, "tokenizer.ggml.token_type"},
		{"tokens are numbers", tinyGGUF(pair{Key: "tokenizer.ggml.tokens", Value: []int32{1}}), modelfile.ErrInvalid, "must be an array of strings"},
		{"a bad temperature", tinyGGUF(pair{Key: "general.sampling.temp", Value: float32(-1)}), modelfile.ErrInvalid, "temperature = -1"},
	} {
		_, err := modelfile.Open(writeGGUF(t, c.file), modelfile.Options{})
		if !errors.Is(err, c.is) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: Open = %v, want %v that says %q", c.name, err, c.is, c.says)
		}
	}
}

// badGGUF are headers that must be refused, with words of the reason.
func badGGUF() []struct {
	name string
	file []byte
	is   error
	says string
} {
	le := binary.LittleEndian
	head := func(version uint32, tensors, pairs uint64, rest ...byte) []byte {
		file := le.AppendUint32([]byte("GGUF"), version)
		return append(le.AppendUint64(le.AppendUint64(file, tensors), pairs), rest...)
	}
	str := func(s string) []byte { return append(le.AppendUint64(nil, uint64(len(s))), s...) }
	kv := func(key string, kind uint32, value ...byte) []byte {
		return append(le.AppendUint32(str(key), kind), value...)
	}
	array := func(kind uint32, count uint64, rest ...byte) []byte {
		return append(le.AppendUint64(le.AppendUint32(nil, kind), count), rest...)
	}
	info := func(name string, dims []uint64, kind uint32, offset uint64) []byte {
		b := le.AppendUint32(str(name), uint32(len(dims)))
		for _, d := range dims {
			b = le.AppendUint64(b, d)
		}
		return le.AppendUint64(le.AppendUint32(b, kind), offset)
	}
	// body pads the header and adds n bytes of data.
	body := func(file []byte, n int) []byte {
		return append(append(file, make([]byte, -len(file)&31)...), make([]byte, n)...)
	}
	align := func(n uint32) []byte { return kv("general.alignment", 4, le.AppendUint32(nil, n)...) }
	f32 := []uint64{8}
	two := func(a, b []byte) []byte { return append(slices.Clone(a), b...) }
	invalid, unsupported := modelfile.ErrInvalid, modelfile.ErrUnsupported
	return []struct {
		name string
		file []byte
		is   error
		says string
	}{
		{"empty", nil, invalid, "of the file's 0 there are 0 left"},
		{"another magic", head(3, 0, 0)[1:], invalid, `begins with "GUF\x03"`},
		{"big-endian", append([]byte("GGUF"), 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), unsupported, "big-endian"},
		{"version 1", head(1, 0, 0), unsupported, "version 1"},
		{"version 4", head(4, 0, 0), unsupported, "version 4"},
		{"absurd count of pairs", head(3, 0, math.MaxUint64), invalid, "key 1 of 18446744073709551615"},
		{"absurd count of tensors", head(3, math.MaxUint64, 0), invalid, "tensor 1 of 18446744073709551615"},
		{"absurd key", head(3, 0, 1, le.AppendUint64(nil, math.MaxUint64)...), invalid, "needs 18446744073709551615 bytes"},
		{"absurd string", head(3, 0, 1, kv("a", 8, le.AppendUint64(nil, 1<<60)...)...), invalid, `metadata "a" needs 1152921504606846976 bytes`},
		{"absurd array", head(3, 0, 1, kv("a", 9, array(5, 1<<62)...)...), invalid, "an array of 4611686018427387904 int32"},
		{"absurd array of strings", head(3, 0, 1, kv("a", 9, array(8, 1<<62)...)...), invalid, "string 1 of 4611686018427387904"},
		{"array of arrays", head(3, 0, 1, kv("a", 9, array(9, 1)...)...), unsupported, "array of arrays"},
		{"array of an unknown kind", head(3, 0, 1, kv("a", 9, array(13, 1)...)...), invalid, "unknown kind 13"},
		{"unknown kind", head(3, 0, 1, kv("a", 77)...), invalid, `"a" has the unknown kind 77`},
		{"duplicate key", head(3, 0, 2, two(kv("a", 0, 1), kv("a", 0, 1))...), invalid, `"a" is there twice`},
		{"alignment 0", head(3, 0, 1, align(0)...), invalid, "general.alignment = 0"},
		{"alignment 48", head(3, 0, 1, align(48)...), invalid, "general.alignment = 48"},
		{"alignment is a string", head(3, 0, 1, kv("general.alignment", 8, str("x")...)...), invalid, `general.alignment = "x"`},
		{"duplicate tensor", body(head(3, 2, 0, two(info("a", f32, 0, 0), info("a", f32, 0, 32))...), 64), invalid, `tensor "a" is there twice`},
		{"overlap", body(head(3, 2, 0, two(info("a", []uint64{16}, 0, 0), info("b", f32, 0, 32))...), 64), invalid, `"b" begins at byte 32 of the data, inside "a", which ends at 64`},
		{"gap", body(head(3, 2, 0, two(info("a", f32, 0, 0), info("b", f32, 0, 64))...), 96), invalid, `bytes 32 to 64 of the data, before tensor "b"`},
		{"out of the file", body(head(3, 1, 0, info("a", f32, 0, 0)...), 31), invalid, `"a" ends at byte 32 of the data, the file holds 31`},
		{"far out of the file", body(head(3, 1, 0, info("a", f32, 0, 1<<63)...), 32), invalid, `"a" ends at byte 9223372036854775840`},
		{"offset wraps", body(head(3, 1, 0, info("a", f32, 0, math.MaxUint64-31)...), 32), invalid, `tensor "a"`},
		{"misaligned", body(head(3, 1, 0, info("a", f32, 0, 8)...), 64), invalid, `"a" begins at byte 8 of the data, no multiple of the alignment 32`},
		{"absurd shape", body(head(3, 1, 0, info("a", []uint64{1 << 40, 1 << 40}, 0, 0)...), 32), invalid, `tensor "a"`},
		{"shape wraps to zero", body(head(3, 1, 0, info("a", []uint64{1 << 32, 1 << 32}, 0, 0)...), 32), invalid, `tensor "a"`},
		{"dimension beyond int", body(head(3, 1, 0, info("a", []uint64{math.MaxUint64}, 0, 0)...), 32), invalid, "dimension of 18446744073709551615"},
		{"five dimensions", body(head(3, 1, 0, info("a", []uint64{1, 1, 1, 1, 1}, 0, 0)...), 32), invalid, "5 dimensions"},
		{"part of a block", body(head(3, 1, 0, info("a", []uint64{33}, 8, 0)...), 64), invalid, "[33] values of type Q8_0 are no whole number of blocks"},
		{"IQ4_XS", body(head(3, 1, 0, info("a", []uint64{256}, 23, 0)...), 256), unsupported, `tensor "a": type IQ4_XS is not supported; F32, F16, Q4_0`},
		{"unknown type", body(head(3, 1, 0, info("a", f32, 99, 0)...), 32), unsupported, "type number 99"},
		{"name is no text", body(head(3, 1, 0, info("\xff", f32, 0, 0)...), 32), invalid, "not UTF-8"},
	}
}

func TestBadGGUF(t *testing.T) {
	for _, c := range badGGUF() {
		err := modelfile.ParseGGUF("x.gguf", c.file)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "x.gguf: ") {
			t.Errorf("%s: parseGGUF = %v, want %v that says %q", c.name, err, c.is, c.says)
		}
	}
}

func TestEveryGGUFTruncationIsRefused(t *testing.T) {
	file := modelfiletest.GGUF(tokenizerPairs, a, tensor{Name: "b", DType: "Q8_0", Shape: []int{2, 32}, Data: make([]byte, 68)})
	if err := modelfile.ParseGGUF("x", file); err != nil {
		t.Fatal(err)
	}
	for n := range file {
		if err := modelfile.ParseGGUF("x", file[:n]); !errors.Is(err, modelfile.ErrInvalid) {
			t.Errorf("parseGGUF(%d of %d bytes) = %v, want ErrInvalid", n, len(file), err)
		}
	}
}

// allocated returns the bytes that f allocates.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// What counts claim costs nothing, and what is there costs in proportion: at
// most 32 bytes for each of the header, and what the largest config takes.
func TestGGUFAllocations(t *testing.T) {
	const perByte, anyway = 32, 512 << 10
	for _, c := range badGGUF() {
		if got := allocated(func() { modelfile.ParseGGUF("x.gguf", c.file) }); got > perByte*len(c.file)+anyway {
			t.Errorf("%s: %d bytes of file made parseGGUF allocate %d", c.name, len(c.file), got)
		}
	}
	var many []tensor
	for i := range 1000 {
		many = append(many, tensor{Name: fmt.Sprint(i), DType: "F32"})
	}
	absurd := []pair{{Key: "general.architecture", Value: "llama"}, {Key: "llama.attention.key_length", Value: uint32(1 << 30)},
		{Key: "llama.rope.scaling.type", Value: "linear"}, {Key: "llama.rope.scaling.factor", Value: float32(2)},
		{Key: "llama.block_count", Value: uint32(1 << 30)}, {Key: "llama.attention.sliding_window", Value: uint32(2)},
		{Key: "llama.context_length", Value: uint32(1 << 30)}, {Key: "tokenizer.ggml.tokens", Value: make([]string, 5000)}}
	for _, file := range [][]byte{modelfiletest.GGUF(nil, many...), modelfiletest.GGUF(absurd)} {
		path := writeGGUF(t, file)
		got := allocated(func() {
			if _, err := modelfile.Open(path, modelfile.Options{}); err == nil {
				t.Error("Open accepted it")
			}
		})
		if got > perByte*len(file)+anyway {
			t.Errorf("%d bytes of file made Open allocate %d", len(file), got)
		}
	}
}

func FuzzGGUF(f *testing.F) {
	f.Add(tinyGGUF(tokenizerPairs...)[:4096])
	f.Add(modelfiletest.GGUF(tokenizerPairs, a))
	for _, c := range badGGUF() {
		f.Add(c.file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		var err error
		got := allocated(func() { err = modelfile.DescribeGGUF("x", file) })
		if err != nil && !errors.Is(err, modelfile.ErrInvalid) && !errors.Is(err, modelfile.ErrUnsupported) {
			t.Errorf("DescribeGGUF = %v, which is neither ErrInvalid nor ErrUnsupported", err)
		}
		if got > 64*len(file)+1<<20 { // other goroutines of the fuzzer allocate too
			t.Errorf("%d bytes of file made DescribeGGUF allocate %d", len(file), got)
		}
	})
}

// splitGGUF writes shards, each with its own number.
func splitGGUF(t *testing.T, shards ...[]tensor) string {
	t.Helper()
	dir := t.TempDir()
	for i, tensors := range shards {
		pairs := []pair{{Key: "split.no", Value: int32(i)}, {Key: "split.count", Value: int32(len(shards))}}
		if i == 0 {
			pairs = append(pairs, pair{Key: "general.architecture", Value: "llama"})
		}
		modelfiletest.WriteFile(t, dir, fmt.Sprintf("m-%05d-of-%05d.gguf", i+1, len(shards)), modelfiletest.GGUF(pairs, tensors...))
	}
	return dir
}

func TestSplitGGUF(t *testing.T) {
	x, y := tensor{Name: "token_embd.weight", DType: "F32", Shape: []int{2, 3}, Data: a.Data}, tensor{Name: "blk.0.ffn_up.weight", DType: "F32", Shape: []int{2, 3}, Data: a.Data}
	first := func(dir string) string { return filepath.Join(dir, "m-00001-of-00002.gguf") }
	good := splitGGUF(t, []tensor{x}, []tensor{y})
	if err := modelfile.OpenGGUF(first(good), "token_embd.weight", "blk.0.ffn_up.weight"); err != nil {
		t.Errorf("a split file: %v", err)
	}
	missing := splitGGUF(t, []tensor{x}, []tensor{y})
	if err := os.Remove(filepath.Join(missing, "m-00002-of-00002.gguf")); err != nil {
		t.Fatal(err)
	}
	renamed := t.TempDir()
	modelfiletest.WriteFile(t, renamed, "m.gguf", must(os.ReadFile(first(good)))(t))
	swapped := splitGGUF(t, []tensor{x}, []tensor{y})
	modelfiletest.WriteFile(t, swapped, "m-00002-of-00002.gguf", must(os.ReadFile(first(good)))(t))
	for _, c := range []struct {
		name, path string
		is         error
		says       string
	}{
		{"a missing shard", first(missing), modelfile.ErrNotFound, "m-00002-of-00002.gguf"},
		{"the second shard", filepath.Join(good, "m-00002-of-00002.gguf"), modelfile.ErrInvalid, "give the first shard, m-00001-of-00002.gguf"},
		{"a shard alone", filepath.Join(renamed, "m.gguf"), modelfile.ErrInvalid, "one of 2 shards"},
		{"the first twice", first(swapped), modelfile.ErrInvalid, "split.no must be 1"},
		{"one tensor twice", first(splitGGUF(t, []tensor{x}, []tensor{x})), modelfile.ErrInvalid, `"token_embd.weight" is also in m-00001-of-00002.gguf`},
	} {
		if err := modelfile.OpenGGUF(c.path); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: openGGUF = %v, want %v that says %q", c.name, err, c.is, c.says)
		}
	}
}

func TestDirectoriesOfGGUF(t *testing.T) {
	two := t.TempDir()
	for _, name := range []string{"m-q4.gguf", "m-q8.gguf"} {
		modelfiletest.WriteFile(t, two, name, tinyGGUF())
	}
	if _, err := modelfile.Open(two, modelfile.Options{}); !errors.Is(err, modelfile.ErrInvalid) || !strings.Contains(err.Error(), "m-q4.gguf") {
		t.Errorf("Open of a directory of two GGUF models = %v, want ErrInvalid that names one", err)
	}
	both := modelfiletest.WriteDir(t, modelfiletest.Llama())
	modelfiletest.WriteFile(t, both, "m.gguf", []byte("GGUF"))
	if m := open(t, both, modelfile.Options{}); m.Config.VocabSize != 131 {
		t.Errorf("Open of a directory with config.json reads its GGUF file")
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
