package main

import (
	"context"
	"log/slog"
	"math"
	"net"
	"slices"
	"strings"
	"testing"

	"govllm/cmd/internal/flags"
	"govllm/ipc/ipctest"
	"govllm/protocol"
)

// startCore runs a core with the given flags for a scripted frontend.
func startCore(t *testing.T, args string) *ipctest.Frontend {
	t.Helper()
	listener := ipctest.Listen(t)
	opts, set := flags.NewCore()
	host, port, err := net.SplitHostPort(strings.TrimPrefix(listener.HandshakeAddress(), "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Parse(append(strings.Fields(args), "--data-parallel-address", host, "--data-parallel-rpc-port", port)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, opts, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("run() = %v", err)
		}
	})
	f, _ := listener.Start()
	return f
}

// ask sends a request and returns its first output.
func ask(f *ipctest.Frontend, id string, set func(*protocol.SamplingParams)) protocol.EngineCoreOutput {
	p := protocol.DefaultSamplingParams()
	one := 1
	p.Temperature, p.MaxTokens = 0, &one
	set(&p)
	f.Add(&protocol.EngineCoreRequest{RequestID: id, PromptTokenIDs: []int32{5, 6, 7}, SamplingParams: &p})
	for {
		for _, o := range f.Next().Outputs {
			if o.RequestID == id {
				return o
			}
		}
	}
}

// The flags reach what they are about, and the parameters pass the wire.
func TestLogprobsOverTheWire(t *testing.T) {
	three, all := 3, -1
	raw := startCore(t, "--max-logprobs 3 --kv-cache-memory-bytes 64M --max-model-len 256 --max-num-seqs 4")
	first := ask(raw, "raw", func(p *protocol.SamplingParams) { p.Logprobs, p.PromptLogprobs = &three, &three })
	if l := first.NewLogprobs; l == nil || l.Width != 4 || l.TokenIDs[0] != first.NewTokenIDs[0] || l.TokenIDs[1] != l.TokenIDs[0] || l.Ranks[0] != 1 {
		t.Errorf("logprobs 3 of token %v = %+v", first.NewTokenIDs, l)
	}
	if l := first.NewPromptLogprobs; l == nil || l.NumTokens != 2 || l.Width != 4 || l.TokenIDs[0] != 6 || l.TokenIDs[4] != 7 {
		t.Errorf("prompt_logprobs 3 = %+v, want rows for tokens 6 and 7", l)
	}
	for name, set := range map[string]func(*protocol.SamplingParams){
		"-1": func(p *protocol.SamplingParams) { p.Logprobs = &all },
		"n":  func(p *protocol.SamplingParams) { p.N = 2 },
	} {
		if out := ask(raw, "refused"+name, set); out.FinishReason != protocol.FinishError {
			t.Errorf("%s: %+v, want an error", name, out)
		}
	}
	token := first.NewTokenIDs[0]
	for _, c := range []struct {
		name string
		set  func(*protocol.SamplingParams)
		want int32 // -1: anything but token
	}{
		{"logit_bias", func(p *protocol.SamplingParams) { p.LogitBias = map[int32]float64{77: 1000} }, 77},
		{"allowed_token_ids", func(p *protocol.SamplingParams) { p.AllowedTokenIDs = []int32{88} }, 88},
		{"bad_words", func(p *protocol.SamplingParams) { p.BadWordsTokenIDs = [][]int32{{token}} }, -1},
		{"penalties", func(p *protocol.SamplingParams) {
			p.RepetitionPenalty, p.LogitBias = 100, map[int32]float64{5: 1000, 88: 500}
		}, 88},
	} {
		if got := ask(raw, c.name, c.set).NewTokenIDs; len(got) != 1 || got[0] != c.want && (c.want != -1 || got[0] == token) {
			t.Errorf("%s: token %v, want %d (-1: not %d)", c.name, got, c.want, token)
		}
	}
}

func TestProcessedLogprobsOverTheWire(t *testing.T) {
	ids := []int32{40, 41}
	processed := startCore(t, "--logprobs-mode processed_logprobs --kv-cache-memory-bytes 64M --max-model-len 256 --max-num-seqs 4")
	out := ask(processed, "a", func(p *protocol.SamplingParams) { p.AllowedTokenIDs, p.LogprobTokenIDs = ids[:1], ids })
	l := out.NewLogprobs
	if l == nil || !slices.Equal(l.TokenIDs, []int32{40, 40, 41}) || l.Logprobs[0] != 0 || l.Logprobs[1] != 0 || !math.IsInf(float64(l.Logprobs[2]), -1) {
		t.Errorf("processed log probabilities of the one allowed token = %+v, want 0, and -Inf of the other", l)
	}
}
