// Command vllm-frontend serves the OpenAI-compatible API and /metrics for one
// or more engine cores. `vllm-frontend top` shows a running one in the terminal.
package main

import (
	"context"
	"log/slog"
	"os"

	"govllm/cmd/internal/flags"
	"govllm/cmd/internal/process"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "top" { // a model in a directory of that name is ./top
		os.Exit(top(os.Args[2:]))
	}
	opts, set := flags.NewFrontend()
	os.Exit(process.Main("frontend", set, opts.Logging, func(ctx context.Context, log *slog.Logger) error {
		return run(ctx, opts, set.Values(), log)
	}))
}
