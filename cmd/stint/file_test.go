package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A backup to /dev/null, or to a pipe, replaces neither: a file in its place would take in what all others write there.
func TestAFileIsNotWrittenInThePlaceOfADevice(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	linked := filepath.Join(t.TempDir(), "linked")
	if err := os.Symlink(pipe, linked); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{pipe, linked} {
		before, err := os.Lstat(name)
		if err != nil {
			t.Fatal(err)
		}
		err = writeAtomically(name, 0o600, func(io.Writer) error { t.Error("it is written"); return nil })
		if err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
		if after, err := os.Lstat(name); err != nil || after.Mode() != before.Mode() {
			t.Errorf("%s is there no more: %v", name, err)
		}
	}
	plain := filepath.Join(t.TempDir(), "plain")
	for _, text := range []string{"first", "second"} {
		err := writeAtomically(plain, 0o600, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
		if got, _ := os.ReadFile(plain); err != nil || string(got) != text {
			t.Errorf("%q instead of %q: %v", got, text, err)
		}
	}
}
