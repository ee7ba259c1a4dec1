// Package tokenizer turns text into token ids and ids into text, exactly as
// Hugging Face tokenizers 0.23 does, from tokenizer.json, from SentencePiece's
// tokenizer.model, or from the metadata of a GGUF file.
//
// # The path of a text
//
//	text ── added tokens ── normalizer ── added tokens ── pre-tokenizer ── model ── template ── ids
//	        added.go        normalize.go  (normalized)    pretokenize.go   bpe.go   template.go
//	                        nfc.go                        split.go scan.go unigram.go
//	                        bertnormalize.go                               wordpiece.go
//
// Added tokens are cut out first, those marked normalized after normalization.
// What is left is cut into words, and the model turns each word into tokens on
// its own. The template puts tokens of its own around the whole.
//
// Back, in decode.go and decoders.go: of a byte-level vocabulary, each token
// stands for bytes, and what the bytes of all tokens together say is the text.
// Of any other, tokens are text, changed by a chain of decoders. A [Detokenizer]
// (incremental.go) gives that text as tokens come, never in the middle of a
// character.
//
// # What is served
//
//	Load               tokenizer.json: BPE, byte-level (GPT-2, Llama 3, Qwen, GPT-4o, gpt-oss, DeepSeek) or with byte
//	                   fallback (Llama 2, Mistral, Gemma, Phi-3); Unigram (T5, ALBERT, XLM-R); WordPiece (BERT).
//	                   load.go, loadmodel.go, components.go
//	LoadSentencePiece  tokenizer.model, BPE or Unigram. sentencepiece.go, charsmap.go, protowire.go
//	LoadGGUF           GGUF metadata of the kinds gpt2, llama and t5. gguf.go, ggufpre.go
//
// Each refuses by name whatever else a file asks for. A further kind of model is
// a type with the method of model; a further component is a case in
// components.go or decoders.go; a further name of a pre-tokenizer in GGUF files
// is a line in ggufpre.go.
//
// # Exactness
//
// testdata/ holds what the reference makes of a corpus of unpleasant texts, for
// small tokenizers trained for it; testdata/oracle/fetch.sh makes the same for
// real vocabularies and for all code points but the insides of uniform blocks.
// The reference of tokenizer.model is SentencePiece itself, that of a GGUF file
// the same model's tokenizer.json. Where a reference is odd we follow it, and the
// code says so. We differ in these:
//
//   - Added tokens whose ids contradict the vocabulary are refused; the
//     reference renumbers them and warns.
//   - truncation and padding are ignored: callers of the reference switch them
//     off to encode a prompt.
//   - Text that is not UTF-8, which the reference can't be given, is encoded as
//     the bytes it has, except where a normalizer knows characters only.
//   - Metaspace's prepend_scheme "first" goes by whether anything stands before
//     a word. The reference goes by offsets, and so gives no space to a text whose
//     first character a normalizer removed.
//   - A Unigram's sums are float64, as in the reference, also for tokenizer.model,
//     where SentencePiece has float32 and so breaks ties of endless words at random.
//   - Tokens of escaped spaces, such as Gemma's, are spelled with spaces in GGUF
//     files, and not found where a text itself has the character U+2581.
//   - Streamed text: see [Detokenizer].
//
// # Cost
//
// Linear in the text, n log n in the length of a single word. Words are
// remembered in a cache of bounded size, without locks; vocabularies that take a
// whole text for one word have it cut where that changes nothing. A model whose
// split pattern is not one of the hand-written scanners in scan.go takes several
// times as long, and a pattern that backtracks without end is cut off with
// [ErrSplitTimeout].
package tokenizer
