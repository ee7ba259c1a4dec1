package jinja

// globals are the functions every template sees.
var globals = map[string]Value{
	"range":           &builtin{"range", globalRange},
	"dict":            &builtin{"dict", globalDict},
	"namespace":       &builtin{"namespace", globalNamespace},
	"cycler":          &builtin{"cycler", globalCycler},
	"joiner":          &builtin{"joiner", globalJoiner},
	"lipsum":          &builtin{"lipsum", globalLipsum},
	"raise_exception": &builtin{"raise_exception", globalRaise},
	"strftime_now":    &builtin{"strftime_now", globalStrftime},
}

func globalRange(_ *state, a args) (Value, error) {
	v, err := a.positional("range", 1, 3)
	if err != nil {
		return nil, err
	}
	r := &pyRange{0, 0, 1}
	bounds := []*int{&r.stop}
	if len(a.pos) > 1 {
		bounds = []*int{&r.start, &r.stop, &r.step}[:len(a.pos)]
	}
	for i, dst := range bounds {
		if *dst, err = intArg(v[i], 0); err != nil {
			return nil, err
		}
		if *dst == maxIndex || *dst == -maxIndex {
			return nil, errf(KindUnsupported, "range() beyond ±2**62 is not supported")
		}
	}
	if r.step == 0 {
		return nil, valueErrf("range() arg 3 must not be zero")
	}
	if n := r.len(); n > maxRange || n < 0 {
		return nil, valueErrf("Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", maxRange)
	}
	return r, nil
}

// dictFrom is dict(mapping or pairs, **keywords).
func dictFrom(st *state, fn string, a args) (*Dict, error) {
	if len(a.pos) > 1 {
		return nil, typeErrf("%s expected at most 1 argument, got %d", fn, len(a.pos))
	}
	d := NewDict()
	if len(a.pos) == 1 {
		if src, ok := a.pos[0].(*Dict); ok {
			d = src.Clone()
		} else if err := addPairs(st, d, a.pos[0]); err != nil {
			return nil, err
		}
	}
	for _, k := range a.kw {
		d.Set(k.name, k.val)
	}
	return d, st.run.chargeItems(4 * d.Len())
}

func addPairs(st *state, d *Dict, v Value) error {
	pairs, err := st.run.collect(v)
	if err != nil {
		return err
	}
	for i, p := range pairs {
		if _, ok := iterate(p); !ok {
			return typeErrf("cannot convert dictionary update sequence element #%d to a sequence", i)
		}
		kv, err := st.run.collect(p)
		if err != nil {
			return err
		}
		if len(kv) != 2 {
			return valueErrf("dictionary update sequence element #%d has length %d; 2 is required", i, len(kv))
		}
		if err := d.setKey(kv[0], kv[1]); err != nil {
			return err
		}
	}
	return nil
}

func globalDict(st *state, a args) (Value, error) {
	d, err := dictFrom(st, "dict", a)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func globalNamespace(st *state, a args) (Value, error) {
	d, err := dictFrom(st, "dict", a)
	if err != nil {
		return nil, err
	}
	return &namespace{d}, nil
}

func globalCycler(_ *state, a args) (Value, error) {
	if len(a.kw) > 0 {
		return nil, typeErrf("Cycler.__init__() got an unexpected keyword argument '%s'", a.kw[0].name)
	}
	if len(a.pos) == 0 {
		return nil, errf(KindValue, "at least one item has to be provided")
	}
	return &cycler{items: a.pos}, nil
}

func globalJoiner(_ *state, a args) (Value, error) {
	v, err := a.bind("Joiner.__init__", "sep?")
	if err != nil {
		return nil, err
	}
	if v[0] == nil {
		v[0] = Str(", ")
	}
	return &joiner{sep: v[0]}, nil
}

func globalLipsum(*state, args) (Value, error) {
	return nil, errf(KindUnsupported, "lipsum() is not supported: rendering must be deterministic")
}

// globalRaise is transformers' raise_exception(message).
func globalRaise(st *state, a args) (Value, error) {
	v, err := a.bind("raise_exception", "message")
	if err != nil {
		return nil, err
	}
	text, err := st.run.str(v[0])
	if err != nil {
		return nil, err
	}
	return nil, &Error{Kind: KindRaised, Msg: text}
}

// globalStrftime is transformers' strftime_now(format).
func globalStrftime(st *state, a args) (Value, error) {
	v, err := a.bind("strftime_now", "format")
	if err != nil {
		return nil, err
	}
	layout, ok := asStr(v[0])
	if !ok {
		return nil, typeErrf("strftime() argument 1 must be str, not %s", v[0].typeName())
	}
	text, err := strftime(st.run.now(), layout)
	if err != nil {
		return nil, err
	}
	return Str(text), st.run.charge(len(text))
}
