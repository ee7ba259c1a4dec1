package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	maxRedirects = 10

	maxTries           = 6 // in a row that bring nothing
	maxTriesUnanswered = 2 // of a hub that has not answered yet

	firstPause   = 500 * time.Millisecond
	longestPause = 8 * time.Second
	longestWait  = 60 * time.Second // that a server may ask for
)

// statusError is an answer other than success.
type statusError struct {
	status  int
	code    string // X-Error-Code: the hub's word for it
	message string // X-Error-Message
	after   time.Duration
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("%d %s", e.status, http.StatusText(e.status))
	if e.message != "" {
		text += ": " + e.message
	}
	return text
}

// withoutTokenElsewhere lets only the hub itself see the token. net/http alone
// would send it on to other ports and to subdomains.
func withoutTokenElsewhere(req *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	if !sameOrigin(req.URL, via[0].URL) {
		req.Header.Del("Authorization")
	}
	return nil
}

// stayHere follows redirects of the hub (to a repository's new name) and shows
// those to other hosts, whose headers describe the file.
func stayHere(req *http.Request, via []*http.Request) error {
	if !sameOrigin(req.URL, via[0].URL) {
		return http.ErrUseLastResponse
	}
	return withoutTokenElsewhere(req, via)
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }

// get asks the hub once. An answer of 400 or more is a *statusError, none at
// all an ErrUnreachable.
func (c *Client) get(ctx context.Context, client *http.Client, method, url string, header http.Header) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	resp, err := c.send(ctx, client, method, url, header)
	if err == nil && resp.StatusCode >= 400 {
		err = errors.Join(newStatusError(resp), resp.Body.Close())
	}
	if err != nil {
		cancel(nil)
		return nil, err
	}
	resp.Body = &body{ReadCloser: resp.Body, ctx: ctx, cancel: cancel, stall: c.stall,
		timer: time.AfterFunc(c.stall, func() { cancel(errStalled) })}
	return resp, nil
}

func (c *Client) send(ctx context.Context, client *http.Client, method, url string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, header)
	req.Header.Set("User-Agent", "govllm")
	req.Header.Set("Accept-Encoding", "identity") // sizes and ranges are those of the file
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := client.Do(req)
	switch {
	case err == nil:
		c.answered.Store(true)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	default:
		err = c.unreachable(err)
	}
	return resp, err
}

// body is an answer's body that fails when nothing comes for too long.
type body struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	stall  time.Duration
	timer  *time.Timer
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.timer.Reset(b.stall)
	if cause := context.Cause(b.ctx); err != nil && cause != nil {
		err = cause
	}
	return n, err
}

func (b *body) Close() error {
	b.timer.Stop()
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

func newStatusError(resp *http.Response) *statusError {
	e := &statusError{status: resp.StatusCode, code: resp.Header.Get("X-Error-Code"), message: resp.Header.Get("X-Error-Message")}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.after = min(time.Duration(seconds)*time.Second, longestWait)
	}
	return e
}

func (c *Client) unreachable(err error) error {
	if wrapped := new(url.Error); errors.As(err, &wrapped) {
		err = wrapped.Err // without the address, which may be signed
	}
	return fmt.Errorf("%s is %w (%w)", c.endpoint, ErrUnreachable, err)
}

// mayPass says whether trying again could help.
func (c *Client) mayPass(err error) bool {
	if e := new(statusError); errors.As(err, &e) {
		switch e.status {
		case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
			http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	}
	if e := new(net.DNSError); errors.As(err, &e) && e.IsNotFound && !c.answered.Load() {
		return false // no network, or no such host
	}
	return errors.Is(err, ErrUnreachable) || errors.Is(err, errInterrupted)
}

// retry calls try until it succeeds, fails for good, or has failed several
// times in a row without progress; twice are enough for a hub that has never
// answered, so that who has no network soon knows.
func (c *Client) retry(ctx context.Context, what string, try func() (progress bool, err error)) error {
	for failures := 0; ; {
		progress, err := try()
		if err == nil || ctx.Err() != nil || !c.mayPass(err) {
			return err
		}
		if progress {
			failures = 0
		}
		failures++
		if failures >= maxTries || (failures >= maxTriesUnanswered && !c.answered.Load()) {
			return err
		}
		wait := backoff(failures)
		if e := new(statusError); errors.As(err, &e) {
			wait = max(wait, e.after)
		}
		c.log.Warn("trying again", "what", what, "in", wait.Round(time.Millisecond), "error", err)
		if err := c.pause(ctx, wait); err != nil {
			return err
		}
	}
}

// backoff doubles, and is spread so that many clients do not come at once.
func backoff(failures int) time.Duration {
	d := min(firstPause<<(failures-1), longestPause)
	return d/2 + rand.N(d/2)
}

// explain turns a refusal of the hub into what the user can do about it.
func (c *Client) explain(req Request, err error) error {
	e := new(statusError)
	if !errors.As(err, &e) {
		return err
	}
	page := c.endpoint + "/" + req.Repo
	switch {
	case e.code == "RevisionNotFound":
		return fmt.Errorf("revision %q %w; the branches and tags are at %s/tree/main", req.Revision, ErrNotFound, page)
	case e.code == "EntryNotFound":
		return fmt.Errorf("a file that %s lists is %w there", page, ErrNotFound)
	case e.code == "GatedRepo" && c.token == "":
		return fmt.Errorf("%w: it is gated; accept its terms at %s, then set HF_TOKEN to a token of that account", ErrDenied, page)
	case e.code == "GatedRepo":
		return fmt.Errorf("%w: it is gated; accept its terms at %s with the account of %s", ErrDenied, page, c.tokenFrom)
	case e.status == http.StatusUnauthorized && c.token != "" && e.code != "RepoNotFound":
		return fmt.Errorf("%w: %s does not accept %s; make a new one at %[2]s/settings/tokens", ErrDenied, c.endpoint, c.tokenFrom)
	case e.status == http.StatusUnauthorized, e.status == http.StatusNotFound:
		return fmt.Errorf("%w at %s; check the spelling, or if it is private %s", ErrNotFound, page, c.tokenAdvice())
	case e.status == http.StatusForbidden:
		return fmt.Errorf("%w (%w); %s", ErrDenied, e, c.tokenAdvice())
	case e.status == http.StatusTooManyRequests:
		return fmt.Errorf("%s is %w (%w; wait some minutes, or %s)", c.endpoint, ErrUnreachable, e, c.tokenAdvice())
	case e.status >= 500:
		return fmt.Errorf("%s is %w (%w)", c.endpoint, ErrUnreachable, e)
	}
	return fmt.Errorf("%s answers %w", page, e)
}

func (c *Client) tokenAdvice() string {
	if c.token == "" {
		return "set HF_TOKEN to a token that may read it"
	}
	return "give a token that may read it: " + c.tokenFrom + " may not"
}

// escape writes a path into an address.
func escape(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}
