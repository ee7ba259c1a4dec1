package jinja

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
