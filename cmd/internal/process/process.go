// Package process holds what both commands do with their process: signals,
// exit statuses, scheduler threads.
package process

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
)

// ExitUsage is the exit status for a command line that cannot be served.
const ExitUsage = 2

// UsageError prints what is wrong with a command line, a fault a line.
func UsageError(command string, err error) int {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintf(os.Stderr, "%s: %s\n", command, line)
	}
	return ExitUsage
}

// Signals returns a context that the first SIGINT or SIGTERM ends. A second
// one ends the process at once, with the status shells give for it.
func Signals(log *slog.Logger) (ctx context.Context, stop func()) {
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

// RaiseProcs adds the goroutines that must run at once when a peer speaks to
// GOMAXPROCS, unless the user has set it. With only as many as there are
// cores, a message to a busy process waits for the Go scheduler's 10 ms time
// slice. It returns the number of cores that Go had found.
func RaiseProcs(receivers int) (cores int) {
	cores = runtime.GOMAXPROCS(0)
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(cores + receivers)
	}
	return cores
}
