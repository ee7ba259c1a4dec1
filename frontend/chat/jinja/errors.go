package jinja

import (
	"errors"
	"fmt"
)

// One error type for everything, since a user sees them all as a 400.

// Kind says what went wrong, by the Python exception it stands for.
type Kind int

const (
	KindSyntax      Kind = iota + 1 // TemplateSyntaxError: the template does not parse
	KindUndefined                   // UndefinedError: a missing name or attribute was used
	KindType                        // TypeError: the value is of a type the operation refuses
	KindValue                       // ValueError, ZeroDivisionError, OverflowError, AssertionError, …
	KindSecurity                    // SecurityError: the sandbox refuses it
	KindRaised                      // raise_exception(message): the template's own words
	KindUnsupported                 // Jinja has it, this engine does not
	KindLimit                       // the work, memory or depth bound was reached
)

var kindNames = [...]string{
	KindSyntax: "syntax", KindUndefined: "undefined", KindType: "type", KindValue: "value",
	KindSecurity: "security", KindRaised: "raised", KindUnsupported: "unsupported", KindLimit: "limit",
}

func (k Kind) String() string {
	if k > 0 && int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

// Error is every failure of Parse and Render.
type Error struct {
	Kind Kind
	Line int    // 1-based line of the template; 0 if there is none
	Msg  string // as Python words it; for KindRaised the template's own message
}

func (e *Error) Error() string {
	if e.Kind == KindRaised || e.Line == 0 {
		return e.Msg
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Msg)
}

func errf(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Msg: fmt.Sprintf(format, args...)}
}

func typeErrf(format string, args ...any) error  { return errf(KindType, format, args...) }
func valueErrf(format string, args ...any) error { return errf(KindValue, format, args...) }

// at notes the line on an error that has none yet: the innermost caller wins.
func at(line int, err error) error {
	var e *Error
	if errors.As(err, &e) && e.Line == 0 {
		e.Line = line
	}
	return err
}
