// Package outputs turns the tokens of one sampled continuation into the text
// that a client sees: detokenized, cut at the first stop string, and never
// showing part of one.
//
// Tokens are looked at one by one, however many an update brings, so the text
// does not depend on how the engine's messages were gathered, and a streamed
// text is the unstreamed one.
//
// Follows vLLM V1 engine/detokenizer.py; we differ in: text is held back only
// while it may be the beginning of a stop string, not for the longest stop
// string's length.
package outputs

import (
	"strings"

	"govllm/protocol"
)

// Detokenizer makes text of tokens; *tokenizer.Detokenizer is one.
type Detokenizer interface {
	// Append returns the text that is final with these tokens.
	Append(ids ...int32) string
	// Flush returns what an incomplete last character leaves.
	Flush() string
}

// Config says how a continuation ends.
type Config struct {
	Detokenizer Detokenizer
	Stop        []string // none of them empty
	IncludeStop bool     // keep the stop string, or the stop token, in the text
	MinTokens   int      // stop strings count only after this many tokens
}

// Delta is what an update adds to a continuation.
type Delta struct {
	Text     string
	TokenIDs []int32 // those that belong to the continuation; the caller's slice
	Finish   protocol.FinishReason
	Reason   protocol.StopReason
}

// Sequence assembles one continuation. It is not safe for concurrent use.
type Sequence struct {
	cfg       Config
	numTokens int
	held      string // text that may be the beginning of a stop string
	done      bool
}

// New returns an empty continuation.
func New(cfg Config) *Sequence { return &Sequence{cfg: cfg} }

// NumTokens is the length of the continuation in tokens.
func (s *Sequence) NumTokens() int { return s.numTokens }

// Append takes the tokens of an update and how the engine says it ended, and
// returns what the client may see now. If a stop string is completed, the
// delta is the last one, whatever else the engine has sent.
func (s *Sequence) Append(ids []int32, finish protocol.FinishReason, reason protocol.StopReason) Delta {
	if s.done {
		return Delta{}
	}
	var text strings.Builder
	for i, id := range ids {
		s.numTokens++
		last := i == len(ids)-1
		if last && finish == protocol.FinishStop && !s.cfg.IncludeStop {
			break // EOS or a stop token: counted, not shown
		}
		s.held += s.cfg.Detokenizer.Append(id)
		if stop, ok := s.cut(); ok {
			text.WriteString(s.held)
			s.held, s.done = "", true
			return Delta{
				Text: text.String(), TokenIDs: ids[:i+1], Finish: protocol.FinishStop,
				Reason: protocol.StopReason{Kind: protocol.StopReasonText, Text: stop},
			}
		}
		s.release(&text)
	}
	if finish != protocol.FinishNone {
		s.done = true
		text.WriteString(s.held)
		text.WriteString(s.cfg.Detokenizer.Flush())
		s.held = ""
	}
	return Delta{Text: text.String(), TokenIDs: ids, Finish: finish, Reason: reason}
}

// cut looks for a stop string in the held text and, if there is one, leaves
// only what comes before it (or up to its end). Of several the one that is
// complete first counts, and of those the one listed first. A match can begin
// nowhere but in the held text.
func (s *Sequence) cut() (stop string, ok bool) {
	if s.numTokens <= s.cfg.MinTokens {
		return "", false
	}
	end := len(s.held) + 1
	for _, candidate := range s.cfg.Stop {
		if i := strings.Index(s.held, candidate); i >= 0 && i+len(candidate) < end {
			end, stop = i+len(candidate), candidate
		}
	}
	if stop == "" {
		return "", false
	}
	if !s.cfg.IncludeStop {
		end -= len(stop)
	}
	s.held = s.held[:end]
	return stop, true
}

// release moves the text that no stop string can begin in from held to text.
func (s *Sequence) release(text *strings.Builder) {
	keep := 0
	for _, stop := range s.cfg.Stop {
		keep = max(keep, overlap(s.held, stop))
	}
	text.WriteString(s.held[:len(s.held)-keep])
	s.held = s.held[len(s.held)-keep:]
}

// overlap is the length of the longest end of text that is a beginning of
// stop, stop itself excluded.
func overlap(text, stop string) int {
	for n := min(len(text), len(stop)-1); n > 0; n-- {
		if text[len(text)-n:] == stop[:n] {
			return n
		}
	}
	return 0
}
