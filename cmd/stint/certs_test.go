package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/cluster/peer"
)

// stintIn runs a command in a directory.
func stintIn(t *testing.T, dir string, args ...string) (code int, out, stderr string) {
	t.Helper()
	t.Chdir(dir)
	var stdout, errors bytes.Buffer
	code = run(args, strings.NewReader(""), &stdout, &errors)
	return code, stdout.String(), errors.String()
}

func mustRun(t *testing.T, dir string, args ...string) {
	t.Helper()
	if code, _, stderr := stintIn(t, dir, args...); code != 0 {
		t.Fatalf("stint %v: exit code %d, %s", args, code, stderr)
	}
}

func TestCertificatesAreWhatTheyAreMadeFor(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, dir, "certs", "ca")
	mustRun(t, dir, "certs", "peer", "stint1", "--days", "30")
	mustRun(t, dir, "certs", "role", "ops", "--out", "clients")
	for _, key := range []string{"ca.key", "stint1.key", "clients/role-ops.key"} {
		if info, err := os.Stat(filepath.Join(dir, key)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", key, info, err)
		}
	}
	// A node takes its own, and neither another node's nor a role's.
	files := peer.TLS{CertFile: "stint1.crt", KeyFile: "stint1.key", CAFile: "ca.crt"}
	if err := files.Check("stint1"); err != nil {
		t.Error(err)
	}
	if err := files.Check("stint2"); err == nil {
		t.Error("another node may use it")
	}
	role := peer.TLS{CertFile: "clients/role-ops.crt", KeyFile: "clients/role-ops.key", CAFile: "ca.crt"}
	if err := role.Check("ops"); err == nil {
		t.Error("a role is a node")
	}
	pair, err := tls.LoadX509KeyPair("clients/role-ops.crt", "clients/role-ops.key")
	if err != nil {
		t.Fatal(err)
	}
	c := pair.Leaf
	if len(c.URIs) != 1 || c.URIs[0].String() != "stint://role/ops" || len(c.ExtKeyUsage) != 1 || c.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth {
		t.Errorf("the role's certificate has %v, %v", c.URIs, c.ExtKeyUsage)
	}
	if pair, err = tls.LoadX509KeyPair("stint1.crt", "stint1.key"); err != nil {
		t.Fatal(err)
	}
	if left := time.Until(pair.Leaf.NotAfter); left < 29*24*time.Hour || left > 31*24*time.Hour {
		t.Errorf("30 days are %v", left)
	}
	// The same command renews; an authority is not replaced.
	before := pair.Leaf.SerialNumber
	mustRun(t, dir, "certs", "peer", "stint1", "--days", "36500") // longer than the authority
	if pair, err = tls.LoadX509KeyPair("stint1.crt", "stint1.key"); err != nil || pair.Leaf.SerialNumber.Cmp(before) == 0 ||
		time.Until(pair.Leaf.NotAfter) > 3651*24*time.Hour {
		t.Errorf("it was not renewed: %v", err)
	}
	if code, _, stderr := stintIn(t, dir, "certs", "ca"); code != 1 || !strings.Contains(stderr, "ca.crt is there already") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	for want, args := range map[string][]string{
		`NODE: "a/b" is not`:                  {"certs", "peer", "a/b"},
		"--days: must be between":             {"certs", "role", "ops", "--days", "0"},
		"is not the certificate of an author": {"certs", "peer", "n", "--ca-cert", "stint1.crt", "--ca-key", "stint1.key"},
		"the authority: ":                     {"certs", "peer", "n", "--ca-key", "stint1.key"},
	} {
		if code, _, stderr := stintIn(t, dir, args...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
}

// Another implementation finds them right, too.
func TestOpenSSLVerifiesTheCertificates(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl is not installed")
	}
	dir := t.TempDir()
	mustRun(t, dir, "certs", "ca")
	mustRun(t, dir, "certs", "peer", "stint1")
	mustRun(t, dir, "certs", "role", "ops")
	for _, check := range []struct {
		purpose, file string
		good          bool
	}{
		{"sslclient", "stint1.crt", true},
		{"sslserver", "stint1.crt", true},
		{"sslclient", "role-ops.crt", true},
		{"sslserver", "role-ops.crt", false},
	} {
		said, err := exec.Command(openssl, "verify", "-x509_strict", "-purpose", check.purpose, "-CAfile", "ca.crt", check.file).CombinedOutput()
		if (err == nil) != check.good {
			t.Errorf("%s as %s: %v, %s", check.file, check.purpose, err, said)
		}
	}
	text, err := exec.Command(openssl, "x509", "-in", "stint1.crt", "-noout", "-ext", "subjectAltName").CombinedOutput()
	if err != nil || !strings.Contains(string(text), "URI:stint://peer/stint1") {
		t.Errorf("%v, %s", err, text)
	}
}
