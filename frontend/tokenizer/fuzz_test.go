package tokenizer

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzEncode: no text breaks a tokenizer, every id is a token, and what
// normalizes nothing loses nothing.
func FuzzEncode(f *testing.F) {
	for _, text := range corpus(f) {
		f.Add(text)
	}
	f.Add("\xff'\xc5\xbf\xe2\x82")
	tokenizers := map[string]*Tokenizer{}
	for _, directory := range smallTokenizers(f) {
		tokenizers[filepath.Base(directory)] = loadDirectory(f, directory)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<12 {
			return
		}
		for name, tok := range tokenizers {
			ids, err := tok.Encode(text, true)
			if err != nil {
				t.Fatalf("%s: Encode(%q) = %v", name, text, err)
			}
			for _, id := range ids {
				if _, ok := tok.IDToToken(id); !ok {
					t.Fatalf("%s: Encode(%q) has the id %d, which is no token", name, text, id)
				}
			}
			if decoded := tok.Decode(ids, false); !utf8.ValidString(decoded) {
				t.Fatalf("%s: Decode(Encode(%q)) = %q, not UTF-8", name, text, decoded)
			}
		}
		for _, name := range []string{"gpt2", "llama3", "o200k"} {
			tok := tokenizers[name]
			ids, _ := tok.Encode(text, false)
			want, incomplete := AppendLossy(nil, []byte(text))
			if got := tok.Decode(ids, false); got != string(appendIncomplete(want, incomplete)) {
				t.Fatalf("%s: Decode(Encode(%q)) = %q", name, text, got)
			}
		}
	})
}

// FuzzLoad: no file breaks Load, and what it accepts encodes.
func FuzzLoad(f *testing.F) {
	f.Add(minimal(nil), []byte("{}"))
	f.Add(minimal(object{
		"normalizer":     object{"type": "Sequence", "normalizers": []object{{"type": "NFC"}, {"type": "Prepend", "prepend": "▁"}}},
		"added_tokens":   []object{addedOf(9, "<x>", object{"normalized": true, "lstrip": true}), addedOf(3, "ab", nil)},
		"pre_tokenizer":  split1(object{"Regex": `[\p{L}&&[^a]]++|(?i:s)|x{2,}`}, "MergedWithNext"),
		"post_processor": object{"type": "RobertaProcessing", "sep": []any{"a", 0}, "cls": []any{"b", 1}},
		"decoder":        object{"type": "Sequence", "decoders": []object{{"type": "ByteLevel"}, {"type": "Fuse"}}},
	}), []byte(`{"eos_token": "<x>", "added_tokens_decoder": {"9": {"content": "<x>"}}, "extra_special_tokens": {"x": "c"}}`))
	for _, value := range readComponents(f).PreTokenizers {
		f.Add(minimal(object{"pre_tokenizer": value}), []byte(nil))
	}
	f.Fuzz(func(t *testing.T, file, config []byte) {
		tok, err := Load(file, config)
		if err != nil {
			if !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("Load = %v, neither invalid nor unsupported", err)
			}
			return
		}
		ids, err := tok.Encode("abc <x> abcab\n e\u0301 12", true)
		if err != nil && !errors.Is(err, ErrSplitTimeout) {
			t.Fatalf("Encode = %v", err)
		}
		tok.Decode(ids, true)
	})
}

// FuzzPattern: no pattern breaks the translation, and what it lets through
// compiles.
func FuzzPattern(f *testing.F) {
	for pattern := range scanners {
		f.Add(pattern)
	}
	for _, pattern := range []string{`[a-c[x-z]&&[^y]]`, `(?i:[sdmt]|ll)`, `\x{1F600}\u0430\p{^L}`, `a{,3}b{2}+c?+d*?`, `(?<=a)(?!b)(?>c)`, `[]`, `[[:alpha:]]`, `(`, `a**`, `\b`} {
		f.Add(pattern)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		if strings.Count(pattern, "{") > 3 {
			return // nested repetition compiles to much
		}
		if _, err := newMatcher(pattern); err != nil && !errors.Is(err, ErrUnsupported) {
			t.Errorf("newMatcher(%q) = %v", pattern, err)
		}
	})
}
