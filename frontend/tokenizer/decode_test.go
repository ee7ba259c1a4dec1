package tokenizer

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestAppendLossy holds the examples of the Unicode Standard, tables 3-8 to 3-11.
func TestAppendLossy(t *testing.T) {
	for _, tt := range []struct {
		in, want   string
		incomplete int // bytes held back
	}{
		{"", "", 0},
		{"aé世😀", "aé世😀", 0},
		{"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82A", "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffdA", 0},
		{"\xed\xa0\x80\xed\xbf\xbf\xed\xafA", "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffdA", 0},
		{"\xf4\x91\x92\x93\xffA\x80\xbfB", "\ufffd\ufffd\ufffd\ufffd\ufffdA\ufffd\ufffdB", 0},
		{"\xe1\x80\xe2\xf0\x91\x92\xf1\xbfA", "\ufffd\ufffd\ufffd\ufffdA", 0},
		{"a\xc3", "a", 1},
		{"a\xe4\xb8", "a", 2},
		{"\xf0\x9f\x98", "", 3},
		{"\xf0\x9f\x98\xf0", "\ufffd", 1},
		{"\xe4\xb8\xb8\xe4", "丸", 1},
		{"\xed\xa0", "\ufffd\ufffd", 0}, // can't become a character
		{"\xf5", "\ufffd", 0},
		{"\ufffd\xc3\xa9", "\ufffdé", 0},
	} {
		got, incomplete := AppendLossy(nil, []byte(tt.in))
		if string(got) != tt.want || incomplete != tt.incomplete {
			t.Errorf("AppendLossy(%q) = %q, %d, want %q, %d", tt.in, got, incomplete, tt.want, tt.incomplete)
		}
	}
}

// bytesTokenizer has the bytes as ids 0 to 255 and two added tokens.
func bytesTokenizer(tb testing.TB) *Tokenizer {
	vocab := object{}
	for b, r := range alphabet {
		vocab[string(r)] = b
	}
	return mustLoad(tb, minimal(object{
		"model":        modelOf(object{"vocab": vocab, "merges": []string{}}),
		"added_tokens": []object{addedOf(256, "<end>", nil), addedOf(300, "<tool>", object{"special": false})},
	}))
}

func TestDetokenizer(t *testing.T) {
	tok := bytesTokenizer(t)
	for _, tt := range []struct {
		name  string
		skip  bool
		ids   []int32
		want  []string // by id
		flush string
	}{
		{"ascii", false, []int32{'h', 'i'}, []string{"h", "i"}, ""},
		{"a character over tokens", false, []int32{0xF0, 0x9F, 0x98, 0x80, '!'}, []string{"", "", "", "😀", "!"}, ""},
		{"cut short", false, []int32{'a', 0xE4, 0xB8}, []string{"a", "", ""}, "\ufffd"},
		{"broken off", false, []int32{0xE4, 0xB8, 'a'}, []string{"", "", "\ufffda"}, ""},
		{"never a character", false, []int32{0xFF, 0x80, 'a'}, []string{"\ufffd", "\ufffd", "a"}, ""},
		{"the rest of the prompt's character", false, []int32{0xA9, 'a'}, []string{"\ufffd", "a"}, ""},
		{"special skipped", true, []int32{'a', 256, 'b', 300}, []string{"a", "", "b", "<tool>"}, ""},
		{"special kept", false, []int32{'a', 256}, []string{"a", "<end>"}, ""},
		{"special within a character", true, []int32{0xC3, 256, 0xA9}, []string{"", "", "é"}, ""},
		{"unknown ids", false, []int32{-5, 299, 'a', 1 << 30}, []string{"", "", "a", ""}, ""},
	} {
		d := tok.NewDetokenizer([]int32{'x', 0xC3}, tt.skip)
		var got []string
		for _, id := range tt.ids {
			got = append(got, d.Append(id))
		}
		flush := d.Flush()
		if !slices.Equal(got, tt.want) || flush != tt.flush {
			t.Errorf("%s: Append(%v) = %q, Flush = %q, want %q, %q", tt.name, tt.ids, got, flush, tt.want, tt.flush)
		}
		if joined := strings.Join(got, "") + flush; joined != tok.Decode(tt.ids, tt.skip) {
			t.Errorf("%s: joined = %q, Decode = %q", tt.name, joined, tok.Decode(tt.ids, tt.skip))
		}
		if again := d.Flush(); again != "" {
			t.Errorf("%s: a second Flush = %q", tt.name, again)
		}
	}
}

// TestDetokenizerAllocates: one token costs its text and nothing else.
func TestDetokenizerAllocates(t *testing.T) {
	tok := bytesTokenizer(t)
	d := tok.NewDetokenizer(nil, true)
	ids := []int32{'a', 'b', 'c', 0xC3, 0xA9, 'd'}
	d.Append(ids...)
	if n := testing.AllocsPerRun(100, func() { d.Append(ids...) }); n > 1 {
		t.Errorf("Append allocates %v times, want at most 1", n)
	}
	if n := testing.AllocsPerRun(100, func() { tok.Decode(ids, true) }); n > 1 {
		t.Errorf("Decode allocates %v times, want at most 1", n)
	}
}

// FuzzDetokenizer: however ids are handed over, the parts join to the full
// decode, and each is text.
func FuzzDetokenizer(f *testing.F) {
	tok := bytesTokenizer(f)
	for _, text := range corpus(f) {
		f.Add([]byte(text), uint64(len(text)))
	}
	f.Add([]byte("\xe4\xb8\xe4\xf0\x9f\x98\xed\xa0\x80\xff"), uint64(3))
	f.Fuzz(func(t *testing.T, data []byte, cuts uint64) {
		ids := make([]int32, len(data))
		for i, b := range data {
			ids[i] = int32(b)
			if b == 7 {
				ids[i] = 256
			}
		}
		for _, skip := range []bool{false, true} {
			d := tok.NewDetokenizer(nil, skip)
			var joined strings.Builder
			for rest := ids; len(rest) > 0; cuts = cuts>>1 | cuts<<63 {
				n := min(int(cuts%5), len(rest))
				part := d.Append(rest[:n]...)
				if !utf8.ValidString(part) {
					t.Fatalf("Append(%v) = %q, not UTF-8", rest[:n], part)
				}
				joined.WriteString(part)
				if rest = rest[n:]; n == 0 {
					joined.WriteString(d.Append(rest[0]))
					rest = rest[1:]
				}
			}
			joined.WriteString(d.Flush())
			if want := tok.Decode(ids, skip); joined.String() != want {
				t.Fatalf("parts of %v join to %q, want %q", ids, joined.String(), want)
			}
		}
	})
}
