// Command load measures servers of the OpenAI-compatible API.
//
//	load serve         as `vllm bench serve`: send requests, print the result
//	load mock-server   a server that does nothing, to measure the generator with
//	load headroom      how much faster than our server the generator could be
//	load overhead      what statistics, or scrapes, cost our server, in pairs
//	load probe         /metrics and /health while many streams run
//
// README.md has how we use them and what they have shown.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// command is one of the things this program does.
type command struct {
	name, summary string
	// run declares its flags on set, parses args by it, and works.
	run func(ctx context.Context, set *flag.FlagSet, args []string) error
}

var commands = []command{
	{"serve", "send requests to a server and print what they measured, as `vllm bench serve` does", serve},
	{"mock-server", "serve constant answers at once: what the load generator itself can take", mockServer},
	{"headroom", "compare the generator's speed against the mock server with that against vllm-frontend and vllm-core", headroom},
	{"overhead", "measure what statistics or scrapes cost vllm-frontend and vllm-core, in interleaved pairs", overhead},
	{"probe", "measure /metrics and /health while many streams run", probe},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := runCommand(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func runCommand(ctx context.Context, args []string) error {
	if len(args) == 0 || slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		fmt.Println("usage: load COMMAND [flags]; load COMMAND --help lists its flags")
		for _, c := range commands {
			fmt.Printf("  %-12s %s\n", c.name, c.summary)
		}
		return nil
	}
	for _, c := range commands {
		if c.name != args[0] {
			continue
		}
		set := flag.NewFlagSet("load "+c.name, flag.ContinueOnError)
		set.Usage = func() { help(set, c.summary) }
		err := c.run(ctx, set, args[1:])
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	return fmt.Errorf("there is no command %q; load help lists them", args[0])
}

// help prints flags as they are written on the command line, with defaults.
func help(set *flag.FlagSet, summary string) {
	out := set.Output()
	fmt.Fprintf(out, "usage: %s [flags]: %s\n", set.Name(), summary)
	set.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		fmt.Fprintf(out, "  --%s\n        %s", strings.TrimSpace(f.Name+" "+value), usage)
		if f.DefValue != "" && f.DefValue != "false" {
			fmt.Fprintf(out, " (%s)", f.DefValue)
		}
		fmt.Fprintln(out)
	})
}

// parse is for the commands: no argument may be left over.
func parse(set *flag.FlagSet, args []string) error {
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: every option is a --flag", set.Arg(0))
	}
	return nil
}
