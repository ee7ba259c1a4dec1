package hub

import "golang.org/x/sys/unix"

// freeBytes is the space that this user may fill where a folder lies.
func freeBytes(dir string) (free int64, ok bool) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
