//go:build !unix

package hub

import "os"

// flock is not there: every process downloads. Contents are checked, so that
// costs time alone.
func flock(*os.File) error { return nil }
