//go:build !linux

package hub

// freeBytes is not known here: a full disk shows when it is full.
func freeBytes(string) (free int64, ok bool) { return 0, false }
