package openai

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"govllm/protocol"
)

// RequestLog says what is logged of requests. Prompts are logged only at the
// debug level, and outputs only if asked for.
//
// Source: vllm/entrypoints/serve/utils/request_logger.py.
type RequestLog struct {
	Requests bool
	Outputs  bool // what is generated, too
	Deltas   bool // of streams each piece as well as the whole
	MaxLen   int  // characters of a text, or token IDs; negative: all
}

// logRequest logs the parameters of a request, and its prompts for those who
// debug.
func (s *Server) logRequest(o *order) {
	if !s.cfg.RequestLog.Requests {
		return
	}
	for i := range o.jobs {
		j := &o.jobs[i]
		s.log.Info("received request", "request_id", o.id, "prompt_tokens", len(j.prompt.ids), "n", j.n, "params", paramsText(j.params))
		if s.log.Enabled(context.Background(), slog.LevelDebug) {
			s.log.Debug("request details", "request_id", o.id,
				"prompt", s.cut(s.cfg.Tokenizer.Decode(j.prompt.ids, false)), "prompt_token_ids", s.cutIDs(j.prompt.ids))
		}
	}
}

// paramsText lists the parameters that differ from their defaults.
func paramsText(p *protocol.SamplingParams) string {
	var b strings.Builder
	add := func(name string, value any) { fmt.Fprintf(&b, "%s=%v ", name, value) }
	d := protocol.DefaultSamplingParams()
	for _, f := range []struct {
		name       string
		value, def float64
	}{
		{"temperature", p.Temperature, d.Temperature}, {"top_p", p.TopP, d.TopP}, {"top_k", float64(p.TopK), float64(d.TopK)}, {"min_p", p.MinP, d.MinP},
		{"repetition_penalty", p.RepetitionPenalty, d.RepetitionPenalty}, {"presence_penalty", p.PresencePenalty, d.PresencePenalty},
		{"frequency_penalty", p.FrequencyPenalty, d.FrequencyPenalty}, {"min_tokens", float64(p.MinTokens), float64(d.MinTokens)},
	} {
		if f.value != f.def {
			add(f.name, f.value)
		}
	}
	if p.MaxTokens != nil {
		add("max_tokens", *p.MaxTokens)
	}
	if p.Seed != nil {
		add("seed", *p.Seed)
	}
	if p.Logprobs != nil {
		add("logprobs", *p.Logprobs)
	}
	if p.PromptLogprobs != nil {
		add("prompt_logprobs", *p.PromptLogprobs)
	}
	if p.IgnoreEOS {
		add("ignore_eos", true)
	}
	for _, list := range []struct {
		name string
		n    int
	}{{"stop", len(p.Stop)}, {"stop_token_ids", len(p.StopTokenIDs)}, {"logit_bias", len(p.LogitBias)},
		{"allowed_token_ids", len(p.AllowedTokenIDs)}, {"bad_words", len(p.BadWordsTokenIDs)}} {
		if list.n > 0 {
			add("len("+list.name+")", list.n) // what they hold is the client's text
		}
	}
	return strings.TrimSpace(b.String())
}

// outputLog gathers what a sequence says, for the log. A nil one does nothing.
type outputLog struct {
	s        *Server
	id       string
	index    int
	streams  bool
	text     []byte
	tokenIDs []int32
}

func (s *Server) newOutputLog(o *order, index int) *outputLog {
	if !s.cfg.RequestLog.Requests || !s.cfg.RequestLog.Outputs {
		return nil
	}
	return &outputLog{s: s, id: o.id, index: index, streams: o.stream}
}

// add takes in a piece, and logs the whole with the last.
func (l *outputLog) add(d *delta) {
	if l == nil {
		return
	}
	last := d.Finish != protocol.FinishNone
	l.text = append(l.text, d.Text...)
	l.tokenIDs = append(l.tokenIDs, d.TokenIDs...)
	if l.streams && l.s.cfg.RequestLog.Deltas {
		l.s.log.Info("generated", "request_id", l.id, "choice", l.index, "delta", l.s.cut(d.Text))
	}
	if !last {
		return
	}
	l.s.log.Info("generated response", "request_id", l.id, "choice", l.index, "output", l.s.cut(string(l.text)), "finish_reason", d.Finish.String())
	l.s.log.Debug("generated response details", "request_id", l.id, "choice", l.index, "output_token_ids", l.s.cutIDs(l.tokenIDs))
}

// cut shortens a text to as many characters as may be logged.
func (s *Server) cut(text string) string {
	n := s.cfg.RequestLog.MaxLen
	if n < 0 || len(text) <= n {
		return text
	}
	for i := range text {
		if n--; n < 0 {
			return text[:i]
		}
	}
	return text
}

func (s *Server) cutIDs(ids []int32) []int32 {
	if n := s.cfg.RequestLog.MaxLen; n >= 0 && len(ids) > n {
		return ids[:n]
	}
	return ids
}
