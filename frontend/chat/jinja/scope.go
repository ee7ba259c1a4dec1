package jinja

import (
	"slices"
	"strings"
)

// Jinja decides at compile time which variable a name means; the rules are
// those of its idtracking.py and decide what a prompt says, so they are
// followed to the letter:
//
//   - for, with, macro, call, filter, set block and block open a frame; if does not.
//   - A name assigned in a frame is the frame's own. On entry it starts as the
//     outer variable of that name if the outer frame knows it, else undefined
//     (or, if it is assigned only under an if, the context's value).
//   - Any other name is the nearest outer frame's, else the context's, looked
//     up on entry to the frame that first mentions it.
//   - Frames of one Python function share its locals; macros are closures.
//
// resolve turns every name into a slot of an activation record, and every
// frame's entry into a list of loads.

// funcScope is what Python would compile to one function: its variables live in
// one activation record.
type funcScope struct {
	outer *funcScope
	slots int
	names map[slotName]int
	loops int // for statements around the place being resolved
}

type slotName struct {
	level int
	name  string
}

// ref finds a variable: up activation records outwards, then a slot.
type ref struct{ up, slot int }

type loadKind byte

const (
	loadParam     loadKind = iota // set by the caller
	loadContext                   // looked up in the context
	loadAlias                     // copied from an outer frame
	loadUndefined                 // missing
)

// load says how a variable starts when its frame is entered.
type load struct {
	slot int
	kind loadKind
	name string // for loadContext
	from ref    // for loadAlias
}

// symbols are the names of one frame.
type symbols struct {
	parent *symbols
	fn     *funcScope
	level  int
	refs   map[string]bool
	loads  []loadEntry
	stores map[string]bool
}

type loadEntry struct {
	name string
	kind loadKind
	from *symbols // of an alias: the frame that owns the outer variable
}

func newSymbols(parent *symbols, fn *funcScope) *symbols {
	s := &symbols{parent: parent, fn: fn, refs: map[string]bool{}, stores: map[string]bool{}}
	if parent != nil {
		s.level = parent.level + 1
	}
	return s
}

// find returns the frame that owns name, from s outwards.
func (s *symbols) find(name string) *symbols {
	for ; s != nil; s = s.parent {
		if s.refs[name] {
			return s
		}
	}
	return nil
}

func (s *symbols) define(name string, kind loadKind, from *symbols) {
	s.refs[name] = true
	for i := range s.loads {
		if s.loads[i].name == name {
			s.loads[i] = loadEntry{name, kind, from}
			return
		}
	}
	s.loads = append(s.loads, loadEntry{name, kind, from})
}

func (s *symbols) param(name string) {
	s.stores[name] = true
	s.define(name, loadParam, nil)
}

func (s *symbols) load(name string) {
	if s.find(name) == nil {
		s.define(name, loadContext, nil)
	}
}

func (s *symbols) store(name string) {
	s.stores[name] = true
	if s.refs[name] {
		return
	}
	if s.parent != nil {
		if owner := s.parent.find(name); owner != nil {
			s.define(name, loadAlias, owner)
			return
		}
	}
	s.define(name, loadUndefined, nil)
}

// branch is a copy of s to collect what one branch of an if does.
func (s *symbols) branch() *symbols {
	c := *s
	c.refs, c.stores = map[string]bool{}, map[string]bool{}
	for k := range s.refs {
		c.refs[k] = true
	}
	for k := range s.stores {
		c.stores[k] = true
	}
	c.loads = slices.Clone(s.loads)
	return &c
}

// merge takes over the branches of an if. A name that only branches assign
// starts with its outer value, because no branch may run.
func (s *symbols) merge(branches ...*symbols) {
	var stored []string
	for _, b := range branches {
		for name := range b.stores {
			if !s.stores[name] {
				stored = append(stored, name)
			}
		}
	}
	for _, b := range branches {
		for _, l := range b.loads {
			s.define(l.name, l.kind, l.from)
		}
		for name := range b.stores {
			s.stores[name] = true
		}
	}
	slices.Sort(stored)
	for _, name := range slices.Compact(stored) {
		var outer *symbols
		if s.parent != nil {
			outer = s.parent.find(name)
		}
		if outer != nil {
			s.define(name, loadAlias, outer)
		} else {
			s.define(name, loadContext, nil)
		}
	}
}

func (fn *funcScope) slot(level int, name string) int {
	key := slotName{level, name}
	i, ok := fn.names[key]
	if !ok {
		i = fn.slots
		fn.slots++
		fn.names[key] = i
	}
	return i
}

// visit collects the names that n uses in the frame s; it stops where another
// frame begins.
func (s *symbols) visit(n node) {
	switch n := n.(type) {
	case *nameExpr:
		switch n.ctx {
		case ctxLoad:
			s.load(n.name)
		case ctxStore:
			s.store(n.name)
		case ctxParam:
			s.param(n.name)
		}
	case *nsRefExpr:
		s.load(n.name)
	case *ifStmt:
		s.visitIf(n)
	case *setStmt:
		s.visit(n.val)
		s.visit(n.target)
	case *macroStmt:
		s.store(n.name.name)
	case *forStmt:
		s.visit(n.iter)
	case *callStmt:
		if n.call != nil {
			s.visit(n.call)
		}
	case *filterStmt:
		s.visit(n.filter)
	case *withStmt:
		s.visitAll(n.vals)
	case *setBlockStmt:
		s.visit(n.target)
	case *scopeStmt, *blockStmt: // frames of their own
	default:
		for _, c := range children(n) {
			s.visit(c)
		}
	}
}

func (s *symbols) visitAll(es []expr) {
	for _, e := range es {
		s.visit(e)
	}
}

func (s *symbols) visitBody(body []stmt) {
	for _, n := range body {
		s.visit(n)
	}
}

// visitIf follows Jinja's nesting: elif tests are looked at in a branch.
func (s *symbols) visitIf(n *ifStmt) {
	s.visit(n.tests[0])
	body, elifs, els := s.branch(), s.branch(), s.branch()
	body.visitBody(n.bodies[0])
	for i := 1; i < len(n.tests); i++ {
		elifs.visitIf(&ifStmt{tests: n.tests[i : i+1], bodies: n.bodies[i : i+1]})
	}
	els.visitBody(n.els)
	s.merge(body, elifs, els)
}

// visitTarget makes the names of a for target parameters of the frame.
func (s *symbols) visitTarget(e expr) {
	switch e := e.(type) {
	case *nameExpr:
		s.param(e.name)
	case *tupleExpr:
		for _, item := range e.items {
			s.visitTarget(item)
		}
	}
}

// frame is the place of the resolver: the names around it and what it is in.
type frame struct {
	*symbols
	toplevel bool // the template itself, ifs included
	soft     bool // under an if: unknown filters fail when called, not at parse
}

func (f frame) inner(fn *funcScope) frame {
	return frame{symbols: newSymbols(f.symbols, fn)}
}

type resolver struct {
	vars   map[string]bool // names looked up in the context
	blocks map[string]*blockStmt
}

// program is a resolved template.
type program struct {
	body   []stmt
	root   *funcScope
	enter  []load
	self   int
	vars   map[string]bool
	blocks map[string]*blockStmt
}

func resolve(body []stmt) (*program, error) {
	r := &resolver{vars: map[string]bool{}, blocks: map[string]*blockStmt{}}
	if err := r.collectBlocks(body); err != nil {
		return nil, err
	}
	root := r.newFunc(nil)
	f := frame{symbols: newSymbols(nil, root), toplevel: true}
	self := -1
	if undeclared(body, "self") {
		f.param("self")
		self = root.slot(f.level, "self")
	}
	f.visitBody(body)
	p := &program{body: body, root: root, self: self, vars: r.vars, blocks: r.blocks}
	p.enter = r.loads(f.symbols)
	if err := r.body(body, f); err != nil {
		return nil, err
	}
	return p, nil
}

func (r *resolver) newFunc(outer *funcScope) *funcScope {
	return &funcScope{outer: outer, names: map[slotName]int{}}
}

func (r *resolver) collectBlocks(body []stmt) error {
	var err error
	for _, s := range body {
		walk(s, func(n node) bool {
			b, ok := n.(*blockStmt)
			if ok && r.blocks[b.name] != nil && err == nil {
				err = at(b.pos(), errf(KindSyntax, "block %s defined twice", quote(b.name)))
			}
			if ok {
				r.blocks[b.name] = b
			}
			return err == nil
		})
	}
	return err
}

// undeclared reports whether body reads name before it assigns it anywhere.
// Like Jinja it does not mind frames, only the order in the source.
func undeclared(body []stmt, name string) bool {
	found, shadowed := false, false
	for _, s := range body {
		walk(s, func(n node) bool {
			if _, ok := n.(*blockStmt); ok {
				return false
			}
			if e, ok := n.(*nameExpr); ok && e.name == name && !shadowed {
				found = found || e.ctx == ctxLoad
				shadowed = e.ctx != ctxLoad
			}
			return !found && !shadowed
		})
	}
	return found
}

// loads compiles the entry of a frame.
func (r *resolver) loads(s *symbols) []load {
	var out []load
	for _, l := range s.loads {
		c := load{slot: s.fn.slot(s.level, l.name), kind: l.kind}
		switch l.kind {
		case loadParam:
			continue
		case loadContext:
			c.name = l.name
			r.vars[l.name] = true
		case loadAlias:
			c.from = refTo(s.fn, l.from, l.name)
		}
		out = append(out, c)
	}
	return out
}

// leaves lists the slots that a frame leaves empty behind it.
func leaves(s *symbols) []int {
	var out []int
	for _, l := range s.loads {
		out = append(out, s.fn.slot(s.level, l.name))
	}
	return out
}

// refTo addresses owner's variable from inside fn.
func refTo(fn *funcScope, owner *symbols, name string) ref {
	up := 0
	for ; fn != owner.fn; fn = fn.outer {
		up++
	}
	return ref{up, owner.fn.slot(owner.level, name)}
}

func (r *resolver) body(body []stmt, f frame) error {
	for _, s := range body {
		if err := r.stmt(s, f); err != nil {
			return err
		}
	}
	return nil
}

func (r *resolver) stmt(s stmt, f frame) error {
	switch s := s.(type) {
	case *outputStmt:
		return r.exprs(s.parts, f)
	case *forStmt:
		return r.forStmt(s, f)
	case *ifStmt:
		return r.ifStmt(s, f)
	case *setStmt:
		return r.setStmt(s, f)
	case *setBlockStmt:
		return r.setBlock(s, f)
	case *macroStmt:
		return r.macroStmt(s, f)
	case *callStmt:
		if err := r.macro(s.macro, f, s.pos()); err != nil {
			return err
		}
		if s.call == nil {
			return nil
		}
		return r.expr(s.call, f)
	case *filterStmt:
		in := f.inner(f.fn)
		in.visitBody(s.body)
		in.visit(s.filter)
		s.enter, s.leave = r.loads(in.symbols), leaves(in.symbols)
		if err := r.body(s.body, in); err != nil {
			return err
		}
		return r.expr(s.filter, in)
	case *withStmt:
		in := f.inner(f.fn)
		in.visitAll(s.targets)
		in.visitBody(s.body)
		s.enter, s.leave = r.loads(in.symbols), leaves(in.symbols)
		if err := r.exprs(s.targets, in); err != nil {
			return err
		}
		if err := r.exprs(s.vals, f); err != nil {
			return err
		}
		return r.body(s.body, in)
	case *scopeStmt:
		in := f.inner(f.fn)
		in.visitBody(s.body)
		s.enter, s.leave = r.loads(in.symbols), leaves(in.symbols)
		return r.body(s.body, in)
	case *blockStmt:
		return r.block(s, f)
	case *loopControlStmt:
		if f.fn.loops == 0 {
			what := "continue"
			if s.flow == flowBreak {
				what = "break"
			}
			return at(s.pos(), errf(KindSyntax, "'%s' outside loop", what))
		}
	}
	return nil
}

func (r *resolver) ifStmt(s *ifStmt, f frame) error {
	f.soft = true
	for i := range s.tests {
		if err := r.expr(s.tests[i], f); err != nil {
			return err
		}
		if err := r.body(s.bodies[i], f); err != nil {
			return err
		}
	}
	return r.body(s.els, f)
}

func (r *resolver) forStmt(s *forStmt, f frame) error {
	var err error
	walk(s, func(n node) bool {
		if e, ok := n.(*nameExpr); ok && e.ctx == ctxStore && e.name == "loop" && err == nil {
			err = at(e.pos(), errf(KindSyntax, "Can't assign to special loop variable in for-loop target"))
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	fn := f.fn
	if s.recursive {
		fn = r.newFunc(f.fn)
		s.loopFn = fn
	}
	in, els := f.inner(fn), f.inner(fn)
	s.loopSlot = -1
	if s.recursive || undeclared(s.body, "loop") || hasScopedBlock(s) {
		in.param("loop")
		s.loopSlot = fn.slot(in.level, "loop")
	}
	in.visitTarget(s.target)
	in.visitBody(s.body)
	els.visitBody(s.els)
	s.enter, s.leave = r.loads(in.symbols), leaves(in.symbols)
	s.elseEnter, s.elseLeave = r.loads(els.symbols), leaves(els.symbols)

	if err := r.loopTest(s, f, fn); err != nil {
		return err
	}
	if err := r.expr(s.iter, f); err != nil {
		return err
	}
	if err := r.expr(s.target, in); err != nil {
		return err
	}
	fn.loops++
	err = r.body(s.body, in)
	fn.loops--
	if err != nil {
		return err
	}
	return r.body(s.els, els)
}

// loopTest resolves the "if" of a for: a generator function with the target as
// its own variables.
func (r *resolver) loopTest(s *forStmt, f frame, fn *funcScope) error {
	if s.test == nil {
		return nil
	}
	s.testFn = r.newFunc(fn)
	in := f.inner(s.testFn)
	in.visitTarget(s.target)
	in.visit(s.test)
	s.testEnter = r.loads(in.symbols)
	s.testTarget = cloneTarget(s.target)
	if err := r.expr(s.testTarget, in); err != nil {
		return err
	}
	return r.expr(s.test, in)
}

func cloneTarget(e expr) expr {
	switch e := e.(type) {
	case *nameExpr:
		c := *e
		return &c
	case *tupleExpr:
		c := &tupleExpr{line: e.line}
		for _, item := range e.items {
			c.items = append(c.items, cloneTarget(item))
		}
		return c
	}
	return e
}

func hasScopedBlock(n node) bool {
	found := false
	walk(n, func(n node) bool {
		if b, ok := n.(*blockStmt); ok && b.scoped {
			found = true
		}
		return !found
	})
	return found
}

func (r *resolver) setStmt(s *setStmt, f frame) error {
	walk(s, func(n node) bool {
		if e, ok := n.(*nsRefExpr); ok {
			s.nsRefs = append(s.nsRefs, e)
		}
		return true
	})
	if err := r.expr(s.val, f); err != nil {
		return err
	}
	s.export = exported(s.target, f)
	return r.expr(s.target, f)
}

// exported lists the names of a target that the context gets too.
func exported(target expr, f frame) []*nameExpr {
	var names []*nameExpr
	if f.toplevel {
		walk(target, func(n node) bool {
			if e, ok := n.(*nameExpr); ok {
				names = append(names, e)
			}
			return true
		})
	}
	return names
}

func (r *resolver) setBlock(s *setBlockStmt, f frame) error {
	in := f.inner(f.fn)
	in.visitBody(s.body)
	s.enter, s.leave = r.loads(in.symbols), leaves(in.symbols)
	if err := r.body(s.body, in); err != nil {
		return err
	}
	if s.filter != nil {
		if err := r.expr(s.filter, in); err != nil {
			return err
		}
	}
	s.export = exported(s.target, f)
	return r.expr(s.target, f)
}

func (r *resolver) macroStmt(s *macroStmt, f frame) error {
	if err := r.macro(s.macro, f, s.pos()); err != nil {
		return err
	}
	s.export = f.toplevel
	return r.expr(s.name, f)
}

func (r *resolver) macro(m *macroCode, f frame, pos int) error {
	m.fn = r.newFunc(f.fn)
	in := f.inner(m.fn)
	m.caller, m.kwargs, m.varargs = -1, -1, -1
	special := func(name string, slot *int) {
		if undeclared(m.body, name) && !m.hasParam(name) {
			in.param(name)
			*slot = m.fn.slot(in.level, name)
		}
	}
	for _, p := range m.params {
		in.visit(p)
	}
	m.explicitCaller = m.hasParam("caller")
	if m.explicitCaller && undeclared(m.body, "caller") && m.defaultOf("caller") == nil {
		return at(pos, errf(KindSyntax, `When defining macros or call blocks the special "caller" argument must be omitted or be given a default.`))
	}
	special("caller", &m.caller)
	special("kwargs", &m.kwargs)
	special("varargs", &m.varargs)
	in.visitAll(m.defaults)
	in.visitBody(m.body)
	for _, p := range m.params {
		m.slots = append(m.slots, m.fn.slot(in.level, p.name))
	}
	m.enter = r.loads(in.symbols)
	if err := r.exprs(m.defaults, in); err != nil {
		return err
	}
	return r.body(m.body, in)
}

func (m *macroCode) hasParam(name string) bool {
	return slices.ContainsFunc(m.params, func(p *nameExpr) bool { return p.name == name })
}

// defaultOf returns the default of a parameter, nil if it has none.
func (m *macroCode) defaultOf(name string) expr {
	for i, p := range m.params {
		if p.name == name {
			if d := i - (len(m.params) - len(m.defaults)); d >= 0 {
				return m.defaults[d]
			}
		}
	}
	return nil
}

func (r *resolver) block(s *blockStmt, f frame) error {
	if s.required {
		return at(s.pos(), errf(KindUnsupported, "required blocks are not supported: a chat template is one file"))
	}
	if s.scoped {
		seen := map[string]bool{}
		for sym := f.symbols; sym != nil; sym = sym.parent {
			for name := range sym.stores {
				if owner := f.find(name); owner != nil && !seen[name] {
					seen[name] = true
					s.locals = append(s.locals, local{name, refTo(f.fn, owner, name)})
				}
			}
		}
	}
	fn := r.newFunc(nil)
	in := frame{symbols: newSymbols(nil, fn)}
	code := &blockCode{fn: fn, self: -1, body: s.body}
	if undeclared(s.body, "self") {
		in.param("self")
		code.self = fn.slot(in.level, "self")
	}
	if undeclared(s.body, "super") {
		return at(s.pos(), errf(KindUnsupported, "super() is not supported: a chat template is one file"))
	}
	in.visitBody(s.body)
	code.enter = r.loads(in.symbols)
	s.code = code
	return r.body(s.body, in)
}

func (r *resolver) exprs(es []expr, f frame) error {
	for _, e := range es {
		if err := r.expr(e, f); err != nil {
			return err
		}
	}
	return nil
}

func (r *resolver) expr(e expr, f frame) error {
	if e == nil {
		return nil
	}
	switch e := e.(type) {
	case *nameExpr:
		return r.name(e.name, &e.ref, e.pos(), f)
	case *nsRefExpr:
		return r.name(e.name, &e.ref, e.pos(), f)
	case *condExpr:
		f.soft = true
	case *filterExpr:
		if e.fn = filters[e.name]; e.fn == nil {
			if why, ok := unsupportedFilters[e.name]; ok {
				return at(e.pos(), errf(KindUnsupported, "filter %s is not supported: %s", quote(e.name), why))
			}
			if !f.soft {
				return at(e.pos(), errf(KindSyntax, "No filter named %s.", quote(e.name)))
			}
		}
	case *testExpr:
		if e.fn = tests[e.name]; e.fn == nil && !f.soft {
			return at(e.pos(), errf(KindSyntax, "No test named %s.", quote(e.name)))
		}
	}
	for _, c := range children(e) {
		if err := r.expr(c.(expr), f); err != nil {
			return err
		}
	}
	return nil
}

func (r *resolver) name(name string, dst *ref, pos int, f frame) error {
	owner := f.find(name)
	if owner == nil {
		// Jinja's own compiler stops here too: a set block's filter arguments
		// are not part of any frame.
		return at(pos, errf(KindSyntax, "Tried to resolve a name to a reference that was unknown to the frame (%s)", quote(name)))
	}
	*dst = refTo(f.fn, owner, name)
	return nil
}

// defaultGlobals are the names Jinja's own environment defines.
var defaultGlobals = []string{"range", "dict", "lipsum", "cycler", "joiner", "namespace"}

// contextNames lists what the template takes from its context, as Jinja's
// meta.find_undeclared_variables does, sorted.
func (p *program) contextNames() []string {
	var names []string
	for name := range p.vars {
		if !slices.Contains(defaultGlobals, name) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, strings.Compare)
	return names
}
