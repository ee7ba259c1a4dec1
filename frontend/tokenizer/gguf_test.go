package tokenizer

import (
	"strings"
	"testing"
)

// TestGGUFPreTokenizers: every name has patterns that are served, and cuts a
// text without losing any of it.
func TestGGUFPreTokenizers(t *testing.T) {
	seen := map[string]bool{}
	for names := range ggufPres {
		for _, name := range strings.Fields(names) {
			if seen[name] {
				t.Errorf("%s stands twice in the table", name)
			}
			seen[name] = true
			pre, err := ggufPreOf(name)
			if err != nil {
				t.Fatal(err)
			}
			stages, err := pre.stages()
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for _, text := range corpus(t)[:58] {
				var got strings.Builder
				if err := split(stages, text, true, func(piece string, _ bool) error { got.WriteString(piece); return nil }); err != nil || got.String() != text {
					t.Errorf("%s: the pieces of %q say %q, %v", name, text, got.String(), err)
				}
			}
		}
	}
}
