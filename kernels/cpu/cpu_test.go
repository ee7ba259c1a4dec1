package cpu_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"govllm/kernels"
	"govllm/kernels/cpu"
	"govllm/kernels/kerneltest"
)

func needLevels(t *testing.T) {
	t.Helper()
	if len(cpu.Levels()) == 0 {
		t.Skip("built without cgo: the device is the reference, which has its own test")
	}
}

// TestSuite runs on every level that the machine has.
func TestSuite(t *testing.T) {
	needLevels(t)
	for _, isa := range cpu.Levels() {
		t.Run(isa, func(t *testing.T) {
			kerneltest.Run(t, func(opt kernels.Options) (kernels.Device, error) {
				opt.ISA = isa
				return cpu.Open(opt)
			})
		})
	}
}

func TestOpenNamesTheLevel(t *testing.T) {
	needLevels(t)
	t.Setenv(cpu.ISAEnv, "generic")
	dev, err := kernels.Open("cpu", kernels.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if got, want := dev.Name(), "cpu (generic, 2 threads)"; got != want {
		t.Errorf("Name() = %q, want %q", got, want)
	}
	_, err = kernels.Open("cpu", kernels.Options{ISA: "mmx"})
	if err == nil || !strings.Contains(err.Error(), `"mmx"`) || !strings.Contains(err.Error(), "generic") {
		t.Errorf(`Open(ISA "mmx") = %v, want an error that names mmx and the levels`, err)
	}
}

func TestClosed(t *testing.T) {
	needLevels(t)
	dev, err := cpu.Open(kernels.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := dev.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
	if err := dev.Close(); !errors.Is(err, cpu.ErrClosed) {
		t.Errorf("second Close() = %v, want %v", err, cpu.ErrClosed)
	}
	if _, err := dev.NewInts(1); !errors.Is(err, cpu.ErrClosed) {
		t.Errorf("NewInts after Close = %v, want %v", err, cpu.ErrClosed)
	}
}

// step is a small device with one of everything that a decode step uses.
type step struct {
	q           kernels.Queue
	x, qkv, a   kernels.Activation
	part        kernels.Activation
	experts     []kernels.Weight
	picked      kernels.Ints
	norm        kernels.Vector
	square, up  kernels.Weight
	kv          kernels.KVCache
	ids, batch  kernels.Ints
	zero, out   kernels.Ints
	shape       kernels.AttnShape
	rows        []kernels.SamplingRow
	got         []int32
	one, lenOne []int32
}

func newStep(t *testing.T, threads int) *step {
	t.Helper()
	dev, err := cpu.Open(kernels.Options{Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	fail := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s := &step{shape: kernels.AttnShape{Heads: 2, KVHeads: 1, HeadDim: 32, Scale: 1},
		rows: []kernels.SamplingRow{{Temperature: 1, TopP: 0.9, TopK: 5, Banned: []int32{3}}},
		got:  make([]int32, 1), one: []int32{1}, lenOne: []int32{0, 1}}
	s.q, err = dev.NewQueue(60)
	fail(err)
	activation := func(cols int) kernels.Activation {
		a, err := dev.NewActivation(1, cols)
		fail(err)
		return a
	}
	s.x, s.qkv, s.a, s.part = activation(64), activation(128), activation(64), activation(1)
	ones := make([]float32, 64)
	for i := range ones {
		ones[i] = 1
	}
	s.norm, err = dev.NewVector(ones)
	fail(err)
	identity := make([]byte, 64*64*4)
	for i := range 64 {
		identity[(i*64+i)*4+2], identity[(i*64+i)*4+3] = 0x80, 0x3f
	}
	s.square, err = kernels.PackWeight(dev, kernels.F32, 64, 64, kernels.F32, identity)
	fail(err)
	s.up, err = kernels.PackWeight(dev, kernels.BF16, 128, 64, kernels.BF16, make([]byte, 128*64*2))
	fail(err)
	s.kv, err = dev.NewKVCache(kernels.KVShape{Layers: 1, NumBlocks: 4, BlockSize: 16, KVHeads: 1, HeadDim: 32, DType: kernels.BF16})
	fail(err)
	s.experts = []kernels.Weight{s.square, s.square}
	for _, p := range []*kernels.Ints{&s.ids, &s.batch, &s.zero, &s.out, &s.picked} {
		*p, err = dev.NewInts(2)
		fail(err)
	}
	return s
}

// decode records every kind of operation once and runs them.
func (s *step) decode() error {
	q := s.q
	q.Upload(s.ids, s.one)
	q.Upload(s.batch, s.lenOne)
	q.Embed(s.x, s.square, s.ids, 1, 1)
	q.RMSNorm(s.x, s.x, s.norm, 1e-5, 1)
	q.Linear(s.qkv, s.x, s.up, nil, false, 1)
	q.RopeKVWrite(s.qkv, s.kv, 0, s.zero, s.ids, kernels.Rope{}, s.shape, nil, nil, 0, 1)
	q.PagedAttention(s.a, s.qkv, s.kv, 0, kernels.Batch{NumSeqs: 1, MaxBlocks: 1, QueryStart: s.batch, SeqLens: s.ids, BlockTable: s.zero}, s.shape, 1)
	q.GateMul(s.a, s.qkv, kernels.SiLU, 1)
	q.Route(s.picked, s.part, s.x, 1, true, 1)
	q.LinearEach(s.a, s.x, s.experts, s.zero, 1, 1)
	q.AddWeighted(s.x, s.a, s.part, 1)
	q.AddRMSNorm(s.x, s.a, s.norm, 1e-5, 1)
	q.SoftCap(s.x, 30, 1)
	q.GatherRows(s.a, s.x, s.zero, 1)
	q.Sample(s.out, s.a, s.rows)
	q.Download(s.got, s.out)
	return q.Sync()
}

func TestStepAllocatesNothing(t *testing.T) {
	needLevels(t)
	s := newStep(t, 2)
	if n := testing.AllocsPerRun(100, func() {
		if err := s.decode(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a step makes %v allocations, want 0", n)
	}
}

// TestEveryChunkOnce runs many short steps on more threads than cores: each
// operation adds 1 to every value, so a chunk lost or done twice shows.
func TestEveryChunkOnce(t *testing.T) {
	needLevels(t)
	s := newStep(t, 5)
	const steps, ops = 300, 50
	s.q.Upload(s.ids, s.one)
	s.q.Embed(s.a, s.square, s.ids, 1, 1) // row 1 of the identity
	for range steps {
		for range ops {
			s.q.Linear(s.x, s.a, s.square, nil, true, 1)
		}
		if err := s.q.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]float32, 64)
	s.q.DownloadRows(got, s.x, 1)
	if err := s.q.Sync(); err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		want := float32(0)
		if i == 1 {
			want = steps * ops
		}
		if v != want {
			t.Errorf("x[%d] = %v after %d operations, want %v", i, v, steps*ops, want)
		}
	}
}

// TestKVCacheIsLazy reserves far more than a test may use.
func TestKVCacheIsLazy(t *testing.T) {
	needLevels(t)
	dev, err := cpu.Open(kernels.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	before := residentBytes(t)
	shape := kernels.KVShape{Layers: 32, NumBlocks: 32768, BlockSize: 32, KVHeads: 8, HeadDim: 128, DType: kernels.BF16}
	if _, err := dev.NewKVCache(shape); err != nil {
		t.Skipf("this system lends no %d bytes of address space: %v", int64(shape.NumBlocks)*shape.BlockBytes(), err)
	}
	if grown := residentBytes(t) - before; grown > 64<<20 {
		t.Errorf("an unused KV cache takes %d bytes", grown)
	}
}

// residentBytes reads the second word of /proc/self/statm: resident pages.
func residentBytes(t *testing.T) int64 {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skipf("no /proc here: %v", err)
	}
	pages := int64(0)
	for _, c := range strings.Fields(string(raw))[1] {
		pages = 10*pages + int64(c-'0')
	}
	return pages * int64(os.Getpagesize())
}
