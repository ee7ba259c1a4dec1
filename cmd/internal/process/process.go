// Package process is what both commands do with their process: arguments, log,
// signals, exit status, scheduler threads.
package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"govllm/cmd/internal/cli"
	"govllm/cmd/internal/logging"
	"govllm/ipc"
)

// exitUsage is the exit status for a command line that cannot be served.
const exitUsage = 2

// Main parses the arguments, runs the command until it ends or a signal ends
// it, and returns the exit status. name is the process's in log lines, which
// logs configures once the arguments are parsed.
func Main(name string, set *cli.Set, logs func() (logging.Config, error), run func(ctx context.Context, log *slog.Logger) error) int {
	if err := set.Parse(os.Args[1:]); errors.Is(err, cli.ErrHelp) {
		set.Help(os.Stdout)
		return 0
	} else if err != nil {
		return usageError(set.Command, err)
	}
	config, err := logs()
	if err != nil {
		return usageError(set.Command, err)
	}
	log, err := logging.Setup(name, config)
	if err != nil {
		return usageError(set.Command, err)
	}
	raiseProcs(ipc.Receivers)
	ctx, stop := signals(log)
	defer stop()
	if err := run(ctx, log); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", set.Command, err)
		return 1
	}
	return 0
}

// usageError prints what is wrong with a command line, a fault a line.
func usageError(command string, err error) int {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintf(os.Stderr, "%s: %s\n", command, line)
	}
	return exitUsage
}

// signals returns a context that the first SIGINT or SIGTERM ends. A second
// one ends the process at once, with the status shells give for it.
func signals(log *slog.Logger) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ch := make(chan os.Signal, 2) // the first and the second
	signal.Notify(ch, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		s, ok := <-ch
		if !ok {
			return
		}
		log.Info("stopping; a second signal stops at once", "signal", s.String())
		cancel()
		if s, ok = <-ch; ok {
			os.Exit(128 + int(s.(syscall.Signal)))
		}
	}()
	return ctx, func() {
		signal.Stop(ch)
		close(ch)
		cancel()
	}
}

// raiseProcs adds the goroutines that must run at once when a peer speaks to
// GOMAXPROCS, unless the user has set it. With only as many as there are
// cores, a message to a busy process waits for the Go scheduler's 10 ms time
// slice.
func raiseProcs(receivers int) {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + receivers)
	}
}
