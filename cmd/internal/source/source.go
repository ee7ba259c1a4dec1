// Package source turns the name of a model into the path of its files: what is
// on this machine stays where it is, the rest comes from the Hugging Face hub.
package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"govllm/cmd/internal/flags"
	"govllm/protocol/modelfile"
	"govllm/protocol/modelfile/hub"
)

// Want is a model or a tokenizer, as the user names it.
type Want struct {
	Name     string // "builtin", a directory, a .gguf file, or OWNER/NAME[:GGUF] of the hub
	Revision string // of the hub's repository; "": main
	Part     hub.Part
}

// words for messages: what is wanted, and the flag of its revision.
func (w Want) words() (what, revisionFlag string) {
	if w.Part == hub.Tokenizer {
		return "tokenizer", "--tokenizer-revision"
	}
	return "model", "--revision"
}

// Path returns what modelfile.Open takes: the name itself if it is here, else
// the path in the cache, fetched first if need be. What is neither here nor
// could be on the hub is left to modelfile.Open to refuse.
func Path(ctx context.Context, want Want, opt *flags.Hub, log *slog.Logger) (string, error) {
	what, revisionFlag := want.words()
	repo, gguf, isHub := hub.ParseName(want.Name)
	if _, err := os.Stat(want.Name); err == nil || !errors.Is(err, fs.ErrNotExist) || want.Name == modelfile.Builtin || !isHub {
		if want.Revision != "" {
			return "", fmt.Errorf("%s %s is for repositories of the Hugging Face hub, which the %s %s is not; leave it out", revisionFlag, want.Revision, what, want.Name)
		}
		return want.Name, nil
	}
	client, err := newClient(opt, log)
	if err != nil {
		return "", err
	}
	path, err := client.Fetch(ctx, hub.Request{Repo: repo, GGUF: gguf, Revision: want.Revision, Part: want.Part})
	if err := ctx.Err(); err != nil {
		return "", err
	}
	switch {
	case errors.Is(err, hub.ErrNotFound), errors.Is(err, hub.ErrUnreachable):
		return "", fmt.Errorf("%s %s is neither a directory here nor to be had from the hub: %w", what, want.Name, err)
	case err != nil:
		return "", fmt.Errorf("%s %s: %w", what, want.Name, err)
	}
	return path, nil
}

func newClient(opt *flags.Hub, log *slog.Logger) (*hub.Client, error) {
	token := opt.Token
	if strings.EqualFold(token, "true") { // vLLM's word for the one that is stored
		token = ""
	}
	return hub.New(hub.Options{CacheDir: opt.DownloadDir, Token: token, Log: log, Terminal: terminal(os.Stderr)})
}

// terminal returns f if somebody may watch it.
func terminal(f *os.File) io.Writer {
	if info, err := f.Stat(); err == nil && info.Mode()&fs.ModeCharDevice != 0 {
		return f
	}
	return nil
}
