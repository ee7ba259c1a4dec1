package outputs

import (
	"unicode/utf8"

	"govllm/frontend/tokenizer"
	"govllm/protocol"
)

// TokenLogprob is one token with its log probability.
type TokenLogprob struct {
	ID      int32
	Text    string // what the token adds to the text: see Logprobs
	Bytes   []byte // of the token alone; not to be modified
	Chars   int    // code points that it adds to the text; of no alternative
	Logprob float64
	Rank    int64 // among all tokens, from 1; 0 if unknown
	// Top are the alternatives: the token itself, then the others as asked for,
	// the most likely ones by falling probability. nil if none are known, and
	// then Logprob says nothing.
	Top []TokenLogprob
}

// minLogprob stands in for -Inf and NaN, which JSON cannot hold, as in vLLM.
const minLogprob = -9999

// Logprobs words the log probabilities of one continuation. A character whose
// bytes are spread over several tokens is the text of the token that completes
// it, so that the tokens' texts join to the continuation's; alternatives are
// worded as if they stood in the token's place.
type Logprobs struct {
	cfg     LogprobsConfig
	pending []byte // of an incomplete character
}

// LogprobsConfig says what tokens mean.
type LogprobsConfig struct {
	// TokenBytes gives the bytes of a token.
	TokenBytes func(id int32) []byte
	// Hidden tells tokens that the text leaves out: they have a text of their
	// own and join no character. nil: there are none.
	Hidden func(id int32) bool
	// Detokenizer makes the text that Chars count. It is for this alone.
	Detokenizer Detokenizer
}

// NewLogprobs returns the words of a continuation's beginning.
func NewLogprobs(cfg LogprobsConfig) *Logprobs {
	if cfg.Hidden == nil {
		cfg.Hidden = func(int32) bool { return false }
	}
	return &Logprobs{cfg: cfg}
}

// First words a token of which no log probability is known: a prompt's first.
func (l *Logprobs) First(id int32) TokenLogprob {
	t := l.word(id, 0, 0)
	l.advance(&t)
	return t
}

// Next words row i of an engine's log probabilities.
func (l *Logprobs) Next(rows *protocol.LogprobsLists, i int) TokenLogprob {
	ids := rows.TokenIDs[i*rows.Width : (i+1)*rows.Width]
	logprobs := rows.Logprobs[i*rows.Width : (i+1)*rows.Width]
	var rank int64
	if i < len(rows.Ranks) {
		rank = rows.Ranks[i]
	}
	t := l.word(ids[0], logprobs[0], rank)
	t.Top = append(make([]TokenLogprob, 0, len(ids)), t)
	for j := 1; j < len(ids); j++ {
		if ids[j] != ids[0] && ids[j] >= 0 { // the token itself stands first; -1 pads
			t.Top = append(t.Top, l.word(ids[j], logprobs[j], int64(j)))
		}
	}
	l.advance(&t)
	return t
}

// advance takes a token into the text.
func (l *Logprobs) advance(t *TokenLogprob) {
	t.Chars = utf8.RuneCountInString(l.cfg.Detokenizer.Append(t.ID))
	if l.cfg.Hidden(t.ID) {
		return
	}
	l.pending = append(l.pending, t.Bytes...)
	_, incomplete := tokenizer.AppendLossy(nil, l.pending)
	l.pending = l.pending[:copy(l.pending, l.pending[len(l.pending)-incomplete:])]
}

func (l *Logprobs) word(id int32, logprob float32, rank int64) TokenLogprob {
	t := TokenLogprob{ID: id, Bytes: l.cfg.TokenBytes(id), Rank: rank, Logprob: minLogprob}
	if p := float64(logprob); p > minLogprob {
		t.Logprob = p
	}
	all := t.Bytes
	if len(l.pending) > 0 && !l.cfg.Hidden(id) {
		all = append(append([]byte(nil), l.pending...), t.Bytes...)
	}
	text, _ := tokenizer.AppendLossy(nil, all)
	t.Text = string(text)
	return t
}
