package tokenizer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// benchmarkTokenizers returns the tokenizers to measure: a small one of each kind,
// and real ones if GOVLLM_TOKENIZER_ORACLE names their directory.
func benchmarkTokenizers(b *testing.B) map[string]*Tokenizer {
	tokenizers := map[string]*Tokenizer{"small": loadDirectory(b, "testdata/small/llama3")}
	for _, name := range []string{"llama2", "t5", "albert", "bert"} {
		tokenizers["small_"+name] = loadDirectory(b, filepath.Join("testdata/small", name))
	}
	if root := os.Getenv("GOVLLM_TOKENIZER_ORACLE"); root != "" {
		for _, name := range []string{"llama3", "qwen3", "deepseek_v3", "llama2", "gemma3"} {
			tokenizers[name] = loadDirectory(b, filepath.Join(root, name))
		}
	}
	return tokenizers
}

const englishSentence = `The old king of the northern forest had three daughters, and none of them could be found after sunset. "Where do they go?" he asked the gardener, who shrugged and said that he'd seen 12 swans fly over the lake in 1897.
`

// benchmarkTexts are English prose made less uniform by numbering, and the
// hand-made half of the corpus: many scripts, code, symbols.
func benchmarkTexts(b *testing.B) map[string]string {
	var english strings.Builder
	words := strings.Fields(englishSentence)
	for i := range 40_000 {
		english.WriteString(words[(i*i+i/7)%len(words)])
		english.WriteByte(" \n"[i%13/12])
	}
	return map[string]string{
		"english": english.String(),
		"mixed":   strings.Repeat(strings.Join(corpus(b)[:58], "\n"), 20),
	}
}

func BenchmarkEncode(b *testing.B) {
	texts := benchmarkTexts(b)
	for name, tok := range benchmarkTokenizers(b) {
		for kind, text := range texts {
			b.Run("tok="+name+"/text="+kind, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				var ids []int32
				var err error
				for b.Loop() {
					if ids, err = tok.AppendEncode(ids[:0], text, false); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(len(ids))*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
			})
		}
	}
}

// BenchmarkEncodeCold measures words that the cache does not hold.
func BenchmarkEncodeCold(b *testing.B) {
	texts := benchmarkTexts(b)
	for name, tok := range benchmarkTokenizers(b) {
		m, ok := tok.model.(*bpe)
		if !ok {
			continue
		}
		b.Run("tok="+name, func(b *testing.B) {
			text := texts["mixed"][:len(texts["mixed"])/20]
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			var ids []int32
			for b.Loop() {
				clear(m.cache.slots)
				ids, _ = tok.AppendEncode(ids[:0], text, false)
			}
		})
	}
}

// BenchmarkEncodeWord shows that cost grows with the length of a word, not its square.
func BenchmarkEncodeWord(b *testing.B) {
	for name, tok := range benchmarkTokenizers(b) {
		for size, text := range map[string]string{
			"1000": strings.Repeat("ab", 500), "100000": strings.Repeat("ab", 50_000), "100000_spaces": strings.Repeat(" ", 100_000),
		} {
			b.Run("tok="+name+"/bytes="+size, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := tok.Encode(text, false); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	text := benchmarkTexts(b)["mixed"]
	for name, tok := range benchmarkTokenizers(b) {
		b.Run("tok="+name, func(b *testing.B) {
			ids, err := tok.Encode(text, false)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				tok.Decode(ids, true)
			}
		})
	}
}

// BenchmarkDetokenizer appends one token at a time.
func BenchmarkDetokenizer(b *testing.B) {
	text := benchmarkTexts(b)["mixed"]
	for name, tok := range benchmarkTokenizers(b) {
		b.Run("tok="+name, func(b *testing.B) {
			ids, err := tok.Encode(text, false)
			if err != nil {
				b.Fatal(err)
			}
			d := tok.NewDetokenizer(nil, true)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				d.Append(ids[i%len(ids)])
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	files := map[string]string{"small": "testdata/small/llama3"}
	if root := os.Getenv("GOVLLM_TOKENIZER_ORACLE"); root != "" {
		for _, name := range []string{"llama3", "gptoss", "llama2", "gemma3"} {
			files[name] = filepath.Join(root, name)
		}
	}
	for name, directory := range files {
		b.Run("tok="+name, func(b *testing.B) {
			data := readFile(b, filepath.Join(directory, "tokenizer.json"))
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Load(data, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
