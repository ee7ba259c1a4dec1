package protocol

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

// Family is what kind of EngineCoreOutputs a message is.
type Family uint8

const (
	FamilyEmpty   Family = iota // says nothing; never sent
	FamilyOutputs               // outputs, scheduler_stats, finished_requests
	FamilyUtility               // utility_output
	FamilyWave                  // wave_complete or start_wave
	FamilyMixed                 // several of them; never sent
)

// Family classifies the message. Receivers need not refuse a mixture: each part
// speaks for itself. Senders must never make one.
func (o *EngineCoreOutputs) Family() Family {
	f, n := FamilyEmpty, 0
	if len(o.Outputs) > 0 || o.SchedulerStats != nil || len(o.FinishedRequests) > 0 {
		f, n = FamilyOutputs, n+1
	}
	if o.UtilityOutput != nil {
		f, n = FamilyUtility, n+1
	}
	if o.WaveComplete != nil {
		f, n = FamilyWave, n+1
	}
	if o.StartWave != nil {
		f, n = FamilyWave, n+1
	}
	if n > 1 {
		return FamilyMixed
	}
	return f
}

// AppendOutputs appends one message in the shortest form that carries it, which
// every version reads. It panics on an empty message or a mixture, for those
// close foreign frontends.
func AppendOutputs(b []byte, o *EngineCoreOutputs) []byte {
	if f := o.Family(); f == FamilyEmpty || f == FamilyMixed {
		panic("protocol: an EngineCoreOutputs must be of one family")
	}
	n := 4
	switch {
	case o.StartWave != nil:
		n = 8
	case o.WaveComplete != nil:
		n = 7
	case len(o.FinishedRequests) > 0:
		n = 6
	case o.UtilityOutput != nil:
		n = 5
	}
	b = appendArrayLen(b, n)
	b = appendInt(b, int64(o.EngineIndex))
	b = appendArrayLen(b, len(o.Outputs))
	for i := range o.Outputs {
		b = appendOutput(b, &o.Outputs[i])
	}
	if o.SchedulerStats == nil {
		b = appendNil(b)
	} else {
		b = appendSchedulerStats(b, o.SchedulerStats)
	}
	b = appendFloat(b, o.Timestamp)
	if n > 4 {
		b = appendUtilityOutput(b, o.UtilityOutput)
	}
	if n > 5 {
		if len(o.FinishedRequests) == 0 {
			b = appendNil(b)
		} else {
			b = appendStrs(b, o.FinishedRequests)
		}
	}
	if n > 6 {
		b = appendWave(b, o.WaveComplete)
	}
	if n > 7 {
		b = appendWave(b, o.StartWave)
	}
	return b
}

func appendWave(b []byte, wave *int) []byte {
	if wave == nil {
		return appendNil(b)
	}
	return appendInt(b, int64(*wave))
}

// appendUtilityOutput writes a void result as [nil, nil]: Python asserts that
// a call which did not fail has a result.
func appendUtilityOutput(b []byte, u *UtilityOutput) []byte {
	if u == nil {
		return appendNil(b)
	}
	b = appendCallID(appendArrayLen(b, 3), u.CallID)
	if u.Failure != "" {
		return appendNil(appendStr(b, u.Failure))
	}
	b = appendArrayLen(appendNil(b), 2)
	return appendAny(appendNil(b), u.Result)
}

func appendOutput(b []byte, o *EngineCoreOutput) []byte {
	if o.onlyTokens() {
		return appendInts(appendStr(appendArrayLen(b, 2), o.RequestID), o.NewTokenIDs)
	}
	n := len(outputLayout)
	for n > outputRequired && !o.has(outputLayout[n-1]) {
		n--
	}
	b = appendArrayLen(b, n)
	for _, f := range outputLayout[:n] {
		b = o.appendField(b, f)
	}
	return b
}

// onlyTokens holds for nearly every output: two elements say all.
func (o *EngineCoreOutput) onlyTokens() bool {
	return o.FinishReason == FinishNone && o.StopReason.Kind == StopReasonNone && len(o.Events) == 0 &&
		o.NewLogprobs == nil && o.NewPromptLogprobs == nil && o.TraceHeaders == nil &&
		o.PrefillStats == nil && o.NumNaNsInLogits == 0 && o.Error == nil
}

// has reports whether a field differs from its default.
func (o *EngineCoreOutput) has(f outputField) bool {
	switch f {
	case outNewLogprobs:
		return o.NewLogprobs != nil
	case outNewPromptLogprobs:
		return o.NewPromptLogprobs != nil
	case outFinishReason:
		return o.FinishReason != FinishNone
	case outStopReason:
		return o.StopReason.Kind != StopReasonNone
	case outEvents:
		return len(o.Events) > 0
	case outTraceHeaders:
		return o.TraceHeaders != nil
	case outPrefillStats:
		return o.PrefillStats != nil
	case outNumNaNsInLogits:
		return o.NumNaNsInLogits != 0
	case outError:
		return o.Error != nil
	}
	return false
}

func (o *EngineCoreOutput) appendField(b []byte, f outputField) []byte {
	switch f {
	case outRequestID:
		return appendStr(b, o.RequestID)
	case outNewTokenIDs:
		return appendInts(b, o.NewTokenIDs)
	case outNumNaNsInLogits:
		return appendInt(b, int64(o.NumNaNsInLogits))
	}
	if !o.has(f) {
		return appendNil(b)
	}
	switch f {
	case outNewLogprobs:
		return appendLogprobs(b, o.NewLogprobs, &numpyNames)
	case outNewPromptLogprobs:
		return appendLogprobs(b, o.NewPromptLogprobs, &torchNames)
	case outFinishReason:
		return appendInt(b, int64(o.FinishReason)-1)
	case outStopReason:
		if o.StopReason.Kind == StopReasonToken {
			return appendInt(b, int64(o.StopReason.TokenID))
		}
		return appendStr(b, o.StopReason.Text)
	case outEvents:
		return appendEvents(b, o.Events)
	case outTraceHeaders:
		return appendStrMap(b, o.TraceHeaders)
	case outPrefillStats:
		return appendPrefillStats(b, o.PrefillStats)
	case outError:
		return appendRequestError(b, o.Error)
	}
	return appendNil(b)
}

func appendRequestError(b []byte, e *RequestError) []byte {
	b = appendMapLen(b, 3)
	b = appendStr(appendStr(b, "code"), e.Code)
	b = appendStr(appendStr(b, "message"), e.Message)
	return appendBool(appendStr(b, "retryable"), e.Retryable)
}

func appendEvents(b []byte, events []EngineCoreEvent) []byte {
	b = appendArrayLen(b, len(events))
	for _, e := range events {
		b = appendMapLen(b, 2)
		b = appendInt(appendStr(b, "type"), int64(e.Type))
		b = appendFloat(appendStr(b, "timestamp"), e.Timestamp)
	}
	return b
}

func appendPrefillStats(b []byte, p *PrefillStats) []byte {
	b = appendMapLen(b, 6)
	b = appendInt(appendStr(b, "num_prompt_tokens"), int64(p.NumPromptTokens))
	b = appendInt(appendStr(b, "num_computed_tokens"), int64(p.NumComputedTokens))
	b = appendInt(appendStr(b, "num_cached_tokens"), int64(p.NumCachedTokens))
	b = appendInt(appendStr(b, "num_local_cached_tokens"), int64(p.NumLocalCachedTokens))
	b = appendInt(appendStr(b, "num_external_cached_tokens"), int64(p.NumExternalCachedTokens))
	return appendInt(appendStr(b, "num_cache_creation_tokens"), int64(p.NumCacheCreationTokens))
}

// dtypeNames are the three arrays' element types as NumPy or torch spell them.
// They must not be mixed: each side resolves only its own.
type dtypeNames struct {
	ids, logprobs, ranks string
	rankBytes            int
}

var (
	numpyNames = dtypeNames{"<i4", "<f4", "<i8", 8}
	torchNames = dtypeNames{"int32", "float32", "int32", 4}
)

// rawView is the extension type of an array's bytes sent inline.
const rawView = 3

// appendLogprobs writes the three arrays inline, [dtype, shape, bytes] each,
// and the nil that the fourth element is outside the engine.
//
// Source: vllm/v1/serial_utils.py, _encode_ndarray; vllm/v1/outputs.py.
func appendLogprobs(b []byte, l *LogprobsLists, names *dtypeNames) []byte {
	t, w := l.NumTokens, l.Width
	b = appendArrayLen(b, 4)
	b = appendArrayHead(b, names.ids, 4, t, w)
	for _, id := range l.TokenIDs[:t*w] {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	b = appendArrayHead(b, names.logprobs, 4, t, w)
	for _, p := range l.Logprobs[:t*w] {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(p))
	}
	b = appendArrayHead(b, names.ranks, names.rankBytes, t)
	for _, rank := range l.Ranks[:t] {
		if names.rankBytes == 4 {
			b = binary.LittleEndian.AppendUint32(b, uint32(rank))
		} else {
			b = binary.LittleEndian.AppendUint64(b, uint64(rank))
		}
	}
	return appendNil(b)
}

func appendArrayHead(b []byte, dtype string, elemBytes int, shape ...int) []byte {
	b = appendStr(appendArrayLen(b, 3), dtype)
	b = appendArrayLen(b, len(shape))
	n := elemBytes
	for _, dim := range shape {
		b = appendInt(b, int64(dim))
		n *= dim
	}
	return appendExtHeader(b, rawView, n)
}

// OutputsDecoder reads the messages of engines into structs that it reuses, so
// that a steady stream allocates next to nothing. Owned by one goroutine.
type OutputsDecoder struct {
	r       reader
	out     EngineCoreOutputs
	stats   SchedulerStats
	parts   statsParts
	utility UtilityOutput
	wave    [2]int

	logprobs pool[LogprobsLists]
	prefills pool[PrefillStats]

	// ids holds one string per live request, so that each of its outputs does
	// not make another.
	ids map[string]string
}

// maxInterned bounds ids against an engine that never finishes a request.
const maxInterned = 1 << 16

// pool hands out values that live until the next message.
type pool[T any] struct {
	items []*T
	n     int
}

func (p *pool[T]) next() *T {
	if p.n == len(p.items) {
		p.items = append(p.items, new(T))
	}
	p.n++
	return p.items[p.n-1]
}

// Decode reads one message: the payload frame, then auxiliary ones. The result
// is valid until the next call, but its strings may be kept.
//
// The error is a *FieldError for the first value that does not fit. The rest of
// the message is still there; an output with a bad value has lost its tokens
// and ends its request with FinishError, so that no stream waits for ever.
func (d *OutputsDecoder) Decode(frames [][]byte) (*EngineCoreOutputs, error) {
	r := &d.r
	r.reset("EngineCoreOutputs", frames)
	outputs, finished := d.out.Outputs[:0], d.out.FinishedRequests[:0]
	d.out = EngineCoreOutputs{Outputs: outputs, FinishedRequests: finished}
	d.logprobs.n, d.prefills.n = 0, 0
	if d.ids == nil || len(d.ids) > maxInterned {
		d.ids = make(map[string]string)
	}
	n, _ := r.structure()
	for i := 0; i < n && !r.stop; i++ {
		if i >= len(outputsNames) {
			r.skip()
			continue
		}
		r.at(outputsNames[i])
		d.field(i)
	}
	for i := range d.out.Outputs {
		if o := &d.out.Outputs[i]; o.FinishReason != FinishNone {
			delete(d.ids, o.RequestID)
		}
	}
	return &d.out, r.err()
}

func (d *OutputsDecoder) field(i int) {
	r, o := &d.r, &d.out
	switch outputsNames[i] {
	case "engine_index":
		o.EngineIndex = int(r.within(0, math.MaxInt32))
	case "outputs":
		d.outputs()
	case "scheduler_stats":
		if !r.null() {
			o.SchedulerStats = &d.stats
			r.schedulerStats(&d.stats, &d.parts)
		}
	case "timestamp":
		o.Timestamp = r.float()
	case "utility_output":
		if !r.null() {
			o.UtilityOutput = &d.utility
			r.utilityOutput(&d.utility)
		}
	case "finished_requests":
		d.finished()
	case "wave_complete":
		o.WaveComplete = d.waveOrNil(0)
	case "start_wave":
		o.StartWave = d.waveOrNil(1)
	}
}

func (d *OutputsDecoder) waveOrNil(i int) *int {
	if d.r.null() {
		return nil
	}
	d.wave[i] = d.r.int()
	return &d.wave[i]
}

func (d *OutputsDecoder) finished() {
	r := &d.r
	if r.null() {
		return
	}
	n, _ := r.array()
	for i := 0; i < n && !r.stop; i++ {
		r.index(i)
		if id := d.id(); id != "" {
			d.out.FinishedRequests = append(d.out.FinishedRequests, id)
		}
	}
}

// id reads a request ID, sharing the string with the request's other outputs.
func (d *OutputsDecoder) id() string {
	p, ok := d.r.strBytes()
	if !ok {
		return ""
	}
	if s, ok := d.ids[string(p)]; ok {
		return s
	}
	s := string(p)
	d.ids[s] = s
	return s
}

func (d *OutputsDecoder) outputs() {
	r := &d.r
	n, ok := r.array()
	if !ok {
		return
	}
	for i := range n {
		r.index(i)
		if i == cap(d.out.Outputs) {
			d.out.Outputs = append(d.out.Outputs, EngineCoreOutput{})
		} else {
			d.out.Outputs = d.out.Outputs[:i+1]
		}
		o := &d.out.Outputs[i]
		*o = EngineCoreOutput{NewTokenIDs: o.NewTokenIDs[:0], Events: o.Events[:0]}
		before := r.first
		r.enter()
		d.output(o)
		r.leave()
		if o.RequestID == "" { // nobody to tell
			d.out.Outputs = d.out.Outputs[:i]
			r.index(i)
			r.broken("an output without request_id")
			return
		}
		if r.first != before || r.stop {
			*o = EngineCoreOutput{RequestID: o.RequestID, FinishReason: FinishError,
				NewTokenIDs: o.NewTokenIDs[:0], Events: o.Events[:0]}
		}
		if r.stop {
			return
		}
	}
}

func (d *OutputsDecoder) output(o *EngineCoreOutput) {
	r := &d.r
	n, ok := r.structure()
	if !ok {
		return
	}
	if n < outputRequired {
		r.record(fmt.Sprintf("want %d elements or more", outputRequired), strconv.Itoa(n))
	}
	for i := 0; i < n && !r.stop; i++ {
		if i >= len(outputLayout) {
			r.skip()
			continue
		}
		r.at(outputNames[outputLayout[i]])
		if i >= outputRequired && r.null() {
			continue
		}
		d.outputField(o, outputLayout[i])
	}
}

func (d *OutputsDecoder) outputField(o *EngineCoreOutput, f outputField) {
	r := &d.r
	switch f {
	case outRequestID:
		o.RequestID = d.id()
	case outNewTokenIDs:
		o.NewTokenIDs = r.ints32(o.NewTokenIDs)
	case outNewLogprobs:
		o.NewLogprobs = d.logprobsLists(len(o.NewTokenIDs))
	case outNewPromptLogprobs:
		o.NewPromptLogprobs = d.logprobsLists(-1)
	case outFinishReason:
		o.FinishReason = FinishReason(r.within(0, int64(len(FinishReasons))-1) + 1)
	case outStopReason:
		o.StopReason = r.stopReason()
	case outEvents:
		o.Events = r.events(o.Events)
	case outTraceHeaders:
		o.TraceHeaders = r.strMap()
	case outPrefillStats:
		o.PrefillStats = d.prefills.next()
		r.prefillStats(o.PrefillStats)
	case outNumNaNsInLogits:
		o.NumNaNsInLogits = r.int()
	case outError:
		o.Error = r.requestError()
	default: // what was never asked for
		r.skip()
	}
}

func (r *reader) requestError() *RequestError {
	var e RequestError
	r.eachKey(func(key string) bool {
		switch key {
		case "code":
			e.Code = r.str()
		case "message":
			e.Message = r.str()
		case "retryable":
			e.Retryable = r.bool()
		default:
			return false
		}
		return true
	})
	return &e
}

func (r *reader) stopReason() StopReason {
	switch r.peek() {
	case kindInt:
		return StopReason{Kind: StopReasonToken, TokenID: r.int32()}
	case kindStr:
		return StopReason{Kind: StopReasonText, Text: r.str()}
	}
	r.wrong("want an int or a str")
	return StopReason{}
}

func (r *reader) events(dst []EngineCoreEvent) []EngineCoreEvent {
	n, _ := r.array()
	for i := 0; i < n && !r.stop; i++ {
		r.index(i)
		var e EngineCoreEvent
		r.eachKey(func(key string) bool {
			switch key {
			case "type":
				e.Type = EventType(r.int())
			case "timestamp":
				e.Timestamp = r.float()
			default:
				return false
			}
			return true
		})
		dst = append(dst, e)
	}
	return dst
}

func (r *reader) prefillStats(p *PrefillStats) {
	*p = PrefillStats{}
	r.eachKey(func(key string) bool {
		switch key {
		case "num_prompt_tokens":
			p.NumPromptTokens = r.int()
		case "num_computed_tokens":
			p.NumComputedTokens = r.int()
		case "num_cached_tokens":
			p.NumCachedTokens = r.int()
		case "num_local_cached_tokens":
			p.NumLocalCachedTokens = r.int()
		case "num_external_cached_tokens":
			p.NumExternalCachedTokens = r.int()
		case "num_cache_creation_tokens":
			p.NumCacheCreationTokens = r.int()
		default:
			return false
		}
		return true
	})
}

func (r *reader) utilityOutput(u *UtilityOutput) {
	*u = UtilityOutput{}
	n, ok := r.array()
	if !ok {
		return
	}
	if n < 1 {
		r.record("want 3 elements", strconv.Itoa(n))
	}
	r.enter()
	for i := 0; i < n && !r.stop; i++ {
		switch i {
		case 0:
			r.at("call_id")
			u.CallID, _ = r.callID()
		case 1:
			r.at("failure_message")
			u.Failure = r.strOrNil()
		case 2:
			r.at("result")
			u.Result = r.utilityResult()
		default:
			r.skip()
		}
	}
	r.leave()
}

// utilityResult reads [type_info, value] and ignores the former.
func (r *reader) utilityResult() any {
	if r.null() {
		return nil
	}
	n, ok := r.array()
	if !ok {
		return nil
	}
	if n < 2 {
		r.record("want the pair [type_info, value]", "array of "+strconv.Itoa(n))
	}
	var result any
	for i := 0; i < n && !r.stop; i++ {
		if i == 1 {
			result = r.any(0)
		} else {
			r.skip()
		}
	}
	return result
}

// logprobsLists reads the three arrays. numTokens is how many tokens the first
// dimension must count, or -1 where that is not known.
func (d *OutputsDecoder) logprobsLists(numTokens int) *LogprobsLists {
	r := &d.r
	n, ok := r.array()
	if !ok {
		return nil
	}
	l := d.logprobs.next()
	l.NumTokens, l.Width = 0, 0
	l.TokenIDs, l.Logprobs, l.Ranks = l.TokenIDs[:0], l.Logprobs[:0], l.Ranks[:0]
	if n < 3 {
		r.record("want 3 arrays", strconv.Itoa(n))
	}
	var ids, logprobs, ranks ndarray
	for i := 0; i < n && !r.stop; i++ {
		r.index(i)
		switch i {
		case 0:
			ids = r.ndarray()
			l.TokenIDs = r.asInt32(l.TokenIDs, ids)
		case 1:
			logprobs = r.ndarray()
			l.Logprobs = r.asFloat32(l.Logprobs, logprobs)
		case 2:
			ranks = r.ndarray()
			l.Ranks = r.asInt64(l.Ranks, ranks)
		default: // cumulative counts: the engine's own
			r.skip()
		}
	}
	r.index(-1)
	if r.stop || n < 3 {
		return nil
	}
	if ids.dims != 2 || logprobs.shape != ids.shape || logprobs.dims != 2 || ranks.dims != 1 ||
		ranks.shape[0] != ids.shape[0] || numTokens >= 0 && ids.shape[0] != numTokens {
		r.record("array shapes disagree", fmt.Sprintf("token_ids %v, logprobs %v, ranks %v for %d tokens",
			ids.dimensions(), logprobs.dimensions(), ranks.dimensions(), numTokens))
		return nil
	}
	l.NumTokens, l.Width = ids.shape[0], ids.shape[1]
	return l
}

// ndarray is one [dtype, shape, data] of NumPy's or torch's; data is in place.
type ndarray struct {
	dtype string
	dims  int
	shape [2]int
	data  []byte
}

func (a *ndarray) dimensions() []int { return a.shape[:min(a.dims, 2)] }

func (a *ndarray) len() int {
	n := 1
	for _, dim := range a.dimensions() {
		n *= dim
	}
	return n
}

func (r *reader) ndarray() (a ndarray) {
	n, ok := r.array()
	if !ok {
		return ndarray{}
	}
	if n != 3 {
		r.record("want [dtype, shape, data]", "array of "+strconv.Itoa(n))
	}
	for i := 0; i < n && !r.stop; i++ {
		switch i {
		case 0:
			p, _ := r.strBytes()
			a.dtype = unsafeString(p)
		case 1:
			r.shape(&a)
		case 2:
			a.data = r.arrayData()
		default:
			r.skip()
		}
	}
	return a
}

func (r *reader) shape(a *ndarray) {
	a.dims, _ = r.array()
	for i := range a.dims {
		dim := int(r.within(0, math.MaxInt32))
		if i < len(a.shape) {
			a.shape[i] = dim
		}
	}
	if a.dims > len(a.shape) {
		r.record("want at most 2 dimensions", strconv.Itoa(a.dims))
	}
}

// arrayData reads inline bytes, or the number of the frame that holds them.
func (r *reader) arrayData() []byte {
	switch r.peek() {
	case kindExt:
		code, p := r.ext()
		if code != rawView {
			r.record(fmt.Sprintf("want ext code %d", rawView), strconv.Itoa(int(code)))
			return nil
		}
		return p
	case kindInt:
		if len(r.aux) == 0 {
			r.wrong("there are no auxiliary frames")
			return nil
		}
		i := r.within(1, int64(len(r.aux)))
		if i == 0 {
			return nil
		}
		return r.aux[i-1]
	}
	r.wrong("want an ext or a frame number")
	return nil
}

// elements checks that the data holds shape's elements of size bytes.
func (r *reader) elements(a ndarray, size int) (n int, ok bool) {
	n = a.len()
	if r.stop || len(a.data)%size != 0 || n != len(a.data)/size {
		r.record(fmt.Sprintf("want %d elements of %d bytes", n, size), fmt.Sprintf("%d bytes", len(a.data)))
		return 0, false
	}
	return n, true
}

func (r *reader) asInt64(dst []int64, a ndarray) []int64 {
	switch a.dtype {
	case "<i4", "int32":
		n, _ := r.elements(a, 4)
		for i := range n {
			dst = append(dst, int64(int32(binary.LittleEndian.Uint32(a.data[4*i:]))))
		}
	case "<i8", "int64":
		n, _ := r.elements(a, 8)
		for i := range n {
			dst = append(dst, int64(binary.LittleEndian.Uint64(a.data[8*i:])))
		}
	default:
		r.record("want an array of int32 or int64", quote([]byte(a.dtype)))
	}
	return dst
}

func (r *reader) asInt32(dst []int32, a ndarray) []int32 {
	switch a.dtype {
	case "<i4", "int32":
		n, _ := r.elements(a, 4)
		for i := range n {
			dst = append(dst, int32(binary.LittleEndian.Uint32(a.data[4*i:])))
		}
	case "<i8", "int64":
		n, _ := r.elements(a, 8)
		for i := range n {
			v := int64(binary.LittleEndian.Uint64(a.data[8*i:]))
			if v != int64(int32(v)) {
				r.record("want token IDs that fit int32", strconv.FormatInt(v, 10))
			}
			dst = append(dst, int32(v))
		}
	default:
		r.record("want an array of int32 or int64", quote([]byte(a.dtype)))
	}
	return dst
}

func (r *reader) asFloat32(dst []float32, a ndarray) []float32 {
	switch a.dtype {
	case "<f4", "float32":
		n, _ := r.elements(a, 4)
		for i := range n {
			dst = append(dst, math.Float32frombits(binary.LittleEndian.Uint32(a.data[4*i:])))
		}
	default:
		r.record("want an array of float32", quote([]byte(a.dtype)))
	}
	return dst
}
