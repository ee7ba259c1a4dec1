package modelfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"govllm/protocol/modelfile"
	"govllm/protocol/modelfile/builtin/weights"
	"govllm/protocol/modelfile/modelfiletest"
)

func open(t *testing.T, dir string, opt modelfile.Options) *modelfile.Model {
	t.Helper()
	m, err := modelfile.Open(dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestOpenReadsEveryFile(t *testing.T) {
	dir := modelfiletest.WriteDir(t, modelfiletest.Llama())
	modelfiletest.WriteFile(t, dir, "tokenizer.json", []byte(`{"added_tokens":[{"id":7,"content":"<|end|>"}]}`))
	modelfiletest.WriteFile(t, dir, "tokenizer_config.json", []byte(`{"eos_token":"<|end|>"}`))
	modelfiletest.WriteFile(t, dir, "chat_template.jinja", []byte("{{ messages }}"))
	m := open(t, dir, modelfile.Options{})
	if m.Name != dir || m.Dir != dir || m.Config.VocabSize != 131 || string(m.ChatTemplateJinja) != "{{ messages }}" ||
		len(m.TokenizerJSON) == 0 || len(m.TokenizerConfigJSON) == 0 {
		t.Errorf("Open(%s) = %+v", dir, m)
	}
}

func TestOpenBuiltin(t *testing.T) {
	m := open(t, modelfile.Builtin, modelfile.Options{BuiltinWeights: weights.FS})
	if m.Dir != "" || m.TokenizerJSON == nil || len(m.EOSTokenIDs()) == 0 {
		t.Errorf("Open(builtin) = %q in %q with stop tokens %v", m.Name, m.Dir, m.EOSTokenIDs())
	}
	w, err := m.OpenWeights()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Tensor("model.embed_tokens.weight", m.Config.VocabSize, m.Config.HiddenSize); err != nil {
		t.Error(err)
	}
	if _, err := open(t, modelfile.Builtin, modelfile.Options{}).OpenWeights(); !errors.Is(err, modelfile.ErrNotFound) {
		t.Errorf("OpenWeights() of a program without weights = %v, want ErrNotFound", err)
	}
}

func TestOpenWithoutTokenizer(t *testing.T) {
	m := open(t, modelfiletest.WriteDir(t, modelfiletest.Llama()), modelfile.Options{})
	if m.TokenizerJSON != nil || m.TokenizerConfigJSON != nil || m.ChatTemplateJinja != nil {
		t.Errorf("Open: tokenizer files of a model without one: %+v", m)
	}
}

func TestOpenOtherTokenizer(t *testing.T) {
	dir := modelfiletest.WriteDir(t, modelfiletest.Llama())
	other := t.TempDir()
	modelfiletest.WriteFile(t, other, "tokenizer.json", []byte(`{"version":"other"}`))
	if m := open(t, dir, modelfile.Options{Tokenizer: other}); string(m.TokenizerJSON) != `{"version":"other"}` {
		t.Errorf("Open with another tokenizer: tokenizer.json = %s", m.TokenizerJSON)
	}
}

func TestOpenRefusals(t *testing.T) {
	t.Chdir(t.TempDir())
	empty, file := t.TempDir(), filepath.Join(t.TempDir(), "weights")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	broken := t.TempDir()
	modelfiletest.WriteFile(t, broken, "config.json", []byte(`{"vocab_size": 1`))
	good := modelfiletest.WriteDir(t, modelfiletest.Llama())
	badGeneration := modelfiletest.WriteDir(t, modelfiletest.Llama())
	modelfiletest.WriteFile(t, badGeneration, "generation_config.json", []byte(`{"top_p": 1.5, "temperature": -1}`))
	for _, c := range []struct {
		name string
		opt  modelfile.Options
		is   error
		says string
	}{
		{"/no/such/model", modelfile.Options{}, modelfile.ErrNotFound, "no such directory"},
		{"HuggingFaceTB/SmolLM2-135M", modelfile.Options{}, modelfile.ErrNotFound, "no such directory"},
		{"models/model-Q4.GGUF", modelfile.Options{}, modelfile.ErrNotFound, "model-Q4.GGUF"},
		{empty, modelfile.Options{}, modelfile.ErrNotFound, "config.json not found"},
		{file, modelfile.Options{}, modelfile.ErrInvalid, "it is a file"},
		{broken, modelfile.Options{}, modelfile.ErrInvalid, "config.json"},
		{badGeneration, modelfile.Options{}, modelfile.ErrInvalid, "top_p = 1.5"},
		{badGeneration, modelfile.Options{}, modelfile.ErrInvalid, "temperature = -1"},
		{good, modelfile.Options{Tokenizer: "/no/such/tokenizer"}, modelfile.ErrNotFound, "tokenizer"},
		{good, modelfile.Options{GenerationConfig: empty}, modelfile.ErrNotFound, "generation_config.json"},
		{good, modelfile.Options{OverrideGenerationConfig: []byte(`{"top_q": 1}`)}, modelfile.ErrUnsupported, "top_q"},
		{good, modelfile.Options{OverrideGenerationConfig: []byte(`{"top_k": -2}`)}, modelfile.ErrInvalid, "top_k = -2"},
		{good, modelfile.Options{OverrideGenerationConfig: []byte(`top_k=1`)}, modelfile.ErrInvalid, "--override-generation-config"},
	} {
		_, err := modelfile.Open(c.name, c.opt)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("Open(%s, %+v) = %v; want %v that says %q", c.name, c.opt, err, c.is, c.says)
		}
	}
}

func TestGeneration(t *testing.T) {
	dir := modelfiletest.WriteDir(t, modelfiletest.Llama())
	modelfiletest.WriteFile(t, dir, "generation_config.json",
		[]byte(`{"do_sample": true, "temperature": 0.7, "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.1, "max_new_tokens": 99}`))
	elsewhere := t.TempDir()
	modelfiletest.WriteFile(t, elsewhere, "generation_config.json", []byte(`{"min_p": 0.1, "temperature": null}`))

	g := open(t, dir, modelfile.Options{}).Generation
	if *g.Temperature != 0.7 || *g.TopK != 20 || *g.TopP != 0.8 || *g.RepetitionPenalty != 1.1 || *g.MaxNewTokens != 99 || g.MinP != nil {
		t.Errorf("auto: %+v", g)
	}
	g = open(t, dir, modelfile.Options{GenerationConfig: "vllm"}).Generation
	if g.Temperature != nil || g.TopK != nil || g.TopP != nil || g.MaxNewTokens != nil {
		t.Errorf("vllm: %+v, want no defaults", g)
	}
	g = open(t, dir, modelfile.Options{GenerationConfig: elsewhere}).Generation
	if g.Temperature != nil || *g.MinP != 0.1 {
		t.Errorf("another directory: %+v", g)
	}
	g = open(t, dir, modelfile.Options{OverrideGenerationConfig: []byte(`{"temperature": 0, "top_k": null}`)}).Generation
	if *g.Temperature != 0 || g.TopK != nil || *g.TopP != 0.8 {
		t.Errorf("override: %+v", g)
	}
	g = open(t, dir, modelfile.Options{GenerationConfig: "vllm", OverrideGenerationConfig: []byte(`{"top_p": 0.5}`)}).Generation
	if *g.TopP != 0.5 || g.Temperature != nil {
		t.Errorf("vllm with override: %+v", g)
	}
}

func TestEOSTokenIDs(t *testing.T) {
	const tokenizer = `{"version":"1.0","added_tokens":[{"id":9,"content":"<pad>","special":true},{"id":7,"content":"<|end|>"}],
		"model":{"type":"BPE","merges":[["a","b"]],"vocab":{"a":0,"</s>":4,"b":1}}}`
	for _, c := range []struct {
		name       string
		config     any    // eos_token_id of config.json
		generation string // generation_config.json
		eosToken   string // tokenizer_config.json's eos_token
		opt        modelfile.Options
		want       []int32
	}{
		{name: "config alone", config: 2, want: []int32{2}},
		{name: "list in config", config: []int{2, 5}, want: []int32{2, 5}},
		{name: "nothing", want: nil},
		{name: "tokenizer first, config extra", config: 2, eosToken: `"<|end|>"`, want: []int32{7, 2}},
		{name: "token as object", config: 7, eosToken: `{"content":"<|end|>","lstrip":false}`, want: []int32{7}},
		{name: "token of the vocabulary", eosToken: `"</s>"`, want: []int32{4}},
		{name: "token that is nowhere", config: 2, eosToken: `"<eos>"`, want: []int32{2}},
		{name: "generation_config replaces config's extras", config: 2, eosToken: `"<|end|>"`, generation: `{"eos_token_id":[7,5]}`, want: []int32{7, 5}},
		{name: "generation_config says none", config: 2, eosToken: `"<|end|>"`, generation: `{}`, want: []int32{7}},
		{name: "vllm keeps stop tokens", config: 2, eosToken: `"<|end|>"`, generation: `{"eos_token_id":5}`,
			opt: modelfile.Options{GenerationConfig: "vllm"}, want: []int32{7, 5}},
		{name: "no tokenizer, generation_config extra", config: 2, generation: `{"eos_token_id":[5,2]}`, want: []int32{2, 5}},
	} {
		dir := modelfiletest.WriteDir(t, modelfiletest.Llama().With(config{"eos_token_id": c.config}))
		modelfiletest.WriteFile(t, dir, "tokenizer.json", []byte(tokenizer))
		if c.eosToken != "" {
			modelfiletest.WriteFile(t, dir, "tokenizer_config.json", []byte(`{"eos_token":`+c.eosToken+`}`))
		}
		if c.generation != "" {
			modelfiletest.WriteFile(t, dir, "generation_config.json", []byte(c.generation))
		}
		if got := open(t, dir, c.opt).EOSTokenIDs(); !slices.Equal(got, c.want) {
			t.Errorf("%s: EOSTokenIDs() = %v, want %v", c.name, got, c.want)
		}
	}
}

func TestEOSTokenOutsideVocabulary(t *testing.T) {
	dir := modelfiletest.WriteDir(t, modelfiletest.Llama())
	modelfiletest.WriteFile(t, dir, "tokenizer.json", []byte(`{"added_tokens":[{"id":131,"content":"<|end|>"}]}`))
	modelfiletest.WriteFile(t, dir, "tokenizer_config.json", []byte(`{"eos_token":"<|end|>"}`))
	if _, err := modelfile.Open(dir, modelfile.Options{}); !errors.Is(err, modelfile.ErrInvalid) || !strings.Contains(err.Error(), "131") {
		t.Errorf("Open = %v, want ErrInvalid with the ID 131", err)
	}
}

func TestMaxModelLen(t *testing.T) {
	m := open(t, modelfiletest.WriteDir(t, modelfiletest.Llama()), modelfile.Options{})
	for _, c := range []struct {
		flag, want int
		says       []string
	}{
		{flag: 0, want: 256},
		{flag: 100, want: 100},
		{flag: 256, want: 256},
		{flag: 257, says: []string{"257", "256"}},
		{flag: -1, says: []string{"-1"}},
	} {
		got, err := m.MaxModelLen(c.flag)
		if (err != nil) != (c.says != nil) || got != c.want {
			t.Errorf("MaxModelLen(%d) = %d, %v; want %d", c.flag, got, err, c.want)
		}
		for _, s := range c.says {
			if err != nil && !strings.Contains(err.Error(), s) {
				t.Errorf("MaxModelLen(%d) = %v, want it to say %s", c.flag, err, s)
			}
		}
	}
}

func FuzzTokenizerFiles(f *testing.F) {
	f.Add([]byte(`{"added_tokens":[{"id":7,"content":"</s>"}],"model":{"vocab":{"</s>":4}}}`), []byte(`{"eos_token":{"content":"</s>"}}`))
	f.Add([]byte(`{"model":{"vocab":[["</s>",0.5]]}}`), []byte(`{"eos_token":"</s>"}`))
	f.Fuzz(func(t *testing.T, tokenizer, config []byte) {
		content, err := modelfile.EOSToken(config)
		if err != nil && !errors.Is(err, modelfile.ErrInvalid) {
			t.Errorf("eosToken = %v, which is not ErrInvalid", err)
		}
		if _, err := modelfile.TokenID(tokenizer, content); err != nil && !errors.Is(err, modelfile.ErrInvalid) {
			t.Errorf("tokenID = %v, which is not ErrInvalid", err)
		}
	})
}
