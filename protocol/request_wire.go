package protocol

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// NewCallID makes the ID of a call of ours.
func NewCallID(n uint64) CallID { return CallID{Bits: n} }

// String is the number in decimal.
func (c CallID) String() string {
	if c.Negative {
		return strconv.FormatInt(int64(c.Bits), 10)
	}
	return strconv.FormatUint(c.Bits, 10)
}

func appendCallID(b []byte, c CallID) []byte {
	if c.Negative {
		return appendInt(b, int64(c.Bits))
	}
	return appendUint(b, c.Bits)
}

func (r *reader) callID() (c CallID, ok bool) {
	c.Bits, c.Negative, ok = r.integer()
	return c, ok
}

// AppendRequest appends an ADD: the shortest prefix of the layout that carries
// what q sets, at least the elements without default. Unsupported is not sent.
func AppendRequest(b []byte, q *EngineCoreRequest) []byte {
	n := len(requestLayout)
	for n > requestRequired && !q.has(requestLayout[n-1]) {
		n--
	}
	b = appendArrayLen(b, n)
	for _, f := range requestLayout[:n] {
		b = q.appendField(b, f)
	}
	return b
}

// has reports whether a field differs from its default.
func (q *EngineCoreRequest) has(f requestField) bool {
	switch f {
	case reqClientIndex:
		return q.ClientIndex != 0
	case reqCurrentWave:
		return q.CurrentWave != 0
	case reqPriority:
		return q.Priority != 0
	case reqTraceHeaders:
		return q.TraceHeaders != nil
	case reqExternalReqID:
		return q.ExternalReqID != ""
	case reqSessionID:
		return q.SessionID != ""
	}
	return false
}

func (q *EngineCoreRequest) appendField(b []byte, f requestField) []byte {
	switch f {
	case reqRequestID:
		return appendStr(b, q.RequestID)
	case reqPromptTokenIDs:
		return appendInts(b, q.PromptTokenIDs)
	case reqSamplingParams:
		if q.SamplingParams == nil {
			return appendNil(b)
		}
		return appendSamplingParams(b, q.SamplingParams)
	case reqArrivalTime:
		return appendFloat(b, q.ArrivalTime)
	case reqCacheSalt:
		return appendStrOrNil(b, q.CacheSalt)
	case reqClientIndex:
		return appendInt(b, int64(q.ClientIndex))
	case reqCurrentWave:
		return appendInt(b, int64(q.CurrentWave))
	case reqPriority:
		return appendInt(b, int64(q.Priority))
	case reqTraceHeaders:
		if q.TraceHeaders == nil {
			return appendNil(b)
		}
		return appendStrMap(b, q.TraceHeaders)
	case reqResumable, reqAbortImmediately:
		return appendBool(b, false)
	case reqExternalReqID:
		return appendStrOrNil(b, q.ExternalReqID)
	case reqSessionID:
		return appendStrOrNil(b, q.SessionID)
	}
	return appendNil(b)
}

// appendSamplingParams writes the keys that differ from their defaults, in
// vLLM's order.
func appendSamplingParams(b []byte, p *SamplingParams) []byte {
	start := len(b)
	b = append(b, 0xde, 0, 0) // made shorter below where it can be
	n := 0
	num := func(key string, v, def int) {
		if v != def {
			n++
			b = appendInt(appendStr(b, key), int64(v))
		}
	}
	real := func(key string, v, def float64) {
		if v != def {
			n++
			b = appendFloat(appendStr(b, key), v)
		}
	}
	flag := func(key string, v, def bool) {
		if v != def {
			n++
			b = appendBool(appendStr(b, key), v)
		}
	}
	maybe := func(key string, v *int) {
		if v != nil {
			n++
			b = appendInt(appendStr(b, key), int64(*v))
		}
	}
	ids := func(key string, v []int32) {
		if len(v) > 0 {
			n++
			b = appendInts(appendStr(b, key), v)
		}
	}
	num("n", p.N, 1)
	real("presence_penalty", p.PresencePenalty, 0)
	real("frequency_penalty", p.FrequencyPenalty, 0)
	real("repetition_penalty", p.RepetitionPenalty, 1)
	real("temperature", p.Temperature, 1)
	real("top_p", p.TopP, 1)
	num("top_k", p.TopK, 0)
	real("min_p", p.MinP, 0)
	if p.Seed != nil {
		n++
		b = appendInt(appendStr(b, "seed"), *p.Seed)
	}
	if len(p.Stop) > 0 {
		n++
		b = appendStrs(appendStr(b, "stop"), p.Stop)
	}
	ids("stop_token_ids", p.StopTokenIDs)
	flag("ignore_eos", p.IgnoreEOS, false)
	switch {
	case p.MaxTokens == nil:
		n++
		b = appendNil(appendStr(b, "max_tokens"))
	default:
		num("max_tokens", *p.MaxTokens, defaultMaxTokens)
	}
	num("min_tokens", p.MinTokens, 0)
	maybe("logprobs", p.Logprobs)
	maybe("prompt_logprobs", p.PromptLogprobs)
	ids("logprob_token_ids", p.LogprobTokenIDs)
	flag("detokenize", p.Detokenize, true)
	flag("skip_special_tokens", p.SkipSpecialTokens, true)
	flag("spaces_between_special_tokens", p.SpacesBetweenSpecialTokens, true)
	flag("include_stop_str_in_output", p.IncludeStopStrInOutput, false)
	num("output_kind", int(p.OutputKind), int(OutputCumulative))
	if p.EOSTokenID != nil {
		n++
		b = appendInt(appendStr(b, "_eos_token_id"), int64(*p.EOSTokenID))
	}
	ids("_all_stop_token_ids", p.AllStopTokenIDs)
	if len(p.LogitBias) > 0 {
		n++
		b = appendLogitBias(appendStr(b, "logit_bias"), p.LogitBias)
	}
	ids("allowed_token_ids", p.AllowedTokenIDs)
	if len(p.BadWordsTokenIDs) > 0 {
		n++
		b = appendArrayLen(appendStr(b, "_bad_words_token_ids"), len(p.BadWordsTokenIDs))
		for _, word := range p.BadWordsTokenIDs {
			b = appendInts(b, word)
		}
	}
	if p.SkipReadingPrefixCache != nil {
		n++
		b = appendBool(appendStr(b, "skip_reading_prefix_cache"), *p.SkipReadingPrefixCache)
	}
	if n < 16 {
		b[start] = 0x80 | byte(n)
		return append(b[:start+1], b[start+3:]...)
	}
	b[start+2] = byte(n)
	return b
}

// appendLogitBias writes keys in order, so that equal maps give equal bytes.
func appendLogitBias(b []byte, m map[int32]float64) []byte {
	var room [128]int32
	keys := room[:0]
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	b = appendMapLen(b, len(m))
	for _, k := range keys {
		b = appendFloat(appendInt(b, int64(k)), m[k])
	}
	return b
}

// AppendAbort appends an ABORT.
func AppendAbort(b []byte, ids []string) []byte { return appendStrs(b, ids) }

// AppendUtilityCall appends a UTILITY.
func AppendUtilityCall(b []byte, c *UtilityCall) []byte {
	b = appendArrayLen(b, 4)
	b = appendInt(b, int64(c.ClientIndex))
	b = appendCallID(b, c.CallID)
	b = appendStr(b, c.Method)
	b = appendArrayLen(b, len(c.Args))
	for _, a := range c.Args {
		b = appendAny(b, a)
	}
	return b
}

// AppendStartDPWave appends a START_DP_WAVE.
func AppendStartDPWave(b []byte, w *StartDPWave) []byte {
	b = appendInt(appendArrayLen(b, 2), int64(w.Wave))
	if w.HasExclude {
		return appendInt(b, int64(w.Exclude))
	}
	return appendNil(b)
}

// DecodeFrontendMessage reads what follows the identity on an input socket:
// the type frame, the payload, auxiliary frames. What cannot be decoded comes
// back as a *FieldError, with whatever its sender needs to be answered.
func DecodeFrontendMessage(frames [][]byte) FrontendMessage {
	if len(frames) == 0 || len(frames[0]) != 1 {
		return &FieldError{Message: "request", Field: "type frame",
			Reason: "want one byte", Value: describeFrame(frames)}
	}
	t := RequestType(frames[0][0])
	var r reader
	var m FrontendMessage
	var e *FieldError
	switch t {
	case RequestAdd:
		r.reset("EngineCoreRequest", frames[1:])
		q := r.request()
		if e = r.first; e != nil {
			e.RequestID, e.ClientIndex = q.RequestID, q.ClientIndex
		}
		m = q
	case RequestAbort:
		r.reset("abort", frames[1:])
		ids := r.strs(nil)
		e, m = r.first, Abort(ids)
	case RequestUtility:
		r.reset("utility call", frames[1:])
		c, haveID := r.utilityCall()
		if e = r.first; e != nil {
			e.ClientIndex = c.ClientIndex
			if haveID {
				e.CallID = &c.CallID
			}
		}
		m = c
	case RequestStartDPWave:
		r.reset("start_dp_wave", frames[1:])
		m, e = r.startDPWave(), r.first
	default:
		return &FieldError{Message: "request", Field: "type frame", Type: t,
			Reason: "unknown request type", Value: fmt.Sprintf("0x%02x", byte(t))}
	}
	if e != nil {
		e.Type = t
		return e
	}
	return m
}

func describeFrame(frames [][]byte) string {
	if len(frames) == 0 {
		return "no frame"
	}
	return fmt.Sprintf("%d bytes", len(frames[0]))
}

func (r *reader) request() *EngineCoreRequest {
	q := &EngineCoreRequest{}
	n, ok := r.structure()
	if !ok {
		return q
	}
	if n < requestRequired {
		r.record(fmt.Sprintf("want %d elements or more", requestRequired), strconv.Itoa(n))
	}
	for i := range n {
		if r.stop {
			break
		}
		if i >= len(requestLayout) {
			r.skip()
			continue
		}
		r.requestField(q, requestLayout[i])
	}
	if q.RequestID == "" && r.first == nil {
		r.at("request_id")
		r.record("must not be empty", "")
	}
	if q.ClientIndex < 0 {
		q.ClientIndex = 0
	}
	return q
}

func (r *reader) requestField(q *EngineCoreRequest, f requestField) {
	r.at(requestNames[f])
	switch f {
	case reqRequestID:
		q.RequestID = r.str()
	case reqPromptTokenIDs:
		q.PromptTokenIDs = r.ints32(nil)
	case reqSamplingParams:
		if !r.null() {
			q.SamplingParams = r.samplingParams()
		}
	case reqArrivalTime:
		q.ArrivalTime = r.float()
	case reqCacheSalt:
		q.CacheSalt = r.strOrNil()
	case reqClientIndex:
		q.ClientIndex = int(r.within(0, math.MaxInt32))
	case reqCurrentWave:
		q.CurrentWave = r.int()
	case reqPriority:
		q.Priority = r.int()
	case reqTraceHeaders:
		q.TraceHeaders = r.strMap()
	case reqExternalReqID:
		q.ExternalReqID = r.strOrNil()
	case reqSessionID:
		q.SessionID = r.strOrNil()
	case reqDataParallelRank, reqReasoningEnded, reqReasoningParserKwargs, reqKVHints:
		r.skip() // routing and hints: no effect on what is generated
	default:
		if !r.unset() {
			q.Unsupported = append(q.Unsupported, requestNames[f])
		}
	}
}

func (r *reader) samplingParams() *SamplingParams {
	p := DefaultSamplingParams()
	r.eachKey(func(key string) bool {
		switch key {
		case "n":
			p.N = r.int()
		case "presence_penalty":
			p.PresencePenalty = r.float()
		case "frequency_penalty":
			p.FrequencyPenalty = r.float()
		case "repetition_penalty":
			p.RepetitionPenalty = r.float()
		case "temperature":
			p.Temperature = r.float()
		case "top_p":
			p.TopP = r.float()
		case "top_k":
			p.TopK = r.int()
		case "min_p":
			p.MinP = r.float()
		case "seed":
			p.Seed = r.seed()
		case "stop":
			p.Stop = r.stopStrings()
		case "stop_token_ids":
			p.StopTokenIDs = r.ints32(nil)
		case "ignore_eos":
			p.IgnoreEOS = r.bool()
		case "max_tokens":
			p.MaxTokens = r.intPtr()
		case "min_tokens":
			p.MinTokens = r.int()
		case "logprobs":
			p.Logprobs = r.intPtr()
		case "prompt_logprobs":
			p.PromptLogprobs = r.intPtr()
		case "logprob_token_ids":
			p.LogprobTokenIDs = r.ints32(nil)
		case "detokenize":
			p.Detokenize = r.bool()
		case "skip_special_tokens":
			p.SkipSpecialTokens = r.bool()
		case "spaces_between_special_tokens":
			p.SpacesBetweenSpecialTokens = r.bool()
		case "include_stop_str_in_output":
			p.IncludeStopStrInOutput = r.bool()
		case "output_kind":
			p.OutputKind = OutputKind(r.within(int64(OutputCumulative), int64(OutputFinalOnly)))
		case "_eos_token_id":
			p.EOSTokenID = r.int32Ptr()
		case "_all_stop_token_ids":
			p.AllStopTokenIDs = r.ints32(nil)
		case "logit_bias":
			p.LogitBias = r.logitBias()
		case "allowed_token_ids":
			p.AllowedTokenIDs = r.ints32(nil)
		case "_bad_words_token_ids":
			p.BadWordsTokenIDs = r.tokenLists()
		case "skip_reading_prefix_cache":
			p.SkipReadingPrefixCache = r.boolPtr()
		case "structured_outputs", "guided_decoding", "extra_args", "thinking_token_budget",
			"repetition_detection", "prompt_logprob_token_ids",
			"prompt_logprob_start", "trace_decode_token_ids", "routed_experts_prompt_start",
			"logits_processors":
			name := string([]byte(key))
			if !r.unset() {
				p.Unsupported = append(p.Unsupported, name)
			}
		default:
			// Frontends' own (bad_words, stream_interval, …), not known, or
			// "watermarking": Rust frontends always send true, which only
			// means anything to an engine that was started with a watermark.
			return false
		}
		return true
	})
	return &p
}

// seed reads -1 as unset, as SamplingParams.__post_init__ does.
func (r *reader) seed() *int64 {
	if r.null() {
		return nil
	}
	v := r.within(math.MinInt64, math.MaxInt64)
	if v == -1 {
		return nil
	}
	return &v
}

// stopStrings reads one string or several.
func (r *reader) stopStrings() []string {
	if r.peek() == kindStr {
		return []string{r.str()}
	}
	return r.strs(nil)
}

func (r *reader) int32Ptr() *int32 {
	if r.null() {
		return nil
	}
	v := r.int32()
	return &v
}

func (r *reader) boolPtr() *bool {
	if r.null() {
		return nil
	}
	v := r.bool()
	return &v
}

func (r *reader) logitBias() map[int32]float64 {
	if r.null() {
		return nil
	}
	n, ok := r.mapping()
	if !ok {
		return nil
	}
	m := make(map[int32]float64, min(n, 1024))
	for i := 0; i < n && !r.stop; i++ {
		id := r.int32()
		m[id] = r.float()
	}
	return m
}

func (r *reader) tokenLists() [][]int32 {
	if r.null() {
		return nil
	}
	n, ok := r.array()
	if !ok {
		return nil
	}
	var lists [][]int32
	for i := 0; i < n && !r.stop; i++ {
		lists = append(lists, r.ints32(nil))
	}
	return lists
}

func (r *reader) utilityCall() (c *UtilityCall, haveID bool) {
	c = &UtilityCall{}
	n, ok := r.structure()
	if !ok {
		return c, false
	}
	if n < 4 {
		r.record("want 4 elements", strconv.Itoa(n))
	}
	for i := 0; i < n && !r.stop; i++ {
		switch i {
		case 0:
			r.at("client_index")
			c.ClientIndex = int(r.within(0, math.MaxInt32))
		case 1:
			r.at("call_id")
			c.CallID, haveID = r.callID()
		case 2:
			r.at("method")
			c.Method = r.str()
		case 3:
			r.at("args")
			c.Args = r.args()
		default:
			r.skip()
		}
	}
	return c, haveID
}

func (r *reader) args() []any {
	if r.null() {
		return nil
	}
	if r.peek() != kindArray {
		r.wrong("want an array")
		return nil
	}
	args, _ := r.any(0).([]any)
	return args
}

func (r *reader) startDPWave() *StartDPWave {
	w := &StartDPWave{}
	n, ok := r.array()
	if !ok {
		return w
	}
	if n < 1 {
		r.record("want 2 elements", strconv.Itoa(n))
	}
	for i := 0; i < n && !r.stop; i++ {
		switch i {
		case 0:
			r.at("wave")
			w.Wave = r.int()
		case 1: // identity bytes, from a Python frontend, equal no index
			r.at("exclude_engine")
			if r.peek() == kindInt {
				w.Exclude, w.HasExclude = r.int(), true
			} else {
				r.skip()
			}
		default:
			r.skip()
		}
	}
	return w
}
