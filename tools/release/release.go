package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// release is one run. Beneath work are the export (source), a directory for each platform with its binary, the manual,
// and the tools.
type release struct {
	version, work, out string
	platforms          []string // as linux_amd64

	commit string
	at     time.Time // the instant of the commit, which is that of every file
	files  []string  // what is in out, without the sums
}

// sums is the file with the sums of all others.
const sums = "SHA256SUMS"

// allPlatforms are those of a release. Packages are for Linux; on macOS stint is a client.
var allPlatforms = []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64"}

// export writes what the commit has to the directory source, with nothing of git.
func (r *release) export() error {
	head, err := r.ask(".", "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return err
	}
	commit, at, _ := strings.Cut(strings.TrimSpace(head), " ")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return err
	}
	r.commit, r.at = commit, time.Unix(seconds, 0).UTC()
	top, err := r.ask(".", "git", "rev-parse", "--show-toplevel")
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
		if err := os.WriteFile(page+".gz", packed(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writePackages makes the packages of Linux's distributions.
func (r *release) writePackages() error {
	for _, platform := range r.platforms {
		processor, isLinux := strings.CutPrefix(platform, "linux_")
		if !isLinux {
			continue
		}
		for _, kind := range []string{"deb", "rpm", "apk", "archlinux"} {
			said, err := r.ask(r.work, "env", "ARCH="+processor, "VERSION="+r.number(),
				r.path("tools", "nfpm"), "package", "--config", "source/deploy/package/nfpm.yaml", "--packager", kind,
				"--target", r.out)
			if err != nil {
				return err
			}
			_, made, found := strings.Cut(said, "created package: ")
			if !found {
				return fmt.Errorf("nfpm said %q", said)
			}
			r.files = append(r.files, filepath.Base(strings.TrimSpace(made)))
		}
	}
	return nil
}

// writeBill writes the bill of materials: what is linked, without anything that a second run would draw anew.
func (r *release) writeBill() error {
	name := fmt.Sprintf("stint_%s.cdx.json", r.number())
	r.files = append(r.files, name)
	return r.run(r.work, r.path("tools", "cyclonedx-gomod"), "bin", "-json", "-std", "-noserial", "-notimestamp",
		"-short-purls", "-version", r.version, "-output", filepath.Join(r.out, name),
		filepath.Join(r.platforms[0], "stint"))
}

// sum writes the sums of all files.
func (r *release) sum() error {
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

// run runs a program and shows its output.
func (r *release) run(dir, program string, args ...string) error {
	command := r.command(dir, program, args)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stderr, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(append([]string{program}, args...), " "), err)
	}
	return nil
}

// ask runs a program and returns its output.
func (r *release) ask(dir, program string, args ...string) (string, error) {
	command := r.command(dir, program, args)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(append([]string{program}, args...), " "), err, out)
	}
	return string(out), nil
}

// command gives a program an environment in which nothing of the caller's changes what it makes.
func (r *release) command(dir, program string, args []string) *exec.Cmd {
	command := exec.Command(program, args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOFLAGS=-trimpath -buildvcs=false", "CGO_ENABLED=0", "GOWORK=off",
		"GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "TZ=UTC", "LC_ALL=C",
		fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.at.Unix()))
	return command
}

// packed compresses a file, without its name and time.
func packed(text []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	_, _ = io.Copy(w, bytes.NewReader(text)) // into memory
	_ = w.Close()
	return out.Bytes()
}
