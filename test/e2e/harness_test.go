// Package e2e runs both binaries with the builtin model and talks to them as
// users do: over HTTP, with curl's means and with the official OpenAI client.
package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	dto "github.com/prometheus/client_model/go"
)

// patience bounds every wait for something that must happen. It is generous:
// no test is about speed, and the machine may be busy.
const patience = 60 * time.Second

var binDir string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	var err error
	if binDir, err = os.MkdirTemp("", "govllm-e2e-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(binDir)
	cmd := exec.Command("go", "build", "-o", binDir, "govllm/cmd/vllm-core", "govllm/cmd/vllm-frontend")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// proc is one of the two processes.
type proc struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	mu   sync.Mutex
	out  bytes.Buffer
	wait error
}

// dependOnSources looks at every source file, once. The go command caches a
// test's success until a file that the test looked at changes, and cannot know
// by itself what the binaries were built from.
var dependOnSources = sync.OnceValue(func() error {
	return filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != filepath.Join("..", "..") && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir // .git
		case d.IsDir():
			return nil
		}
		_, err = os.Stat(path)
		return err
	})
})

// launch starts a binary and kills what is left of it when the test ends.
func launch(t *testing.T, name string, env []string, args ...string) *proc {
	t.Helper()
	if err := dependOnSources(); err != nil {
		t.Fatal(err)
	}
	p := &proc{cmd: exec.Command(filepath.Join(binDir, name), args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	pipe, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = p.cmd.Stdout
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			p.mu.Lock()
			p.out.WriteString(lines.Text() + "\n")
			p.mu.Unlock()
		}
		p.wait = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("%s said:\n%s", name, p.output())
		}
	})
	return p
}

func (p *proc) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

func (p *proc) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// exit waits for the end of the process and returns its status.
func (p *proc) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatalf("still running after %v; it said:\n%s", patience, p.output())
	}
	return p.cmd.ProcessState.ExitCode()
}

// system is a frontend with one core.
type system struct {
	frontend, core *proc
	url            string
	handshakePort  string
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// options of start. Zero values take what is quick: the builtin model with a
// small KV cache.
type options struct {
	core, frontend []string // further flags
	coreFirst      bool
}

// start brings both processes up and waits until they serve.
func start(t *testing.T, opt options) *system {
	t.Helper()
	port := freePort(t)
	s := &system{url: "http://127.0.0.1:" + port, handshakePort: freePort(t)}
	frontend := func() {
		s.frontend = launch(t, "vllm-frontend", nil, append([]string{"--host", "127.0.0.1", "--port", port,
			"--data-parallel-rpc-port", s.handshakePort}, opt.frontend...)...)
	}
	core := func() {
		s.core = launch(t, "vllm-core", nil, append([]string{"--data-parallel-rpc-port", s.handshakePort,
			"--kv-cache-memory-bytes", "64M", "--cpu-threads", "1"}, opt.core...)...)
	}
	if opt.coreFirst {
		core()
		frontend()
	} else {
		frontend()
		core()
	}
	s.eventually(t, "the server answers /health with 200", func() bool {
		resp, err := http.Get(s.url + "/health")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return s
}

// eventually polls for a state that another process reaches in its own time.
func (s *system) eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", patience, what)
		}
		select {
		case <-s.frontend.done:
			t.Fatalf("the frontend ended before: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// post sends a JSON body and decodes the JSON answer.
func (s *system) post(t *testing.T, path, body string) (status int, answer map[string]any) {
	t.Helper()
	resp, err := http.Post(s.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		t.Fatalf("POST %s gave status %d and no JSON object: %s", path, resp.StatusCode, raw)
	}
	return resp.StatusCode, answer
}

// stream sends a streaming request and returns its events, "data: " removed.
func (s *system) stream(t *testing.T, path, body string) []string {
	t.Helper()
	resp, err := http.Post(s.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if ct := resp.Header.Get("Content-Type"); !strings.HasPrefix(ct, "text/event-stream") {
		raw, _ := io.ReadAll(resp.Body)
		t.Fatalf("POST %s: content type %q, body %s", path, ct, raw)
	}
	var events []string
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if event, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			events = append(events, event)
		} else if lines.Text() != "" {
			t.Fatalf("line %q is neither an event nor empty", lines.Text())
		}
	}
	return events
}

// open starts a streaming request and returns once its first event has come.
func (s *system) open(t *testing.T, ctx context.Context, path, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// metrics scrapes /metrics.
func (s *system) metrics(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	resp, err := http.Get(s.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// value sums a family's samples whose labels include the given pairs.
func value(families map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	var sum float64
	for _, m := range families[name].GetMetric() {
		if hasLabels(m, labels) {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}

// histogram returns a histogram's count and sum over all label sets.
func histogram(families map[string]*dto.MetricFamily, name string) (count, sum float64) {
	for _, m := range families[name].GetMetric() {
		count += float64(m.GetHistogram().GetSampleCount())
		sum += m.GetHistogram().GetSampleSum()
	}
	return count, sum
}

func hasLabels(m *dto.Metric, pairs []string) bool {
	for i := 0; i < len(pairs); i += 2 {
		found := false
		for _, l := range m.GetLabel() {
			found = found || (l.GetName() == pairs[i] && l.GetValue() == pairs[i+1])
		}
		if !found {
			return false
		}
	}
	return true
}

// at follows a path of member names and list indices into a JSON value.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func readAll(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
