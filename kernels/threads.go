package kernels

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// DefaultThreads returns the cores that this process may use: those of its
// affinity mask, and no more than the quota of its cgroup allows (v2, as a
// container sees it).
func DefaultThreads() int {
	n := runtime.NumCPU()
	if raw, err := os.ReadFile("/sys/fs/cgroup/cpu.max"); err == nil {
		n = min(n, quotaCores(string(raw)))
	}
	return max(1, n)
}

// quotaCores reads a cpu.max file, "quota period" in microseconds, and rounds
// up; a quota of "max" or no such file is no bound.
func quotaCores(cpuMax string) int {
	const unbounded = 1 << 30
	fields := strings.Fields(cpuMax)
	if len(fields) != 2 {
		return unbounded
	}
	quota, err1 := strconv.Atoi(fields[0])
	period, err2 := strconv.Atoi(fields[1])
	if err1 != nil || err2 != nil || quota <= 0 || period <= 0 {
		return unbounded
	}
	return (quota + period - 1) / period
}
