// Package tokenizer turns text into token ids and ids into text, exactly as
// Hugging Face tokenizers 0.23 does, from tokenizer.json.
//
// # The path of a text
//
//	text ── added tokens ── normalizer ── added tokens ── pre-tokenizer ── model ── template ── ids
//	        added.go        normalize.go  (normalized)    pretokenize.go   bpe.go
//	                        nfc.go                        scan.go split.go
//
// Added tokens are cut out first, those marked normalized after normalization.
// What is left is cut into words, and the model turns each word into tokens on
// its own. The template puts tokens of its own around the whole.
//
// Back, in decode.go and incremental.go: each token stands for bytes; what the
// bytes of all tokens together say is the text. A [Detokenizer] gives that text
// as tokens come, never in the middle of a character.
//
// # What is served
//
// Byte-level BPE: the vocabularies of GPT-2, Llama 3, Qwen 2 and 3, GPT-4o,
// gpt-oss, DeepSeek and their kin. [Load] refuses by name whatever else a file
// asks for. A further kind of model, such as Unigram, is a type beside bpe; a
// further component is a case in components.go.
//
// # Exactness
//
// testdata/ holds what the reference makes of a corpus of unpleasant texts, for
// small tokenizers trained for it; testdata/oracle/fetch.sh makes the same for
// real vocabularies and for all code points but the insides of uniform blocks.
// Where the reference is odd we follow it, and the code says so. We differ in
// these:
//
//   - Added tokens whose ids contradict the vocabulary are refused; the
//     reference renumbers them and warns.
//   - truncation and padding are ignored: callers of the reference switch them
//     off to encode a prompt.
//   - Text that is not UTF-8, which the reference can't be given, is encoded as
//     the bytes it has.
//
// # Cost
//
// Linear in the text, n log n in the length of a single word. Words are
// remembered in a cache of bounded size, without locks. A model whose split
// pattern is not one of the hand-written scanners in scan.go takes several times
// as long, and a pattern that backtracks without end is cut off with
// [ErrSplitTimeout].
package tokenizer
