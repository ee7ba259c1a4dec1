package main

import (
	"strings"
	"testing"

	"govllm/cmd/internal/flags"
)

// The flag wins over the environment, and 0 GiB there means the default.
func TestKVBytes(t *testing.T) {
	const gib, available = 1 << 30, 8 << 30
	for _, tc := range []struct {
		args, env string
		want      int64
		says      string
	}{
		{"", "", 2 * gib, ""},
		{"--kv-cache-memory-bytes 123", "7", 123, ""},
		{"--kv-cache-memory-bytes 1M", "", 1 << 20, ""},
		{"", "3", 3 * gib, ""},
		{"", "0.5", gib / 2, ""},
		{"", "0", 2 * gib, ""},
		{"--kv-cache-space 1", "3", gib, ""},
		{"--kv-cache-memory-bytes -1", "", 0, "-1"},
		{"", "lots", 0, `VLLM_CPU_KVCACHE_SPACE: "lots"`},
		{"", "-2", 0, "VLLM_CPU_KVCACHE_SPACE: -2"},
		{"", "NaN", 0, `VLLM_CPU_KVCACHE_SPACE: "NaN"`},
	} {
		t.Setenv("VLLM_CPU_KVCACHE_SPACE", tc.env)
		opts, set := flags.NewCore()
		err := set.Parse(strings.Fields(tc.args))
		if tc.says != "" {
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%q with %q = %v, want %q", tc.args, tc.env, err, tc.says)
			}
			continue
		}
		if got := kvBytes(opts, available); err != nil || got != tc.want {
			t.Errorf("%q with %q = %d, %v, want %d", tc.args, tc.env, got, err, tc.want)
		}
	}
}
