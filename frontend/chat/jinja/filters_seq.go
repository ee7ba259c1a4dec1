package jinja

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The filters of sequences.

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

func filterList(st *state, x Value, a args) (Value, error) {
	if _, err := a.bind("do_list"); err != nil {
		return nil, err
	}
	items, err := st.run.collect(x)
	return &List{items}, err
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
