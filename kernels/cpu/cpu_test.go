package cpu_test

import (
	"testing"

	"govllm/kernels"
	"govllm/kernels/cpu"
	"govllm/kernels/kerneltest"
)

// TestSuite runs on every level that the machine has.
func TestSuite(t *testing.T) {
	for _, isa := range cpu.Levels() {
		t.Run(isa, func(t *testing.T) {
			kerneltest.Run(t, func(opt kernels.Options) (kernels.Device, error) {
				opt.ISA = isa
				return cpu.Open(opt)
			})
		})
	}
}
