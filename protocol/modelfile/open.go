package modelfile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"govllm/protocol/modelfile/builtin"
)

// Builtin is the name of the model that the programs carry in themselves.
const Builtin = "builtin"

// Options says where a model's parts come from, if not from its directory.
type Options struct {
	// Tokenizer is another directory (or "builtin") for tokenizer.json,
	// tokenizer_config.json and chat_template.jinja; "" is the model's own.
	Tokenizer string
	// NoTokenizer leaves the tokenizer out, which a program that computes has
	// no use for. EOSTokenIDs then lacks what it says.
	NoTokenizer bool
	// GenerationConfig is "auto" or "" for the model's generation_config.json,
	// "vllm" for none of its sampling defaults, or a directory that has one.
	GenerationConfig string
	// OverrideGenerationConfig is a JSON object laid over the defaults; null
	// takes one back.
	OverrideGenerationConfig []byte
	// BuiltinWeights holds the builtin model's model.safetensors. Only a
	// program that computes carries it.
	BuiltinWeights fs.FS
}

// Model is a model's description: everything but its weights, which
// OpenWeights maps.
type Model struct {
	Name string // as the user gave it
	Dir  string // "" for the builtin model

	Config     Config
	Generation Generation

	// Whole files, nil where there is none.
	TokenizerJSON       []byte // tokenizer.json
	TokenizerModel      []byte // tokenizer.model or spiece.model, SentencePiece's; not read beside tokenizer.json
	TokenizerConfigJSON []byte // tokenizer_config.json
	ChatTemplateJinja   []byte // chat_template.jinja

	// OtherTokenizer is the name of a tokenizer file that is there, but that none
	// of these holds; "" if one does, or none is there.
	OtherTokenizer string

	// GGUFVocabulary stands for TokenizerJSON where the tokenizer comes from a
	// GGUF file. The other two then hold what its metadata says of them.
	GGUFVocabulary *GGUFVocabulary

	weights             fs.FS  // nil if this program carries none
	gguf                string // path of the file that is the model; "" if none is
	ggufGeneration      []byte // its sampling defaults
	eos                 []int32
	hasGenerationConfig bool
}

// Open reads the small files of a model on this machine: "builtin", a directory
// or a GGUF file. Package hub fetches others.
func Open(name string, opt Options) (_ *Model, err error) {
	m := &Model{Name: name}
	files, err := m.locate(opt)
	if err != nil {
		return nil, err
	}
	var own *ggufFile // parsed once: its vocabulary is most of the header
	if m.gguf != "" {
		var maps []mapping
		if own, maps, err = openGGUF(m.gguf); err == nil {
			defer func() { err = errors.Join(err, unmap(maps)) }()
			err = m.readGGUF(own)
		}
	} else {
		err = m.readConfig(files)
	}
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", name, err)
	}
	if !opt.NoTokenizer {
		if err := m.readTokenizer(files, own, opt.Tokenizer); err != nil {
			return nil, fmt.Errorf("tokenizer of %s: %w", name, err)
		}
	}
	if err := m.readGeneration(files, opt); err != nil {
		return nil, fmt.Errorf("model %s: %w", name, err)
	}
	if err := m.collectEOS(); err != nil {
		return nil, fmt.Errorf("model %s: %w", name, err)
	}
	return m, nil
}

// locate returns the model's files, nil if it is a GGUF file.
func (m *Model) locate(opt Options) (fs.FS, error) {
	var err error
	if m.gguf, err = findGGUF(m.Name); err != nil {
		return nil, fmt.Errorf("model %w", err)
	}
	if m.gguf != "" {
		return nil, nil
	}
	files, err := openFiles(m.Name)
	if err != nil {
		return nil, fmt.Errorf("model %w", err)
	}
	m.weights = files
	if m.Name == Builtin {
		m.weights = opt.BuiltinWeights
		return files, nil
	}
	m.Dir = m.Name
	return files, nil
}

// wayOut says what a model's name may be.
const wayOut = "give a directory with config.json, a .gguf file, OWNER/NAME of the Hugging Face hub, or " + Builtin

// openFiles returns the files of "builtin" or of a directory.
func openFiles(name string) (fs.FS, error) {
	if name == Builtin {
		return builtin.FS, nil
	}
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return os.DirFS(name), nil
	case err == nil:
		return nil, fmt.Errorf("%s: %w: it is a file; give the directory with config.json, or a .gguf file", name, ErrInvalid)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: %v", name, err)
	}
	return nil, fmt.Errorf("%s: %w: there is no such directory; %s", name, ErrNotFound, wayOut)
}

func (m *Model) readConfig(files fs.FS) error {
	data, err := readOptional(files, "config.json")
	if err != nil {
		return err
	}
	if data == nil {
		return fmt.Errorf("config.json %w in it; %s", ErrNotFound, wayOut)
	}
	m.Config, err = ParseConfig("config.json", data)
	return err
}

var (
	sentencePieceFiles  = []string{"tokenizer.model", "spiece.model", "sentencepiece.bpe.model"}
	otherTokenizerFiles = []string{"tekken.json", "tiktoken.model", "vocab.json", "vocab.txt"} // refused by name
)

// TokenizerFiles names the files that can hold a tokenizer. Of those that a
// model has, the first counts.
func TokenizerFiles() []string {
	return slices.Concat([]string{"tokenizer.json"}, sentencePieceFiles, otherTokenizerFiles)
}

// readTokenizer takes the model's own files, or its GGUF file if own is not
// nil, unless other names another place.
func (m *Model) readTokenizer(files fs.FS, own *ggufFile, other string) (err error) {
	switch {
	case other != "":
		gguf, err := findGGUF(other)
		if err != nil {
			return err
		}
		if gguf != "" {
			return m.readOtherTokenizer(gguf)
		}
		if files, err = openFiles(other); err != nil {
			return err
		}
	case own != nil:
		return m.readGGUFTokenizer(own)
	}
	for name, dst := range map[string]*[]byte{
		"tokenizer.json":        &m.TokenizerJSON,
		"tokenizer_config.json": &m.TokenizerConfigJSON,
		"chat_template.jinja":   &m.ChatTemplateJinja,
	} {
		if *dst, err = readOptional(files, name); err != nil {
			return err
		}
	}
	if m.TokenizerJSON != nil {
		return nil
	}
	for _, name := range sentencePieceFiles {
		if m.TokenizerModel, err = readOptional(files, name); err != nil || m.TokenizerModel != nil {
			return err
		}
	}
	for _, name := range otherTokenizerFiles {
		if _, err := fs.Stat(files, name); err == nil {
			m.OtherTokenizer = name
			return nil
		}
	}
	return nil
}

func (m *Model) readGeneration(files fs.FS, opt Options) error {
	const name = "generation_config.json"
	where, own := name, true
	switch opt.GenerationConfig {
	case "", "auto", "vllm":
	default:
		own = false
		where = filepath.Join(opt.GenerationConfig, name)
		files = os.DirFS(opt.GenerationConfig)
	}
	fromGGUF := own && m.gguf != ""
	var data []byte
	var err error
	if fromGGUF {
		where, data = m.gguf, m.ggufGeneration
	} else if data, err = readOptional(files, name); err != nil {
		return err
	}
	if data == nil && !own {
		return fmt.Errorf("--generation-config: %s %w", where, ErrNotFound)
	}
	m.hasGenerationConfig = data != nil && !fromGGUF // metadata has the EOS IDs of a config.json
	m.Generation, err = readGeneration(where, data, opt.OverrideGenerationConfig,
		opt.GenerationConfig != "vllm", m.Config.VocabSize)
	return err
}

// MaxModelLen returns the most tokens a sequence may have: the flag's value,
// or for 0 the model's own limit, which the flag can't exceed.
func (m *Model) MaxModelLen(flag int) (int, error) {
	limit := m.Config.MaxPositionEmbeddings
	switch {
	case flag == 0:
		return limit, nil
	case flag < 0:
		return 0, fmt.Errorf("--max-model-len %d must be at least 1", flag)
	case flag > limit:
		return 0, fmt.Errorf("--max-model-len %d is more than %d, the model's limit by %s; give at most that",
			flag, limit, cmp.Or(m.Config.LimitKey, "max_position_embeddings"))
	}
	return flag, nil
}
