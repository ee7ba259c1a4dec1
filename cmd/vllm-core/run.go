package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"govllm/cmd/internal/flags"
	"govllm/enginecore"
	"govllm/enginecore/kvcache"
	"govllm/enginecore/sched"
	"govllm/ipc"
)

// closeGrace bounds sending the last messages: the linger of vLLM's engines.
const closeGrace = 4 * time.Second

// run serves until ctx ends (nil), the frontend is lost or the engine fails.
func run(ctx context.Context, opts *flags.Core, log *slog.Logger) error {
	e, conn, err := prepare(ctx, opts, log)
	if err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop before it began
		}
		return err
	}
	defer closeConn(conn, log)
	loop, err := newLoop(opts, e, conn, log)
	if err != nil {
		return err
	}
	if err := conn.Ready(ctx, e.registration(opts, rand.Text())); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	log.Info("ready", "frontend", opts.HandshakeAddress(), "rank", opts.Rank)
	defer context.AfterFunc(ctx, func() { end(loop, opts) })()
	if err := loop.Run(); err != nil {
		if errors.Is(err, ipc.ErrDisconnected) && toldToStop(ctx) {
			return nil // as the frontend was, which was quicker
		}
		return err // the device may still be at work: leave it to the process's end
	}
	return e.close()
}

// prepare loads the model while the frontend is being looked for: whichever of
// the two cannot be had ends both.
func prepare(ctx context.Context, opts *flags.Core, log *slog.Logger) (e *engine, conn *ipc.EngineConn, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		conn, err = dial(ctx, opts, log)
		return err
	})
	group.Go(func() (err error) {
		e, err = load(ctx, opts, log)
		return err
	})
	if err := group.Wait(); err != nil {
		if conn != nil {
			closeConn(conn, log)
		}
		return nil, nil, err
	}
	return e, conn, nil
}

func dial(ctx context.Context, opts *flags.Core, log *slog.Logger) (*ipc.EngineConn, error) {
	log.Info("looking for the frontend", "address", opts.HandshakeAddress())
	conn, err := ipc.DialEngine(ctx, ipc.EngineOptions{
		HandshakeAddress: opts.HandshakeAddress(), Rank: opts.Rank, Headless: true, Log: log,
	})
	switch {
	case errors.Is(err, ipc.ErrRefused):
		return nil, fmt.Errorf("%w; every core needs a --data-parallel-rank of its own, from 0 up to below the frontend's --data-parallel-size", err)
	case errors.Is(err, ipc.ErrHandshakeTimeout):
		return nil, fmt.Errorf("no frontend at %s; start vllm-frontend, or say where it is with --data-parallel-address and --data-parallel-rpc-port: %w",
			opts.HandshakeAddress(), err)
	}
	return conn, err
}

func newLoop(opts *flags.Core, e *engine, conn *ipc.EngineConn, log *slog.Logger) (*enginecore.Loop, error) {
	start := time.Now()
	core, err := enginecore.NewCore(enginecore.Config{
		Sched: sched.Config{
			MaxNumSeqs: opts.MaxNumSeqs, MaxNumBatchedTokens: opts.MaxNumBatchedTokens, MaxModelLen: e.maxModelLen,
			LongPrefillTokenThreshold: opts.LongPrefillTokenThreshold, Policy: sched.Policy(opts.SchedulingPolicy), Async: opts.AsyncScheduling,
			BlockSize: opts.BlockSize, NumBlocks: e.numBlocks,
			NoPrefixCaching: !opts.EnablePrefixCaching, HashAlgo: kvcache.HashAlgo(opts.PrefixCachingHashAlgo),
			HashSeed:   os.Getenv("PYTHONHASHSEED"), // as vLLM: set, it makes hashes the same everywhere
			NoLogStats: opts.DisableLogStats, KVMetricsSample: kvMetricsSample(opts),
		},
		VocabSize: e.vocabSize, MaxLogprobs: opts.MaxLogprobs, Seed: uint64(opts.Seed), EngineIndex: opts.Rank, NumClients: conn.NumClients(),
		Perf: e.perf(opts), IterationDetails: opts.IterationDetails,
		StatsInterval: time.Duration(opts.StepStatsInterval * float64(time.Second)),
		Coordinated:   conn.Init().Addresses.CoordinatorInput != "",
	}, e.runner, func() float64 { return time.Since(start).Seconds() })
	if err != nil {
		return nil, err
	}
	return enginecore.NewLoop(core, conn, log), nil
}

// kvMetricsSample is 0 where blocks are not followed.
func kvMetricsSample(opts *flags.Core) float64 {
	if !opts.KVCacheMetrics {
		return 0
	}
	return opts.KVCacheMetricsSample
}

// signalGrace is how long a core that has lost its frontend waits for a signal
// of its own: where one Ctrl-C or service manager stops both, the frontend's
// end is no failure.
const signalGrace = 500 * time.Millisecond

func toldToStop(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	case <-time.After(signalGrace):
		return false
	}
}

// end is what a signal asks for: with a timeout, running requests may finish
// within it; without, they are aborted at once.
func end(loop *enginecore.Loop, opts *flags.Core) {
	if opts.ShutdownTimeout == 0 {
		loop.Stop()
		return
	}
	loop.Drain()
	time.AfterFunc(time.Duration(opts.ShutdownTimeout)*time.Second, loop.Stop)
}

func closeConn(conn *ipc.EngineConn, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	if err := conn.Close(ctx); err != nil {
		log.Warn("closing the connection", "error", err)
	}
}
