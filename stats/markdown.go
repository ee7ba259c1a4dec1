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
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Kind, strings.Join(m.Labels, ", "), help)
	}
	b.WriteString("\n## Buckets\n\n| metrics | upper bounds |\n|---|---|\n")
	for family := FamilyTTFT; int(family) < len(families); family++ {
		bounds := strings.Trim(fmt.Sprint(families[family]), "[]")
		if family == FamilyLength {
			bounds = "1, 2, 5 times powers of ten, up to max_model_len"
		}
		fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(namesOf(family), " "), bounds)
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
