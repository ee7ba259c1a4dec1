package hub_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"govllm/protocol/modelfile/hub"
	"govllm/protocol/modelfile/hub/hubtest"
)

// childEnv makes this test's binary fetch, as one process of several: its value
// is the endpoint.
const childEnv = "GOVLLM_TEST_HUB_CHILD"

func TestMain(m *testing.M) {
	if endpoint := os.Getenv(childEnv); endpoint != "" {
		os.Exit(child(endpoint))
	}
	os.Exit(m.Run())
}

func child(endpoint string) int {
	c, err := hub.New(hub.Options{Endpoint: endpoint, Log: slog.New(slog.NewTextHandler(os.Stdout, nil))})
	if err == nil {
		_, err = c.Fetch(context.Background(), everything)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// process is a child that fetches into the cache.
type process struct {
	*exec.Cmd
	out io.Reader
}

func startProcess(t *testing.T, h *hubtest.Hub, cache string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(self)}
	p.Env = append(os.Environ(), childEnv+"="+h.URL, "HF_HUB_CACHE="+cache)
	if p.out, err = p.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

// says reads the child's output to its end, and tells found of every line.
func (p *process) says(found func(line string)) {
	for lines := bufio.NewScanner(p.out); lines.Scan(); {
		found(lines.Text())
	}
}

// Two processes that are started together download every file once, and the
// one that waits says so.
func TestProcessesDownloadOnce(t *testing.T) {
	h := newHub(t)
	cache := t.TempDir()
	release := make(chan struct{})
	h.Intercept(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		if isLargeRequest(r) {
			<-release // until the other process waits
		}
		next(w, r)
	})
	var once sync.Once
	var byOther atomic.Int32
	var group sync.WaitGroup
	for range 2 {
		p := startProcess(t, h, cache)
		group.Go(func() {
			var out []string
			p.says(func(line string) {
				out = append(out, line)
				if strings.Contains(line, "another process is fetching; waiting for it") {
					once.Do(func() { close(release) })
				}
				if strings.Contains(line, "fetched by the other process") {
					byOther.Add(1)
				}
			})
			if err := p.Wait(); err != nil {
				t.Errorf("the process failed: %v\n%s", err, strings.Join(out, "\n"))
			}
		})
	}
	group.Wait()
	once.Do(func() { t.Error("no process said that it waits"); close(release) })
	if n := byOther.Load(); n > 1 {
		t.Errorf("%d processes say that another one has fetched all", n)
	}
	wantOnce(t, h, cache)
}

// The lock of a process that is killed goes with it, and the next one goes on
// where it was.
func TestKilledProcessLeavesNoLock(t *testing.T) {
	h := newHub(t)
	cache := t.TempDir()
	const sent = 300_000
	content := h.Repos[repoName].Files["model.safetensors"]
	blob := filepath.Join(cache, "models--govllm--tiny", "blobs", hubtest.Hash("model.safetensors", content))
	stuck := make(chan struct{})
	var once sync.Once
	h.Intercept(func(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
		if !isLargeRequest(r) || r.Header.Get("Range") != "" {
			next(w, r)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content[:sent])
		_ = http.NewResponseController(w).Flush()
		once.Do(func() { close(stuck) })
		<-r.Context().Done()
	})
	p := startProcess(t, h, cache)
	<-stuck
	for sizeOf(blob+".incomplete") < sent { // the child writes in its own time
		time.Sleep(time.Millisecond)
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait() // it was killed
	fetch(t, newClient(t, hub.Options{CacheDir: cache, Endpoint: h.URL}), everything)
	var ranges []string
	for _, r := range h.Requests() {
		if r.Large {
			ranges = append(ranges, r.Range)
		}
	}
	if want := fmt.Sprintf("bytes=%d-", sent); len(ranges) != 2 || ranges[1] != want {
		t.Errorf("ranges asked for = %q, want the second to be %q", ranges, want)
	}
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
