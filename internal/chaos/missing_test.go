//go:build chaos

package chaos

import (
	"errors"
	"github.com/stint-io/stint/internal/await"
	"github.com/stint-io/stint/internal/testcluster"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTheLogsDirectoryIsDeleted deletes the directory of the log under load. The next log file cannot be created, and the
// process ends with status 75 and a message, not with a stack trace of the Go runtime.
func TestTheLogsDirectoryIsDeleted(t *testing.T) {
	s := newStoppedServer(t, policies(1_000_000))
	process := exec.Command(s.binary, s.arguments()...)
	process.Stdout, process.Stderr = &s.log, &s.log
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	ended, gone := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(gone)
		ended <- process.Wait()
	}()
	t.Cleanup(func() {
		process.Process.Kill()
		<-gone
	})
	await.Until(t, "the server is ready", s.ready)
	if err := os.RemoveAll(filepath.Join(s.dir, "data", "log")); err != nil {
		t.Fatal(err)
	}
	acknowledged, unknowns, err := spendUntil(within(t, 60*time.Second), s.address, ended)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != testcluster.ExitUntrusted {
		t.Fatalf("the process ended with %v, want status %d", err, testcluster.ExitUntrusted)
	}
	t.Logf("status %d; %d acknowledged, %d unknown", testcluster.ExitUntrusted, acknowledged, unknowns)
	log := s.log.String()
	lines := strings.Split(strings.TrimSpace(log), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, "no such file or directory") || strings.Contains(log, "goroutine ") {
		t.Errorf("it says at its end: %s", last)
	}
}
