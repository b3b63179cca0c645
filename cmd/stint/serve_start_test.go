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

// An edge waits for its token in a pipe: a signal ends it too.
func TestASignalEndsAnEdgeThatWaitsForAFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan string)
	go func() {
		_, _, stderr := stint("edge", "--upstream", "127.0.0.1:1", "--api-addr", "127.0.0.1:0", "--token-file", pipe)
		ended <- stderr
	}()
	awaits.Until(t, "the start waits for the pipe, so signals do not end the test", func() bool {
		writer, err := syscall.Open(pipe, syscall.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err != nil { // there is no reader yet
			return false
		}
		t.Cleanup(func() { syscall.Close(writer) }) // the start reads until then
		return true
	})
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if said := awaits.Receive(t, "the edge ends", ended); !strings.Contains(said, "a signal came") {
		t.Errorf("it ends with %q", said)
	}
}

// A file of the configuration is a pipe without a writer: the start waits for it, and a signal still ends the process.
func TestASignalEndsAStartThatWaitsForAFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, signal := context.WithCancel(t.Context())
	signal()
	n, err := startUnless(ctx, func() (served, error) {
		return node.Start(ctx, node.Config{DataDir: t.TempDir(), PoliciesFile: pipe})
	})
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
