package modelrunner

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"govllm/enginecore/model"
	"govllm/enginecore/step"
	"govllm/kernels"
	"govllm/kernels/cpu"
	_ "govllm/kernels/ref"
	"govllm/protocol"
	"govllm/protocol/modelfile"
	"govllm/protocol/modelfile/builtin/weights"
	"govllm/protocol/modelfile/modelfiletest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// devices are the reference and every level of the CPU backend.
func devices() []string {
	names := []string{"ref"}
	for _, isa := range cpu.Levels() {
		names = append(names, "cpu:"+isa)
	}
	return names
}

func openDevice(t testing.TB, name string) kernels.Device {
	t.Helper()
	name, isa, _ := strings.Cut(name, ":")
	dev, err := kernels.Open(name, kernels.Options{ISA: isa})
	must(t, err)
	t.Cleanup(func() { dev.Close() })
	return dev
}

// loadModel loads a directory or the builtin.
func loadModel(t testing.TB, dev kernels.Device, path string, dtype kernels.DType) *model.Model {
	t.Helper()
	m, err := modelfile.Open(path, modelfile.Options{BuiltinWeights: weights.FS})
	must(t, err)
	src, err := m.OpenWeights()
	must(t, err)
	defer src.Close()
	loaded, err := model.Load(dev, m.Config, src, model.Options{DType: dtype, MaxModelLen: m.Config.MaxPositionEmbeddings})
	must(t, err)
	return loaded
}

// tinyModel has random weights and 256 positions.
func tinyModel(t testing.TB, dev kernels.Device) *model.Model {
	t.Helper()
	cfg := modelfiletest.Llama()
	return loadModel(t, dev, modelfiletest.WriteDir(t, cfg, modelfiletest.RandomTensors(cfg, "F32", 7)...), kernels.F32)
}

func newRunner(t testing.TB, dev kernels.Device, m *model.Model, cfg Config) *Runner {
	t.Helper()
	r, err := New(dev, m, cfg)
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	return r
}

// sequence is a request as the test's scheduler sees it.
type sequence struct {
	id       string
	prompt   []int32
	params   protocol.SamplingParams
	seed     uint64
	maxNew   int
	arrives  int // step
	tokens   []int32
	computed int
	row      step.Row // -1: not running
	blocks   []int32
	logits   []uint64 // fingerprint of each drawn token's logits

	logprobs       []*protocol.LogprobsLists // of each token; nil: not asked
	promptLogprobs *protocol.LogprobsLists
}

func (s *sequence) done() bool { return len(s.tokens) == len(s.prompt)+s.maxNew }

// policy varies what must not matter.
type policy struct {
	blockSize  int
	budget     int
	maxSeqs    int
	chunk      int // the most tokens of one sequence in a step; 0: no limit
	preemptOne int // every how many steps a sequence is preempted; 0: never
	seed       uint64
}

// play runs sequences to their end under a policy. It is a scheduler that
// makes no attempt at being good.
type play struct {
	t      *testing.T
	r      *Runner
	p      policy
	rng    *rand.Rand
	free   []int32
	rows   []step.Row
	freed  []step.Row
	seqs   []*sequence
	number uint64
}

func run(t *testing.T, dev kernels.Device, m *model.Model, kv kernels.DType, p policy, seqs []*sequence) {
	t.Helper()
	const numTokens = 2048
	cfg := Config{
		MaxNumSeqs: p.maxSeqs, MaxNumBatchedTokens: p.budget, MaxModelLen: 256,
		BlockSize: p.blockSize, NumBlocks: numTokens/p.blockSize + 1, KVDType: kv,
	}
	g := &play{t: t, r: newRunner(t, dev, m, cfg), p: p, rng: rand.New(rand.NewPCG(p.seed, 2)), seqs: seqs}
	for b := range cfg.NumBlocks - 1 {
		g.free = append(g.free, int32(b+1))
	}
	g.rng.Shuffle(len(g.free), func(i, j int) { g.free[i], g.free[j] = g.free[j], g.free[i] })
	for i := range p.maxSeqs {
		g.rows = append(g.rows, step.Row(i))
	}
	for _, s := range seqs {
		s.tokens, s.computed, s.row, s.blocks, s.logits = slices.Clone(s.prompt), 0, -1, nil, nil
		s.logprobs, s.promptLogprobs = nil, nil
	}
	for !g.step() {
	}
}

// step computes one step and says whether everything is done.
func (g *play) step() bool {
	g.t.Helper()
	g.number++
	if n := g.p.preemptOne; n > 0 && int(g.number)%n == 0 {
		g.preempt()
	}
	plan, batch := g.schedule()
	pass := g.r.Start(plan)
	out, err := pass.Sample()
	must(g.t, err)
	if len(out.Sampled) != len(batch) || out.NumNaNs != nil {
		g.t.Fatalf("step %d: %d results for %d sequences, NaNs %v", g.number, len(out.Sampled), len(batch), out.NumNaNs)
	}
	g.update(plan, batch, out)
	return !slices.ContainsFunc(g.seqs, func(s *sequence) bool { return !s.done() })
}

func (g *play) schedule() (*step.SchedulerOutput, []*sequence) {
	plan := &step.SchedulerOutput{Number: g.number, Freed: slices.Clone(g.freed)}
	g.rows = append(g.rows, g.freed...)
	g.freed = g.freed[:0]
	var batch []*sequence
	for _, s := range g.seqs {
		budget := g.p.budget - plan.NumTokens
		if s.done() || s.arrives > int(g.number) || budget == 0 || (s.row < 0 && len(g.rows) == 0) {
			continue
		}
		n := min(len(s.tokens)-s.computed, budget)
		if g.p.chunk > 0 {
			n = min(n, g.p.chunk)
		}
		fresh := g.take(ceilDiv(s.computed+n, g.p.blockSize) - len(s.blocks))
		s.blocks = append(s.blocks, fresh...)
		if s.row < 0 {
			s.row, g.rows = g.rows[0], g.rows[1:]
			plan.New = append(plan.New, step.NewRequest{
				Row: s.row, ID: s.id, Params: &s.params, Seed: s.seed, TokenIDs: slices.Clone(s.tokens),
				Prompt: len(s.prompt), BlockIDs: slices.Clone(s.blocks),
			})
			fresh = nil
		}
		plan.Scheduled = append(plan.Scheduled, step.Scheduled{
			Row: s.row, Computed: s.computed, NumTokens: n, NewBlockIDs: fresh, Samples: s.computed+n == len(s.tokens),
		})
		plan.NumTokens += n
		batch = append(batch, s)
	}
	return plan, batch
}

func (g *play) take(n int) []int32 {
	taken := slices.Clone(g.free[:max(n, 0)])
	g.free = g.free[len(taken):]
	return taken
}

func (g *play) update(plan *step.SchedulerOutput, batch []*sequence, out *step.ModelRunnerOutput) {
	prints := g.fingerprints(len(g.r.batch.draws))
	for i, s := range batch {
		s.computed += plan.Scheduled[i].NumTokens
		if plan.Scheduled[i].Samples != (out.Sampled[i] >= 0) {
			g.t.Fatalf("step %d: Sampled[%d] = %d where Samples is %v", g.number, i, out.Sampled[i], plan.Scheduled[i].Samples)
		}
		s.takeLogprobs(g.t, out, i)
		if out.Sampled[i] < 0 {
			continue
		}
		s.tokens = append(s.tokens, out.Sampled[i])
		s.logits = append(s.logits, prints[0])
		prints = prints[1:]
		if s.done() {
			g.release(s)
		}
	}
}

// fingerprints hashes every bit of each row of the last pass's logits.
func (g *play) fingerprints(n int) []uint64 {
	if n == 0 {
		return nil
	}
	vocab := g.r.model.Config().VocabSize
	logits := make([]float32, n*vocab)
	g.r.queue.DownloadRows(logits, g.r.work.Logits(), n)
	must(g.t, g.r.queue.Sync())
	var prints []uint64
	for row := range slices.Chunk(logits, vocab) {
		h := uint64(14695981039346656037)
		for _, v := range row {
			h = (h ^ uint64(math.Float32bits(v))) * 1099511628211
		}
		prints = append(prints, h)
	}
	return prints
}

func (g *play) release(s *sequence) {
	g.free = append(g.free, s.blocks...)
	g.freed = append(g.freed, s.row)
	s.blocks, s.row, s.computed = nil, -1, 0
}

// preempt throws a running sequence's cache away; it starts again later.
func (g *play) preempt() {
	for _, s := range g.seqs {
		if s.row >= 0 && g.rng.IntN(2) == 0 {
			g.release(s)
			return
		}
	}
}

func testSequences() []*sequence {
	rng := rand.New(rand.NewPCG(3, 3))
	numNew, lengths := 12, []int{1, 5, 31, 32, 33, 64, 90, 150}
	if raceEnabled {
		numNew, lengths = 3, []int{1, 32, 40}
	}
	var seqs []*sequence
	for i, n := range lengths {
		s := &sequence{id: fmt.Sprint("seq", i), maxNew: numNew, params: protocol.DefaultSamplingParams(), arrives: i / 2}
		for range n {
			s.prompt = append(s.prompt, int32(rng.IntN(131)))
		}
		s.params.Temperature = 0
		if i%3 == 2 {
			s.params.Temperature, s.params.TopP, s.seed = 0.9, 0.9, uint64(i)
		}
		seqs = append(seqs, s)
	}
	return seqs
}

// What a sequence gets depends on that sequence alone, bit for bit.
func TestResultsDoNotDependOnTheSchedule(t *testing.T) {
	for _, device := range devices() {
		for _, kv := range []kernels.DType{kernels.F32, kernels.BF16} {
			t.Run(fmt.Sprintf("%s,kv=%v", device, kv), func(t *testing.T) { testSchedules(t, device, kv) })
		}
	}
}

func testSchedules(t *testing.T, device string, kv kernels.DType) {
	dev := openDevice(t, device)
	m := tinyModel(t, dev)
	unit := dev.Caps().BlockSizeMultiple
	whole := policy{blockSize: 32, budget: 512, maxSeqs: 1}
	want := testSequences()
	run(t, dev, m, kv, whole, want)
	for _, p := range []policy{
		{blockSize: 32, budget: 512, maxSeqs: 8},
		{blockSize: 64, budget: 512, maxSeqs: 3},
		{blockSize: unit, budget: 40, maxSeqs: 4},
		{blockSize: 32, budget: 8, maxSeqs: 8, chunk: 3},
		{blockSize: 3 * unit, budget: 61, maxSeqs: 5, chunk: 17, preemptOne: 4, seed: 1},
		{blockSize: 256, budget: 33, maxSeqs: 6, preemptOne: 3, seed: 2},
	} {
		t.Run(strings.ReplaceAll(fmt.Sprintf("%+v", p), " ", ","), func(t *testing.T) {
			got := testSequences()
			run(t, dev, m, kv, p, got)
			for i, g := range got {
				if !slices.Equal(g.tokens, want[i].tokens) {
					t.Errorf("%s: tokens = %v, want %v", g.id, g.tokens[len(g.prompt):], want[i].tokens[len(g.prompt):])
				}
				if !slices.Equal(g.logits, want[i].logits) {
					t.Errorf("%s: the logits differ in some bit", g.id)
				}
			}
		})
	}
}

// admit is the plan that starts one request whole.
func admit(row step.Row, params *protocol.SamplingParams, tokens ...int32) *step.SchedulerOutput {
	return &step.SchedulerOutput{
		New:       []step.NewRequest{{Row: row, ID: fmt.Sprint("req", row), Params: params, TokenIDs: tokens, Prompt: len(tokens), BlockIDs: []int32{int32(row) + 1}}},
		Scheduled: []step.Scheduled{{Row: row, NumTokens: len(tokens), Samples: true}},
		NumTokens: len(tokens),
	}
}

// decode is the plan that computes one more token of each row.
func decode(computed int, rows ...step.Row) *step.SchedulerOutput {
	plan := &step.SchedulerOutput{NumTokens: len(rows)}
	for _, r := range rows {
		plan.Scheduled = append(plan.Scheduled, step.Scheduled{Row: r, Computed: computed, NumTokens: 1, Samples: true})
	}
	return plan
}

var smallConfig = Config{MaxNumSeqs: 4, MaxNumBatchedTokens: 64, MaxModelLen: 64, BlockSize: 64, NumBlocks: 8, KVDType: kernels.F32}

func greedy() *protocol.SamplingParams {
	p := protocol.DefaultSamplingParams()
	p.Temperature = 0
	return &p
}

func sample(t testing.TB, p *Pass) *step.ModelRunnerOutput {
	t.Helper()
	out, err := p.Sample()
	must(t, err)
	return out
}

func TestPlanWithoutWork(t *testing.T) {
	dev := openDevice(t, "ref")
	r := newRunner(t, dev, tinyModel(t, dev), smallConfig)
	sample(t, r.Start(admit(2, greedy(), 1, 2)))
	if out := sample(t, r.Start(&step.SchedulerOutput{Freed: []step.Row{2}})); len(out.Sampled) != 0 {
		t.Errorf("a plan that only frees: Sampled = %v, want nothing", out.Sampled)
	}
	sample(t, r.Start(admit(2, greedy(), 3)))
}

func TestPartialPrefillSamplesNothing(t *testing.T) {
	dev := openDevice(t, "ref")
	r := newRunner(t, dev, tinyModel(t, dev), smallConfig)
	plan := admit(0, greedy(), 1, 2, 3)
	plan.Scheduled[0].NumTokens, plan.Scheduled[0].Samples = 2, false
	if out := sample(t, r.Start(plan)); !slices.Equal(out.Sampled, []int32{-1}) {
		t.Errorf("two of three prompt tokens: Sampled = %v, want [-1]", out.Sampled)
	}
	if out := sample(t, r.Start(decode(2, 0))); out.Sampled[0] < 0 {
		t.Errorf("the third: Sampled = %v, want a token", out.Sampled)
	}
}

// A request whose prompt is cached computes its last token only, on the blocks
// of another.
func TestCachedPrefix(t *testing.T) {
	dev := openDevice(t, "ref")
	r := newRunner(t, dev, tinyModel(t, dev), smallConfig)
	want := sample(t, r.Start(admit(0, greedy(), 5, 6, 7))).Sampled[0]
	plan := admit(1, greedy(), 5, 6, 7)
	plan.New[0].BlockIDs, plan.New[0].Computed = []int32{1}, 2
	plan.Scheduled[0].Computed, plan.Scheduled[0].NumTokens, plan.NumTokens = 2, 1, 1
	if got := sample(t, r.Start(plan)).Sampled[0]; got != want {
		t.Errorf("token after a cached prefix = %d, want %d", got, want)
	}
}

func TestBrokenPlansPanic(t *testing.T) {
	for _, c := range []struct {
		name string
		plan func() *step.SchedulerOutput
		says string
	}{
		{"empty row", func() *step.SchedulerOutput { return decode(2, 3) }, "row 3 is scheduled and empty"},
		{"freed twice", func() *step.SchedulerOutput { return &step.SchedulerOutput{Freed: []step.Row{3}} }, "row 3 was freed while empty"},
		{"row in use", func() *step.SchedulerOutput { return admit(0, greedy(), 1) }, `holds request "req0"`},
		{"beyond the tokens", func() *step.SchedulerOutput { return decode(3, 0) }, `request "req0": tokens [3, 4) of 3`},
		{"beyond max_model_len", func() *step.SchedulerOutput {
			plan := admit(1, greedy(), make([]int32, 65)...)
			plan.New[0].BlockIDs = []int32{2, 3}
			return plan
		}, `request "req1": token 65 is beyond max_model_len 64`},
		{"too few blocks", func() *step.SchedulerOutput {
			plan := admit(1, greedy(), 1)
			plan.New[0].BlockIDs = nil
			return plan
		}, `request "req1": 1 tokens in 0 blocks`},
		{"samples too early", func() *step.SchedulerOutput { return decode(1, 0) }, "Samples is true after token 2 of 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dev := openDevice(t, "ref")
			r := newRunner(t, dev, tinyModel(t, dev), smallConfig)
			sample(t, r.Start(admit(0, greedy(), 1, 2)))
			defer func() {
				if v := fmt.Sprint(recover()); !strings.Contains(v, c.says) {
					t.Errorf("Start panicked with %s, want %q", v, c.says)
				}
			}()
			r.Start(c.plan())
		})
	}
}

func TestConfigValidate(t *testing.T) {
	caps := kernels.Caps{KVDTypes: []kernels.DType{kernels.F32}, BlockSizeMultiple: 16}
	good := smallConfig
	if err := good.Validate(caps); err != nil {
		t.Errorf("Validate(%+v) = %v", good, err)
	}
	bad := Config{MaxNumSeqs: 8, MaxNumBatchedTokens: 4, MaxModelLen: 0, BlockSize: 24, NumBlocks: 1, KVDType: kernels.BF16}
	err := bad.Validate(caps)
	for _, says := range []string{"max_num_batched_tokens = 4 must be at least max_num_seqs = 8", "max_model_len = 0",
		"block_size = 24 must be a multiple of 16", "num_blocks = 1", "kv_cache_dtype = bfloat16"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Validate(%+v) = %v, want also %q", bad, err, says)
		}
	}
}
