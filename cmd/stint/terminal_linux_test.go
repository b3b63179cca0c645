package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// On a terminal, apply shows which policies would end, and asks.
func TestApplyAsksBeforePoliciesEnd(t *testing.T) {
	for answer, version := range map[string]uint64{"n": 2, "": 2, "what": 2, "y": 3, "YES": 3} {
		f := newCluster()
		file := filepath.Join(t.TempDir(), "policies.yaml")
		writeFile(t, file, changedPolicies)
		person, terminal := openTerminal(t)
		if _, err := fmt.Fprintln(person, answer); err != nil { // typed ahead
			t.Fatal(err)
		}
		code := run([]string{"apply", "-f", file, "--addr", f.serve(t)}, terminal, terminal, terminal)
		terminal.Close()
		text := readTerminal(person)
		if !strings.Contains(text, "would end: ") || !strings.Contains(text, "Go on? [y/N] ") {
			t.Errorf("nobody was asked: %s", text)
		}
		if got := f.inForce().Version; got != version || (code == 0) != (version == 3) {
			t.Errorf("answered %q: status %d, version %d, want %d; %s", answer, code, got, version, text)
		}
		if version == 2 && !strings.Contains(text, "nothing was changed") {
			t.Errorf("answered %q: %s", answer, text)
		}
	}
}

// On a terminal, forget says what is lost, and asks.
func TestForgetAsks(t *testing.T) {
	f := newCluster()
	person, terminal := openTerminal(t)
	if _, err := fmt.Fprintln(person, "no"); err != nil {
		t.Fatal(err)
	}
	// Decide would panic
	code := run([]string{"keys", "forget", "user:42", "--addr", f.serve(t)}, terminal, terminal, terminal)
	terminal.Close()
	if text := readTerminal(person); code == 0 || !strings.Contains(text, "forget user:42 ends what it has used") ||
		!strings.Contains(text, "Go on? [y/N] ") || !strings.Contains(text, "nothing was forgotten") {
		t.Errorf("status %d: %s", code, text)
	}
}

// openTerminal opens a pseudo-terminal: the end of the person, and the end of the program.
func openTerminal(t *testing.T) (person, terminal *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return person, terminal
}

// readTerminal reads what was printed. The program's end is closed, so the terminal's buffer is all that is left.
func readTerminal(person *os.File) string {
	var text strings.Builder
	buffer := make([]byte, 4096)
	for {
		n, err := person.Read(buffer)
		text.Write(buffer[:n])
		if err != nil { // EIO: the other end is closed
			return text.String()
		}
	}
}
