package tokenizer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ggufPre is a pre-tokenizer that GGUF files name, with what else llama.cpp
// ties to the name.
//
// Where the tokenizer.json of the models that go by a name is known it is
// followed, not llama.cpp's rendering of it: the two differ in corners such as
// U+017F after an apostrophe. Source of names and patterns: llama.cpp,
// src/llama-vocab.cpp, at commit 00ad355e.
type ggufPre struct {
	splits       []string // patterns, each of which isolates its matches
	digits       bool     // each digit alone, before all else
	gpt2         bool     // at last, ByteLevel's own pattern
	nfc          bool     // text is normalized to form C
	ignoreMerges bool
	addBOS       bool // if the file does not say
}

func (p ggufPre) stages() ([]stage, error) {
	var stages []stage
	if p.digits {
		stages = append(stages, &splitStage{matcher: characterMatcher(isNumeric), behavior: isolated})
	}
	for _, pattern := range p.splits {
		m, err := newMatcher(pattern)
		if err != nil {
			return nil, err
		}
		stages = append(stages, &splitStage{matcher: m, behavior: isolated})
	}
	return append(stages, byteLevelStage{useRegex: p.gpt2}), nil
}

// ggufPreOf returns the pre-tokenizer of a name.
func ggufPreOf(name string) (ggufPre, error) {
	if name == "" {
		name = "default" // as in llama.cpp, which warns
	}
	for names, pre := range ggufPres {
		if slices.Contains(strings.Fields(names), name) {
			return pre, nil
		}
	}
	all := strings.Fields(strings.Join(slices.Collect(maps.Keys(ggufPres)), " "))
	slices.Sort(all)
	return ggufPre{}, fmt.Errorf("%w: tokenizer.ggml.pre %q (served: %s)", ErrUnsupported, name, strings.Join(all, ", "))
}

const (
	camelWord = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`
	upperWord = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*`
	contract  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	spaces    = `\s*[\r\n]+|\s+(?!\S)|\s+`

	cjk           = `[一-龥぀-ゟ゠-ヿ]+`
	hanOrKana     = `[\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+`
	deepSeekWords = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+"

	notPunctuation = ` ?[^(\s|.,!?…。，、।۔،)]+`
)

// ggufPres holds the pre-tokenizers; a key is all the names of one.
var ggufPres = map[string]ggufPre{
	"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano": {
		splits: []string{llama3Pattern}, ignoreMerges: true, addBOS: true,
	},
	"dbrx smaug-bpe chatglm-bpe glm4": {splits: []string{llama3Pattern}},
	"minicpm5": {
		splits:       []string{`\p{N}{1,3}`, contract + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|` + spaces},
		ignoreMerges: true,
	},
	"qwen2 deepseek-r1-qwen kormo f2llmv2 megrez":                           {splits: []string{qwen2Pattern}, nfc: true},
	"stablelm2 hunyuan solar-open grok-2":                                   {splits: []string{qwen2Pattern}},
	"laguna":                                                                {splits: []string{`[^\n]+|[\n]+`, qwen2Pattern}},
	"gpt-4o llama4 kanana2 talkie minimax-m2":                               {splits: []string{o200kPattern}},
	"deepseek-v3 hunyuan-dense joyai-llm hy_v4":                             {splits: []string{`\p{N}{1,3}`, cjk, deepSeekWords + "[\r\n]*|" + spaces}},
	"starcoder refact command-r smollm codeshell exaone minerva-7b mellum2": {digits: true, gpt2: true},
	"gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de gigachat a.x-4.0 mellum modern-bert mpt olmo jais trillion granite-docling exaone4": {
		gpt2: true,
	},
	"tekken":     {splits: []string{camelWord + `|` + upperWord + `|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|` + spaces}, ignoreMerges: true, addBOS: true},
	"qwen35":     {splits: []string{contract + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|` + spaces}},
	"ufakzeka":   {splits: []string{`[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|` + spaces}},
	"seed-coder": {splits: []string{contract + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|` + spaces}},
	"exaone-moe": {splits: []string{contract + `|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+`}},
	"bailingmoe bailingmoe2 llada-moe": {splits: []string{
		`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`,
	}},
	"jais-2": {splits: []string{contract + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|` +
		`\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}`}},
	"youtu": {
		splits: []string{
			`[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|` + cjk,
			camelWord + contract + `?|` + upperWord + contract + `?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|` + spaces,
		},
		ignoreMerges: true,
	},
	"spark2_5":                     {splits: []string{`\p{N}{1,3}`, cjk, deepSeekWords + "|[\r\n]|\\s+(?!\\S)|\\s+", `\p{N}`}},
	"deepseek-coder":               {splits: []string{"[\r\n]", `\s?\p{L}+`, `\s?\p{P}+`, hanOrKana, `\p{N}`}},
	"poro-chat bloom gpt3-finnish": {splits: []string{notPunctuation}},
	"viking":                       {splits: []string{notPunctuation, `\p{N}`}},

	"default": {splits: []string{"[\\p{P}\\$\\+<=>\\^~\\|]+", gpt2Pattern, `\p{N}+`, `[0-9][0-9][0-9]`}},
	"falcon":  {splits: []string{"[\\p{P}\\$\\+<=>\\^~\\|`]+", gpt2Pattern, `[0-9][0-9][0-9]`}},
}
