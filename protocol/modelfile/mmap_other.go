//go:build !unix

package modelfile

import "os"

// mapFile reads the whole file where there is no mmap.
func mapFile(path string) (mapping, error) {
	data, err := os.ReadFile(path)
	return mapping{data: data}, err
}

// release does nothing here.
func (w *Weights) release([]byte) {}
