package modelfile

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
)

const (
	singleFile = "model.safetensors"
	indexFile  = "model.safetensors.index.json"
)

// Weights are the tensors of a checkpoint, mapped into memory. Any number of
// goroutines may read them; Close ends all views.
type Weights struct {
	tensors map[string]Tensor
	files   []mapping
	dummy   bool // every tensor exists: see DummyWeights

	// Of a GGUF file: its name, and how it spells a tensor.
	ggufFile string
	ggufName func(name string) string
}

// mapping is one file's bytes: a memory map, or a copy if unmap is nil.
type mapping struct {
	data  []byte
	unmap func() error
}

func unmap(files []mapping) error {
	var errs []error
	for _, f := range files {
		if f.unmap != nil {
			errs = append(errs, f.unmap())
		}
	}
	return errors.Join(errs...)
}

// OpenWeights maps the model's weight files and checks their headers.
func (m *Model) OpenWeights() (*Weights, error) {
	if m.gguf != "" {
		return openGGUFWeights(m.gguf)
	}
	if m.weights == nil {
		return nil, fmt.Errorf("weights of %s: %w in this program", m.Name, ErrNotFound)
	}
	w, err := openWeights(m.weights, m.Dir)
	if err != nil || m.Config.Quantization == nil {
		return w, err
	}
	if err := w.assemble(m.Config.Quantization); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Format says how the weights are stored, by vLLM's names: "gguf" or
// "safetensors".
func (m *Model) Format() string {
	if m.gguf != "" {
		return "gguf"
	}
	return "safetensors"
}

// Quantization names how the weights are quantized, as vLLM does; "" if they are
// not.
func (m *Model) Quantization() string {
	switch {
	case m.gguf != "":
		return "gguf"
	case m.Config.Quantization != nil:
		return m.Config.Quantization.Method
	}
	return ""
}

// openWeights reads from fsys; dir, if not "", is the same directory's path
// and lets files be mapped.
func openWeights(fsys fs.FS, dir string) (*Weights, error) {
	index, err := readOptional(fsys, indexFile)
	if err != nil {
		return nil, err
	}
	weightMap := map[string]string{}
	names := []string{singleFile}
	if index != nil {
		if weightMap, err = parseIndex(index); err != nil {
			return nil, err
		}
		names = slices.Compact(slices.Sorted(maps.Values(weightMap)))
	}
	w := &Weights{tensors: make(map[string]Tensor)}
	for _, name := range names {
		if err := w.add(fsys, dir, name, index != nil); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(weightMap)) {
		if got, want := w.tensors[name].File, weightMap[name]; got != want {
			return nil, errors.Join(fmt.Errorf("%s: %w: tensor %q should be in %s and is not", indexFile, ErrInvalid, name, want), w.Close())
		}
	}
	return w, nil
}

// parseIndex returns the index's map from tensor to file. File names stay
// inside the directory.
func parseIndex(data []byte) (map[string]string, error) {
	o, err := parseObject(indexFile, data)
	if err != nil {
		return nil, err
	}
	var weightMap map[string]string
	if !o.decode("weight_map", &weightMap, "an object of file names") || len(weightMap) == 0 {
		o.missing("weight_map")
		return nil, o.err()
	}
	for tensor, file := range weightMap {
		if !filepath.IsLocal(file) || filepath.Base(file) != file {
			return nil, fmt.Errorf("%s: %w: file %q of tensor %q is not a plain name", indexFile, ErrInvalid, file, tensor)
		}
	}
	return weightMap, nil
}

// Shards returns the names of the files that a model.safetensors.index.json
// spreads the tensors over, sorted.
func Shards(index []byte) ([]string, error) {
	weightMap, err := parseIndex(index)
	return slices.Compact(slices.Sorted(maps.Values(weightMap))), err
}

func (w *Weights) add(fsys fs.FS, dir, name string, isShard bool) error {
	file, err := openMapping(fsys, dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		if isShard {
			return fmt.Errorf("%s, a shard that %s names: %w", name, indexFile, ErrNotFound)
		}
		return fmt.Errorf("weights: %w: neither %s nor %s is in the model's directory%s", ErrNotFound, singleFile, indexFile, otherFormats(fsys))
	}
	if err != nil {
		return fmt.Errorf("weights: %w", err)
	}
	w.files = append(w.files, file)
	tensors, err := parseSafetensors(name, file.data)
	if err != nil {
		return err
	}
	for _, t := range tensors {
		if other, ok := w.tensors[t.Name]; ok {
			return fmt.Errorf("%s: %w: tensor %q is also in %s", name, ErrInvalid, t.Name, other.File)
		}
		w.tensors[t.Name] = t
	}
	return nil
}

// otherFormats says which weights there are instead.
func otherFormats(fsys fs.FS) string {
	for _, pattern := range []string{"*.gguf", "*.bin", "*.pth", "*.safetensors"} {
		if found, _ := fs.Glob(fsys, pattern); len(found) > 0 {
			return fmt.Sprintf("; %s is there, but weights must be in safetensors files of those names", found[0])
		}
	}
	return ""
}

func openMapping(fsys fs.FS, dir, name string) (mapping, error) {
	if dir != "" {
		return mapFile(filepath.Join(dir, name))
	}
	data, err := fs.ReadFile(fsys, name)
	return mapping{data: data}, err
}

// Has says whether the checkpoint holds a tensor.
func (w *Weights) Has(name string) bool {
	_, ok := w.tensors[name]
	return ok
}

// Names returns the names of all tensors, sorted.
func (w *Weights) Names() []string { return slices.Sorted(maps.Keys(w.tensors)) }

// Where says which file holds a tensor, and under which name, for messages.
func (w *Weights) Where(name string) string {
	t := w.tensors[name]
	return fmt.Sprintf("%s: tensor %q", t.File, t.own())
}

// Tensor returns a tensor of floating-point values that has just this shape.
func (w *Weights) Tensor(name string, shape ...int) (Tensor, error) {
	if w.dummy {
		return dummyTensor(name, shape), nil
	}
	t, ok := w.tensors[name]
	if !ok {
		return Tensor{}, w.notFound(name, shape)
	}
	if !slices.Equal(t.Shape, shape) {
		return Tensor{}, fmt.Errorf("%s: %w: tensor %q is %v, the config asks for %v", t.File, ErrInvalid, t.own(), t.Shape, shape)
	}
	if !t.decodes() {
		return Tensor{}, fmt.Errorf("%s: tensor %q: type %s is %w; F32, F16 and BF16 are", t.File, t.own(), t.DType, ErrUnsupported)
	}
	return t, nil
}

func (w *Weights) notFound(name string, shape []int) error {
	if w.ggufName != nil {
		return fmt.Errorf("%s: tensor %q %w; the metadata asks for %v", w.ggufFile, w.ggufName(name), ErrNotFound, shape)
	}
	return fmt.Errorf("weights: tensor %q %w; the config asks for %v", name, ErrNotFound, shape)
}

// DType returns the type that most bytes of the checkpoint have among F32, F16
// and BF16; for configs that name none. Blocks of quantized values, whose scales
// are float16, count as F16.
func (w *Weights) DType() DType {
	bytes := map[DType]int{}
	for _, t := range w.tensors {
		if t.decodes() && !t.Plain() {
			t.DType = F16
		}
		bytes[t.DType] += len(t.Data)
	}
	best := F32
	for _, t := range []DType{BF16, F16} {
		if bytes[t] > bytes[best] {
			best = t
		}
	}
	return best
}

// Release says that rows [row, row+n) of a tensor have been read for good, so
// that loading a model does not keep its file in memory beside the packed copy.
// Reading them again works, from disk.
func (w *Weights) Release(t Tensor, row, n int) {
	for _, part := range t.views(row, n) {
		w.release(part)
	}
}

// Close unmaps the files. No Tensor may be used afterwards.
func (w *Weights) Close() error {
	err := unmap(w.files)
	w.files, w.tensors = nil, nil
	return err
}
