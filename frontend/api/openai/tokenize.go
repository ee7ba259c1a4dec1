package openai

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
)

// tokenizeRequest is the body of POST /tokenize: a prompt, or a conversation.
// Source: vllm/entrypoints/serve/tokenize/protocol.py.
type tokenizeRequest struct {
	conversation
	Model           string
	Prompt          string
	hasPrompt       bool
	ReturnTokenStrs bool
}

type tokenizeResponse struct {
	Count       int      `json:"count"`
	MaxModelLen int      `json:"max_model_len"`
	Tokens      []int32  `json:"tokens"`
	TokenStrs   []string `json:"token_strs"`
}

func (t *tokenizeRequest) fields() []field {
	return append(t.conversation.fields(),
		stringField("model", &t.Model),
		field{"prompt", stringSchema, func(raw jsontext.Value) *APIError {
			t.hasPrompt = raw.Kind() != 'n'
			return stringField("prompt", &t.Prompt).set(raw)
		}},
		boolField("return_token_strs", &t.ReturnTokenStrs),
	)
}

func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	var t tokenizeRequest
	unknown, err := decodeBody(r, t.fields())
	if err == nil {
		s.logUnknown(unknown)
		err = firstError(s.checkModel(t.Model))
	}
	var ids []int32
	if err == nil {
		ids, err = s.tokenizeIDs(r.Context(), &t)
	}
	if err != nil {
		s.fail(w, r, err, "")
		return
	}
	resp := tokenizeResponse{Count: len(ids), MaxModelLen: s.cfg.MaxModelLen, Tokens: orEmpty(ids)}
	if t.ReturnTokenStrs {
		resp.TokenStrs = make([]string, len(ids))
		for i, id := range ids {
			resp.TokenStrs[i], _ = s.cfg.Tokenizer.IDToToken(id)
		}
	}
	writeJSON(w, http.StatusOK, resp)
}

func (s *Server) tokenizeIDs(ctx context.Context, t *tokenizeRequest) ([]int32, error) {
	if t.hasPrompt {
		return s.cfg.Tokenizer.Encode(t.Prompt, deref(t.AddSpecialTokens, true))
	}
	if t.Messages == nil {
		return nil, malformed("prompt", "Either `prompt` or `messages` must be provided.")
	}
	var errs complaints
	if s.validateConversation(&t.conversation, &errs); len(errs) > 0 {
		return nil, joinErrors(errs)
	}
	prompt, err := s.renderChat(ctx, &t.conversation, tokenizing{addSpecial: deref(t.AddSpecialTokens, false)})
	return prompt.ids, err
}

func detokenizeFields(model *string, tokens *[]int32) []field {
	return []field{stringField("model", model), tokenIDsField("tokens", tokens)}
}

// detokenize serves POST /detokenize: {"tokens": […]} to {"prompt": "…"}.
func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) {
	var model string
	var tokens []int32
	unknown, err := decodeBody(r, detokenizeFields(&model, &tokens))
	if err == nil {
		s.logUnknown(unknown)
		err = firstError(s.checkModel(model))
	}
	if err == nil && tokens == nil {
		err = malformed("tokens", "`tokens` must be provided.")
	}
	for _, id := range tokens {
		if int(id) >= s.cfg.Tokenizer.VocabSize() {
			err = invalid("tokens", "Token ID %d is out of vocabulary: the highest is %d.", id, s.cfg.Tokenizer.VocabSize()-1)
			break
		}
	}
	if err != nil {
		s.fail(w, r, err, "")
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"prompt": s.cfg.Tokenizer.Decode(tokens, false)})
}
