package modelrunner

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"govllm/kernels"
)

// ErrMemory reports a model, or a KV cache, that does not fit.
var ErrMemory = errors.New("not enough memory")

const (
	gib            = 1 << 30
	defaultKVBytes = 4 * gib
)

// KVBytes is how much memory the KV cache takes if nobody says otherwise:
// min(4 GiB, a quarter of the available memory). available is
// AvailableMemory's answer, 0 if unknown.
func KVBytes(available int64) int64 {
	if available <= 0 {
		return defaultKVBytes
	}
	return min(defaultKVBytes, available/4)
}

// KVBlocks returns the blocks that fit into kvBytes, the null block included.
// shape.NumBlocks is not read. At least one sequence of maxModelLen tokens
// must fit, or else ErrMemory says what would help.
func KVBlocks(shape kernels.KVShape, kvBytes int64, maxModelLen int) (int, error) {
	perBlock := shape.BlockBytes()
	blocks := min(kvBytes/perBlock, math.MaxInt32/int64(shape.BlockSize)) // slots are int32
	need := int64(ceilDiv(maxModelLen, shape.BlockSize)) + 1
	if blocks >= need {
		return int(blocks), nil
	}
	if kvBytes/perBlock >= need {
		return 0, fmt.Errorf("%w: a sequence of --max-model-len %d tokens needs more KV slots than %d; lower it",
			ErrMemory, maxModelLen, math.MaxInt32)
	}
	return 0, fmt.Errorf("%w: a KV cache of %s holds %d tokens, but one sequence of --max-model-len %d needs %s; "+
		"raise --kv-cache-memory-bytes (or VLLM_CPU_KVCACHE_SPACE, in GiB) to at least %d bytes, or lower --max-model-len to %d",
		ErrMemory, bytesText(kvBytes), max(blocks-1, 0)*int64(shape.BlockSize), maxModelLen, bytesText(need*perBlock),
		need*perBlock, max(blocks-1, 0)*int64(shape.BlockSize))
}

// Need is the memory of an engine, in bytes.
type Need struct {
	Weights   int64 // model.WeightBytes
	Workspace int64 // model.WorkspaceBytes
	KV        int64 // Device.KVCacheBytes
}

// Check returns ErrMemory, with each part, if the sum is more than available
// (0 if unknown).
func (n Need) Check(available int64) error {
	total := n.Weights + n.Workspace + n.KV
	if available <= 0 || total <= available {
		return nil
	}
	return fmt.Errorf("%w: the model needs %s (weights %s, workspace %s, KV cache %s) and %s are available to this process; "+
		"lower --kv-cache-memory-bytes, --max-num-batched-tokens or --dtype, or take a smaller model",
		ErrMemory, bytesText(total), bytesText(n.Weights), bytesText(n.Workspace), bytesText(n.KV), bytesText(available))
}

func bytesText(n int64) string {
	switch {
	case n >= gib:
		return fmt.Sprintf("%.2f GiB", float64(n)/gib)
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", n)
}

// AvailableMemory returns the bytes that this process may still take: what the
// machine has left, and what each cgroup it is in has left below its limit,
// counting file pages as free. 0 means unknown.
func AvailableMemory() int64 { return availableMemory("/") }

// availableMemory reads /proc and /sys below root.
func availableMemory(root string) int64 {
	available := memAvailable(filepath.Join(root, "proc/meminfo"))
	for _, dir := range memoryCgroups(root) {
		if left, limited := cgroupLeft(dir); limited && (available == 0 || left < available) {
			available = max(left, 1)
		}
	}
	return available
}

func memAvailable(path string) int64 {
	kib, _ := statValue(path, "MemAvailable:")
	return kib * 1024
}

// memoryCgroups lists the directories of this process's memory cgroup and of
// its ancestors, of version 1 and 2. A container may see its own cgroup at the
// mount point although /proc names a path outside.
func memoryCgroups(root string) []string {
	data, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return nil
	}
	var dirs []string
	for line := range strings.Lines(string(data)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3) // hierarchy:controllers:path
		if len(part) != 3 {
			continue
		}
		switch {
		case part[0] == "0" && part[1] == "":
			dirs = append(dirs, ancestors(filepath.Join(root, "sys/fs/cgroup"), part[2])...)
		case strings.Contains(","+part[1]+",", ",memory,"):
			dirs = append(dirs, ancestors(filepath.Join(root, "sys/fs/cgroup/memory"), part[2])...)
		}
	}
	return dirs
}

// ancestors returns mount/path and every directory above it down to mount.
func ancestors(mount, path string) []string {
	dirs := []string{mount}
	for _, name := range strings.Split(strings.Trim(filepath.Clean("/"+path), "/"), "/") {
		if name != "" {
			dirs = append(dirs, filepath.Join(dirs[len(dirs)-1], name))
		}
	}
	return dirs
}

// cgroupLeft returns limit − usage + file pages of one cgroup directory;
// limited is false where it sets no limit or is not there.
func cgroupLeft(dir string) (left int64, limited bool) {
	for _, v := range []struct{ limit, usage, active, inactive string }{
		{"memory.max", "memory.current", "active_file", "inactive_file"},
		{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_active_file", "total_inactive_file"},
	} {
		limit, ok := fileValue(filepath.Join(dir, v.limit))
		if !ok || limit > math.MaxInt64/2 { // version 1 writes nearly MaxInt64 for none
			continue
		}
		usage, _ := fileValue(filepath.Join(dir, v.usage))
		stat := filepath.Join(dir, "memory.stat")
		active, _ := statValue(stat, v.active)
		inactive, _ := statValue(stat, v.inactive)
		return limit - usage + active + inactive, true
	}
	return 0, false
}

// fileValue reads a file of one number; "max" and a missing file are not ok.
func fileValue(path string) (int64, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	v, err := strconv.ParseInt(string(bytes.TrimSpace(data)), 10, 64)
	return v, err == nil
}

// statValue reads the number after a key in a file of "key value" lines.
func statValue(path, key string) (int64, bool) {
	f, err := os.Open(path)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if field := strings.Fields(lines.Text()); len(field) >= 2 && field[0] == key {
			v, err := strconv.ParseInt(field[1], 10, 64)
			return v, err == nil
		}
	}
	return 0, false
}
