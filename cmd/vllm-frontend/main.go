// Command vllm-frontend serves the OpenAI-compatible API and /metrics for one
// or more engine cores.
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
)

func main() { os.Exit(start(os.Args[1:])) }

func start(args []string) int {
	opts, set := flags.NewFrontend()
	if err := set.Parse(args); errors.Is(err, cli.ErrHelp) {
		set.Help(os.Stdout)
		return 0
	} else if err != nil {
		return process.UsageError(flags.FrontendCommand, err)
	}
	log, err := logging.Setup("frontend")
	if err != nil {
		return process.UsageError(flags.FrontendCommand, err)
	}
	process.RaiseProcs(ipc.Receivers)
	ctx, stop := process.Signals(log)
	defer stop()
	if err := run(ctx, opts, log); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", flags.FrontendCommand, err)
		return 1
	}
	return 0
}
