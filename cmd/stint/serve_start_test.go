package main

import (
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	awaits "github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/node"
)

// A file of the configuration is a pipe without a writer: the start waits for it, and a signal still ends the process.
func TestASignalEndsAStartThatWaitsForAFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, signal := context.WithCancel(t.Context())
	signal()
	n, err := startUnless(ctx, node.Config{DataDir: t.TempDir(), PoliciesFile: pipe})
	if n != nil || err == nil || !strings.Contains(err.Error(), "a signal came") {
		t.Errorf("it ends with %v", err)
	}
	awaits.Until(t, "the start reads the pipe, so that it can end", func() bool {
		writer, err := syscall.Open(pipe, syscall.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err != nil { // there is no reader yet
			return false
		}
		defer syscall.Close(writer)
		_, err = syscall.Write(writer, []byte("no policies"))
		return err == nil
	})
}
