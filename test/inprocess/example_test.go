// Package inprocess runs an engine and its frontend inside one process, as
// offline use does, and reads the same statistics there as a server exports.
package inprocess

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"govllm/enginecore"
	"govllm/enginecore/mockrunner"
	"govllm/enginecore/sched"
	"govllm/frontend/engineclient"
	"govllm/frontend/metrics"
	"govllm/ipc"
	"govllm/ipc/ipctest"
	"govllm/protocol"
	"govllm/stats/reader"
)

const maxModelLen = 256

// newLoop is an engine of random tokens over a connection in memory.
func newLoop(conn enginecore.Conn, log *slog.Logger) (*enginecore.Loop, error) {
	cfg := sched.DefaultConfig()
	cfg.NumBlocks, cfg.MaxModelLen = 65, maxModelLen
	runner, err := mockrunner.New(cfg.MaxNumSeqs, 1000)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	core, err := enginecore.NewCore(enginecore.Config{Sched: cfg, VocabSize: 1000, Log: log}, runner,
		func() float64 { return time.Since(start).Seconds() })
	if err != nil {
		return nil, err
	}
	return enginecore.NewLoop(core, conn, log), nil
}

// generate runs one request to its end.
func generate(ctx context.Context, client *engineclient.Client, id string, prompt []int32, maxTokens int) error {
	params := protocol.DefaultSamplingParams()
	params.MaxTokens = &maxTokens
	stream, err := client.Submit(ctx, &protocol.EngineCoreRequest{RequestID: id, PromptTokenIDs: prompt, SamplingParams: &params},
		engineclient.Meta{Arrival: time.Now()})
	if err != nil {
		return err
	}
	defer stream.Close()
	for {
		if _, err := stream.Next(ctx); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// Ten requests of 40 tokens that share their first 32, ten tokens each, and
// what is to be said of them.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	log := slog.New(slog.DiscardHandler)
	engine, frontend := ipctest.Pair()
	loop, err := newLoop(engine, log)
	if err != nil {
		fmt.Println(err)
		return
	}
	registry := metrics.NewRegistry(log)
	recorder, err := registry.NewRecorder(metrics.Config{ModelName: "mock", MaxModelLen: maxModelLen, Engines: []metrics.EngineConfig{{}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := engineclient.New(frontend, []ipc.EngineInfo{{}}, engineclient.Options{Recorder: recorder, Logger: log})
	served, read := make(chan error, 1), make(chan error, 1)
	go func() { served <- loop.Run() }()
	go func() { read <- client.Run(ctx) }()

	prompt := make([]int32, 40)
	for i := range 10 {
		prompt[39] = int32(i)
		if err := generate(ctx, client, fmt.Sprint("request-", i), prompt, 10); err != nil {
			fmt.Println(err)
		}
	}
	report(registry)
	loop.Stop()
	<-served
	cancel()
	<-read
	// Output:
	// vllm:generation_tokens 100
	// vllm:prefix_cache_hits 288
	// vllm:prefix_cache_queries 400
	// vllm:prompt_tokens 400
	// vllm:request_success length 10
	// vllm:time_to_first_token_seconds count 10
}

func report(from reader.Gatherer) {
	all, err := reader.Read(from)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range all {
		name, labels := reader.Of(m)
		switch m := m.(type) {
		case *reader.Counter:
			wanted := strings.HasPrefix(name, "vllm:prefix_cache") || name == "vllm:generation_tokens" || name == "vllm:prompt_tokens"
			if wanted || labels["finished_reason"] == "length" {
				fmt.Println(strings.Join(strings.Fields(fmt.Sprintln(name, labels["finished_reason"], m.Value)), " "))
			}
		case *reader.Histogram:
			if name == "vllm:time_to_first_token_seconds" {
				fmt.Println(name, "count", m.Count)
			}
		}
	}
}
