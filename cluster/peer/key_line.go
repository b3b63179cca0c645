package peer

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"math/big"
	"time"
)

// keyLine is what one line gives.
type keyLine struct {
	fingerprint string // names the line and says nothing about it
	gossip      []byte // 32 bytes
	authority   ed25519.PrivateKey
	// root is the authority's own certificate: the same on every node, since nothing in it is drawn or dated.
	root *x509.Certificate
}

func decodeKeyLine(line string) (secret []byte, ok bool) {
	if secret, err := hex.DecodeString(line); err == nil && len(secret) == keyBytes {
		return secret, true
	}
	secret, err := base64.StdEncoding.DecodeString(line)
	return secret, err == nil && len(secret) == keyBytes
}

func deriveLine(secret []byte) (l keyLine, err error) {
	fingerprint, err := hkdf.Key(sha256.New, secret, nil, infoFingerprint, 6)
	if err != nil {
		return l, err
	}
	seed, err := hkdf.Key(sha256.New, secret, nil, infoAuthority, ed25519.SeedSize)
	if err != nil {
		return l, err
	}
	if l.gossip, err = hkdf.Key(sha256.New, secret, nil, infoGossip, keyBytes); err != nil {
		return l, err
	}
	l.fingerprint, l.authority = hex.EncodeToString(fingerprint), ed25519.NewKeyFromSeed(seed)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: rootPrefix + l.fingerprint},
		NotBefore:             time.Unix(0, 0),
		NotAfter:              time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), // RFC 5280: no end
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, l.authority.Public(), l.authority)
	if err != nil {
		return l, err
	}
	l.root, err = x509.ParseCertificate(der)
	return l, err
}

// rootPrefix begins the name of a line's authority; the line's fingerprint follows.
const rootPrefix = "stint cluster key "
