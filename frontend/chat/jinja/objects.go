package jinja

import (
	"fmt"
	"slices"
)

// The objects that only exist while rendering.
type (
	// namespace is what namespace() returns, the one thing a template can change.
	namespace struct{ attrs *Dict }

	// builtin is a global function or class.
	builtin struct {
		name string
		fn   func(st *state, a args) (Value, error)
	}

	// boundMethod is a method of a value, not called yet.
	boundMethod struct {
		recv   Value
		name   string
		method method
	}

	// macro is a macro or a call block's caller: code and the variables around it.
	macro struct {
		code *macroCode
		act  *activation
		ctx  *renderContext
	}

	// selfRef is the "self" of a template with blocks; blockRef one of them.
	selfRef  struct{ ctx *renderContext }
	blockRef struct {
		code *blockCode
		ctx  *renderContext
	}

	cycler struct {
		items []Value
		pos   int
	}

	joiner struct {
		sep  Value
		used bool
	}
)

func (*namespace) typeName() string   { return "Namespace" }
func (*builtin) typeName() string     { return "function" }
func (*boundMethod) typeName() string { return "builtin_function_or_method" }
func (*macro) typeName() string       { return "Macro" }
func (*selfRef) typeName() string     { return "TemplateReference" }
func (*blockRef) typeName() string    { return "BlockReference" }
func (*cycler) typeName() string      { return "Cycler" }
func (*joiner) typeName() string      { return "Joiner" }
func (*loopContext) typeName() string { return "LoopContext" }

// callable is Python's callable(v).
func callable(v Value) bool {
	switch v.(type) {
	case *builtin, *boundMethod, *macro, *blockRef, *joiner, *loopContext, *undefined:
		return true
	}
	return false
}

// call is Python's fn(*a).
func call(st *state, fn Value, a args) (Value, error) {
	switch fn := fn.(type) {
	case *builtin:
		return fn.fn(st, a)
	case *boundMethod:
		return fn.method(st.run, fn.recv, a)
	case *macro:
		return fn.call(st, a)
	case *loopContext:
		return fn.call(a)
	case *blockRef:
		return fn.call(st, a)
	case *joiner:
		if _, err := a.bind("Joiner.__call__"); err != nil {
			return nil, err
		}
		if !fn.used {
			fn.used = true
			return Str(""), nil
		}
		return fn.sep, nil
	case *undefined:
		return nil, fn.err()
	}
	return nil, typeErrf("'%s' object is not callable", fn.typeName())
}

// bind matches arguments to parameters; "name?" is optional and nil if not given.
func (a args) bind(fn string, params ...string) ([]Value, error) {
	if len(a.pos) > len(params) {
		return nil, typeErrf("%s() takes %d positional arguments but %d were given", fn, len(params), len(a.pos))
	}
	out := make([]Value, len(params))
	copy(out, a.pos)
	names := make([]string, len(params))
	optional := make([]bool, len(params))
	for i, p := range params {
		names[i] = p
		if p[len(p)-1] == '?' {
			names[i], optional[i] = p[:len(p)-1], true
		}
	}
	for _, k := range a.kw {
		i := slices.Index(names, k.name)
		if i < 0 {
			return nil, typeErrf("%s() got an unexpected keyword argument '%s'", fn, k.name)
		}
		if out[i] != nil {
			return nil, typeErrf("%s() got multiple values for argument '%s'", fn, k.name)
		}
		out[i] = k.val
	}
	for i := range params {
		if out[i] == nil && !optional[i] {
			return nil, typeErrf("%s() missing 1 required positional argument: '%s'", fn, names[i])
		}
	}
	return out, nil
}

// positional is bind for the methods that take no keywords.
func (a args) positional(fn string, minArgs, maxArgs int) ([]Value, error) {
	if len(a.kw) > 0 {
		return nil, typeErrf("%s() takes no keyword arguments", fn)
	}
	if n := len(a.pos); n < minArgs || n > maxArgs {
		switch {
		case minArgs == maxArgs && minArgs == 0:
			return nil, typeErrf("%s() takes no arguments (%d given)", fn, n)
		case minArgs == maxArgs && minArgs == 1:
			return nil, typeErrf("%s() takes exactly one argument (%d given)", fn, n)
		case n < minArgs:
			return nil, typeErrf("%s expected at least %d arguments, got %d", fn, minArgs, n)
		}
		return nil, typeErrf("%s expected at most %d arguments, got %d", fn, maxArgs, n)
	}
	out := make([]Value, maxArgs)
	copy(out, a.pos)
	return out, nil
}

// call runs a macro; the text it writes is its value.
func (m *macro) call(st *state, a args) (Value, error) {
	code := m.code
	in := st.call(code.fn, m.act)
	in.ctx = m.ctx
	in.out = &writer{run: st.run}
	if err := m.setArguments(in, a); err != nil {
		return nil, err
	}
	if err := st.run.enter(); err != nil {
		return nil, err
	}
	defer st.run.leave()
	in.enter(code.enter)
	if err := m.setDefaults(in); err != nil {
		return nil, err
	}
	if _, err := in.body(code.body); err != nil {
		return nil, err
	}
	return Str(in.out.String()), nil
}

func (m *macro) describe() string {
	if m.code.name == "" {
		return "None"
	}
	return quote(m.code.name)
}

// setArguments stores what the caller gives; defaults come after.
func (m *macro) setArguments(in *state, a args) error {
	code := m.code
	n := min(len(a.pos), len(code.params))
	for i := range n {
		in.act.slots[code.slots[i]] = a.pos[i]
	}
	kw := slices.Clone(a.kw)
	take := func(name string) Value {
		for i, k := range kw {
			if k.name == name {
				kw = slices.Delete(kw, i, i+1)
				return k.val
			}
		}
		return nil
	}
	for i := n; i < len(code.params); i++ {
		in.act.slots[code.slots[i]] = take(code.params[i].name)
	}
	if code.caller >= 0 {
		caller := take("caller")
		if caller == nil || caller == None {
			caller = undefinedHint("No caller defined")
		}
		in.act.slots[code.caller] = caller
	}
	if code.kwargs >= 0 {
		rest := NewDict()
		for _, k := range kw {
			rest.Set(k.name, k.val)
		}
		in.act.slots[code.kwargs] = rest
	} else if len(kw) > 0 {
		for _, k := range kw {
			if k.name == "caller" {
				return typeErrf("macro %s was invoked with two values for the special caller argument. This is most likely a bug.", m.describe())
			}
		}
		return typeErrf("macro %s takes no keyword argument %s", m.describe(), quote(kw[0].name))
	}
	if code.varargs >= 0 {
		in.act.slots[code.varargs] = newTuple(a.pos[n:]...)
	} else if len(a.pos) > len(code.params) {
		return typeErrf("macro %s takes not more than %d argument(s)", m.describe(), len(code.params))
	}
	return nil
}

func (m *macro) setDefaults(in *state) error {
	code := m.code
	for i, slot := range code.slots {
		if in.act.slots[slot] != nil {
			continue
		}
		d := i - (len(code.params) - len(code.defaults))
		if d < 0 {
			name := code.params[i].name
			in.act.slots[slot] = undefinedHint(fmt.Sprintf("parameter %s was not provided", quote(name)))
			continue
		}
		v, err := code.defaults[d].eval(in)
		if err != nil {
			return err
		}
		in.act.slots[slot] = v
	}
	return nil
}

func (b *blockRef) call(st *state, a args) (Value, error) {
	if _, err := a.bind("BlockReference.__call__"); err != nil {
		return nil, err
	}
	in := *st
	in.out = &writer{run: st.run}
	err := b.code.render(&in, b.ctx)
	return Str(in.out.String()), err
}

// loopContext is the variable "loop". It looks one item ahead only when asked.
type loopContext struct {
	source  Value // what is iterated, if its length can be asked; else nil
	it      iterator
	run     *run
	index0  int
	depth0  int
	lazy    int // as generator.depth
	size    int // the length, once sized
	sized   bool
	before  Value
	current Value
	after   Value                      // the item looked ahead at, else nil
	seen    bool                       // changed() was called,
	changed []Value                    // last with these
	again   func(Value) (Value, error) // of a recursive loop
}

func (l *loopContext) next() (Value, error) {
	v := l.after
	l.after = nil
	if v == nil {
		var err error
		if v, err = l.it.next(); err != nil || v == nil {
			return nil, err
		}
	}
	l.index0++
	l.before, l.current = l.current, v
	return v, nil
}

func (l *loopContext) peek() (Value, error) {
	if l.after == nil {
		v, err := l.it.next()
		if err != nil {
			return nil, err
		}
		l.after = v
	}
	return l.after, nil
}

// length counts the items; of a lazy sequence it reads the rest first.
func (l *loopContext) length() (int, error) {
	if l.sized {
		return l.size, nil
	}
	if n, ok := sizeOf(l.source); ok {
		l.size = n
	} else {
		rest, err := l.run.drain(l.it)
		if err != nil {
			return 0, err
		}
		l.it = &sliceIter{items: rest}
		l.size = len(rest) + l.index0 + 1
		if l.after != nil {
			l.size++
		}
	}
	l.sized = true
	return l.size, nil
}

func sizeOf(v Value) (int, bool) {
	if v == nil {
		return 0, false
	}
	return length(v)
}

// sizeHint is the length where it is known; a running loop is never empty.
func (l *loopContext) sizeHint() int {
	if n, err := l.length(); err == nil {
		return n
	}
	return 1
}

func (l *loopContext) call(a args) (Value, error) {
	v, err := a.bind("LoopContext.__call__", "iterable")
	if err != nil {
		return nil, err
	}
	if l.again == nil {
		return nil, typeErrf("The loop must have the 'recursive' marker to be called recursively.")
	}
	return l.again(v[0])
}

// attr is an attribute of "loop"; nil if there is none of that name.
func (l *loopContext) attr(name string) (Value, error) {
	switch name {
	case "index":
		return Int(l.index0 + 1), nil
	case "index0":
		return Int(l.index0), nil
	case "depth":
		return Int(l.depth0 + 1), nil
	case "depth0":
		return Int(l.depth0), nil
	case "first":
		return Bool(l.index0 == 0), nil
	case "last":
		v, err := l.peek()
		return Bool(v == nil), err
	case "length", "revindex", "revindex0":
		n, err := l.length()
		switch name {
		case "revindex":
			n -= l.index0
		case "revindex0":
			n -= l.index0 + 1
		}
		return Int(n), err
	case "previtem":
		if l.index0 == 0 {
			return undefinedHint("there is no previous item"), nil
		}
		return l.before, nil
	case "nextitem":
		v, err := l.peek()
		if v == nil {
			return undefinedHint("there is no next item"), err
		}
		return v, err
	case "cycle":
		return &boundMethod{l, name, loopCycle}, nil
	case "changed":
		return &boundMethod{l, name, loopChanged}, nil
	}
	return nil, nil
}

func loopCycle(_ *run, recv Value, a args) (Value, error) {
	if len(a.kw) > 0 {
		return nil, typeErrf("LoopContext.cycle() got an unexpected keyword argument '%s'", a.kw[0].name)
	}
	if len(a.pos) == 0 {
		return nil, typeErrf("no items for cycling given")
	}
	return a.pos[recv.(*loopContext).index0%len(a.pos)], nil
}

func loopChanged(r *run, recv Value, a args) (Value, error) {
	if len(a.kw) > 0 {
		return nil, typeErrf("LoopContext.changed() got an unexpected keyword argument '%s'", a.kw[0].name)
	}
	l := recv.(*loopContext)
	if l.seen {
		if same, err := r.equalItems(l.changed, a.pos, 0); err != nil || same {
			return Bool(false), err
		}
	}
	l.seen, l.changed = true, a.pos
	return Bool(true), nil
}

// attr is an attribute of a cycler; nil if there is none of that name.
func (c *cycler) attr(name string) Value {
	switch name {
	case "current":
		return c.items[c.pos]
	case "next":
		return &boundMethod{c, name, func(_ *run, _ Value, a args) (Value, error) {
			_, err := a.bind("Cycler.next")
			v := c.items[c.pos]
			c.pos = (c.pos + 1) % len(c.items)
			return v, err
		}}
	case "reset":
		return &boundMethod{c, name, func(_ *run, _ Value, a args) (Value, error) {
			_, err := a.bind("Cycler.reset")
			c.pos = 0
			return None, err
		}}
	case "pos":
		return Int(c.pos)
	case "items":
		return newTuple(c.items...)
	}
	return nil
}

// attr is an attribute of a macro; nil if there is none of that name.
func (m *macro) attr(name string) Value {
	switch name {
	case "name":
		if m.code.name == "" {
			return None
		}
		return Str(m.code.name)
	case "arguments":
		t := newTuple()
		for _, p := range m.code.params {
			t.items = append(t.items, Str(p.name))
		}
		return t
	case "caller":
		return Bool(m.code.caller >= 0)
	case "catch_kwargs":
		return Bool(m.code.kwargs >= 0)
	case "catch_varargs":
		return Bool(m.code.varargs >= 0)
	case "explicit_caller":
		return Bool(m.code.explicitCaller)
	}
	return nil
}
