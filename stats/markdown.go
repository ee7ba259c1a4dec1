package stats

import (
	"fmt"
	"strings"
)

// MarkdownTable writes the catalog as documentation, METRICS.md.
func MarkdownTable() string {
	var b strings.Builder
	b.WriteString("# Metrics\n\n" +
		"Made from catalog.go by `go test ./stats -update`. Every series has the labels\n" +
		"`model_name` and, but for the frontend's own, `engine`; below are the others.\n\n" +
		"| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for id := range NumMetrics {
		m := id.Metric()
		help := m.Help
		if m.When != "" {
			help += " Exported " + m.When + "."
		}
		if m.Gate != GateNone {
			help += " Exported with `" + gateNames[m.Gate] + "`."
		}
		if d := m.Deprecated; d != nil {
			help += fmt.Sprintf(" Hidden since %s; exported with `--show-hidden-metrics-for-version` of a release before it.", d.Hidden)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Kind, strings.Join(m.Labels, ", "), help)
	}
	b.WriteString("\n## Buckets\n\n`--custom-histogram-buckets` of vllm-frontend replaces the bounds of a family: a list, or\n" +
		"`fine` for the ones in italics and the defaults.\n\n| family | metrics | upper bounds |\n|---|---|---|\n")
	for f := FamilyTTFT; f < numFamilies; f++ {
		bounds := strings.Trim(fmt.Sprint(families[f].bounds), "[]")
		if f == FamilyLength {
			bounds = "1, 2, 5 times powers of ten, up to max_model_len"
		}
		if fine := families[f].fine; fine != nil {
			bounds = "*" + strings.Trim(fmt.Sprint(fine), "[]") + "* " + bounds
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", families[f].name, strings.Join(namesOf(f), " "), bounds)
	}
	return b.String()
}

func namesOf(family BucketFamily) (names []string) {
	for id := range NumMetrics {
		if m := id.Metric(); m.Family == family {
			names = append(names, "`"+m.Name+"`")
		}
	}
	return names
}
