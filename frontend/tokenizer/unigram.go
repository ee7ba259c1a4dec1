package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// unigram is the Unigram model: every token has a score, the logarithm of its
// probability, and a word becomes those tokens whose scores have the greatest
// sum. A character that is no token is unk, at a score below all others; a run
// of those is one unk or, with byteFallback, the tokens of its bytes.
//
// Source: Kudo 2018, and the Viterbi search of SentencePiece's
// EncodeOptimized, as Hugging Face tokenizers has it: the sums are float64, and
// of two best ways to a place the one found first holds.
//
// Immutable after load but for the cache, so safe for concurrent use.
type unigram struct {
	tokens       prefixTable
	ids          []int32   // by index in tokens
	scores       []float64 // by index in tokens
	unk          int32
	unkScore     float64
	byteIDs      [256]int32 // by byte: the token <0xXX>, or noToken
	byteFallback bool
	cut          bool // before escaped spaces
	cache        wordCache
}

// unkPenalty is how far unk is below the lowest score.
const unkPenalty = 10

// newUnigram makes the model of tokens, ids, which it sorts. scores are by id.
func newUnigram(v *vocab, ids []int32, scores []float64, unk int32, unkScore float64, byteFallback bool) *unigram {
	m := &unigram{ids: ids, unk: unk, unkScore: unkScore, byteFallback: byteFallback, cache: newWordCache()}
	slices.SortFunc(m.ids, func(a, b int32) int { return strings.Compare(view(v.bytes(a)), view(v.bytes(b))) })
	keys := make([]string, len(m.ids))
	m.scores = make([]float64, len(m.ids))
	for i, id := range m.ids {
		keys[i] = string(v.bytes(id))
		m.scores[i] = scores[id]
	}
	m.tokens = newPrefixTable(keys)
	m.byteIDs, _ = v.byteTokens()
	return m
}

// allowCuts lets words be cut before escaped spaces, if that changes no tokens:
// the escaped space is one, and no other has it but at its start.
func (m *unigram) allowCuts() {
	_, m.cut = m.find(escapedSpace)
	for _, key := range m.tokens.keys {
		m.cut = m.cut && !strings.Contains(key[1:], escapedSpace)
	}
}

// find returns the token of a part of a text.
func (m *unigram) find(s string) (id int32, ok bool) {
	for walk := m.tokens.walk(s); ; {
		key, more := walk.next()
		if !more {
			return id, ok
		}
		id, ok = m.ids[key], walk.depth == len(s)
	}
}

// appendWord appends the tokens of one pre-tokenized word.
func (m *unigram) appendWord(dst []int32, word string) []int32 {
	if !m.cut {
		return m.cache.appendWord(dst, word, m.appendBest)
	}
	for word != "" {
		n := len(word)
		if i := strings.Index(word[1:], escapedSpace); i >= 0 {
			n = 1 + i
		}
		dst = m.cache.appendWord(dst, word[:n], m.appendBest)
		word = word[n:]
	}
	return dst
}

// pathNode is the best way to a place in a word.
type pathNode struct {
	score float64
	start int32 // of its last token; -1: there is no way yet
	id    int32
}

// appendBest appends the tokens of the best way through word.
func (m *unigram) appendBest(dst []int32, word string) []int32 {
	nodes := make([]pathNode, len(word)+1)
	for i := range nodes[1:] {
		nodes[i+1].start = -1
	}
	reach := func(start, end int, score float64, id int32) {
		if node := &nodes[end]; node.start < 0 || score > node.score {
			*node = pathNode{score, int32(start), id}
		}
	}
	for start := 0; start < len(word); {
		_, width := utf8.DecodeRuneInString(word[start:])
		score := nodes[start].score
		single := false // the character is a token
		for walk := m.tokens.walk(word[start:]); ; {
			key, ok := walk.next()
			if !ok {
				break
			}
			reach(start, start+walk.depth, score+m.scores[key], m.ids[key])
			single = single || walk.depth == width
		}
		if !single {
			reach(start, start+width, score+m.unkScore, m.unk)
		}
		start += width
	}
	return m.appendPath(dst, word, nodes)
}

// appendPath appends the tokens that lead to the end of word, runs of unk as
// one.
func (m *unigram) appendPath(dst []int32, word string, nodes []pathNode) []int32 {
	first := len(dst)
	for end := len(word); end > 0; {
		node := nodes[end]
		start := int(node.start)
		if node.id != m.unk {
			dst = append(dst, node.id)
			end = start
			continue
		}
		for start > 0 && nodes[start].id == m.unk {
			start = int(nodes[start].start)
		}
		dst = m.appendUnknown(dst, word[start:end])
		end = start
	}
	slices.Reverse(dst[first:])
	return dst
}

// appendUnknown appends, last to first, what a run of unknown characters is.
func (m *unigram) appendUnknown(dst []int32, run string) []int32 {
	if id, ok := m.find(run); ok { // such as unk as it is spelled
		return append(dst, id)
	}
	first := len(dst)
	for i := len(run) - 1; m.byteFallback && i >= 0; i-- {
		id := m.byteIDs[run[i]]
		if id == noToken {
			dst = dst[:first]
			break
		}
		dst = append(dst, id)
	}
	if len(dst) == first {
		dst = append(dst, m.unk)
	}
	return dst
}
