package openai

import (
	"time"

	"govllm/frontend/chat/jinja"
)

// Options say what requests may bring and what answers hold. The zero value is
// vLLM's default.
type Options struct {
	// TrustRequestTemplate lets requests bring a chat template of their own
	// (--trust-request-chat-template). It runs with less room than the model's.
	TrustRequestTemplate bool
	// TemplateKwargs are chat_template_kwargs of requests that do not set them
	// (--default-chat-template-kwargs); nil: none.
	TemplateKwargs *jinja.Dict
	// ExcludeToolsForNone hides tools from the template if tool_choice is none
	// (--exclude-tools-when-tool-choice-none).
	ExcludeToolsForNone bool

	// TokensAsTokenIDs names tokens in log probabilities token_id:N where a
	// request does not say (--return-tokens-as-token-ids).
	TokensAsTokenIDs bool
	// PromptTokensDetails tells cached tokens in usage
	// (--enable-prompt-tokens-details).
	PromptTokensDetails bool
	// ForceIncludeUsage puts usage on every chunk of every stream
	// (--enable-force-include-usage).
	ForceIncludeUsage bool
	// SystemFingerprint is told in answers (--fingerprint-mode); "": null.
	SystemFingerprint string
	// StreamInterval is how many tokens a chunk gathers at least, but for the
	// first and the last (--stream-interval); 0 and 1: none.
	StreamInterval int
	// SSEKeepAlive is after how long without an event a stream gets a comment
	// (--sse-keep-alive-interval); 0: never.
	SSEKeepAlive time.Duration
}
