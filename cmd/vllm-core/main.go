// Command vllm-core is the engine core: it runs a model for a vllm-frontend.
package main

import (
	"context"
	"log/slog"
	"os"

	"govllm/cmd/internal/flags"
	"govllm/cmd/internal/process"
	_ "govllm/kernels/cpu"
	_ "govllm/kernels/ref"
)

func main() {
	opts, set := flags.NewCore()
	os.Exit(process.Main("core", set, opts.Logging, func(ctx context.Context, log *slog.Logger) error {
		return run(ctx, opts, log)
	}))
}
