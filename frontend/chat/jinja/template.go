package jinja

import (
	"context"
	"time"
)

// Template is a parsed template: immutable and safe for concurrent renders.
type Template struct{ prog *program }

// Parse compiles a template in the environment of transformers' chat
// templates: trim_blocks, lstrip_blocks, loop controls, {% generation %}. What
// the engine lacks is refused here, by name and line, as an *Error.
func Parse(source string) (*Template, error) {
	body, err := parse(source)
	if err != nil {
		return nil, err
	}
	prog, err := resolve(body)
	if err != nil {
		return nil, err
	}
	return &Template{prog}, nil
}

// Options are those of one render; the zero value will do.
type Options struct {
	Context context.Context  // ends a long render early; nil never does
	Now     func() time.Time // for strftime_now, in the zone to print; nil is time.Now
	Limits  Limits
}

// Render evaluates the template with the variables of vars. Every error is an
// *Error.
func (t *Template) Render(vars *Dict, opts Options) (string, error) {
	r := &run{ctx: opts.Context, now: opts.Now, limits: opts.Limits.orDefault()}
	if r.now == nil {
		r.now = time.Now
	}
	p := t.prog
	st := &state{
		run: r,
		act: &activation{slots: make([]Value, p.root.slots)},
		ctx: &renderContext{vars: map[string]Value{}, data: vars, blocks: p.blocks},
		out: &writer{run: r},
	}
	st.enter(p.enter)
	if p.self >= 0 {
		st.act.slots[p.self] = &selfRef{st.ctx}
	}
	if _, err := st.body(p.body); err != nil {
		return "", err
	}
	return st.out.String(), nil
}

// Variables lists the names that the template takes from its variables, sorted:
// those it reads before it sets them, Jinja's own globals left out.
func (t *Template) Variables() []string { return t.prog.contextNames() }
