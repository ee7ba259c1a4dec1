package ipc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// These tests run one end in a process of its own (this test binary again), and
// kill or stop it.

const peerEnv = "GOVLLM_IPC_TEST_PEER"

// TestPeerProcess is the other process.
func TestPeerProcess(t *testing.T) {
	role, address, _ := strings.Cut(os.Getenv(peerEnv), " ")
	switch role {
	case "":
		t.Skip("only runs inside the tests below")
	case "engine":
		e := dial(t, address, 0)
		if err := e.Ready(testContext(t), &testRegistration); err != nil {
			t.Fatal(err)
		}
		// A peer that stops before its first heartbeat goes unnoticed: what
		// is waited for is the passing of time itself.
		<-time.After(2 * heartbeatInterval)
		fmt.Println("ready")
		<-e.Lost()
	case "frontend":
		f := listen(t, FrontendOptions{})
		fmt.Println("at " + f.HandshakeAddress())
		if _, err := f.WaitReady(testContext(t)); err != nil {
			t.Fatal(err)
		}
		fmt.Println("ready")
		<-f.Lost()
	}
}

// peer starts the other process and returns a way to await its lines.
func peer(t *testing.T, role string) (cmd *exec.Cmd, line func(prefix string) string) {
	t.Helper()
	cmd = exec.Command(os.Args[0], "-test.run=^TestPeerProcess$", "-test.v")
	cmd.Env = append(os.Environ(), peerEnv+"="+role)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	scan := bufio.NewScanner(out)
	return cmd, func(prefix string) string {
		t.Helper()
		for scan.Scan() {
			if rest, ok := strings.CutPrefix(scan.Text(), prefix); ok {
				return rest
			}
		}
		t.Fatalf("the %s ended before it said %q", role, prefix)
		return ""
	}
}

// noticeWithin is the promise of Lost.
const noticeWithin = 4 * time.Second

func TestPeerIsKilledOrStopped(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		t.Run("engine/"+signal.String(), func(t *testing.T) {
			t.Parallel()
			f := listen(t, FrontendOptions{})
			cmd, line := peer(t, "engine "+f.HandshakeAddress())
			if _, err := f.WaitReady(testContext(t)); err != nil {
				t.Fatal(err)
			}
			line("ready")
			_, result := run(t, f)
			start := time.Now()
			cmd.Process.Signal(signal)
			err := receive(t, "loss", f.Lost())
			checkLoss(t, err, 0, start)
			if got := receive(t, "end of Run", result); got != err {
				t.Errorf("Run() = %v, want %v", got, err)
			}
		})
		t.Run("frontend/"+signal.String(), func(t *testing.T) {
			t.Parallel()
			cmd, line := peer(t, "frontend")
			e := dial(t, line("at "), 0)
			if err := e.Ready(testContext(t), &testRegistration); err != nil {
				t.Fatal(err)
			}
			line("ready")
			start := time.Now()
			cmd.Process.Signal(signal)
			checkLoss(t, receive(t, "loss", e.Lost()), theFrontend, start)
		})
	}
}

func checkLoss(t *testing.T, err error, engine int, since time.Time) {
	t.Helper()
	var lost *LostError
	if !errors.As(err, &lost) || lost.Engine != engine || !errors.Is(err, ErrDisconnected) {
		t.Errorf("Lost() = %v, want engine %d disconnected", err, engine)
	}
	t.Logf("noticed after %v, promised %v", time.Since(since).Round(time.Millisecond), noticeWithin)
}

// A frontend killed before READY: the engine must not load its model for
// nobody.
func TestFrontendDiesWhileEngineLoads(t *testing.T) {
	t.Parallel()
	cmd, line := peer(t, "frontend")
	e := dial(t, line("at "), 0)
	cmd.Process.Kill()
	start := time.Now()
	checkLoss(t, receive(t, "loss", e.Lost()), theFrontend, start)
	if err := e.Ready(testContext(t), &testRegistration); !errors.Is(err, ErrDisconnected) {
		t.Errorf("Ready() = %v, want ErrDisconnected", err)
	}
}

func TestDialEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(10*time.Millisecond, cancel)
	_, err := DialEngine(ctx, EngineOptions{HandshakeAddress: "tcp://127.0.0.1:1", Log: quiet()})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("DialEngine(cancelled) = %v, want context.Canceled", err)
	}
	_, err = DialEngine(context.Background(), EngineOptions{HandshakeAddress: "tcp://127.0.0.1:1", InitTimeout: time.Millisecond, Log: quiet()})
	if !errors.Is(err, ErrHandshakeTimeout) {
		t.Errorf("DialEngine(1 ms) = %v, want ErrHandshakeTimeout", err)
	}
}
