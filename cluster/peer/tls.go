package peer

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/stint-io/stint/internal/edge/certfile"
)

// TLS names the PEM files with which nodes authenticate each other.
//
// A peer's certificate carries exactly one URI of the form stint://peer/<node> among its alternative names: its role
// and its name. A certificate of the same authority without this URI, made for a client or a web server, is no peer;
// checking the authority alone would let all of those in (Consul had to learn it: CVE-2021-37219). It is a URI and not
// a host name because no other use of certificates reads or issues that scheme, so no other certificate is accepted by
// accident. Both ends present a certificate, so it needs the extended key usages for server and client.
type TLS struct {
	CertFile string
	KeyFile  string
	CAFile   string // the authorities of accepted peers
}

// peerURI is the prefix of the node's name in a peer's certificate.
const peerURI = "stint://peer/"

// peerCertificates are this node's certificate, and the authorities of the others'.
type peerCertificates struct {
	files *certfile.Watcher
}

func loadPeerCertificates(
	files TLS, node string, logger *slog.Logger, now func() time.Time,
) (*peerCertificates, error) {
	watcher, err := certfile.Load(certfile.Config{
		Files:  certfile.Files{Cert: files.CertFile, Key: files.KeyFile, CAs: files.CAFile},
		Name:   "peer certificate",
		Others: "other node",
		Check: func(own *x509.Certificate) error {
			name, err := peerName(own)
			if err == nil && name != node {
				err = fmt.Errorf("the certificate is that of node %q, and this is %q", name, node)
			}
			return err
		},
		Logger: logger,
		Now:    now,
	})
	if err != nil {
		return nil, fmt.Errorf("cluster: peer certificate: %w", err)
	}
	return &peerCertificates{watcher}, nil
}

// Check returns why a node cannot use the files, or nil: for example, they cannot be read, the certificate is another
// node's, or it has expired.
func (p *TLS) Check(node string) error {
	_, err := loadPeerCertificates(*p, node, slog.New(slog.DiscardHandler), time.Now)
	return err
}

// current implements identity.
func (c *peerCertificates) current() proof {
	content := c.files.Current()
	return proof{own: &content.Certificate, roots: content.CAs}
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
