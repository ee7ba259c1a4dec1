package tokenizer

import "unicode/utf8"

// Pre-tokenization cuts a text into words; the model works on each alone. It
// is a chain of stages, each of which cuts the pieces of the one before, and
// ends in ByteLevel, which leaves the words as bytes.

// stage cuts a text into pieces, in order, none empty.
type stage interface {
	split(s string, emit func(string) error) error
}

// byteLevelStage is the pre-tokenizer ByteLevel without its last act, spelling
// bytes as characters: the model takes bytes.
type byteLevelStage struct {
	addPrefixSpace bool // a piece that does not begin with a space gets one
	useRegex       bool // cut with gpt2Pattern
}

func (st byteLevelStage) split(s string, emit func(string) error) error {
	if st.addPrefixSpace && s[0] != ' ' {
		s = " " + s
	}
	if !st.useRegex {
		return emit(s)
	}
	for i := 0; i < len(s); {
		end := scanGPT2(s, i)
		if err := emit(s[i:end]); err != nil {
			return err
		}
		i = end
	}
	return nil
}

// preTokenizer is the chain of stages.
type preTokenizer struct {
	stages []stage
	// scan is the one scanner that does the work of all stages, if there is one.
	scan scanner
}

func newPreTokenizer(stages []stage) preTokenizer {
	return preTokenizer{stages, soleScanner(stages)}
}

// soleScanner returns the scanner that alone does what stages do, or nil:
// GPT-2's ByteLevel, or one Split and a ByteLevel that does not cut.
func soleScanner(stages []stage) scanner {
	last, ok := stages[len(stages)-1].(byteLevelStage)
	if !ok || last.addPrefixSpace {
		return nil
	}
	switch {
	case len(stages) == 1 && last.useRegex:
		return scanGPT2
	case len(stages) == 2 && !last.useRegex:
		st, ok := stages[0].(*splitStage)
		// A scanner matches everywhere: to isolate matches, and to remove what
		// does not match, is to keep them all.
		if ok && (st.behavior == isolated || st.behavior == removed && st.invert) {
			scan, _ := st.matcher.(scanner)
			return scan
		}
	}
	return nil
}

// appendWords cuts s into words and appends the model's tokens for each.
func (p *preTokenizer) appendWords(dst []int32, s string, model *bpe) ([]int32, error) {
	if p.scan != nil {
		for i := 0; i < len(s); {
			end := p.scan(s, i)
			dst = model.appendWord(dst, s[i:end])
			i = end
		}
		return dst, nil
	}
	err := split(p.stages, s, func(word string) error {
		dst = model.appendWord(dst, word)
		return nil
	})
	return dst, err
}

// split runs the stages on s, depth first.
func split(stages []stage, s string, emit func(string) error) error {
	if s == "" {
		return nil
	}
	if len(stages) == 0 {
		return emit(s)
	}
	return stages[0].split(s, func(piece string) error {
		return split(stages[1:], piece, emit)
	})
}

// numericMatcher finds each numeric character, for the pre-tokenizer Digits.
type numericMatcher struct{}

func (numericMatcher) matches(s string, yield func(start, end int)) error {
	for i, r := range s {
		if isNumeric(r) {
			yield(i, i+utf8.RuneLen(r))
		}
	}
	return nil
}
