//go:build chaos

package chaos

import (
	"bufio"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/testcluster"
)

// TestDiskFaults: strace makes the n-th fdatasync of the process fail or hang. The process must end with status 75, and
// after its next start everything that it had admitted must still be counted.
func TestDiskFaults(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Fatal("strace is needed to make fdatasync fail: apt-get install strace")
	}
	told := 0 // each process has 200 ms for its word to the next, which not every one has on a busy machine
	for _, fault := range []struct{ name, inject string }{
		{"an fdatasync fails while starting", "error=EIO:when=12+"},
		{"one fails while the cluster is founded", "error=EIO:when=20+"},
		// the first to tell may be one that was refused
		{"one fails while several goroutines write", "error=EIO:when=24+"},
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
	if err := s.RestartFailing(0, inject); err != nil {
		t.Fatal(err)
	}
	acknowledged, unknowns := spendUntilDistrust(t, s)
	restarted(t, s, 0)
	used, err := newClient(s.Addr(0)).used(policy, "key")
	if err != nil {
		t.Fatal(err)
	}
	told = distrusted(t, s.Addr(0))
	t.Logf("status %d; %d acknowledged, %d unknown, %d counted; told: %v",
		testcluster.ExitUntrusted, acknowledged, unknowns, used, told)
	if used < acknowledged || used > acknowledged+unknowns {
		t.Errorf("%d acknowledged and %d unknown, but %d counted", acknowledged, unknowns, used)
	}
	return told
}

// distrusted reports whether a node says that it has ended itself within the last hour, since its disk could not be
// trusted.
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

// spendUntilDistrust spends on one key until the process has ended, as it must, because it does not trust its disk; and
// counts the outcomes.
func spendUntilDistrust(t *testing.T, s *testcluster.Cluster) (acknowledged, unknowns uint64) {
	t.Helper()
	ctx, c := within(t, 2*time.Minute), newClient(s.Addr(0))
	for s.Running(0) && ctx.Err() == nil {
		switch got, _ := c.check(policy, "key", ""); got {
		case admitted:
			acknowledged++
		case unknown:
			unknowns++
		case notExecuted:
			pause(ctx, 10*time.Millisecond) // starting or down: the client can only wait
		}
	}
	if code, err := s.AwaitExit(ctx, 0); err != nil || code != testcluster.ExitUntrusted {
		t.Fatalf("the process ended with %d, %v, want status %d", code, err, testcluster.ExitUntrusted)
	}
	return acknowledged, unknowns
}
