package tokenizer

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"govllm/protocol/modelfile/builtin"
)

// readFile returns the contents of a file, or of file.gz unpacked.
func readFile(tb testing.TB, name string) []byte {
	tb.Helper()
	if data, err := os.ReadFile(name); err == nil {
		return data
	}
	f, err := os.Open(name + ".gz")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	data, err := io.ReadAll(unpacked)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func readJSON[T any](tb testing.TB, name string) T {
	tb.Helper()
	var v T
	if err := json.Unmarshal(readFile(tb, name), &v); err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	return v
}

// golden is what the reference makes of the corpus; see testdata/golden.mjs and
// testdata/golden_spm.py.
type golden struct {
	SHA256  string    `json:"sha256"`  // of tokenizer.json or tokenizer.model
	IDs     [][]int32 `json:"ids"`     // by text; nil: not asked
	Special [][]int32 `json:"special"` // the first texts, with special tokens added
	Decode  []struct {
		IDs     []int32 `json:"ids"`
		Text    string  `json:"text"`
		Skipped *string `json:"skipped"` // without special tokens; nil: not asked
	} `json:"decode"`
}

// smallTokenizers returns the directories of the committed tokenizers.
func smallTokenizers(tb testing.TB) []string {
	tb.Helper()
	directories, err := filepath.Glob("testdata/small/*")
	if err != nil || len(directories) == 0 {
		tb.Fatalf("testdata/small: %v, %v", directories, err)
	}
	return directories
}

func loadDirectory(tb testing.TB, directory string) *Tokenizer {
	tb.Helper()
	tok, _ := loadFile(tb, directory)
	return tok
}

// loadFile loads tokenizer.json, or else tokenizer.model.
func loadFile(tb testing.TB, directory string) (tok *Tokenizer, file []byte) {
	tb.Helper()
	var err error
	if name := filepath.Join(directory, "tokenizer.model"); exists(name) || exists(name+".gz") {
		file = readFile(tb, name)
		tok, err = LoadSentencePiece(file, nil)
	} else {
		file = readFile(tb, filepath.Join(directory, "tokenizer.json"))
		tok, err = Load(file, nil)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return tok, file
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func corpus(tb testing.TB) []string { return readJSON[[]string](tb, "testdata/corpus.json") }

// abbreviate keeps failures readable.
func abbreviate(s string) string {
	const limit = 200
	if len(s) > limit {
		return s[:limit] + "…"
	}
	return s
}

// TestGolden compares the committed tokenizers with the reference.
func TestGolden(t *testing.T) {
	texts := corpus(t)
	for _, directory := range smallTokenizers(t) {
		t.Run(filepath.Base(directory), func(t *testing.T) {
			compareGolden(t, directory, texts)
		})
	}
}

// TestBuiltin compares the tokenizer of the builtin model, which loads with its
// configuration too.
func TestBuiltin(t *testing.T) {
	file, err := fs.ReadFile(builtin.FS, "tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	config, err := fs.ReadFile(builtin.FS, "tokenizer_config.json")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := Load(file, config)
	if err != nil {
		t.Fatal(err)
	}
	if eos, ok := tok.EOS(); !ok || !tok.IsSpecial(eos) {
		t.Errorf("EOS() = %d, %v, want a special token", eos, ok)
	}
	compareWith(t, tok, file, readJSON[golden](t, "testdata/builtin.golden.json"), corpus(t))
}

// TestOracle compares real vocabularies, which are not committed. The directory
// is made by testdata/oracle/fetch.sh.
func TestOracle(t *testing.T) {
	const variable = "GOVLLM_TOKENIZER_ORACLE"
	root := os.Getenv(variable)
	if root == "" {
		t.Skipf("%s is not set: it names the directory of real vocabularies that testdata/oracle/fetch.sh makes", variable)
	}
	directories, err := filepath.Glob(filepath.Join(root, "*", "golden.json.gz"))
	if err != nil || len(directories) == 0 {
		t.Fatalf("%s=%s has no */golden.json.gz (%v): run testdata/oracle/fetch.sh %s", variable, root, err, root)
	}
	texts := corpus(t)
	for _, file := range directories {
		directory := filepath.Dir(file)
		t.Run(filepath.Base(directory), func(t *testing.T) {
			compareGolden(t, directory, texts)
			if file := filepath.Join(directory, "gguf.json"); exists(file) {
				compareGGUF(t, directory, readJSON[GGUF](t, file), texts)
			}
			if pre, ok := ggufNames[filepath.Base(directory)]; ok {
				compareGGUF(t, directory, ggufOf(t, filepath.Join(directory, "tokenizer.json"), pre), texts)
			}
			if !exists(filepath.Join(directory, "tokenizer_config.json")) {
				return
			}
			config := readFile(t, filepath.Join(directory, "tokenizer_config.json"))
			if _, err := Load(readFile(t, filepath.Join(directory, "tokenizer.json")), config); err != nil {
				t.Errorf("Load with tokenizer_config.json = %v", err)
			}
		})
	}
}

// compareGolden compares encoding and decoding with a golden file, and logs how
// many cases were the same.
func compareGolden(t *testing.T, directory string, texts []string) {
	tok, file := loadFile(t, directory)
	compareWith(t, tok, file, readJSON[golden](t, filepath.Join(directory, "golden.json")), texts)
}

// compareGGUF compares the vocabulary that a GGUF file has of the tokenizer with
// the golden file, but for what the file does not know: which tokens are special
// (converters mark what looks so), and tokens of escaped spaces (they write
// spaces).
func compareGGUF(t *testing.T, directory string, g GGUF, texts []string) {
	tok, err := LoadGGUF(&g)
	if err != nil {
		t.Fatal(err)
	}
	file := readFile(t, filepath.Join(directory, "tokenizer.json"))
	want := readJSON[golden](t, filepath.Join(directory, "golden.json"))
	for i := range want.Decode {
		want.Decode[i].Skipped = nil
	}
	for i, text := range texts {
		if strings.Contains(text, escapedSpace) {
			want.IDs[i] = nil
		}
	}
	compareWith(t, tok, file, want, texts)
}

// ggufNames are the names that GGUF files have for the pre-tokenizers of some
// models.
var ggufNames = map[string]string{
	"llama3": "llama-bpe", "qwen2_5": "qwen2", "gpt4o": "gpt-4o", "deepseek_v3": "deepseek-v3",
}

// ggufOf returns what a GGUF file has of a byte-level tokenizer.json.
func ggufOf(tb testing.TB, file, pre string) GGUF {
	tb.Helper()
	f := readJSON[struct {
		Added []struct {
			ID      int
			Content string
			Special bool
		} `json:"added_tokens"`
		Processor json.RawMessage `json:"post_processor"`
		Model     struct {
			Vocab  map[string]int
			Merges []string
		}
	}](tb, file)
	last := slices.Max(slices.Collect(maps.Values(f.Model.Vocab)))
	for _, a := range f.Added {
		last = max(last, a.ID)
	}
	g := GGUF{Model: "gpt2", Pre: pre, Tokens: make([]string, last+1), Types: make([]int32, last+1), Merges: f.Model.Merges}
	for id := range g.Tokens { // where there is none
		g.Tokens[id], g.Types[id] = fmt.Sprintf("[PAD%d]", id), tokenUnused
	}
	for token, id := range f.Model.Vocab {
		g.Tokens[id], g.Types[id] = token, tokenNormal
	}
	for _, a := range f.Added {
		g.Tokens[a.ID], g.Types[a.ID] = a.Content, tokenUserDefined
		if a.Special {
			g.Types[a.ID] = tokenControl
		}
		if strings.Contains(a.Content, "begin") && bytes.Contains(f.Processor, []byte("TemplateProcessing")) && g.BOS == nil {
			g.BOS = pointer(int32(a.ID))
		}
	}
	g.AddBOS = pointer(g.BOS != nil)
	return g
}

func compareWith(t *testing.T, tok *Tokenizer, file []byte, want golden, texts []string) {
	t.Helper()
	if sum := sha256.Sum256(file); hex.EncodeToString(sum[:]) != want.SHA256 {
		t.Fatal("the file is not the one the golden file was made from: make it again (testdata/make.sh, testdata/oracle/fetch.sh)")
	}
	encoded, decoded := 0, 0
	check := func(text string, special bool, ids []int32) {
		got, err := tok.Encode(text, special)
		if err != nil || !slices.Equal(got, ids) {
			t.Errorf("Encode(%q, %v) = %s, %v, want %s", abbreviate(text), special, firstDifference(got, ids), err, firstDifference(ids, got))
			return
		}
		encoded++
	}
	for i, ids := range want.IDs {
		if ids != nil {
			check(texts[i], false, ids)
		}
	}
	for i, ids := range want.Special {
		check(texts[i], true, ids)
	}
	for _, d := range want.Decode {
		for special, text := range map[bool]*string{false: &d.Text, true: d.Skipped} {
			if text == nil {
				continue
			}
			if got := tok.Decode(d.IDs, special); got != *text {
				t.Errorf("Decode(%v, %v) = %q, want %q", d.IDs, special, got, *text)
				continue
			}
			decoded++
		}
	}
	t.Logf("%d texts and %d id lists are the same as the reference's", encoded, decoded)
}

// firstDifference returns the ids of got around the first that is not in want.
func firstDifference(got, want []int32) string {
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	b, _ := json.Marshal(got[max(i-3, 0):min(i+8, len(got))])
	return strings.TrimSuffix(string(b), "]") + " …]"
}
