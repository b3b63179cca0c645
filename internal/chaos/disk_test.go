//go:build chaos

package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testcluster"
)

// TestDiskFaults: strace makes the n-th fdatasync of the process fail or hang. The process must end with status 75, and after
// its next start everything that it had admitted must still be counted.
func TestDiskFaults(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Fatal("strace is needed to make fdatasync fail: apt-get install strace")
	}
	told := 0 // each process has 200 ms for its word to the next, which not every one has on a busy machine
	for _, fault := range []struct{ name, inject string }{
		{"an fdatasync fails while starting", "error=EIO:when=12+"},
		{"one fails while the cluster is founded", "error=EIO:when=20+"},
		{"one fails while several goroutines write", "error=EIO:when=24+"}, // the first to tell may be one that was refused
		{"one fails when the node has just begun to serve", "error=EIO:when=30+"},
		{"an fdatasync fails under load", "error=EIO:when=60+"},
		{"one fdatasync fails and the next would succeed", "error=EIO:when=70"},
		{"an fdatasync hangs", "delay_enter=8000000:when=80+"}, // strace lets no process end before the delay does
	} {
		t.Run(fault.name, func(t *testing.T) {
			if testDiskFault(t, fault.inject) {
				told++
			}
		})
	}
	if told == 0 {
		t.Errorf("after status %d no metric says so, whatever the fault", testcluster.ExitUntrusted)
	}
}

// testDiskFault reports whether the process after the fault tells of it.
func testDiskFault(t *testing.T, inject string) (told bool) {
	s := newStoppedServer(t, policies(100_000))
	acknowledged, unknowns, err := spendUntil(within(t, 60*time.Second), s.address, startTraced(s, inject))
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != testcluster.ExitUntrusted {
		t.Fatalf("the process ended with %v, want status %d", err, testcluster.ExitUntrusted)
	}
	s.start()
	used, err := newClient(s.address).used(policy, "key")
	if err != nil {
		t.Fatal(err)
	}
	told = distrusted(t, s.address)
	t.Logf("status %d; %d acknowledged, %d unknown, %d counted; told: %v", testcluster.ExitUntrusted, acknowledged, unknowns, used, told)
	if used < acknowledged || used > acknowledged+unknowns {
		t.Errorf("%d acknowledged and %d unknown, but %d counted", acknowledged, unknowns, used)
	}
	return told
}

// distrusted reports whether a node says that it has ended itself within the last hour, since its disk could not be trusted.
func distrusted(t *testing.T, address string) bool {
	t.Helper()
	response, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if at, found := strings.CutPrefix(lines.Text(), "stint_disk_distrusted_timestamp_seconds "); found {
			seconds, err := strconv.ParseFloat(at, 64)
			return err == nil && time.Since(time.Unix(int64(seconds), 0)).Abs() < time.Hour
		}
	}
	return false
}

// startTraced starts the server under strace; the channel returns the error with which it ends. Neither outlives the test.
func startTraced(s *server, inject string) <-chan error {
	s.t.Helper()
	traced := exec.Command("strace", append([]string{"-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync",
		"-e", "inject=fdatasync:" + inject, s.binary}, s.arguments()...)...)
	traced.Stdout, traced.Stderr = &s.log, &s.log
	traced.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a killed strace leaves the server running
	if err := traced.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended, gone := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(gone)
		ended <- traced.Wait()
	}()
	s.t.Cleanup(func() {
		select {
		case <-gone:
		default:
			_ = syscall.Kill(-traced.Process.Pid, syscall.SIGKILL) // it may just have ended
			<-gone
		}
	})
	return ended
}

// spendUntil spends on one key until the process has ended, and counts the outcomes.
func spendUntil(ctx context.Context, address string, ended <-chan error) (acknowledged, unknowns uint64, err error) {
	c := newClient(address)
	for {
		select {
		case err := <-ended:
			return acknowledged, unknowns, err
		case <-ctx.Done():
			return acknowledged, unknowns, fmt.Errorf("nothing: it still runs: %w", ctx.Err())
		default:
		}
		switch got, _ := c.check(policy, "key", ""); got {
		case admitted:
			acknowledged++
		case unknown:
			unknowns++
		case notExecuted:
			pause(ctx, 10*time.Millisecond) // starting or down: the client can only wait
		}
	}
}
