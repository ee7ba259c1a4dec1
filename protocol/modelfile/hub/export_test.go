package hub

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const MaxTries = maxTries

// SetPause replaces the wait between two tries.
func (c *Client) SetPause(f func(context.Context, time.Duration) error) { c.pause = f }

// SetStall replaces the time without bytes after which a download is broken.
func (c *Client) SetStall(d time.Duration) { c.stall = d }

// WriteError is what a failed write becomes.
func (c *Client) WriteError(err error) error { return c.writeError(err) }

// Choose is listing.choose on names alone.
func Choose(names []string, part Part, gguf string, index []byte) ([]string, error) {
	l := &listing{files: map[string]file{}}
	for _, n := range names {
		l.files[n] = file{path: n}
	}
	return l.choose(part, gguf, index)
}

// ListedPaths are the file names in a hub's answer.
func ListedPaths(answer []byte) ([]string, error) {
	var info repoInfo
	if err := json.Unmarshal(answer, &info, jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, err
	}
	l, err := info.listing("")
	if err != nil {
		return nil, err
	}
	return slices.Collect(maps.Keys(l.files)), nil
}
