package modelfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// isGGUF says whether a name is that of a GGUF file.
func isGGUF(name string) bool { return strings.HasSuffix(strings.ToLower(name), ".gguf") }

// ggufShard is the name of one of several files: base-00001-of-00003.gguf.
var ggufShard = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// findGGUF returns the GGUF file that a model's name means: itself, or the only
// one in a directory that has no config.json. "" if it means none.
func findGGUF(name string) (string, error) {
	info, err := os.Stat(name)
	switch {
	case err == nil && !info.IsDir() && isGGUF(name):
		return name, nil
	case err != nil && isGGUF(name):
		if errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%s: %w: there is no such file; %s", name, ErrNotFound, wayOut)
		}
		return "", fmt.Errorf("%s: %w", name, err)
	case err != nil || !info.IsDir():
		return "", nil
	}
	if _, err := os.Stat(filepath.Join(name, "config.json")); err == nil {
		return "", nil
	}
	found, err := filepath.Glob(filepath.Join(name, "*.gguf"))
	found = slices.DeleteFunc(found, func(path string) bool {
		shard := ggufShard.FindStringSubmatch(filepath.Base(path))
		return shard != nil && shard[2] != "00001"
	})
	if err != nil || len(found) == 0 {
		return "", err
	}
	if len(found) > 1 {
		return "", fmt.Errorf("%s: %w: %d GGUF models are there and no config.json; give one of them, as %s", name, ErrInvalid, len(found), found[0])
	}
	return found[0], nil
}

// openGGUF maps a GGUF file, and the other shards of a split one.
func openGGUF(path string) (*ggufFile, []mapping, error) {
	paths, err := ggufPaths(path)
	if err != nil {
		return nil, nil, err
	}
	var first *ggufFile
	var files []mapping
	for i, path := range paths {
		g, err := addGGUF(&files, path)
		if err == nil && len(paths) > 1 {
			err = g.checkShard(i, len(paths))
		}
		if err == nil && i > 0 {
			err = first.join(g)
		}
		if err != nil {
			return nil, nil, errors.Join(err, unmap(files))
		}
		if i == 0 {
			first = g
		}
	}
	if len(paths) == 1 && first.sizeOr("split.count", 1) > 1 {
		err := fmt.Errorf("%s: %w: it is one of %d shards, which must be called …-00001-of-%05d.gguf and so on",
			first.file, ErrInvalid, first.sizeOr("split.count", 1), first.sizeOr("split.count", 1))
		return nil, nil, errors.Join(err, unmap(files))
	}
	return first, files, nil
}

// ggufPaths names all shards, given the first.
func ggufPaths(path string) ([]string, error) {
	shard := ggufShard.FindStringSubmatch(filepath.Base(path))
	if shard == nil {
		return []string{path}, nil
	}
	count, _ := strconv.Atoi(shard[3])
	name := func(i int) string { return fmt.Sprintf("%s-%05d-of-%s.gguf", shard[1], i, shard[3]) }
	if shard[2] != "00001" {
		return nil, fmt.Errorf("%s: %w: give the first shard, %s", path, ErrInvalid, name(1))
	}
	var paths []string
	for i := range count {
		paths = append(paths, filepath.Join(filepath.Dir(path), name(i+1)))
	}
	return paths, nil
}

func addGGUF(files *[]mapping, path string) (*ggufFile, error) {
	file, err := mapFile(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s: %w", filepath.Base(path), ErrNotFound)
		}
		return nil, err
	}
	*files = append(*files, file)
	return parseGGUF(filepath.Base(path), file.data)
}

// checkShard: the i-th of n says so.
func (g *ggufFile) checkShard(i, n int) error {
	for key, want := range map[string]int{"split.no": i, "split.count": n} {
		if got, ok := g.values[key].int(); !ok || got != int64(want) {
			return fmt.Errorf("%s: %w: metadata %s must be %d by the file's name", g.file, ErrInvalid, key, want)
		}
	}
	return nil
}

// join adds a further shard's tensors.
func (g *ggufFile) join(other *ggufFile) error {
	for _, t := range other.tensors {
		if have := g.tensor(t.Name); have != nil {
			return fmt.Errorf("%s: %w: tensor %q is also in %s", t.File, ErrInvalid, t.Name, have.File)
		}
		g.tensors = append(g.tensors, t)
	}
	return nil
}

// readGGUF describes the model of a GGUF file: what the small files of a
// directory say elsewhere.
func (m *Model) readGGUF(g *ggufFile) (err error) {
	if m.Config, err = g.config(); err != nil {
		return err
	}
	m.ggufGeneration, err = g.generation()
	return err
}

// readOtherTokenizer takes the tokenizer of another GGUF file.
func (m *Model) readOtherTokenizer(path string) (err error) {
	g, files, err := openGGUF(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unmap(files)) }()
	return m.readGGUFTokenizer(g)
}

// readGGUFTokenizer reads the vocabulary and what else tokenizer_config.json
// would say.
func (m *Model) readGGUFTokenizer(g *ggufFile) (err error) {
	if m.GGUFVocabulary, err = g.vocabulary(); err != nil || m.GGUFVocabulary == nil {
		return err
	}
	m.TokenizerConfigJSON, err = g.tokenizerConfig(m.GGUFVocabulary)
	if template := g.string(ggufTemplate, ""); template != "" && !g.has("tokenizer.chat_templates") {
		m.ChatTemplateJinja = []byte(template)
	}
	return errors.Join(err, g.err())
}

// openGGUFWeights maps the tensors.
func openGGUFWeights(path string) (*Weights, error) {
	g, files, err := openGGUF(path)
	if err != nil {
		return nil, err
	}
	w := &Weights{tensors: make(map[string]Tensor), files: files, ggufFile: g.file}
	family, err := g.family()
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	w.ggufName = family.ownName
	for _, t := range g.rename(family) {
		if other, ok := w.tensors[t.Name]; ok {
			return nil, errors.Join(fmt.Errorf("%s: %w: tensors %q and %q are the same part", t.File, ErrInvalid, other.own(), t.own()), w.Close())
		}
		w.tensors[t.Name] = t
	}
	return w, nil
}
