package modelrunner

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"govllm/kernels"
)

func TestKVBytes(t *testing.T) {
	for _, c := range []struct{ available, want int64 }{
		{0, 4 << 30}, {64 << 30, 4 << 30}, {16 << 30, 4 << 30}, {8 << 30, 2 << 30}, {1000, 250},
	} {
		if got := KVBytes(c.available); got != c.want {
			t.Errorf("KVBytes(%d) = %d, want %d", c.available, got, c.want)
		}
	}
}

func TestKVBlocks(t *testing.T) {
	shape := kernels.KVShape{Layers: 2, BlockSize: 16, KVHeads: 2, HeadDim: 32, DType: kernels.BF16}
	perBlock := int64(2 * 16 * 2 * 32 * 2 * 2)
	if shape.BlockBytes() != perBlock {
		t.Fatalf("BlockBytes() = %d, want %d", shape.BlockBytes(), perBlock)
	}
	for _, c := range []struct {
		bytes  int64
		maxLen int
		want   int
	}{
		{10 * perBlock, 9 * 16, 10},
		{10*perBlock + perBlock - 1, 100, 10},
		{2 * perBlock, 1, 2},
	} {
		if got, err := KVBlocks(shape, c.bytes, c.maxLen); got != c.want || err != nil {
			t.Errorf("KVBlocks(%d, %d) = %d, %v; want %d", c.bytes, c.maxLen, got, err, c.want)
		}
	}
	_, err := KVBlocks(shape, 10*perBlock, 9*16+1)
	if !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), "holds 144 tokens") || !strings.Contains(err.Error(), "90112 bytes") {
		t.Errorf("KVBlocks one token short = %v, want ErrMemory with 144 tokens and 90112 bytes", err)
	}
}

func TestNeedCheck(t *testing.T) {
	n := Need{Weights: 3 * gib, Workspace: 1 << 20, KV: gib}
	if err := n.Check(5 * gib); err != nil {
		t.Errorf("Check(5 GiB) = %v", err)
	}
	if err := n.Check(0); err != nil {
		t.Errorf("Check(unknown) = %v", err)
	}
	err := n.Check(4 * gib)
	for _, says := range []string{"4.00 GiB", "weights 3.00 GiB", "workspace 1.0 MiB", "KV cache 1.00 GiB"} {
		if !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), says) {
			t.Errorf("Check(4 GiB) = %v, want ErrMemory with %s", err, says)
		}
	}
}

// write makes files below a pretended root.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestAvailableMemory(t *testing.T) {
	const meminfo = "MemTotal: 2000 kB\nMemFree: 10 kB\nMemAvailable: 1000 kB\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"nothing known", map[string]string{}, 0},
		{"no cgroup", map[string]string{"proc/meminfo": meminfo}, 1024000},
		{"version 2, own limit", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/memory.max": "max\n", "sys/fs/cgroup/a/b/memory.max": "500000\n",
			"sys/fs/cgroup/a/b/memory.current": "300000\n",
			"sys/fs/cgroup/a/b/memory.stat":    "anon 5\nactive_file 20000\ninactive_file 30000\n"}, 250000},
		{"version 2, a parent's limit is tighter", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/memory.max": "100000\n", "sys/fs/cgroup/a/memory.current": "40000\n",
			"sys/fs/cgroup/a/b/memory.max": "500000\n"}, 60000},
		{"version 2 in a namespace", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "70000\n"}, 70000},
		{"version 1", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "4:cpu,memory:/x\n1:cpuset:/y\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "80000\n", "sys/fs/cgroup/memory/x/memory.usage_in_bytes": "30000\n",
			"sys/fs/cgroup/memory/x/memory.stat": "inactive_file 1\ntotal_inactive_file 2000\n"}, 52000},
		{"version 1, path of the host", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "4:memory:/docker/abc\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "90000\n"}, 90000},
		{"used up", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "1000\n", "sys/fs/cgroup/memory.current": "2000\n"}, 1},
	} {
		if got := availableMemory(write(t, c.files)); got != c.want {
			t.Errorf("%s: availableMemory = %d, want %d", c.name, got, c.want)
		}
	}
}
