package outputs

import (
	"govllm/frontend/tokenizer"
	"govllm/protocol"
)

// TokenLogprob is one token with its log probability.
type TokenLogprob struct {
	ID      int32
	Text    string // what the token adds to the text: see Logprobs
	Bytes   []byte // of the token alone; not to be modified
	Logprob float64
	// Top are the alternatives: the token itself, then the most likely others
	// by falling probability.
	Top []TokenLogprob
}

// minLogprob stands in for -Inf, which JSON cannot hold, as in vLLM.
const minLogprob = -9999

// Logprobs words the log probabilities of one continuation. A character whose
// bytes are spread over several tokens is the text of the token that completes
// it, so that the tokens' texts join to the continuation's; alternatives are
// worded as if they stood in the token's place.
type Logprobs struct {
	tokenBytes func(id int32) []byte
	pending    []byte // of an incomplete character
}

// NewLogprobs returns the words of a continuation's beginning. tokenBytes gives
// the bytes of a token.
func NewLogprobs(tokenBytes func(id int32) []byte) *Logprobs {
	return &Logprobs{tokenBytes: tokenBytes}
}

// Next words row i of an engine's log probabilities.
func (l *Logprobs) Next(rows *protocol.LogprobsLists, i int) TokenLogprob {
	ids := rows.TokenIDs[i*rows.Width : (i+1)*rows.Width]
	logprobs := rows.Logprobs[i*rows.Width : (i+1)*rows.Width]
	t := l.word(ids[0], logprobs[0])
	t.Top = append(make([]TokenLogprob, 0, len(ids)), t)
	for j := 1; j < len(ids); j++ {
		if ids[j] != ids[0] { // the token itself stands first
			t.Top = append(t.Top, l.word(ids[j], logprobs[j]))
		}
	}
	l.pending = append(l.pending, t.Bytes...)
	_, incomplete := tokenizer.AppendLossy(nil, l.pending)
	l.pending = l.pending[:copy(l.pending, l.pending[len(l.pending)-incomplete:])]
	return t
}

func (l *Logprobs) word(id int32, logprob float32) TokenLogprob {
	b := l.tokenBytes(id)
	all := b
	if len(l.pending) > 0 {
		all = append(append([]byte(nil), l.pending...), b...)
	}
	text, _ := tokenizer.AppendLossy(nil, all)
	return TokenLogprob{ID: id, Text: string(text), Bytes: b, Logprob: max(float64(logprob), minLogprob)}
}
