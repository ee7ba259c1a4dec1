package jinja

// The syntax tree. parser.go makes it; scope.go then fills in, once, the
// fields marked "resolved", and from then on it is read only.

type node interface{ pos() int }

type expr interface {
	node
	eval(st *state) (Value, error)
}

type stmt interface {
	node
	exec(st *state) (flow, error)
}

// line is the template line of a node.
type line int

func (l line) pos() int { return int(l) }

// Expressions.
type (
	constExpr struct {
		line
		val Value
	}
	nameExpr struct {
		line
		name string
		ctx  nameCtx
		ref  ref // resolved
	}
	// nsRefExpr is the target ns.attr of a set statement.
	nsRefExpr struct {
		line
		name, attr string
		ref        ref // resolved
	}
	tupleExpr struct {
		line
		items []expr
	}
	listExpr struct {
		line
		items []expr
	}
	dictExpr struct {
		line
		keys, vals []expr
	}
	condExpr struct {
		line
		test, then, els expr // els may be nil
	}
	boolExpr struct {
		line
		or          bool
		left, right expr
	}
	notExpr struct {
		line
		x expr
	}
	unaryExpr struct {
		line
		op string // "+" or "-"
		x  expr
	}
	binExpr struct {
		line
		op          string // + - * / // % **
		left, right expr
	}
	concatExpr struct {
		line
		parts []expr
	}
	compareExpr struct {
		line
		first expr
		ops   []string // == != < <= > >= in notin
		rest  []expr
	}
	attrExpr struct {
		line
		x    expr
		name string
	}
	itemExpr struct {
		line
		x, key expr
	}
	sliceExpr struct { // only as the key of an itemExpr
		line
		start, stop, step expr // each may be nil
	}
	callExpr struct {
		line
		fn   expr
		args arguments
	}
	filterExpr struct {
		line
		x    expr // nil in a filter or set block: the text of the block
		name string
		args arguments
		fn   *filter // resolved; nil if there is none of that name
	}
	testExpr struct {
		line
		x    expr
		name string
		args arguments
		fn   *test // resolved; nil if there is none of that name
	}
)

type arguments struct {
	pos      []expr
	kw       []keyword
	star     expr // *args or nil
	starStar expr // **kwargs or nil
}

type keyword struct {
	name string
	val  expr
}

type nameCtx byte

const (
	ctxLoad nameCtx = iota
	ctxStore
	ctxParam
)

// Statements.
type (
	outputStmt struct {
		line
		parts []expr // a template's own text is a constExpr of Str
		text  bool   // parts is one text
	}
	forStmt struct {
		line
		target    expr
		iter      expr
		test      expr // nil without "if"
		recursive bool
		body, els []stmt

		// resolved:
		testTarget expr       // target, in the scope of the test
		testFn     *funcScope // the generator that applies the test
		testEnter  []load
		loopFn     *funcScope // of a recursive loop
		loopSlot   int        // of "loop"; -1 if the body does not use it
		enter      []load     // at each iteration
		leave      []int
		elseEnter  []load
		elseLeave  []int
	}
	ifStmt struct {
		line
		tests  []expr
		bodies [][]stmt
		els    []stmt
	}
	setStmt struct {
		line
		target expr
		val    expr
		nsRefs []*nsRefExpr // resolved: to be checked before val is evaluated
		export []*nameExpr  // resolved: names the context gets too
	}
	setBlockStmt struct {
		line
		target expr
		filter *filterExpr // may be nil
		body   []stmt
		enter  []load // resolved
		leave  []int
		export []*nameExpr
	}
	macroStmt struct {
		line
		name   *nameExpr // nil for a call block
		macro  *macroCode
		export bool // resolved
	}
	callStmt struct {
		line
		call  *callExpr // nil for a generation block: the block's own text
		macro *macroCode
	}
	filterStmt struct {
		line
		filter *filterExpr
		body   []stmt
		enter  []load // resolved
		leave  []int
	}
	withStmt struct {
		line
		targets []expr
		vals    []expr
		body    []stmt
		enter   []load // resolved
		leave   []int
	}
	scopeStmt struct { // autoescape false
		line
		body  []stmt
		enter []load // resolved
		leave []int
	}
	blockStmt struct {
		line
		name     string
		scoped   bool
		required bool
		body     []stmt
		code     *blockCode // resolved
		locals   []local    // resolved: what a scoped block sees
	}
	loopControlStmt struct {
		line
		flow flow
	}
)

// macroCode is a macro, call block or generation block.
type macroCode struct {
	name     string // "" for a call block
	params   []*nameExpr
	defaults []expr // of the last parameters
	body     []stmt

	// resolved:
	fn                           *funcScope
	enter                        []load
	slots                        []int // of params
	caller, kwargs, varargs      int   // slots, -1 if the body does not use them
	explicitCaller, isGeneration bool
}

type blockCode struct {
	fn    *funcScope
	enter []load
	self  int // slot of "self", -1 if unused
	body  []stmt
}

// local is a variable of the frames around a scoped block.
type local struct {
	name string
	ref  ref
}

// children lists the nodes under n in the order Jinja visits them.
func children(n node) []node {
	var c []node
	one := func(e expr) {
		if e != nil {
			c = append(c, e)
		}
	}
	many := func(es []expr) {
		for _, e := range es {
			one(e)
		}
	}
	body := func(ss []stmt) {
		for _, s := range ss {
			c = append(c, s)
		}
	}
	args := func(a arguments) {
		many(a.pos)
		for _, k := range a.kw {
			one(k.val)
		}
		one(a.star)
		one(a.starStar)
	}
	macro := func(m *macroCode) {
		for _, p := range m.params {
			one(p)
		}
		many(m.defaults)
		body(m.body)
	}
	filter := func(f *filterExpr) {
		if f != nil {
			c = append(c, f)
		}
	}
	switch n := n.(type) {
	case *tupleExpr:
		many(n.items)
	case *listExpr:
		many(n.items)
	case *dictExpr:
		for i := range n.keys {
			one(n.keys[i])
			one(n.vals[i])
		}
	case *condExpr:
		one(n.test)
		one(n.then)
		one(n.els)
	case *boolExpr:
		one(n.left)
		one(n.right)
	case *notExpr:
		one(n.x)
	case *unaryExpr:
		one(n.x)
	case *binExpr:
		one(n.left)
		one(n.right)
	case *concatExpr:
		many(n.parts)
	case *compareExpr:
		one(n.first)
		many(n.rest)
	case *attrExpr:
		one(n.x)
	case *itemExpr:
		one(n.x)
		one(n.key)
	case *sliceExpr:
		one(n.start)
		one(n.stop)
		one(n.step)
	case *callExpr:
		one(n.fn)
		args(n.args)
	case *filterExpr:
		one(n.x)
		args(n.args)
	case *testExpr:
		one(n.x)
		args(n.args)
	case *outputStmt:
		many(n.parts)
	case *forStmt:
		one(n.target)
		one(n.iter)
		body(n.body)
		body(n.els)
		one(n.test)
	case *ifStmt:
		for i := range n.tests {
			one(n.tests[i])
			body(n.bodies[i])
		}
		body(n.els)
	case *setStmt:
		one(n.target)
		one(n.val)
	case *setBlockStmt:
		one(n.target)
		filter(n.filter)
		body(n.body)
	case *macroStmt:
		macro(n.macro)
	case *callStmt:
		if n.call != nil {
			one(n.call)
		}
		macro(n.macro)
	case *filterStmt:
		body(n.body)
		filter(n.filter)
	case *withStmt:
		many(n.targets)
		many(n.vals)
		body(n.body)
	case *scopeStmt:
		body(n.body)
	case *blockStmt:
		body(n.body)
	}
	return c
}

// walk calls visit for n and everything under it, parents first; visit returns
// whether to go below.
func walk(n node, visit func(node) bool) {
	if !visit(n) {
		return
	}
	for _, c := range children(n) {
		walk(c, visit)
	}
}

// maxTreeDepth bounds every later recursion over the tree.
const maxTreeDepth = 600

// checkDepth refuses a tree that is too deep to walk, such as 1+1+1+… .
func checkDepth(body []stmt) error {
	var check func(n node, depth int) error
	check = func(n node, depth int) error {
		if depth > maxTreeDepth {
			return at(n.pos(), errf(KindSyntax, "expression nested deeper than %d levels", maxTreeDepth))
		}
		for _, c := range children(n) {
			if err := check(c, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	for _, s := range body {
		if err := check(s, 0); err != nil {
			return err
		}
	}
	return nil
}
