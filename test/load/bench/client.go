package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
)

// record is what one request measured.
type record struct {
	start     time.Duration   // since the run began
	times     []time.Duration // of each event with tokens, since start
	numInput  int
	numOutput int
	err       error
}

func (r *record) end() time.Duration {
	if len(r.times) == 0 {
		return r.start
	}
	return r.start + r.times[len(r.times)-1]
}

// client sends requests over connections that stay open.
type client struct {
	http *http.Client
	url  string
	chat bool
}

func newClient(c *Config) *client {
	transport := &http.Transport{
		MaxIdleConns: 0, MaxIdleConnsPerHost: 1 << 16, DisableCompression: true,
		ReadBufferSize: 16 << 10,
	}
	return &client{http: &http.Client{Transport: transport, Timeout: c.Timeout}, url: c.BaseURL + c.endpoint(), chat: c.Backend == Chat}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// send does one request and measures it. began is when the run did.
func (c *client) send(ctx context.Context, p prompt, began time.Time, expect int) (r record) {
	start := time.Now()
	r.start = start.Sub(began)
	r.err = c.stream(ctx, p, start, expect, &r)
	return r
}

func (c *client) stream(ctx context.Context, p prompt, start time.Time, expect int, r *record) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(p.body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 400))
		return fmt.Errorf("status %d: %s", resp.StatusCode, bytes.TrimSpace(said))
	}
	r.times = make([]time.Duration, 0, expect)
	lines := bufio.NewReaderSize(resp.Body, 16<<10)
	done := false
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return errors.New("an event is longer than 16 KiB")
		}
		if event, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			end, eventErr := c.event(bytes.TrimRight(event, "\r\n"), start, r)
			if eventErr != nil {
				return eventErr
			}
			done = done || end
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	switch {
	case !done:
		return errors.New("the stream ended without [DONE]")
	case len(r.times) == 0:
		return errors.New("the stream had no token")
	case r.numOutput == 0:
		return errors.New("the stream had no usage")
	}
	return nil
}

var (
	doneEvent   = []byte("[DONE]")
	noChoices   = []byte(`"choices":[]`)
	errorMember = []byte(`{"error"`)
	emptyText   = []byte(`"content":""`)
	roleMember  = []byte(`"role":`)
)

// event takes one event in. Of one with tokens, it looks at no more than it
// must: at full load there are hundreds of thousands a second.
func (c *client) event(event []byte, start time.Time, r *record) (done bool, err error) {
	switch {
	case bytes.Equal(event, doneEvent):
		return true, nil
	case bytes.HasPrefix(event, errorMember):
		return false, fmt.Errorf("the stream failed: %s", event)
	case bytes.Contains(event, noChoices):
		var u struct {
			Usage struct {
				PromptTokens     int `json:"prompt_tokens"`
				CompletionTokens int `json:"completion_tokens"`
			} `json:"usage"`
		}
		if err := json.Unmarshal(event, &u); err != nil {
			return false, fmt.Errorf("usage event: %w", err)
		}
		r.numInput, r.numOutput = u.Usage.PromptTokens, u.Usage.CompletionTokens
		return false, nil
	case c.chat && len(r.times) == 0 && bytes.Contains(event, roleMember) && bytes.Contains(event, emptyText):
		return false, nil // the role alone
	}
	r.times = append(r.times, time.Since(start))
	return false, nil
}

// ready waits until the server answers /health with 200.
func (c *client) ready(ctx context.Context, base string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/health", nil)
		if err != nil {
			return err
		}
		resp, err := c.http.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("status %d", resp.StatusCode)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s was not ready within %v: %w", base, timeout, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// firstModel asks the server what it serves.
func (c *client) firstModel(ctx context.Context, base string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/models", nil)
	if err != nil {
		return "", err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return "", fmt.Errorf("%w; is the server up? say where with --base-url", err)
	}
	defer resp.Body.Close()
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.UnmarshalRead(resp.Body, &list); err != nil || len(list.Data) == 0 {
		return "", fmt.Errorf("GET %s/v1/models gave status %d and no model; name it with --model", base, resp.StatusCode)
	}
	return list.Data[0].ID, nil
}
