package tokenizer

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// textTokenizers are the small tokenizers that are not byte-level, by name.
func textTokenizers(tb testing.TB) map[string]*Tokenizer {
	out := map[string]*Tokenizer{}
	for _, directory := range smallTokenizers(tb) {
		if tok := loadDirectory(tb, directory); tok.decoder != nil {
			out[filepath.Base(directory)] = tok
		}
	}
	return out
}

// TestStreamedText: whatever the ids and however they are handed over, what is
// streamed after a prompt is what they add to its text.
func TestStreamedText(t *testing.T) {
	for name, tok := range textTokenizers(t) {
		random := rand.New(rand.NewPCG(1, uint64(len(name))))
		some := func(most int) []int32 {
			ids := make([]int32, random.IntN(most+1))
			for i := range ids {
				ids[i] = int32(random.IntN(tok.VocabSize()+3)) - 1
				if random.IntN(3) == 0 {
					ids[i] %= 300 // where special and byte tokens are
				}
			}
			return ids
		}
		same := 0
		for range 4000 {
			prompt, ids := some(3), some(8)
			skip := random.IntN(2) == 0
			if broken(tok, ids, skip) || len(prompt) > 0 && tok.isByte(prompt[len(prompt)-1]) {
				continue
			}
			want, ok := strings.CutPrefix(tok.Decode(slices.Concat(prompt, ids), skip), tok.Decode(prompt, skip))
			if !ok {
				t.Fatalf("%s: the text of %v does not begin that of it and %v", name, prompt, ids)
			}
			if got := streamed(tok, prompt, ids, skip); got != want {
				t.Fatalf("%s: streamed(%v, %v, %v) = %q, want %q", name, prompt, ids, skip, got, want)
			}
			same++
		}
		if same < 1000 {
			t.Errorf("%s: only %d lists of ids could be compared", name, same)
		}
	}
}

func (t *Tokenizer) isByte(id int32) bool { _, ok := t.byteOf[id]; return ok }

// broken reports whether a run of byte tokens in ids is not UTF-8.
func broken(tok *Tokenizer, ids []int32, skip bool) bool {
	var run []byte
	for _, id := range slices.Concat(ids, []int32{0}) {
		switch {
		case tok.isByte(id):
			run = append(run, tok.byteOf[id])
		case !tok.exists(id), skip && tok.IsSpecial(id):
		case !utf8.Valid(run):
			return true
		default:
			run = nil
		}
	}
	return !utf8.Valid(run)
}

// streamed decodes ids one by one.
func streamed(tok *Tokenizer, prompt, ids []int32, skip bool) string {
	d := tok.NewDetokenizer(prompt, skip)
	var text strings.Builder
	for _, id := range ids {
		text.WriteString(d.Append(id))
	}
	text.WriteString(d.Flush())
	return text.String()
}

// TestTextDetokenizer holds what comes out with each token.
func TestTextDetokenizer(t *testing.T) {
	tokenizers := textTokenizers(t)
	for _, tt := range []struct {
		name, tokenizer string
		prompt, tokens  []string
		want            []string // by token
		flush           string
	}{
		{"the first space goes", "llama2", nil, []string{"▁fox", "▁fox"}, []string{"fox", " fox"}, ""},
		{"of spaces one", "llama2", nil, []string{"▁", "▁", "a"}, []string{"", " ", "a"}, ""},
		{"a special token is no beginning", "llama2", []string{"<s>"}, []string{"▁fox"}, []string{"fox"}, ""},
		{"after a prompt it stays", "llama2", []string{"<s>", "▁fox"}, []string{"▁fox"}, []string{" fox"}, ""},
		{"a prompt of a space", "llama2", []string{"▁"}, []string{"▁fox"}, []string{" fox"}, ""},
		{"it stays in Gemma", "gemma", nil, []string{"▁fox"}, []string{" fox"}, ""},
		{"a character of bytes", "llama2", nil, []string{"a", "<0xE2>", "<0x82>", "<0xAC>", "b"}, []string{"a", "", "", "€", "b"}, ""},
		{"a line break at once", "llama2", nil, []string{"<0x0A>"}, []string{"\n"}, ""},
		{"cut short", "llama2", nil, []string{"<0xE2>", "<0x82>"}, []string{"", ""}, "\ufffd\ufffd"},
		{"broken off by a token", "llama2", nil, []string{"<0xE2>", "<0x82>", "a"}, []string{"", "", "\ufffd\ufffda"}, ""},
		{"broken off by a byte", "llama2", nil, []string{"<0xE2>", "<0x0A>", "a"}, []string{"", "", "\ufffd\ufffda"}, ""},
		{"what came before it broke stays", "llama2", nil, []string{"<0x0A>", "<0xFF>", "<0x0A>", "a"}, []string{"\n", "", "", "\ufffd\ufffda"}, ""},
		{"a space of bytes", "llama2", nil, []string{"<0x20>", "<0x20>"}, []string{"", " "}, ""},
		{"Metaspace drops all of the first", "t5", nil, []string{"▁", "▁fox"}, []string{"", " fox"}, ""},
		{"bytes as the first token", "albert", nil, []string{"<0xE2>", "<0x96>", "<0x81>", "▁fox"}, []string{"", "", "", " fox"}, ""},
		{"WordPiece", "bert", nil, []string{"the", "##s", ".", "fox"}, []string{"the", "s", ".", " fox"}, ""},
		{"WordPiece after a prompt", "bert", []string{"the"}, []string{"fox"}, []string{" fox"}, ""},
		{"no decoder", "plain", nil, []string{"a", "b"}, []string{"a", " b"}, ""},
	} {
		tok := tokenizers[tt.tokenizer]
		d := tok.NewDetokenizer(idsOf(t, tok, tt.prompt), true)
		var got []string
		for _, id := range idsOf(t, tok, tt.tokens) {
			got = append(got, d.Append(id))
		}
		if flush := d.Flush(); !slices.Equal(got, tt.want) || flush != tt.flush {
			t.Errorf("%s: Append(%q) = %q, Flush = %q, want %q, %q", tt.name, tt.tokens, got, flush, tt.want, tt.flush)
		}
	}
}

func idsOf(tb testing.TB, tok *Tokenizer, tokens []string) []int32 {
	tb.Helper()
	ids := make([]int32, len(tokens))
	for i, token := range tokens {
		var ok bool
		if ids[i], ok = tok.TokenToID(token); !ok {
			tb.Fatalf("no token %q", token)
		}
	}
	return ids
}

// TestTextTokenBytes: a token's bytes are those after other tokens.
func TestTextTokenBytes(t *testing.T) {
	tokenizers := textTokenizers(t)
	for _, tt := range []struct{ tokenizer, token, want string }{
		{"llama2", "▁fox", " fox"},
		{"llama2", "<0xE2>", "\xe2"},
		{"llama2", "<s>", "<s>"},
		{"t5", "▁fox", " fox"},
		{"bert", "the", " the"},
		{"bert", "##s", "s"},
		{"plain", "a", " a"},
	} {
		tok := tokenizers[tt.tokenizer]
		id := idsOf(t, tok, []string{tt.token})[0]
		if got := string(tok.TokenBytes(id)); got != tt.want {
			t.Errorf("%s: TokenBytes(%q) = %q, want %q", tt.tokenizer, tt.token, got, tt.want)
		}
		if token, ok := tok.IDToToken(id); token != tt.token || !ok {
			t.Errorf("%s: IDToToken(%d) = %q, %v, want %q", tt.tokenizer, id, token, ok, tt.token)
		}
	}
}

func TestDecoderOrder(t *testing.T) {
	for _, tt := range []struct{ name, decoders, want string }{
		{"Fuse, then bytes", `{"type":"Fuse"},{"type":"ByteFallback"}`, "after ByteFallback or Fuse: ByteFallback"},
		{"bytes twice", `{"type":"ByteFallback"},{"type":"ByteFallback"}`, "after ByteFallback or Fuse: ByteFallback"},
		{"bytes, then Strip", `{"type":"ByteFallback"},{"type":"Strip","content":" ","start":1,"stop":0}`, "after ByteFallback or Fuse: Strip"},
		{"bytes, then WordPiece", `{"type":"ByteFallback"},{"type":"WordPiece"}`, "after ByteFallback or Fuse: WordPiece"},
		{"bytes, then a long Replace", `{"type":"ByteFallback"},{"type":"Replace","pattern":{"String":"ab"},"content":""}`, "after ByteFallback or Fuse: Replace"},
		{"Fuse, then Replace", `{"type":"Fuse"},{"type":"Replace","pattern":{"String":"a"},"content":""}`, "after ByteFallback or Fuse: Replace"},
		{"Fuse, then Strip at the end", `{"type":"Fuse"},{"type":"Strip","content":" ","start":0,"stop":1}`, "a second Strip after Fuse, or one with stop"},
		{"a Regex", `{"type":"Replace","pattern":{"Regex":"a"},"content":""}`, "a Replace of a Regex"},
		{"an unknown one", `{"type":"CTC"}`, `decoder.decoders[0]: not supported: type "CTC"`},
		{"two characters", `{"type":"Strip","content":"ab","start":0,"stop":1}`, `content "ab" is not one character`},
		{"Metaspace of two", `{"type":"Metaspace","replacement":"ab"}`, `replacement "ab" is not one character`},
		{"Metaspace contradicts itself", `{"type":"Metaspace","replacement":"a","add_prefix_space":false}`, "add_prefix_space is false"},
	} {
		_, err := buildDecoder(component{"decoder", jsontext.Value(`{"type":"Sequence","decoders":[` + tt.decoders + `]}`)})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: buildDecoder = %v, want %s", tt.name, err, tt.want)
		}
	}
}

// TestTextDetokenizerAllocates: a token costs its text and nothing else.
func TestTextDetokenizerAllocates(t *testing.T) {
	tok := textTokenizers(t)["llama2"]
	ids := idsOf(t, tok, []string{"▁fox", "<0xE2>", "<0x82>", "<0xAC>", "a"})
	d := tok.NewDetokenizer(nil, true)
	d.Append(ids...)
	if n := testing.AllocsPerRun(100, func() { d.Append(ids...) }); n > 2 {
		t.Errorf("Append allocates %v times, want at most 2", n)
	}
}
