package engineclient

import (
	"math"
	"slices"

	"govllm/protocol"
)

// output is the growing part of an update. It copies what it is given, since
// messages belong to the connection.
type output struct {
	tokens         []int32
	logprobs       protocol.LogprobsLists
	promptLogprobs *protocol.LogprobsLists
}

func (o *output) empty() bool { return len(o.tokens) == 0 && o.promptLogprobs == nil }

func (o *output) reset() {
	o.tokens = o.tokens[:0]
	o.logprobs.NumTokens = 0
	o.logprobs.TokenIDs = o.logprobs.TokenIDs[:0]
	o.logprobs.Logprobs = o.logprobs.Logprobs[:0]
	o.logprobs.Ranks = o.logprobs.Ranks[:0]
	o.promptLogprobs = nil
}

// rows is nil if there are no log probabilities.
func (o *output) rows() *protocol.LogprobsLists {
	if o.logprobs.NumTokens == 0 {
		return nil
	}
	return &o.logprobs
}

func (o *output) add(out *protocol.EngineCoreOutput) {
	o.tokens = append(o.tokens, out.NewTokenIDs...)
	if out.NewLogprobs != nil {
		appendRows(&o.logprobs, out.NewLogprobs)
	}
	if out.NewPromptLogprobs != nil {
		o.promptLogprobs = &protocol.LogprobsLists{}
		appendRows(o.promptLogprobs, out.NewPromptLogprobs)
	}
}

// appendRows adds src's rows to dst. A request's width does not change while
// it lives; should an engine do it all the same, the narrower rows are padded
// with token -1 at probability 0.
func appendRows(dst, src *protocol.LogprobsLists) {
	if dst.NumTokens == 0 {
		dst.Width = src.Width
	}
	width := max(dst.Width, src.Width)
	widen(dst, width)
	if src.Width != width {
		padded := protocol.LogprobsLists{
			NumTokens: src.NumTokens,
			Width:     src.Width,
			TokenIDs:  slices.Clone(src.TokenIDs),
			Logprobs:  slices.Clone(src.Logprobs),
			Ranks:     src.Ranks,
		}
		widen(&padded, width)
		src = &padded
	}
	dst.NumTokens += src.NumTokens
	dst.TokenIDs = append(dst.TokenIDs, src.TokenIDs...)
	dst.Logprobs = append(dst.Logprobs, src.Logprobs...)
	dst.Ranks = append(dst.Ranks, src.Ranks...)
}

// widen pads every row of l to width columns.
func widen(l *protocol.LogprobsLists, width int) {
	if l.Width == width {
		return
	}
	for row := l.NumTokens; row > 0; row-- {
		for range width - l.Width {
			l.TokenIDs = slices.Insert(l.TokenIDs, row*l.Width, -1)
			l.Logprobs = slices.Insert(l.Logprobs, row*l.Width, float32(math.Inf(-1)))
		}
	}
	l.Width = width
}
