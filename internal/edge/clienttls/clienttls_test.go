package clienttls

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/testcert"
)

// port is a port with TLS. It tells every client its role.
type port struct {
	t       *testing.T
	ca      *testcert.Authority
	roles   string // the file of the roles' authority
	tls     *TLS
	addr    string
	resumed bool // the last client resumed a session
}

// open opens a port that accepts the roles of an authority; nil: none.
func open(t *testing.T, roles *testcert.Authority, protocols ...string) *port {
	t.Helper()
	p := &port{t: t, ca: testcert.New(t)}
	pem := p.ca.Write(t.TempDir())
	files := Files{Cert: pem.Cert, Key: pem.Key}
	if roles != nil {
		p.roles = roles.Write(t.TempDir()).CA
		files.CAs = p.roles
	}
	var err error
	if p.tls, err = Load(files, "", slog.New(slog.DiscardHandler), time.Now); err != nil {
		t.Fatal(err)
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.addr = inner.Addr().String()
	listener := tls.NewListener(Listen(inner, func(sent []byte) ([]byte, bool) {
		return append([]byte("not in plaintext: "), sent...), string(sent) == "PING\r\n"
	}), p.tls.Config(protocols...))
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				c.SetDeadline(time.Now().Add(await.Patience))
				if c.(*tls.Conn).Handshake() == nil {
					state := c.(*tls.Conn).ConnectionState()
					io.WriteString(c, "role "+Role(&state))
				}
			})
		}
	})
	t.Cleanup(func() { inner.Close(); serving.Wait() })
	return p
}

// hears returns the text that a client gets, or why it is not served.
func (p *port) hears(config *tls.Config) (string, error) {
	config = config.Clone()
	config.RootCAs = p.ca.Pool()
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: await.Patience}, "tcp", p.addr, config)
	if err != nil {
		return "", err
	}
	defer c.Close()
	p.resumed = c.ConnectionState().DidResume
	c.SetDeadline(time.Now().Add(await.Patience))
	text, err := io.ReadAll(c)
	return string(text), err
}

func TestARoleIsOneURIOfTheRightAuthority(t *testing.T) {
	roles := testcert.New(t)
	p := open(t, roles)
	named := func(name string) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.Subject.CommonName = name }
	}
	usage := func(u ...x509.ExtKeyUsage) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.ExtKeyUsage = u }
	}
	role := testcert.URIs("stint://role/billing")
	opaque := func(scheme, rest string) func(*x509.Certificate) { // as it is written
		return func(c *x509.Certificate) { c.URIs = []*url.URL{{Scheme: scheme, Opaque: rest}} }
	}
	for name, c := range map[string]struct {
		config *tls.Config
		want   string // role, or a part of the error
	}{
		"none":   {p.ca.Trusting(), "role "},
		"a role": {roles.Client(role), "role billing"},
		"a role for clients alone": {roles.Client(role, usage(x509.ExtKeyUsageClientAuth)),
			"role billing"},
		"a common name": {roles.Client(testcert.URIs(), named("billing")), "bad certificate"},
		"a common name like a URI": {roles.Client(testcert.URIs(), named("stint://role/billing")),
			"bad certificate"},
		"a DNS name": {roles.Client(testcert.Hosts("billing")), "bad certificate"},
		"two roles":  {roles.Client(testcert.URIs("stint://role/billing", "stint://role/admin")), "bad certificate"},
		"the same role twice": {roles.Client(role, role),
			"bad certificate"},
		"a peer": {roles.Client(testcert.URIs("stint://peer/n1")), "bad certificate"},
		"a peer and a role": {
			roles.Client(testcert.URIs("stint://peer/n1", "stint://role/billing")),
			"bad certificate"},
		"a role and a URI of another kind": {roles.Client(role, testcert.URIs("spiffe://a/b")),
			"bad certificate"},
		"a role without a name": {roles.Client(testcert.URIs("stint://role/")), "bad certificate"},
		"no name but a path":    {roles.Client(testcert.URIs("stint://role/a/b")), "bad certificate"},
		"a name in disguise":    {roles.Client(testcert.URIs("stint://role/%62illing")), "bad certificate"},
		"a name with a query":   {roles.Client(testcert.URIs("stint://role/billing?admin")), "bad certificate"},
		"a name with an empty fragment": {roles.Client(opaque("stint", "//role/billing#")),
			"bad certificate"},
		"a scheme in upper case": {roles.Client(opaque("STINT", "//role/billing")),
			"bad certificate"},
		"a name of somebody": {roles.Client(testcert.URIs("stint://admin@role/billing")),
			"bad certificate"},
		"a long name":    {roles.Client(testcert.URIs("stint://role/" + strings.Repeat("x", 65))), "bad certificate"},
		"another scheme": {roles.Client(testcert.URIs("https://role/billing")), "bad certificate"},
		"another authority's": {
			testcert.New(t).Client(role),
			"certificate authority"},
		"that of the server's authority": {
			p.ca.Client(role),
			"certificate authority"},
		"an expired one":        {roles.Client(role, testcert.EndsIn(-time.Minute)), "expired certificate"},
		"one for servers alone": {roles.Client(role, usage(x509.ExtKeyUsageServerAuth)), "bad certificate"},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			c.config.MaxVersion = version
			heard, err := p.hears(c.config)
			if served := strings.HasPrefix(c.want, "role "); served && (heard != c.want || err != nil) ||
				!served && (heard != "" || err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s over %s: heard %q and %v, want %s", name, tls.VersionName(version), heard, err, c.want)
			}
		}
	}
}

// A certificate is worth nothing where no authority was configured, and a connection without TLS has no role.
func TestWithoutAuthoritiesNobodyHasARole(t *testing.T) {
	p := open(t, nil)
	if heard, err := p.hears(testcert.New(t).Client(testcert.URIs("stint://role/billing"))); heard != "role " ||
		err != nil {
		t.Errorf("heard %q, %v", heard, err)
	}
	leaf := &x509.Certificate{}
	testcert.URIs("stint://role/billing")(leaf)
	for name, state := range map[string]*tls.ConnectionState{"no TLS": nil,
		"not verified": {PeerCertificates: []*x509.Certificate{leaf}}} {
		if role := Role(state); role != "" {
			t.Errorf("%s: role %q", name, role)
		}
	}
}

func TestOldVersionsAreRefused(t *testing.T) {
	p := open(t, nil)
	old := p.ca.Trusting()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if heard, err := p.hears(old); err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("heard %q, %v", heard, err)
	}
}

// A browser that is led to the Redis port names its protocols, and none of them is spoken there.
func TestAClientThatSpeaksAnotherProtocolIsRefused(t *testing.T) {
	p := open(t, nil, "redis")
	config := p.ca.Trusting()
	if heard, err := p.hears(config); heard != "role " || err != nil {
		t.Errorf("who names no protocol: %q, %v", heard, err)
	}
	config.NextProtos = []string{"h2", "http/1.1"}
	if heard, err := p.hears(config); err == nil || !strings.Contains(err.Error(), "application protocol") {
		t.Errorf("a browser: %q, %v", heard, err)
	}
}

// An authority that is taken away loses its clients, even those that resume a session.
func TestAResumedSessionIsHeldToTheAuthoritiesOfTheMoment(t *testing.T) {
	roles := testcert.New(t)
	p := open(t, roles)
	config := roles.Client(testcert.URIs("stint://role/billing"))
	config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config.MaxVersion = version
		for again := range 2 {
			if heard, err := p.hears(config); heard != "role billing" || p.resumed != (again > 0) || err != nil {
				t.Fatalf("%s: heard %q, resumed %v, %v", tls.VersionName(version), heard, p.resumed, err)
			}
		}
	}
	former := p.tls.files.Current()
	other := testcert.New(t).Write(t.TempDir())
	text, err := os.ReadFile(other.CA)
	if err != nil {
		t.Fatal(err)
	}
	replaceCA(t, p, text)
	await.Until(t, "the new authority is in force", func() bool { return p.tls.files.Current() != former })
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config.MaxVersion = version
		if heard, err := p.hears(config); err == nil || !strings.Contains(err.Error(), "certificate authority") {
			t.Errorf("%s: heard %q, %v", tls.VersionName(version), heard, err)
		}
	}
}

func replaceCA(t *testing.T, p *port, text []byte) {
	t.Helper()
	if err := os.WriteFile(p.roles, text, 0o600); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(p.roles, later, later); err != nil {
		t.Fatal(err)
	}
}

func TestWhoSpeaksPlaintextIsToldSo(t *testing.T) {
	p := open(t, nil)
	for _, sent := range []string{"PING\r\n", "GET / HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x00"} {
		c, err := net.Dial("tcp", p.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(await.Patience))
		if _, err := io.WriteString(c, sent); err != nil {
			t.Fatal(err)
		}
		for range 3 { // it may go on sending
			io.WriteString(c, sent)
		}
		if heard, err := io.ReadAll(c); !strings.HasPrefix(string(heard), "not in plaintext: "+sent) || err != nil {
			t.Errorf("%q hears %q, %v", sent, heard, err)
		}
	}
}

func TestACertificateThatIsNotForServersIsNotTaken(t *testing.T) {
	files := testcert.New(t).Write(t.TempDir(), func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[1:] })
	_, err := Load(Files{Cert: files.Cert, Key: files.Key}, "", slog.New(slog.DiscardHandler), time.Now)
	if err == nil || !strings.Contains(err.Error(), files.Cert+": the certificate is not for servers") {
		t.Errorf("got %v", err)
	}
}

func TestACertificateForAnotherHostIsNamedInTheLog(t *testing.T) {
	files := testcert.New(t).Write(t.TempDir(), testcert.Hosts("stint.example.com"))
	for host, lines := range map[string]int{"stint.example.com": 0, "": 0, "10.0.0.1": 1, "node-1": 1} {
		var log bytes.Buffer
		if _, err := Load(Files{Cert: files.Cert, Key: files.Key}, host, slog.New(slog.NewTextHandler(&log, nil)),
			time.Now); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(log.String(), "will not accept it"); got != lines {
			t.Errorf("%q: %d lines, want %d:\n%s", host, got, lines, log.String())
		}
	}
}
