package jinja

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The corpus: 75 public chat templates in 17 conversations each, end-to-end,
// unit and feature cases, with what Python's jinja2 gives for every one. It
// belongs to its authors and is not part of the repository; GOVLLM_DATA says
// where it is.

// knownDifferences lists the cases, by index and id, where we are not identical
// to the reference. A listed case that agrees fails the test, as does any other
// that does not.
var knownDifferences = map[string]string{}

// corpusNow is the clock of the reference.
func corpusNow() time.Time { return time.Date(2025, 6, 7, 8, 9, 10, 0, time.UTC) }

type corpusCase struct {
	id, template string
	data         *Dict
	ok           bool
	out, err     string
}

func loadCorpus(tb testing.TB) []corpusCase {
	tb.Helper()
	dir := os.Getenv("GOVLLM_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "data")
	} else if !filepath.IsAbs(dir) {
		dir = filepath.Join("..", "..", "..", dir)
	}
	dir = filepath.Join(dir, "chat-templates")
	if _, err := os.Stat(dir); err != nil {
		tb.Skipf("no chat-template corpus at %s: set GOVLLM_DATA to the folder that holds chat-templates/", dir)
	}
	cases := readJSON(tb, filepath.Join(dir, "cases.json.gz"))
	refs := readJSON(tb, filepath.Join(dir, "refout.json.gz"))
	if cases.Len() != refs.Len() {
		tb.Fatalf("corpus: %d cases but %d reference outputs", cases.Len(), refs.Len())
	}
	out := make([]corpusCase, cases.Len())
	for i := range out {
		c, r := cases.At(i).(*Dict), refs.At(i).(*Dict)
		data, _ := c.Get("data")
		out[i] = corpusCase{
			id: itoa(i) + " " + field(c, "id"), template: field(c, "template"), data: data.(*Dict),
			out: field(r, "out"), err: field(r, "err"),
		}
		ok, _ := r.Get("ok")
		out[i].ok = truth(ok)
	}
	return out
}

func readJSON(tb testing.TB, path string) *List {
	tb.Helper()
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		tb.Fatal(err)
	}
	v, err := FromJSON(data)
	if err != nil {
		tb.Fatalf("FromJSON(%s) = %v", path, err)
	}
	return v.(*List)
}

func field(d *Dict, name string) string {
	v, _ := d.Get(name)
	s, _ := asStr(orNone(v))
	return s
}

func render(source string, data *Dict) (string, error) {
	t, err := Parse(source)
	if err != nil {
		return "", err
	}
	return t.Render(data, Options{Now: corpusNow})
}

// addresses are what Python prints of objects that have no text.
var addresses = regexp.MustCompile(`0x[0-9a-f]+`)

func TestCorpus(t *testing.T) {
	var same, raised, refused, sameWords int
	for _, c := range loadCorpus(t) {
		got, err := render(c.template, c.data)
		agree := (err == nil) == c.ok && addresses.ReplaceAllString(got, "") == addresses.ReplaceAllString(c.out, "")
		why, known := knownDifferences[c.id]
		switch {
		case known && agree:
			t.Errorf("%s: listed as a known difference (%s) but agrees", c.id, why)
		case !known && !agree && c.ok:
			t.Errorf("%s: Render = %s, %v\nwant %s", c.id, clip(got, c.out), err, clip(c.out, got))
		case !known && !agree:
			t.Errorf("%s: Render = %q, want error %s", c.id, clip(got, ""), c.err)
		}
		switch kind, words, _ := strings.Cut(c.err, ": "); {
		case !agree:
		case c.ok:
			same++
		case kind == "TemplateError" || kind == "SecurityError":
			raised++
		default:
			refused++
			if strings.HasPrefix(err.(*Error).Msg, words) {
				sameWords++
			} else {
				t.Logf("%s: error in other words: %v, Python: %s", c.id, err, c.err)
			}
		}
	}
	t.Logf("identical %d, raised %d, refused %d (%d in Python's words)", same, raised, refused, sameWords)
}

// clip shows the part of s around its first difference from other.
func clip(s, other string) string {
	i := 0
	for i < min(len(s), len(other)) && s[i] == other[i] {
		i++
	}
	from, to := max(0, i-60), min(len(s), i+60)
	return quote("…" + s[from:to] + "…")
}
