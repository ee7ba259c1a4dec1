// Command export-builtin writes the builtin model as an ordinary Hugging Face
// directory, for other programs to load.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"govllm/protocol/modelfile/builtin"
	"govllm/protocol/modelfile/builtin/weights"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: export-builtin DIR")
		os.Exit(2)
	}
	if err := export(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "export-builtin:", err)
		os.Exit(1)
	}
}

func export(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, files := range []fs.FS{builtin.FS, weights.FS} {
		entries, err := fs.ReadDir(files, ".")
		if err != nil {
			return err
		}
		for _, e := range entries {
			data, err := fs.ReadFile(files, e.Name())
			if err != nil {
				return err
			}
			path := filepath.Join(dir, e.Name())
			if err := os.WriteFile(path, data, 0o644); err != nil {
				return err
			}
			fmt.Printf("%s (%d bytes)\n", path, len(data))
		}
	}
	return nil
}
