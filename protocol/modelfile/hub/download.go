package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
)

const (
	incomplete = ".incomplete"
	chunkBytes = 1 << 18
)

var (
	errInterrupted = errors.New("the download broke off")
	errStalled     = errors.New("nothing came for too long")
)

// blob brings one file's content, or waits for the process that does.
func (c *Client) blob(ctx context.Context, repo, commit string, f file, m *meter) error {
	path := c.blobPath(repo, f)
	if hasSize(path, f.size) {
		m.had(f.size)
		return nil
	}
	unlock, err := lock(ctx, filepath.Join(c.locksDir(repo), f.hash+".lock"), m.waiting)
	if err != nil {
		return err
	}
	defer unlock()
	if hasSize(path, f.size) { // the one before us has fetched it
		m.had(f.size)
		return nil
	}
	p, err := openPartial(path+incomplete, f, m)
	if err != nil {
		return c.writeError(err)
	}
	defer p.file.Close()
	if err := c.fill(ctx, p, c.fileURL(repo, commit, f.path)); err != nil {
		return c.writeError(err)
	}
	return c.writeError(p.finish(path))
}

// writeError gives a full disk its sentence.
func (c *Client) writeError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w in %s (%w); %s: what has come is kept", ErrNoSpace, c.cacheDir, err, moreSpace)
	}
	return err
}

// fill downloads what a partial file lacks until its checksum is right. A
// wrong one may come of an older partial file: then once more from the start.
func (c *Client) fill(ctx context.Context, p *partial, url string) error {
	for range 2 {
		err := c.retry(ctx, p.want.path, func() (progress bool, err error) {
			before := p.size
			err = c.resume(ctx, p, url)
			return p.size > before, err
		})
		if err != nil {
			return err
		}
		if p.sum() == p.want.hash {
			return nil
		}
		c.log.Warn("wrong checksum; fetching from the start", "file", p.want.path, "got", p.sum(), "want", p.want.hash)
		if err := p.restart(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s arrives %w, not as its checksum %s says: try again, or look for a proxy that changes files", p.want.path, ErrDamaged, p.want.hash)
}

// resume makes one request for the rest of a partial file.
func (c *Client) resume(ctx context.Context, p *partial, url string) error {
	if p.size == p.want.size {
		return nil
	}
	header := http.Header{}
	if p.size > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", p.size))
	}
	resp, err := c.get(ctx, c.http, http.MethodGet, url, header)
	if e := new(statusError); errors.As(err, &e) && e.status == http.StatusRequestedRangeNotSatisfiable && p.size > 0 {
		return errors.Join(fmt.Errorf("%w: the server does not go on at byte %d", errInterrupted, p.size), p.restart())
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if p.size > 0 && !goesOn(resp, p) {
		if err := p.restart(); err != nil {
			return err
		}
	}
	if resp.StatusCode == http.StatusPartialContent && p.size == 0 {
		return fmt.Errorf("%w: the server sent another part than asked for", errInterrupted)
	}
	return p.readFrom(resp.Body)
}

// goesOn says whether an answer continues where the partial file ends.
func goesOn(resp *http.Response, p *partial) bool {
	if resp.StatusCode != http.StatusPartialContent {
		return false
	}
	var from, to, size int64
	n, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &size)
	return err == nil && n == 3 && from == p.size && size == p.want.size
}

// partial is a blob on its way, with the checksum of what has come.
type partial struct {
	file *os.File
	want file
	size int64 // bytes written and summed
	hash hash.Hash
	m    *meter
}

// openPartial goes on with what an earlier try has left.
func openPartial(path string, want file, m *meter) (*partial, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	p := &partial{file: f, want: want, hash: newHash(want), m: m}
	if p.size, err = io.Copy(p.hash, f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	m.had(p.size)
	if p.size > want.size {
		if err := p.restart(); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return p, nil
}

// newHash is SHA-256, or git's checksum of an object.
func newHash(f file) hash.Hash {
	if len(f.hash) == 2*sha256.Size {
		return sha256.New()
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", f.size)
	return h
}

func (p *partial) restart() error {
	p.m.add(-p.size)
	p.size, p.hash = 0, newHash(p.want)
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return p.file.Truncate(0)
}

// readFrom takes an answer's body.
func (p *partial) readFrom(body io.Reader) error {
	buf := make([]byte, chunkBytes)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if p.size+int64(n) > p.want.size {
				return fmt.Errorf("%s is longer than the %d bytes that the hub lists: %w", p.want.path, p.want.size, ErrDamaged)
			}
			if _, err := p.file.Write(buf[:n]); err != nil {
				return err
			}
			p.hash.Write(buf[:n])
			p.size += int64(n)
			p.m.add(int64(n))
		}
		if err != nil && p.size < p.want.size {
			return fmt.Errorf("%w at byte %d of %d: %w", errInterrupted, p.size, p.want.size, err)
		}
		if err != nil {
			return nil
		}
	}
}

func (p *partial) sum() string { return hex.EncodeToString(p.hash.Sum(nil)) }

// finish gives a whole file its name, on disk before it has it.
func (p *partial) finish(path string) error {
	if err := p.file.Sync(); err != nil {
		return err
	}
	return os.Rename(p.file.Name(), path)
}
