package tokenizer

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

// mustLoad loads a tokenizer made by a test.
func mustLoad(tb testing.TB, file []byte) *Tokenizer {
	tb.Helper()
	tok, err := Load(file, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return tok
}

func mustEncode(tb testing.TB, tok *Tokenizer, text string) []int32 {
	tb.Helper()
	ids, err := tok.Encode(text, false)
	if err != nil {
		tb.Fatalf("Encode(%q) = %v", abbreviate(text), err)
	}
	return ids
}

// TestVocabulary goes through all ids of all tokenizers, both ways.
func TestVocabulary(t *testing.T) {
	for _, directory := range smallTokenizers(t) {
		tok := loadDirectory(t, directory)
		n := int32(tok.VocabSize())
		known := 0
		for id := range n {
			token, ok := tok.IDToToken(id)
			if !ok {
				if tok.TokenBytes(id) != nil || tok.Decode([]int32{id}, false) != "" {
					t.Errorf("%s: id %d is no token, but decodes", directory, id)
				}
				continue
			}
			known++
			if back, ok := tok.TokenToID(token); back != id || !ok {
				t.Errorf("%s: TokenToID(%q) = %d, %v, want %d", directory, token, back, ok, id)
			}
		}
		if token, ok := tok.IDToToken(n - 1); !ok {
			t.Errorf("%s: IDToToken(VocabSize-1) = %q, %v", directory, token, ok)
		}
		for _, id := range []int32{-1, n, n + 1, -1 << 31, 1<<31 - 1} {
			token, ok := tok.IDToToken(id)
			if ok || tok.TokenBytes(id) != nil || tok.IsSpecial(id) || tok.Decode([]int32{id}, false) != "" {
				t.Errorf("%s: id %d outside the vocabulary is %q, %v", directory, id, token, ok)
			}
		}
		if holes := strings.HasSuffix(directory, "/other") || strings.HasSuffix(directory, "/holes"); holes == (known == int(n)) {
			t.Errorf("%s: %d tokens below VocabSize %d, holes = %v", directory, known, n, holes)
		}
	}
}

func TestTokenBytes(t *testing.T) {
	tok := mustLoad(t, minimal(object{
		"model": modelOf(object{"vocab": object{"a": 0, "Ġa": 1, "Ã": 2, "<x y>": 3, "": 6}, "merges": []string{}}),
		"added_tokens": []object{
			addedOf(4, "é", nil), // spelled in the alphabet: the reference decodes it to the byte 0xE9
			addedOf(7, "ö ö", nil),
		},
	}))
	for _, tt := range []struct {
		id    int32
		token string
		want  []byte
	}{
		{0, "a", []byte("a")},
		{1, "Ġa", []byte(" a")},
		{2, "Ã", []byte{0xC3}},
		{3, "<x y>", []byte("<x y>")},
		{4, "é", []byte{0xE9}},
		{6, "", []byte{}},
		{7, "ö ö", []byte("ö ö")},
	} {
		got := tok.TokenBytes(tt.id)
		if got == nil || !bytes.Equal(got, tt.want) {
			t.Errorf("TokenBytes(%d) = %q, want %q", tt.id, got, tt.want)
		}
		if token, ok := tok.IDToToken(tt.id); token != tt.token || !ok {
			t.Errorf("IDToToken(%d) = %q, %v, want %q", tt.id, token, ok, tt.token)
		}
	}
	if got := tok.TokenBytes(5); got != nil {
		t.Errorf("TokenBytes(5) = %q, want nil", got)
	}
}

func TestAlphabet(t *testing.T) {
	seen := map[rune]bool{}
	for b, r := range alphabet {
		if seen[r] || alphabetByte[r] != int16(b) {
			t.Errorf("byte %#x is spelled %q, which stands for %d", b, r, alphabetByte[r])
		}
		seen[r] = true
	}
	for b, want := range map[byte]rune{'A': 'A', ' ': 'Ġ', '\n': 'Ċ', 0: 'Ā', 0xAD: 'Ń', 0x7F: 'ġ', 0xFF: 'ÿ'} {
		if got := alphabet[b]; got != want {
			t.Errorf("byte %#x is spelled %q, want %q", b, got, want)
		}
	}
}

// TestRoundTrip: a tokenizer that normalizes nothing loses nothing.
func TestRoundTrip(t *testing.T) {
	for _, name := range []string{"gpt2", "llama3", "o200k"} {
		tok := loadDirectory(t, filepath.Join("testdata/small", name))
		for _, text := range corpus(t) {
			if got := tok.Decode(mustEncode(t, tok, text), false); got != text {
				t.Errorf("%s: Decode(Encode(%q)) = %q", name, abbreviate(text), abbreviate(got))
			}
		}
	}
}

// TestInvalidUTF8: bytes that are not text are kept, and decode to U+FFFD.
func TestInvalidUTF8(t *testing.T) {
	for _, directory := range smallTokenizers(t) {
		tok := loadDirectory(t, directory)
		for _, text := range []string{"\xff", "a\x80b", "\xe2\x82", "\xf0\x9f\x98 \xed\xa0\x80", "\xc3\xc3\xa9\xc3", "'\xff's\xff\n\xfe", "\xff<mask>\xff"} {
			ids := mustEncode(t, tok, text)
			if name := filepath.Base(directory); name != "gpt2" && name != "llama3" && name != "qwen2" && name != "o200k" {
				continue // changes more than that
			}
			var got []byte
			for _, id := range ids {
				got = append(got, tok.TokenBytes(id)...)
			}
			if string(got) != text {
				t.Errorf("%s: the tokens of %q say %q", directory, text, got)
			}
			if decoded := tok.Decode(ids, false); !utf8.ValidString(decoded) || !strings.Contains(decoded, "\ufffd") {
				t.Errorf("%s: Decode(Encode(%q)) = %q", directory, text, decoded)
			}
		}
	}
}

func TestAppendEncode(t *testing.T) {
	tok := loadDirectory(t, "testdata/small/llama3")
	bos, _ := tok.TokenToID("<|begin_of_text|>")
	plain := mustEncode(t, tok, "Hello there")
	got, err := tok.AppendEncode([]int32{7}, "Hello there", true)
	if want := slices.Concat([]int32{7, bos}, plain); err != nil || !slices.Equal(got, want) {
		t.Errorf("AppendEncode = %v, %v, want %v", got, err, want)
	}
}

// TestUnknownBytes: a vocabulary without a token for some bytes. The golden
// files hold fuse_unk; these are the two other ways.
func TestUnknownBytes(t *testing.T) {
	vocab := object{"a": 0, "b": 1, "ab": 2, "<unk>": 3}
	for _, tt := range []struct {
		name    string
		members object
		want    []int32
	}{
		{"dropped", object{}, []int32{2}},
		{"each unk", object{"unk_token": "<unk>"}, []int32{0, 3, 3, 1, 3}},
		{"fused", object{"unk_token": "<unk>", "fuse_unk": true}, []int32{0, 3, 1, 3}},
	} {
		members := object{"vocab": vocab, "merges": []string{"a b"}}
		for name, value := range tt.members {
			members[name] = value
		}
		tok := mustLoad(t, minimal(object{"model": modelOf(members)}))
		if got := mustEncode(t, tok, "axxbx"); !slices.Equal(got, tt.want) {
			t.Errorf("%s: Encode(axxbx) = %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestMergeHeap: the two ways to merge do the same.
func TestMergeHeap(t *testing.T) {
	tok := loadDirectory(t, "testdata/small/gpt2")
	text := strings.Join(corpus(t)[:58], "")
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		start := random.IntN(len(text) - linearMergeLimit)
		word := text[start : start+random.IntN(linearMergeLimit+1)]
		linear := tok.model.(*bpe).merges.applyLinear(tok.model.(*bpe).appendSymbols(nil, word))
		heap := tok.model.(*bpe).merges.applyHeap(tok.model.(*bpe).appendSymbols(nil, word))
		if !slices.Equal(linear, heap) {
			t.Fatalf("%q: applyLinear = %v, applyHeap = %v", word, linear, heap)
		}
	}
}

// TestMergeOrder holds what is easy to get wrong: ranks before positions,
// leftmost first among equals, and a later merge of a pair over an earlier.
func TestMergeOrder(t *testing.T) {
	vocab := object{"a": 0, "b": 1, "c": 2, "aa": 3, "ab": 4, "bc": 5, "abc": 6}
	for _, tt := range []struct {
		merges []string
		word   string
		want   []int32
	}{
		{[]string{"b c", "a b"}, "abc", []int32{0, 5}},
		{[]string{"a b", "b c"}, "abc", []int32{4, 2}},
		{[]string{"a a"}, "aaaaa", []int32{3, 3, 0}},
		{[]string{"b c", "a bc", "a b"}, "abcab", []int32{6, 4}},
		{[]string{"a b", "b c", "a b"}, "abc", []int32{0, 5}},
		{[]string{}, "abc", []int32{0, 1, 2}},
	} {
		tok := mustLoad(t, minimal(object{"model": modelOf(object{"vocab": vocab, "merges": tt.merges})}))
		if got := mustEncode(t, tok, tt.word); !slices.Equal(got, tt.want) {
			t.Errorf("merges %q: Encode(%q) = %v, want %v", tt.merges, tt.word, got, tt.want)
		}
		heap := tok.model.(*bpe).merges.applyHeap(tok.model.(*bpe).appendSymbols(nil, tt.word))
		if !slices.Equal(heap, tt.want) {
			t.Errorf("merges %q: applyHeap(%q) = %v, want %v", tt.merges, tt.word, heap, tt.want)
		}
	}
}

// TestAddedTokens holds how added tokens are found; the golden files hold more.
func TestAddedTokens(t *testing.T) {
	vocab := object{"a": 0, "b": 1, "Ġ": 2, "Ċ": 3, "x": 4, "y": 5}
	tok := mustLoad(t, minimal(object{
		"model": modelOf(object{"vocab": vocab, "merges": []string{}}),
		"added_tokens": []object{
			addedOf(10, "<t>", nil),
			addedOf(11, "<t>a", nil),
			addedOf(12, "<l>", object{"lstrip": true}),
			addedOf(13, "<r>", object{"rstrip": true}),
			addedOf(14, "xy", object{"single_word": true}),
			addedOf(15, "a<t", nil),
		},
	}))
	for _, tt := range []struct {
		name, text string
		want       []int32
	}{
		{"longest", "<t>a<t>b", []int32{11, 10, 1}},
		{"leftmost", "a<t>", []int32{15}},
		{"lstrip", "b \n<l> a", []int32{1, 12, 2, 0}},
		{"rstrip", "b <r> \n a", []int32{1, 2, 13, 0}},
		{"both want the space", "<r>  <l>", []int32{13, 12}},
		{"alone is a word", "xy", []int32{14}},
		{"between spaces", "b xy a", []int32{1, 2, 14, 2, 0}},
		{"within a word", "axyb", []int32{0, 4, 5, 1}},
		{"beside a mark", "xy\u0301", []int32{4, 5}},
		{"beside punctuation", "<t>xy<t>", []int32{10, 14, 10}},
		{"end of the text", "<t", nil},
	} {
		if got := mustEncode(t, tok, tt.text); !slices.Equal(got, tt.want) {
			t.Errorf("%s: Encode(%q) = %v, want %v", tt.name, tt.text, got, tt.want)
		}
	}
}

// TestAddedTokensLinear: white space around tokens that strip it is not walked
// over and over. Were it, 100,000 matches would take minutes. The first takes
// all there is, and the reference drops a token of which nothing is left.
func TestAddedTokensLinear(t *testing.T) {
	tok := mustLoad(t, minimal(object{
		"added_tokens": []object{addedOf(10, " ", object{"lstrip": true, "rstrip": true})},
	}))
	const n = 100_000
	if got := mustEncode(t, tok, strings.Repeat(" ", n)); !slices.Equal(got, []int32{10}) {
		t.Errorf("Encode(%d spaces) = %v, want [10]", n, got)
	}
}

// TestConcurrentEncode is for the race detector: one Tokenizer, its cache and
// its regular expressions, in many goroutines.
func TestConcurrentEncode(t *testing.T) {
	texts := corpus(t)[:200]
	for _, name := range []string{"gpt2", "other", "llama2", "t5", "bert"} {
		directory := filepath.Join("testdata/small", name)
		want := make([][]int32, len(texts))
		for i, tok := 0, loadDirectory(t, directory); i < len(texts); i++ {
			want[i] = mustEncode(t, tok, texts[i])
		}
		tok := loadDirectory(t, directory) // with empty caches
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for i, text := range texts {
					got, err := tok.Encode(text, false)
					if err != nil || !slices.Equal(got, want[i]) {
						t.Errorf("%s: Encode(%q) = %v, %v, want %v", name, text, got, err, want[i])
					}
				}
			})
		}
		wg.Wait()
	}
}

// TestFit: text must not give ids that a model has no row for.
func TestFit(t *testing.T) {
	tok := mustLoad(t, minimal(object{
		"added_tokens":   []object{addedOf(4, "abc", nil), addedOf(5, "<s>", nil), addedOf(7, "<image>", nil)},
		"post_processor": object{"type": "BertProcessing", "sep": []any{"<s>", 5}, "cls": []any{"a", 0}},
	}))
	for _, tt := range []struct {
		rows   int
		beyond []string
		want   string // in the error
	}{
		{8, nil, ""},
		{100, nil, ""},
		{6, []string{"<image>"}, ""},
		{5, nil, `"<s>", which it adds to every text, has id 5, but the model's embedding has rows only for ids up to 4`},
		{4, nil, `its token "abc" has id 4, but the model's embedding has rows only for ids up to 3`},
		{0, nil, "rows only for ids up to -1"},
	} {
		beyond, err := tok.Fit(tt.rows)
		if !slices.Equal(beyond, tt.beyond) || (err == nil) != (tt.want == "") || err != nil && (!errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("Fit(%d) = %q, %v, want %q, %s", tt.rows, beyond, err, tt.beyond, tt.want)
		}
	}
}

// TestSplitTimeout: a pattern that backtracks without end is an error.
func TestSplitTimeout(t *testing.T) {
	m, err := newRegexpMatcher(`(?:a|aa)+b`)
	if err != nil {
		t.Fatal(err)
	}
	m.limit = 20 * time.Millisecond
	m.re.MatchTimeout = m.limit
	tok := mustLoad(t, minimal(nil))
	tok.pre = newPreTokenizer([]stage{&splitStage{matcher: m, behavior: isolated}, byteLevelStage{}})
	if _, err := tok.Encode(strings.Repeat("a", 200), false); !errors.Is(err, ErrSplitTimeout) {
		t.Errorf("Encode = %v, want ErrSplitTimeout", err)
	}
	if ids, err := tok.Encode("ab", false); err != nil || len(ids) != 1 {
		t.Errorf("Encode after a timeout = %v, %v, want one id", ids, err)
	}
}
