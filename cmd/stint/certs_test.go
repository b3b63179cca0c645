package main

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/cluster/peer"
	"github.com/stint-io/stint/internal/edge/certfile"
)

// stintIn runs a command in a directory.
func stintIn(t *testing.T, dir string, args ...string) (code int, out, stderr string) {
	t.Helper()
	t.Chdir(dir)
	return stint(args...)
}

func mustRun(t *testing.T, dir string, args ...string) {
	t.Helper()
	if code, _, stderr := stintIn(t, dir, args...); code != 0 {
		t.Fatalf("stint %v: exit code %d, %s", args, code, stderr)
	}
}

func TestCertificatesAreWhatTheyAreMadeFor(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, dir, "tool", "certs", "ca")
	mustRun(t, dir, "tool", "certs", "peer", "stint1", "--days", "30")
	mustRun(t, dir, "tool", "certs", "role", "ops", "--out", "clients")
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
	if len(c.URIs) != 1 || c.URIs[0].String() != "stint://role/ops" || len(c.ExtKeyUsage) != 1 ||
		c.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth {
		t.Errorf("the role's certificate has %v, %v", c.URIs, c.ExtKeyUsage)
	}
	if pair, err = tls.LoadX509KeyPair("stint1.crt", "stint1.key"); err != nil {
		t.Fatal(err)
	}
	if left := pair.Leaf.NotAfter.Sub(pair.Leaf.NotBefore); left < 29*24*time.Hour || left > 31*24*time.Hour {
		t.Errorf("30 days are %v", left)
	}
	// The same command renews; an authority is not replaced.
	before := pair.Leaf.SerialNumber
	mustRun(t, dir, "tool", "certs", "peer", "stint1", "--days", "36500") // longer than the authority
	if pair, err = tls.LoadX509KeyPair("stint1.crt", "stint1.key"); err != nil ||
		pair.Leaf.SerialNumber.Cmp(before) == 0 || pair.Leaf.NotAfter.Sub(pair.Leaf.NotBefore) > 3651*24*time.Hour {
		t.Errorf("it was not renewed: %v", err)
	}
	if code, _, stderr := stintIn(t, dir, "tool", "certs", "ca"); code != 1 ||
		!strings.Contains(stderr, "ca.crt is there already") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	for want, args := range map[string][]string{
		`NODE: "a/b" is not`:      {"tool", "certs", "peer", "a/b"},
		"--days: must be between": {"tool", "certs", "role", "ops", "--days", "0"},
		"is not the certificate of an author": {"tool", "certs", "peer", "n", "--ca-cert", "stint1.crt", "--ca-key",
			"stint1.key"},
		"the authority: ": {"tool", "certs", "peer", "n", "--ca-key", "stint1.key"},
	} {
		if code, _, stderr := stintIn(t, dir, args...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
}

// A client that trusts the authority accepts the certificate for the hosts that it was made for, as a server's and as
// nothing else.
func TestACertificateForClientsNamesItsHosts(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, dir, "tool", "certs", "ca")
	mustRun(t, dir, "tool", "certs", "api", "10.0.0.11", "stint1.example.com", "--out", "stint1")
	pair, err := tls.LoadX509KeyPair("stint1/api.crt", "stint1/api.key")
	if err != nil {
		t.Fatal(err)
	}
	authorities, err := certfile.Authorities("ca.crt")
	if err != nil {
		t.Fatal(err)
	}
	for host, good := range map[string]bool{"10.0.0.11": true, "stint1.example.com": true, "10.0.0.12": false,
		"example.com": false} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: authorities,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		if (err == nil) != good {
			t.Errorf("%s: %v", host, err)
		}
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: authorities,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err == nil {
		t.Error("a server's certificate gives a client a role")
	}
	if err := (&peer.TLS{CertFile: "stint1/api.crt", KeyFile: "stint1/api.key", CAFile: "ca.crt"}).
		Check("stint"); err == nil {
		t.Error("it is a node's")
	}
	for _, host := range []string{"stint1:7400", "https://stint1", "*.example.com", ""} {
		if code, _, stderr := stintIn(t, dir, "tool", "certs", "api", host); code != 2 ||
			!strings.Contains(stderr, "HOST: ") {
			t.Errorf("%q: exit code %d, %s", host, code, stderr)
		}
	}
}

// A cluster key is made once: nodes that were given different ones would not hear each other.
func TestAClusterKeyIsMadeOnce(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, dir, "tool", "certs", "cluster-key", "cluster.key")
	first, err := peer.OpenKeyFile("cluster.key", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat("cluster.key"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	mustRun(t, dir, "tool", "certs", "cluster-key", "cluster.key")
	again, err := peer.OpenKeyFile("cluster.key", slog.New(slog.DiscardHandler))
	if err != nil || !slices.Equal(first.Key().Fingerprints(), again.Key().Fingerprints()) {
		t.Errorf("it was replaced: %v", err)
	}
	mustRun(t, dir, "tool", "certs", "cluster-key", "other.key")
	if other, err := peer.OpenKeyFile("other.key", slog.New(slog.DiscardHandler)); err != nil ||
		slices.Equal(first.Key().Fingerprints(), other.Key().Fingerprints()) {
		t.Errorf("two keys are one: %v", err)
	}
}

// Another implementation finds them right, too.
func TestOpenSSLVerifiesTheCertificates(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl is not installed")
	}
	dir := t.TempDir()
	mustRun(t, dir, "tool", "certs", "ca")
	mustRun(t, dir, "tool", "certs", "peer", "stint1")
	mustRun(t, dir, "tool", "certs", "role", "ops")
	mustRun(t, dir, "tool", "certs", "api", "10.0.0.11", "stint1.example.com")
	for _, check := range []struct {
		purpose, file string
		good          bool
	}{
		{"sslclient", "stint1.crt", true},
		{"sslserver", "stint1.crt", true},
		{"sslclient", "role-ops.crt", true},
		{"sslserver", "role-ops.crt", false},
		{"sslserver", "api.crt", true},
		{"sslclient", "api.crt", false},
	} {
		said, err := exec.Command(openssl, "verify", "-x509_strict", "-purpose", check.purpose, "-CAfile", "ca.crt",
			check.file).CombinedOutput()
		if (err == nil) != check.good {
			t.Errorf("%s as %s: %v, %s", check.file, check.purpose, err, said)
		}
	}
	text, err := exec.Command(openssl, "x509", "-in", "stint1.crt", "-noout", "-ext", "subjectAltName").CombinedOutput()
	if err != nil || !strings.Contains(string(text), "URI:stint://peer/stint1") {
		t.Errorf("%v, %s", err, text)
	}
}
