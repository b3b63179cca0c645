package peer

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"
)

// identity is how this node proves to others which node it is, and how it tells which node another one is.
type identity interface {
	// current returns what to prove it with, and the authorities to believe, as of now.
	current() proof
}

// proof is what a handshake uses.
type proof struct {
	own   *tls.Certificate
	roots *x509.CertPool
	line  string // of the cluster key, that own was issued by; "": no cluster key
}

// proven is what a handshake has shown.
type proven struct {
	node string // the other node
	line string // of the cluster key, by which it proved that; "": no cluster key
	own  string // likewise, by which this node proved itself
}

// accept is the listening side of a handshake. The caller must close secured, on an error too.
func (p proof) accept(conn net.Conn) (secured net.Conn, peer proven, err error) {
	peer.own = p.line
	server := tls.Server(conn, &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{*p.own},
		ClientAuth:             tls.RequireAnyClientCert, // verified below
		SessionTicketsDisabled: true,
		VerifyConnection: func(state tls.ConnectionState) (err error) {
			peer.node, peer.line, err = p.provenName(state.PeerCertificates, x509.ExtKeyUsageClientAuth)
			return err
		},
	})
	if err := server.Handshake(); err != nil {
		return conn, proven{}, fmt.Errorf("TLS: %w", err)
	}
	return server, peer, nil
}

// dial is the dialing side of a handshake. The peer must be the given node.
func (p proof) dial(ctx context.Context, conn net.Conn, node string) (net.Conn, proven, error) {
	peer := proven{own: p.line}
	client := tls.Client(conn, &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{*p.own},
		SessionTicketsDisabled: true,
		// The library would verify a host name. Our certificates name nodes, and VerifyConnection checks them.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) (err error) {
			peer.node, peer.line, err = p.provenName(state.PeerCertificates, x509.ExtKeyUsageServerAuth)
			if err == nil && peer.node != node {
				err = fmt.Errorf("the certificate is that of node %q", peer.node)
			}
			return err
		},
	})
	if err := client.HandshakeContext(ctx); err != nil {
		return nil, proven{}, fmt.Errorf("TLS: %w", err)
	}
	return client, peer, nil
}

// provenName verifies a certificate chain. It returns the node that the chain names, and the line of the cluster key
// that the chain's authority is of.
func (p proof) provenName(chain []*x509.Certificate, usage x509.ExtKeyUsage) (node, line string, err error) {
	if len(chain) == 0 {
		return "", "", errors.New("no certificate")
	}
	options := x509.VerifyOptions{Roots: p.roots, Intermediates: x509.NewCertPool(),
		KeyUsages: []x509.ExtKeyUsage{usage}}
	for _, c := range chain[1:] {
		options.Intermediates.AddCert(c)
	}
	verified, err := chain[0].Verify(options)
	if err != nil {
		return "", "", err
	}
	if p.line != "" {
		root := verified[0][len(verified[0])-1]
		line = strings.TrimPrefix(root.Subject.CommonName, rootPrefix)
	}
	node, err = peerName(chain[0])
	return node, line, err
}

// keyIdentity proves this node's identity by certificates that it issues itself with the cluster key.
type keyIdentity struct {
	file   *KeyFile
	node   string
	now    func() time.Time
	logger *slog.Logger

	mu     sync.Mutex
	own    *tls.Certificate // replaced, never changed
	line   string           // that own was issued by
	issued time.Time
}

func newKeyIdentity(file *KeyFile, node string, logger *slog.Logger) (*keyIdentity, error) {
	k := &keyIdentity{file: file, node: node, now: time.Now, logger: logger}
	if err := k.renew(file.Key(), k.now()); err != nil {
		return nil, fmt.Errorf("cluster: a certificate of the cluster key: %w", err)
	}
	return k, nil
}

// current implements identity.
func (k *keyIdentity) current() proof {
	key, now := k.file.Key(), k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if age := now.Sub(k.issued); k.line != key.lines[0].fingerprint || age.Abs() > certificateRenew {
		if err := k.renew(key, now); err != nil {
			k.logger.Error("cluster key: a new certificate cannot be issued, going on with the last one", "error", err)
		}
	}
	return proof{k.own, key.roots, k.line}
}

// renew issues a certificate. The caller holds mu, or no other goroutine has k yet.
func (k *keyIdentity) renew(key *ClusterKey, now time.Time) error {
	der, private, err := key.issue(k.node, now)
	if err != nil {
		return err
	}
	k.own = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: ed25519.PrivateKey(private)}
	k.line, k.issued = key.lines[0].fingerprint, now
	return nil
}
