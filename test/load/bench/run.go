package bench

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Run sends all requests and returns what they measured, failed ones included.
// It fails if the configuration is wrong or the server cannot be asked at all.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	client := newClient(&cfg)
	defer client.close()
	if cfg.ReadyTimeout > 0 {
		if err := client.ready(ctx, cfg.BaseURL, cfg.ReadyTimeout); err != nil {
			return nil, err
		}
	}
	if cfg.Model == "" {
		var err error
		if cfg.Model, err = client.firstModel(ctx, cfg.BaseURL); err != nil {
			return nil, err
		}
	}
	r := rand.New(rand.NewPCG(cfg.Seed, 0))
	prompts, err := cfg.prompts(cfg.NumWarmups+cfg.NumPrompts, cfg.Model, r)
	if err != nil {
		return nil, err
	}
	if cfg.NumWarmups > 0 {
		warmup := cfg
		warmup.Progress = nil
		warmup.run(ctx, client, prompts[:cfg.NumWarmups], make([]time.Duration, cfg.NumWarmups))
	}
	prompts = prompts[cfg.NumWarmups:]
	records, duration := cfg.run(ctx, client, prompts, cfg.arrivals(len(prompts), r))
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return newResult(&cfg, records, duration), nil
}

// run sends prompts at the given times and waits for all.
func (c *Config) run(ctx context.Context, client *client, prompts []prompt, at []time.Duration) ([]record, time.Duration) {
	records := make([]record, len(prompts))
	slots := make(chan struct{}, max(1, c.MaxConcurrency))
	var wait sync.WaitGroup
	var done atomic.Int64
	began := time.Now()
	for i, p := range prompts {
		if !sleepUntil(ctx, began.Add(at[i])) {
			break
		}
		if c.MaxConcurrency > 0 {
			slots <- struct{}{}
		}
		wait.Go(func() {
			records[i] = client.send(ctx, p, began, c.OutputLen)
			if n := done.Add(1); c.Progress != nil {
				c.Progress(int(n), len(prompts))
			}
			if c.MaxConcurrency > 0 {
				<-slots
			}
		})
	}
	wait.Wait()
	return records, time.Since(began)
}

func sleepUntil(ctx context.Context, t time.Time) bool {
	d := time.Until(t)
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
