package openai

import (
	"net/http"

	"govllm/frontend/api/httpserver"
)

// modelCard is one entry of GET /v1/models.
// Source: vllm/entrypoints/serve/engine/protocol.py, ModelCard.
type modelCard struct {
	ID          string            `json:"id"`
	Object      string            `json:"object"`
	Created     int64             `json:"created"`
	OwnedBy     string            `json:"owned_by"`
	Root        string            `json:"root"`
	Parent      *string           `json:"parent"`
	MaxModelLen int               `json:"max_model_len"`
	Permission  []modelPermission `json:"permission"`
}

type modelPermission struct {
	ID                 string  `json:"id"`
	Object             string  `json:"object"`
	Created            int64   `json:"created"`
	AllowCreateEngine  bool    `json:"allow_create_engine"`
	AllowSampling      bool    `json:"allow_sampling"`
	AllowLogprobs      bool    `json:"allow_logprobs"`
	AllowSearchIndices bool    `json:"allow_search_indices"`
	AllowView          bool    `json:"allow_view"`
	AllowFineTuning    bool    `json:"allow_fine_tuning"`
	Organization       string  `json:"organization"`
	Group              *string `json:"group"`
	IsBlocking         bool    `json:"is_blocking"`
}

type modelList struct {
	Object string      `json:"object"`
	Data   []modelCard `json:"data"`
}

// listModels serves GET /v1/models: one card per served name.
func (s *Server) listModels(w http.ResponseWriter, _ *http.Request) {
	list := modelList{Object: "list", Data: []modelCard{}}
	for _, name := range s.cfg.ServedModelNames {
		list.Data = append(list.Data, s.card(name))
	}
	writeJSON(w, http.StatusOK, list)
}

// retrieveModel serves GET /v1/models/{model}, which vLLM lacks and OpenAI's
// clients have a method for. Names may hold slashes.
func (s *Server) retrieveModel(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("model")
	if err := s.findModel(name); err != nil {
		s.cfg.ErrorFormat.Write(w, err)
		return
	}
	writeJSON(w, http.StatusOK, s.card(name))
}

func (s *Server) card(name string) modelCard {
	now := s.now().Unix()
	return modelCard{
		ID: name, Object: "model", Created: now, OwnedBy: "vllm", Root: s.cfg.ModelRoot, MaxModelLen: s.cfg.MaxModelLen,
		Permission: []modelPermission{{
			ID: "modelperm-" + httpserver.NewID(), Object: "model_permission", Created: now,
			AllowSampling: true, AllowLogprobs: true, AllowView: true, Organization: "*",
		}},
	}
}
