package jinja

import (
	"strings"
)

// The evaluator: one exec for each statement, one eval for each expression.

// state is the place of the evaluation: the variables in sight, the context
// behind them, and where text goes.
type state struct {
	run *run
	act *activation
	ctx *renderContext
	out *writer
}

// activation holds the variables of one call; nil is a missing one.
type activation struct {
	slots []Value
	outer *activation
}

// renderContext resolves the names that no frame assigns.
type renderContext struct {
	vars   map[string]Value // what the template itself set at its top level
	data   *Dict
	blocks map[string]*blockStmt
}

// resolve returns nil for a missing name.
func (c *renderContext) resolve(name string) Value {
	if v, ok := c.vars[name]; ok {
		return v
	}
	if v, ok := c.data.Get(name); ok {
		return v
	}
	return globals[name]
}

// flow says how a statement ended.
type flow byte

const (
	flowNext flow = iota
	flowBreak
	flowContinue
)

func (st *state) get(r ref) Value {
	a := st.act
	for range r.up {
		a = a.outer
	}
	return a.slots[r.slot]
}

func (st *state) enter(loads []load) {
	for _, l := range loads {
		switch l.kind {
		case loadContext:
			st.act.slots[l.slot] = st.ctx.resolve(l.name)
		case loadAlias:
			st.act.slots[l.slot] = st.get(l.from)
		default:
			st.act.slots[l.slot] = nil
		}
	}
}

func (st *state) leave(slots []int) {
	for _, i := range slots {
		st.act.slots[i] = nil
	}
}

// call returns the state of a new call of fn, whose outer function's variables
// are outer.
func (st *state) call(fn *funcScope, outer *activation) *state {
	return &state{
		run: st.run,
		ctx: st.ctx,
		act: &activation{slots: make([]Value, fn.slots), outer: outer},
		out: st.out,
	}
}

func (st *state) body(body []stmt) (flow, error) {
	for _, s := range body {
		if err := st.run.tick(1); err != nil {
			return 0, at(s.pos(), err)
		}
		if f, err := s.exec(st); err != nil || f != flowNext {
			return f, err
		}
	}
	return flowNext, nil
}

// capture runs body with its text kept apart.
func (st *state) capture(body []stmt) (string, flow, error) {
	out := st.out
	st.out = &writer{run: st.run}
	f, err := st.body(body)
	text := st.out.String()
	st.out = out
	return text, f, err
}

func (s *outputStmt) exec(st *state) (flow, error) {
	for _, p := range s.parts {
		v, err := p.eval(st)
		if err != nil {
			return 0, at(s.pos(), err)
		}
		text, err := st.run.str(v)
		if err == nil {
			err = st.out.write(text)
		}
		if err != nil {
			return 0, at(s.pos(), err)
		}
	}
	return flowNext, nil
}

func (s *ifStmt) exec(st *state) (flow, error) {
	for i, test := range s.tests {
		v, err := test.eval(st)
		if err != nil {
			return 0, at(test.pos(), err)
		}
		if truth(v) {
			return st.body(s.bodies[i])
		}
	}
	return st.body(s.els)
}

func (s *setStmt) exec(st *state) (flow, error) {
	for _, r := range s.nsRefs {
		if _, ok := st.get(r.ref).(*namespace); !ok {
			return 0, at(s.pos(), errf(KindType, "cannot assign attribute on non-namespace object"))
		}
	}
	v, err := s.val.eval(st)
	if err == nil {
		err = st.assign(s.target, v)
	}
	if err != nil {
		return 0, at(s.pos(), err)
	}
	st.export(s.export)
	return flowNext, nil
}

func (st *state) export(names []*nameExpr) {
	for _, n := range names {
		st.ctx.vars[n.name] = st.get(n.ref)
	}
}

func (s *setBlockStmt) exec(st *state) (flow, error) {
	st.enter(s.enter)
	text, f, err := st.capture(s.body)
	if err != nil || f != flowNext {
		return f, err
	}
	var v Value = Str(text)
	if s.filter != nil {
		v, err = s.filter.apply(st, v)
	}
	if err == nil {
		err = st.assign(s.target, v)
	}
	if err != nil {
		return 0, at(s.pos(), err)
	}
	st.export(s.export)
	st.leave(s.leave)
	return flowNext, nil
}

func (s *filterStmt) exec(st *state) (flow, error) {
	st.enter(s.enter)
	text, f, err := st.capture(s.body)
	if err != nil || f != flowNext {
		return f, err
	}
	v, err := s.filter.apply(st, Str(text))
	if err == nil {
		err = st.print(v)
	}
	st.leave(s.leave)
	return flowNext, at(s.pos(), err)
}

// print writes str(v).
func (st *state) print(v Value) error {
	text, err := st.run.str(v)
	if err != nil {
		return err
	}
	return st.out.write(text)
}

func (s *withStmt) exec(st *state) (flow, error) {
	st.enter(s.enter)
	for i, target := range s.targets {
		v, err := s.vals[i].eval(st)
		if err == nil {
			err = st.assign(target, v)
		}
		if err != nil {
			return 0, at(s.pos(), err)
		}
	}
	f, err := st.body(s.body)
	st.leave(s.leave)
	return f, err
}

func (s *scopeStmt) exec(st *state) (flow, error) {
	st.enter(s.enter)
	f, err := st.body(s.body)
	st.leave(s.leave)
	return f, err
}

func (s *loopControlStmt) exec(*state) (flow, error) { return s.flow, nil }

func (s *macroStmt) exec(st *state) (flow, error) {
	m := &macro{code: s.macro, act: st.act, ctx: st.ctx}
	st.act.slots[s.name.ref.slot] = m // a macro's name is the frame's own
	if s.export {
		st.ctx.vars[s.name.name] = m
	}
	return flowNext, nil
}

func (s *callStmt) exec(st *state) (flow, error) {
	caller := &macro{code: s.macro, act: st.act, ctx: st.ctx}
	var v Value
	var err error
	if s.call == nil {
		v, err = caller.call(st, args{})
	} else {
		v, err = s.call.evalWith(st, caller)
	}
	if err == nil {
		err = st.print(v)
	}
	return flowNext, at(s.pos(), err)
}

func (s *blockStmt) exec(st *state) (flow, error) {
	ctx := st.ctx
	if s.scoped {
		ctx = ctx.derive()
		for _, l := range s.locals {
			if v := st.get(l.ref); v != nil {
				ctx.vars[l.name] = v
			}
		}
	}
	return flowNext, at(s.pos(), s.code.render(st, ctx))
}

// derive is a copy of c that a scoped block may see more in.
func (c *renderContext) derive() *renderContext {
	d := &renderContext{vars: make(map[string]Value, len(c.vars)), data: c.data, blocks: c.blocks}
	for k, v := range c.vars {
		d.vars[k] = v
	}
	return d
}

// render writes the block into st.out; it sees the context only.
func (b *blockCode) render(st *state, ctx *renderContext) error {
	if err := st.run.enter(); err != nil {
		return err
	}
	defer st.run.leave()
	in := st.call(b.fn, nil)
	in.ctx = ctx
	in.enter(b.enter)
	if b.self >= 0 {
		in.act.slots[b.self] = &selfRef{ctx}
	}
	_, err := in.body(b.body)
	return err
}

// assign stores v in a target.
func (st *state) assign(target expr, v Value) error {
	switch t := target.(type) {
	case *nameExpr:
		a := st.act
		for range t.ref.up {
			a = a.outer
		}
		a.slots[t.ref.slot] = v
	case *nsRefExpr:
		ns, ok := st.get(t.ref).(*namespace)
		if !ok { // a set block gets here; Jinja would write into a dict
			return errf(KindType, "cannot assign attribute on non-namespace object")
		}
		return ns.attrs.setKey(Str(t.attr), v)
	case *tupleExpr:
		return st.unpack(t, v)
	}
	return nil
}

// unpack assigns the items of v to a tuple of targets.
func (st *state) unpack(t *tupleExpr, v Value) error {
	it, ok := iterate(v)
	if !ok {
		return typeErrf("cannot unpack non-iterable %s object", v.typeName())
	}
	items := make([]Value, 0, len(t.items))
	for len(items) <= len(t.items) {
		item, err := it.next()
		if err != nil {
			return err
		}
		if item == nil {
			break
		}
		items = append(items, item)
	}
	if len(items) < len(t.items) {
		return valueErrf("not enough values to unpack (expected %d, got %d)", len(t.items), len(items))
	}
	if len(items) > len(t.items) {
		return valueErrf("too many values to unpack (expected %d)", len(t.items))
	}
	for i, target := range t.items {
		if err := st.assign(target, items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *forStmt) exec(st *state) (flow, error) {
	v, err := s.iter.eval(st)
	if err != nil {
		return 0, at(s.pos(), err)
	}
	if !s.recursive {
		return flowNext, s.loop(st, v, nil, 0)
	}
	text, err := s.renderRecursive(st, v, 0)
	if err == nil {
		err = st.out.write(text)
	}
	return flowNext, at(s.pos(), err)
}

// renderRecursive is one level of a recursive loop, as a call of its own. st is
// the state around the for statement.
func (s *forStmt) renderRecursive(st *state, v Value, depth int) (string, error) {
	if err := st.run.enter(); err != nil {
		return "", err
	}
	defer st.run.leave()
	in := st.call(s.loopFn, st.act)
	in.out = &writer{run: st.run}
	again := func(v Value) (Value, error) {
		text, err := s.renderRecursive(st, v, depth+1)
		return Str(text), err
	}
	if err := s.loop(in, v, again, depth); err != nil {
		return "", err
	}
	return in.out.String(), nil
}

// loop runs the body for each item of v in st, the frame's function.
func (s *forStmt) loop(st *state, v Value, again func(Value) (Value, error), depth int) error {
	it, ok := iterate(v)
	if !ok {
		return at(s.pos(), typeErrf("'%s' object is not iterable", v.typeName()))
	}
	lazy := lazyDepth(v) + 1
	if lazy > maxDataDepth {
		return at(s.pos(), deep())
	}
	source := v
	if s.test != nil {
		it = s.filtered(st, it)
		source = nil // its length is not known before its end
	}
	var loop *loopContext
	if s.loopSlot >= 0 {
		loop = &loopContext{source: source, it: it, run: st.run, index0: -1, depth0: depth, lazy: lazy, again: again}
		it = loop
	}
	completed := false
	for {
		item, err := it.next()
		if err == nil {
			err = st.run.tick(1)
		}
		if err != nil {
			return at(s.pos(), err)
		}
		if item == nil {
			break
		}
		if err := st.assign(s.target, item); err != nil {
			return at(s.pos(), err)
		}
		if loop != nil {
			st.act.slots[s.loopSlot] = loop
		}
		st.enter(s.enter)
		f, err := st.body(s.body)
		if err != nil {
			return err
		}
		if f == flowBreak {
			break
		}
		// As in Jinja, else also follows a loop whose every turn ended in
		// continue, or whose first ended in break.
		completed = completed || f == flowNext
	}
	st.leave(s.leave)
	if completed || s.els == nil {
		return nil
	}
	st.enter(s.elseEnter)
	_, err := st.body(s.els)
	st.leave(s.elseLeave)
	return err
}

// filtered applies the "if" of a for, item by item as the loop asks for them.
func (s *forStmt) filtered(st *state, it iterator) iterator {
	in := st.call(s.testFn, st.act)
	in.enter(s.testEnter)
	return &generator{name: "generator", pull: func() (Value, error) {
		for {
			item, err := it.next()
			if err != nil || item == nil {
				return nil, err
			}
			if err := st.run.tick(1); err != nil {
				return nil, err
			}
			if err := in.assign(s.testTarget, item); err != nil {
				return nil, err
			}
			keep, err := s.test.eval(in)
			if err != nil {
				return nil, err
			}
			if truth(keep) {
				return item, nil
			}
		}
	}}
}

func (e *constExpr) eval(*state) (Value, error) { return e.val, nil }

func (e *nameExpr) eval(st *state) (Value, error) {
	if v := st.get(e.ref); v != nil {
		return v, nil
	}
	return undefinedName(e.name), nil
}

// A target and a slice are only evaluated by what contains them.
func (e *nsRefExpr) eval(*state) (Value, error) { return None, nil }
func (e *sliceExpr) eval(*state) (Value, error) { return None, nil }

func (st *state) evalAll(es []expr) ([]Value, error) {
	if len(es) == 0 {
		return nil, nil
	}
	if err := st.run.chargeItems(len(es)); err != nil {
		return nil, err
	}
	vs := make([]Value, len(es))
	for i, e := range es {
		v, err := e.eval(st)
		if err != nil {
			return nil, err
		}
		vs[i] = v
	}
	return vs, nil
}

func (e *tupleExpr) eval(st *state) (Value, error) {
	items, err := st.evalAll(e.items)
	return newTuple(items...), err
}

func (e *listExpr) eval(st *state) (Value, error) {
	items, err := st.evalAll(e.items)
	return NewList(items...), err
}

func (e *dictExpr) eval(st *state) (Value, error) {
	if err := st.run.chargeItems(4 * len(e.keys)); err != nil {
		return nil, err
	}
	d := NewDict()
	for i := range e.keys {
		k, err := e.keys[i].eval(st)
		if err != nil {
			return nil, err
		}
		v, err := e.vals[i].eval(st)
		if err == nil {
			err = d.setKey(k, v)
		}
		if err != nil {
			return nil, at(e.pos(), err)
		}
	}
	return d, nil
}

func (e *condExpr) eval(st *state) (Value, error) {
	test, err := e.test.eval(st)
	if err != nil {
		return nil, err
	}
	if truth(test) {
		return e.then.eval(st)
	}
	if e.els == nil {
		return undefinedHint("the inline if-expression on line " + itoa(e.pos()) +
			" evaluated to false and no else section was defined."), nil
	}
	return e.els.eval(st)
}

func (e *boolExpr) eval(st *state) (Value, error) {
	v, err := e.left.eval(st)
	if err != nil || truth(v) == e.or {
		return v, err
	}
	return e.right.eval(st)
}

func (e *notExpr) eval(st *state) (Value, error) {
	v, err := e.x.eval(st)
	if err != nil {
		return nil, err
	}
	return Bool(!truth(v)), nil
}

func (e *unaryExpr) eval(st *state) (Value, error) {
	v, err := e.x.eval(st)
	if err != nil {
		return nil, err
	}
	v, err = unary(e.op, v)
	return v, at(e.pos(), err)
}

func (e *binExpr) eval(st *state) (Value, error) {
	a, err := e.left.eval(st)
	if err != nil {
		return nil, err
	}
	b, err := e.right.eval(st)
	if err != nil {
		return nil, err
	}
	v, err := st.run.binary(e.op, a, b)
	return v, at(e.pos(), err)
}

func (e *concatExpr) eval(st *state) (Value, error) {
	parts := make([]string, len(e.parts))
	n := 0
	for i, p := range e.parts {
		v, err := p.eval(st)
		if err != nil {
			return nil, err
		}
		if parts[i], err = st.run.str(v); err != nil {
			return nil, at(e.pos(), err)
		}
		n += len(parts[i])
	}
	if err := st.run.charge(n); err != nil {
		return nil, at(e.pos(), err)
	}
	return Str(strings.Join(parts, "")), nil
}

func (e *compareExpr) eval(st *state) (Value, error) {
	left, err := e.first.eval(st)
	if err != nil {
		return nil, err
	}
	for i, op := range e.ops {
		right, err := e.rest[i].eval(st)
		if err != nil {
			return nil, err
		}
		ok, err := st.run.compare(op, left, right)
		if err != nil {
			return nil, at(e.pos(), err)
		}
		if !ok {
			return Bool(false), nil
		}
		left = right
	}
	return Bool(true), nil
}

// compare is one link of a comparison chain.
func (r *run) compare(op string, a, b Value) (bool, error) {
	switch op {
	case "==":
		return r.equal(a, b)
	case "!=":
		eq, err := r.equal(a, b)
		return !eq, err
	case "in":
		return r.contains(b, a)
	case "notin":
		in, err := r.contains(b, a)
		return !in, err
	}
	return r.order(op, a, b)
}

func (e *attrExpr) eval(st *state) (Value, error) {
	x, err := e.x.eval(st)
	if err != nil {
		return nil, err
	}
	v, err := st.run.getattr(x, e.name)
	return v, at(e.pos(), err)
}

func (e *itemExpr) eval(st *state) (Value, error) {
	x, err := e.x.eval(st)
	if err != nil {
		return nil, err
	}
	var v Value
	if s, ok := e.key.(*sliceExpr); ok {
		v, err = s.apply(st, x)
	} else {
		var key Value
		if key, err = e.key.eval(st); err != nil {
			return nil, err
		}
		v, err = st.run.getitem(x, key)
	}
	return v, at(e.pos(), err)
}

// args are the arguments of a call.
type args struct {
	pos []Value
	kw  []kwarg
}

type kwarg struct {
	name string
	val  Value
}

func (a *arguments) eval(st *state) (args, error) {
	pos, err := st.evalAll(a.pos)
	if err != nil {
		return args{}, err
	}
	out := args{pos: pos}
	for _, k := range a.kw {
		v, err := k.val.eval(st)
		if err != nil {
			return out, err
		}
		out.kw = append(out.kw, kwarg{k.name, v})
	}
	if a.star != nil {
		v, err := a.star.eval(st)
		if err != nil {
			return out, err
		}
		if _, ok := iterate(v); !ok {
			return out, typeErrf("argument after * must be an iterable, not %s", v.typeName())
		}
		more, err := st.run.collect(v)
		if err != nil {
			return out, err
		}
		out.pos = append(out.pos[:len(out.pos):len(out.pos)], more...)
	}
	if a.starStar != nil {
		v, err := a.starStar.eval(st)
		if err != nil {
			return out, err
		}
		return out, out.addAll(v)
	}
	return out, nil
}

// addAll adds the keywords of a **mapping.
func (a *args) addAll(v Value) error {
	d, ok := v.(*Dict)
	if !ok {
		return typeErrf("argument after ** must be a mapping, not %s", v.typeName())
	}
	for _, e := range d.entries {
		name, ok := asStr(e.key)
		if !ok {
			return typeErrf("keywords must be strings")
		}
		if err := a.addKeyword(name, e.val); err != nil {
			return err
		}
	}
	return nil
}

func (a *args) addKeyword(name string, v Value) error {
	if _, ok := a.keyword(name); ok {
		return typeErrf("got multiple values for keyword argument %s", quote(name))
	}
	a.kw = append(a.kw, kwarg{name, v})
	return nil
}

func (a *args) keyword(name string) (Value, bool) {
	for _, k := range a.kw {
		if k.name == name {
			return k.val, true
		}
	}
	return nil, false
}

func (e *callExpr) eval(st *state) (Value, error) { return e.evalWith(st, nil) }

// evalWith evaluates the call, with a call block's caller if there is one.
func (e *callExpr) evalWith(st *state, caller *macro) (Value, error) {
	fn, err := e.fn.eval(st)
	if err != nil {
		return nil, err
	}
	a, err := e.args.eval(st)
	if err == nil && caller != nil {
		err = a.addKeyword("caller", caller)
	}
	if err == nil {
		err = st.run.tick(1)
	}
	if err != nil {
		return nil, at(e.pos(), err)
	}
	v, err := call(st, fn, a)
	return v, at(e.pos(), err)
}

func (e *filterExpr) eval(st *state) (Value, error) {
	if e.x == nil {
		return nil, at(e.pos(), errf(KindSyntax, "a filter without a value"))
	}
	x, err := e.x.eval(st)
	if err != nil {
		return nil, err
	}
	return e.call(st, x)
}

// apply runs a filter chain whose innermost filter takes the text of a block.
func (e *filterExpr) apply(st *state, text Value) (Value, error) {
	x := text
	if e.x != nil {
		var err error
		// The parser puts only filters inside a block's filter.
		if x, err = e.x.(*filterExpr).apply(st, text); err != nil {
			return nil, err
		}
	}
	return e.call(st, x)
}

func (e *filterExpr) call(st *state, x Value) (Value, error) {
	if e.fn == nil {
		return nil, at(e.pos(), errf(KindSyntax, "No filter named %s found.", quote(e.name)))
	}
	a, err := e.args.eval(st)
	if err == nil {
		err = st.run.tick(1)
	}
	if err != nil {
		return nil, at(e.pos(), err)
	}
	v, err := e.fn.call(st, x, a)
	return v, at(e.pos(), err)
}

func (e *testExpr) eval(st *state) (Value, error) {
	x, err := e.x.eval(st)
	if err != nil {
		return nil, err
	}
	if e.fn == nil {
		return nil, at(e.pos(), errf(KindSyntax, "No test named %s found.", quote(e.name)))
	}
	a, err := e.args.eval(st)
	if err == nil {
		err = st.run.tick(1)
	}
	if err != nil {
		return nil, at(e.pos(), err)
	}
	v, err := e.fn.call(st, x, a)
	return v, at(e.pos(), err)
}
