package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// componentGolden is what the reference's pre-tokenizers and normalizers make
// of the first texts of the corpus; see testdata/components.mjs.
type componentGolden struct {
	PreTokenizers []json.RawMessage `json:"preTokenizers"`
	Normalizers   []json.RawMessage `json:"normalizers"`
	Pieces        [][][]string      `json:"pieces"`     // by text and pre-tokenizer, spelled
	Normalized    [][]string        `json:"normalized"` // by text and normalizer
}

func readComponents(tb testing.TB) componentGolden {
	return readJSON[componentGolden](tb, "testdata/components.json")
}

func TestPreTokenizers(t *testing.T) {
	golden, texts := readComponents(t), corpus(t)
	for i, value := range golden.PreTokenizers {
		stages, err := buildStages(component{"pre_tokenizer", jsontext.Value(value)})
		if err != nil {
			t.Errorf("buildStages(%s) = %v", value, err)
			continue
		}
		for j, want := range golden.Pieces {
			var got []string
			err := split(stages, texts[j], true, func(piece string, _ bool) error {
				got = append(got, spell([]byte(piece)))
				return nil
			})
			if err != nil || !slices.Equal(got, want[i]) {
				t.Errorf("%s: split(%q) = %q, %v, want %q", value, texts[j], got, err, want[i])
			}
		}
	}
}

// TestScanners compares each hand-written scanner with regexp2 on its pattern.
func TestScanners(t *testing.T) {
	texts := corpus(t)
	for pattern, scan := range scanners {
		re, err := newRegexpMatcher(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			got, want := allMatches(t, scan, text), allMatches(t, re, text)
			if !slices.Equal(got, want) {
				t.Errorf("the scanner of %q cuts %q at %v, want %v", pattern, abbreviate(text), got, want)
			}
		}
	}
}

// allMatches returns where the matches in s begin and end.
func allMatches(tb testing.TB, m matcher, s string) (ends []int) {
	tb.Helper()
	if err := m.matches(s, func(start, end int) { ends = append(ends, start, end) }); err != nil {
		tb.Fatal(err)
	}
	return ends
}

func TestNormalizers(t *testing.T) {
	golden, texts := readComponents(t), corpus(t)
	for i, value := range golden.Normalizers {
		n, err := buildNormalizer(component{"normalizer", jsontext.Value(value)})
		if err != nil {
			t.Errorf("buildNormalizer(%s) = %v", value, err)
			continue
		}
		for j, want := range golden.Normalized {
			got := texts[j]
			if n != nil {
				got, err = n.normalize(texts[j])
			}
			if err != nil || got != want[i] {
				t.Errorf("%s: normalize(%+q) = %+q, %v, want %+q", value, texts[j], got, err, want[i])
			}
		}
	}
}

// TestSoleScanner makes sure that the common pre-tokenizers take the fast path.
func TestSoleScanner(t *testing.T) {
	const last = `{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":%v}`
	chain := func(behavior string, invert bool, pattern string) string {
		return fmt.Sprintf(`{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":%q},"behavior":%q,"invert":%v},`+last+`]}`,
			pattern, behavior, invert, false)
	}
	for _, tt := range []struct {
		name, value string
		want        bool
	}{
		{"GPT-2", fmt.Sprintf(last, true), true},
		{"Llama 3", chain("Isolated", false, llama3Pattern), true},
		{"Qwen 2", chain("Isolated", false, qwen2Pattern), true},
		{"o200k", chain("Removed", true, o200kPattern), true},
		{"GPT-2 spelled out", chain("Isolated", false, gpt2Pattern), true},
		{"matches removed", chain("Removed", false, llama3Pattern), false},
		{"another pattern", chain("Isolated", false, `\p{L}+`), false},
		{"no cut", fmt.Sprintf(last, false), false},
	} {
		stages, err := buildStages(component{"pre_tokenizer", jsontext.Value(tt.value)})
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if got := newPreTokenizer(stages).scan != nil; got != tt.want {
			t.Errorf("%s: sole scanner = %v, want %v", tt.name, got, tt.want)
		}
	}
}
