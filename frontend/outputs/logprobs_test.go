package outputs

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"govllm/protocol"
)

func TestLogprobs(t *testing.T) {
	tokens := []string{"a", "\xf0\x9f", "\x98\x80", " b", "\xff", "\xc3"}
	rows := &protocol.LogprobsLists{
		NumTokens: 6, Width: 3,
		TokenIDs: []int32{0, 3, 0, 1, 0, 3, 2, 3, 1, 3, 5, 0, 4, 0, 3, 5, 0, 3},
		Logprobs: []float32{-1, -0.5, -1, -2, -1, -1.5, -3, -1, -2, float32(math.Inf(-1)), -4, -5, -1, -2, -3, -1, -2, -3},
	}
	l := NewLogprobs(LogprobsConfig{TokenBytes: func(id int32) []byte { return []byte(tokens[id]) }, Detokenizer: &pieces{texts: []string{"a", "~", "😀", " b", "\uFFFD", "~"}}})
	var texts, top []string
	var chars []int
	for i := range rows.NumTokens {
		e := l.Next(rows, i)
		texts, chars = append(texts, e.Text), append(chars, e.Chars)
		var words []string
		for _, alternative := range e.Top {
			words = append(words, alternative.Text)
		}
		top = append(top, strings.Join(words, ","))
		if string(e.Bytes) != tokens[e.ID] {
			t.Errorf("row %d: bytes %q, want %q", i, e.Bytes, tokens[e.ID])
		}
		if i == 3 && e.Logprob != minLogprob {
			t.Errorf("-Inf is told as %v, want %v", e.Logprob, minLogprob)
		}
	}
	// The emoji's halves: nothing, then all of it.
	if got, want := strings.Join(texts, "|"), "a||😀| b|\uFFFD|"; got != want {
		t.Errorf("texts %q, want %q", got, want)
	}
	if got, want := fmt.Sprint(chars), "[1 0 1 2 1 0]"; got != want {
		t.Errorf("code points %s, want %s", got, want)
	}
	// The token itself is first and not repeated; alternatives see what is
	// pending.
	if got, want := strings.Join(top, "|"), "a, b|,a, b|😀,\uFFFD b,\uFFFD| b,,a|\uFFFD,a, b|,a, b"; got != want {
		t.Errorf("alternatives %q, want %q", got, want)
	}
}

// However bytes are cut into tokens, the texts join to the whole.
func FuzzLogprobsJoin(f *testing.F) {
	f.Add("héllo 😀", uint8(3))
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		if strings.ToValidUTF8(text, "") != text {
			t.Skip("not a text")
		}
		n := int(size)%4 + 1
		l := NewLogprobs(LogprobsConfig{TokenBytes: func(id int32) []byte { return []byte(text[int(id)*n : min(len(text), (int(id)+1)*n)]) }, Detokenizer: &pieces{texts: make([]string, len(text))}})
		var got strings.Builder
		for id := 0; id*n < len(text); id++ {
			got.WriteString(l.Next(&protocol.LogprobsLists{NumTokens: 1, Width: 1, TokenIDs: []int32{int32(id)}, Logprobs: []float32{-1}}, 0).Text)
		}
		if got.String() != text {
			t.Fatalf("%q in pieces of %d joins to %q", text, n, got.String())
		}
	})
}
