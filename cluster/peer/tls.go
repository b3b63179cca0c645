package peer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// TLS names the PEM files with which nodes authenticate each other.
//
// A peer's certificate carries exactly one URI of the form stint://peer/<node> among its alternative names: its role and
// its name. A certificate of the same authority without this URI, made for a client or a web server, is no peer; checking
// the authority alone would let all of those in (Consul had to learn it: CVE-2021-37219). It is a URI and not a host name
// because no other use of certificates reads or issues that scheme, so no other certificate is accepted by accident. Both
// ends present a certificate, so it needs the extended key usages for server and client.
type TLS struct {
	CertFile string
	KeyFile  string
	CAFile   string // the authorities whose peers are accepted
}

// peerURI is the prefix of the node's name in a peer's certificate.
const peerURI = "stint://peer/"

// peerCertificates holds the files' last valid content. Every handshake checks whether the files changed, so new
// certificates come into use without a restart; if a file cannot be used, the last good content stays in force.
// Established connections are not checked again.
type peerCertificates struct {
	files  TLS
	node   string
	logger *slog.Logger

	now func() time.Time

	mu     sync.Mutex
	told   fileStamps // unusable files that were logged already
	warned time.Time  // when the end of the certificate was last logged
	stamps fileStamps
	own    *tls.Certificate
	ends   time.Time // earliest expiry in own's chain
	roots  *x509.CertPool
}

// fileStamps identifies the versions of the three files.
type fileStamps [3]struct {
	modified time.Time
	size     int64
}

func loadPeerCertificates(files TLS, node string, logger *slog.Logger) (*peerCertificates, error) {
	c := &peerCertificates{files: files, node: node, logger: logger, now: time.Now}
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("cluster: peer certificate: %w", err)
	}
	return c, nil
}

// Check returns why a node cannot use the files, or nil: for example, they cannot be read, the certificate is another
// node's, or it has expired.
func (p *TLS) Check(node string) error {
	_, err := loadPeerCertificates(*p, node, slog.New(slog.DiscardHandler))
	return err
}

// load reads the files and uses them if they are valid together.
func (c *peerCertificates) load() error {
	stamps := c.stat()
	own, err := tls.LoadX509KeyPair(c.files.CertFile, c.files.KeyFile)
	if err != nil {
		return err
	}
	name, err := peerName(own.Leaf)
	if err != nil {
		return fmt.Errorf("%s: %w", c.files.CertFile, err)
	}
	if name != c.node {
		return fmt.Errorf("%s is that of node %q, and this is %q", c.files.CertFile, name, c.node)
	}
	ends, err := timely(own, c.now())
	if err != nil {
		return fmt.Errorf("%s %w", c.files.CertFile, err)
	}
	text, err := os.ReadFile(c.files.CAFile)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s has no certificate in PEM", c.files.CAFile)
	}
	c.stamps, c.own, c.ends, c.roots = stamps, &own, ends, roots
	return nil
}

// timely returns until when others accept a certificate and its chain, or an error if they do not accept it now.
func timely(own tls.Certificate, now time.Time) (ends time.Time, err error) {
	for _, raw := range own.Certificate {
		certificate, err := x509.ParseCertificate(raw)
		switch {
		case err != nil:
			return ends, err
		case now.After(certificate.NotAfter):
			return ends, fmt.Errorf("expired %v ago, at %v: no other node accepts it; issue a new one", now.Sub(certificate.NotAfter).Round(time.Second),
				certificate.NotAfter.UTC().Format(time.RFC3339))
		case now.Before(certificate.NotBefore):
			return ends, fmt.Errorf("is valid from %v on, in %v: no other node accepts it before; issue another one, or set the clock",
				certificate.NotBefore.UTC().Format(time.RFC3339), certificate.NotBefore.Sub(now).Round(time.Second))
		}
		if ends.IsZero() || certificate.NotAfter.Before(ends) {
			ends = certificate.NotAfter
		}
	}
	return ends, nil
}

func (c *peerCertificates) stat() (stamps fileStamps) {
	for i, name := range []string{c.files.CertFile, c.files.KeyFile, c.files.CAFile} {
		if info, err := os.Stat(name); err == nil {
			stamps[i].modified, stamps[i].size = info.ModTime(), info.Size()
		}
	}
	return stamps
}

func (c *peerCertificates) current() (*tls.Certificate, *x509.CertPool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if stamps := c.stat(); stamps != c.stamps {
		if err := c.load(); err != nil && stamps != c.told { // every handshake tries again
			c.told = stamps
			c.logger.Error("peer certificate: the changed files cannot be used, going on with the last ones", "error", err)
		}
	}
	c.warn()
	return c.own, c.roots
}

// CertificateEnds returns when this node's certificate expires; zero if it has none.
func (p *Port) CertificateEnds() time.Time {
	if p.certificates == nil {
		return time.Time{}
	}
	c := p.certificates
	c.current()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ends
}

const (
	endsSoon  = 14 * 24 * time.Hour
	warnEvery = time.Hour
)

// warn logs that the certificate expires soon, or has expired while the node ran: other nodes refuse it from then on. The
// caller holds mu.
func (c *peerCertificates) warn() {
	now := c.now()
	left := c.ends.Sub(now)
	if left > endsSoon || !c.warned.IsZero() && now.Sub(c.warned) < warnEvery {
		return
	}
	c.warned = now
	if left <= 0 {
		c.logger.Error("peer certificate: it has expired, and other nodes refuse this one: put a new one in its place",
			"file", c.files.CertFile, "expired", c.ends)
		return
	}
	c.logger.Warn("peer certificate: it expires soon: put a new one in its place", "file", c.files.CertFile,
		"expires", c.ends, "left", left.Round(time.Minute))
}

// accept is the listening side of a handshake; it returns the name of the node that dialed. The caller must close
// secured, on an error too.
func (c *peerCertificates) accept(conn net.Conn) (secured net.Conn, node string, err error) {
	own, roots := c.current()
	server := tls.Server(conn, &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{*own},
		ClientAuth:             tls.RequireAnyClientCert, // verified below
		SessionTicketsDisabled: true,
		VerifyConnection: func(state tls.ConnectionState) (err error) {
			node, err = provenName(state.PeerCertificates, roots, x509.ExtKeyUsageClientAuth)
			return err
		},
	})
	if err := server.Handshake(); err != nil {
		return conn, "", fmt.Errorf("TLS: %w", err)
	}
	return server, node, nil
}

// dial is the dialing side of a handshake. The peer must be the given node.
func (c *peerCertificates) dial(ctx context.Context, conn net.Conn, node string) (net.Conn, error) {
	own, roots := c.current()
	client := tls.Client(conn, &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{*own},
		SessionTicketsDisabled: true,
		// The library would verify a host name. Our certificates name nodes, and VerifyConnection checks them.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			name, err := provenName(state.PeerCertificates, roots, x509.ExtKeyUsageServerAuth)
			if err == nil && name != node {
				err = fmt.Errorf("the certificate is that of node %q", name)
			}
			return err
		},
	})
	if err := client.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return client, nil
}

// provenName verifies a certificate chain and returns the node that it names.
func provenName(chain []*x509.Certificate, roots *x509.CertPool, usage x509.ExtKeyUsage) (string, error) {
	if len(chain) == 0 {
		return "", errors.New("no certificate")
	}
	options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{usage}}
	for _, c := range chain[1:] {
		options.Intermediates.AddCert(c)
	}
	if _, err := chain[0].Verify(options); err != nil {
		return "", err
	}
	return peerName(chain[0])
}

// peerName returns the node that a certificate names. There must be exactly one of our URIs, so that there is no choice
// to make.
func peerName(certificate *x509.Certificate) (node string, err error) {
	for _, uri := range certificate.URIs {
		name, ours := strings.CutPrefix(uri.Scheme+"://"+uri.Host+uri.Path, peerURI)
		if !ours {
			continue
		}
		if node != "" || name == "" {
			return "", errors.New("the certificate names more than one node, or an empty one")
		}
		node = name
	}
	if node == "" {
		return "", errors.New("the certificate is no peer's: it has no URI " + peerURI + "<node>")
	}
	return node, nil
}
