// Package cli reads command lines and configuration files the way vLLM's
// argument parser does, which no flag library does:
//
//	--max_num_seqs 8, --max-num-seqs=8   the same flag
//	--no-enable-prefix-caching           a switch turned off
//	--served-model-name a b c            one flag, several values
//	-tp 2                                a long short form
//	--max-model-len 32k                  sizes: k = 1000, K = 1024
//	--override-generation-config.top_k 5 one key of a JSON flag
//	--max-num-s 8                        any unique prefix
//	--config FILE.yaml                   read first, so the command line wins
//
// Nothing is ignored: an unknown flag is refused with the nearest name, and a
// flag of vLLM that is not served is refused with its reason and the way out.
// Since this pass leaves only (flag, value) pairs, there is no flag library
// behind it.
package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Flag is one option of a command.
type Flag struct {
	Name    string   // long name with hyphens, without dashes
	Aliases []string // other long names
	Short   string   // such as "-tp"; "" for none
	Group   string   // heading in the help text
	Help    string   // one line; the default is appended
	Env     string   // environment variable that stands in for the flag
	Value   Value    // nil: the flag is known, and refused with Refusal
	Refusal string   // why, and the way out
	// Other names the command whose flag this is, if not this one's. Such a
	// flag is refused on the command line and skipped in a configuration
	// file, so that one file can serve both processes.
	Other string
}

// ErrHelp is returned by Parse when the user asked for the help text.
var ErrHelp = errors.New("help requested")

// Set is a command's options.
type Set struct {
	Command string // as typed, for messages
	Summary string // first lines of the help text
	Flags   []Flag
	// Positional names the flag that a single bare argument sets; "" for none.
	Positional string

	byName map[string]*Flag
	given  map[string]string // flag name → where it was given
}

// Parse applies environment, configuration file and arguments, in this order,
// each overriding the one before. It reports every fault at once.
func (s *Set) Parse(args []string) error {
	s.index()
	settings, configPath, errs := s.scan(args)
	if errors.Is(errors.Join(errs...), ErrHelp) {
		return ErrHelp
	}
	errs = append(errs, s.applyEnv()...)
	if configPath != "" {
		errs = append(errs, s.applyConfig(configPath)...)
	}
	for _, st := range settings {
		if err := s.apply(st, "the command line"); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Given tells where a flag was set: "" if nowhere, else a phrase for messages.
func (s *Set) Given(name string) string { return s.given[name] }

// Values are the command's own flags with their values as text; secrets and
// flags that have none are left out.
func (s *Set) Values() map[string]string {
	values := map[string]string{}
	for _, f := range s.Flags {
		if f.Value != nil && f.Other == "" && f.Value.text() != "" {
			values[f.Name] = f.Value.text()
		}
	}
	return values
}

// setting is one flag with its values as text, in the order given.
type setting struct {
	flag   *Flag
	key    string // of a JSON flag given as --flag.key
	values []string
}

func (s *Set) index() {
	s.byName = make(map[string]*Flag)
	s.given = make(map[string]string)
	for i := range s.Flags {
		f := &s.Flags[i]
		for _, name := range append([]string{f.Name}, f.Aliases...) {
			if s.byName[name] != nil {
				panic("cli: flag --" + name + " declared twice")
			}
			s.byName[name] = f
		}
	}
}

// scan turns arguments into settings; --config and --help are its own.
func (s *Set) scan(args []string) (settings []setting, config string, errs []error) {
	positionals := 0
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "-h" || arg == "--help" {
			return nil, "", []error{ErrHelp}
		}
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			positionals++
			if s.Positional == "" || positionals > 1 {
				errs = append(errs, fmt.Errorf("unexpected argument %q", arg))
				continue
			}
			settings = append(settings, setting{flag: s.byName[s.Positional], values: []string{arg}})
			continue
		}
		f, key, inline, hasInline, negated, err := s.lookup(arg)
		if err != nil {
			errs = append(errs, err)
			i += skipValues(args[i+1:])
			continue
		}
		st := setting{flag: f, key: key}
		switch {
		case negated:
			st.values = []string{"false"}
		case hasInline:
			st.values = []string{inline}
		case f.Value == nil:
			i += skipValues(args[i+1:])
		case f.Value.arity() == none:
			st.values = []string{"true"}
		default:
			n := countValues(args[i+1:], f.Value.arity())
			st.values = args[i+1 : i+1+n]
			i += n
		}
		if f.Name == "config" {
			if len(st.values) != 1 {
				errs = append(errs, errors.New("--config: expects a file"))
				continue
			}
			config = st.values[0]
			continue
		}
		settings = addSetting(settings, st)
	}
	return settings, config, errs
}

// addSetting joins the values of a flag whose uses add up.
func addSetting(settings []setting, st setting) []setting {
	if _, addsUp := st.flag.Value.(*secretsValue); addsUp {
		for i := range settings {
			if settings[i].flag == st.flag {
				settings[i].values = slices.Concat(settings[i].values, st.values)
				return settings
			}
		}
	}
	return append(settings, st)
}

// countValues says how many of the next arguments belong to a flag.
func countValues(rest []string, a arity) int {
	n := 0
	for n < len(rest) && (a == many || n == 0) && !looksLikeFlag(rest[n]) {
		n++
	}
	return n
}

// skipValues steps over what probably belonged to a refused flag, so that one
// fault does not make a second.
func skipValues(rest []string) int { return countValues(rest, many) }

func looksLikeFlag(arg string) bool {
	if len(arg) < 2 || arg[0] != '-' {
		return false
	}
	return arg[1] == '-' || (arg[1] != '.' && (arg[1] < '0' || arg[1] > '9'))
}

// lookup finds the flag that an argument names.
func (s *Set) lookup(arg string) (f *Flag, key, inline string, hasInline, negated bool, err error) {
	name, inline, hasInline := strings.Cut(arg, "=")
	if !strings.HasPrefix(name, "--") {
		for i := range s.Flags {
			if s.Flags[i].Short == name {
				return &s.Flags[i], "", inline, hasInline, false, nil
			}
		}
		return nil, "", "", false, false, fmt.Errorf("unknown flag %s; see %s --help", name, s.Command)
	}
	name, key, _ = strings.Cut(strings.TrimPrefix(name, "--"), ".")
	name = strings.ReplaceAll(name, "_", "-")
	if f = s.byName[name]; f == nil {
		if g := s.byName[strings.TrimPrefix(name, "no-")]; g != nil && g.isSwitch() && !hasInline {
			return g, "", "", false, true, nil
		}
		if f, err = s.byPrefix(name); err != nil {
			return nil, "", "", false, false, err
		}
	}
	if _, isJSON := f.Value.(*jsonValue); key != "" && !isJSON && f.Value != nil {
		return nil, "", "", false, false, fmt.Errorf("--%s.%s: --%s has no keys", f.Name, key, f.Name)
	}
	return f, key, inline, hasInline, false, nil
}

func (f *Flag) isSwitch() bool { return f.Value == nil || f.Value.arity() == none }

func (s *Set) byPrefix(name string) (*Flag, error) {
	var names []string
	seen := map[*Flag]bool{}
	for n, f := range s.byName {
		if strings.HasPrefix(n, name) {
			names = append(names, "--"+n)
			seen[f] = true
		}
	}
	sort.Strings(names)
	if len(seen) == 1 {
		for f := range seen {
			return f, nil
		}
	}
	if len(seen) > 1 {
		return nil, fmt.Errorf("--%s is short for several flags: %s", name, strings.Join(names, ", "))
	}
	return nil, s.unknown(name)
}

func (s *Set) unknown(name string) error {
	if near := s.nearest(name); near != "" {
		return fmt.Errorf("unknown flag --%s; did you mean --%s?", name, near)
	}
	return fmt.Errorf("unknown flag --%s; see %s --help", name, s.Command)
}

// nearest returns the flag name at the smallest edit distance, if it is small.
func (s *Set) nearest(name string) string {
	best, at := "", 3+len(name)/6
	for n := range s.byName {
		if d := editDistance(name, n); d < at || (d == at && best != "" && n < best) {
			best, at = n, d
		}
	}
	return best
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

func (s *Set) apply(st setting, where string) error {
	f := st.flag
	if f.Other != "" {
		return fmt.Errorf("--%s is a flag of %s: give it there", f.Name, f.Other)
	}
	if f.Value == nil {
		return fmt.Errorf("--%s is not supported: %s", f.Name, f.Refusal)
	}
	if f.Value.arity() != none && len(st.values) == 0 {
		return fmt.Errorf("--%s: expects a value", f.Name)
	}
	if err := f.Value.set(st.key, st.values); err != nil {
		return fmt.Errorf("--%s: %w", f.Name, err)
	}
	s.given[f.Name] = where
	return nil
}

func (s *Set) applyEnv() (errs []error) {
	for i := range s.Flags {
		f := &s.Flags[i]
		if f.Env == "" || f.Value == nil {
			continue
		}
		if v := os.Getenv(f.Env); v != "" {
			if err := f.Value.set("", []string{v}); err != nil {
				errs = append(errs, fmt.Errorf("environment variable %s: %w", f.Env, err))
				continue
			}
			s.given[f.Name] = "the environment variable " + f.Env
		}
	}
	return errs
}

// applyConfig reads a YAML mapping from flag names to values.
func (s *Set) applyConfig(path string) (errs []error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return []error{fmt.Errorf("--config: %w", err)}
	}
	var root yaml.Node
	if err := yaml.Unmarshal(raw, &root); err != nil {
		return []error{fmt.Errorf("--config %s: %w", path, err)}
	}
	if len(root.Content) == 0 {
		return nil // an empty file
	}
	m := root.Content[0]
	if m.Kind != yaml.MappingNode {
		return []error{fmt.Errorf("--config %s: expects flag names and values, one a line (port: 8000)", path)}
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if err := s.applyYAML(m.Content[i], m.Content[i+1], path); err != nil {
			errs = append(errs, fmt.Errorf("--config %s, line %d: %w", path, m.Content[i].Line, err))
		}
	}
	return errs
}

func (s *Set) applyYAML(key, value *yaml.Node, path string) error {
	name := strings.ReplaceAll(key.Value, "_", "-")
	f := s.byName[name]
	if f == nil {
		return s.unknown(name)
	}
	if f.Other != "" || f.Name == "config" {
		return nil
	}
	values, err := yamlValues(value)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return s.apply(setting{flag: f, values: values}, "the file "+path)
}

func yamlValues(n *yaml.Node) ([]string, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		return []string{n.Value}, nil
	case yaml.SequenceNode:
		var out []string
		for _, c := range n.Content {
			if c.Kind != yaml.ScalarNode {
				return nil, errors.New("expects a list of plain values")
			}
			out = append(out, c.Value)
		}
		return out, nil
	case yaml.MappingNode:
		text, err := yamlToJSON(n)
		return []string{text}, err
	}
	return nil, errors.New("expects a value, a list or a mapping")
}
