package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// sdkEnv names the directory that testdata/sdk/fetch.sh has filled.
const sdkEnv = "GOVLLM_SDKS"

// TestSDK lets other languages' clients talk to both binaries, the server
// closed with a key. Go's client is in TestAPI. `make e2e-sdk` runs it.
func TestSDK(t *testing.T) {
	dir := os.Getenv(sdkEnv)
	if dir == "" {
		t.Skipf("%s is not set: `make e2e-sdk` installs the clients and sets it", sdkEnv)
	}
	const key = "sk-secret"
	s := start(t, options{frontend: []string{"--api-key", key}})
	python := filepath.Join(dir, "venv", "bin", "python")
	for name, cmd := range map[string][]string{
		"openai python": {python, "testdata/sdk/openai_client.py", s.url, key},
		"openai node":   {"node", "testdata/sdk/openai_client.mjs", dir, s.url, key},
		"langchain":     {python, "testdata/sdk/langchain_client.py", s.url, key},
		"litellm":       {python, "testdata/sdk/litellm_client.py", s.url, key},
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := exec.Command(cmd[0], cmd[1:]...).CombinedOutput(); err != nil {
				t.Errorf("%v:\n%s", err, out)
			}
		})
	}
	s.idle(t)
}

// TestSchema lets schemathesis send what /openapi.json allows, and what it does
// not: whatever comes, the server is not to fail. `make e2e-sdk` runs it.
func TestSchema(t *testing.T) {
	dir := os.Getenv(sdkEnv)
	if dir == "" {
		t.Skipf("%s is not set: `make e2e-sdk` installs schemathesis and sets it", sdkEnv)
	}
	s := start(t, options{frontend: []string{"--max-model-len", "64"}, core: []string{"--max-model-len", "64"}})
	cmd := exec.Command(filepath.Join(dir, "schemathesis", "bin", "st"), "run", s.url+"/openapi.json",
		"--checks", "not_a_server_error", "--phases", "examples,coverage,fuzzing", "--max-examples", "40",
		"--seed", "1", "--generation-database", "none", "--request-timeout", "30")
	cmd.Dir = t.TempDir() // it keeps examples in its working directory
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v", err)
	}
	t.Logf("%s", out)
	s.idle(t)
}
