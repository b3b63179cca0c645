package main

import (
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-io/stint/internal/node"
)

// A file of the configuration is a pipe that nobody writes to: the start waits for it, and a signal ends the process all the same.
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
	writer, err := syscall.Open(pipe, syscall.O_WRONLY|syscall.O_NONBLOCK, 0) // the reader ends
	if err != nil {
		t.Fatal(err)
	}
	syscall.Write(writer, []byte("no policies"))
	syscall.Close(writer)
}
