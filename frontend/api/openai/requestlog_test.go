package openai

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"govllm/frontend/outputs"
	"govllm/protocol"
)

// What a sequence says is logged piece by piece and as a whole, and no more of
// it than asked for; without --enable-log-outputs not at all.
func TestOutputLog(t *testing.T) {
	for _, tc := range []struct {
		name    string
		log     RequestLog
		streams bool
		want    []string
	}{
		{"off", RequestLog{Requests: true, MaxLen: -1}, true, nil},
		{"outputs alone", RequestLog{Outputs: true, MaxLen: -1}, true, nil},
		{"whole", RequestLog{Requests: true, Outputs: true, MaxLen: -1}, true, []string{
			`msg="generated response" request_id=cmpl-1 choice=2 output="Zwölf Äpfel" finish_reason=stop`}},
		{"deltas", RequestLog{Requests: true, Outputs: true, Deltas: true, MaxLen: 4}, true, []string{
			`msg=generated request_id=cmpl-1 choice=2 delta=Zwöl`, `msg=generated request_id=cmpl-1 choice=2 delta=" Äpf"`,
			`msg="generated response" request_id=cmpl-1 choice=2 output=Zwöl finish_reason=stop`}},
		{"not streamed", RequestLog{Requests: true, Outputs: true, Deltas: true, MaxLen: 0}, false, []string{
			`msg="generated response" request_id=cmpl-1 choice=2 output="" finish_reason=stop`}},
	} {
		var b bytes.Buffer
		s := &Server{cfg: Config{RequestLog: tc.log}, log: slog.New(slog.NewTextHandler(&b, nil))}
		l := s.newOutputLog(&order{id: "cmpl-1", stream: tc.streams}, 2)
		l.add(&delta{Delta: outputs.Delta{Text: "Zwölf", TokenIDs: []int32{1}}})
		l.add(&delta{Delta: outputs.Delta{Text: " Äpfel", TokenIDs: []int32{2}, Finish: protocol.FinishStop}})
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if b.Len() == 0 {
			lines = nil
		}
		if len(lines) != len(tc.want) {
			t.Errorf("%s: logs %q, want %q", tc.name, lines, tc.want)
			continue
		}
		for i, want := range tc.want {
			if !strings.HasSuffix(lines[i], want) {
				t.Errorf("%s: line %d is %q, want %q", tc.name, i, lines[i], want)
			}
		}
	}
}

// The log of a request holds its parameters, but nothing that it says.
func TestRequestLog(t *testing.T) {
	var b bytes.Buffer
	s := &Server{cfg: Config{RequestLog: RequestLog{Requests: true}}, log: slog.New(slog.NewTextHandler(&b, nil))}
	p := protocol.DefaultSamplingParams()
	n := 5
	p.Temperature, p.MaxTokens, p.Stop = 0.5, &n, []string{"secret"}
	s.logRequest(&order{id: "cmpl-1", jobs: []job{{prompt: tokens{ids: []int32{1, 2}}, params: &p, n: 1}}})
	want := `msg="received request" request_id=cmpl-1 prompt_tokens=2 n=1 params="temperature=0.5 max_tokens=5 len(stop)=1"`
	if got := strings.TrimSpace(b.String()); !strings.HasSuffix(got, want) || strings.Contains(got, "secret") {
		t.Errorf("logRequest logs %q, want %q", got, want)
	}
	b.Reset()
	s.cfg.RequestLog.Requests = false
	if s.logRequest(&order{}); b.Len() > 0 {
		t.Errorf("without --enable-log-requests it logs %q", b.String())
	}
}
