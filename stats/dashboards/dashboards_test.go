package dashboards

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"govllm/stats"
)

var update = flag.Bool("update", false, "write the dashboards' JSON files")

func TestFilesAreMadeFromPanels(t *testing.T) {
	for _, d := range All() {
		want, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(d.File, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(d.File)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is not what the panels say; go test ./stats/dashboards -update makes it (-want +got):\n%s", d.File, diff)
		}
	}
}

// Panels must not lie over one another.
func TestLayout(t *testing.T) {
	for _, d := range All() {
		raw, _ := d.JSON()
		var got struct {
			Panels []struct {
				Title   string
				GridPos struct{ X, Y, W, H int }
			}
		}
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		taken := map[string]string{}
		for _, p := range got.Panels {
			g := p.GridPos
			if g.X+g.W > 24 || g.W == 0 || g.H == 0 {
				t.Errorf("%s: %q is at %+v, outside of 24 columns", d.File, p.Title, g)
			}
			for x := g.X; x < g.X+g.W; x++ {
				for y := g.Y; y < g.Y+g.H; y++ {
					cell := fmt.Sprint(x, ",", y)
					if taken[cell] != "" {
						t.Fatalf("%s: %q and %q both cover %s", d.File, taken[cell], p.Title, cell)
					}
					taken[cell] = p.Title
				}
			}
		}
	}
}

func TestExpand(t *testing.T) {
	got := Expand(`rate(x{model_name="$model_name",engine=~"$engine"}[$__rate_interval])`, "m", ".*", "15s")
	if want := `rate(x{model_name="m",engine=~".*"}[15s])`; got != want {
		t.Errorf("Expand() = %s, want %s", got, want)
	}
}

// sampleNames are the names of all samples that the catalog can give.
func sampleNames() map[string]bool {
	names := map[string]bool{}
	for _, m := range stats.Catalog() {
		names[m.Name] = m.Kind != stats.Histogram
		if m.Kind == stats.Histogram {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				names[m.Name+suffix] = true
			}
		}
	}
	return names
}

var metricName = regexp.MustCompile(`(?:^|[^_a-zA-Z:])(vllm:[a-z0-9_]+)`)

// expressions gathers every expression of a YAML tree: values of the members
// expr and query, and those of prometheus-adapter's.
func expressions(n *yaml.Node, add func(string)) {
	for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
		switch key, value := n.Content[i].Value, n.Content[i+1]; key {
		case "expr", "query":
			add(value.Value)
		case "config.yaml":
			var inner yaml.Node
			if yaml.Unmarshal([]byte(value.Value), &inner) == nil {
				expressions(&inner, add)
			}
		case "seriesQuery", "metricsQuery":
			add(value.Value)
		}
	}
	for _, c := range n.Content {
		expressions(c, add)
	}
}

// No expression asks for a metric that does not exist.
func TestExpressionsNameKnownMetrics(t *testing.T) {
	known := sampleNames()
	seen := map[string][]string{} // file → expressions
	for _, d := range All() {
		for _, r := range d.Rows {
			for _, p := range r.Panels {
				for _, q := range p.Queries {
					seen[d.File] = append(seen[d.File], q.Expr)
				}
			}
		}
	}
	for _, pattern := range []string{"rules/recording.yaml", "rules/alerts.yaml", "rules/compat.yaml", "autoscaling/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files, %v", pattern, err)
		}
		for _, file := range files {
			for _, doc := range documents(t, file) {
				expressions(doc, func(e string) { seen[file] = append(seen[file], e) })
			}
		}
	}
	for file, exprs := range seen {
		if len(exprs) == 0 {
			t.Errorf("%s: no expression found", file)
		}
		for _, e := range exprs {
			for _, m := range metricName.FindAllStringSubmatch(e, -1) {
				if !known[m[1]] {
					t.Errorf("%s: %s is no sample of the catalog, in: %s", file, m[1], strings.TrimSpace(e))
				}
			}
		}
	}
}

// Every alert says what it saw and has a test in rules/tests.yaml.
func TestAlertsAreComplete(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Labels      map[string]string
				Annotations map[string]string
			}
		}
	}
	read := func(file string, v any) {
		raw, err := os.ReadFile(file)
		if err == nil {
			err = yaml.Unmarshal(raw, v)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	read("rules/alerts.yaml", &rules)
	var tests struct {
		Tests []struct {
			Alerts []struct {
				Name string `yaml:"alertname"`
				Want []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	read("rules/tests.yaml", &tests)
	var fired []string
	for _, test := range tests.Tests {
		for _, a := range test.Alerts {
			if len(a.Want) > 0 {
				fired = append(fired, a.Name)
			}
		}
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("alert %s lacks severity, summary or description", r.Alert)
			}
			if !slices.Contains(fired, r.Alert) {
				t.Errorf("alert %s never fires in rules/tests.yaml", r.Alert)
			}
		}
	}
}

func documents(t *testing.T, file string) (docs []*yaml.Node) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for dec := yaml.NewDecoder(f); ; {
		n := new(yaml.Node)
		if err := dec.Decode(n); err == io.EOF {
			return docs
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		docs = append(docs, n)
	}
}
