// Package jinja renders chat templates exactly as Python's Jinja does in the
// environment transformers sets up for them: ImmutableSandboxedEnvironment,
// trim_blocks, lstrip_blocks, loop controls, {% generation %}, raise_exception,
// strftime_now and tojson as json.dumps.
//
// A template decides what a model sees, so it must come out byte for byte as it
// did in training, and what Python refuses must be refused: a wrong prompt is
// worse than an error. Hence Python's values (int and float apart, None,
// tuples, ordered dicts, its text forms and error messages) and Jinja's own
// scope rules.
//
//	lexer.go, parser.go → ast.go → scope.go (names to slots) → exec.go
//	value.go, dict.go, number.go, compare.go, repr.go, iterate.go   Python's values
//	attr.go, strmethods.go, objects.go, globals.go                  their methods, and functions
//	filters*.go, htmltext.go, predicates.go, tojson.go, format.go   filters and tests
//	limits.go                                                       bounds on work and memory
//
// A Template is compiled once, immutable, and renders in any number of
// goroutines. There is no template inheritance: include, import and extends
// are refused at Parse, by name and line, as are the few filters that are
// random or make HTML (urlize, xmlattr).
//
// We differ from Python in: object addresses print as 0x0; complex numbers,
// str.encode and lipsum() are refused; a subscript out of a constant that has
// none, such as {{ none[1:] }}, is always an error (Jinja folds it to nothing).
//
// Source: jinja2 3.1.6 (lexer, parser, idtracking, compiler, runtime, filters),
// transformers' chat_template_utils.py.
package jinja
