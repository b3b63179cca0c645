//go:build chaos

package chaos

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// TestTheCommandLineTellsWhyThereIsNoAnswer kills two of three nodes. The command line shows the sentence of the node
// that is left, and not that its own time is over.
func TestTheCommandLineTellsWhyThereIsNoAnswer(t *testing.T) {
	c := newCluster(t)
	check := func(args ...string) (code int, text string) {
		t.Helper()
		out, err := exec.Command(program(t),
			append([]string{"check", clusterTargets[0].Policy, "key", "--addr", c.Addr(0)}, args...)...).
			CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if exit != nil {
			code = exit.ExitCode()
		}
		return code, string(out)
	}
	if code, text := check("--timeout", "20s"); code != 0 {
		t.Fatalf("with three nodes: status %d, %s", code, text)
	}
	if err := errors.Join(c.Kill(1), c.Kill(2)); err != nil {
		t.Fatal(err)
	}
	for _, timeout := range []string{"1s", "5s"} {
		code, text := check("--timeout", timeout)
		t.Logf("after %s at most: %s", timeout, strings.TrimSpace(text))
		if code == 0 || strings.Contains(text, "deadline exceeded") || !strings.Contains(text, "no owner of shard ") {
			t.Errorf("with one node: status %d, %s", code, text)
		}
	}
}
