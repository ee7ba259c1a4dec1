package tokenizer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/unicode/rangetable"
)

// unicodeGolden holds hashes of what the reference makes of every code point;
// see testdata/oracle/unicode.mjs, which builds the same texts.
type unicodeGolden struct {
	Chunk         int               `json:"chunk"`
	Chunks        []int             `json:"chunks"`
	PreTokenizers []json.RawMessage `json:"preTokenizers"`
	Normalizers   []json.RawMessage `json:"normalizers"`
	Pieces        [][]string        `json:"pieces"`     // by chunk and pre-tokenizer
	Normalized    [][]string        `json:"normalized"` // by chunk and normalizer
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}

// TestUnicode compares categories, decompositions, compositions and combining
// classes with the reference's, for every code point.
func TestUnicode(t *testing.T) {
	const variable = "GOVLLM_TOKENIZER_ORACLE"
	root := os.Getenv(variable)
	if root == "" {
		t.Skipf("%s is not set: it names the directory that testdata/oracle/fetch.sh makes", variable)
	}
	golden := readJSON[unicodeGolden](t, filepath.Join(root, "unicode.json"))
	var stages [][]stage
	for _, value := range golden.PreTokenizers {
		s, err := buildStages(component{"pre_tokenizer", jsontext.Value(value)})
		if err != nil {
			t.Fatal(err)
		}
		stages = append(stages, s)
	}
	var normalizers []normalizer
	for _, value := range golden.Normalizers {
		n, err := buildNormalizer(component{"normalizer", jsontext.Value(value)})
		if err != nil {
			t.Fatal(err)
		}
		normalizers = append(normalizers, n)
	}
	for i, first := range golden.Chunks {
		surrounded, ordered := chunkTexts(first, golden.Chunk)
		for j, want := range golden.Pieces[i] {
			if got := hash(strings.Join(spelledPieces(t, stages[j], surrounded), "\n")); got != want {
				t.Errorf("U+%04X…: the pieces of %s are others than the reference's", first, golden.PreTokenizers[j])
			}
		}
		for j, want := range golden.Normalized[i] {
			text, err := normalizers[j].normalize(ordered)
			if got := hash(text); err != nil || got != want {
				t.Errorf("U+%04X…: the text of %s is another than the reference's (%v)", first, golden.Normalizers[j], err)
			}
		}
	}
	t.Logf("%d chunks of %d code points are the same as the reference's", len(golden.Chunks), golden.Chunk)
}

// chunkTexts returns the texts of unicode.mjs for a range of code points.
func chunkTexts(first, n int) (surrounded, ordered string) {
	const marks = "\u0345\u0360\u035c\u0315\u0301\u1939\u302f\u0316\u302a\u1dce\u0321\u0f72\u0e48\u0e38\u0655\u0651\u064e\u05bf\u05b0\u094d\u3099\u093c\u0334"
	var a, b []string
	for r := rune(first); r < rune(first+n); r++ {
		c := string(r)
		a = append(a, c+"a"+c+"A1"+c+" "+c+"'"+c+"\n")
		b = append(b, "a"+marks+c+"a"+c+"\u0301"+c)
	}
	return strings.Join(a, ""), strings.Join(b, " ")
}

func spelledPieces(tb testing.TB, stages []stage, s string) (pieces []string) {
	tb.Helper()
	err := split(stages, s, true, func(piece string, _ bool) error {
		pieces = append(pieces, spell([]byte(piece)))
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return pieces
}

// TestCategories compares the table with Go's own, which are of Unicode 15 in
// Go 1.26: they agree on the characters that both know, but one.
func TestCategories(t *testing.T) {
	const changed = 0x1171E // AHOM CONSONANT SIGN MEDIAL RA became Mc after Unicode 15
	for want, table := range unicode.Categories {
		if len(want) != 2 || want == "LC" || want == "Cn" {
			continue
		}
		rangetable.Visit(table, func(r rune) {
			if got := categoryNames[categoryOf(r)]; got != want && r != changed {
				t.Errorf("categoryOf(%U) = %s, want %s", r, got, want)
			}
		})
	}
	if got := categoryNames[categoryOf(changed)]; got != "Mc" {
		t.Errorf("categoryOf(%U) = %s, want Mc", changed, got)
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if got, want := isSpace(r), unicode.Is(unicode.White_Space, r); got != want {
			t.Errorf("isSpace(%U) = %v, want %v", r, got, want)
		}
	}
}

func TestIsWord(t *testing.T) {
	for _, tt := range []struct {
		r    rune
		want bool
	}{
		{'a', true}, {'_', true}, {'5', true}, {'ⅷ', true}, {'ⓦ', true}, {'\u0301', true}, {'\u200d', true}, {'世', true},
		{'²', false}, {'-', false}, {' ', false}, {'😀', false}, {'\ufffd', false}, {'\u0378', false},
	} {
		if got := isWord(tt.r); got != tt.want {
			t.Errorf("isWord(%U) = %v, want %v", tt.r, got, tt.want)
		}
	}
}

// TestIsNumeric holds the three versions apart: U+11DE0 is a digit since Unicode 17.
func TestIsNumeric(t *testing.T) {
	for _, tt := range []struct {
		r    rune
		want bool
	}{{'7', true}, {'½', true}, {'Ⅷ', true}, {0x11DE0, true}, {0x11DEA, false}, {'a', false}} {
		if got := isNumeric(tt.r); got != tt.want {
			t.Errorf("isNumeric(%U) = %v, want %v", tt.r, got, tt.want)
		}
	}
}

// TestNormalizeCanonical holds what the reference does that is not plain
// normalization by a new standard, and what golang.org/x/text does otherwise.
func TestNormalizeCanonical(t *testing.T) {
	marks := strings.Repeat("\u0301", 40)
	for _, tt := range []struct {
		name, in, c, d string
	}{
		{"empty", "", "", ""},
		{"ascii", "abc", "abc", "abc"},
		{"composed", "é", "é", "e\u0301"},
		{"decomposed", "e\u0301", "é", "e\u0301"},
		{"order", "a\u0301\u0316", "á\u0316", "a\u0316\u0301"},
		{"blocked", "a\u0300\u0301", "à\u0301", "a\u0300\u0301"},
		{"excluded", "\u0958", "\u0915\u093c", "\u0915\u093c"},
		{"singleton", "\u212b", "Å", "A\u030a"},
		{"hangul", "\u1112\u1161\u11ab한", "한한", "\u1112\u1161\u11ab\u1112\u1161\u11ab"},
		{"lone mark", "\u0301a", "\u0301a", "\u0301a"},
		{"not ours to compose: Unicode 13", "\U00011935\U00011930", "\U00011935\U00011930", "\U00011935\U00011930"},
		{"not ours to order: Unicode 14", "a\u0301\u0898\u0316", "á\u0898\u0316", "a\u0301\u0898\u0316"},
		{"many marks, no U+034F", "e" + marks, "é" + marks[2:], "e" + marks},
		{"invalid UTF-8", "\xffe\u0301\xcc\u0301\xc3", "\xffé\xcc\u0301\xc3", "\xffe\u0301\xcc\u0301\xc3"},
	} {
		if got := normalizeCanonical(tt.in, true); got != tt.c {
			t.Errorf("%s: NFC(%+q) = %+q, want %+q", tt.name, tt.in, got, tt.c)
		}
		if got := normalizeCanonical(tt.in, false); got != tt.d {
			t.Errorf("%s: NFD(%+q) = %+q, want %+q", tt.name, tt.in, got, tt.d)
		}
	}
}

// FuzzNormalizeCanonical compares with golang.org/x/text, where that means the
// same: on characters of Unicode 9, without long runs of marks.
func FuzzNormalizeCanonical(f *testing.F) {
	for _, text := range corpus(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, d := normalizeCanonical(s, true), normalizeCanonical(s, false)
		if again := normalizeCanonical(c, true); again != c {
			t.Errorf("NFC is not stable on %+q: %+q, then %+q", s, c, again)
		}
		if back := normalizeCanonical(d, true); back != c {
			t.Errorf("NFC(NFD(%+q)) = %+q, want %+q", s, back, c)
		}
		if !sameInBoth(s) {
			return
		}
		if want := norm.NFC.String(s); c != want {
			t.Errorf("NFC(%+q) = %+q, want %+q", s, c, want)
		}
		if want := norm.NFD.String(s); d != want {
			t.Errorf("NFD(%+q) = %+q, want %+q", s, d, want)
		}
	})
}

// sameInBoth reports whether x/text should normalize s as we do.
func sameInBoth(s string) bool {
	if !utf8.ValidString(s) {
		return false // x/text takes a stray lead byte and what follows for one
	}
	marks := 0
	for _, r := range s {
		p := norm.NFD.PropertiesString(string(r))
		if young := len(p.Decomposition()) > 0 != normKindOf(r).decomposes || p.CCC() != normKindOf(r).ccc; young {
			return false
		}
		if marks++; p.CCC() == 0 {
			marks = 0
		}
		if marks > 8 {
			return false
		}
	}
	return true
}

func TestRuneSet(t *testing.T) {
	a, b := runeSet{{'a', 'f'}, {'x', 'z'}}, runeSet{{'d', 'j'}, {'z', 'z'}}
	for _, tt := range []struct {
		name      string
		got, want runeSet
	}{
		{"union", a.union(b), runeSet{{'a', 'j'}, {'x', 'z'}}},
		{"intersect", a.intersect(b), runeSet{{'d', 'f'}, {'z', 'z'}}},
		{"negate", runeSet{{0, '`'}, {'c', unicode.MaxRune}}.negate(), runeSet{{'a', 'b'}}},
		{"negate nothing", runeSet{}.negate(), runeSet{{0, unicode.MaxRune}}},
		{"touching", runeSet{{'b', 'c'}, {'a', 'a'}, {'d', 'd'}}.canonical(), runeSet{{'a', 'd'}}},
	} {
		if !slices.Equal(tt.got, tt.want) {
			t.Errorf("%s = %q, want %q", tt.name, tt.got, tt.want)
		}
	}
}
