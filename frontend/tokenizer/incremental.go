package tokenizer

import "unicode/utf8"

// Detokenizer decodes a sequence of tokens as it grows. What Append returned
// never changes and never ends within a character: at most three bytes, which
// may begin one, are held back.
//
// All results together, with that of Flush, are exactly the text that Decode
// gives for the ids appended. So a prompt that ends within a character does
// not show: the bytes that would complete the character are decoded alone, as
// U+FFFD, and nothing of the prompt comes out.
//
// One per output sequence; not safe for concurrent use.
type Detokenizer struct {
	tokenizer         *Tokenizer
	skipSpecialTokens bool
	pending           [utf8.UTFMax - 1]byte // the beginning of a character
	numPending        int
	bytes, text       []byte // scratch of Append
}

// NewDetokenizer returns a Detokenizer for what follows promptIDs. Byte-level
// tokens mean the same after every prompt, so promptIDs has no effect; it is
// for vocabularies in which the first token loses its leading space.
func (t *Tokenizer) NewDetokenizer(promptIDs []int32, skipSpecialTokens bool) *Detokenizer {
	return &Detokenizer{tokenizer: t, skipSpecialTokens: skipSpecialTokens}
}

// Append takes the next tokens and returns the text that is final with them,
// which may be empty.
func (d *Detokenizer) Append(ids ...int32) string {
	d.bytes = append(d.bytes[:0], d.pending[:d.numPending]...)
	for _, id := range ids {
		d.bytes = append(d.bytes, d.tokenizer.decodedBytes(id, d.skipSpecialTokens)...)
	}
	var incomplete int
	d.text, incomplete = AppendLossy(d.text[:0], d.bytes)
	d.numPending = copy(d.pending[:], d.bytes[len(d.bytes)-incomplete:])
	return string(d.text)
}

// Flush ends the text: it returns U+FFFD if a character was left incomplete,
// else "". The Detokenizer is then as new.
func (d *Detokenizer) Flush() string {
	incomplete := d.numPending
	d.numPending = 0
	return string(appendIncomplete(nil, incomplete))
}
