package model_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"govllm/protocol/modelfile"
)

// What packing a quantized file's values to 16 bits costs, against float32,
// which holds them all. It takes minutes, so only where GOVLLM_GGUF names a file.
func TestDTypesOfQuantized(t *testing.T) {
	path := os.Getenv("GOVLLM_GGUF")
	if path == "" {
		t.Skip("GOVLLM_GGUF names no GGUF file")
	}
	m, err := modelfile.Open(path, modelfile.Options{})
	must(t, err)
	tokens := longestMatches(m.GGUFVocabulary, taleText(t), 512)
	rows := make([]int32, len(tokens))
	for i := range rows {
		rows[i] = int32(i)
	}
	var want [][]float32
	for _, dtype := range []string{"float32", "float16", "bfloat16"} {
		got := openBenchAs(t, "cpu", path, dtype).logits(0, tokens, rows...)
		if want == nil {
			want = got
		}
		loss, divergence, agree := 0.0, 0.0, 0
		for i := range got {
			p, q := logSoftmax(want[i]), logSoftmax(got[i])
			if i+1 < len(tokens) {
				loss -= q[tokens[i+1]] / float64(len(tokens)-1)
			}
			for j := range p {
				divergence += math.Exp(p[j]) * (p[j] - q[j]) / float64(len(got))
			}
			if argmax(got[i]) == argmax(want[i]) {
				agree++
			}
		}
		t.Logf("%s: perplexity %.3f, KL from float32 %.2g, top-1 agreement %d of %d", dtype, math.Exp(loss), divergence, agree, len(got))
		if agree < len(got)*98/100 || divergence > 1e-3 {
			t.Errorf("%s is not the model: %d of %d agree, KL %.2g", dtype, agree, len(got), divergence)
		}
	}
}

// taleText is some English, with one space between words.
func taleText(t *testing.T) string {
	dir := os.Getenv("GOVLLM_DATA")
	if dir == "" {
		dir = "../../../shared/data"
	}
	data, err := os.ReadFile(filepath.Join(dir, "grimm-tales.txt"))
	if err != nil {
		t.Skipf("no text to read: %v", err)
	}
	return strings.Join(strings.Fields(string(data[200000:203000])), " ")
}

// longestMatches cuts a text into n tokens, each the longest that fits. That is
// not quite the tokenizer's way, and near enough for a model to follow.
func longestMatches(v *modelfile.GGUFVocabulary, text string, n int) []int32 {
	ids, spaces := map[string]int32{}, strings.NewReplacer("Ġ", " ", "▁", " ")
	for id, token := range v.Tokens {
		ids[spaces.Replace(token)] = int32(id)
	}
	tokens := []int32{max(v.BOS, 0)}
	for len(text) > 0 && len(tokens) < n {
		size := min(20, len(text))
		for ; size > 1; size-- {
			if _, ok := ids[text[:size]]; ok {
				break
			}
		}
		if id, ok := ids[text[:size]]; ok {
			tokens = append(tokens, id)
		}
		text = text[size:]
	}
	return tokens
}

func logSoftmax(logits []float32) []float64 {
	top, sum := float64(logits[argmax(logits)]), 0.0
	out := make([]float64, len(logits))
	for i, v := range logits {
		out[i] = float64(v) - top
		sum += math.Exp(out[i])
	}
	for i := range out {
		out[i] -= math.Log(sum)
	}
	return out
}
