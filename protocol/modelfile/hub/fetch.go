package hub

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
)

// parallelFiles is huggingface_hub's default.
const parallelFiles = 8

// Request names what to fetch.
type Request struct {
	Repo     string // OWNER/NAME
	GGUF     string // a quantization or a file, in a repository of GGUF files: all that is fetched
	Revision string // branch, tag or commit; "": main
	Part     Part
}

// Fetch brings what is missing into the cache and returns the path of the
// snapshot's directory, or of the (first) GGUF file in it. Where the hub cannot be
// reached, a copy in the cache that has all that is wanted will do.
func (c *Client) Fetch(ctx context.Context, req Request) (string, error) {
	if req.Revision == "" {
		req.Revision = "main"
	}
	if err := checkRevision(req.Revision); err != nil {
		return "", err
	}
	if _, _, ok := ParseName(req.Repo); !ok {
		return "", fmt.Errorf("%q: %w repository; must be OWNER/NAME", req.Repo, ErrInvalid)
	}
	l, err := c.list(ctx, req)
	if errors.Is(err, ErrUnreachable) {
		return c.fromCache(req, err)
	}
	if err != nil {
		return "", err
	}
	paths, err := c.fetch(ctx, req, l)
	if err != nil {
		return "", err
	}
	if err := c.writeRef(req, l.commit); err != nil { // a cache that may only be read serves too
		c.log.Warn("the cache will not know the revision without network", "model", req.Repo, "revision", req.Revision, "error", err)
	}
	return c.result(req, l, paths), nil
}

// fetch brings the index first, if it decides which files are weights, then
// all the rest at once.
func (c *Client) fetch(ctx context.Context, req Request, l *listing) ([]string, error) {
	var index []byte
	if req.Part == Everything && req.GGUF == "" && l.has(indexFile) {
		if err := c.download(ctx, req, l, []string{indexFile}); err != nil {
			return nil, err
		}
		var err error
		if index, err = os.ReadFile(c.pointer(req.Repo, l.commit, indexFile)); err != nil {
			return nil, err
		}
	}
	paths, err := l.choose(req.Part, req.GGUF, index)
	if err != nil {
		return nil, err
	}
	return paths, c.download(ctx, req, l, paths)
}

func (c *Client) result(req Request, l *listing, paths []string) string {
	if req.GGUF != "" {
		return c.pointer(req.Repo, l.commit, paths[0])
	}
	return c.snapshot(req.Repo, l.commit)
}

// fromCache serves without the hub, for the reason in cause.
func (c *Client) fromCache(req Request, cause error) (string, error) {
	l, err := c.cached(req)
	if err != nil {
		return "", fmt.Errorf("%w, and the cache in %s has no copy (%w); %s", cause, c.cacheDir, err, c.wayOnline())
	}
	index, _ := os.ReadFile(c.pointer(req.Repo, l.commit, indexFile)) // choose says what it lacks
	paths, err := l.choose(req.Part, req.GGUF, index)
	if err != nil {
		return "", fmt.Errorf("%w, and the copy in the cache in %s lacks something (%w); %s", cause, c.cacheDir, err, c.wayOnline())
	}
	if c.offline == "" {
		c.log.Warn("using the copy in the cache", "model", req.Repo, "commit", l.commit, "error", cause)
	}
	return c.result(req, l, paths), nil
}

func (c *Client) wayOnline() string {
	if c.offline != "" {
		return "fetch it once with the network, or give a local directory"
	}
	return "check the network (HTTPS_PROXY for a proxy, HF_ENDPOINT for a mirror), or give a local directory"
}

// download brings files of one commit into the cache and their links into its
// snapshot, several at a time.
func (c *Client) download(ctx context.Context, req Request, l *listing, paths []string) error {
	if err := c.complete(ctx, req, l, paths); err != nil {
		return err
	}
	missing := c.missing(req.Repo, l, paths)
	if len(missing) == 0 {
		return nil
	}
	if err := c.makeRoom(req.Repo, missing); err != nil {
		return err
	}
	m := newMeter(c, req.Repo, missing)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelFiles)
	for _, same := range missing {
		group.Go(func() error {
			err := c.blob(ctx, req.Repo, l.commit, same[0], m)
			for _, f := range same {
				if err == nil {
					err = c.link(req.Repo, l.commit, f)
				}
			}
			return err
		})
	}
	err := group.Wait()
	m.close()
	if err != nil {
		return unfinished(c.explain(req, err))
	}
	m.finished(l.commit)
	return nil
}

// unfinished says that a download which the network has ended can go on.
func unfinished(err error) error {
	if errors.Is(err, ErrUnreachable) || errors.Is(err, errInterrupted) {
		return fmt.Errorf("%w; try again: what has come is kept", err)
	}
	return err
}

// missing are the files without a link to a blob of the right size, those of
// the same content together.
func (c *Client) missing(repo string, l *listing, paths []string) map[string][]file {
	missing := make(map[string][]file)
	for _, p := range paths {
		f := l.files[p]
		if !hasSize(c.pointer(repo, l.commit, p), f.size) {
			missing[f.hash] = append(missing[f.hash], f)
		}
	}
	return missing
}

// makeRoom makes the cache's folders and checks that the files fit.
func (c *Client) makeRoom(repo string, missing map[string][]file) error {
	blobs := filepath.Join(c.repoDir(repo), "blobs")
	for _, dir := range []string{blobs, c.locksDir(repo)} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return fmt.Errorf("the cache in %s: %w; choose another folder with --download-dir or HF_HOME", c.cacheDir, err)
		}
	}
	need := int64(0)
	for _, same := range missing {
		f := same[0]
		if blob := c.blobPath(repo, f); !hasSize(blob, f.size) {
			need += f.size - sizeOf(blob+incomplete)
		}
	}
	if free, ok := freeBytes(blobs); ok && need > free {
		return fmt.Errorf("%w: %s more are needed in %s, which has %s left; %s",
			ErrNoSpace, bytesText(need), c.cacheDir, bytesText(free), moreSpace)
	}
	return nil
}

const moreSpace = "make room, or choose another disk with --download-dir or HF_HOME"

// writeRef notes a branch's or tag's commit, for who comes without network.
func (c *Client) writeRef(req Request, commit string) error {
	path := filepath.Join(c.repoDir(req.Repo), "refs", filepath.FromSlash(req.Revision))
	if old, err := os.ReadFile(path); req.Revision == commit || (err == nil && string(old) == commit) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".ref-*")
	if err != nil {
		return err
	}
	_, err = tmp.WriteString(commit)
	if err = errors.Join(err, tmp.Chmod(0o644), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// link makes the snapshot's link to a blob; where the file system has no
// links, the blob itself moves there.
func (c *Client) link(repo, commit string, f file) error {
	pointer, blob := c.pointer(repo, commit, f.path), c.blobPath(repo, f)
	if err := os.MkdirAll(filepath.Dir(pointer), 0o777); err != nil {
		return err
	}
	target, err := filepath.Rel(filepath.Dir(pointer), blob)
	if err != nil {
		return err
	}
	tmp := pointer + "." + rand.Text()
	if err := os.Symlink(target, tmp); err != nil {
		return os.Rename(blob, pointer)
	}
	return os.Rename(tmp, pointer)
}

func (c *Client) repoDir(repo string) string { return filepath.Join(c.cacheDir, folder(repo)) }
func (c *Client) locksDir(repo string) string {
	return filepath.Join(c.cacheDir, ".locks", folder(repo))
}
func (c *Client) blobPath(repo string, f file) string {
	return filepath.Join(c.repoDir(repo), "blobs", f.hash)
}
func (c *Client) snapshot(repo, commit string) string {
	return filepath.Join(c.repoDir(repo), "snapshots", commit)
}
func (c *Client) pointer(repo, commit, path string) string {
	return filepath.Join(c.snapshot(repo, commit), filepath.FromSlash(path))
}

func hasSize(path string, size int64) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() == size
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
