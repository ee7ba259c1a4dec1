package e2e

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The transcripts are what vLLM's own Python server answered to the requests of
// parity_requests_test.go, serving the same weights: testdata/parity/record.sh
// starts one and records. TestParity sends the same requests to our processes
// and compares answer by answer. What differs on purpose stands in
// parityDifferences with its reason, and a difference listed there that is
// gone fails too.
const transcriptsFile = "testdata/parity/vllm-0.32.0.json"

var record = flag.String("record", "", "URL of a vLLM server whose answers to write to "+transcriptsFile)

// transcript is one answer, with what changes from run to run made equal.
type transcript struct {
	Name        string `json:"name"`
	Status      int    `json:"status"`
	ContentType string `json:"content_type"`
	// Events of a stream, or the one body: JSON, or text as a string.
	Events []any `json:"events"`
}

func TestParity(t *testing.T) {
	if *record != "" {
		writeTranscripts(t, *record)
		return
	}
	raw, err := os.ReadFile(transcriptsFile)
	if err != nil {
		t.Fatal(err)
	}
	var list []transcript
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	want := make(map[string]transcript)
	for _, tr := range list {
		want[tr.Name] = tr
	}
	s := start(t, options{core: []string{"--dtype", "float32"}})
	seen := make(map[*parityDifference]bool)
	for _, r := range parityRequests {
		w, ok := want[r.name]
		if !ok {
			t.Errorf("%s: there is no transcript; record again", r.name)
			continue
		}
		delete(want, r.name)
		for _, d := range compare(w, exchange(t, s.url, r)) {
			if known := knownDifference(r.name, d); known != nil {
				seen[known] = true
			} else {
				t.Errorf("%s: %s", r.name, d)
			}
		}
	}
	for name := range want {
		t.Errorf("transcript %q belongs to no request", name)
	}
	for i := range parityDifferences {
		if d := &parityDifferences[i]; !seen[d] {
			t.Errorf("difference %q at %q is listed and gone: %s", d.rows, d.path, d.why)
		}
	}
}

func writeTranscripts(t *testing.T, url string) {
	list := make([]transcript, len(parityRequests))
	for i, r := range parityRequests {
		list[i] = exchange(t, url, r)
	}
	raw, err := json.Marshal(list, jsontext.WithIndent("\t"), json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(transcriptsFile, append(raw, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// exchange sends one request of the table.
func exchange(t *testing.T, url string, r parityRequest) transcript {
	t.Helper()
	method := r.method
	if method == "" {
		method = http.MethodPost
	}
	req, err := http.NewRequest(method, url+r.path, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range r.header {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	raw := []byte(readAll(t, resp))
	contentType, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	tr := transcript{Name: r.name, Status: resp.StatusCode, ContentType: contentType}
	if contentType != "text/event-stream" {
		tr.Events = []any{normal(raw)}
		return tr
	}
	for event := range bytes.SplitSeq(bytes.TrimSpace(raw), []byte("\n\n")) {
		tr.Events = append(tr.Events, normal(bytes.TrimPrefix(event, []byte("data: "))))
	}
	return tr
}

// normal decodes JSON and makes equal what no two runs share; other bytes stay
// text.
func normal(raw []byte) any {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	return normalValue("", v)
}

func normalValue(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, member := range v {
			v[k] = normalValue(k, member)
		}
	case []any:
		for i, member := range v {
			v[i] = normalValue(key, member)
		}
	case string:
		return normalID(key, v)
	case float64:
		if key == "created" || key == "arrival_time" {
			return 0.0
		}
	}
	return v
}

// normalID cuts the random part off an ID, 16 or more hexadecimal digits or a
// UUID, and the hash of all settings off a fingerprint.
func normalID(key, v string) string {
	switch key {
	case "id", "request_id":
		return randomDigits.ReplaceAllString(v, "*")
	case "system_fingerprint":
		return configHash.ReplaceAllString(v, "*")
	}
	return v
}

var (
	randomDigits = regexp.MustCompile(`[0-9a-f]{16,}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	configHash   = regexp.MustCompile(`[0-9a-f]{8}$`)
)

// difference is a place where two answers disagree.
type difference struct {
	path      string // status, content_type, or members and indices joined by dots
	want, got string
}

func (d difference) String() string {
	return fmt.Sprintf("%s is %s, vLLM has %s", d.path, d.got, d.want)
}

func compare(want, got transcript) []difference {
	var ds []difference
	add := func(path string, w, g any) { ds = append(ds, difference{path, show(w), show(g)}) }
	if want.Status != got.Status {
		add("status", want.Status, got.Status)
	}
	if want.ContentType != got.ContentType {
		add("content_type", want.ContentType, got.ContentType)
	}
	compareValues("", fold(want.Events), fold(got.Events), add)
	return ds
}

// fold joins the chunks of a stream: how many tokens one carries depends on how
// fast the client reads. Of each choice one chunk is left, in the order of
// their indices, in which texts and lists are joined and everything else has
// its last value that is not null.
func fold(events []any) []any {
	var folded []any
	chunks := make(map[float64]map[string]any)
	for _, e := range events {
		index, ok := memberAt(e, "choices", "index").(float64)
		if !ok {
			folded = append(folded, e)
			continue
		}
		if chunk, ok := chunks[index]; ok {
			join(chunk, e.(map[string]any))
			continue
		}
		chunks[index] = e.(map[string]any)
		folded = append(folded, e)
	}
	slices.SortStableFunc(folded, func(a, b any) int {
		i, isChunk := memberAt(a, "choices", "index").(float64)
		j, isToo := memberAt(b, "choices", "index").(float64)
		if !isChunk || !isToo {
			return 0
		}
		return cmp.Compare(i, j)
	})
	return folded
}

// memberAt follows names; of a list it takes the only element.
func memberAt(v any, names ...string) any {
	for _, name := range names {
		m, _ := v.(map[string]any)
		v = m[name]
		if list, ok := v.([]any); ok && len(list) == 1 {
			v = list[0]
		}
	}
	return v
}

// joined are the members whose values a stream gives piece by piece.
var joined = map[string]bool{"text": true, "content": true, "tokens": true, "token_logprobs": true,
	"top_logprobs": true, "text_offset": true, "token_ids": true}

func join(into, from map[string]any) {
	for k, v := range from {
		switch have := into[k].(type) {
		case map[string]any:
			if v, ok := v.(map[string]any); ok {
				join(have, v)
				continue
			}
		case []any:
			v, ok := v.([]any)
			switch {
			case ok && k == "choices":
				join(have[0].(map[string]any), v[0].(map[string]any))
				continue
			case ok && joined[k]:
				into[k] = append(have, v...)
				continue
			}
		case string:
			if v, ok := v.(string); ok && joined[k] {
				into[k] = have + v
				continue
			}
		}
		if v != nil || into[k] == nil {
			into[k] = v
		}
	}
}

// absent stands for a member that is not there.
type absent struct{}

func compareValues(at string, want, got any, add func(path string, w, g any)) {
	join := func(k string) string { return strings.TrimPrefix(at+"."+k, ".") }
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			add(at, want, got)
			return
		}
		keys := slices.Sorted(maps.Keys(w))
		for k := range g {
			if _, ok := w[k]; !ok {
				keys = append(keys, k)
			}
		}
		for _, k := range keys {
			compareValues(join(k), member(w, k), member(g, k), add)
		}
	case []any:
		g, ok := got.([]any)
		if !ok || len(w) != len(g) {
			add(at, want, got)
			return
		}
		for i := range w {
			compareValues(join(strconv.Itoa(i)), w[i], g[i], add)
		}
	case float64:
		if g, ok := got.(float64); !ok || math.Abs(w-g) > 1e-3*max(1, math.Abs(w)) {
			add(at, want, got)
		}
	default:
		if want != got {
			add(at, want, got)
		}
	}
}

func member(m map[string]any, k string) any {
	if v, ok := m[k]; ok {
		return v
	}
	return absent{}
}

func show(v any) string {
	if v == (absent{}) {
		return "absent"
	}
	raw, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err.Error()
	}
	if len(raw) > 300 {
		raw = append(raw[:300], "…"...)
	}
	return string(raw)
}

// parityDifference is a place where we answer otherwise on purpose.
type parityDifference struct {
	rows string // names of requests, a pattern of path.Match
	path string // a pattern too, in which * stands for one member or index
	why  string
}

func knownDifference(name string, d difference) *parityDifference {
	for i := range parityDifferences {
		known := &parityDifferences[i]
		if matches(known.rows, name) && matches(strings.ReplaceAll(known.path, ".", "/"), strings.ReplaceAll(d.path, ".", "/")) {
			return known
		}
	}
	return nil
}

func matches(pattern, s string) bool {
	ok, err := path.Match(pattern, s)
	if err != nil {
		panic(err) // a pattern of ours
	}
	return ok
}
