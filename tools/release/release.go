package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// release is one run. Beneath work are the export (source), a directory for each platform with its binary, the manual,
// and the tools.
type release struct {
	version, work, out string   // as v0.2.0; a directory that is removed at the end; an absolute path
	platforms          []string // as linux_amd64

	commit string    // set by export, the first step
	at     time.Time // the instant of the commit, which is that of every file; set by export
	files  []string  // names of what this run has put into out, without the sums; each step adds its own
}

// sums is the file with the sums of all others.
const sums = "SHA256SUMS"

// allPlatforms are those of a release. Packages are for Linux; on macOS stint is a client.
var allPlatforms = []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64"}

// export writes what the commit has to the directory source, with nothing of git.
func (r *release) export() error {
	head, err := r.output(".", "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return err
	}
	commit, at, _ := strings.Cut(strings.TrimSpace(head), " ")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return err
	}
	r.commit, r.at = commit, time.Unix(seconds, 0).UTC()
	top, err := r.output(".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	archive := filepath.Join(r.work, "source.tar")
	if err := r.run(strings.TrimSpace(top), "git", "archive", "-o", archive, commit); err != nil {
		return err
	}
	if err := os.MkdirAll(r.path("source"), 0o755); err != nil {
		return err
	}
	return r.run(r.path("source"), "tar", "xf", archive)
}

// build builds stint for all platforms, and the tools for this one.
func (r *release) build() error {
	linked := fmt.Sprintf("-s -w -X main.release=%s -X main.revision=%s", r.version, r.commit)
	for _, platform := range r.platforms {
		system, processor, _ := strings.Cut(platform, "_")
		binary := r.path(platform, "stint")
		if err := r.run(r.path("source"), "env", "GOOS="+system, "GOARCH="+processor, "go", "build", "-ldflags", linked,
			"-o", binary, "./cmd/stint"); err != nil {
			return err
		}
	}
	return r.run(r.path("source", "tools", "release"), "go", "build", "-o", r.path("tools")+"/", "tool")
}

// writeSBOM writes the bill of materials: what is linked, without anything that a second run would draw anew.
func (r *release) writeSBOM() error {
	name := fmt.Sprintf("stint_%s.cdx.json", r.number())
	r.files = append(r.files, name)
	return r.run(r.work, r.path("tools", "cyclonedx-gomod"), "bin", "-json", "-std", "-noserial", "-notimestamp",
		"-short-purls", "-version", r.version, "-output", filepath.Join(r.out, name),
		filepath.Join(r.platforms[0], "stint"))
}

// writeSums writes the sums of all files.
func (r *release) writeSums() error {
	slices.Sort(r.files)
	var text strings.Builder
	for _, name := range r.files {
		content, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(content), name)
	}
	return os.WriteFile(filepath.Join(r.out, sums), []byte(text.String()), 0o644)
}

// number is the version as packages have it: 0.2.0.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

func (r *release) path(names ...string) string {
	return filepath.Join(append([]string{r.work}, names...)...)
}

// gzipped compresses a file, without its name and time.
func gzipped(text []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	_, _ = io.Copy(w, bytes.NewReader(text)) // into memory
	_ = w.Close()
	return out.Bytes()
}
