package protocol

import (
	"bytes"
	"strings"
	"testing"
)

// message joins literal bytes; ints become the array or map header of so many.
func message(parts ...string) []byte { return []byte(strings.Join(parts, "")) }

const (
	noID    = "\xc0"
	arrival = "\x01" // an int where a float is declared
)

func TestFieldErrors(t *testing.T) {
	add := func(elements ...string) [][]byte {
		b := appendArrayLen(nil, len(elements))
		return [][]byte{{byte(RequestAdd)}, append(b, strings.Join(elements, "")...)}
	}
	params := func(p string) [][]byte {
		return add("\xa1r", "\x91\x01", noID, p, noID, arrival, noID, noID, noID, noID, noID, "\x02")
	}
	utility := func(elements ...string) [][]byte {
		b := appendArrayLen(nil, len(elements))
		return [][]byte{{byte(RequestUtility)}, append(b, strings.Join(elements, "")...)}
	}
	for _, c := range []struct {
		name   string
		frames [][]byte
		want   FieldError
		text   string
	}{
		{"no frame", nil, FieldError{Message: "request", Field: "type frame", Value: "no frame", Reason: "want one byte"},
			"request: type frame: want one byte, got no frame"},
		{"unknown type", [][]byte{{4}, {0x90}}, FieldError{Message: "request", Field: "type frame", Value: "0x04", Reason: "unknown request type", Type: 4},
			"request: type frame: unknown request type, got 0x04"},
		{"no payload", [][]byte{{0}}, FieldError{Message: "EngineCoreRequest", Reason: "no payload frame"},
			"EngineCoreRequest: no payload frame"},
		{"empty payload", [][]byte{{1}, {}}, FieldError{Message: "abort", Reason: "truncated at byte 0", Type: 1},
			"abort: truncated at byte 0"},
		{"short ADD", add("\xa1r", "\x91\x01"), FieldError{Message: "EngineCoreRequest", Reason: "want 9 elements or more", Value: "2", RequestID: "r"},
			`EngineCoreRequest "r": want 9 elements or more, got 2`},
		{"ID is bin", add("\xc4\x01r", "\x90", noID, noID, noID, arrival, noID, noID, noID),
			FieldError{Message: "EngineCoreRequest", Field: "request_id", Value: "bin of 1 bytes", Reason: "want a str"},
			"EngineCoreRequest: request_id: want a str, got bin of 1 bytes"},
		{"empty ID", add("\xa0", "\x90", noID, noID, noID, arrival, noID, noID, noID),
			FieldError{Message: "EngineCoreRequest", Field: "request_id", Reason: "must not be empty"},
			"EngineCoreRequest: request_id: must not be empty"},
		{"token too big", add("\xa1r", "\x92\x01\xce\xff\xff\xff\xff", noID, noID, noID, arrival, noID, noID, noID, noID, noID, "\x02"),
			FieldError{Message: "EngineCoreRequest", Field: "prompt_token_ids[1]", Value: "4294967295",
				Reason: "want an int in [-2147483648, 2147483647]", RequestID: "r", ClientIndex: 2},
			`EngineCoreRequest "r": prompt_token_ids[1]: want an int in [-2147483648, 2147483647], got 4294967295`},
		{"float for int", params("\x82\xa5top_k\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00\xa5min_p\xc0"),
			FieldError{Message: "EngineCoreRequest", Field: "sampling_params.top_k", Value: "1.5", Reason: "want an int", RequestID: "r", ClientIndex: 2},
			`EngineCoreRequest "r": sampling_params.top_k: want an int, got 1.5`},
		{"params no map", params("\x93\x01\x02\x03"),
			FieldError{Message: "EngineCoreRequest", Field: "sampling_params", Value: "array of 3", Reason: "want a map", RequestID: "r", ClientIndex: 2},
			`EngineCoreRequest "r": sampling_params: want a map, got array of 3`},
		{"truncated", [][]byte{{0}, message("\x99\xa1r\x92\x01")},
			FieldError{Message: "EngineCoreRequest", Field: "prompt_token_ids", Reason: "declares 2 elements, 1 bytes are left", RequestID: "r"},
			`EngineCoreRequest "r": prompt_token_ids: declares 2 elements, 1 bytes are left`},
		{"reserved byte", [][]byte{{0}, message("\x99\xa1r\x90\xc1\xc0\xc0\xc0\xc0\xc0\xc0")},
			FieldError{Message: "EngineCoreRequest", Field: "mm_features", Reason: "byte 0xc1 is no MessagePack", RequestID: "r"},
			`EngineCoreRequest "r": mm_features: byte 0xc1 is no MessagePack`},
		{"short UTILITY", utility("\x01", "\x07", "\xa1m"),
			FieldError{Message: "utility call", Reason: "want 4 elements", Value: "3", Type: RequestUtility, ClientIndex: 1, CallID: ptr(NewCallID(7))},
			"utility call: want 4 elements, got 3"},
		{"method no str", utility("\x01", "\xff", "\x05", "\x90"),
			FieldError{Message: "utility call", Field: "method", Value: "5", Reason: "want a str", Type: RequestUtility, ClientIndex: 1,
				CallID: &CallID{Bits: 1<<64 - 1, Negative: true}},
			"utility call: method: want a str, got 5"},
		{"argument is an extension", utility("\x01", "\x07", "\xa1m", "\x91\xd4\x05\x00"),
			FieldError{Message: "utility call", Field: "args", Value: "ext 5 of 1 bytes", Reason: "want a plain value", Type: RequestUtility,
				ClientIndex: 1, CallID: ptr(NewCallID(7))},
			"utility call: args: want a plain value, got ext 5 of 1 bytes"},
	} {
		got, ok := DecodeFrontendMessage(c.frames).(*FieldError)
		if !ok {
			t.Errorf("%s: no *FieldError", c.name)
			continue
		}
		equal(t, c.name, got, &c.want)
		if got.Error() != c.text {
			t.Errorf("%s: Error() = %s, want %s", c.name, got, c.text)
		}
	}
}

// A length that lies must cost nothing: 4 GiB are declared, 9 bytes are there.
func TestAbsurdLengths(t *testing.T) {
	for _, payload := range []string{
		"\x99\xa1r\xdd\xff\xff\xff\xff\x01",
		"\x99\xa1r\x90\xc0\xdf\xff\xff\xff\xff",
		"\x99\xdb\xff\xff\xff\xff" + "r",
		"\xdd\xff\xff\xff\xff\xa1r",
		"\x99\xa1r\x90\xc6\xff\xff\xff\xff",
		"\x99\xa1r\x90\xc9\xff\xff\xff\xff\x03",
	} {
		frames := [][]byte{{byte(RequestAdd)}, []byte(payload)}
		if _, ok := DecodeFrontendMessage(frames).(*FieldError); !ok {
			t.Errorf("decode(% x) is no *FieldError", payload)
		}
		// By AllocsPerRun a slice of a billion would also show as one; its
		// bytes cannot be missed by a test that has a timeout.
		if n := testing.AllocsPerRun(10, func() { DecodeFrontendMessage(frames) }); n > 20 {
			t.Errorf("decode(% x) allocates %v times, want at most 20", payload, n)
		}
	}
}

func TestDeepNesting(t *testing.T) {
	deep := append(bytes.Repeat([]byte{0x91}, 100_000), 0xc0)
	call := append([]byte("\x94\x00\x07\xa1m"), deep...)
	if e, ok := DecodeFrontendMessage([][]byte{{byte(RequestUtility)}, call}).(*FieldError); !ok || e.CallID == nil {
		t.Errorf("a call nested 100,000 deep decodes to %v, want a *FieldError of call 7", e)
	}
	add := append([]byte("\x99\xa1r\x90"), deep...)
	add = append(add, "\xc0\xc0\x01\xc0\xc0\xc0"...)
	if q, ok := DecodeFrontendMessage([][]byte{{byte(RequestAdd)}, add}).(*EngineCoreRequest); !ok || q.Unsupported[0] != "mm_features" {
		t.Errorf("an ADD with mm_features nested 100,000 deep decodes to %v, want it refused by name", q)
	}
}

func TestUnsupportedValues(t *testing.T) {
	for _, c := range []struct {
		value string
		want  bool // counts as set
	}{
		{"\xc0", false}, {"\xc2", false}, {"\x00", false}, {"\x90", false}, {"\x80", false}, {"\xa0", false},
		{"\xcb\x00\x00\x00\x00\x00\x00\x00\x00", false}, {"\xdc\x00\x00", false}, {"\xde\x00\x00", false},
		{"\xc3", true}, {"\x01", true}, {"\x91\x00", true}, {"\x81\xa1a\xc0", true}, {"\xa1x", true},
		{"\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00", true}, {"\xff", true}, {"\xd4\x03\x00", true},
	} {
		frames := [][]byte{{byte(RequestAdd)}, message("\x99\xa1r\x90", c.value, "\xc0\xc0\x01\xc0\xc0\xc0")}
		q, ok := DecodeFrontendMessage(frames).(*EngineCoreRequest)
		if !ok || (len(q.Unsupported) > 0) != c.want {
			t.Errorf("Unsupported of mm_features % x = %v, want set = %v", c.value, q, c.want)
		}
	}
}

// A bad output ends its request and none other.
func TestBadOutputEndsItsRequest(t *testing.T) {
	good := "\x92\xa1a\x91\x01"
	for _, bad := range []string{
		"\x92\xa1b\x91\xa1x",                // token is a str
		"\x96\xa1b\x91\x02\xc0\xc0\xc0\x05", // no such finish reason
		"\x91\xa1b",                         // too short
		"\x93\xa1b\x91\x01\x93\x93\xa3<i4\x90\x01\xc0\xc0",                                 // aux frame that is not there
		"\x93\xa1b\x91\x01\x94\x93\xa3>i4\x92\x01\x01\xd6\x03\x00\x00\x00\x01\xc0\xc0\xc0", // big-endian
	} {
		var d OutputsDecoder
		o, err := d.Decode([][]byte{message("\x92\x00\x93", good, bad, good)})
		e, ok := err.(*FieldError)
		if !ok || !strings.HasPrefix(e.Field, "outputs[1]") {
			t.Errorf("Decode(% x) = %v, want a *FieldError in outputs[1]", bad, err)
			continue
		}
		if len(o.Outputs) != 3 || o.Outputs[0].FinishReason != FinishNone || o.Outputs[2].NewTokenIDs[0] != 1 {
			t.Errorf("Decode(% x) spoils its neighbours: %+v", bad, o.Outputs)
			continue
		}
		equal(t, "bad output", o.Outputs[1], EngineCoreOutput{RequestID: "b", FinishReason: FinishError})
	}
}

func TestLogprobsShapes(t *testing.T) {
	value := func(ids, logprobs, ranks string) []byte {
		return outputWith(2, 1, message("\x94", ids, logprobs, ranks, "\xc0"))
	}
	const (
		ids      = "\x93\xa3<i4\x92\x01\x02\xd7\x03\x01\x00\x00\x00\x02\x00\x00\x00"
		logprobs = "\x93\xa3<f4\x92\x01\x02\xd7\x03\x00\x00\x00\x00\x00\x00\x00\x00"
		ranks    = "\x93\xa3<i4\x91\x01\xd6\x03\x07\x00\x00\x00"
	)
	if got := decodeOutputs(t, value(ids, logprobs, ranks)).Outputs[0].NewLogprobs; got.Ranks[0] != 7 {
		t.Errorf("int32 ranks decode to %v, want [7]", got.Ranks)
	}
	for name, b := range map[string][]byte{
		"ids of another shape":  value("\x93\xa3<i4\x92\x02\x01\xd7\x03\x01\x00\x00\x00\x02\x00\x00\x00", logprobs, ranks),
		"too few bytes":         value("\x93\xa3<i4\x92\x01\x02\xd6\x03\x01\x00\x00\x00", logprobs, ranks),
		"huge shape":            value("\x93\xa3<i4\x92\xce\x7f\xff\xff\xff\xce\x7f\xff\xff\xff\xd6\x03\x01\x00\x00\x00", logprobs, ranks),
		"three dimensions":      value("\x93\xa3<i4\x93\x01\x02\x01\xd7\x03\x01\x00\x00\x00\x02\x00\x00\x00", logprobs, ranks),
		"ranks of two tokens":   value(ids, logprobs, "\x93\xa3<i4\x91\x02\xd7\x03\x07\x00\x00\x00\x07\x00\x00\x00"),
		"pickled":               value("\x93\xa3<i4\x92\x01\x02\xd7\x01\x01\x00\x00\x00\x02\x00\x00\x00", logprobs, ranks),
		"ID beyond int32":       value("\x93\xa3<i8\x92\x01\x01\xd7\x03\x00\x00\x00\x00\x01\x00\x00\x00", logprobs, ranks),
		"float logprobs of f64": value(ids, "\x93\xa3<f8\x92\x01\x01\xd7\x03\x00\x00\x00\x00\x00\x00\x00\x00", ranks),
	} {
		var d OutputsDecoder
		o, err := d.Decode([][]byte{b})
		if err == nil || len(o.Outputs) != 1 || o.Outputs[0].FinishReason != FinishError || o.Outputs[0].NewLogprobs != nil {
			t.Errorf("%s: Decode = %+v, %v, want the request ended with an error", name, o.Outputs, err)
		}
	}
}

func TestFamily(t *testing.T) {
	outputs := []EngineCoreOutput{{RequestID: "r"}}
	for _, c := range []struct {
		name string
		o    EngineCoreOutputs
		want Family
	}{
		{"empty", EngineCoreOutputs{Timestamp: 1, EngineIndex: 1}, FamilyEmpty},
		{"outputs", EngineCoreOutputs{Outputs: outputs}, FamilyOutputs},
		{"stats", EngineCoreOutputs{SchedulerStats: &SchedulerStats{}}, FamilyOutputs},
		{"finished and stats", EngineCoreOutputs{FinishedRequests: []string{"r"}, SchedulerStats: &SchedulerStats{}}, FamilyOutputs},
		{"utility", EngineCoreOutputs{UtilityOutput: &UtilityOutput{}}, FamilyUtility},
		{"wave", EngineCoreOutputs{WaveComplete: ptr(0)}, FamilyWave},
		{"start", EngineCoreOutputs{StartWave: ptr(0)}, FamilyWave},
		{"utility and stats", EngineCoreOutputs{UtilityOutput: &UtilityOutput{}, SchedulerStats: &SchedulerStats{}}, FamilyMixed},
		{"both waves", EngineCoreOutputs{WaveComplete: ptr(0), StartWave: ptr(1)}, FamilyMixed},
	} {
		if got := c.o.Family(); got != c.want {
			t.Errorf("Family(%s) = %v, want %v", c.name, got, c.want)
		}
		func() {
			sendable := c.want != FamilyEmpty && c.want != FamilyMixed
			defer func() {
				if (recover() == nil) != sendable {
					t.Errorf("AppendOutputs(%s) panics: %v, want %v", c.name, sendable, !sendable)
				}
			}()
			AppendOutputs(nil, &c.o)
		}()
	}
}

// Both the decoder and the struct it fills are reused: nothing of a message may
// remain in the next.
func TestDecoderReuse(t *testing.T) {
	full := pythonOutputs()["outputs_full"]
	var d OutputsDecoder
	for _, o := range []*EngineCoreOutputs{
		full,
		{Outputs: []EngineCoreOutput{{RequestID: "x"}, {RequestID: "y"}, {RequestID: "z"}, {RequestID: "w"}}},
		{UtilityOutput: &UtilityOutput{CallID: NewCallID(1), Failure: "no"}},
		{UtilityOutput: &UtilityOutput{CallID: NewCallID(2), Result: true}},
		full,
	} {
		got, err := d.Decode([][]byte{AppendOutputs(nil, o)})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "reused decoder", got, o)
	}
}

func TestStringsOutliveTheMessage(t *testing.T) {
	var d OutputsDecoder
	b := AppendOutputs(nil, pythonOutputs()["outputs_full"])
	o, err := d.Decode([][]byte{b})
	if err != nil {
		t.Fatal(err)
	}
	id, reason := o.Outputs[0].RequestID, o.Outputs[3].StopReason.Text
	clear(b)
	if id != "r-1" || reason != "repetition_detected" {
		t.Errorf("after the payload was cleared: %q, %q, want r-1, repetition_detected", id, reason)
	}
}

func step(n int) *EngineCoreOutputs {
	o := &EngineCoreOutputs{Timestamp: 1, SchedulerStats: &SchedulerStats{NumRunningReqs: n}}
	for i := range n {
		o.Outputs = append(o.Outputs, EngineCoreOutput{RequestID: "cmpl-0123456789abcdef-" + string(rune('a'+i%26)), NewTokenIDs: []int32{int32(i)}})
	}
	return o
}

func TestAllocations(t *testing.T) {
	o := step(64)
	buf := AppendOutputs(nil, o)
	q := pythonRequests()["add_full"]
	request := AppendRequest(nil, q)
	var d OutputsDecoder
	frames := [][]byte{buf}
	for _, c := range []struct {
		name string
		f    func()
	}{
		{"AppendOutputs", func() { buf = AppendOutputs(buf[:0], o) }},
		{"AppendRequest", func() { request = AppendRequest(request[:0], q) }},
		{"OutputsDecoder.Decode", func() { d.Decode(frames) }},
	} {
		c.f()
		if n := testing.AllocsPerRun(100, c.f); n != 0 {
			t.Errorf("%s allocates %v times, want 0", c.name, n)
		}
	}
}

func BenchmarkOutputs(b *testing.B) {
	o := step(256)
	buf := AppendOutputs(nil, o)
	b.Run("append/reqs=256", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = AppendOutputs(buf[:0], o)
		}
	})
	b.Run("decode/reqs=256", func(b *testing.B) {
		b.ReportAllocs()
		var d OutputsDecoder
		frames := [][]byte{buf}
		for b.Loop() {
			d.Decode(frames)
		}
	})
}

func BenchmarkRequest(b *testing.B) {
	q := &EngineCoreRequest{RequestID: "r", PromptTokenIDs: make([]int32, 32<<10), SamplingParams: paramsWith(func(*SamplingParams) {})}
	for i := range q.PromptTokenIDs {
		q.PromptTokenIDs[i] = int32(i * 4)
	}
	buf := AppendRequest(nil, q)
	b.Run("append/prompt=32k", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = AppendRequest(buf[:0], q)
		}
	})
	b.Run("decode/prompt=32k", func(b *testing.B) {
		b.ReportAllocs()
		frames := [][]byte{{byte(RequestAdd)}, buf}
		for b.Loop() {
			DecodeFrontendMessage(frames)
		}
	})
}

func FuzzFrontendMessage(f *testing.F) {
	for name, b := range readGolden(f, "vllm-0.33.txt") {
		if strings.HasPrefix(name, "add") {
			f.Add(byte(RequestAdd), b)
		}
	}
	for name, b := range readGolden(f, "golden.txt") {
		switch name {
		case "abort":
			f.Add(byte(RequestAbort), b)
		case "utility":
			f.Add(byte(RequestUtility), b)
		default:
			f.Add(byte(RequestAdd), b)
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, payload []byte) {
		m := DecodeFrontendMessage([][]byte{{kind}, payload})
		q, ok := m.(*EngineCoreRequest)
		if !ok {
			if e, ok := m.(*FieldError); ok && e.Error() == "" {
				t.Error("an error without a text")
			}
			return
		}
		// What was understood can be said again, and means the same.
		q.Unsupported = nil
		if q.SamplingParams != nil {
			q.SamplingParams.Unsupported = nil
		}
		again := DecodeFrontendMessage([][]byte{{byte(RequestAdd)}, AppendRequest(nil, q)})
		if d := diff(q, again); d != "" {
			t.Errorf("decode(encode(request)): got +, want -:\n%s", d)
		}
	})
}

func FuzzOutputs(f *testing.F) {
	for _, file := range []string{"vllm-0.33.txt", "golden.txt"} {
		for _, b := range readGolden(f, file) {
			f.Add(b, []byte{1, 2, 3, 4})
		}
	}
	var d OutputsDecoder
	f.Fuzz(func(t *testing.T, payload, aux []byte) {
		o, err := d.Decode([][]byte{payload, aux})
		if f := o.Family(); err != nil || f == FamilyEmpty || f == FamilyMixed {
			return
		}
		var again OutputsDecoder
		got, err := again.Decode([][]byte{AppendOutputs(nil, o)})
		if err != nil {
			t.Fatal(err)
		}
		if d := diff(o, got); d != "" {
			t.Errorf("decode(encode(outputs)): got +, want -:\n%s", d)
		}
	})
}

func FuzzHandshake(f *testing.F) {
	for _, file := range []string{"vllm-0.33.txt", "golden.txt"} {
		for _, b := range readGolden(f, file) {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		DecodeHello(b)
		if m, err := DecodeInit(b); err == nil {
			if again, err := DecodeInit(AppendInit(nil, m)); err != nil || diff(m, again) != "" {
				t.Errorf("DecodeInit(AppendInit(%+v)) = %+v, %v", m, again, err)
			}
		}
		if g, err := DecodeRegistration(b); err == nil {
			if again, err := DecodeRegistration(AppendRegistration(nil, g)); err != nil || diff(g, again) != "" {
				t.Errorf("DecodeRegistration(AppendRegistration(%+v)) = %+v, %v", g, again, err)
			}
		}
	})
}
