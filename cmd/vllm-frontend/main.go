// Command vllm-frontend serves the OpenAI-compatible API and /metrics for one
// or more engine cores.
package main

import (
	"context"
	"log/slog"
	"os"

	"govllm/cmd/internal/flags"
	"govllm/cmd/internal/process"
)

func main() {
	opts, set := flags.NewFrontend()
	os.Exit(process.Main("frontend", set, opts.Logging, func(ctx context.Context, log *slog.Logger) error {
		return run(ctx, opts, log)
	}))
}
