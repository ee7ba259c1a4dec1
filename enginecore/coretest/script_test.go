package coretest

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the scripts' answers anew; read the difference before committing it")

// TestScripts plays every conversation with the scheduler.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("Glob(testdata/*.txt) = %v, %v, want scripts", paths, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			Run(t, path, *rewrite)
		})
	}
}
