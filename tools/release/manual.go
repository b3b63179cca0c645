package main

import (
	"os"
	"path/filepath"
)

// writeManual has the command line write its man pages and completions, and packs the pages.
func (r *release) writeManual() error {
	dir := r.path("manual")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	linked := "-X github.com/stint-io/stint/cmd/stint.release=" + r.version
	if err := r.run(r.path("source"), "go", "test", "-count=1", "-vet=off", "-ldflags", linked, "-run", "^TestManual$",
		"./cmd/stint", "-manual", dir); err != nil {
		return err
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		return err
	}
	for _, page := range append(pages, r.path("source", "CHANGELOG.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		if filepath.Base(page) == "CHANGELOG.md" {
			page = r.path("changelog")
		}
		if err := os.WriteFile(page+".gz", gzipped(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
