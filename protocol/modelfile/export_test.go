package modelfile

// Parsers of single files, for tests without a directory.
var (
	ParseSafetensors = parseSafetensors
	EOSToken         = eosToken
	TokenID          = tokenID
)

// ParseGGUF parses a GGUF file's header.
func ParseGGUF(file string, data []byte) error {
	_, err := parseGGUF(file, data)
	return err
}

// DescribeGGUF reads all that metadata says, and the tensors.
func DescribeGGUF(file string, data []byte) error {
	g, err := parseGGUF(file, data)
	if err != nil {
		return err
	}
	if _, err := g.config(); err != nil {
		return err
	}
	if _, err := g.vocabulary(); err != nil {
		return err
	}
	for _, t := range g.tensors {
		if len(t.Data) > 0 {
			t.floats()
		}
	}
	_, err = g.generation()
	return err
}

// OpenGGUF opens a GGUF file and its shards, and looks tensors up.
func OpenGGUF(path string, names ...string) error {
	g, files, err := openGGUF(path)
	if err != nil {
		return err
	}
	for _, name := range names {
		if g.tensor(name) == nil {
			return ErrNotFound
		}
	}
	return unmap(files)
}
