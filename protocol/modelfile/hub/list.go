package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const maxListing = 64 << 20 // bytes of the answer; a file takes about 200

// repoInfo is the answer of /api/models/REPO/revision/REV?blobs=true. A mirror
// may leave out sizes and checksums.
type repoInfo struct {
	SHA      string `json:"sha"`
	Siblings []struct {
		Name   string `json:"rfilename"`
		Size   int64  `json:"size"`
		BlobID string `json:"blobId"`
		LFS    *struct {
			SHA256 string `json:"sha256"`
			Size   int64  `json:"size"`
		} `json:"lfs"`
	} `json:"siblings"`
}

// list asks the hub for the commit of a revision and its files.
func (c *Client) list(ctx context.Context, req Request) (*listing, error) {
	if c.offline != "" {
		return nil, fmt.Errorf("%s, so the hub is %w", c.offline, ErrUnreachable)
	}
	address := fmt.Sprintf("%s/api/models/%s/revision/%s?blobs=true", c.endpoint, escape(req.Repo), url.PathEscape(req.Revision))
	var info repoInfo
	err := c.retry(ctx, "list of files", func() (progress bool, err error) {
		resp, err := c.get(ctx, c.http, http.MethodGet, address, nil)
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(io.LimitReader(resp.Body, maxListing))
		if err != nil {
			return false, fmt.Errorf("%w: %w", errInterrupted, err)
		}
		info = repoInfo{}
		if err := json.Unmarshal(data, &info, jsontext.AllowDuplicateNames(true)); err != nil {
			return false, fmt.Errorf("%s does not answer as the hub does: %w list of files; check HF_ENDPOINT and the proxy", c.endpoint, ErrInvalid)
		}
		return false, nil
	})
	if err != nil {
		return nil, c.explain(req, err)
	}
	return info.listing(c.endpoint)
}

func (info *repoInfo) listing(endpoint string) (*listing, error) {
	if !commitForm.MatchString(info.SHA) {
		return nil, fmt.Errorf("%s does not answer as the hub does: %w commit %q; check HF_ENDPOINT", endpoint, ErrInvalid, info.SHA)
	}
	l := &listing{commit: info.SHA, files: make(map[string]file)}
	for _, s := range info.Siblings {
		if err := checkPath(s.Name); err != nil {
			return nil, err
		}
		f := file{path: s.Name, size: s.Size, hash: s.BlobID}
		if s.LFS != nil {
			f.size, f.hash = s.LFS.Size, s.LFS.SHA256
		}
		if f.hash != "" && !isHash(f.hash) {
			return nil, fmt.Errorf("%s: %w checksum %q", s.Name, ErrInvalid, f.hash)
		}
		if f.size < 0 {
			return nil, fmt.Errorf("%s: %w size %d", s.Name, ErrInvalid, f.size)
		}
		l.files[s.Name] = f
	}
	return l, nil
}

func isHash(s string) bool { return commitForm.MatchString(s) || sha256Form.MatchString(s) }

// complete asks for the size and the checksum of files whose listing has none.
func (c *Client) complete(ctx context.Context, req Request, l *listing, paths []string) error {
	for _, p := range paths {
		f := l.files[p]
		if f.hash != "" {
			continue
		}
		err := c.retry(ctx, p, func() (progress bool, err error) {
			resp, err := c.get(ctx, c.httpHere, http.MethodHead, c.fileURL(req.Repo, l.commit, p), nil)
			if err != nil {
				return false, err
			}
			defer resp.Body.Close()
			f.hash = hashOf(resp.Header)
			f.size = resp.ContentLength
			if resp.StatusCode != http.StatusOK { // a redirect, which has a length of its own
				f.size = -1
			}
			if n, err := strconv.ParseInt(resp.Header.Get("X-Linked-Size"), 10, 64); err == nil {
				f.size = n
			}
			if f.size < 0 || !isHash(f.hash) {
				return false, fmt.Errorf("%s: %w: the server tells neither checksum nor size; check HF_ENDPOINT", p, ErrInvalid)
			}
			return false, nil
		})
		if err != nil {
			return c.explain(req, err)
		}
		l.files[p] = f
	}
	return nil
}

// hashOf takes the checksum of the file behind a redirect, else of the answer.
func hashOf(h http.Header) string {
	return strings.Trim(strings.TrimPrefix(cmp.Or(h.Get("X-Linked-Etag"), h.Get("ETag")), "W/"), `"`)
}

func (c *Client) fileURL(repo, commit, path string) string {
	return fmt.Sprintf("%s/%s/resolve/%s/%s", c.endpoint, escape(repo), commit, escape(path))
}

// cached lists what the cache holds of a revision.
func (c *Client) cached(req Request) (*listing, error) {
	l := &listing{commit: req.Revision, files: make(map[string]file)}
	if !commitForm.MatchString(l.commit) {
		ref, err := os.ReadFile(filepath.Join(c.repoDir(req.Repo), "refs", filepath.FromSlash(req.Revision)))
		if err != nil {
			return nil, fmt.Errorf("revision %s %w", req.Revision, ErrNotFound)
		}
		if l.commit = strings.TrimSpace(string(ref)); !commitForm.MatchString(l.commit) {
			return nil, fmt.Errorf("revision %s: %w commit %q", req.Revision, ErrInvalid, l.commit)
		}
	}
	dir := c.snapshot(req.Repo, l.commit)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := os.Stat(path) // through the link
		if err != nil {
			return nil // a link whose blob is gone: the file is not there
		}
		rel, err := filepath.Rel(dir, path)
		rel = filepath.ToSlash(rel)
		l.files[rel] = file{path: rel, size: info.Size()}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("commit %s %w", l.commit, ErrNotFound)
	}
	return l, err
}
