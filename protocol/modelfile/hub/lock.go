package hub

import (
	"context"
	"errors"
	"os"
	"time"
)

// lockPoll is how often a waiting process looks: the system's own wait could
// not be ended by a signal's context.
const lockPoll = 100 * time.Millisecond

var errLocked = errors.New("locked")

// lock takes a file's exclusive lock, which the operating system takes back
// when the process ends. waiting is called once if another holds it.
func lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	for waited := false; ; {
		f, err := tryLock(path)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, errLocked) {
			return nil, err
		}
		if !waited {
			waited = true
			waiting()
		}
		if err := pause(ctx, lockPoll); err != nil {
			return nil, err
		}
	}
}

// tryLock returns the locked file, or errLocked. The file stays when the lock
// goes: who removed it would let two others hold two locks of one name.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o664)
	if err != nil {
		return nil, err
	}
	if err := flock(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	mine, err := f.Stat()
	if err == nil {
		var there os.FileInfo
		if there, err = os.Stat(path); err == nil && os.SameFile(mine, there) {
			return f, nil
		}
	}
	_ = f.Close()
	if err == nil || errors.Is(err, os.ErrNotExist) {
		return nil, errLocked // another program removed the file: next time
	}
	return nil, err
}
