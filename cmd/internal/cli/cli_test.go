package cli

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

type target struct {
	Model   string
	Port    int
	Seqs    int
	Len     int
	Names   []string
	Caching bool
	Policy  string
	Over    map[string]any
}

func newSet() (*Set, *target) {
	v := &target{Model: "builtin", Port: 8000, Caching: true, Policy: "fcfs"}
	s := &Set{Command: "vllm-test", Summary: "vllm-test", Positional: "model", Flags: []Flag{
		{Name: "model", Group: "Model", Help: "model", Value: String(&v.Model)},
		{Name: "port", Group: "Frontend", Help: "port", Value: Int(&v.Port, 0, 65535), Env: "CLI_TEST_PORT"},
		{Name: "max-num-seqs", Group: "Scheduler", Help: "sequences", Value: OptInt(&v.Seqs, 1, math.MaxInt)},
		{Name: "max-model-len", Group: "Model", Help: "tokens", Value: AutoInt(&v.Len, 1, math.MaxInt)},
		{Name: "served-model-name", Group: "Model", Help: "names", Value: Strings(&v.Names)},
		{Name: "enable-prefix-caching", Group: "Cache", Help: "caching", Value: Bool(&v.Caching)},
		{Name: "scheduling-policy", Group: "Scheduler", Help: "policy", Value: Enum(&v.Policy, "fcfs", "priority")},
		{Name: "override-generation-config", Group: "Model", Help: "defaults", Value: JSON(&v.Over)},
		{Name: "tensor-parallel-size", Short: "-tp", Group: "Parallel", Help: "size", Value: Fixed("1", "there is one device")},
		{Name: "enable-chunked-prefill", Group: "Scheduler", Help: "chunks", Value: FixedSwitch(true, "it is how the scheduler works")},
		{Name: "enable-lora", Group: "LoRA", Refusal: "adapters are not served; merge them into the weights"},
		{Name: "host", Other: "vllm-frontend"},
		{Name: "config", Group: "Frontend", Help: "file", Value: String(new(string))},
	}}
	return s, v
}

func TestParse(t *testing.T) {
	config := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(config, []byte("port: 9000\nmax_num_seqs: 4\nhost: 0.0.0.0\nserved-model-name: [x, y]\nenable-prefix-caching: false\noverride-generation-config:\n  top_k: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args string
		want target
	}{
		{"", target{Model: "builtin", Port: 8000, Caching: true, Policy: "fcfs"}},
		{"dir --port=1", target{Model: "dir", Port: 1, Caching: true, Policy: "fcfs"}},
		{"--max_num_seqs 8 --max-model-len 32k", target{Model: "builtin", Port: 8000, Seqs: 8, Len: 32000, Caching: true, Policy: "fcfs"}},
		{"--max-model-len 1.5K", target{Model: "builtin", Port: 8000, Len: 1536, Caching: true, Policy: "fcfs"}},
		{"--max-model-len auto", target{Model: "builtin", Port: 8000, Caching: true, Policy: "fcfs"}},
		{"--max-model-len -1", target{Model: "builtin", Port: 8000, Caching: true, Policy: "fcfs"}},
		{"--max-num-s 3", target{Model: "builtin", Port: 8000, Seqs: 3, Caching: true, Policy: "fcfs"}},
		{"--served-model-name a b --port 1", target{Model: "builtin", Port: 1, Names: []string{"a", "b"}, Caching: true, Policy: "fcfs"}},
		{"--no-enable-prefix-caching --scheduling-policy priority", target{Model: "builtin", Port: 8000, Policy: "priority"}},
		{"--enable-prefix-caching=False", target{Model: "builtin", Port: 8000, Policy: "fcfs"}},
		{"-tp 1 --enable-chunked-prefill", target{Model: "builtin", Port: 8000, Caching: true, Policy: "fcfs"}},
		{"--override-generation-config.a.b 5 --override-generation-config.c word", target{Model: "builtin", Port: 8000, Caching: true, Policy: "fcfs",
			Over: map[string]any{"a": map[string]any{"b": 5.0}, "c": "word"}}},
		{"--port 1 --config " + config, target{Model: "builtin", Port: 1, Seqs: 4, Names: []string{"x", "y"}, Policy: "fcfs", Over: map[string]any{"top_k": 3.0}}},
	} {
		s, got := newSet()
		if err := s.Parse(strings.Fields(tc.args)); err != nil {
			t.Errorf("Parse(%q) = %v", tc.args, err)
		} else if !reflect.DeepEqual(*got, tc.want) {
			t.Errorf("Parse(%q) = %+v, want %+v", tc.args, *got, tc.want)
		}
	}
}

func TestParseEnvironmentIsWeakest(t *testing.T) {
	t.Setenv("CLI_TEST_PORT", "7000")
	s, v := newSet()
	if err := s.Parse(nil); err != nil || v.Port != 7000 {
		t.Errorf("Parse() = %v, port %d, want 7000", err, v.Port)
	}
	if got, want := s.Given("port"), "the environment variable CLI_TEST_PORT"; got != want {
		t.Errorf("Given(port) = %q, want %q", got, want)
	}
	s, v = newSet()
	if err := s.Parse([]string{"--port", "7001"}); err != nil || v.Port != 7001 {
		t.Errorf("Parse(--port 7001) = %v, port %d, want 7001", err, v.Port)
	}
	t.Setenv("CLI_TEST_PORT", "x")
	s, _ = newSet()
	if err := s.Parse(nil); err == nil || !strings.Contains(err.Error(), "CLI_TEST_PORT") {
		t.Errorf("Parse() with a bad variable = %v, want its name", err)
	}
}

func TestParseRefuses(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("port: 1\nprot: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ args, want string }{
		{"--prot 1", "unknown flag --prot; did you mean --port?"},
		{"--zzzzzzzz", "unknown flag --zzzzzzzz; see vllm-test --help"},
		{"-x", "unknown flag -x"},
		{"--enable 1", "--enable is short for several flags: --enable-chunked-prefill, --enable-lora, --enable-prefix-caching"},
		{"--enable-lora", "--enable-lora is not supported: adapters are not served; merge them"},
		{"--host ::", "--host is a flag of vllm-frontend: give it there"},
		{"--port", "--port: expects a value"},
		{"--port --max-num-seqs 1", "--port: expects a value"},
		{"--port 70000", "--port: 70000 is out of bounds: 0 to 65535"},
		{"--port many", `--port: "many" is not a whole number`},
		{"--max-num-seqs 0", "--max-num-seqs: 0 is out of bounds: at least 1"},
		{"--max-num-seqs 99999999999T", `"99999999999T" is out of bounds`},
		{"--scheduling-policy lifo", `"lifo" is not one of fcfs, priority`},
		{"-tp 2", `"2" is not supported, only 1: there is one device`},
		{"--no-enable-chunked-prefill", "false is not supported: it is how the scheduler works"},
		{"--override-generation-config [1]", `"[1]" is not a JSON object`},
		{"--port.x 1", "--port has no keys"},
		{"a b", `unexpected argument "b"`},
		{"--config /none.yaml", "no such file"},
		{"--config " + bad, "line 2: unknown flag --prot"},
	} {
		s, _ := newSet()
		if err := s.Parse(strings.Fields(tc.args)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Parse(%q) = %v, want %q", tc.args, err, tc.want)
		}
	}
	s, _ := newSet()
	err := s.Parse([]string{"--prot", "1", "--enable-lora"})
	if err == nil || !strings.Contains(err.Error(), "--prot") || !strings.Contains(err.Error(), "--enable-lora") {
		t.Errorf("two faults give %v, want both", err)
	}
}

func TestHelp(t *testing.T) {
	s, _ := newSet()
	if err := s.Parse([]string{"x", "--bad", "--help"}); !errors.Is(err, ErrHelp) {
		t.Fatalf("Parse(--help) = %v, want ErrHelp", err)
	}
	var b strings.Builder
	s.Help(&b)
	for _, want := range []string{"\nModel:\n", "--max-num-seqs N", "port (default 8000) [CLI_TEST_PORT]", "-tp, --tensor-parallel-size 1", "{fcfs,priority}"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("help lacks %q:\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "--enable-lora") || strings.Contains(b.String(), "--host") {
		t.Errorf("help shows flags that this command refuses:\n%s", b.String())
	}
}

// Lists in JSON are taken apart; keys add up on the command line, replace those
// of the environment, and are shown nowhere.
func TestListsAndSecrets(t *testing.T) {
	t.Setenv("CLI_TEST_KEY", "from-env")
	for _, tc := range []struct {
		args          string
		keys, origins []string
	}{
		{"", []string{"from-env"}, []string{"*"}},
		{"--api-key a --port 1 --api-key b c", []string{"a", "b", "c"}, []string{"*"}},
		{`--allowed-origins ["x","y"]`, []string{"from-env"}, []string{"x", "y"}},
		{"--allowed-origins x y --allowed-origins z", []string{"from-env"}, []string{"z"}},
		{"--allowed-origins []", []string{"from-env"}, []string{}},
	} {
		keys, origins, token, port := []string(nil), []string{"*"}, "t", 0
		s := &Set{Command: "vllm-test", Flags: []Flag{
			{Name: "api-key", Group: "G", Help: "keys", Env: "CLI_TEST_KEY", Value: Secrets(&keys)},
			{Name: "token", Group: "G", Help: "token", Value: Secret(&token)},
			{Name: "allowed-origins", Group: "G", Help: "origins", Value: List(&origins)},
			{Name: "port", Group: "G", Help: "port", Value: Int(&port, 0, 65535)},
		}}
		if err := s.Parse(strings.Fields(tc.args)); err != nil || !reflect.DeepEqual(keys, tc.keys) || len(origins) != len(tc.origins) || strings.Join(origins, " ") != strings.Join(tc.origins, " ") {
			t.Errorf("Parse(%q) = %v, keys %q origins %q, want %q %q", tc.args, err, keys, origins, tc.keys, tc.origins)
		}
		var help strings.Builder
		s.Help(&help)
		values := s.Values()
		if strings.Contains(help.String(), "from-env") || values["api-key"] != "" || values["token"] != "" || values["port"] == "" {
			t.Errorf("Parse(%q): secrets are shown, or nothing is: %v\n%s", tc.args, values, help.String())
		}
	}
	s := &Set{Command: "vllm-test", Flags: []Flag{{Name: "allowed-origins", Value: List(new([]string))}}}
	if err := s.Parse([]string{"--allowed-origins", "[1"}); err == nil || !strings.Contains(err.Error(), "JSON list") {
		t.Errorf("half a list gives %v", err)
	}
}
