//go:build unix

package modelfile

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapFile maps a file read-only. The file may be replaced afterwards, not cut.
func mapFile(path string) (mapping, error) {
	f, err := os.Open(path)
	if err != nil {
		return mapping{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return mapping{}, err
	}
	size := info.Size()
	switch {
	case !info.Mode().IsRegular():
		return mapping{}, fmt.Errorf("%s is not a regular file: %w", path, ErrInvalid)
	case size == 0:
		return mapping{}, nil // an empty file can't be mapped
	case int64(int(size)) != size:
		return mapping{}, fmt.Errorf("%s: %d bytes don't fit the address space: %w", path, size, ErrUnsupported)
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return mapping{}, fmt.Errorf("mapping %s: %w", path, err)
	}
	return mapping{data: data, unmap: func() error { return unix.Munmap(data) }}, nil
}

// release lets the system take the pages of a part of a mapping.
func (w *Weights) release(part []byte) {
	for _, f := range w.files {
		if f.unmap == nil || !within(part, f.data) {
			continue
		}
		// Whole pages: the one that the part begins in ends with it, or goes
		// with what comes before.
		page := uintptr(os.Getpagesize())
		start := uintptr(unsafe.Pointer(unsafe.SliceData(part)))
		first := start / page * page
		last := (start + uintptr(len(part))) / page * page
		base := uintptr(unsafe.Pointer(unsafe.SliceData(f.data)))
		if first < last {
			// A hint: where it fails, nothing is lost.
			_ = unix.Madvise(f.data[first-base:last-base], unix.MADV_DONTNEED)
		}
	}
}

func within(part, whole []byte) bool {
	if len(part) == 0 {
		return false
	}
	p, w := uintptr(unsafe.Pointer(unsafe.SliceData(part))), uintptr(unsafe.Pointer(unsafe.SliceData(whole)))
	return p >= w && p+uintptr(len(part)) <= w+uintptr(len(whole))
}
