package flags

import (
	"math"

	"govllm/cmd/internal/cli"
)

// Answers are the options of vllm-frontend that say what requests may bring
// and what answers hold.
type Answers struct {
	TrustRequestTemplate bool
	TemplateKwargs       map[string]any
	ExcludeToolsForNone  bool
	TokensAsTokenIDs     bool
	PromptTokensDetails  bool
	ForceIncludeUsage    bool
	StreamInterval       int // tokens
	FingerprintMode      string
	FingerprintValue     string
}

func defaultAnswers() Answers { return Answers{StreamInterval: 1, FingerprintMode: "full"} }

func answerFlags(a *Answers) []cli.Flag {
	return []cli.Flag{
		{Name: "trust-request-chat-template", Group: "Answers", Help: "requests may bring their own chat template; its work is bounded", Value: cli.Bool(&a.TrustRequestTemplate)},
		{Name: "default-chat-template-kwargs", Group: "Answers", Help: "chat_template_kwargs of requests that do not set them", Value: cli.JSON(&a.TemplateKwargs)},
		{Name: "exclude-tools-when-tool-choice-none", Group: "Answers", Help: "the template does not see the tools of a request whose tool_choice is none", Value: cli.Bool(&a.ExcludeToolsForNone)},
		{Name: "return-tokens-as-token-ids", Group: "Answers", Help: "log probabilities name tokens token_id:N, unless a request says otherwise", Value: cli.Bool(&a.TokensAsTokenIDs)},
		{Name: "enable-prompt-tokens-details", Group: "Answers", Help: "usage tells how many prompt tokens came from the cache", Value: cli.Bool(&a.PromptTokensDetails)},
		{Name: "enable-force-include-usage", Group: "Answers", Help: "every chunk of every stream has the usage, asked or not", Value: cli.Bool(&a.ForceIncludeUsage)},
		{Name: "fingerprint-mode", Group: "Answers", Help: "system_fingerprint of answers: full (version, engines, configuration), hash (without the engines), custom or none", Value: cli.Enum(&a.FingerprintMode, "full", "hash", "custom", "none")},
		{Name: "fingerprint-value", Group: "Answers", Help: "the custom one", Value: cli.String(&a.FingerprintValue)},
		{Name: "enable-scale-out", Group: "Answers", Help: "serve /inference/v1/generate and the render routes", Value: cli.FixedSwitch(true, "they are always served; close them with a proxy")},
		{Name: "stream-interval", Group: "Answers", Help: "tokens that a chunk gathers at least, but for the first and the last; a request can raise it", Value: cli.Int(&a.StreamInterval, 1, math.MaxInt32)},
	}
}
