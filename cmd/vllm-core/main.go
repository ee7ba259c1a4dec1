// Command vllm-core is the engine core: it runs a model for a vllm-frontend.
package main

import (
	"errors"
	"fmt"
	"os"

	"govllm/cmd/internal/cli"
	"govllm/cmd/internal/flags"
	"govllm/cmd/internal/logging"
	"govllm/cmd/internal/process"
	"govllm/ipc"
	_ "govllm/kernels/cpu"
	_ "govllm/kernels/ref"
)

func main() { os.Exit(start(os.Args[1:])) }

func start(args []string) int {
	opts, set := flags.NewCore()
	if err := set.Parse(args); errors.Is(err, cli.ErrHelp) {
		set.Help(os.Stdout)
		return 0
	} else if err != nil {
		return process.UsageError(flags.CoreCommand, err)
	}
	log, err := logging.Setup("core")
	if err != nil {
		return process.UsageError(flags.CoreCommand, err)
	}
	cores := process.RaiseProcs(ipc.Receivers)
	if opts.Threads == 0 {
		opts.Threads = cores
	}
	ctx, stop := process.Signals(log)
	defer stop()
	if err := run(ctx, opts, log); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", flags.CoreCommand, err)
		return 1
	}
	return 0
}
