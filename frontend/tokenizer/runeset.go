package tokenizer

import (
	"slices"
	"sync"
	"unicode/utf8"
)

// runeSet is a set of characters: ranges in order that neither touch nor
// overlap.
type runeSet []runeRange

// runeRange includes both ends.
type runeRange struct{ lo, hi rune }

// categoryRuns lists the runs of code points of one category, in order.
var categoryRuns = sync.OnceValue(func() []categoryRun {
	var runs []categoryRun
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if c := categoryOf(r); len(runs) == 0 || runs[len(runs)-1].category != c {
			runs = append(runs, categoryRun{runeRange{r, r}, c})
		}
		runs[len(runs)-1].hi = r
	}
	return runs
})

type categoryRun struct {
	runeRange
	category category
}

// setOfCategories returns the characters whose category is in.
func setOfCategories(in func(category) bool) runeSet {
	var set runeSet
	for _, run := range categoryRuns() {
		if in(run.category) {
			set = append(set, run.runeRange)
		}
	}
	return set.canonical()
}

// setOfClass returns the characters of a class that is made of categories.
func setOfClass(mask class) runeSet {
	return setOfCategories(func(c category) bool { return classOfCategory[c]&mask != 0 })
}

// canonical sorts the ranges of s and joins those that touch, in place.
func (s runeSet) canonical() runeSet {
	slices.SortFunc(s, func(a, b runeRange) int { return int(a.lo - b.lo) })
	out := s[:0]
	for _, r := range s {
		if last := len(out) - 1; last >= 0 && r.lo <= out[last].hi+1 {
			out[last].hi = max(out[last].hi, r.hi)
		} else {
			out = append(out, r)
		}
	}
	return out
}

func (s runeSet) union(t runeSet) runeSet {
	return slices.Concat(s, t).canonical()
}

func (s runeSet) negate() runeSet {
	var out runeSet
	next := rune(0)
	for _, r := range s {
		if next < r.lo {
			out = append(out, runeRange{next, r.lo - 1})
		}
		next = r.hi + 1
	}
	if next <= utf8.MaxRune {
		out = append(out, runeRange{next, utf8.MaxRune})
	}
	return out
}

func (s runeSet) intersect(t runeSet) runeSet {
	return s.negate().union(t.negate()).negate()
}
