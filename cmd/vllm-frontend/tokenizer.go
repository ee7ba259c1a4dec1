package main

import (
	"fmt"
	"log/slog"
	"strings"

	"govllm/frontend/tokenizer"
	"govllm/protocol/modelfile"
)

// loadTokenizer builds the tokenizer from whichever file describes it, and
// makes sure that the model can read what it gives.
func loadTokenizer(model string, m *modelfile.Model, log *slog.Logger) (*tokenizer.Tokenizer, error) {
	tok, err := buildTokenizer(m)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", model, err)
	}
	beyond, err := tok.Fit(m.Config.VocabSize)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w (vocab_size %d); give the tokenizer of this model with --tokenizer", model, err, m.Config.VocabSize)
	}
	if len(beyond) > 0 {
		log.Warn("the tokenizer has added tokens that the model has no embedding for; prompts with one of them are refused",
			"tokens", strings.Join(beyond, " "), "vocab_size", m.Config.VocabSize)
	}
	return tok, nil
}

func buildTokenizer(m *modelfile.Model) (*tokenizer.Tokenizer, error) {
	const wayOut = "give the directory of one with --tokenizer"
	switch {
	case m.GGUFVocabulary != nil:
		g := ggufTokenizer(m.GGUFVocabulary)
		if m.Config.Architecture == "Phi3ForCausalLM" {
			g.Architecture = "phi3"
		}
		return tokenizer.LoadGGUF(g)
	case m.TokenizerJSON != nil:
		return tokenizer.Load(m.TokenizerJSON, m.TokenizerConfigJSON)
	case m.TokenizerModel != nil:
		return tokenizer.LoadSentencePiece(m.TokenizerModel, m.TokenizerConfigJSON)
	case m.OtherTokenizer != "":
		return nil, fmt.Errorf("there is no tokenizer.json or tokenizer.model, and %s alone is not supported; %s", m.OtherTokenizer, wayOut)
	}
	return nil, fmt.Errorf("there is no tokenizer.json or tokenizer.model; %s", wayOut)
}

// ggufTokenizer says what a GGUF file's metadata say in the tokenizer's words.
func ggufTokenizer(v *modelfile.GGUFVocabulary) *tokenizer.GGUF {
	named := func(id int32) *int32 {
		if id < 0 {
			return nil
		}
		return &id
	}
	return &tokenizer.GGUF{
		Model: v.Model, Pre: v.Pre, Tokens: v.Tokens, Scores: v.Scores, Types: v.Types, Merges: v.Merges, Charmap: v.PrecompiledCharsmap,
		BOS: named(v.BOS), EOS: named(v.EOS), UNK: named(v.Unk),
		AddBOS: v.AddBOS, AddEOS: v.AddEOS, AddSpacePrefix: v.AddSpacePrefix, RemoveExtraWhitespaces: v.RemoveExtraWhitespaces,
	}
}
