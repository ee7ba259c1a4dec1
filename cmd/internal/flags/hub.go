package flags

import "govllm/cmd/internal/cli"

// Hub are the options of fetching from the Hugging Face hub.
type Hub struct {
	Revision    string // "": main
	Token       string // "": from the environment; "true" too
	DownloadDir string // "": from the environment
}

func hubFlags(h *Hub) []cli.Flag {
	return []cli.Flag{
		{Name: "revision", Group: "Model", Help: "branch, tag or commit of the hub's repository; main if not given", Value: cli.String(&h.Revision)},
		{Name: "hf-token", Group: "Model", Help: "token for gated and private models; better in HF_TOKEN, since others can see a command line", Value: cli.Secret(&h.Token)},
		{Name: "download-dir", Group: "Model", Help: "folder for fetched models; HF_HUB_CACHE or ~/.cache/huggingface/hub if not given", Value: cli.String(&h.DownloadDir)},
	}
}

// FetchCommand is the command that only fetches.
const FetchCommand = "fetch-model"

// Fetch are the options of fetch-model.
type Fetch struct {
	Model string
	Hub
}

const fetchSummary = `
usage: fetch-model MODEL [flags]

Fetches a model of the Hugging Face hub, if it is not there yet, and prints the
path to give to vllm-core and vllm-frontend as --model. MODEL is OWNER/NAME, or
OWNER/NAME:Q4_K_M for one of its GGUF files.`

// NewFetch returns fetch-model's options and their flags.
func NewFetch() (*Fetch, *cli.Set) {
	f := &Fetch{}
	return f, &cli.Set{Command: FetchCommand, Summary: fetchSummary, Positional: "model", Flags: append([]cli.Flag{
		{Name: "model", Group: "Model", Help: "the model", Value: cli.String(&f.Model)},
	}, hubFlags(&f.Hub)...)}
}
