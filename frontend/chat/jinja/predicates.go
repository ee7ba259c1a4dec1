package jinja

// The tests: what may stand after "is".

var tests map[string]*test

func init() {
	table := map[string]func(*state, Value, args) (Value, error){
		"odd": testModulo("odd", 2, 1), "even": testModulo("even", 2, 0), "divisibleby": testDivisible,
		"defined": is("defined", func(x Value) bool { return !isUndefined(x) }), "undefined": is("undefined", isUndefined),
		"none":    is("none", func(x Value) bool { return x == None }),
		"boolean": is("boolean", func(x Value) bool { _, ok := x.(Bool); return ok }),
		"true":    is("true", func(x Value) bool { return x == Bool(true) }),
		"false":   is("false", func(x Value) bool { return x == Bool(false) }),
		"integer": is("integer", func(x Value) bool { _, b := x.(Bool); _, i := asInt(x); return i && !b }),
		"float":   is("float", func(x Value) bool { _, ok := x.(Float); return ok }),
		"number":  is("number", isNumber), "mapping": is("mapping", isMapping),
		"string":   is("string", func(x Value) bool { _, ok := asStr(x); return ok }),
		"sequence": is("sequence", isSequence), "iterable": is("iterable", func(x Value) bool { _, ok := iterate(x); return ok }),
		"callable": is("callable", callable), "escaped": is("escaped", func(x Value) bool { _, ok := x.(markup); return ok }),
		"lower": testCase("lower", isLower), "upper": testCase("upper", isUpper),
		"sameas": testSame, "in": testIn, "filter": testFilter, "test": testTest,
	}
	for op, names := range map[string][]string{
		"==": {"==", "eq", "equalto"}, "!=": {"!=", "ne"}, "<": {"<", "lt", "lessthan"}, "<=": {"<=", "le"},
		">": {">", "gt", "greaterthan"}, ">=": {">=", "ge"},
	} {
		for _, name := range names {
			table[name] = testCompare(op)
		}
	}
	tests = make(map[string]*test, len(table))
	for name, call := range table {
		tests[name] = &test{call}
	}
}

func isUndefined(x Value) bool {
	_, ok := x.(*undefined)
	return ok
}

// is makes a test of a predicate without arguments.
func is(name string, f func(Value) bool) func(*state, Value, args) (Value, error) {
	return func(_ *state, x Value, a args) (Value, error) {
		_, err := a.bind("test_" + name)
		return Bool(f(x)), err
	}
}

// isSequence: has a length and subscripts, which dicts do too.
func isSequence(x Value) bool {
	switch x.(type) {
	case *dictView, *loopContext:
		return false
	}
	_, ok := length(x)
	return ok
}

func testModulo(name string, n, want int) func(*state, Value, args) (Value, error) {
	return func(st *state, x Value, a args) (Value, error) {
		if _, err := a.bind("test_" + name); err != nil {
			return nil, err
		}
		return modulo(st, x, Int(n), Int(want))
	}
}

func testDivisible(st *state, x Value, a args) (Value, error) {
	v, err := a.bind("test_divisibleby", "num")
	if err != nil {
		return nil, err
	}
	return modulo(st, x, v[0], Int(0))
}

// modulo is x % n == want.
func modulo(st *state, x, n, want Value) (Value, error) {
	m, err := st.run.binary("%", x, n)
	if err != nil {
		return nil, err
	}
	eq, err := st.run.equal(m, want)
	return Bool(eq), err
}

func testCase(name string, f func(string) bool) func(*state, Value, args) (Value, error) {
	return func(st *state, x Value, a args) (Value, error) {
		if _, err := a.bind("test_" + name); err != nil {
			return nil, err
		}
		s, err := st.run.str(x)
		return Bool(f(s)), err
	}
}

func testSame(_ *state, x Value, a args) (Value, error) {
	v, err := a.bind("test_sameas", "other")
	if err != nil {
		return nil, err
	}
	return Bool(same(x, v[0])), nil
}

func testIn(st *state, x Value, a args) (Value, error) {
	v, err := a.bind("test_in", "seq")
	if err != nil {
		return nil, err
	}
	in, err := st.run.contains(v[0], x)
	return Bool(in), err
}

func testFilter(_ *state, x Value, a args) (Value, error) {
	name, err := registryName("filter", x, a)
	return Bool(filters[name] != nil), err
}

func testTest(_ *state, x Value, a args) (Value, error) {
	name, err := registryName("test", x, a)
	return Bool(tests[name] != nil), err
}

// registryName is x as a key of the filters or tests; "" is no key of either.
func registryName(test string, x Value, a args) (string, error) {
	if _, err := a.bind("test_" + test); err != nil {
		return "", err
	}
	if _, err := hash(x, 0); err != nil {
		return "", err
	}
	name, _ := asStr(x)
	return name, nil
}

func testCompare(op string) func(*state, Value, args) (Value, error) {
	return func(st *state, x Value, a args) (Value, error) {
		v, err := a.positional(op, 1, 1)
		if err != nil {
			return nil, err
		}
		ok, err := st.run.compare(op, x, v[0])
		return Bool(ok), err
	}
}
