package protocol

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// golden.txt holds examples derived by hand from the MessagePack rules and
// vLLM's sources; vllm-0.33.txt is msgspec's by vLLM's definitions; govllm.txt
// is ours, for testdata/vllm_structs.py to decode with those definitions.

var update = flag.Bool("update", false, "rewrite testdata/govllm.txt")

// readGolden reads "# name" lines, each followed by lines of hex.
func readGolden(t testing.TB, file string) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	golden := map[string][]byte{}
	for _, part := range strings.Split(string(text), "# ")[1:] {
		name, body, _ := strings.Cut(part, "\n")
		b, err := hex.DecodeString(strings.Join(strings.Fields(body), ""))
		if err != nil {
			t.Fatalf("%s: %s: %v", file, name, err)
		}
		golden[name] = b
	}
	return golden
}

func ptr[T any](v T) *T { return &v }

// equal compares messages, an empty slice or map being a nil one.
func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s: got the + side, want the - side:\n%s", what, diff)
	}
}

func decodeOutputs(t *testing.T, frames ...[]byte) *EngineCoreOutputs {
	t.Helper()
	var d OutputsDecoder
	o, err := d.Decode(frames)
	if err != nil {
		t.Fatalf("Decode(% x) = %v", frames[0], err)
	}
	return o
}

func paramsWith(change func(p *SamplingParams)) *SamplingParams {
	p := DefaultSamplingParams()
	change(&p)
	return &p
}

func TestGoldenHandshake(t *testing.T) {
	golden := readGolden(t, "golden.txt")
	hello := &Hello{Status: StatusHello, Headless: true}
	ready := &Hello{Status: StatusReady, Headless: true}
	init := &Init{Addresses: Addresses{
		Inputs: []string{"tcp://127.0.0.1:5001"}, Outputs: []string{"tcp://127.0.0.1:5002"}}}
	for _, c := range []struct {
		name   string
		want   any
		decode func([]byte) (any, error)
		encode []byte
	}{
		{"hello", hello, func(b []byte) (any, error) { return DecodeHello(b) }, AppendHello(nil, hello)},
		{"ready", ready, func(b []byte) (any, error) { return DecodeHello(b) }, AppendHello(nil, ready)},
		{"init", init, func(b []byte) (any, error) { return DecodeInit(b) },
			AppendInit(nil, &Init{Addresses: init.Addresses, ParallelConfig: map[string]any{}})},
	} {
		got, err := c.decode(golden[c.name])
		if err != nil {
			t.Errorf("decode(%s) = %v", c.name, err)
		}
		equal(t, "decode("+c.name+")", got, c.want)
		if !bytes.Equal(c.encode, golden[c.name]) {
			t.Errorf("encode(%s) = % x, want % x", c.name, c.encode, golden[c.name])
		}
	}
	refusal := &Init{Refusal: "rank 0 is taken"}
	got, err := DecodeInit(AppendInit(nil, refusal))
	if err != nil || !cmp.Equal(got, refusal) {
		t.Errorf("DecodeInit(refusal) = %+v, %v, want %+v", got, err, refusal)
	}
}

func TestGoldenParallelConfig(t *testing.T) {
	golden := readGolden(t, "golden.txt")
	plain := AppendInit(nil, &Init{Addresses: Addresses{Inputs: []string{"i"}, Outputs: []string{"o"}},
		ParallelConfig: map[string]any{}})
	got, err := DecodeInit(append(plain[:len(plain)-1], golden["parallel_config"]...))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "parallel_config", got.ParallelConfig, map[string]any{
		"data_parallel_master_ip": "10.0.0.1", "data_parallel_master_port": int64(40001),
		"_data_parallel_master_port_list": []any{int64(40002)}, "data_parallel_size": int64(2)})
}

var registration = Registration{
	MaxModelLen: 4096, NumGPUBlocks: 1024, BlockSize: 16, DType: "bfloat16", VLLMVersion: "0.32.0",
	WorldSize: 1, DataParallelSize: 1, TensorParallelSize: 1, PipelineParallelSize: 1,
	DecodeContextParallelSize: 1, MaxNumSeqs: 256, MaxNumBatchedTokens: 8192, InstanceID: "go-0",
	KVCacheSizeTokens: 16384, KVCacheMaxConcurrency: 4,
}

func TestGoldenRegistration(t *testing.T) {
	want := readGolden(t, "golden.txt")["registration"]
	got, err := DecodeRegistration(want)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "DecodeRegistration", got, &registration)

	// Ours has four keys more than the example: those of 0.32 and 0.33.
	want = append([]byte{0xde, 0, 28}, want[3:]...)
	want = appendNil(appendStr(want, "effective_attention_block_size"))
	want = appendInt(appendStr(want, "coord_store_port"), 0)
	want = appendNil(appendStr(want, "coordinator_input_address"))
	want = appendNil(appendStr(want, "coordinator_output_address"))
	if got := AppendRegistration(nil, &registration); !bytes.Equal(got, want) {
		t.Errorf("AppendRegistration = % x, want % x", got, want)
	}
}

func TestGoldenRequests(t *testing.T) {
	golden := readGolden(t, "golden.txt")
	wrapParams := func(params []byte) []byte {
		b := append([]byte{0x99, 0xa1, 'r', 0x91, 0x01, 0xc0}, params...)
		return append(b, 0xc0, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0xc0, 0xc0, 0xc0)
	}
	short := &EngineCoreRequest{
		RequestID: "r1", PromptTokenIDs: []int32{1, 15, 300}, ArrivalTime: 1700000000.5,
		SamplingParams: paramsWith(func(p *SamplingParams) {
			p.Temperature, p.MaxTokens, p.EOSTokenID, p.AllStopTokenIDs = 0, ptr(4), ptr(int32(2)), []int32{2}
		})}
	for _, c := range []struct {
		name    string
		request RequestType
		payload []byte
		want    FrontendMessage
		encode  []byte // nil: our form differs
	}{
		{"add_python", RequestAdd, golden["add_python"], &EngineCoreRequest{
			RequestID: "r1-0a1b2c3d", PromptTokenIDs: []int32{1, 15, 300}, ArrivalTime: 1700000000.5, ExternalReqID: "r1",
			SamplingParams: paramsWith(func(p *SamplingParams) {
				p.Temperature, p.MaxTokens, p.OutputKind = 0, ptr(4), OutputDelta
				p.EOSTokenID, p.AllStopTokenIDs, p.SkipReadingPrefixCache = ptr(int32(2)), []int32{2}, ptr(false)
			})}, nil},
		{"add_short", RequestAdd, golden["add_short"], short, AppendRequest(nil, short)},
		{"sampling_rust", RequestAdd, wrapParams(golden["sampling_rust"]), &EngineCoreRequest{
			RequestID: "r", PromptTokenIDs: []int32{1},
			SamplingParams: paramsWith(func(p *SamplingParams) {
				p.MaxTokens, p.EOSTokenID, p.AllStopTokenIDs = ptr(4), ptr(int32(2)), []int32{2}
			})}, nil},
		{"structured_outputs_rust", RequestAdd,
			wrapParams(append([]byte("\x81\xb2structured_outputs"), golden["structured_outputs_rust"]...)),
			&EngineCoreRequest{RequestID: "r", PromptTokenIDs: []int32{1},
				SamplingParams: paramsWith(func(p *SamplingParams) { p.Unsupported = []string{"structured_outputs"} })}, nil},
		{"lora_request and mm_features", RequestAdd,
			bytes.Join([][]byte{{0x99, 0xa1, 'r', 0x91, 0x01}, golden["mm_features"], {0x80, 0xc0, 0x01},
				golden["lora_request"], {0xc0, 0xc0}}, nil),
			&EngineCoreRequest{RequestID: "r", PromptTokenIDs: []int32{1}, ArrivalTime: 1,
				SamplingParams: paramsWith(func(*SamplingParams) {}), Unsupported: []string{"mm_features", "lora_request"}}, nil},
		{"abort", RequestAbort, golden["abort"], Abort{"r1-0a1b2c3d"}, AppendAbort(nil, []string{"r1-0a1b2c3d"})},
		{"utility", RequestUtility, golden["utility"],
			&UtilityCall{CallID: NewCallID(0xf1234567abcd11ef), Method: "get_supported_tasks"},
			AppendUtilityCall(nil, &UtilityCall{CallID: NewCallID(0xf1234567abcd11ef), Method: "get_supported_tasks"})},
		{"dp_wave_exclude", RequestStartDPWave, golden["dp_wave_exclude"], &StartDPWave{Wave: 4, HasExclude: true},
			AppendStartDPWave(nil, &StartDPWave{Wave: 4, HasExclude: true})},
		{"dp_wave_all", RequestStartDPWave, golden["dp_wave_all"], &StartDPWave{Wave: 4},
			AppendStartDPWave(nil, &StartDPWave{Wave: 4})},
	} {
		got := DecodeFrontendMessage([][]byte{{byte(c.request)}, c.payload})
		equal(t, "decode("+c.name+")", got, c.want)
		if c.encode != nil && !bytes.Equal(c.encode, c.payload) {
			t.Errorf("encode(%s) = % x, want % x", c.name, c.encode, c.payload)
		}
	}
}

func TestGoldenOutputs(t *testing.T) {
	golden := readGolden(t, "golden.txt")
	token := func(id string, ts float64, o EngineCoreOutput) *EngineCoreOutputs {
		o.RequestID = id
		return &EngineCoreOutputs{Outputs: []EngineCoreOutput{o}, Timestamp: ts}
	}
	const at = 12345.5
	first := token("r1", at, EngineCoreOutput{NewTokenIDs: []int32{42},
		Events:       []EngineCoreEvent{{EventQueued, 12345}, {EventScheduled, 12345.25}},
		PrefillStats: &PrefillStats{NumPromptTokens: 3, NumComputedTokens: 3}})
	terminal := token("r1-0a1b2c3d", 12345.75, EngineCoreOutput{NewTokenIDs: []int32{2}, FinishReason: FinishStop})
	terminal.FinishedRequests = []string{"r1-0a1b2c3d"}
	abort := token("r1-0a1b2c3d", at, EngineCoreOutput{FinishReason: FinishAbort})
	abort.FinishedRequests = []string{"r1-0a1b2c3d"}
	utility := func(ts float64, u UtilityOutput) *EngineCoreOutputs {
		return &EngineCoreOutputs{Timestamp: ts, UtilityOutput: &u}
	}
	for _, c := range []struct {
		name string
		want *EngineCoreOutputs
		same bool // our bytes equal the example's
	}{
		{"one_token", token("r1-0a1b2c3d", at, EngineCoreOutput{NewTokenIDs: []int32{42}}), false},
		{"one_token_late", token("r1", at, EngineCoreOutput{NewTokenIDs: []int32{42}}), false},
		{"first_output", first, true},
		{"terminal_output", terminal, true},
		{"abort_output", abort, true},
		{"pooling_output", token("p1", at, EngineCoreOutput{FinishReason: FinishStop}), false},
		{"utility_success", utility(12346, UtilityOutput{CallID: NewCallID(0xf1234567abcd11ef), Result: []any{"generate"}}), false},
		{"utility_void", utility(12346, UtilityOutput{CallID: NewCallID(7)}), true},
		{"utility_failure", utility(12346, UtilityOutput{CallID: NewCallID(7), Failure: "Call to foo method failed: boom"}), true},
		{"utility_notification", utility(12348, UtilityOutput{
			CallID: CallID{Bits: 1<<64 - 1, Negative: true}, Result: []any{"RECONFIGURE_FINISHED", int64(1)}}), true},
		{"dp_load_stats", &EngineCoreOutputs{EngineIndex: 1, Timestamp: at, SchedulerStats: &SchedulerStats{
			NumRunningReqs: 2, NumWaitingReqs: 1, StepCounter: 7, CurrentWave: 3, KVCacheUsage: 0.5}}, false},
		{"wave_complete", &EngineCoreOutputs{Timestamp: 12347, WaveComplete: ptr(3)}, false},
		{"start_wave", &EngineCoreOutputs{EngineIndex: 1, Timestamp: 12347, StartWave: ptr(4)}, true},
	} {
		equal(t, "decode("+c.name+")", decodeOutputs(t, golden[c.name]), c.want)
		if got := AppendOutputs(nil, c.want); c.same && !bytes.Equal(got, golden[c.name]) {
			t.Errorf("encode(%s) = % x, want % x", c.name, got, golden[c.name])
		}
		equal(t, "decode(encode("+c.name+"))", decodeOutputs(t, AppendOutputs(nil, c.want)), c.want)
	}
}

// outputWith wraps the value of element 2 or 3 of an output into a message.
func outputWith(position int, numTokens int, value []byte) []byte {
	b := []byte{0x92, 0x00, 0x91, 0x90 | byte(position+1), 0xa1, 'r'}
	b = appendInts(b, make([]int32, numTokens))
	for range position - 2 {
		b = appendNil(b)
	}
	return append(b, value...)
}

func TestGoldenLogprobs(t *testing.T) {
	golden := readGolden(t, "golden.txt")
	inline := &LogprobsLists{NumTokens: 1, Width: 2,
		TokenIDs: []int32{42, 7}, Logprobs: []float32{-0.5, -1.5}, Ranks: []int64{1}}
	equal(t, "logprobs_inline", decodeOutputs(t, outputWith(2, 1, golden["logprobs_inline"])).Outputs[0].NewLogprobs, inline)
	if got := appendLogprobs(nil, inline, &numpyNames); !bytes.Equal(got, golden["logprobs_inline"]) {
		t.Errorf("encode(logprobs_inline) = % x, want % x", got, golden["logprobs_inline"])
	}

	prompt := &LogprobsLists{NumTokens: 2, Width: 1,
		TokenIDs: []int32{15, 300}, Logprobs: []float32{-1, -2}, Ranks: []int64{3, 9}}
	equal(t, "prompt_logprobs", decodeOutputs(t, outputWith(3, 1, golden["prompt_logprobs"])).Outputs[0].NewPromptLogprobs, prompt)
	if got := appendLogprobs(nil, prompt, &torchNames); !bytes.Equal(got, golden["prompt_logprobs"]) {
		t.Errorf("encode(prompt_logprobs) = % x, want % x", got, golden["prompt_logprobs"])
	}

	aux := [3][]byte{}
	want := &LogprobsLists{NumTokens: 40, Width: 2}
	for i := range int32(80) {
		aux[0] = append(aux[0], byte(i), 1, 0, 0) // 256+i
		aux[1] = append(aux[1], 0, 0, 0, 0xbf)    // -0.5
		want.TokenIDs = append(want.TokenIDs, 256+i)
		want.Logprobs = append(want.Logprobs, -0.5)
	}
	for i := range int64(40) {
		aux[2] = append(aux[2], byte(i), 0, 0, 0, 0, 0, 0, 0)
		want.Ranks = append(want.Ranks, i)
	}
	got := decodeOutputs(t, outputWith(2, 40, golden["logprobs_aux"]), aux[0], aux[1], aux[2])
	equal(t, "logprobs_aux", got.Outputs[0].NewLogprobs, want)
}

func TestGoldenSchedulerStats(t *testing.T) {
	b := append([]byte{0x93, 0x00, 0x90}, readGolden(t, "golden.txt")["scheduler_stats"]...)
	equal(t, "scheduler_stats", decodeOutputs(t, b).SchedulerStats, &SchedulerStats{
		NumRunningReqs: 1, KVCacheUsage: 0.25, PrefixCacheStats: PrefixCacheStats{Requests: 1, Queries: 3}})
}

// messages are those of testdata/vllm_structs.py, as they decode here.
func pythonRequests() map[string]*EngineCoreRequest {
	return map[string]*EngineCoreRequest{
		"add_full": {
			RequestID: "r-1", PromptTokenIDs: []int32{1, 127, 128, 255, 256, 65535, 65536, 151935},
			ArrivalTime: 1700000000.25, CacheSalt: "salt", ClientIndex: 1, Priority: -3,
			TraceHeaders: map[string]string{"traceparent": "00-x"}, ExternalReqID: "r", SessionID: "s",
			SamplingParams: paramsWith(func(p *SamplingParams) {
				p.Temperature, p.TopP, p.TopK, p.MinP, p.Seed = 0.7, 0.9, 40, 0.05, ptr(int64(1)<<62)
				p.StopTokenIDs, p.MaxTokens, p.MinTokens, p.Logprobs = []int32{7, 70000}, ptr(300), 2, ptr(2)
				p.OutputKind, p.LogitBias, p.AllowedTokenIDs = OutputDelta, map[int32]float64{5: -1.5}, []int32{1, 2, 3}
				p.SkipReadingPrefixCache = ptr(false)
				p.PresencePenalty, p.FrequencyPenalty, p.RepetitionPenalty = 0.5, -0.5, 1.1
				p.EOSTokenID, p.AllStopTokenIDs, p.BadWordsTokenIDs = ptr(int32(2)), []int32{2}, [][]int32{{9}, {10, 11}}
			})},
		"add_default": {RequestID: "r-2", PromptTokenIDs: []int32{3}, ArrivalTime: 1.5,
			SamplingParams: paramsWith(func(*SamplingParams) {})},
		"add_unsupported": {RequestID: "r-3", ArrivalTime: 1.5, Unsupported: []string{"lora_request", "resumable"},
			SamplingParams: paramsWith(func(p *SamplingParams) { p.Unsupported = []string{"extra_args", "thinking_token_budget"} })},
	}
}

func pythonOutputs() map[string]*EngineCoreOutputs {
	return map[string]*EngineCoreOutputs{
		"outputs_full": {
			EngineIndex: 1, Timestamp: 12345.5, FinishedRequests: []string{"r-5"},
			Outputs: []EngineCoreOutput{
				{RequestID: "r-1", NewTokenIDs: []int32{42, 70000},
					NewLogprobs: &LogprobsLists{NumTokens: 2, Width: 2, TokenIDs: []int32{42, 7, 70000, 8},
						Logprobs: []float32{-0.5, -1.5, -0.25, -2}, Ranks: []int64{1, 3}},
					NewPromptLogprobs: &LogprobsLists{NumTokens: 2, Width: 1, TokenIDs: []int32{5, 6},
						Logprobs: []float32{-1, -2}, Ranks: []int64{3, 4}},
					Events:       []EngineCoreEvent{{EventQueued, 10.25}, {EventScheduled, 10.5}},
					TraceHeaders: map[string]string{"traceparent": "00-x"},
					PrefillStats: &PrefillStats{8, 4, 4, 4, 0, 4}},
				{RequestID: "r-4", NewTokenIDs: []int32{9}, FinishReason: FinishStop,
					StopReason: StopReason{Kind: StopReasonToken, TokenID: 9}},
				{RequestID: "r-6", FinishReason: FinishError, Error: &RequestError{"paused", "the engine is paused", true}},
				{RequestID: "r-5", FinishReason: FinishRepetition, NumNaNsInLogits: 2,
					StopReason: StopReason{Kind: StopReasonText, Text: "repetition_detected"}},
			},
			SchedulerStats: &SchedulerStats{NumRunningReqs: 3, NumWaitingReqs: 2, NumSkippedWaitingReqs: 1, KVCacheUsage: 0.5,
				PrefixCacheStats: PrefixCacheStats{false, 1, 8, 4, 1, 16, 8, HitsBySource{}},
				SpecDecodingStats: &SpecDecodingStats{NumSpecTokens: 3, NumDrafts: 1, NumDraftTokens: 3, NumAcceptedTokens: 2,
					NumAcceptedTokensPerPos: []int{1, 1, 0}, NumDraftTokensPerPos: []int{1, 1, 1}}},
		},
		"outputs_utility": {Timestamp: 1.5, UtilityOutput: &UtilityOutput{CallID: NewCallID(1<<63 + 5),
			Result: map[string]any{"a": []any{int64(1), int64(-2), 2.5, "x", nil, true}}}},
	}
}

func TestPythonGolden(t *testing.T) {
	golden := readGolden(t, "vllm-0.33.txt")
	for name, want := range pythonRequests() {
		equal(t, name, DecodeFrontendMessage([][]byte{{byte(RequestAdd)}, golden[name]}), want)
	}
	for name, want := range pythonOutputs() {
		equal(t, name, decodeOutputs(t, golden[name]), want)
	}
	init, err := DecodeInit(golden["init"])
	if err != nil {
		t.Fatal(err)
	}
	if got := AppendInit(nil, init); !bytes.Equal(got, golden["init"]) {
		t.Errorf("encode(init) = % x, want % x", got, golden["init"])
	}
	g, err := DecodeRegistration(golden["registration"])
	if err != nil {
		t.Fatal(err)
	}
	if got := AppendRegistration(nil, g); !bytes.Equal(got, golden["registration"]) {
		t.Errorf("encode(registration) = % x, want % x", got, golden["registration"])
	}
}

// What our engines add to a registration comes back; what foreign ones lack
// stays unknown.
func TestOwnRegistration(t *testing.T) {
	own := registration
	own.CacheDType, own.EnablePrefixCaching = "float16", ptr(false)
	got, err := DecodeRegistration(AppendRegistration(nil, &own))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "registration", got, &own)
}

// TestOwnGolden keeps the bytes that vllm_structs.py check has decoded.
func TestOwnGolden(t *testing.T) {
	requests, outputs := pythonRequests(), pythonOutputs()
	requests["add_full"].SamplingParams.Stop = []string{"END"}
	outputs["outputs_full"].SchedulerStats.Step = StepStats{true, 7, 0.25, 8, 1, 2, 2, Preemptions{1, 2, 3}, 16, 20, 12, 40, 5, 8, 0.75, 2, true}
	made := []struct {
		name string
		data []byte
	}{
		{"hello", AppendHello(nil, &Hello{Status: StatusHello, Headless: true})},
		{"init", AppendInit(nil, &Init{Heartbeats: true, ParallelConfig: map[string]any{}, Addresses: Addresses{
			Inputs: []string{"tcp://127.0.0.1:5001"}, Outputs: []string{"tcp://127.0.0.1:5002"}}})},
		{"registration", AppendRegistration(nil, &registration)},
		{"add_full", AppendRequest(nil, requests["add_full"])},
		{"add_default", AppendRequest(nil, requests["add_default"])},
		{"abort", AppendAbort(nil, []string{"a", "b"})},
		{"utility", AppendUtilityCall(nil, &UtilityCall{Method: "sleep", CallID: NewCallID(3), Args: []any{int64(1), "abort"}})},
		{"outputs_full", AppendOutputs(nil, outputs["outputs_full"])},
		{"outputs_utility", AppendOutputs(nil, outputs["outputs_utility"])},
		{"outputs_of_no_step", AppendOutputs(nil, &EngineCoreOutputs{Timestamp: 12345.5, SchedulerStats: &SchedulerStats{
			NumRunningReqs: 3, NumWaitingReqs: 2, KVCacheUsage: 0.5,
			Step: StepStats{Known: true, Number: 7, Running: 8, RunningFor: 0.75, NumArrived: 2}}})},
		{"outputs_extras", AppendOutputs(nil, &EngineCoreOutputs{Timestamp: 12345.5, SchedulerStats: &SchedulerStats{
			IterationDetails:      &IterationDetails{Index: 7, NumContextReqs: 1, NumContextTokens: 8, NumGenerationReqs: 2, NumGenTokens: 2, ElapsedMS: 1.5},
			KVCacheEvictionEvents: []KVCacheEvictionEvent{{Lifetime: 2.5, Idle: 0.5, ReuseGaps: []float64{0.25, 1}}},
			PerfStats:             &PerfStats{NumFlops: 1 << 40, NumReadBytes: 1 << 33, NumWriteBytes: 4096}}})},
	}
	var text bytes.Buffer
	for _, m := range made {
		fmt.Fprintf(&text, "# %s\n", m.name)
		for b := m.data; len(b) > 0; b = b[min(32, len(b)):] {
			fmt.Fprintf(&text, "% x\n", b[:min(32, len(b))])
		}
		fmt.Fprintln(&text)
	}
	if *update {
		if err := os.WriteFile("testdata/govllm.txt", text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden := readGolden(t, "govllm.txt")
	for _, m := range made {
		if !bytes.Equal(m.data, golden[m.name]) {
			t.Errorf("encode(%s) = % x, want % x", m.name, m.data, golden[m.name])
		}
	}
}
