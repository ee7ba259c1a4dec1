package tokenizer

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

// protoBuilder appends fields to a message.
type protoBuilder []byte

func (b protoBuilder) varint(number int, v int64) protoBuilder {
	b = binary.AppendUvarint(b, uint64(number)<<3|protoVarint)
	return binary.AppendUvarint(b, uint64(v))
}

func (b protoBuilder) bytes(number int, v []byte) protoBuilder {
	b = binary.AppendUvarint(b, uint64(number)<<3|protoBytes)
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}

func (b protoBuilder) float(number int, v float32) protoBuilder {
	b = binary.AppendUvarint(b, uint64(number)<<3|protoFixed32)
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
}

func pieceMessage(piece string, score float32, kind int64) []byte {
	return protoBuilder(nil).bytes(1, []byte(piece)).float(2, score).varint(3, kind)
}

// smallModel is a BPE of a few pieces; its fields may be followed by others.
func smallModel() protoBuilder {
	var b protoBuilder
	for _, p := range []piecesEntry{
		{"<unk>", 0, tokenUnknown}, {"<s>", 0, tokenControl}, {"</s>", 0, tokenControl}, {"[X]", 0, tokenUserDefined},
		{"a", -3, tokenNormal}, {"b", -4, tokenNormal}, {"▁", -5, tokenNormal}, {"ab", -1, tokenNormal}, {"▁a", -2, tokenNormal},
		{"ba", -2, tokenNormal}, {"unused", -9, tokenUnused},
	} {
		b = b.bytes(1, pieceMessage(p.piece, p.score, int64(p.kind)))
	}
	return b.bytes(2, protoBuilder(nil).varint(3, 2)).bytes(3, protoBuilder(nil).varint(4, 0))
}

func TestLoadSentencePiece(t *testing.T) {
	for _, tt := range []struct {
		name, config, text string
		more               protoBuilder // fields after those of smallModel
		want               []int32      // with special tokens added
	}{
		{"best scores first", ``, "ab", nil, []int32{6, 7}},
		{"of equal scores the leftmost", ``, "aba", nil, []int32{6, 7, 4}},
		{"control symbols are found", ``, "a</s>a", nil, []int32{8, 2, 4}},
		{"the prefix is for the first alone", ``, "<s>a", nil, []int32{1, 4}},
		{"but for legacy models", `{"legacy": true}`, "a</s>a", nil, []int32{8, 2, 8}},
		{"user-defined symbols do not merge", ``, "[X]a[X]", nil, []int32{6, 3, 4, 3}},
		{"spaces stay", ``, "  a ", nil, []int32{6, 6, 8, 6}},
		{"unknown runs are one", ``, "azzb", nil, []int32{8, 0, 5}},
		{"no prefix", `{"add_prefix_space": false}`, "a", nil, []int32{4}},
		{"no BOS unless asked for", `{"add_bos_token": null}`, "a", nil, []int32{8}},
		{"BOS", `{"add_bos_token": true}`, "a", nil, []int32{1, 8}},
		{"EOS", `{"add_eos_token": true}`, "a", nil, []int32{8, 2}},
		{"T5 ends a text", `{"tokenizer_class": "T5TokenizerFast", "add_bos_token": true}`, "a", nil, []int32{8, 2}},
		{"the model has no prefix", ``, "a", protoBuilder(nil).bytes(3, protoBuilder(nil).varint(3, 0)), []int32{4}},
		{"spaces go", ``, "  a  a ", protoBuilder(nil).bytes(3, protoBuilder(nil).varint(4, 1)), []int32{8, 8}},
		{"only spaces", ``, "   ", protoBuilder(nil).bytes(3, protoBuilder(nil).varint(4, 1)), []int32{}},
		{"no BOS in the model", `{"add_bos_token": true}`, "a", protoBuilder(nil).bytes(2, protoBuilder(nil).varint(41, -1)), []int32{8}},
		{"added by the configuration", `{"added_tokens_decoder": {"20": {"content": "ba"}}, "eos_token": "b"}`, "b", nil, nil},
	} {
		var config []byte
		if tt.config != "" {
			config = []byte(tt.config)
		}
		tok, err := LoadSentencePiece(append(smallModel(), tt.more...), config)
		if tt.want == nil {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: LoadSentencePiece = %v, want ErrInvalid", tt.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got, err := tok.Encode(tt.text, true); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: Encode(%q) = %v, %v, want %v", tt.name, tt.text, got, err, tt.want)
		}
	}
}

func TestLoadSentencePieceErrors(t *testing.T) {
	spec := func(b protoBuilder) protoBuilder { return append(smallModel(), protoBuilder(nil).bytes(2, b)...) }
	for _, tt := range []struct {
		name  string
		model []byte
		kind  error
		want  string
	}{
		{"empty", nil, ErrInvalid, "no pieces"},
		{"cut off", smallModel()[:20], ErrInvalid, "announced"},
		{"no protobuf", []byte("{\"a\": 1}"), ErrInvalid, "wire type 3"},
		{"a word model", spec(protoBuilder(nil).varint(3, 3)), ErrUnsupported, "model_type 3"},
		{"spaces as suffix", spec(protoBuilder(nil).varint(24, 1)), ErrUnsupported, "treat_whitespace_as_suffix"},
		{"bytes without tokens", spec(protoBuilder(nil).varint(35, 1)), ErrInvalid, "no piece <0x00>"},
		{"no unk", spec(protoBuilder(nil).varint(40, 99)), ErrInvalid, "unk_id 99 is outside the vocabulary, 0 to 10"},
		{"a piece twice", smallModel().bytes(1, pieceMessage("ab", 0, 1)), ErrInvalid, `"ab" has two ids, 7 and 11`},
		{"no score", smallModel().bytes(1, pieceMessage("x", float32(math.NaN()), 1)), ErrInvalid, "score NaN"},
		{"a piece too long", smallModel().bytes(1, pieceMessage(strings.Repeat("x", 1025), 0, 1)), ErrInvalid, "piece 11 has 1025 bytes, more than 1024"},
		{"no text", smallModel().bytes(1, pieceMessage("\xff", 0, 1)), ErrInvalid, "not UTF-8"},
		{"a piece that is a number", smallModel().varint(1, 5), ErrInvalid, "wire type 0"},
		{"charsmap", smallModel().bytes(3, protoBuilder(nil).bytes(2, []byte{255, 0, 0, 0, 1})), ErrInvalid, "trie of 255 bytes in 1"},
	} {
		tok, err := LoadSentencePiece(tt.model, nil)
		if tok != nil || !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "tokenizer.model: ") {
			t.Errorf("%s: LoadSentencePiece = %v, %v, want tokenizer.model: %v … %s", tt.name, tok, err, tt.kind, tt.want)
		}
	}
}

// TestSentencePieceTruncated: every beginning of a file is refused or read, and
// none breaks the reader.
func TestSentencePieceTruncated(t *testing.T) {
	model := smallModel()
	for n := range model {
		if tok, err := LoadSentencePiece(model[:n], nil); err == nil {
			mustEncode(t, tok, "ab <s>")
		}
	}
}

// FuzzLoadSentencePiece: no file breaks LoadSentencePiece, and what it accepts
// encodes.
func FuzzLoadSentencePiece(f *testing.F) {
	f.Add([]byte(smallModel()), []byte(nil))
	f.Add([]byte(smallModel().bytes(2, protoBuilder(nil).varint(3, 1))), []byte(`{"legacy": true}`))
	f.Add([]byte(smallModel().bytes(3, protoBuilder(nil).bytes(2, []byte{4, 0, 0, 0, 0, 4, 0, 0, 'a', 0}))), []byte(nil))
	f.Fuzz(func(t *testing.T, model, config []byte) {
		tok, err := LoadSentencePiece(model, config)
		if err != nil {
			if !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("LoadSentencePiece = %v, neither invalid nor unsupported", err)
			}
			return
		}
		ids, err := tok.Encode("ab  a<s>[X]\u3000é", true)
		if err != nil {
			t.Fatalf("Encode = %v", err)
		}
		tok.Decode(ids, true)
		streamed(tok, ids[:len(ids)/2], ids, false)
	})
}

// FuzzCharsMap: no charsmap and no text break the normalizers.
func FuzzCharsMap(f *testing.F) {
	units := make([]uint32, 512)
	units[0] = 0x100 << 10
	units[0x100^'a'] = (0x100^'a'^0x190)<<10 | 1<<8 | 'a'
	units[0x190] = 1 << 31
	blob := binary.LittleEndian.AppendUint32(nil, uint32(4*len(units)))
	for _, unit := range units {
		blob = binary.LittleEndian.AppendUint32(blob, unit)
	}
	f.Add(append(blob, "b\x00"...), "banana a\u0301\r\n")
	f.Fuzz(func(t *testing.T, blob []byte, text string) {
		m, err := newCharsMap(blob)
		if err != nil {
			return
		}
		for _, n := range []normalizer{precompiled{m}, &pieceNormalizer{charsmap: m, trim: true, space: escapedSpace}} {
			if _, err := n.normalize(text); err != nil {
				t.Fatal(err)
			}
		}
	})
}
