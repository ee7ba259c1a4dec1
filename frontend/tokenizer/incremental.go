package tokenizer

import "unicode/utf8"

// Detokenizer decodes a sequence of tokens as it grows. What Append returned
// never changes and never ends within a character: the bytes that may begin one
// are held back.
//
// All results together, with that of Flush, are exactly what the ids appended
// add to the text that Decode gives for the prompt, with one exception for
// vocabularies with byte tokens. If a run of those says characters and then
// breaks, Decode takes the characters back; here they stay, and what follows
// them in the run becomes U+FFFD as there.
//
// A prompt that ends within a character does not show: the bytes that would
// complete the character are decoded alone, and nothing of the prompt comes
// out.
//
// One per output sequence; not safe for concurrent use.
type Detokenizer struct {
	tokenizer         *Tokenizer
	skipSpecialTokens bool

	// of a byte-level vocabulary
	pending     [utf8.UTFMax - 1]byte // the beginning of a character
	numPending  int
	bytes, text []byte // scratch of Append

	// of any other
	begin  textStream // after the prompt
	stream textStream
}

// NewDetokenizer returns a Detokenizer for what follows promptIDs. Byte-level
// tokens mean the same after every prompt; in other vocabularies the first
// token of a text may lose its leading space, which one after a prompt keeps.
func (t *Tokenizer) NewDetokenizer(promptIDs []int32, skipSpecialTokens bool) *Detokenizer {
	d := &Detokenizer{tokenizer: t, skipSpecialTokens: skipSpecialTokens}
	if t.decoder != nil {
		d.begin = *newTextStream(t, skipSpecialTokens)
		d.begin.follow(promptIDs)
		d.stream = d.begin
	}
	return d
}

// follow puts the stream where it is after promptIDs.
func (s *textStream) follow(promptIDs []int32) {
	for _, id := range promptIDs {
		if s.started && s.lead == 0 {
			break // the rest makes no difference
		}
		s.add(id)
		s.endRun()
	}
	s.run, s.out, s.eager = nil, nil, true
}

// Append takes the next tokens and returns the text that is final with them,
// which may be empty.
func (d *Detokenizer) Append(ids ...int32) string {
	if d.tokenizer.decoder != nil {
		for _, id := range ids {
			d.stream.add(id)
		}
		return d.stream.take()
	}
	d.bytes = append(d.bytes[:0], d.pending[:d.numPending]...)
	for _, id := range ids {
		d.bytes = append(d.bytes, d.tokenizer.decodedBytes(id, d.skipSpecialTokens)...)
	}
	var incomplete int
	d.text, incomplete = AppendLossy(d.text[:0], d.bytes)
	d.numPending = copy(d.pending[:], d.bytes[len(d.bytes)-incomplete:])
	return string(d.text)
}

// Flush ends the text: it returns U+FFFD, perhaps several, if a character was
// left incomplete, else "". The Detokenizer is then as new.
func (d *Detokenizer) Flush() string {
	if d.tokenizer.decoder != nil {
		d.stream.endRun()
		text := d.stream.take()
		d.stream = d.begin
		return text
	}
	incomplete := d.numPending
	d.numPending = 0
	return string(appendIncomplete(nil, incomplete))
}

// take returns what was decoded since it was called last.
func (s *textStream) take() string {
	text := string(s.out)
	s.out = s.out[:0]
	return text
}
