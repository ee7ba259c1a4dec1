package kernels_test

import (
	"fmt"

	"govllm/kernels"
	_ "govllm/kernels/ref"
)

// A step: record, Sync, read.
func Example() {
	dev, err := kernels.Open("ref", kernels.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()
	queue, _ := dev.NewQueue(8)
	// Two bfloat16 rows: (1, 0) and (0, 2).
	table, _ := kernels.PackWeight(dev, kernels.BF16, 2, 2, kernels.BF16, []byte{0x80, 0x3f, 0, 0, 0, 0, 0, 0x40})
	ids, _ := dev.NewInts(3)
	x, _ := dev.NewActivation(3, 2)
	logits, _ := dev.NewActivation(3, 2)

	queue.Upload(ids, []int32{1, 0, 1})
	queue.Embed(x, table, ids, 1, 3)
	queue.Linear(logits, x, table, nil, false, 3)
	queue.Sample(ids, logits, make([]kernels.SamplingRow, 3)) // temperature 0
	tokens, rows := make([]int32, 3), make([]float32, 6)
	queue.Download(tokens, ids)
	queue.DownloadRows(rows, logits, 3)
	if err := queue.Sync(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tokens, rows)
	// Output: [1 0 1] [0 4 1 0 0 4]
}
