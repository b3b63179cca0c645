package peer

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"time"
)

// A cluster key is one secret instead of an authority and a gossip key: lines of 32 bytes, in hex or base64. The first
// line sends, all lines are accepted. Everything that nodes use is derived from a line by HKDF-SHA256 (RFC 5869), with
// another text for each use; nodes of all releases must derive the same.
const (
	keyBytes     = 32
	keyLinesMost = 8
	keyFileMost  = 4 << 10

	infoGossip      = "stint cluster key 1: gossip"
	infoAuthority   = "stint cluster key 1: authority"
	infoFingerprint = "stint cluster key 1: fingerprint"
)

// ClusterKey is the content of a cluster key file. It does not change. Printing or logging it does not reveal it.
type ClusterKey struct {
	lines []keyLine
	roots *x509.CertPool // the authorities of all lines
}

// ParseClusterKey reads the content of a cluster key file: 1 to 8 lines of 32 bytes, each in hex or base64, with no
// line twice. Empty lines count for nothing.
func ParseClusterKey(text []byte) (*ClusterKey, error) {
	if len(text) > keyFileMost {
		return nil, fmt.Errorf("it has more than %d bytes", keyFileMost)
	}
	k := &ClusterKey{roots: x509.NewCertPool()}
	for i, line := range bytes.Split(text, []byte("\n")) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		secret, ok := decodeKeyLine(string(line))
		if !ok { // the line itself is not repeated: it may be nearly right
			return nil, fmt.Errorf("line %d is not %d bytes in hex (openssl rand -hex %d) or base64",
				i+1, keyBytes, keyBytes)
		}
		derived, err := deriveLine(secret)
		if err != nil {
			return nil, err
		}
		if slices.Contains(k.Fingerprints(), derived.fingerprint) {
			return nil, fmt.Errorf("line %d is there twice: removing one of them would remove nothing", i+1)
		}
		k.lines = append(k.lines, derived)
		k.roots.AddCert(derived.root)
	}
	switch {
	case len(k.lines) == 0:
		return nil, errors.New("it is empty")
	case len(k.lines) > keyLinesMost:
		return nil, fmt.Errorf("it has %d lines, more than %d", len(k.lines), keyLinesMost)
	}
	return k, nil
}

// GossipKeys returns the gossip keys of all lines; that of the first line sends.
func (k *ClusterKey) GossipKeys() (keys [][]byte) {
	for _, l := range k.lines {
		keys = append(keys, l.gossip)
	}
	return keys
}

// Fingerprints names the lines, in their order, without revealing them.
func (k *ClusterKey) Fingerprints() (lines []string) {
	for _, l := range k.lines {
		lines = append(lines, l.fingerprint)
	}
	return lines
}

// Format implements fmt.Formatter. It hides the key.
func (k *ClusterKey) Format(to fmt.State, _ rune) {
	fmt.Fprintf(to, "cluster key %v", k.Fingerprints())
}

// Certificates that nodes issue for themselves are valid for clocks that are up to certificateBefore behind, and up to
// a week ahead, of the issuer's: they are renewed daily.
const (
	certificateBefore = 48 * time.Hour
	certificateLife   = 8 * 24 * time.Hour
	certificateRenew  = 24 * time.Hour
)

// PeerTemplate returns what a peer's certificate says: the one node that it is for, and that it is for both ends.
func PeerTemplate(node string) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: node},
		URIs:     []*url.URL{{Scheme: "stint", Host: "peer", Path: "/" + node}},
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
}

// issue makes a certificate and its key for a node, signed by the first line's authority.
func (k *ClusterKey) issue(node string, now time.Time) (der []byte, key ed25519.PrivateKey, err error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := PeerTemplate(node)
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, nil, err
	}
	template.NotBefore, template.NotAfter = now.Add(-certificateBefore), now.Add(certificateLife)
	der, err = x509.CreateCertificate(rand.Reader, template, k.lines[0].root, public, k.lines[0].authority)
	return der, key, err
}
