package main

import (
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Where a machine has no authorities the program has its own; where it has some, or SSL_CERT_FILE names them, they are
// the only ones.
func TestAuthoritiesOfAMachineThatHasNone(t *testing.T) {
	// in the process that is started below, which has not needed them before
	if os.Getenv("STINT_TEST_AUTHORITIES") != "" {
		trustAuthorities()
		pool, err := x509.SystemCertPool()
		if err != nil {
			t.Fatal(err)
		}
		//lint:ignore SA1019 on Linux the pool has what was read from files, and the fallback
		fmt.Printf("%d authorities\n", len(pool.Subjects()))
		return
	}
	dir := t.TempDir()
	if code, _, stderr := stint("tool", "certs", "ca", "--out", dir); code != 0 {
		t.Fatal(stderr)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	count := func(file string) string {
		command := exec.Command(program, "-test.run", "^TestAuthoritiesOfAMachineThatHasNone$")
		command.Env = append(os.Environ(), "STINT_TEST_AUTHORITIES=1", "SSL_CERT_FILE="+file,
			"SSL_CERT_DIR="+filepath.Join(dir, "none"))
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		first, _, _ := strings.Cut(string(out), "\n")
		return first
	}
	if own := count(filepath.Join(dir, "ca.crt")); own != "1 authorities" {
		t.Errorf("beside SSL_CERT_FILE: %s", own)
	}
	var fallback int
	if _, err := fmt.Sscan(count(filepath.Join(dir, "none")), &fallback); err != nil || fallback < 80 {
		t.Errorf("without any: %d, %v", fallback, err)
	}
}
