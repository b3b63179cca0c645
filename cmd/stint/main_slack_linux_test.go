package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	awaits "github.com/stint-io/stint/internal/testing/await"
)

// slackChild is the executable of the program that these tests start; "": this is not that program.
const slackChild = "STINT_TEST_SLACK"

// slackAtBegin is the slack of the first thread when it begins, and so that of sysmon, which it makes first of all.
var slackAtBegin, _ = unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)

// TestTheRuntimeBeginsWithSlack starts this test as a program that starts itself again, once.
func TestTheRuntimeBeginsWithSlack(t *testing.T) {
	if path := os.Getenv(slackChild); path != "" {
		slackenTimers(func() (string, error) { return path, nil })
		var files unix.Rlimit
		unix.Getrlimit(unix.RLIMIT_NOFILE, &files)
		fmt.Println("began with", time.Duration(slackAtBegin), "and all files", files.Cur >= files.Max-1, os.Getenv(startedAgain))
		return
	}
	for path, slack := range map[string]time.Duration{os.Args[0]: timerSlack, "/no/such/program": 50 * time.Microsecond} {
		ctx, cancel := context.WithTimeout(t.Context(), awaits.Patience)
		defer cancel()
		child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestTheRuntimeBeginsWithSlack$")
		child.Env = append(os.Environ(), slackChild+"="+path, "TMPDIR="+t.TempDir(), // which TestMain does not clear away if it is started again
			startedAgain+"=1") // of another process: its parent's second start is not its own
		out, err := child.CombinedOutput()
		if want := fmt.Sprintln("began with", slack, "and all files true", ""); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("executing %s: %v: %s, want %s", path, err, out, want)
		}
	}
}
