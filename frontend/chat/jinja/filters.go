package jinja

import (
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The filters. Those that are generators in Jinja are lazy here too: what they
// would raise is raised when, and only if, somebody asks for an item.

// filter is a named filter; test a named test. Both take the value before the
// bar or "is" and the arguments in the parentheses.
type (
	filter struct {
		call func(st *state, x Value, a args) (Value, error)
	}
	test struct {
		call func(st *state, x Value, a args) (Value, error)
	}
)

var filters map[string]*filter

// unsupportedFilters exist in Jinja and are refused at parse.
var unsupportedFilters = map[string]string{
	"random":  "rendering must be deterministic",
	"urlize":  "prompts are not HTML",
	"xmlattr": "prompts are not HTML",
	"pprint":  "it is a debugging aid",
}

func init() { // not a literal: map and select look filters up by name
	table := map[string]func(st *state, x Value, a args) (Value, error){
		"abs": filterAbs, "attr": filterAttr, "batch": filterBatch, "capitalize": textFilter("capitalize", capitalize),
		"center": filterCenter, "count": filterLength, "d": filterDefault, "default": filterDefault,
		"dictsort": filterDictsort, "e": filterEscape, "escape": filterEscape, "filesizeformat": filterFilesize,
		"first": filterFirst, "float": filterFloat, "forceescape": filterForceEscape, "format": filterFormat,
		"groupby": filterGroupby, "indent": filterIndent, "int": filterInt, "items": filterItems,
		"join": filterJoin, "last": filterLast, "length": filterLength, "list": filterList,
		"lower": textFilter("lower", lower), "map": filterMap, "max": filterMinMax(">"), "min": filterMinMax("<"),
		"reject": filterSelect(true, false), "rejectattr": filterSelect(true, true), "replace": filterReplace,
		"reverse": filterReverse, "round": filterRound, "safe": filterSafe, "select": filterSelect(false, false),
		"selectattr": filterSelect(false, true), "slice": filterSlice, "sort": filterSort, "string": filterString,
		"striptags": filterStriptags, "sum": filterSum, "title": textFilter("title", titleWords),
		"tojson": tojson, "trim": filterTrim, "truncate": filterTruncate, "unique": filterUnique,
		"upper": textFilter("upper", upper), "urlencode": filterURLEncode, "wordcount": filterWordcount,
		"wordwrap": filterWordwrap,
	}
	filters = make(map[string]*filter, len(table))
	for name, call := range table {
		filters[name] = &filter{call}
	}
}

// softStr is str(x), Markup staying Markup.
func softStr(st *state, x Value) (string, error) { return st.run.str(x) }

// textFilter makes a filter of a text function without arguments.
func textFilter(name string, f func(string) string) func(*state, Value, args) (Value, error) {
	return func(st *state, x Value, a args) (Value, error) {
		if _, err := a.bind("do_" + name); err != nil {
			return nil, err
		}
		s, err := softStr(st, x)
		if err != nil {
			return nil, err
		}
		return likeText(x, f(s)), st.run.charge(len(s))
	}
}

// titleWords is Jinja's own title: words start after blanks, dashes and brackets.
func titleWords(s string) string {
	isBreak := func(c rune) bool { return isSpace(c) || strings.ContainsRune("-({[<", c) }
	var b strings.Builder
	for s != "" {
		end := strings.IndexFunc(s, isBreak)
		if end < 0 {
			end = len(s)
		}
		_, first := utf8.DecodeRuneInString(s[:end])
		b.WriteString(upper(s[:first]))
		b.WriteString(lower(s[first:end]))
		s = s[end:]
		word := len(s) - len(strings.TrimLeftFunc(s, isBreak))
		b.WriteString(s[:word])
		s = s[word:]
	}
	return b.String()
}

func filterAbs(_ *state, x Value, a args) (Value, error) {
	if _, err := a.positional("abs", 0, 0); err != nil {
		return nil, err
	}
	if f, ok := x.(Float); ok {
		return Float(math.Abs(float64(f))), nil
	}
	i, ok := asInt(x)
	if !ok {
		return nil, typeErrf("bad operand type for abs(): '%s'", x.typeName())
	}
	return normInt(new(big.Int).Abs(toBig(i)))
}

func filterAttr(st *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_attr", "name")
	if err != nil {
		return nil, err
	}
	name, ok := asStr(v[0])
	if !ok {
		return nil, typeErrf("attribute name must be string, not '%s'", v[0].typeName())
	}
	if u, ok := x.(*undefined); ok {
		return undefinedAttr(u, name)
	}
	attr, err := st.run.attribute(x, name)
	if attr == nil && err == nil {
		attr = missing(x, v[0])
	}
	return attr, err
}

func filterBatch(st *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_batch", "linecount", "fill_with?")
	if err != nil {
		return nil, err
	}
	size, isInt := asIndex(v[0])
	return lazily(x, func() (iterator, error) {
		it, err := iter(x)
		if err != nil {
			return nil, err
		}
		var line []Value
		done := false
		return iterFunc(func() (Value, error) {
			for !done {
				item, err := it.next()
				if err == nil {
					err = st.run.charge(valueBytes)
				}
				if err != nil {
					return nil, err
				}
				if item == nil {
					done = true
					return lastBatch(st, line, size, v[1])
				}
				if isInt && len(line) == size {
					full := &List{line}
					line = []Value{item}
					return full, nil
				}
				line = append(line, item)
			}
			return nil, nil
		}), nil
	})
}

// lastBatch fills up what is left of the items; nil if nothing is.
func lastBatch(st *state, line []Value, size int, fill Value) (Value, error) {
	if len(line) == 0 {
		return nil, nil
	}
	if orNone(fill) != None && len(line) < size {
		if err := st.run.chargeItems(size); err != nil {
			return nil, err
		}
		line = append(line, slices.Repeat([]Value{fill}, size-len(line))...)
	}
	return &List{line}, nil
}

func filterSlice(st *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_slice", "slices", "fill_with?")
	if err != nil {
		return nil, err
	}
	return lazily(x, func() (iterator, error) {
		items, err := st.run.collect(x)
		if err != nil {
			return nil, err
		}
		n, err := intArg(v[0], 0)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, valueErrf("integer division or modulo by zero")
		}
		each, extra := 0, 0
		if n > 0 {
			each, extra = len(items)/n, len(items)%n
		}
		i, offset := 0, 0
		return iterFunc(func() (Value, error) {
			if i >= n {
				return nil, nil
			}
			if err := st.run.tick(1); err != nil {
				return nil, err
			}
			start := offset + i*each
			if i < extra {
				offset++
			}
			part := slices.Clone(items[start : offset+(i+1)*each])
			if v[1] != nil && v[1] != None && i >= extra {
				part = append(part, v[1])
			}
			i++
			return &List{part}, st.run.chargeItems(len(part))
		}), nil
	})
}

func filterCenter(st *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_center", "width?")
	if err != nil {
		return nil, err
	}
	width, err := intArg(v[0], 80)
	if err != nil {
		return nil, err
	}
	s, err := softStr(st, x)
	if err != nil {
		return nil, err
	}
	s, err = justify(st.run, s, width, " ", "center")
	return likeText(x, s), err
}

func filterDefault(_ *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_default", "default_value?", "boolean?")
	if err != nil {
		return nil, err
	}
	_, isUndefined := x.(*undefined)
	if isUndefined || v[1] != nil && truth(v[1]) && !truth(x) {
		if v[0] == nil {
			return Str(""), nil
		}
		return v[0], nil
	}
	return x, nil
}

func filterLength(_ *state, x Value, a args) (Value, error) {
	if _, err := a.positional("len", 0, 0); err != nil {
		return nil, err
	}
	if l, ok := x.(*loopContext); ok {
		n, err := l.length()
		return Int(n), err
	}
	n, ok := length(x)
	if !ok {
		return nil, typeErrf("object of type '%s' has no len()", x.typeName())
	}
	return Int(n), nil
}

func filterList(st *state, x Value, a args) (Value, error) {
	if _, err := a.bind("do_list"); err != nil {
		return nil, err
	}
	items, err := st.run.collect(x)
	return &List{items}, err
}

func filterString(st *state, x Value, a args) (Value, error) {
	if _, err := a.positional("soft_str", 0, 0); err != nil {
		return nil, err
	}
	s, err := softStr(st, x)
	return likeText(x, s), err
}

func filterItems(_ *state, x Value, a args) (Value, error) {
	if _, err := a.bind("do_items"); err != nil {
		return nil, err
	}
	return lazily(x, func() (iterator, error) {
		switch x := x.(type) {
		case *undefined:
			return &sliceIter{}, nil
		case *Dict:
			return &viewIter{view: &dictView{x, 'i'}}, nil
		}
		return nil, typeErrf("Can only get item pairs from a mapping.")
	})
}

func filterFirst(_ *state, x Value, a args) (Value, error) {
	if _, err := a.bind("do_first"); err != nil {
		return nil, err
	}
	it, err := iter(x)
	if err != nil {
		return nil, err
	}
	v, err := it.next()
	if v == nil && err == nil {
		v = undefinedHint("No first item, sequence was empty.")
	}
	return v, err
}

func filterLast(st *state, x Value, a args) (Value, error) {
	if _, err := a.bind("do_last"); err != nil {
		return nil, err
	}
	it, ok := reversed(x)
	if !ok {
		return nil, typeErrf("'%s' object is not reversible", x.typeName())
	}
	v, err := it.next()
	if v == nil && err == nil {
		v = undefinedHint("No last item, sequence was empty.")
	}
	return v, err
}

// reversed is Python's reversed(x); ok is false where it raises TypeError.
func reversed(x Value) (it *generator, ok bool) {
	from := func(name string, n int, at func(i int) Value) (*generator, bool) {
		return &generator{name: name, pull: func() (Value, error) {
			if n == 0 {
				return nil, nil
			}
			n--
			return at(n), nil
		}}, true
	}
	switch x := x.(type) {
	case *List:
		return from("list_reverseiterator", len(x.items), func(i int) Value { return x.items[i] })
	case *tuple:
		return from("reversed", len(x.items), func(i int) Value { return x.items[i] })
	case *Dict:
		return from("dict_reversekeyiterator", x.Len(), func(i int) Value { return x.entries[i].key })
	case *dictView:
		return from("dict_reverseitemiterator", x.dict.Len(), x.at)
	case *pyRange:
		return from("range_iterator", x.len(), func(i int) Value { return Int(x.at(i)) })
	case *undefined:
		return from("reversed", 0, nil)
	case Str, markup:
		rest := strOf(x)
		return &generator{name: "reversed", pull: func() (Value, error) {
			if rest == "" {
				return nil, nil
			}
			_, size := utf8.DecodeLastRuneInString(rest)
			c := rest[len(rest)-size:]
			rest = rest[:len(rest)-size]
			return likeText(x, c), nil
		}}, true
	}
	return nil, false
}

func filterReverse(st *state, x Value, a args) (Value, error) {
	if _, err := a.bind("do_reverse"); err != nil {
		return nil, err
	}
	if s, ok := asStr(x); ok {
		if err := st.run.charge(len(s)); err != nil {
			return nil, err
		}
		runes := []rune(s)
		slices.Reverse(runes)
		return likeText(x, string(runes)), nil
	}
	if it, ok := reversed(x); ok {
		return it, nil
	}
	if _, ok := iterate(x); !ok {
		return nil, valueErrf("argument must be iterable")
	}
	items, err := st.run.collect(x)
	if err != nil {
		return nil, err
	}
	items = slices.Clone(items)
	slices.Reverse(items)
	return &List{items}, nil
}

func filterReplace(st *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_replace", "old", "new", "count?")
	if err != nil {
		return nil, err
	}
	var text [3]string
	for i, arg := range []Value{x, v[0], v[1]} {
		if text[i], err = st.run.str(arg); err != nil {
			return nil, err
		}
	}
	count := -1
	if v[2] != nil && v[2] != None {
		if count, err = intArg(v[2], -1); err != nil {
			return nil, err
		}
	}
	s, err := replace(st.run, text[0], text[1], text[2], count)
	return Str(s), err
}

func filterTrim(st *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_trim", "chars?")
	if err != nil {
		return nil, err
	}
	s, err := softStr(st, x)
	if err != nil {
		return nil, err
	}
	s, err = strip(st.run, s, v[0], true, true)
	return likeText(x, s), err
}

func filterIndent(st *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_indent", "width?", "first?", "blank?")
	if err != nil {
		return nil, err
	}
	indent := "    "
	if v[0] != nil {
		if s, ok := asStr(v[0]); ok {
			indent = s
		} else if n, ok := asIndex(v[0]); ok {
			if n > maxFormatWidth {
				return nil, errf(KindLimit, "indent %d exceeds the limit of %d", n, maxFormatWidth)
			}
			indent = strings.Repeat(" ", max(n, 0))
		} else {
			return nil, typeErrf("can't multiply sequence by non-int of type '%s'", v[0].typeName())
		}
	}
	s, ok := asStr(x)
	if !ok {
		_, err := st.run.binary("+", x, Str("\n"))
		if err == nil {
			err = typeErrf("'%s' object has no attribute 'splitlines'", x.typeName())
		}
		return nil, err
	}
	if _, safe := x.(markup); safe {
		indent = escapeHTML(indent)
	}
	first, blank := v[1] != nil && truth(v[1]), v[2] != nil && truth(v[2])
	w := &writer{run: st.run}
	for i, l := range splitLines(s+"\n", false) {
		if i > 0 {
			l = "\n" + l
			if blank || len(l) > 1 {
				l = "\n" + indent + l[1:]
			}
		} else if first {
			l = indent + l
		}
		if err := w.write(l); err != nil {
			return nil, err
		}
	}
	return likeText(x, w.String()), nil
}

func filterJoin(st *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_join", "d?", "attribute?")
	if err != nil {
		return nil, err
	}
	sep := ""
	if v[0] != nil {
		if sep, err = st.run.str(v[0]); err != nil {
			return nil, err
		}
	}
	get, err := attrGetter(st, v[1], nil)
	if err != nil {
		return nil, err
	}
	it, err := iter(x)
	if err != nil {
		return nil, err
	}
	w := &writer{run: st.run}
	for first := true; ; first = false {
		item, err := it.next()
		if err != nil {
			return nil, err
		}
		if item == nil {
			return Str(w.String()), nil
		}
		if item, err = get(item); err != nil {
			return nil, err
		}
		s, err := st.run.str(item)
		if err != nil {
			return nil, err
		}
		if !first {
			s = sep + s
		}
		if err := st.run.tick(1); err != nil {
			return nil, err
		}
		if err := w.write(s); err != nil {
			return nil, err
		}
	}
}

// attrGetter follows a dotted attribute, or is the identity for none; def
// replaces what is undefined on the way.
func attrGetter(st *state, attr, def Value) (func(Value) (Value, error), error) {
	var parts []Value
	switch attr := attr.(type) {
	case nil, noneType:
	case Str, markup:
		for _, p := range strings.Split(strOf(attr), ".") {
			if p != "" && strings.IndexFunc(p, func(c rune) bool { return !unicode.IsDigit(c) }) < 0 {
				n, err := parseInt(p, 10)
				if err != nil {
					return nil, err
				}
				parts = append(parts, n)
			} else {
				parts = append(parts, Str(p))
			}
		}
	default:
		parts = []Value{attr}
	}
	return func(item Value) (Value, error) {
		for _, p := range parts {
			var err error
			if item, err = st.run.getitem(item, p); err != nil {
				return nil, err
			}
			if _, ok := item.(*undefined); ok && def != nil && def != None {
				item = def
			}
		}
		return item, nil
	}, nil
}

// foldCase is Jinja's ignore_case: texts compare in lower case.
func foldCase(v Value) Value {
	if s, ok := asStr(v); ok {
		return likeText(v, lower(s))
	}
	return v
}

// keyed is an item and what it is sorted or grouped by.
type keyed struct{ key, item Value }

func (st *state) keyAll(x Value, key func(Value) (Value, error)) ([]keyed, error) {
	items, err := st.run.collect(x)
	if err != nil {
		return nil, err
	}
	if err := st.run.chargeItems(2 * len(items)); err != nil {
		return nil, err
	}
	out := make([]keyed, len(items))
	for i, item := range items {
		k, err := key(item)
		if err != nil {
			return nil, err
		}
		out[i] = keyed{k, item}
	}
	return out, nil
}

// sortKeyed is Python's stable sort, in reverse if asked.
func (st *state) sortKeyed(list []keyed, reverse bool) error {
	var err error
	slices.SortStableFunc(list, func(a, b keyed) int {
		if err != nil {
			return 0
		}
		if reverse {
			a, b = b, a
		}
		var c int
		if c, err = st.run.compareAt("<", a.key, b.key, 0); c == unordered {
			c = 0
		}
		return c
	})
	return err
}

func itemsOf(list []keyed) *List {
	out := &List{items: make([]Value, len(list))}
	for i, k := range list {
		out.items[i] = k.item
	}
	return out
}

func isSet(v Value) bool { return v != nil && truth(v) }

func filterSort(st *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_sort", "reverse?", "case_sensitive?", "attribute?")
	if err != nil {
		return nil, err
	}
	attrs := []Value{v[2]}
	if s, ok := asStr(orNone(v[2])); ok {
		attrs = nil
		for _, part := range strings.Split(s, ",") {
			attrs = append(attrs, Str(part))
		}
	}
	var getters []func(Value) (Value, error)
	for _, attr := range attrs {
		get, err := attrGetter(st, attr, nil)
		if err != nil {
			return nil, err
		}
		getters = append(getters, get)
	}
	list, err := st.keyAll(x, func(item Value) (Value, error) {
		key := &List{}
		for _, get := range getters {
			k, err := get(item)
			if err != nil {
				return nil, err
			}
			if !isSet(v[1]) {
				k = foldCase(k)
			}
			key.items = append(key.items, k)
		}
		return key, nil
	})
	if err == nil {
		err = st.sortKeyed(list, isSet(v[0]))
	}
	return itemsOf(list), err
}

func orNone(v Value) Value {
	if v == nil {
		return None
	}
	return v
}

func filterDictsort(st *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_dictsort", "case_sensitive?", "by?", "reverse?")
	if err != nil {
		return nil, err
	}
	pos := 0
	switch by, _ := asStr(orNone(v[1])); {
	case v[1] == nil || by == "key":
	case by == "value":
		pos = 1
	default:
		return nil, valueErrf(`You can only sort by either "key" or "value"`)
	}
	d, ok := x.(*Dict)
	if u, isUndefined := x.(*undefined); isUndefined {
		return nil, u.err()
	}
	if !ok {
		return nil, typeErrf("'%s' object has no attribute 'items'", x.typeName())
	}
	list, err := st.keyAll(&dictView{d, 'i'}, func(item Value) (Value, error) {
		k := item.(*tuple).items[pos]
		if !isSet(v[0]) {
			k = foldCase(k)
		}
		return k, nil
	})
	if err == nil {
		err = st.sortKeyed(list, isSet(v[2]))
	}
	return itemsOf(list), err
}

func filterGroupby(st *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_groupby", "attribute", "default?", "case_sensitive?")
	if err != nil {
		return nil, err
	}
	get, err := attrGetter(st, v[0], v[1])
	if err != nil {
		return nil, err
	}
	key := func(item Value) (Value, error) {
		k, err := get(item)
		if err == nil && !isSet(v[2]) {
			k = foldCase(k)
		}
		return k, err
	}
	list, err := st.keyAll(x, key)
	if err == nil {
		err = st.sortKeyed(list, false)
	}
	if err != nil {
		return nil, err
	}
	out := &List{}
	for start := 0; start < len(list); {
		end := start + 1
		for ; end < len(list); end++ {
			if eq, err := st.run.equal(list[start].key, list[end].key); err != nil {
				return nil, err
			} else if !eq {
				break
			}
		}
		name, err := get(list[start].item) // the key in its own case
		if err != nil {
			return nil, err
		}
		group := newTuple(name, itemsOf(list[start:end]))
		group.names = []string{"grouper", "list"}
		out.items = append(out.items, group)
		start = end
	}
	return out, nil
}

func filterUnique(st *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_unique", "case_sensitive?", "attribute?")
	if err != nil {
		return nil, err
	}
	get, err := attrGetter(st, v[1], nil)
	if err != nil {
		return nil, err
	}
	return lazily(x, func() (iterator, error) {
		it, err := iter(x)
		if err != nil {
			return nil, err
		}
		seen := map[hashKey]bool{}
		return iterFunc(func() (Value, error) {
			for {
				item, err := it.next()
				if err != nil || item == nil {
					return nil, err
				}
				k, err := get(item)
				if err != nil {
					return nil, err
				}
				if !isSet(v[0]) {
					k = foldCase(k)
				}
				h, err := hash(k, 0)
				if err == nil {
					err = st.run.charge(4 * valueBytes)
				}
				if err != nil {
					return nil, err
				}
				if !seen[h] {
					seen[h] = true
					return item, nil
				}
			}
		}), nil
	})
}

func filterMinMax(op string) func(*state, Value, args) (Value, error) {
	return func(st *state, x Value, a args) (Value, error) {
		v, err := a.bind("do_min_max", "case_sensitive?", "attribute?")
		if err != nil {
			return nil, err
		}
		get, err := attrGetter(st, v[1], nil)
		if err != nil {
			return nil, err
		}
		list, err := st.keyAll(x, func(item Value) (Value, error) {
			k, err := get(item)
			if err == nil && !isSet(v[0]) {
				k = foldCase(k)
			}
			return k, err
		})
		if err != nil {
			return nil, err
		}
		if len(list) == 0 {
			return undefinedHint("No aggregated item, sequence was empty."), nil
		}
		best := list[0]
		for _, k := range list[1:] {
			better, err := st.run.order(op, k.key, best.key)
			if err != nil {
				return nil, err
			}
			if better {
				best = k
			}
		}
		return best.item, nil
	}
}

func filterSum(st *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_sum", "attribute?", "start?")
	if err != nil {
		return nil, err
	}
	get, err := attrGetter(st, v[0], nil)
	if err != nil {
		return nil, err
	}
	it, err := iter(x)
	if err != nil {
		return nil, err
	}
	total := Value(Int(0))
	if v[1] != nil {
		total = v[1]
	}
	if _, ok := asStr(total); ok {
		return nil, typeErrf("sum() can't sum strings [use ''.join(seq) instead]")
	}
	for {
		item, err := it.next()
		if err != nil || item == nil {
			return total, err
		}
		if item, err = get(item); err != nil {
			return nil, err
		}
		if total, err = st.run.binary("+", total, item); err != nil {
			return nil, err
		}
		if err := st.run.tick(1); err != nil {
			return nil, err
		}
	}
}

func filterMap(st *state, x Value, a args) (Value, error) {
	return lazily(x, func() (iterator, error) {
		if !truth(x) {
			return &sliceIter{}, nil
		}
		f, err := mapper(st, a)
		if err != nil {
			return nil, err
		}
		it, err := iter(x)
		if err != nil {
			return nil, err
		}
		return iterFunc(func() (Value, error) {
			item, err := it.next()
			if err != nil || item == nil {
				return nil, err
			}
			if err := st.run.tick(1); err != nil {
				return nil, err
			}
			return f(item)
		}), nil
	})
}

// mapper is what map applies: an attribute or another filter.
func mapper(st *state, a args) (func(Value) (Value, error), error) {
	if attr, ok := a.keyword("attribute"); ok && len(a.pos) == 0 {
		var def Value
		for _, k := range a.kw {
			switch k.name {
			case "attribute":
			case "default":
				def = k.val
			default:
				return nil, valueErrf("Unexpected keyword argument %s", quote(k.name))
			}
		}
		return attrGetter(st, attr, def)
	}
	if len(a.pos) == 0 {
		return nil, valueErrf("map requires a filter argument")
	}
	name, _ := asStr(a.pos[0])
	f := filters[name]
	if f == nil {
		return nil, noSuch("filter", a.pos[0])
	}
	rest := args{a.pos[1:], a.kw}
	return func(item Value) (Value, error) { return f.call(st, item, rest) }, nil
}

func noSuch(what string, name Value) error {
	if s, ok := asStr(name); ok {
		if why, ok := unsupportedFilters[s]; ok && what == "filter" {
			return errf(KindUnsupported, "filter %s is not supported: %s", quote(s), why)
		}
		return errf(KindSyntax, "No %s named %s.", what, quote(s))
	}
	return errf(KindType, "No %s named by a value of type '%s'.", what, name.typeName())
}

func filterSelect(reject, byAttr bool) func(*state, Value, args) (Value, error) {
	return func(st *state, x Value, a args) (Value, error) {
		return lazily(x, func() (iterator, error) {
			if !truth(x) {
				return &sliceIter{}, nil
			}
			keep, err := selector(st, a, byAttr)
			if err != nil {
				return nil, err
			}
			it, err := iter(x)
			if err != nil {
				return nil, err
			}
			return iterFunc(func() (Value, error) {
				for {
					item, err := it.next()
					if err != nil || item == nil {
						return nil, err
					}
					if err := st.run.tick(1); err != nil {
						return nil, err
					}
					v, err := keep(item)
					if err != nil {
						return nil, err
					}
					if truth(v) != reject {
						return item, nil
					}
				}
			}), nil
		})
	}
}

// selector is what select and selectattr ask of an item: a test, or its truth.
func selector(st *state, a args, byAttr bool) (func(Value) (Value, error), error) {
	get := func(v Value) (Value, error) { return v, nil }
	pos := a.pos
	if byAttr {
		if len(pos) == 0 {
			return nil, valueErrf("Missing parameter for attribute name")
		}
		var err error
		if get, err = attrGetter(st, pos[0], nil); err != nil {
			return nil, err
		}
		pos = pos[1:]
	}
	if len(pos) == 0 {
		return get, nil
	}
	name, _ := asStr(pos[0])
	t := tests[name]
	if t == nil {
		return nil, noSuch("test", pos[0])
	}
	rest := args{pos[1:], a.kw}
	return func(item Value) (Value, error) {
		v, err := get(item)
		if err != nil {
			return nil, err
		}
		return t.call(st, v, rest)
	}, nil
}

func filterInt(st *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_int", "default?", "base?")
	if err != nil {
		return nil, err
	}
	def := Value(Int(0))
	if v[0] != nil {
		def = v[0]
	}
	if u, ok := x.(*undefined); ok {
		return nil, u.err()
	}
	switch x := x.(type) {
	case Int, bigInt, Bool:
		i, _ := asInt(x)
		return i, nil
	case Float:
		if math.IsNaN(float64(x)) {
			return def, nil
		}
		return truncFloat(float64(x))
	case Str, markup:
		base, err := intArg(v[1], 10)
		if err != nil {
			return nil, err
		}
		if i, ok := intFromText(strOf(x), base); ok {
			return i, nil
		}
		f, ok := floatFromText(strOf(x))
		if !ok || math.IsInf(f, 0) || math.IsNaN(f) {
			return def, nil
		}
		return truncFloat(f)
	}
	return def, nil
}

// intFromText is Python's int(s, base).
func intFromText(s string, base int) (Value, bool) {
	if base == 1 || base < 0 || base > 36 {
		return nil, false
	}
	s = strings.TrimFunc(s, isSpace)
	sign, digits := "", s
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, digits = s[:1], s[1:]
	}
	if len(digits) > 2 && digits[0] == '0' {
		if want := map[byte]int{'b': 2, 'o': 8, 'x': 16}[digits[1]|0x20]; want != 0 && (base == want || base == 0) {
			base = want
			digits = strings.TrimPrefix(digits[2:], "_")
		}
	}
	if base == 0 {
		base = 10
		if strings.HasPrefix(digits, "0") && strings.Trim(digits, "0_") != "" {
			return nil, false
		}
	}
	if digits == "" || strings.HasPrefix(digits, "_") || strings.HasSuffix(digits, "_") || strings.Contains(digits, "__") {
		return nil, false
	}
	digits = asciiDigits(strings.ReplaceAll(digits, "_", ""))
	if strings.ContainsAny(digits, "+-") {
		return nil, false
	}
	v, err := parseInt(sign+digits, base)
	return v, err == nil
}

// asciiDigits replaces other scripts' decimal digits, as int() and float() do.
func asciiDigits(s string) string {
	if isASCII(s) {
		return s
	}
	return strings.Map(func(c rune) rune {
		if c < utf8.RuneSelf || !unicode.Is(unicode.Nd, c) {
			return c
		}
		return '0' + c - zeroOf(c)
	}, s)
}

// zeroOf finds the zero of c's script: ranges of Nd start at one and hold whole tens.
func zeroOf(c rune) rune {
	for _, r := range unicode.Nd.R16 {
		if c >= rune(r.Lo) && c <= rune(r.Hi) {
			return c - (c-rune(r.Lo))%10
		}
	}
	for _, r := range unicode.Nd.R32 {
		if c >= rune(r.Lo) && c <= rune(r.Hi) {
			return c - (c-rune(r.Lo))%10
		}
	}
	return c
}

// floatFromText is Python's float(s).
func floatFromText(s string) (float64, bool) {
	s = asciiDigits(strings.TrimFunc(s, isSpace))
	for i := range len(s) {
		if s[i] == '_' && (i == 0 || i+1 == len(s) || !isDecimal(s[i-1]) || !isDecimal(s[i+1])) {
			return 0, false
		}
	}
	s = strings.ReplaceAll(s, "_", "")
	if strings.ContainsAny(s, "xXpP") { // Go's hexadecimal floats
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

func filterFloat(_ *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_float", "default?")
	if err != nil {
		return nil, err
	}
	def := Value(Float(0))
	if v[0] != nil {
		def = v[0]
	}
	if u, ok := x.(*undefined); ok {
		return nil, u.err()
	}
	if s, ok := asStr(x); ok {
		if f, ok := floatFromText(s); ok {
			return Float(f), nil
		}
		return def, nil
	}
	f, ok, err := asFloat(x)
	if err != nil || ok {
		return Float(f), err
	}
	return def, nil
}

func filterRound(_ *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_round", "precision?", "method?")
	if err != nil {
		return nil, err
	}
	method := "common"
	if v[1] != nil {
		method, _ = asStr(v[1])
	}
	if method != "common" && method != "ceil" && method != "floor" {
		return nil, valueErrf("method must be common, ceil or floor")
	}
	precision, err := intArg(v[0], 0)
	if err != nil {
		return nil, err
	}
	if method != "common" {
		return roundUpDown(x, precision, method)
	}
	if f, ok := x.(Float); ok {
		r, err := roundFloat(float64(f), precision)
		return Float(r), err
	}
	i, ok := asInt(x)
	if !ok {
		return nil, typeErrf("type %s doesn't define __round__ method", x.typeName())
	}
	return roundInt(i, precision)
}

// roundUpDown is func(x * 10**precision) / 10**precision.
func roundUpDown(x Value, precision int, method string) (Value, error) {
	scale, err := intArith("**", Int(10), Int(precision))
	if err != nil {
		return nil, err
	}
	r := &run{limits: DefaultLimits}
	scaled, err := r.binary("*", x, scale)
	if err != nil {
		return nil, err
	}
	if f, ok := scaled.(Float); ok {
		up := math.Floor(float64(f))
		if method == "ceil" {
			up = math.Ceil(float64(f))
		}
		if scaled, err = truncFloat(up); err != nil {
			return nil, err
		}
	} else if !isNumber(scaled) {
		return nil, typeErrf("must be real number, not %s", x.typeName())
	}
	return r.binary("/", scaled, scale)
}

func filterFilesize(_ *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_filesizeformat", "binary?")
	if err != nil {
		return nil, err
	}
	if u, ok := x.(*undefined); ok {
		return nil, u.err()
	}
	size, ok, err := asFloat(x)
	if err != nil {
		return nil, err
	}
	if s, isText := asStr(x); isText {
		if size, ok = floatFromText(s); !ok {
			return nil, valueErrf("could not convert string to float: %s", quote(s))
		}
	}
	if !ok {
		return nil, typeErrf("float() argument must be a string or a real number, not '%s'", x.typeName())
	}
	base, units := 1000.0, []string{"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"}
	if isSet(v[0]) {
		base, units = 1024, []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}
	}
	if size == 1 {
		return Str("1 Byte"), nil
	}
	if size < base {
		n, err := truncFloat(size)
		if err != nil {
			return nil, err
		}
		text, err := intText(n)
		return Str(text + " Bytes"), err
	}
	unit := base
	i := 0
	for i < len(units)-1 && size >= unit*base {
		unit *= base
		i++
	}
	text, err := floatBody(size/unit, spec{typ: 'f', precision: 1})
	return Str(text + " " + units[i]), err
}

func filterFormat(st *state, x Value, a args) (Value, error) {
	if len(a.pos) > 0 && len(a.kw) > 0 {
		return nil, valueErrf("can't handle positional and keyword arguments at the same time")
	}
	s, err := softStr(st, x)
	if err != nil {
		return nil, err
	}
	var arg Value = newTuple(a.pos...)
	if len(a.kw) > 0 {
		d := NewDict()
		for _, k := range a.kw {
			d.Set(k.name, k.val)
		}
		arg = d
	}
	text, err := st.run.percentFormat(s, arg)
	return likeText(x, text), err
}

func filterTruncate(_ *state, x Value, a args) (Value, error) {
	v, err := a.bind("do_truncate", "length?", "killwords?", "end?", "leeway?")
	if err != nil {
		return nil, err
	}
	limit, err := intArg(v[0], 255)
	if err != nil {
		return nil, err
	}
	end := "..."
	if v[2] != nil {
		if end, err = textArg(v[2], "truncate", "end"); err != nil {
			return nil, err
		}
	}
	leeway := 5
	if v[3] != nil && v[3] != None {
		if leeway, err = intArg(v[3], 0); err != nil {
			return nil, err
		}
	}
	n := utf8.RuneCountInString(end)
	if limit < n {
		return nil, valueErrf("expected length >= %d, got %d", n, limit)
	}
	if leeway < 0 {
		return nil, valueErrf("expected leeway >= 0, got %d", leeway)
	}
	s, ok := asStr(x)
	if !ok {
		if size, ok := length(x); !ok {
			return nil, typeErrf("object of type '%s' has no len()", x.typeName())
		} else if size <= limit+leeway {
			return x, nil
		}
		return nil, typeErrf("'%s' object cannot be truncated", x.typeName())
	}
	size := utf8.RuneCountInString(s)
	if limit > size || size-limit <= leeway {
		return x, nil
	}
	cut := s[:runeOffset(s, size, limit-n)]
	if !isSet(v[1]) {
		if i := strings.LastIndexByte(cut, ' '); i >= 0 {
			cut = cut[:i]
		}
	}
	return likeText(x, cut+end), nil
}

func filterWordcount(st *state, x Value, a args) (Value, error) {
	if _, err := a.bind("do_wordcount"); err != nil {
		return nil, err
	}
	s, err := softStr(st, x)
	if err != nil {
		return nil, err
	}
	n, inWord := 0, false
	for _, c := range s {
		if word := isNameRune(c); word != inWord {
			inWord = word
			if word {
				n++
			}
		}
	}
	return Int(n), st.run.tick(len(s) / bytesPerStep)
}

func filterEscape(st *state, x Value, a args) (Value, error) {
	if _, err := a.positional("escape", 0, 0); err != nil {
		return nil, err
	}
	if m, ok := x.(markup); ok {
		return m, nil
	}
	return escaped(st, x)
}

func filterForceEscape(st *state, x Value, a args) (Value, error) {
	if _, err := a.bind("do_forceescape"); err != nil {
		return nil, err
	}
	return escaped(st, x)
}

func escaped(st *state, x Value) (Value, error) {
	s, err := st.run.str(x)
	if err != nil {
		return nil, err
	}
	return markup(escapeHTML(s)), st.run.charge(len(s))
}

var htmlEscaper = strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;")

func escapeHTML(s string) string { return htmlEscaper.Replace(s) }

func filterSafe(st *state, x Value, a args) (Value, error) {
	if _, err := a.bind("do_mark_safe"); err != nil {
		return nil, err
	}
	s, err := st.run.str(x)
	return markup(s), err
}
