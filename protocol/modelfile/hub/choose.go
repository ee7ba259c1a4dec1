package hub

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"govllm/protocol/modelfile"
)

// Part says how much of a repository is wanted.
type Part int

const (
	Tokenizer   Part = iota // tokenizer and chat template
	Description             // and config.json, generation_config.json: all but weights
	Everything              // and weights
)

// file is one file of a repository at one commit.
type file struct {
	path string // from the repository's root, with slashes
	size int64  // bytes
	hash string // SHA-256, or git's SHA-1 of small files, in hex; "": not known yet
}

// listing is what a repository holds at one commit.
type listing struct {
	commit string
	files  map[string]file // by path
}

const (
	configFile = "config.json"
	indexFile  = "model.safetensors.index.json"
	singleFile = "model.safetensors"
)

var besideTokenizer = []string{"tokenizer_config.json", "chat_template.jinja"}

// choose returns the paths of the files that a model is served from. index is
// the content of model.safetensors.index.json, if there is one.
func (l *listing) choose(part Part, gguf string, index []byte) ([]string, error) {
	if gguf != "" {
		first, err := l.chooseGGUF(gguf)
		if err != nil {
			return nil, err
		}
		return l.shardsOf(first)
	}
	paths := l.present(besideTokenizer)
	if tokenizers := l.present(modelfile.TokenizerFiles()); len(tokenizers) > 0 {
		paths = append(paths, tokenizers[0])
	}
	if part == Tokenizer {
		if len(paths) == 0 {
			return nil, fmt.Errorf("tokenizer %w; %s", ErrNotFound, l.holds())
		}
		return paths, nil
	}
	if !l.has(configFile) {
		return nil, fmt.Errorf("%s %w; %s", configFile, ErrNotFound, l.holds())
	}
	paths = append(paths, l.present([]string{configFile, "generation_config.json"})...)
	if part == Description {
		return paths, nil
	}
	weights, err := l.chooseWeights(index)
	return append(paths, weights...), err
}

// chooseWeights takes what modelfile.OpenWeights reads: the index and its
// shards, else the one file.
func (l *listing) chooseWeights(index []byte) ([]string, error) {
	switch {
	case l.has(indexFile):
		shards, err := modelfile.Shards(index)
		if err != nil {
			return nil, err
		}
		for _, shard := range shards {
			if !l.has(shard) {
				return nil, fmt.Errorf("%s, a shard that %s names: %w", shard, indexFile, ErrNotFound)
			}
		}
		return append([]string{indexFile}, shards...), nil
	case l.has(singleFile):
		return []string{singleFile}, nil
	}
	return nil, fmt.Errorf("weights in safetensors %w; %s", ErrNotFound, l.holds())
}

var (
	shardSuffix = regexp.MustCompile(`-(\d{5})-of-(\d{5})$`)
	quantSuffix = regexp.MustCompile(`(?i)(UD-)?(I?Q\d\w*|BF16|F16|F32|MXFP4\w*)$`)
)

// chooseGGUF finds the GGUF file of a name or of a quantization, which stands
// at the end of the file's name: model-Q4_K_M.gguf, model.Q4_K_M.gguf,
// model-Q4_K_M-00001-of-00003.gguf. Files that are not split come first.
func (l *listing) chooseGGUF(want string) (string, error) {
	if isGGUF(want) {
		if !l.has(want) {
			return "", fmt.Errorf("file %s %w; %s", want, ErrNotFound, l.holds())
		}
		return want, nil
	}
	var found []string
	for _, p := range l.ggufs() {
		if endsInWord(shardSuffix.ReplaceAllString(stemOf(p), ""), want) {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return "", fmt.Errorf("GGUF file of quantization %s %w; %s", want, ErrNotFound, l.holds())
	}
	return slices.MinFunc(found, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }), nil
}

// shardsOf returns a GGUF file with the others that it is split into.
func (l *listing) shardsOf(first string) ([]string, error) {
	stem := first[:len(first)-len(".gguf")]
	m := shardSuffix.FindStringSubmatch(stem)
	if m == nil {
		return []string{first}, nil
	}
	if m[1] != "00001" {
		return nil, fmt.Errorf("%s: %w: name the first of its files, -00001-of-%s.gguf", first, ErrInvalid, m[2])
	}
	count, _ := strconv.Atoi(m[2]) // five digits
	var shards []string
	for i := range count {
		shard := fmt.Sprintf("%s-%05d-of-%s.gguf", strings.TrimSuffix(stem, m[0]), i+1, m[2])
		if !l.has(shard) {
			return nil, fmt.Errorf("%s, one of %d files that belong together, is %w", shard, count, ErrNotFound)
		}
		shards = append(shards, shard)
	}
	return shards, nil
}

// ggufs are the language models among the GGUF files, sorted.
func (l *listing) ggufs() []string {
	var paths []string
	for _, p := range slices.Sorted(maps.Keys(l.files)) {
		if isGGUF(p) && !strings.HasPrefix(strings.ToLower(path.Base(p)), "mmproj") {
			paths = append(paths, p)
		}
	}
	return paths
}

func stemOf(p string) string { return strings.ToLower(path.Base(p)[:len(path.Base(p))-len(".gguf")]) }

func endsInWord(stem, want string) bool {
	before, ok := strings.CutSuffix(stem, strings.ToLower(want))
	return ok && (before == "" || strings.ContainsRune("-._", rune(before[len(before)-1])))
}

// holds says what there is instead: the way out for who chose wrongly.
func (l *listing) holds() string {
	if ggufs := l.ggufs(); len(ggufs) > 0 {
		var quants []string
		for _, p := range ggufs {
			name := cmp.Or(strings.ToUpper(quantSuffix.FindString(shardSuffix.ReplaceAllString(stemOf(p), ""))), p)
			if !slices.Contains(quants, name) {
				quants = append(quants, name)
			}
		}
		return "it holds GGUF files; choose one by a colon and a word at the name's end: " + someOf(quants)
	}
	return "it holds " + someOf(slices.Sorted(maps.Keys(l.files)))
}

func someOf(names []string) string {
	const most = 12
	if len(names) == 0 {
		return "nothing"
	}
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

func (l *listing) has(path string) bool {
	_, ok := l.files[path]
	return ok
}

func (l *listing) present(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return !l.has(p) })
}
