// Package system runs a vllm-frontend with its cores as processes, for
// measurements and for tests with consumers of their own.
package system

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Build compiles both commands into dir.
//
// It also looks at every source file: the go command caches a test's success
// until a file that the test looked at changes, and cannot know by itself what
// the commands were made from.
func Build(ctx context.Context, dir string) error {
	if err := lookAtSources(ctx); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", dir+string(filepath.Separator), "govllm/cmd/vllm-core", "govllm/cmd/vllm-frontend")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

func lookAtSources(ctx context.Context) error {
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("go env GOMOD: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(mod)))
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		_, err = os.Stat(path)
		return err
	})
}

// Options of Start.
type Options struct {
	BinDir   string   // where Build put the commands
	Engines  int      // cores; 0: one
	Core     []string // further flags of each core
	Frontend []string // further flags
}

// System is a running frontend with its cores.
type System struct {
	URL      string
	frontend *process
	cores    []*process
}

// Start brings all processes up and returns once the server answers.
func Start(ctx context.Context, opt Options) (*System, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	engines := max(1, opt.Engines)
	s := &System{URL: "http://127.0.0.1:" + ports[0]}
	s.frontend, err = launch(opt.BinDir, "vllm-frontend", append([]string{"--host", "127.0.0.1", "--port", ports[0],
		"--data-parallel-rpc-port", ports[1], "--data-parallel-size", strconv.Itoa(engines)}, opt.Frontend...))
	if err != nil {
		return nil, err
	}
	for rank := range engines {
		core, err := launch(opt.BinDir, "vllm-core", append([]string{"--data-parallel-rpc-port", ports[1],
			"--data-parallel-rank", strconv.Itoa(rank)}, opt.Core...))
		if err != nil {
			return nil, errors.Join(err, s.Stop())
		}
		s.cores = append(s.cores, core)
	}
	if err := s.ready(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *System) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if resp, err := http.Get(s.URL + "/health"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-s.frontend.done:
			return fmt.Errorf("the frontend ended: %s", s.frontend.output())
		case <-ctx.Done():
			return fmt.Errorf("%s did not serve: %w\n%s", s.URL, context.Cause(ctx), s.Output())
		}
	}
}

// Stop ends all processes, and kills those that take longer than ten seconds.
func (s *System) Stop() error {
	all := append([]*process{s.frontend}, s.cores...)
	for _, p := range all {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
	}
	deadline := time.After(10 * time.Second)
	var errs []error
	for _, p := range all {
		select {
		case <-p.done:
		case <-deadline:
			errs = append(errs, fmt.Errorf("%s did not stop and was killed: %s", p.cmd.Path, p.output()))
			_ = p.cmd.Process.Kill()
			<-p.done
		}
	}
	return errors.Join(errs...)
}

// Output is what the processes have written so far.
func (s *System) Output() string {
	var b strings.Builder
	for _, p := range append([]*process{s.frontend}, s.cores...) {
		fmt.Fprintf(&b, "%s:\n%s", filepath.Base(p.cmd.Path), p.output())
	}
	return b.String()
}

// CPU is the processor time that the frontend and the cores have used.
func (s *System) CPU() (frontend, cores time.Duration, err error) {
	if frontend, err = cpuTime(s.frontend.cmd.Process.Pid); err != nil {
		return 0, 0, err
	}
	for _, c := range s.cores {
		used, err := cpuTime(c.cmd.Process.Pid)
		if err != nil {
			return 0, 0, err
		}
		cores += used
	}
	return frontend, cores, nil
}

// SelfCPU is the processor time that this process has used.
func SelfCPU() (time.Duration, error) { return cpuTime(os.Getpid()) }

// cpuTime sums what the scheduler says of each thread, in nanoseconds. Threads
// of the Go runtime do not end, so none is missed.
func cpuTime(pid int) (time.Duration, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return 0, err
		}
		ns, _, _ := strings.Cut(string(text), " ")
		n, err := strconv.ParseInt(ns, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", f, err)
		}
		sum += time.Duration(n)
	}
	if sum == 0 {
		return 0, fmt.Errorf("process %d: /proc has no schedstat", pid)
	}
	return sum, nil
}

// process is one of the commands.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	mu  sync.Mutex
	out bytes.Buffer
}

func launch(dir, name string, args []string) (*process, error) {
	p := &process{cmd: exec.Command(filepath.Join(dir, name), args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

var _ io.Writer = (*process)(nil)

// maxOutput bounds what is kept of a process's output, in bytes.
const maxOutput = 1 << 20

// Write keeps the process's output.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out.Len() < maxOutput {
		p.out.Write(b)
	}
	return len(b), nil
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// freePorts asks the kernel for ports that nobody listens on, all at once so
// that they differ.
func freePorts(n int) ([]string, error) {
	ports := make([]string, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		_, ports[i], _ = net.SplitHostPort(l.Addr().String())
	}
	return ports, nil
}
