package testcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs the certificates of a test.
type Authority struct {
	t           testing.TB
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
	serial      int64 // of the newest certificate; files are given times that grow with it
}

// Files are the PEM files of a certificate.
type Files struct{ Cert, Key, CA string }

// New makes an authority.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, key: newKey(t), serial: 1}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-100 * 24 * time.Hour), NotAfter: time.Now().Add(1000 * 24 * time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.certificate = a.sign(template, template, &a.key.PublicKey)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *Authority) sign(template, parent *x509.Certificate, key *ecdsa.PublicKey) *x509.Certificate {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}

// Pool returns a pool with the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// Trusting returns the configuration of a client that trusts the authority alone.
func (a *Authority) Trusting() *tls.Config { return &tls.Config{RootCAs: a.Pool()} }

// Write issues a certificate, and writes it into a directory with its key and its authority. It is for 30 days, both
// ends of a connection, and localhost in all spellings, except for changes. Existing files are replaced, and look
// newer.
func (a *Authority) Write(dir string, changes ...func(*x509.Certificate)) Files {
	a.t.Helper()
	a.serial++
	template := &x509.Certificate{SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: "stint"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}}
	for _, change := range changes {
		change(template)
	}
	key := newKey(a.t)
	signed := a.sign(template, a.certificate, &key.PublicKey)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	file := func(name, kind string, der []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			a.t.Fatal(err)
		}
		changed := time.Now().Add(time.Duration(a.serial) * time.Minute) // coarse enough for the file system's clock
		if err := os.Chtimes(name, changed, changed); err != nil {
			a.t.Fatal(err)
		}
		return name
	}
	return Files{Key: file("key.pem", "EC PRIVATE KEY", der), CA: file("ca.pem", "CERTIFICATE", a.certificate.Raw),
		Cert: file("cert.pem", "CERTIFICATE", signed.Raw)}
}

// Client is the configuration of a client that trusts the authority and presents a new certificate of it.
func (a *Authority) Client(changes ...func(*x509.Certificate)) *tls.Config {
	a.t.Helper()
	files := a.Write(a.t.TempDir(), changes...)
	own, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		a.t.Fatal(err)
	}
	config := a.Trusting()
	// A client would hold back a certificate of an authority that the server does not name.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
	return config
}

// URIs gives a certificate these URIs, and no host.
func URIs(uris ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.DNSNames, c.IPAddresses = nil, nil
		for _, text := range uris {
			uri, err := url.Parse(text)
			if err != nil {
				panic(err) // a mistake in a test
			}
			c.URIs = append(c.URIs, uri)
		}
	}
}

// Hosts gives a certificate these DNS names, and no others.
func Hosts(names ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = names, nil }
}

// EndsIn makes a certificate expire after this time; below 0, it has expired.
func EndsIn(left time.Duration) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.NotAfter = time.Now().Add(left)
		c.NotBefore = c.NotAfter.Add(-90 * 24 * time.Hour)
	}
}
