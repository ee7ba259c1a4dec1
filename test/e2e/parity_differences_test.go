package e2e

var parityDifferences = []parityDifference{
	// Errors.
	{"*", "0.error.message", "our sentences name the field, the value, the bound and the way out"},
	{"*", "0.error.param", "a refusal always names its field, as the request spells it; vLLM often gives null, and for schema errors a path through its own classes"},
	{"chat seven errors", "0.error.type", "a schema error like any other; vLLM iterates over the number before it looks at its type"},
	{"no such route", "0.*", "one shape for all errors"},
	{"completion GET", "0.*", "one shape for all errors"},

	{"completion truncate_prompt_tokens -2", "0.error.type", "a bound of the value, refused with every other bound"},
	{"completion prompt mixed", "0.error.type", "the list's elements are looked at where prompts are, after the schema"},
	{"chat empty messages", "0.error.type", "no messages are no different from none given"},

	// Refused here, by name.
	{"completion stream and best_of", "*", "best_of is gone from the API: it is refused rather than ignored"},
	{"completion stream and best_of", "0.*", "best_of is gone from the API: it is refused rather than ignored"},
	{"completion use_beam_search", "*", "beam search is not served: it is refused rather than ignored"},
	{"completion use_beam_search", "0.*", "beam search is not served: it is refused rather than ignored"},
	{"detokenize beyond", "*", "an ID beyond the vocabulary has no text; vLLM drops it silently"},
	{"detokenize beyond", "0.*", "an ID beyond the vocabulary has no text; vLLM drops it silently"},

	// Served here.
	{"completion nulls", "*", "null means the default for every field, as in the OpenAI API; vLLM refuses it for n"},
	{"completion nulls", "0.*", "null means the default for every field, as in the OpenAI API; vLLM refuses it for n"},
	{"chat tool_choice auto", "*", "the tools are shown to the template; the answer is plain text until tool parsers are served"},
	{"chat tool_choice auto", "0.*", "the tools are shown to the template; the answer is plain text until tool parsers are served"},

	// The same, told otherwise.
	{"completion return_tokens_as_token_ids", "0.choices.0.logprobs.text_offset.*", "offsets count the text's code points; vLLM counts those of the placeholders"},
	{"chat return_tokens_as_token_ids", "0.choices.0.logprobs.content.*.top_logprobs.*.bytes", "bytes are the token's; vLLM gives those of the placeholder"},
	{"completion partial characters", "0.choices.0.logprobs.*.*", "the token that completes a character carries it, so that tokens join to the text; vLLM writes U+FFFD for the first byte and nothing for the last"},
	{"completion partial characters", "0.choices.0.logprobs.*.*.*", "the token that completes a character carries it"},
	{"completion partial characters", "0.choices.0.prompt_logprobs.*.*.decoded_token", "the token that completes a character carries it"},
}
