package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// writeArchives makes the archives: for Linux all of stint, for macOS its commands.
func (r *release) writeArchives() error {
	manual, err := filepath.Glob(r.path("manual", "*"))
	if err != nil {
		return err
	}
	for _, platform := range r.platforms {
		files := [][2]string{ // its path in the archive, and where it is
			{"stint", r.path(platform, "stint")},
			{"LICENSE", r.path("source", "LICENSE")},
			{"third-party-licenses", r.path("third-party-licenses")},
			{"README.md", r.path("source", "README.md")},
			{"CHANGELOG.md", r.path("source", "CHANGELOG.md")},
		}
		if strings.HasPrefix(platform, "linux_") {
			for _, name := range []string{"stint.service", "stint-backup.service", "stint-backup.timer",
				"package/stint.yaml", "package/default", "package/sysusers.conf"} {
				files = append(files, [2]string{path.Join("systemd", path.Base(name)),
					r.path("source", "deploy", name)})
			}
		}
		for _, name := range manual {
			if filepath.Ext(name) != ".1" {
				files = append(files, [2]string{path.Join("manual", filepath.Base(name)), name})
			}
		}
		name := fmt.Sprintf("stint_%s_%s", r.number(), platform)
		content, err := r.archive(name, files)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.out, name+".tar.gz"), content, 0o644); err != nil {
			return err
		}
		r.files = append(r.files, name+".tar.gz")
	}
	return nil
}

// archive packs files below a directory. They are root's, and of the instant of the commit.
func (r *release) archive(dir string, files [][2]string) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, file := range files {
		content, err := os.ReadFile(file[1])
		if err != nil {
			return nil, err
		}
		mode := int64(0o644)
		if file[0] == "stint" {
			mode = 0o755
		}
		header := &tar.Header{Name: path.Join(dir, file[0]), Mode: mode, Size: int64(len(content)), ModTime: r.at,
			Format: tar.FormatUSTAR}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return gzipped(out.Bytes()), nil
}
