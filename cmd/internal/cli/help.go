package cli

import (
	"fmt"
	"io"
	"strings"
)

// helpColumn is where the descriptions start.
const helpColumn = 34

// Help writes the help text: the flags this command serves, by group. Flags
// that are known only to be refused are left out.
func (s *Set) Help(w io.Writer) {
	fmt.Fprintf(w, "%s\n", strings.TrimSpace(s.Summary))
	var groups []string
	seen := map[string]bool{}
	for _, f := range s.Flags {
		if !seen[f.Group] && f.Value != nil && f.Other == "" {
			seen[f.Group] = true
			groups = append(groups, f.Group)
		}
	}
	for _, g := range groups {
		fmt.Fprintf(w, "\n%s:\n", g)
		for i := range s.Flags {
			if f := &s.Flags[i]; f.Group == g && f.Value != nil && f.Other == "" {
				writeFlag(w, f)
			}
		}
	}
	fmt.Fprintf(w, "\nOther flags of vLLM are refused by name.\n")
}

func writeFlag(w io.Writer, f *Flag) {
	left := "  --" + f.Name
	if f.Value.text() == "true" {
		left = "  --[no-]" + f.Name
	}
	if f.Short != "" {
		left = "  " + f.Short + ", --" + f.Name
	}
	if h := f.Value.hint(); h != "" {
		left += " " + h
	}
	text := f.Help
	if d := f.Value.text(); d != "" && d != "false" {
		text += " (default " + d + ")"
	}
	if f.Env != "" {
		text += " [" + f.Env + "]"
	}
	for _, a := range f.Aliases {
		text += " (also --" + a + ")"
	}
	if len(left) >= helpColumn-1 {
		fmt.Fprintln(w, left)
		left = ""
	}
	for i, line := range wrap(text, 100-helpColumn) {
		if i > 0 {
			left = ""
		}
		fmt.Fprintf(w, "%-*s%s\n", helpColumn, left, line)
	}
}

func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
