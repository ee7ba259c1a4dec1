//go:build !cgo

package cpu

import (
	"fmt"
	"os"

	"govllm/kernels"
	"govllm/kernels/ref"
)

// Open returns the reference: this program was built without cgo.
func Open(opt kernels.Options) (kernels.Device, error) {
	if opt.ISA == "" {
		opt.ISA = os.Getenv(ISAEnv)
	}
	if opt.ISA != "" {
		return nil, fmt.Errorf("cpu: no instruction set %q: this program was built without cgo", opt.ISA)
	}
	return ref.Open(opt)
}

// Levels returns no name: the reference has no levels.
func Levels() []string { return nil }
