package jinja

import (
	"fmt"
	"slices"
	"strings"
)

// parser is a recursive descent over the tokens, with the grammar and the
// precedences of Jinja's own parser: "~" binds tighter than "+", "**" is
// left-associative, a filter or test belongs to the unary expression before it.
type parser struct {
	tokens []token
	pos    int
	depth  int        // of statements and bracketed expressions
	ends   [][]string // end tags that are due, innermost last
	tags   []string   // open tags, innermost last
}

func parse(source string) ([]stmt, error) {
	tokens, err := tokenize(source)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	body, err := p.statements(nil)
	if err != nil {
		return nil, err
	}
	return body, checkDepth(body)
}

func (p *parser) cur() token { return p.tokens[p.pos] }

func (p *parser) look() token { return p.tokens[min(p.pos+1, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.tokens[p.pos]
	if t.typ != tokEOF {
		p.pos++
	}
	return t
}

func (p *parser) isName(name string) bool {
	return p.cur().typ == tokName && p.cur().text == name
}

func (p *parser) isOp(op string) bool {
	return p.cur().typ == tokOperator && p.cur().text == op
}

func (p *parser) skipName(name string) bool {
	if p.isName(name) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) skipOp(op string) bool {
	if p.isOp(op) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) fail(line int, format string, args ...any) error {
	return at(line, errf(KindSyntax, format, args...))
}

func (p *parser) unexpected(want string) error {
	t := p.cur()
	if t.typ == tokEOF {
		return p.fail(t.line, "unexpected end of template, expected %s.", quote(want))
	}
	return p.fail(t.line, "expected token %s, got %s", quote(want), quote(t.describe()))
}

func (p *parser) expectOp(op string) (token, error) {
	if !p.isOp(op) {
		return token{}, p.unexpected(op)
	}
	return p.next(), nil
}

func (p *parser) expectType(typ tokenType) (token, error) {
	if p.cur().typ != typ {
		want := token{typ: typ}.describe()
		if typ == tokName {
			want = "name"
		}
		return token{}, p.unexpected(want)
	}
	return p.next(), nil
}

func (p *parser) expectName(name string) (token, error) {
	if !p.isName(name) {
		return token{}, p.unexpected(name)
	}
	return p.next(), nil
}

// descend guards the recursion; the caller defers p.ascend.
func (p *parser) descend() error {
	if p.depth++; p.depth > 2*maxBrackets {
		return p.fail(p.cur().line, "the template is nested deeper than %d levels", 2*maxBrackets)
	}
	return nil
}

func (p *parser) ascend() { p.depth-- }

// statements parses up to one of the end tags, which it leaves; nil means up
// to the end of the template.
func (p *parser) statements(ends []string) ([]stmt, error) {
	if err := p.descend(); err != nil {
		return nil, err
	}
	defer p.ascend()
	p.ends = append(p.ends, ends)
	defer func() { p.ends = p.ends[:len(p.ends)-1] }()
	var body []stmt
	for {
		t := p.cur()
		switch t.typ {
		case tokEOF:
			if ends != nil {
				return nil, p.tagError("", t.line)
			}
			return body, nil
		case tokData:
			p.next()
			text := &constExpr{line(t.line), Str(t.text)}
			body = append(body, &outputStmt{line: line(t.line), parts: []expr{text}, text: true})
		case tokVariableBegin:
			p.next()
			e, err := p.tuple(tupleRules{cond: true})
			if err != nil {
				return nil, err
			}
			if _, err := p.expectType(tokVariableEnd); err != nil {
				return nil, err
			}
			body = append(body, &outputStmt{line: line(t.line), parts: []expr{e}})
		default: // tokBlockBegin: the lexer leaves nothing else between tags
			p.next()
			if p.cur().typ == tokName && slices.Contains(ends, p.cur().text) {
				return body, nil
			}
			s, err := p.statement()
			if err != nil {
				return nil, err
			}
			body = append(body, s)
			if _, err := p.expectType(tokBlockEnd); err != nil {
				return nil, err
			}
		}
	}
}

// block parses the body of a tag up to one of the end tags, which it consumes
// and returns.
func (p *parser) block(ends ...string) ([]stmt, string, error) {
	p.skipOp(":") // as Jinja tolerates
	if _, err := p.expectType(tokBlockEnd); err != nil {
		return nil, "", err
	}
	body, err := p.statements(ends)
	if err != nil {
		return nil, "", err
	}
	return body, p.next().text, nil
}

// tagError says that tag name ("" for the template's end) is out of place.
func (p *parser) tagError(name string, line int) error {
	msg := "Unexpected end of template."
	if name != "" {
		msg = fmt.Sprintf("Encountered unknown tag %s.", quote(name))
	}
	var due []string
	known := false
	for _, ends := range p.ends {
		if ends != nil {
			due = ends
			known = known || slices.Contains(ends, name)
		}
	}
	if due != nil {
		quoted := make([]string, len(due))
		for i, d := range due {
			quoted[i] = quote(d)
		}
		looking := strings.Join(quoted, " or ")
		if known {
			msg += " You probably made a nesting mistake. Jinja is expecting this tag, but currently looking for " + looking + "."
		} else {
			msg += " Jinja was looking for the following tags: " + looking + "."
		}
	}
	if len(p.tags) > 0 {
		msg += fmt.Sprintf(" The innermost block that needs to be closed is %s.", quote(p.tags[len(p.tags)-1]))
	}
	return p.fail(line, "%s", msg)
}

func (p *parser) statement() (stmt, error) {
	t := p.cur()
	if t.typ != tokName {
		return nil, p.fail(t.line, "tag name expected")
	}
	parse := p.tag(t.text)
	if parse == nil {
		switch t.text {
		case "include", "import", "from", "extends":
			return nil, at(t.line, errf(KindUnsupported, "{%% %s %%} is not supported: a chat template is one file", t.text))
		}
		return nil, p.tagError(t.text, t.line)
	}
	p.next()
	p.tags = append(p.tags, t.text)
	defer func() { p.tags = p.tags[:len(p.tags)-1] }()
	return parse(line(t.line))
}

// tag returns what parses a tag after its name, nil for an unknown one.
func (p *parser) tag(name string) func(line) (stmt, error) {
	switch name {
	case "for":
		return p.forTag
	case "if":
		return p.ifTag
	case "set":
		return p.setTag
	case "with":
		return p.withTag
	case "macro":
		return p.macroTag
	case "call":
		return p.callTag
	case "filter":
		return p.filterTag
	case "print":
		return p.printTag
	case "block":
		return p.blockTag
	case "autoescape":
		return p.autoescapeTag
	case "generation":
		return p.generationTag
	case "break":
		return p.breakTag
	case "continue":
		return p.continueTag
	}
	return nil
}

func (p *parser) forTag(l line) (stmt, error) {
	s := &forStmt{line: l}
	var err error
	if s.target, err = p.assignTarget(targetRules{end: "in"}); err != nil {
		return nil, err
	}
	if _, err := p.expectName("in"); err != nil {
		return nil, err
	}
	if s.iter, err = p.tuple(tupleRules{end: "recursive"}); err != nil {
		return nil, err
	}
	if p.skipName("if") {
		if s.test, err = p.expression(true); err != nil {
			return nil, err
		}
	}
	s.recursive = p.skipName("recursive")
	var end string
	if s.body, end, err = p.block("endfor", "else"); err != nil {
		return nil, err
	}
	if end == "else" {
		s.els, _, err = p.block("endfor")
	}
	return s, err
}

func (p *parser) ifTag(l line) (stmt, error) {
	s := &ifStmt{line: l}
	for {
		test, err := p.tuple(tupleRules{})
		if err != nil {
			return nil, err
		}
		body, end, err := p.block("elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		s.tests = append(s.tests, test)
		s.bodies = append(s.bodies, body)
		switch end {
		case "else":
			s.els, _, err = p.block("endif")
			return s, err
		case "endif":
			return s, nil
		}
	}
}

func (p *parser) setTag(l line) (stmt, error) {
	target, err := p.assignTarget(targetRules{namespace: true})
	if err != nil {
		return nil, err
	}
	if p.skipOp("=") {
		val, err := p.tuple(tupleRules{cond: true})
		if err != nil {
			return nil, err
		}
		return &setStmt{line: l, target: target, val: val}, nil
	}
	s := &setBlockStmt{line: l, target: target}
	if p.isOp("|") {
		f, err := p.filters(nil)
		if err != nil {
			return nil, err
		}
		s.filter = f.(*filterExpr)
	}
	s.body, _, err = p.block("endset")
	return s, err
}

func (p *parser) withTag(l line) (stmt, error) {
	s := &withStmt{line: l}
	for p.cur().typ != tokBlockEnd {
		if len(s.targets) > 0 {
			if _, err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		target, err := p.assignTarget(targetRules{})
		if err != nil {
			return nil, err
		}
		setCtx(target, ctxParam)
		if _, err := p.expectOp("="); err != nil {
			return nil, err
		}
		val, err := p.expression(true)
		if err != nil {
			return nil, err
		}
		s.targets = append(s.targets, target)
		s.vals = append(s.vals, val)
	}
	var err error
	s.body, _, err = p.block("endwith")
	return s, err
}

// autoescapeTag accepts only "false", which is what chat templates run with.
func (p *parser) autoescapeTag(l line) (stmt, error) {
	e, err := p.expression(true)
	if err != nil {
		return nil, err
	}
	if c, ok := e.(*constExpr); !ok || truth(c.val) {
		return nil, at(int(l), errf(KindUnsupported, "{%% autoescape %%} is supported with the constant false only"))
	}
	body, _, err := p.block("endautoescape")
	return &scopeStmt{line: l, body: body}, err
}

func (p *parser) blockTag(l line) (stmt, error) {
	name, err := p.expectType(tokName)
	if err != nil {
		return nil, err
	}
	s := &blockStmt{line: l, name: name.text}
	s.scoped = p.skipName("scoped")
	s.required = p.skipName("required")
	if p.isOp("-") {
		return nil, p.fail(int(l), "Block names in Jinja have to be valid Python identifiers and may not contain hyphens, use an underscore instead.")
	}
	if s.body, _, err = p.block("endblock"); err != nil {
		return nil, err
	}
	p.skipName(s.name)
	return s, nil
}

func (p *parser) macroTag(l line) (stmt, error) {
	name, err := p.expectType(tokName)
	if err != nil {
		return nil, err
	}
	m := &macroCode{name: name.text}
	if err := p.signature(m); err != nil {
		return nil, err
	}
	if m.body, _, err = p.block("endmacro"); err != nil {
		return nil, err
	}
	target := &nameExpr{line: line(name.line), name: name.text, ctx: ctxStore}
	return &macroStmt{line: l, name: target, macro: m}, nil
}

func (p *parser) callTag(l line) (stmt, error) {
	m := &macroCode{}
	if p.isOp("(") {
		if err := p.signature(m); err != nil {
			return nil, err
		}
	}
	e, err := p.expression(true)
	if err != nil {
		return nil, err
	}
	call, ok := e.(*callExpr)
	if !ok {
		return nil, p.fail(int(l), "expected call")
	}
	if m.body, _, err = p.block("endcall"); err != nil {
		return nil, err
	}
	return &callStmt{line: l, call: call, macro: m}, nil
}

// generationTag is transformers' mark around what the assistant said: a call
// block whose caller prints it as it is.
func (p *parser) generationTag(l line) (stmt, error) {
	m := &macroCode{isGeneration: true}
	var err error
	m.body, _, err = p.block("endgeneration")
	return &callStmt{line: l, macro: m}, err
}

func (p *parser) filterTag(l line) (stmt, error) {
	f, err := p.filter(nil)
	if err == nil && p.isOp("|") {
		f, err = p.filters(f)
	}
	if err != nil {
		return nil, err
	}
	body, _, err := p.block("endfilter")
	return &filterStmt{line: l, filter: f.(*filterExpr), body: body}, err
}

func (p *parser) printTag(l line) (stmt, error) {
	s := &outputStmt{line: l}
	for p.cur().typ != tokBlockEnd {
		if len(s.parts) > 0 {
			if _, err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		e, err := p.expression(true)
		if err != nil {
			return nil, err
		}
		s.parts = append(s.parts, e)
	}
	return s, nil
}

func (p *parser) breakTag(l line) (stmt, error)    { return &loopControlStmt{l, flowBreak}, nil }
func (p *parser) continueTag(l line) (stmt, error) { return &loopControlStmt{l, flowContinue}, nil }

func (p *parser) signature(m *macroCode) error {
	if _, err := p.expectOp("("); err != nil {
		return err
	}
	for !p.isOp(")") {
		if len(m.params) > 0 {
			if _, err := p.expectOp(","); err != nil {
				return err
			}
		}
		t, err := p.expectType(tokName)
		if err != nil {
			return err
		}
		arg := &nameExpr{line: line(t.line), name: t.text, ctx: ctxParam}
		if err := p.assignable(arg); err != nil {
			return err
		}
		if slices.ContainsFunc(m.params, func(q *nameExpr) bool { return q.name == arg.name }) {
			return p.fail(t.line, "duplicate argument %s in function definition", quote(arg.name))
		}
		m.params = append(m.params, arg)
		if p.skipOp("=") {
			e, err := p.expression(true)
			if err != nil {
				return err
			}
			m.defaults = append(m.defaults, e)
		} else if len(m.defaults) > 0 {
			return p.fail(t.line, "non-default argument follows default argument")
		}
	}
	_, err := p.expectOp(")")
	return err
}

type targetRules struct {
	end       string // the name that may end the target
	namespace bool   // whether ns.attr is allowed
}

func (p *parser) assignTarget(rules targetRules) (expr, error) {
	e, err := p.tuple(tupleRules{simple: true, end: rules.end, namespace: rules.namespace})
	if err != nil {
		return nil, err
	}
	setCtx(e, ctxStore)
	return e, p.assignable(e)
}

func setCtx(e expr, ctx nameCtx) {
	switch e := e.(type) {
	case *nameExpr:
		e.ctx = ctx
	case *tupleExpr:
		for _, item := range e.items {
			setCtx(item, ctx)
		}
	}
}

func (p *parser) assignable(e expr) error {
	what := "const"
	switch e := e.(type) {
	case *nameExpr:
		switch e.name {
		case "true", "false", "none", "True", "False", "None":
			return p.fail(e.pos(), "can't assign to 'name'")
		}
		return nil
	case *nsRefExpr:
		return nil
	case *tupleExpr:
		for _, item := range e.items {
			if err := p.assignable(item); err != nil {
				return p.fail(e.pos(), "can't assign to 'tuple'")
			}
		}
		return nil
	case *listExpr:
		what = "list"
	case *dictExpr:
		what = "dict"
	}
	return p.fail(e.pos(), "can't assign to '%s'", what)
}

type tupleRules struct {
	simple    bool   // names and literals only
	cond      bool   // "a if b else c" allowed
	end       string // a name that ends the tuple
	parens    bool   // inside parentheses, where () is a tuple
	namespace bool
}

// tuple parses one expression, or several joined by commas.
func (p *parser) tuple(rules tupleRules) (expr, error) {
	l := p.cur().line
	var items []expr
	isTuple := false
	for {
		if len(items) > 0 {
			if _, err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		t := p.cur()
		if t.typ == tokVariableEnd || t.typ == tokBlockEnd || p.isOp(")") || rules.end != "" && p.isName(rules.end) {
			break
		}
		var e expr
		var err error
		if rules.simple {
			e, err = p.primary(rules.namespace)
		} else {
			e, err = p.expression(rules.cond)
		}
		if err != nil {
			return nil, err
		}
		items = append(items, e)
		if !p.isOp(",") {
			break
		}
		isTuple = true
		l = p.cur().line
	}
	if !isTuple {
		if len(items) > 0 {
			return items[0], nil
		}
		if !rules.parens {
			return nil, p.fail(p.cur().line, "Expected an expression, got %s", quote(p.cur().describe()))
		}
	}
	return &tupleExpr{line(l), items}, nil
}

func (p *parser) expression(cond bool) (expr, error) {
	if err := p.descend(); err != nil {
		return nil, err
	}
	defer p.ascend()
	l := p.cur().line
	e, err := p.or()
	if err != nil || !cond {
		return e, err
	}
	for p.skipName("if") {
		test, err := p.or()
		if err != nil {
			return nil, err
		}
		c := &condExpr{line: line(l), test: test, then: e}
		if p.skipName("else") {
			if c.els, err = p.expression(true); err != nil {
				return nil, err
			}
		}
		e = c
		l = p.cur().line
	}
	return e, nil
}

func (p *parser) or() (expr, error) {
	return p.logic("or", p.and)
}

func (p *parser) and() (expr, error) {
	return p.logic("and", p.not)
}

func (p *parser) logic(op string, operand func() (expr, error)) (expr, error) {
	l := p.cur().line
	left, err := operand()
	if err != nil {
		return nil, err
	}
	for p.skipName(op) {
		right, err := operand()
		if err != nil {
			return nil, err
		}
		left = &boolExpr{line(l), op == "or", left, right}
		l = p.cur().line
	}
	return left, nil
}

func (p *parser) not() (expr, error) {
	if !p.isName("not") {
		return p.compare()
	}
	if err := p.descend(); err != nil {
		return nil, err
	}
	defer p.ascend()
	l := p.next().line
	x, err := p.not()
	return &notExpr{line(l), x}, err
}

func (p *parser) compare() (expr, error) {
	l := p.cur().line
	first, err := p.sum()
	if err != nil {
		return nil, err
	}
	c := &compareExpr{line: line(l), first: first}
	for {
		op := ""
		t := p.cur()
		switch {
		case t.typ == tokOperator && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, t.text):
			op = t.text
			p.next()
		case p.skipName("in"):
			op = "in"
		case p.isName("not") && p.look().typ == tokName && p.look().text == "in":
			op = "notin"
			p.pos += 2
		}
		if op == "" {
			break
		}
		e, err := p.sum()
		if err != nil {
			return nil, err
		}
		c.ops = append(c.ops, op)
		c.rest = append(c.rest, e)
	}
	if len(c.ops) == 0 {
		return first, nil
	}
	return c, nil
}

// binary parses a left-associative chain of ops.
func (p *parser) binary(ops []string, operand func() (expr, error)) (expr, error) {
	l := p.cur().line
	left, err := operand()
	if err != nil {
		return nil, err
	}
	for p.cur().typ == tokOperator && slices.Contains(ops, p.cur().text) {
		op := p.next().text
		right, err := operand()
		if err != nil {
			return nil, err
		}
		left = &binExpr{line(l), op, left, right}
		l = p.cur().line
	}
	return left, nil
}

var (
	sumOps  = []string{"+", "-"}
	termOps = []string{"*", "/", "//", "%"}
	powOps  = []string{"**"}
)

func (p *parser) sum() (expr, error) { return p.binary(sumOps, p.concat) }

func (p *parser) term() (expr, error) { return p.binary(termOps, p.power) }

func (p *parser) power() (expr, error) {
	return p.binary(powOps, func() (expr, error) { return p.unary(true) })
}

func (p *parser) concat() (expr, error) {
	l := p.cur().line
	first, err := p.term()
	if err != nil {
		return nil, err
	}
	if !p.isOp("~") {
		return first, nil
	}
	c := &concatExpr{line(l), []expr{first}}
	for p.skipOp("~") {
		e, err := p.term()
		if err != nil {
			return nil, err
		}
		c.parts = append(c.parts, e)
	}
	return c, nil
}

func (p *parser) unary(withFilter bool) (expr, error) {
	l := p.cur().line
	var e expr
	var err error
	if op := p.cur().text; p.isOp("-") || p.isOp("+") {
		if err := p.descend(); err != nil {
			return nil, err
		}
		p.next()
		x, err := p.unary(false)
		p.ascend()
		if err != nil {
			return nil, err
		}
		e = &unaryExpr{line(l), op, x}
	} else if e, err = p.primary(false); err != nil {
		return nil, err
	}
	if e, err = p.postfix(e); err != nil || !withFilter {
		return e, err
	}
	return p.filterExpr(e)
}

func (p *parser) primary(namespace bool) (expr, error) {
	t := p.cur()
	l := line(t.line)
	switch t.typ {
	case tokName:
		p.next()
		switch t.text {
		case "true", "True":
			return &constExpr{l, Bool(true)}, nil
		case "false", "False":
			return &constExpr{l, Bool(false)}, nil
		case "none", "None":
			return &constExpr{l, None}, nil
		}
		if namespace && p.skipOp(".") {
			attr, err := p.expectType(tokName)
			return &nsRefExpr{line: l, name: t.text, attr: attr.text}, err
		}
		return &nameExpr{line: l, name: t.text}, nil
	case tokString:
		p.next()
		text := t.text
		if p.cur().typ == tokString { // adjacent strings are one
			var b strings.Builder
			b.WriteString(text)
			for p.cur().typ == tokString {
				b.WriteString(p.next().text)
			}
			text = b.String()
		}
		return &constExpr{l, Str(text)}, nil
	case tokInteger, tokFloat:
		p.next()
		return &constExpr{l, t.num}, nil
	}
	switch {
	case p.skipOp("("):
		e, err := p.tuple(tupleRules{cond: true, parens: true})
		if err != nil {
			return nil, err
		}
		_, err = p.expectOp(")")
		return e, err
	case p.skipOp("["):
		items, err := p.list("]")
		return &listExpr{l, items}, err
	case p.skipOp("{"):
		return p.dict(l)
	}
	return nil, p.fail(t.line, "unexpected %s", quote(t.describe()))
}

// list parses expressions up to the closing operator, a trailing comma allowed.
func (p *parser) list(end string) ([]expr, error) {
	var items []expr
	for !p.isOp(end) {
		if len(items) > 0 {
			if _, err := p.expectOp(","); err != nil {
				return nil, err
			}
			if p.isOp(end) {
				break
			}
		}
		e, err := p.expression(true)
		if err != nil {
			return nil, err
		}
		items = append(items, e)
	}
	_, err := p.expectOp(end)
	return items, err
}

func (p *parser) dict(l line) (expr, error) {
	d := &dictExpr{line: l}
	for !p.isOp("}") {
		if len(d.keys) > 0 {
			if _, err := p.expectOp(","); err != nil {
				return nil, err
			}
			if p.isOp("}") {
				break
			}
		}
		key, err := p.expression(true)
		if err != nil {
			return nil, err
		}
		if _, err := p.expectOp(":"); err != nil {
			return nil, err
		}
		val, err := p.expression(true)
		if err != nil {
			return nil, err
		}
		d.keys = append(d.keys, key)
		d.vals = append(d.vals, val)
	}
	_, err := p.expectOp("}")
	return d, err
}

func (p *parser) postfix(e expr) (expr, error) {
	for {
		var err error
		switch {
		case p.isOp("."), p.isOp("["):
			e, err = p.subscript(e)
		case p.isOp("("):
			e, err = p.call(e)
		default:
			return e, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *parser) filterExpr(e expr) (expr, error) {
	for {
		var err error
		switch {
		case p.isOp("|"):
			e, err = p.filters(e)
		case p.isName("is"):
			e, err = p.test(e)
		case p.isOp("("):
			e, err = p.call(e)
		default:
			return e, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *parser) subscript(x expr) (expr, error) {
	t := p.next()
	l := line(t.line)
	if t.text == "." {
		attr := p.next()
		switch attr.typ {
		case tokName:
			return &attrExpr{l, x, attr.text}, nil
		case tokInteger:
			return &itemExpr{l, x, &constExpr{line(attr.line), attr.num}}, nil
		}
		return nil, p.fail(attr.line, "expected name or number")
	}
	var keys []expr
	for !p.isOp("]") {
		if len(keys) > 0 {
			if _, err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		key, err := p.subscribed()
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	p.next()
	if len(keys) == 1 {
		return &itemExpr{l, x, keys[0]}, nil
	}
	for _, k := range keys {
		if _, ok := k.(*sliceExpr); ok {
			return nil, at(t.line, errf(KindUnsupported, "a slice among several subscripts is not supported"))
		}
	}
	return &itemExpr{l, x, &tupleExpr{l, keys}}, nil
}

// subscribed parses one subscript: an expression or a slice.
func (p *parser) subscribed() (expr, error) {
	s := &sliceExpr{line: line(p.cur().line)}
	var err error
	if !p.isOp(":") {
		e, err := p.expression(true)
		if err != nil || !p.isOp(":") {
			return e, err
		}
		s.start = e
	}
	p.next() // the colon
	part := func(dst *expr) error {
		if p.isOp("]") || p.isOp(",") || p.isOp(":") {
			return nil
		}
		*dst, err = p.expression(true)
		return err
	}
	if err := part(&s.stop); err != nil {
		return nil, err
	}
	if p.skipOp(":") {
		if err := part(&s.step); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (p *parser) call(fn expr) (expr, error) {
	l := p.cur().line
	args, err := p.callArgs()
	return &callExpr{line(l), fn, args}, err
}

func (p *parser) callArgs() (arguments, error) {
	var a arguments
	open, err := p.expectOp("(")
	if err != nil {
		return a, err
	}
	bad := func() (arguments, error) {
		return a, p.fail(open.line, "invalid syntax for function call expression")
	}
	comma := false
	for !p.isOp(")") {
		if comma {
			if _, err := p.expectOp(","); err != nil {
				return a, err
			}
			if p.isOp(")") {
				break
			}
		}
		comma = true
		switch {
		case p.skipOp("*"):
			if a.star != nil || a.starStar != nil {
				return bad()
			}
			a.star, err = p.expression(true)
		case p.skipOp("**"):
			if a.starStar != nil {
				return bad()
			}
			a.starStar, err = p.expression(true)
		case p.cur().typ == tokName && p.look().typ == tokOperator && p.look().text == "=":
			if a.starStar != nil {
				return bad()
			}
			name := p.next()
			p.next()
			if slices.ContainsFunc(a.kw, func(k keyword) bool { return k.name == name.text }) {
				return a, p.fail(name.line, "keyword argument repeated: %s", name.text)
			}
			var val expr
			val, err = p.expression(true)
			a.kw = append(a.kw, keyword{name.text, val})
		default:
			if a.star != nil || a.starStar != nil || a.kw != nil {
				return bad()
			}
			var val expr
			val, err = p.expression(true)
			a.pos = append(a.pos, val)
		}
		if err != nil {
			return a, err
		}
	}
	p.next()
	return a, nil
}

// filters parses a chain of "| name(args)" on e; e is nil in a block.
func (p *parser) filters(e expr) (expr, error) {
	for p.skipOp("|") {
		var err error
		if e, err = p.filter(e); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func (p *parser) filter(x expr) (expr, error) {
	l := p.cur().line
	name, err := p.dottedName()
	if err != nil {
		return nil, err
	}
	f := &filterExpr{line: line(l), x: x, name: name}
	if p.isOp("(") {
		f.args, err = p.callArgs()
	}
	return f, err
}

func (p *parser) dottedName() (string, error) {
	t, err := p.expectType(tokName)
	if err != nil {
		return "", err
	}
	name := t.text
	for p.skipOp(".") {
		t, err := p.expectType(tokName)
		if err != nil {
			return "", err
		}
		name += "." + t.text
	}
	return name, nil
}

func (p *parser) test(x expr) (expr, error) {
	l := line(p.next().line)
	negated := p.skipName("not")
	name, err := p.dottedName()
	if err != nil {
		return nil, err
	}
	t := &testExpr{line: l, x: x, name: name}
	switch {
	case p.isOp("("):
		if t.args, err = p.callArgs(); err != nil {
			return nil, err
		}
	case p.startsTestArgument():
		if p.isName("is") {
			return nil, p.fail(p.cur().line, "You cannot chain multiple tests with is")
		}
		arg, err := p.primary(false)
		if err != nil {
			return nil, err
		}
		if arg, err = p.postfix(arg); err != nil {
			return nil, err
		}
		t.args.pos = []expr{arg}
	}
	if negated {
		return &notExpr{l, t}, nil
	}
	return t, nil
}

// startsTestArgument reports whether "is name" is followed by its one argument.
func (p *parser) startsTestArgument() bool {
	switch t := p.cur(); t.typ {
	case tokName:
		return t.text != "else" && t.text != "or" && t.text != "and"
	case tokString, tokInteger, tokFloat:
		return true
	}
	return p.isOp("[") || p.isOp("{")
}
