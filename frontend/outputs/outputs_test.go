package outputs

import (
	"strings"
	"testing"

	"govllm/protocol"
)

// pieces is a detokenizer whose token i is the i-th text; "~" stands for the
// first half of a character that never ends.
type pieces struct {
	texts   []string
	pending bool
}

func (p *pieces) Append(ids ...int32) string {
	var b strings.Builder
	for _, id := range ids {
		if p.pending = p.texts[id] == "~"; !p.pending {
			b.WriteString(p.texts[id])
		}
	}
	return b.String()
}

func (p *pieces) Flush() string {
	if p.pending {
		return "\uFFFD"
	}
	return ""
}

func TestAppend(t *testing.T) {
	eos := protocol.FinishStop
	for _, tc := range []struct {
		name    string
		tokens  string // separated by |
		stop    []string
		include bool
		min     int
		finish  protocol.FinishReason // of the last token
		want    string
		tokensN int
		reason  string
	}{
		{name: "plain", tokens: "a|b|c", finish: protocol.FinishLength, want: "abc", tokensN: 3},
		{name: "eos is counted, not shown", tokens: "a|</s>", finish: eos, want: "a", tokensN: 2},
		{name: "eos is shown if asked", tokens: "a|</s>", finish: eos, include: true, want: "a</s>", tokensN: 2},
		{name: "stop across tokens", tokens: "x|EN|D|y", stop: []string{"END"}, finish: protocol.FinishLength, want: "x", tokensN: 3, reason: "END"},
		{name: "stop inside a token", tokens: "xENDy|z", stop: []string{"END"}, finish: protocol.FinishLength, want: "x", tokensN: 1, reason: "END"},
		{name: "stop included", tokens: "x|EN|D!|y", stop: []string{"END"}, include: true, finish: protocol.FinishLength, want: "xEND", tokensN: 3, reason: "END"},
		{name: "first occurrence of several", tokens: "a, b; c", stop: []string{";", ","}, finish: protocol.FinishLength, want: "a", tokensN: 1, reason: ","},
		{name: "first complete of several", tokens: "abcd", stop: []string{"abcd", "c"}, finish: protocol.FinishLength, want: "ab", tokensN: 1, reason: "c"},
		{name: "of equals the first listed", tokens: "abcd", stop: []string{"bc", "abc"}, finish: protocol.FinishLength, want: "a", tokensN: 1, reason: "bc"},
		{name: "false start is released", tokens: "x|EN|O", stop: []string{"END"}, finish: protocol.FinishLength, want: "xENO", tokensN: 3},
		{name: "held text comes at the end", tokens: "x|EN", stop: []string{"END"}, finish: protocol.FinishLength, want: "xEN", tokensN: 2},
		{name: "overlapping starts", tokens: "a|a|a|b", stop: []string{"aab"}, finish: protocol.FinishLength, want: "a", tokensN: 4, reason: "aab"},
		{name: "below min_tokens nothing stops", tokens: "END|x|END", stop: []string{"END"}, min: 2, finish: protocol.FinishLength, want: "ENDx", tokensN: 3, reason: "END"},
		{name: "half a character at the end", tokens: "a|~", finish: protocol.FinishLength, want: "a\uFFFD", tokensN: 2},
		{name: "multi-byte stop", tokens: "é|→|x", stop: []string{"→"}, finish: protocol.FinishLength, want: "é", tokensN: 2, reason: "→"},
	} {
		texts := strings.Split(tc.tokens, "|")
		// However the tokens are gathered, the text is the same.
		for size := 1; size <= len(texts); size++ {
			s := New(Config{Detokenizer: &pieces{texts: texts}, Stop: tc.stop, IncludeStop: tc.include, MinTokens: tc.min})
			var text strings.Builder
			var last Delta
			for at := 0; at < len(texts); at += size {
				var ids []int32
				for i := at; i < min(at+size, len(texts)); i++ {
					ids = append(ids, int32(i))
				}
				finish := protocol.FinishNone
				if at+size >= len(texts) {
					finish = tc.finish
				}
				d := s.Append(ids, finish, protocol.StopReason{})
				text.WriteString(d.Text)
				if d.Finish != protocol.FinishNone && last.Finish == protocol.FinishNone {
					last = d
				}
			}
			if got := text.String(); got != tc.want || s.NumTokens() != tc.tokensN || last.Reason.Text != tc.reason {
				t.Errorf("%s, %d a time: text %q, %d tokens, stop %q, want %q, %d, %q",
					tc.name, size, got, s.NumTokens(), last.Reason.Text, tc.want, tc.tokensN, tc.reason)
			}
			if tc.reason != "" && last.Finish != protocol.FinishStop {
				t.Errorf("%s: finish %v, want stop", tc.name, last.Finish)
			}
		}
	}
}

// No part of a stop string is ever seen, not even for a moment.
func TestNothingOfAStopStringIsStreamed(t *testing.T) {
	texts := strings.Split("Hello |wor|ld|<|/|en|d|>| more", "|")
	s := New(Config{Detokenizer: &pieces{texts: texts}, Stop: []string{"</end>"}})
	var seen string
	for i := range texts {
		seen += s.Append([]int32{int32(i)}, protocol.FinishNone, protocol.StopReason{}).Text
		if strings.Contains(seen, "<") {
			t.Fatalf("after token %d the client saw %q", i, seen)
		}
	}
	if seen != "Hello world" {
		t.Errorf("text = %q, want %q", seen, "Hello world")
	}
}

func FuzzOverlap(f *testing.F) {
	f.Add("aab", "aab")
	f.Add("xxEN", "END")
	f.Fuzz(func(t *testing.T, text, stop string) {
		n := overlap(text, stop)
		if n > len(text) || (n >= len(stop) && n > 0) || !strings.HasPrefix(stop, text[len(text)-n:]) {
			t.Fatalf("overlap(%q, %q) = %d", text, stop, n)
		}
		for longer := n + 1; longer <= len(text) && longer < len(stop); longer++ {
			if strings.HasPrefix(stop, text[len(text)-longer:]) {
				t.Fatalf("overlap(%q, %q) = %d, but %d matches", text, stop, n, longer)
			}
		}
	})
}
