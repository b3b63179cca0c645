package peer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/cluster/hop"
	"github.com/stint-io/stint/internal/edge/certfile"
)

// authority signs the certificates of a test.
type authority struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
	serial      int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{key: newKey(t)}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.certificate = a.sign(t, template, template, a.key)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) sign(t *testing.T, template, parent *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// template returns a certificate with the given URIs, for both ends of a connection, valid for an hour.
func template(t *testing.T, uris ...string) *x509.Certificate {
	c := &x509.Certificate{Subject: pkix.Name{CommonName: "peer"}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	for _, text := range uris {
		uri, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		c.URIs = append(c.URIs, uri)
	}
	return c
}

// write stores a certificate, its key and the authority in a directory.
func (a *authority) write(t *testing.T, dir string, c *x509.Certificate) *TLS {
	key := newKey(t)
	a.serial++
	c.SerialNumber = big.NewInt(a.serial + 1)
	signed := a.sign(t, c, a.certificate, key)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, kind string, der []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	return &TLS{CertFile: file("cert.pem", "CERTIFICATE", signed.Raw), KeyFile: file("key.pem", "EC PRIVATE KEY", der),
		CAFile: file("ca.pem", "CERTIFICATE", a.certificate.Raw)}
}

func (a *authority) peer(t *testing.T, node string) *TLS {
	return a.write(t, t.TempDir(), template(t, peerURI+node))
}

func secured(files *TLS) func(*Config) {
	return func(c *Config) { c.TLS, c.Decide = files, allow }
}

func TestPeersProveWhoTheyAre(t *testing.T) {
	noLeaks(t)
	ca, known := newAuthority(t), new(addresses)
	n1 := openPort(t, known, "n1", secured(ca.peer(t, "n1")))
	n2 := openPort(t, known, "n2", secured(ca.peer(t, "n2")), func(c *Config) {
		c.Listener = listenOn(t, "0.0.0.0:0")
	})
	b := n2.Stream(0, "n2/0/2")
	talk(t, dialed(t, n1.Stream(0, "n1/0/1"), "n2/0/2"), b)
	h := hop.New(hop.Near, n1.DialHop)
	defer h.Close()
	wantAllowed(t, "forwarded", h.Submit(t.Context(), "n2", 0, 1, oneCheck))
	conn, err := n1.DialHop(t.Context(), "n2")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if version := conn.(*peerConn).Conn.(*tls.Conn).ConnectionState().Version; version != tls.VersionTLS13 {
		t.Errorf("TLS version %x", version)
	}
}

// dialsAs has a node with the given certificate dial n2, whatever the certificate proves.
func dialsAs(t *testing.T, n2 *Port, node string, files *TLS) error {
	t.Helper()
	known := new(addresses)
	known.set("n2", n2.Addr().String())
	p := &Port{config: configOf(node, known).withDefaults(), peerConns: make(map[*peerConn]struct{})}
	if files != nil {
		watcher, err := certfile.Load(certfile.Config{Logger: quiet, Others: "other node",
			Files: certfile.Files{Cert: files.CertFile, Key: files.KeyFile, CAs: n2.config.TLS.CAFile},
			Now:   func() time.Time { return time.Now().Add(-2 * time.Minute) }}) // so that it takes an expired one
		if err != nil {
			t.Fatal(err)
		}
		p.identity = &peerCertificates{watcher}
	}
	conn, err := p.DialHop(t.Context(), "n2")
	if err == nil {
		conn.Close()
	}
	return err
}

func TestOnlyPeersOfTheirOwnNameComeIn(t *testing.T) {
	noLeaks(t)
	ca := newAuthority(t)
	n2 := openPort(t, new(addresses), "n2", secured(ca.peer(t, "n2")))
	old := template(t, peerURI+"n1")
	old.NotAfter = time.Now().Add(-time.Minute)
	serverOnly := template(t, peerURI+"n1")
	serverOnly.ExtKeyUsage = serverOnly.ExtKeyUsage[:1]
	for name, c := range map[string]struct {
		files *TLS
		in    bool
	}{
		"itself":                           {ca.peer(t, "n1"), true},
		"no certificate, in the clear":     {nil, false},
		"another node's":                   {ca.peer(t, "n3"), false},
		"no peer's, of the same authority": {ca.write(t, t.TempDir(), template(t, "https://peer/n1")), false},
		"a client's":                       {ca.write(t, t.TempDir(), template(t, "stint://client/n1")), false},
		"a role's":                         {ca.write(t, t.TempDir(), template(t, "stint://role/n1")), false},
		"two names":                        {ca.write(t, t.TempDir(), template(t, peerURI+"n1", peerURI+"n3")), false},
		"another authority's":              {newAuthority(t).peer(t, "n1"), false},
		"an expired one":                   {ca.write(t, t.TempDir(), old), false},
		"one for servers only":             {ca.write(t, t.TempDir(), serverOnly), false},
	} {
		if err := dialsAs(t, n2, "n1", c.files); (err == nil) != c.in {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheNodeThatAnswersMustBeTheOneThatWasDialed(t *testing.T) {
	noLeaks(t)
	ca, known := newAuthority(t), new(addresses)
	n1 := openPort(t, known, "n1", secured(ca.peer(t, "n1")))
	n3 := openPort(t, known, "n3", secured(ca.peer(t, "n3")))
	known.set("n2", n3.Addr().String())
	_, err := n1.DialHop(t.Context(), "n2")
	if err == nil || !strings.Contains(err.Error(), `certificate is that of node "n3"`) {
		t.Errorf("n3 answered for n2: %v", err)
	}
	known.set("n2", openPort(t, new(addresses), "n2").Addr().String())
	if _, err := n1.DialHop(t.Context(), "n2"); err == nil {
		t.Error("a port in the clear answered")
	}
}

func TestNewCertificatesComeIntoUseWithoutARestart(t *testing.T) {
	noLeaks(t)
	ca, known := newAuthority(t), new(addresses)
	n1 := openPort(t, known, "n1", secured(ca.peer(t, "n1")))
	dir := t.TempDir()
	files := ca.write(t, dir, template(t, peerURI+"n2"))
	openPort(t, known, "n2", secured(files))
	serial := func() int64 {
		conn, err := n1.DialHop(t.Context(), "n2")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.(*peerConn).Conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	first := serial()
	renew := func(c *x509.Certificate) {
		ca.write(t, dir, c)
		later := time.Now().Add(time.Duration(ca.serial) * time.Minute) // coarse enough for the file system's clock
		if err := os.Chtimes(files.CertFile, later, later); err != nil {
			t.Fatal(err)
		}
	}
	renew(template(t, peerURI+"n2"))
	second := serial()
	if second == first {
		t.Error("the old certificate is still used")
	}
	renew(template(t, peerURI+"n3")) // a mistake
	if serial() != second {
		t.Error("a certificate of another node came into use")
	}
}

func TestANodeDoesNotStartWithAnothersCertificate(t *testing.T) {
	ca := newAuthority(t)
	for name, files := range map[string]*TLS{
		"another node's": ca.peer(t, "n2"),
		"no peer's":      ca.write(t, t.TempDir(), template(t)),
		"none":           {CertFile: "none", KeyFile: "none", CAFile: "none"},
	} {
		config := configOf("n1", new(addresses))
		config.Listener, config.TLS = listenOn(t, "127.0.0.1:0"), files
		p, err := Listen(config)
		if err == nil {
			p.Close()
			t.Errorf("%s: it started", name)
		}
	}
}

func TestANodeDoesNotStartWithACertificateThatNobodyAccepts(t *testing.T) {
	ca := newAuthority(t)
	for want, change := range map[string]func(*x509.Certificate) (at time.Time){
		"expired": func(c *x509.Certificate) time.Time {
			c.NotBefore, c.NotAfter = time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour)
			return c.NotAfter
		},
		"is valid from": func(c *x509.Certificate) time.Time {
			c.NotBefore = time.Now().Add(30 * time.Minute)
			return c.NotBefore
		},
	} {
		c := template(t, peerURI+"n1")
		at := change(c).UTC().Format(time.RFC3339)
		files := ca.write(t, t.TempDir(), c)
		err := files.Check("n1")
		if err == nil || !strings.Contains(err.Error(), files.CertFile+" "+want) ||
			!strings.Contains(err.Error(), at) {
			t.Errorf("%s, at %s: %v", want, at, err)
		}
		config := configOf("n1", new(addresses))
		config.Listener, config.TLS = listenOn(t, "127.0.0.1:0"), files
		if p, err := Listen(config); err == nil {
			p.Close()
			t.Errorf("a port opens although its certificate %s", want)
		}
	}
	// The same applies to a certificate in its chain: an intermediate authority's.
	files := ca.peer(t, "n1")
	expired := template(t)
	expired.NotBefore, expired.NotAfter, expired.SerialNumber = time.Now().Add(-48*time.Hour),
		time.Now().Add(-24*time.Hour), big.NewInt(99)
	text, err := os.ReadFile(files.CertFile)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: ca.sign(t, expired, ca.certificate, newKey(t)).Raw})...)
	if err := os.WriteFile(files.CertFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := files.Check("n1"); err == nil || !strings.Contains(err.Error(), " expired ") {
		t.Errorf("with an expired intermediate: %v", err)
	}
}
