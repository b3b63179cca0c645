package cluster

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

// PeerTLS names the files, in PEM, with which nodes prove to each other who they are.
//
// A peer's certificate carries exactly one URI of the form stint://peer/<node> among its alternative names: its role
// and its name. A certificate of the same authority without it, made for a client or a web server, is no peer; the
// authority alone would let all of those in (Consul had to learn it: CVE-2021-37219). A URI, and not a host name,
// because no other use of certificates reads or issues that scheme, so none is mistaken for a peer's by accident. Both
// ends present one: it needs the extended key usages for server and client.
type PeerTLS struct {
	CertFile string
	KeyFile  string
	CAFile   string // the authorities whose peers are accepted
}

// peerURI is what a peer's certificate says before the node's name.
const peerURI = "stint://peer/"

// peerCertificates holds what the files said last. Every handshake looks whether they changed, so new certificates come
// into use without a restart; a file that cannot be used leaves the last good ones in force. Connections that stand are
// not asked again.
type peerCertificates struct {
	files  PeerTLS
	node   string
	logger *slog.Logger

	mu     sync.Mutex
	stamps fileStamps
	own    *tls.Certificate
	roots  *x509.CertPool
}

// fileStamps tells versions of the three files apart.
type fileStamps [3]struct {
	modified time.Time
	size     int64
}

func loadPeerCertificates(files PeerTLS, node string, logger *slog.Logger) (*peerCertificates, error) {
	c := &peerCertificates{files: files, node: node, logger: logger}
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("cluster: peer certificate: %w", err)
	}
	return c, nil
}

// Check tells what keeps a node from using the files: they cannot be read, or the certificate is another node's.
func (p *PeerTLS) Check(node string) error {
	_, err := loadPeerCertificates(*p, node, slog.New(slog.DiscardHandler))
	return err
}

// load reads the files and takes them into use if they make sense together.
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
	text, err := os.ReadFile(c.files.CAFile)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s has no certificate in PEM", c.files.CAFile)
	}
	c.stamps, c.own, c.roots = stamps, &own, roots
	return nil
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
	if c.stat() != c.stamps {
		if err := c.load(); err != nil {
			c.logger.Warn("peer certificate: the changed files cannot be used, going on with the last ones", "error", err)
		}
	}
	return c.own, c.roots
}

// accept is the listening side of a handshake; it returns the name of the node that dialed. On an error too, secured
// is what to close.
func (c *peerCertificates) accept(conn net.Conn) (secured net.Conn, node string, err error) {
	own, roots := c.current()
	server := tls.Server(conn, &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{*own},
		ClientAuth:             tls.RequireAnyClientCert, // and proven below
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

// dial is the other side: whoever answers must be the node we want.
func (c *peerCertificates) dial(ctx context.Context, conn net.Conn, node string) (net.Conn, error) {
	own, roots := c.current()
	client := tls.Client(conn, &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{*own},
		SessionTicketsDisabled: true,
		// The library would look for a host name. Ours are names of nodes, and VerifyConnection proves them.
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

// provenName returns the node that a chain of certificates proves.
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

// peerName reads role and name: exactly one URI of ours, so that there is nothing to choose from.
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
