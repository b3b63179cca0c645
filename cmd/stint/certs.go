package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/cluster/peer"
	"github.com/stint-io/stint/cluster/placement"
)

type certsCommand struct {
	CA   certsCACommand   `cmd:"" name:"ca" help:"Make an authority: ca.crt and ca.key."`
	Peer certsPeerCommand `cmd:"" help:"Make a node's certificate: NODE.crt and NODE.key."`
	Role certsRoleCommand `cmd:"" help:"Make a client's certificate for a role: role-NAME.crt and role-NAME.key."`
	API  certsAPICommand  `cmd:"" name:"api" help:"Make a certificate for a node's ports for clients: api.crt and api.key."`
	Key  certsKeyCommand  `cmd:"" name:"cluster-key" help:"Make a cluster key, by which nodes recognize each other."`
}

// certsOutput has the flag of the commands that make a certificate.
type certsOutput struct {
	Out string `help:"Directory to write to; made if it is missing." default:"." placeholder:"DIR"`
}

type certsCACommand struct {
	certsOutput
	Days int `help:"How long it is valid." default:"3650"`
}

// certsIssuer has the flags of the commands that sign with an authority.
type certsIssuer struct {
	certsOutput
	Days   int    `help:"How long it is valid." default:"365"`
	CACert string `name:"ca-cert" help:"The authority's certificate." default:"ca.crt" placeholder:"FILE"`
	CAKey  string `name:"ca-key" help:"Its key." default:"ca.key" placeholder:"FILE"`
}

type certsPeerCommand struct {
	Node string `arg:"" help:"The node's id (stint serve --node-id)."`
	certsIssuer
}

type certsRoleCommand struct {
	Name string `arg:"" help:"The role's name."`
	certsIssuer
}

type certsAPICommand struct {
	Hosts []string `arg:"" name:"HOST" help:"Addresses and names by which clients reach the node, as in 10.0.0.11 or stint1.example.com."`
	certsIssuer
}

type certsKeyCommand struct {
	File string `arg:"" help:"Where to write it. A file that is there stays as it is."`
}

// clockSkew is how far the clocks of peers that check a new certificate may be behind.
const clockSkew = time.Hour

// Run makes an authority. It never replaces one: every certificate that it has signed would become worthless.
func (c *certsCACommand) Run(s streams) error {
	if err := checkDays(c.Days); err != nil {
		return err
	}
	name := filepath.Join(c.Out, "ca")
	for _, file := range []string{name + ".crt", name + ".key"} {
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is there already: an authority is not replaced; "+
				"remove it, or name another directory with --out", file)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "stint authority"}, IsCA: true,
		BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	template.NotAfter = time.Now().AddDate(0, 0, c.Days)
	return writeCertificate(s, name, template, template, key, key)
}

// Run makes a node's certificate.
func (c *certsPeerCommand) Run(s streams) error {
	if !placement.ValidID(c.Node) {
		return usagef("NODE: %q is not 1 to 64 of A-Z, a-z, 0-9, dot, dash and underscore", c.Node)
	}
	return c.issue(s, c.Node, peer.PeerTemplate(c.Node))
}

// Run makes a client's certificate. It is no peer's: the URI alone distinguishes a role from a node, never the common
// name.
func (c *certsRoleCommand) Run(s streams) error {
	if !placement.ValidID(c.Name) {
		return usagef("NAME: %q is not 1 to 64 of A-Z, a-z, 0-9, dot, dash and underscore", c.Name)
	}
	return c.issue(s, "role-"+c.Name, &x509.Certificate{Subject: pkix.Name{CommonName: c.Name},
		URIs:     []*url.URL{{Scheme: "stint", Host: "role", Path: "/" + c.Name}},
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// Run makes a certificate for the client ports.
func (c *certsAPICommand) Run(s streams) error {
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "stint"}, KeyUsage: x509.KeyUsageDigitalSignature,
		//mutant:server-certificate-gives-a-role
		BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, host := range c.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		if problem := api.HostProblem(host); problem != "" {
			return usagef("HOST: %q %s", host, problem)
		}
		template.DNSNames = append(template.DNSNames, host)
	}
	return c.issue(s, "api", template)
}

// Run makes a cluster key. It never replaces one: nodes with different keys do not hear each other.
func (c *certsKeyCommand) Run(s streams) error {
	if err := peer.MakeKeyFile(c.File); err != nil {
		return fmt.Errorf("cluster key: %w", err)
	}
	fmt.Fprintf(s.out, "%s  keep it secret\n", c.File)
	return nil
}

func checkDays(days int) error {
	if days < 1 || days > 100*365 {
		return usagef("--days: must be between 1 and %d", 100*365)
	}
	return nil
}

// issue signs a certificate with the authority. It expires with the authority at the latest.
func (c *certsIssuer) issue(s streams, name string, template *x509.Certificate) error {
	if err := checkDays(c.Days); err != nil {
		return err
	}
	authority, err := tls.LoadX509KeyPair(c.CACert, c.CAKey)
	if err != nil {
		return fmt.Errorf("the authority: %w", err)
	}
	now := time.Now()
	switch {
	case !authority.Leaf.IsCA:
		return fmt.Errorf("%s is not the certificate of an authority", c.CACert)
	case now.After(authority.Leaf.NotAfter):
		return fmt.Errorf("%s has expired, at %s", c.CACert, authority.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	template.NotAfter = now.AddDate(0, 0, c.Days)
	if template.NotAfter.After(authority.Leaf.NotAfter) {
		template.NotAfter = authority.Leaf.NotAfter
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	return writeCertificate(s, filepath.Join(c.Out, name), template, authority.Leaf, key, authority.PrivateKey)
}

// writeCertificate signs a certificate and writes it and its key, which only its owner may read.
func writeCertificate(
	s streams, name string, template, parent *x509.Certificate, key *ecdsa.PrivateKey, signer crypto.PrivateKey,
) (err error) {
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return err
	}
	template.NotBefore = time.Now().Add(-clockSkew)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	if err := writePEM(name+".key", 0o600, &pem.Block{Type: "PRIVATE KEY", Bytes: secret}); err != nil {
		return err
	}
	if err := writePEM(name+".crt", 0o644, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s.crt  valid until %s\n%s.key  keep it secret\n",
		name, template.NotAfter.UTC().Format(time.DateOnly), name)
	return nil
}

func writePEM(name string, mode fs.FileMode, block *pem.Block) error {
	return writeAtomically(name, mode, func(w io.Writer) error { return pem.Encode(w, block) })
}
