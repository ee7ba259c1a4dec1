package tokenizer

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func pointer[T any](v T) *T { return &v }

// smallGGUF returns a vocabulary of the kind gpt2 or llama.
func smallGGUF(kind string) *GGUF {
	if kind == "gpt2" {
		return &GGUF{
			Model: kind, Pre: "gpt-2", Tokens: []string{"a", "b", "Ġ", "ab", "Ġa", "<|end|>", "<tool>", "[PAD7]"},
			Types: []int32{1, 1, 1, 1, 1, 3, 4, 5}, Merges: []string{"a b", "Ġ a"}, BOS: pointer[int32](5), EOS: pointer[int32](5),
		}
	}
	return &GGUF{
		Model: kind, Tokens: []string{"<unk>", "<s>", "</s>", "a", "b", "▁", "ab", "▁a", "<tool>", "[PAD9]"},
		Types: []int32{2, 3, 3, 1, 1, 1, 1, 1, 4, 5}, Scores: []float32{0, 0, 0, -3, -4, -5, -1, -2, 0, 0}, UNK: pointer[int32](0),
	}
}

func TestLoadGGUF(t *testing.T) {
	for _, tt := range []struct {
		name, kind, text string
		change           func(*GGUF)
		want             []int32 // with special tokens added
	}{
		{"byte-level", "gpt2", "ab a", nil, []int32{3, 4}},
		{"added tokens", "gpt2", "a<tool>a<|end|>", nil, []int32{0, 6, 0, 5}},
		{"padding is no token", "gpt2", "[PAD7]", nil, []int32{}},
		{"BOS by the name", "gpt2", "a", func(g *GGUF) { g.Pre = "llama-bpe" }, []int32{5, 0}},
		{"BOS by the file", "gpt2", "a", func(g *GGUF) { g.AddBOS = pointer(true) }, []int32{5, 0}},
		{"no BOS by the file", "gpt2", "a", func(g *GGUF) { g.Pre, g.AddBOS = "llama-bpe", pointer(false) }, []int32{0}},
		{"EOS by the file", "gpt2", "a", func(g *GGUF) { g.AddEOS = pointer(true) }, []int32{0, 5}},
		{"no name", "gpt2", "ab", func(g *GGUF) { g.Pre = "" }, []int32{3}},
		{"no types", "gpt2", "ab", func(g *GGUF) { g.Types = nil }, []int32{3}},
		{"SentencePiece", "llama", "ab", nil, []int32{1, 5, 6}},
		{"a prefix for each part", "llama", "a</s>a", nil, []int32{1, 7, 2, 7}},
		{"no prefix", "llama", "a", func(g *GGUF) { g.AddSpacePrefix = pointer(false) }, []int32{1, 3}},
		{"user-defined", "llama", "a<tool>b", nil, []int32{1, 7, 8, 5, 4}},
		{"white space after Phi-3's tokens", "llama", "</s> \n<s> a", func(g *GGUF) { g.Architecture = "phi3" }, []int32{1, 2, 1, 5, 7}},
		{"Unigram", "t5", "ab ab", func(g *GGUF) { g.EOS = pointer[int32](2) }, []int32{5, 6, 5, 6, 2}},
	} {
		g := smallGGUF(tt.kind)
		if tt.change != nil {
			tt.change(g)
		}
		tok, err := LoadGGUF(g)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got, err := tok.Encode(tt.text, true); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: Encode(%q) = %v, %v, want %v", tt.name, tt.text, got, err, tt.want)
		}
	}
}

func TestLoadGGUFErrors(t *testing.T) {
	for _, tt := range []struct {
		name   string
		kind   string
		change func(*GGUF)
		is     error
		want   string
	}{
		{"kind", "rwkv", nil, ErrUnsupported, `tokenizer.ggml.model "rwkv" (served: gpt2, llama, t5)`},
		{"pre-tokenizer", "gpt2", func(g *GGUF) { g.Pre = "kimi-k2" }, ErrUnsupported, `tokenizer.ggml.pre "kimi-k2" (served: a.x-4.0, bailingmoe,`},
		{"no tokens", "gpt2", func(g *GGUF) { g.Tokens = nil }, ErrInvalid, "tokens is empty"},
		{"types", "gpt2", func(g *GGUF) { g.Types = g.Types[1:] }, ErrInvalid, "token_type has 7 entries for 8 tokens"},
		{"scores", "llama", func(g *GGUF) { g.Scores = g.Scores[1:] }, ErrInvalid, "scores has 9 entries for 10 tokens"},
		{"no scores", "llama", func(g *GGUF) { g.Scores = nil }, ErrInvalid, "no tokenizer.ggml.scores"},
		{"id", "gpt2", func(g *GGUF) { g.EOS = pointer[int32](8) }, ErrInvalid, "eos_token_id is 8, outside 0 to 7"},
		{"no BOS to add", "gpt2", func(g *GGUF) { g.BOS, g.AddBOS = nil, pointer(true) }, ErrInvalid, "add_bos_token is true, but there is no bos_token_id"},
		{"merge", "gpt2", func(g *GGUF) { g.Merges[1] = "Ġ x" }, ErrInvalid, `tokenizer.ggml.merges[1]: the merge of "Ġ" and "x" needs the token "x"`},
		{"merge of one", "gpt2", func(g *GGUF) { g.Merges[0] = "ab" }, ErrInvalid, `"ab" is not two tokens`},
		{"token twice", "gpt2", func(g *GGUF) { g.Tokens[1] = "a" }, ErrInvalid, `token "a" has two ids, 0 and 1`},
	} {
		g := smallGGUF(tt.kind)
		if tt.change != nil {
			tt.change(g)
		}
		tok, err := LoadGGUF(g)
		if tok != nil || !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "GGUF vocabulary: ") {
			t.Errorf("%s: LoadGGUF = %v, %v, want GGUF vocabulary: %v … %s", tt.name, tok, err, tt.is, tt.want)
		}
	}
}

// TestGGUFPreTokenizers: every name has patterns that are served, and cuts a
// text without losing any of it.
func TestGGUFPreTokenizers(t *testing.T) {
	seen := map[string]bool{}
	texts := corpus(t)[:58]
	for names := range ggufPres {
		for _, name := range strings.Fields(names) {
			if seen[name] {
				t.Errorf("%s stands twice in the table", name)
			}
			seen[name] = true
		}
		pre, err := ggufPreOf(strings.Fields(names)[0])
		if err != nil {
			t.Fatal(err)
		}
		stages, err := pre.stages()
		if err != nil {
			t.Errorf("%s: %v", names, err)
			continue
		}
		for _, text := range texts {
			var got strings.Builder
			err := split(stages, text, true, func(piece string, _ bool) error { got.WriteString(piece); return nil })
			if err != nil || got.String() != text {
				t.Errorf("%s: the pieces of %q say %q, %v", names, text, got.String(), err)
			}
		}
	}
}

// FuzzLoadGGUF: no vocabulary breaks LoadGGUF, and what it accepts encodes.
func FuzzLoadGGUF(f *testing.F) {
	for _, kind := range []string{"gpt2", "llama", "t5"} {
		g := smallGGUF(kind)
		types := make([]byte, len(g.Types))
		for i, kind := range g.Types {
			types[i] = byte(kind)
		}
		f.Add(kind, g.Pre, strings.Join(g.Tokens, "\n"), types, strings.Join(g.Merges, "\n"), 1, 2, true)
	}
	f.Fuzz(func(t *testing.T, kind, pre, tokens string, types []byte, merges string, bos, eos int, add bool) {
		g := &GGUF{Model: kind, Pre: pre, Tokens: strings.Split(tokens, "\n"), Merges: strings.Split(merges, "\n"),
			BOS: pointer(int32(bos)), EOS: pointer(int32(eos)), AddBOS: &add, AddSpacePrefix: &add}
		for i, kind := range types {
			g.Types = append(g.Types, int32(kind))
			g.Scores = append(g.Scores, -float32(i%7))
		}
		tok, err := LoadGGUF(g)
		if err != nil {
			if !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("LoadGGUF = %v, neither invalid nor unsupported", err)
			}
			return
		}
		ids, err := tok.Encode("ab a\n <tool>é", true)
		if err != nil && !errors.Is(err, ErrSplitTimeout) {
			t.Fatalf("Encode = %v", err)
		}
		tok.Decode(ids, true)
	})
}
