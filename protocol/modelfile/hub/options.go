package hub

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

const (
	defaultEndpoint = "https://huggingface.co"
	dialTimeout     = 10 * time.Second
	answerTimeout   = 30 * time.Second // from a request's end to its answer's beginning
	stallTimeout    = 30 * time.Second // a download that brings nothing for this long is broken
)

// Options of a Client. What is not set comes from the environment variables
// that huggingface_hub reads.
type Options struct {
	// CacheDir is the folder of the cache. Else HF_HUB_CACHE, HF_HOME/hub,
	// XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub.
	CacheDir string
	// Token is the account's. Else HF_TOKEN, or the file at HF_TOKEN_PATH or
	// HF_HOME/token, which `hf auth login` writes.
	Token string
	// Endpoint is the hub's address. Else HF_ENDPOINT, or the public hub.
	Endpoint string
	// Offline keeps from asking the hub. HF_HUB_OFFLINE sets it too.
	Offline bool
	// Log takes beginnings, ends, waits and retries; nil: nobody.
	Log *slog.Logger
	// Terminal shows a progress bar; nil: a log line now and then. No bar with
	// HF_HUB_DISABLE_PROGRESS_BARS.
	Terminal io.Writer
}

// Client fetches from one hub into one cache. Any number of goroutines may use
// it.
type Client struct {
	endpoint  string // without a slash at the end
	cacheDir  string
	token     string
	tokenFrom string // for messages
	offline   string // "" or the reason
	log       *slog.Logger
	terminal  io.Writer

	http, httpHere *http.Client // httpHere stays on the host
	answered       atomic.Bool  // the hub, ever
	stall          time.Duration
	pause          func(context.Context, time.Duration) error // between two tries
}

// New returns a client of the hub that options and environment name.
func New(opt Options) (*Client, error) {
	c := &Client{log: opt.Log, terminal: opt.Terminal, stall: stallTimeout, pause: pause}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if isTrue("HF_HUB_DISABLE_PROGRESS_BARS") {
		c.terminal = nil
	}
	home, err := hfHome()
	if err != nil && (opt.CacheDir == "" || opt.Token == "") {
		return nil, err
	}
	c.cacheDir = cmp.Or(opt.CacheDir, envPath("HF_HUB_CACHE"), envPath("HUGGINGFACE_HUB_CACHE"), filepath.Join(home, "hub"))
	if c.cacheDir, err = filepath.Abs(c.cacheDir); err != nil {
		return nil, err
	}
	if err := c.setEndpoint(cmp.Or(opt.Endpoint, os.Getenv("HF_ENDPOINT"), defaultEndpoint)); err != nil {
		return nil, err
	}
	if err := c.setToken(opt.Token, home); err != nil {
		return nil, err
	}
	for _, name := range []string{"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"} {
		if c.offline == "" && isTrue(name) {
			c.offline = name + " is set"
		}
	}
	if opt.Offline {
		c.offline = "the offline mode is on"
	}
	c.setHTTP()
	return c, nil
}

// CacheDir returns the folder of the cache.
func (c *Client) CacheDir() string { return c.cacheDir }

func (c *Client) setEndpoint(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return fmt.Errorf("HF_ENDPOINT %q: %w: must be an address such as %s", text, ErrInvalid, defaultEndpoint)
	}
	c.endpoint = strings.TrimRight(text, "/")
	return nil
}

func (c *Client) setToken(given, home string) error {
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
		if v := strings.TrimSpace(os.Getenv(name)); c.token == "" && v != "" {
			c.token, c.tokenFrom = v, "the token in "+name
		}
	}
	if file := cmp.Or(envPath("HF_TOKEN_PATH"), filepath.Join(home, "token")); c.token == "" && given == "" {
		if data, err := os.ReadFile(file); err == nil {
			c.token, c.tokenFrom = strings.TrimSpace(string(data)), "the token in "+file
		}
	}
	if given != "" {
		c.token, c.tokenFrom = given, "the token given"
	}
	if strings.ContainsFunc(c.token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return fmt.Errorf("%s: %w: it holds spaces or characters that no token has", c.tokenFrom, ErrInvalid)
	}
	return nil
}

func (c *Client) setHTTP() {
	transport := http.DefaultTransport.(*http.Transport).Clone() // with the environment's proxies
	transport.DialContext = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	transport.ResponseHeaderTimeout = answerTimeout
	transport.MaxIdleConnsPerHost = parallelFiles
	c.http = &http.Client{Transport: transport, CheckRedirect: withoutTokenElsewhere}
	c.httpHere = &http.Client{Transport: transport, CheckRedirect: stayHere}
}

// hfHome is the folder of the Hugging Face tools.
func hfHome() (string, error) {
	if home := envPath("HF_HOME"); home != "" {
		return home, nil
	}
	if cache := envPath("XDG_CACHE_HOME"); cache != "" {
		return filepath.Join(cache, "huggingface"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no folder for fetched models: %w; set HF_HOME", err)
	}
	return filepath.Join(home, ".cache", "huggingface"), nil
}

// envPath returns an environment variable's path with ~ and $NAME written out, as
// Python's expanduser and expandvars do.
func envPath(name string) string {
	v := os.ExpandEnv(os.Getenv(name))
	if rest, ok := strings.CutPrefix(v, "~"); ok && (rest == "" || rest[0] == '/') {
		if home, err := os.UserHomeDir(); err == nil {
			return home + rest
		}
	}
	return v
}

func isTrue(name string) bool {
	switch strings.ToUpper(os.Getenv(name)) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
