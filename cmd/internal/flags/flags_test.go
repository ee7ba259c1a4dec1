package flags

import (
	"strings"
	"testing"

	"govllm/cmd/internal/cli"
)

func TestDefaultsParse(t *testing.T) {
	c, cs := NewCore()
	if err := cs.Parse(nil); err != nil {
		t.Fatalf("vllm-core without flags: %v", err)
	}
	f, fs := NewFrontend()
	if err := fs.Parse(nil); err != nil {
		t.Fatalf("vllm-frontend without flags: %v", err)
	}
	if got, want := c.HandshakeAddress(), f.HandshakeAddress(); got != want || got != "tcp://127.0.0.1:29550" {
		t.Errorf("handshake addresses %q and %q, want tcp://127.0.0.1:29550", got, want)
	}
}

func TestHandshakeAddress(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"--data-parallel-address ::1 --data-parallel-rpc-port 7", "tcp://[::1]:7"},
		{"--handshake-host h --handshake-port 8", "tcp://h:8"},
		{"--handshake-address tcp://10.0.0.1:9", "tcp://10.0.0.1:9"},
	} {
		c, set := NewCore()
		if err := set.Parse(strings.Fields(tc.args)); err != nil || c.HandshakeAddress() != tc.want {
			t.Errorf("HandshakeAddress(%s) = %q, %v, want %q", tc.args, c.HandshakeAddress(), err, tc.want)
		}
	}
}

// Each command names the other for the other's flags, and refuses the rest.
func TestForeignFlags(t *testing.T) {
	_, core := NewCore()
	_, frontend := NewFrontend()
	for _, tc := range []struct {
		set        *cli.Set
		args, want string
	}{
		{core, "--port 8000", "--port is a flag of vllm-frontend: give it there"},
		{frontend, "--max-num-seqs 4", "--max-num-seqs is a flag of vllm-core: give it there"},
		{frontend, "--enable-lora", "--enable-lora is not supported: LoRA adapters are not served"},
		{core, "--tensor-parallel-size 2", "only 1"},
		{frontend, "--trust-remote-code", "a model's own code is never run"},
		{core, "--logprobs-mode raw_logits", "processed_logprobs"},
		{core, "--max-logprobs -2", "-1"},
		{core, "--max-num-sqs 4", "did you mean --max-num-seqs?"},
	} {
		if err := tc.set.Parse(strings.Fields(tc.args)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s %s = %v, want %q", tc.set.Command, tc.args, err, tc.want)
		}
	}
}

func TestHelpShowsEveryGroup(t *testing.T) {
	_, core := NewCore()
	_, frontend := NewFrontend()
	for _, tc := range []struct {
		set    *cli.Set
		groups []string
	}{
		{core, []string{"Model:", "Processes:", "Observability:", "Device:", "Scheduler:", "KV cache:"}},
		{frontend, []string{"Model:", "Processes:", "Observability:", "Server:"}},
	} {
		if err := tc.set.Parse(nil); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		tc.set.Help(&b)
		for _, g := range tc.groups {
			if !strings.Contains(b.String(), "\n"+g+"\n") {
				t.Errorf("%s --help lacks %q", tc.set.Command, g)
			}
		}
	}
}

func TestHubFlags(t *testing.T) {
	const hub = "--revision v1 --hf-token hf_x --download-dir d"
	want := Hub{Revision: "v1", Token: "hf_x", DownloadDir: "d"}
	c, core := NewCore()
	f, frontend := NewFrontend()
	fetch, fetchSet := NewFetch()
	for _, tc := range []struct {
		set *cli.Set
		hub *Hub
	}{{core, &c.Hub}, {frontend, &f.Hub}, {fetchSet, &fetch.Hub}} {
		if err := tc.set.Parse(strings.Fields("owner/name " + hub)); err != nil || *tc.hub != want {
			t.Errorf("%s owner/name %s = %+v, %v, want %+v", tc.set.Command, hub, *tc.hub, err, want)
		}
	}
	if c.Model != "owner/name" || f.Model != "owner/name" || fetch.Model != "owner/name" {
		t.Errorf("models %q, %q, %q, want owner/name", c.Model, f.Model, fetch.Model)
	}
	if err := core.Parse([]string{"--tokenizer-revision", "v1"}); err == nil || !strings.Contains(err.Error(), "give it there") {
		t.Errorf("vllm-core --tokenizer-revision v1 = %v, want it to name vllm-frontend", err)
	}
}
