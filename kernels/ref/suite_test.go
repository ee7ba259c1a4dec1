package ref_test

import (
	"testing"

	"govllm/kernels/kerneltest"
	"govllm/kernels/ref"
)

func TestSuite(t *testing.T) { kerneltest.Run(t, ref.Open) }
