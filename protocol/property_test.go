package protocol

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

// The property tests write the same message twice: with the encoders, and by
// way of the msgpack library from a description of the wire form. Bytes must be
// equal, and decode to what they were made of.

// pair is one key and value of a map whose order matters.
type pair struct {
	key   string
	value any
}

// object is an ordered map.
type object []pair

// library writes a tree of nil, bool, integers, float64, string, []any, object
// and raw extensions with the msgpack library.
func library(t *rapid.T, v any) []byte {
	var b bytes.Buffer
	e := msgpack.NewEncoder(&b)
	e.UseCompactInts(true)
	libraryEncode(t, e, &b, v)
	return b.Bytes()
}

type extension []byte

func libraryEncode(t *rapid.T, e *msgpack.Encoder, b *bytes.Buffer, v any) {
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	switch v := v.(type) {
	case []any:
		check(e.EncodeArrayLen(len(v)))
		for _, x := range v {
			libraryEncode(t, e, b, x)
		}
	case object:
		check(e.EncodeMapLen(len(v)))
		for _, p := range v {
			check(e.EncodeString(p.key))
			libraryEncode(t, e, b, p.value)
		}
	case extension:
		check(e.EncodeExtHeader(rawView, len(v)))
		b.Write(v)
	case int32:
		check(e.EncodeInt(int64(v)))
	default:
		check(e.Encode(v))
	}
}

func list[T any](v []T, each func(T) any) []any {
	tree := []any{}
	for _, x := range v {
		tree = append(tree, each(x))
	}
	return tree
}

func ids(v []int32) []any { return list(v, func(x int32) any { return int64(x) }) }

func texts(v []string) []any { return list(v, func(s string) any { return s }) }

func headers(m map[string]string) any {
	o := object{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		o = append(o, pair{k, m[k]})
	}
	return o
}

// trim drops trailing nils and falses and zeros, down to least elements.
func trim(tree []any, least int) []any {
	for len(tree) > least {
		switch tree[len(tree)-1] {
		case nil, false, int64(0):
			tree = tree[:len(tree)-1]
			continue
		}
		break
	}
	return tree
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// Generators.

var (
	genID    = rapid.StringN(1, 40, -1)
	genText  = rapid.String()
	genInt   = rapid.Int()
	genCount = rapid.IntRange(0, math.MaxInt32)
	genToken = rapid.Int32()
	genFloat = rapid.Float64()
)

func maybe[T any](t *rapid.T, g *rapid.Generator[T], label string) *T {
	if !rapid.Bool().Draw(t, label+" set") {
		return nil
	}
	v := g.Draw(t, label)
	return &v
}

func drawHeaders(t *rapid.T) map[string]string {
	return rapid.OneOf(rapid.Just(map[string]string(nil)), rapid.MapOfN(genText, genText, 1, 20)).Draw(t, "trace headers")
}

func drawTokens(t *rapid.T, label string) []int32 {
	return rapid.SliceOfN(genToken, 0, 40).Draw(t, label)
}

func drawParams(t *rapid.T) *SamplingParams {
	p := DefaultSamplingParams()
	p.N = genInt.Draw(t, "n")
	p.PresencePenalty = genFloat.Draw(t, "presence")
	p.FrequencyPenalty = genFloat.Draw(t, "frequency")
	p.RepetitionPenalty = genFloat.Draw(t, "repetition")
	p.Temperature = genFloat.Draw(t, "temperature")
	p.TopP, p.MinP = genFloat.Draw(t, "top_p"), genFloat.Draw(t, "min_p")
	p.TopK = genInt.Draw(t, "top_k")
	p.Seed = maybe(t, rapid.Int64().Filter(func(v int64) bool { return v != -1 }), "seed")
	p.Stop = rapid.SliceOf(genText).Draw(t, "stop")
	p.StopTokenIDs = drawTokens(t, "stop_token_ids")
	p.IgnoreEOS = rapid.Bool().Draw(t, "ignore_eos")
	p.MaxTokens, p.MinTokens = maybe(t, genInt, "max_tokens"), genInt.Draw(t, "min_tokens")
	p.Logprobs, p.PromptLogprobs = maybe(t, genInt, "logprobs"), maybe(t, genInt, "prompt_logprobs")
	p.LogprobTokenIDs = drawTokens(t, "logprob_token_ids")
	p.Detokenize = rapid.Bool().Draw(t, "detokenize")
	p.IncludeStopStrInOutput = rapid.Bool().Draw(t, "include_stop")
	p.OutputKind = OutputKind(rapid.IntRange(0, 2).Draw(t, "output_kind"))
	p.EOSTokenID = maybe(t, genToken, "eos")
	p.AllStopTokenIDs = drawTokens(t, "all_stop")
	p.LogitBias = rapid.MapOfN(genToken, genFloat, 0, 200).Draw(t, "logit_bias")
	p.AllowedTokenIDs = drawTokens(t, "allowed")
	p.BadWordsTokenIDs = rapid.SliceOfN(rapid.SliceOfN(genToken, 0, 3), 0, 3).Draw(t, "bad words")
	p.SkipReadingPrefixCache = maybe(t, rapid.Bool(), "skip cache")
	return &p
}

// paramsTree describes the keys that differ from their defaults.
func paramsTree(p *SamplingParams) object {
	o := object{}
	add := func(key string, v, def any) {
		if v != def {
			o = append(o, pair{key, v})
		}
	}
	addIDs := func(key string, v []int32) {
		if len(v) > 0 {
			o = append(o, pair{key, ids(v)})
		}
	}
	addPtr := func(key string, v *int) {
		if v != nil {
			o = append(o, pair{key, int64(*v)})
		}
	}
	add("n", int64(p.N), int64(1))
	add("presence_penalty", p.PresencePenalty, 0.0)
	add("frequency_penalty", p.FrequencyPenalty, 0.0)
	add("repetition_penalty", p.RepetitionPenalty, 1.0)
	add("temperature", p.Temperature, 1.0)
	add("top_p", p.TopP, 1.0)
	add("top_k", int64(p.TopK), int64(0))
	add("min_p", p.MinP, 0.0)
	if p.Seed != nil {
		o = append(o, pair{"seed", *p.Seed})
	}
	if len(p.Stop) > 0 {
		o = append(o, pair{"stop", texts(p.Stop)})
	}
	addIDs("stop_token_ids", p.StopTokenIDs)
	add("ignore_eos", p.IgnoreEOS, false)
	if p.MaxTokens == nil {
		o = append(o, pair{"max_tokens", nil})
	} else {
		add("max_tokens", int64(*p.MaxTokens), int64(16))
	}
	add("min_tokens", int64(p.MinTokens), int64(0))
	addPtr("logprobs", p.Logprobs)
	addPtr("prompt_logprobs", p.PromptLogprobs)
	addIDs("logprob_token_ids", p.LogprobTokenIDs)
	add("detokenize", p.Detokenize, true)
	add("include_stop_str_in_output", p.IncludeStopStrInOutput, false)
	add("output_kind", int64(p.OutputKind), int64(0))
	if p.EOSTokenID != nil {
		o = append(o, pair{"_eos_token_id", int64(*p.EOSTokenID)})
	}
	addIDs("_all_stop_token_ids", p.AllStopTokenIDs)
	addIDs("allowed_token_ids", p.AllowedTokenIDs)
	if len(p.BadWordsTokenIDs) > 0 {
		o = append(o, pair{"_bad_words_token_ids", list(p.BadWordsTokenIDs, func(w []int32) any { return ids(w) })})
	}
	if p.SkipReadingPrefixCache != nil {
		o = append(o, pair{"skip_reading_prefix_cache", *p.SkipReadingPrefixCache})
	}
	return o
}

// diff compares messages, an empty slice or map being a nil one, NaN itself.
func diff(want, got any) string {
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateNaNs())
}

func TestRequestProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := &EngineCoreRequest{
			RequestID: genID.Draw(t, "id"), PromptTokenIDs: drawTokens(t, "prompt"),
			ArrivalTime: genFloat.Draw(t, "arrival"), CacheSalt: genText.Draw(t, "salt"),
			ClientIndex: genCount.Draw(t, "client"), CurrentWave: genInt.Draw(t, "wave"),
			Priority: genInt.Draw(t, "priority"), TraceHeaders: drawHeaders(t),
			ExternalReqID: genText.Draw(t, "external"), SessionID: genText.Draw(t, "session"),
			SamplingParams: drawParams(t),
		}
		got := AppendRequest([]byte("before"), q)[len("before"):]
		var trace any
		if q.TraceHeaders != nil {
			trace = headers(q.TraceHeaders)
		}
		bias := q.SamplingParams.LogitBias
		if len(bias) == 0 { // the tree has no maps with integer keys
			want := library(t, trim([]any{
				q.RequestID, ids(q.PromptTokenIDs), nil, paramsTree(q.SamplingParams), nil, q.ArrivalTime, nil,
				orNil(q.CacheSalt), nil, nil, nil, int64(q.ClientIndex), int64(q.CurrentWave), int64(q.Priority), trace,
				false, orNil(q.ExternalReqID), nil, nil, false, orNil(q.SessionID),
			}, requestRequired))
			if !bytes.Equal(got, want) {
				t.Fatalf("AppendRequest = % x, want % x", got, want)
			}
		}
		if d := diff(q, DecodeFrontendMessage([][]byte{{byte(RequestAdd)}, got})); d != "" {
			t.Fatalf("decode(encode(request)): got +, want -:\n%s", d)
		}
	})
}

func drawLogprobs(t *rapid.T, numTokens int, ranks *rapid.Generator[int64]) *LogprobsLists {
	l := &LogprobsLists{NumTokens: numTokens, Width: rapid.IntRange(1, 4).Draw(t, "width")}
	n := l.NumTokens * l.Width
	l.TokenIDs = rapid.SliceOfN(genToken, n, n).Draw(t, "logprob ids")
	l.Logprobs = rapid.SliceOfN(rapid.Float32(), n, n).Draw(t, "logprobs")
	l.Ranks = rapid.SliceOfN(ranks, numTokens, numTokens).Draw(t, "ranks")
	return l
}

func drawOutput(t *rapid.T) EngineCoreOutput {
	o := EngineCoreOutput{
		RequestID: genID.Draw(t, "id"), NewTokenIDs: drawTokens(t, "tokens"), TraceHeaders: drawHeaders(t),
		FinishReason:    FinishReason(rapid.IntRange(0, len(FinishReasons)).Draw(t, "finish")),
		NumNaNsInLogits: genCount.Draw(t, "nans"),
	}
	switch rapid.IntRange(0, 2).Draw(t, "stop reason") {
	case 1:
		o.StopReason = StopReason{Kind: StopReasonToken, TokenID: genToken.Draw(t, "stop token")}
	case 2:
		o.StopReason = StopReason{Kind: StopReasonText, Text: genText.Draw(t, "stop text")}
	}
	if rapid.Bool().Draw(t, "has logprobs") {
		o.NewLogprobs = drawLogprobs(t, len(o.NewTokenIDs), rapid.Int64())
	}
	if rapid.Bool().Draw(t, "has prompt logprobs") {
		o.NewPromptLogprobs = drawLogprobs(t, rapid.IntRange(0, 3).Draw(t, "prompt"), rapid.Int64Range(0, math.MaxInt32))
	}
	for range rapid.IntRange(0, 3).Draw(t, "events") {
		o.Events = append(o.Events, EngineCoreEvent{EventType(rapid.IntRange(1, 3).Draw(t, "type")), genFloat.Draw(t, "at")})
	}
	if rapid.Bool().Draw(t, "has error") {
		o.Error = &RequestError{genText.Draw(t, "code"), genText.Draw(t, "message"), rapid.Bool().Draw(t, "retryable")}
	}
	if rapid.Bool().Draw(t, "has prefill stats") {
		o.PrefillStats = &PrefillStats{genCount.Draw(t, "prompt tokens"), genCount.Draw(t, "computed"), genCount.Draw(t, "cached"),
			genCount.Draw(t, "local"), genCount.Draw(t, "external"), genCount.Draw(t, "creation")}
	}
	return o
}

func logprobsTree(l *LogprobsLists, names *dtypeNames) any {
	if l == nil {
		return nil
	}
	var tokens, logprobs, ranks extension
	for i := range l.TokenIDs {
		tokens = append(tokens, le(uint64(uint32(l.TokenIDs[i])), 4)...)
		logprobs = append(logprobs, le(uint64(math.Float32bits(l.Logprobs[i])), 4)...)
	}
	for _, r := range l.Ranks {
		ranks = append(ranks, le(uint64(r), names.rankBytes)...)
	}
	t, w := int64(l.NumTokens), int64(l.Width)
	return []any{
		[]any{names.ids, []any{t, w}, tokens}, []any{names.logprobs, []any{t, w}, logprobs},
		[]any{names.ranks, []any{t}, ranks}, nil,
	}
}

func le(v uint64, n int) (b []byte) {
	for range n {
		b = append(b, byte(v))
		v >>= 8
	}
	return b
}

func outputTree(o EngineCoreOutput) any {
	var finish, stop, events, prefill, trace, fault any
	if o.FinishReason != FinishNone {
		finish = int64(o.FinishReason) - 1
	}
	switch o.StopReason.Kind {
	case StopReasonToken:
		stop = int32(o.StopReason.TokenID) // apart from int64(0), which trim drops
	case StopReasonText:
		stop = o.StopReason.Text
	}
	if len(o.Events) > 0 {
		events = list(o.Events, func(e EngineCoreEvent) any {
			return object{{"type", int64(e.Type)}, {"timestamp", e.Timestamp}}
		})
	}
	if p := o.PrefillStats; p != nil {
		prefill = object{{"num_prompt_tokens", int64(p.NumPromptTokens)}, {"num_computed_tokens", int64(p.NumComputedTokens)},
			{"num_cached_tokens", int64(p.NumCachedTokens)}, {"num_local_cached_tokens", int64(p.NumLocalCachedTokens)},
			{"num_external_cached_tokens", int64(p.NumExternalCachedTokens)}, {"num_cache_creation_tokens", int64(p.NumCacheCreationTokens)}}
	}
	if o.TraceHeaders != nil {
		trace = headers(o.TraceHeaders)
	}
	if e := o.Error; e != nil {
		fault = object{{"code", e.Code}, {"message", e.Message}, {"retryable", e.Retryable}}
	}
	tree := []any{o.RequestID, ids(o.NewTokenIDs), logprobsTree(o.NewLogprobs, &numpyNames),
		logprobsTree(o.NewPromptLogprobs, &torchNames), nil, finish, stop, events, nil, nil, trace, prefill, nil,
		int64(o.NumNaNsInLogits), nil, nil, nil, nil, fault}
	least := outputRequired
	if finish == int64(0) { // STOP is zero and yet set
		least = 6
	}
	return trim(tree, least)
}

func drawStats(t *rapid.T) *SchedulerStats {
	count := func(label string) int { return genCount.Draw(t, label) }
	s := &SchedulerStats{NumRunningReqs: count("running"), NumWaitingReqs: count("waiting"), NumSkippedWaitingReqs: count("skipped"),
		StepCounter: count("steps"), CurrentWave: count("wave"), KVCacheUsage: genFloat.Draw(t, "usage"),
		PrefixCacheStats: PrefixCacheStats{rapid.Bool().Draw(t, "reset"), count("reqs"), count("queries"), count("hits"),
			count("p reqs"), count("p queries"), count("p hits"), HitsBySource{}},
		Step: StepStats{true, rapid.Uint64Range(0, math.MaxInt64).Draw(t, "number"), genFloat.Draw(t, "duration"), count("a"), count("b"),
			count("c"), count("d"), Preemptions{count("e"), count("f"), count("g")}, count("h"), count("i"), count("j"), count("k"), count("l"),
			rapid.Uint64Range(0, math.MaxInt64).Draw(t, "running"), genFloat.Draw(t, "running for"), count("arrived"), rapid.Bool().Draw(t, "paused")}}
	if rapid.Bool().Draw(t, "foreign") {
		s.Step = StepStats{}
	}
	for range rapid.IntRange(0, 2).Draw(t, "evictions") {
		s.KVCacheEvictionEvents = append(s.KVCacheEvictionEvents, KVCacheEvictionEvent{genFloat.Draw(t, "lifetime"), genFloat.Draw(t, "idle"),
			rapid.SliceOfN(genFloat, 0, 3).Draw(t, "gaps")})
	}
	if rapid.Bool().Draw(t, "has perf") {
		s.PerfStats = &PerfStats{count("flops"), count("read"), count("written")}
	}
	if rapid.Bool().Draw(t, "has connector") {
		s.ConnectorPrefixCacheStats = &PrefixCacheStats{Queries: count("c queries"), Hits: count("c hits"),
			HitsBySource: HitsBySource{count("device"), count("host"), count("p2p"), count("disk"), count("elsewhere")}}
	}
	if rapid.Bool().Draw(t, "has details") {
		s.IterationDetails = &IterationDetails{count("index"), count("ctx reqs"), count("ctx"), count("gen reqs"), count("gen"),
			genFloat.Draw(t, "elapsed"), count("encoder inputs"), count("encoder tokens"), rapid.Bool().Draw(t, "dummy")}
	}
	if rapid.Bool().Draw(t, "has spec") {
		s.SpecDecodingStats = &SpecDecodingStats{count("k"), count("drafts"), count("draft tokens"), count("accepted"),
			rapid.SliceOfN(genCount, 0, 5).Draw(t, "per pos"), rapid.SliceOfN(genCount, 0, 5).Draw(t, "drafted per pos")}
	}
	return s
}

func statsTree(s *SchedulerStats) any {
	if s == nil {
		return nil
	}
	var spec any
	counts := func(v []int) any { return list(v, func(n int) any { return int64(n) }) }
	if d := s.SpecDecodingStats; d != nil {
		spec = object{{"num_spec_tokens", int64(d.NumSpecTokens)}, {"num_drafts", int64(d.NumDrafts)},
			{"num_draft_tokens", int64(d.NumDraftTokens)}, {"num_accepted_tokens", int64(d.NumAcceptedTokens)},
			{"num_accepted_tokens_per_pos", counts(d.NumAcceptedTokensPerPos)}, {"num_draft_tokens_per_pos", counts(d.NumDraftTokensPerPos)}}
	}
	g := s.Step
	tree := object{{"num_running_reqs", int64(s.NumRunningReqs)}, {"num_waiting_reqs", int64(s.NumWaitingReqs)},
		{"num_skipped_waiting_reqs", int64(s.NumSkippedWaitingReqs)}, {"num_kv_fetch_reqs_by_stage", object{}},
		{"step_counter", int64(s.StepCounter)}, {"current_wave", int64(s.CurrentWave)}, {"kv_cache_usage", s.KVCacheUsage},
		{"iteration_details", detailsTree(s.IterationDetails)}, {"prefix_cache_stats", prefixTree(&s.PrefixCacheStats)},
		{"connector_prefix_cache_stats", prefixTree(s.ConnectorPrefixCacheStats)},
		{"kv_cache_eviction_events", list(s.KVCacheEvictionEvents, evictionTree)}, {"spec_decoding_stats", spec},
		{"kv_connector_stats", nil}, {"ec_connector_stats", nil}, {"waiting_lora_adapters", object{}},
		{"running_lora_adapters", object{}}, {"cudagraph_stats", nil}, {"perf_stats", perfTree(s.PerfStats)}}
	if g.Known {
		tree = append(tree, pair{"govllm_step", []any{int64(g.Number), g.Duration, int64(g.NumPrefillTokens), int64(g.NumPrefillReqs), int64(g.NumDecodeTokens),
			int64(g.NumDecodeReqs), int64(g.Preemptions.KVFull), int64(g.Preemptions.Priority), int64(g.Preemptions.Reset), int64(g.NumRecomputed),
			int64(g.NumWaitingTokens), int64(g.NumUncachedTokens), int64(g.NumResidentTokens), int64(g.NumPendingTokens),
			int64(g.Running), g.RunningFor, int64(g.NumArrived), g.Paused}})
	}
	return tree
}

func prefixTree(p *PrefixCacheStats) any {
	if p == nil {
		return nil
	}
	sources := object{}
	for i, n := range p.HitsBySource.counts() {
		if *n != 0 {
			sources = append(sources, pair{hitSources[i], int64(*n)})
		}
	}
	return object{{"reset", p.Reset}, {"requests", int64(p.Requests)}, {"queries", int64(p.Queries)}, {"hits", int64(p.Hits)},
		{"preempted_requests", int64(p.PreemptedRequests)}, {"preempted_queries", int64(p.PreemptedQueries)},
		{"preempted_hits", int64(p.PreemptedHits)}, {"hits_by_source", sources}}
}

func evictionTree(e KVCacheEvictionEvent) any {
	return object{{"lifetime_seconds", e.Lifetime}, {"idle_seconds", e.Idle},
		{"reuse_gaps_seconds", list(e.ReuseGaps, func(s float64) any { return s })}}
}

func perfTree(p *PerfStats) any {
	if p == nil {
		return nil
	}
	return object{{"num_flops_per_gpu", int64(p.NumFlops)}, {"num_read_bytes_per_gpu", int64(p.NumReadBytes)},
		{"num_write_bytes_per_gpu", int64(p.NumWriteBytes)}, {"debug_stats", nil}}
}

func detailsTree(d *IterationDetails) any {
	if d == nil {
		return nil
	}
	return object{{"iteration_index", int64(d.Index)}, {"num_ctx_requests", int64(d.NumContextReqs)},
		{"num_ctx_tokens", int64(d.NumContextTokens)}, {"num_generation_requests", int64(d.NumGenerationReqs)},
		{"num_generation_tokens", int64(d.NumGenTokens)}, {"elapsed_ms", d.ElapsedMS}, {"num_encoder_inputs", int64(d.NumEncoderInputs)},
		{"num_encoder_output_tokens", int64(d.NumEncoderTokens)}, {"is_dummy", d.IsDummy}}
}

func TestOutputsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := &EngineCoreOutputs{EngineIndex: genCount.Draw(t, "engine"), Timestamp: genFloat.Draw(t, "timestamp"),
			FinishedRequests: rapid.SliceOfN(genID, 0, 4).Draw(t, "finished")}
		for range rapid.IntRange(0, 4).Draw(t, "outputs") {
			o.Outputs = append(o.Outputs, drawOutput(t))
		}
		if rapid.Bool().Draw(t, "has stats") {
			o.SchedulerStats = drawStats(t)
		}
		if o.Family() == FamilyEmpty {
			return
		}
		tree := []any{int64(o.EngineIndex), list(o.Outputs, outputTree), statsTree(o.SchedulerStats), o.Timestamp}
		if len(o.FinishedRequests) > 0 {
			tree = append(tree, nil, texts(o.FinishedRequests))
		}
		got, want := AppendOutputs(nil, o), library(t, tree)
		if !bytes.Equal(got, want) {
			t.Fatalf("AppendOutputs = % x, want % x", got, want)
		}
		// Twice by one decoder: what it reuses must not shine through.
		var d OutputsDecoder
		for range 2 {
			back, err := d.Decode([][]byte{got})
			if err != nil {
				t.Fatal(err)
			}
			if d := diff(o, back); d != "" {
				t.Fatalf("decode(encode(outputs)): got +, want -:\n%s", d)
			}
		}
	})
}

// drawAny draws what utility calls carry, as it decodes.
func drawAny(t *rapid.T, depth int) (value, tree any) {
	kinds := 8
	if depth == 0 {
		kinds = 6
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return nil, nil
	case 1:
		v := rapid.Bool().Draw(t, "bool")
		return v, v
	case 2:
		v := rapid.Int64().Draw(t, "int")
		return v, v
	case 3:
		v := rapid.Uint64Range(1<<63, math.MaxUint64).Draw(t, "uint")
		return v, v
	case 4:
		v := genFloat.Draw(t, "float")
		return v, v
	case 5:
		v := genText.Draw(t, "str")
		return v, v
	case 6:
		values, trees := []any{}, []any{}
		for range rapid.IntRange(0, 20).Draw(t, "len") {
			v, tr := drawAny(t, depth-1)
			values, trees = append(values, v), append(trees, tr)
		}
		return values, trees
	}
	m, trees := map[string]any{}, map[string]any{}
	for range rapid.IntRange(0, 20).Draw(t, "len") {
		k := genText.Draw(t, "key")
		m[k], trees[k] = drawAny(t, depth-1)
	}
	o := object{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		o = append(o, pair{k, trees[k]})
	}
	return m, o
}

func TestUtilityProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := CallID{Bits: rapid.Uint64().Draw(t, "id")}
		var idTree any = id.Bits
		if rapid.Bool().Draw(t, "negative") {
			v := rapid.Int64Range(math.MinInt64, -1).Draw(t, "negative id")
			id, idTree = CallID{uint64(v), true}, v
		}
		result, tree := drawAny(t, 3)
		call := &UtilityCall{ClientIndex: genCount.Draw(t, "client"), CallID: id, Method: genText.Draw(t, "method"), Args: []any{result}}
		got := AppendUtilityCall(nil, call)
		if want := library(t, []any{int64(call.ClientIndex), idTree, call.Method, []any{tree}}); !bytes.Equal(got, want) {
			t.Fatalf("AppendUtilityCall = % x, want % x", got, want)
		}
		if d := diff(call, DecodeFrontendMessage([][]byte{{byte(RequestUtility)}, got})); d != "" {
			t.Fatalf("decode(encode(call)): got +, want -:\n%s", d)
		}

		o := &EngineCoreOutputs{Timestamp: 1, UtilityOutput: &UtilityOutput{CallID: id, Result: result}}
		var resultTree any = []any{nil, tree}
		if f := genText.Draw(t, "failure"); f != "" {
			o.UtilityOutput.Failure, o.UtilityOutput.Result, resultTree = f, nil, nil
		}
		got = AppendOutputs(nil, o)
		if want := library(t, []any{int64(0), []any{}, nil, 1.0, []any{idTree, orNil(o.UtilityOutput.Failure), resultTree}}); !bytes.Equal(got, want) {
			t.Fatalf("AppendOutputs = % x, want % x", got, want)
		}
		var d OutputsDecoder
		back, err := d.Decode([][]byte{got})
		if err != nil {
			t.Fatal(err)
		}
		if d := diff(o, back); d != "" {
			t.Fatalf("decode(encode(answer)): got +, want -:\n%s", d)
		}
	})
}

// TestEveryWidth decodes each value in every width that MessagePack has for it.
func TestEveryWidth(t *testing.T) {
	for _, c := range []struct {
		hex  string
		want int64
	}{
		{"05", 5}, {"cc05", 5}, {"cd0005", 5}, {"ce00000005", 5}, {"cf0000000000000005", 5},
		{"d005", 5}, {"d10005", 5}, {"d200000005", 5}, {"d30000000000000005", 5},
		{"ff", -1}, {"d0ff", -1}, {"d1ffff", -1}, {"d2ffffffff", -1}, {"d3ffffffffffffffff", -1},
	} {
		var b []byte
		fmt.Sscanf(c.hex, "%x", &b)
		r := reader{buf: b}
		if got := r.within(math.MinInt64, math.MaxInt64); got != c.want || r.first != nil || r.left() != 0 {
			t.Errorf("int(%s) = %d, %v, want %d", c.hex, got, r.first, c.want)
		}
		r = reader{buf: b}
		if got := r.float(); got != float64(c.want) || r.first != nil {
			t.Errorf("float(%s) = %v, %v, want %d", c.hex, got, r.first, c.want)
		}
		r = reader{buf: b}
		if r.skip(); r.left() != 0 {
			t.Errorf("skip(%s) left %d bytes", c.hex, r.left())
		}
	}
	for _, hex := range []string{"a161", "d90161", "da000161", "db0000000161"} {
		var b []byte
		fmt.Sscanf(hex, "%x", &b)
		r := reader{buf: b}
		if got := r.str(); got != "a" || r.first != nil {
			t.Errorf("str(%s) = %q, %v, want a", hex, got, r.first)
		}
	}
	for _, hex := range []string{"ca3fc00000", "cb3ff8000000000000"} {
		var b []byte
		fmt.Sscanf(hex, "%x", &b)
		r := reader{buf: b}
		if got := r.float(); got != 1.5 || r.first != nil {
			t.Errorf("float(%s) = %v, %v, want 1.5", hex, got, r.first)
		}
	}
	for _, hex := range []string{"9101", "dc000101", "dd0000000101"} {
		var b []byte
		fmt.Sscanf(hex, "%x", &b)
		r := reader{buf: b}
		if got := r.ints32(nil); len(got) != 1 || got[0] != 1 || r.first != nil {
			t.Errorf("ints(%s) = %v, %v, want [1]", hex, got, r.first)
		}
	}
}
