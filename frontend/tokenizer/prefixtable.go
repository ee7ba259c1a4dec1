package tokenizer

// prefixTable finds which of a set of strings a text begins with. The strings
// are sorted, so that those with a common prefix are a range, which each
// further byte of the text narrows.
type prefixTable struct {
	keys  []string  // sorted, none empty, no two alike
	first [256]span // range of the keys that begin with a byte
}

func newPrefixTable(keys []string) prefixTable {
	t := prefixTable{keys: keys}
	for i, key := range keys {
		r := &t.first[key[0]]
		if r.end == 0 {
			r.start = uint32(i)
		}
		r.end = uint32(i) + 1
	}
	return t
}

// walk begins a search for the keys that s begins with; s is not empty.
func (t *prefixTable) walk(s string) prefixWalk {
	r := t.first[s[0]]
	return prefixWalk{t.keys[r.start:r.end], s, int(r.start), 1}
}

// prefixWalk goes through the keys that a text begins with, shortest first.
type prefixWalk struct {
	keys  []string // those that begin with s[:depth]
	s     string
	base  int // the index of keys[0]
	depth int // after next: the length of the key
}

// next returns the index of the next key.
func (w *prefixWalk) next() (key int, ok bool) {
	for len(w.keys) > 0 {
		if len(w.keys[0]) == w.depth {
			w.keys, w.base = w.keys[1:], w.base+1
			return w.base - 1, true
		}
		if w.depth == len(w.s) {
			break
		}
		w.narrow(w.s[w.depth])
	}
	return 0, false
}

// narrow keeps the keys that have byte b at depth; all of them are longer.
func (w *prefixWalk) narrow(b byte) {
	lo, hi := 0, len(w.keys)
	for lo < hi {
		if mid := int(uint(lo+hi) >> 1); w.keys[mid][w.depth] < b {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	start := lo
	for hi = len(w.keys); lo < hi; {
		if mid := int(uint(lo+hi) >> 1); w.keys[mid][w.depth] <= b {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	w.keys, w.base = w.keys[start:lo], w.base+start
	w.depth++
}
