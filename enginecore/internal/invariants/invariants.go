// Package invariants is how the engine core reports its own mistakes.
//
// A broken invariant is never an error value: nobody could handle it. Fail
// panics with a sentence that names the block or the request. Checks that cost
// more than a comparison stand behind Enabled, which is a constant, so that
// without the build tag "invariants" they cost nothing at all.
//
//	if invariants.Enabled {
//		c.checkAll()
//	}
package invariants

import "fmt"

// Fail panics. The message names who broke what.
func Fail(format string, args ...any) {
	panic("enginecore: invariant broken: " + fmt.Sprintf(format, args...))
}
