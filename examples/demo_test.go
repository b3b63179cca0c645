package examples

import (
	"os/exec"
	"strings"
	"testing"
)

// `make demo` admits exactly 100 of 150, though the node that counts is killed in between, and ends by itself.
func TestDemo(t *testing.T) {
	t.Parallel()
	needLinux(t)
	out, err := exec.Command("go", "run", "./demo", "-stint", binary(t)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{text(t, "demo/picture.txt")[:40], "100 x 200, then 50 x 429 (Retry-After: 3",
		"<- kill -9 n", strings.Repeat("x", 50) + "\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("it does not print %q:\n%s", want, out)
		}
	}
}
