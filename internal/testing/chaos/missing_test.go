//go:build chaos

package chaos

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-io/stint/internal/testing/testcluster"
)

// TestTheLogsDirectoryIsDeleted deletes the directory of the log under load. The next log file cannot be created, and
// the process ends with status 75 and a message, not with a stack trace of the Go runtime.
func TestTheLogsDirectoryIsDeleted(t *testing.T) {
	s := newServer(t, policies(1_000_000))
	if err := os.RemoveAll(filepath.Join(s.Dir(0), "log")); err != nil {
		t.Fatal(err)
	}
	s.MayEnd(0)
	acknowledged, unknowns := spendUntilDistrust(t, s)
	t.Logf("status %d; %d acknowledged, %d unknown", testcluster.ExitUntrusted, acknowledged, unknowns)
	log := s.Log(0)
	lines := strings.Split(strings.TrimSpace(log), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, "no such file or directory") ||
		strings.Contains(log, "goroutine ") {
		t.Errorf("it says at its end: %s", last)
	}
}
