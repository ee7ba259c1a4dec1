// Command fetch-model brings a model of the Hugging Face hub onto this machine
// and prints its path.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"govllm/cmd/internal/flags"
	"govllm/cmd/internal/logging"
	"govllm/cmd/internal/process"
	"govllm/cmd/internal/source"
	"govllm/protocol/modelfile"
	"govllm/protocol/modelfile/hub"
)

func main() {
	opts, set := flags.NewFetch()
	logs := func() (logging.Config, error) { return logging.Config{}, nil }
	os.Exit(process.Main("fetch", set, logs, func(ctx context.Context, log *slog.Logger) error {
		return run(ctx, opts, log)
	}))
}

func run(ctx context.Context, opts *flags.Fetch, log *slog.Logger) error {
	if opts.Model == "" {
		return errors.New("give a model, OWNER/NAME; see --help")
	}
	path, err := source.Path(ctx, source.Want{Name: opts.Model, Revision: opts.Revision, Part: hub.Everything}, &opts.Hub, log)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil && path != modelfile.Builtin {
		return fmt.Errorf("model %s: %w", opts.Model, err)
	}
	fmt.Println(path)
	return nil
}
