package tokenizer

// GGUF is a vocabulary as the metadata of a GGUF file hold it, under the keys
// tokenizer.ggml.* and tokenizer.chat_template. A pointer is nil where the file
// has no such key.
type GGUF struct {
	Model   string    // model: the kind of vocabulary
	Pre     string    // pre: the name of the pre-tokenizer; "" is none named
	Tokens  []string  // tokens, by id
	Scores  []float32 // scores, by id; nil if the kind has none
	Types   []int32   // token_type, by id; nil: all are normal
	Merges  []string  // merges, "left right", the first with rank 0
	Charmap []byte    // precompiled_charsmap

	BOS, EOS, UNK, SEP, PAD *int32 // bos_token_id, eos_token_id, unknown_token_id, seperator_token_id, padding_token_id

	AddBOS, AddEOS, AddSEP *bool // add_bos_token, add_eos_token, add_sep_token
	AddSpacePrefix         *bool // add_space_prefix
	RemoveExtraWhitespaces *bool // remove_extra_whitespaces

	ChatTemplate string // tokenizer.chat_template, for the caller: the tokenizer has no use for it
}
