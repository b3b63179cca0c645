package clienttls

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/internal/edge/certfile"
)

// lookEvery is the least time between two looks at the files: a flood of handshakes must not cause a flood of system
// calls.
const lookEvery = time.Second

// Files names the node's certificate for clients, and the authorities (CAs) of certificates with a role for clients;
// "" requests no certificate.
type Files = certfile.Files

// TLS holds the certificate of a node's ports for clients. A nil TLS has none.
type TLS struct {
	files *certfile.Watcher
}

func (t *TLS) current() *certfile.Content {
	if t == nil {
		return &certfile.Content{}
	}
	return t.files.Current()
}

// Load reads the files. host is the node's address for clients, or "" if that is not known: a certificate that does not
// name it causes a warning in the log.
func Load(files Files, host string, logger *slog.Logger, now func() time.Time) (*TLS, error) {
	watcher, err := certfile.Load(certfile.Config{
		Files:  files,
		Name:   "API certificate",
		Others: "client",
		Check: func(own *x509.Certificate) error {
			if err := own.VerifyHostname(host); err != nil && host != "" {
				logger.Warn("API certificate: clients that connect to the address which stint status shows for this "+
					"node will not accept it", "file", files.Cert, "host", host, "error", err)
			}
			return forServers(own)
		},
		Every:  lookEvery,
		Logger: logger,
		Now:    now,
	})
	if err != nil {
		return nil, err
	}
	return &TLS{watcher}, nil
}

// forServers refuses a certificate that is not for servers.
func forServers(own *x509.Certificate) error {
	uses := own.ExtKeyUsage
	if len(uses)+len(own.UnknownExtKeyUsage) == 0 || slices.Contains(uses, x509.ExtKeyUsageServerAuth) ||
		slices.Contains(uses, x509.ExtKeyUsageAny) {
		return nil
	}
	return errors.New("the certificate is not for servers: its extended key usages lack serverAuth")
}

// Ends returns the expiry of the certificate, or the earliest in its chain; zero if there is none.
func (t *TLS) Ends() time.Time { return t.current().Ends }

// AuthoritiesEnd returns the earliest expiry of an authority of roles; zero if there are none.
func (t *TLS) AuthoritiesEnd() time.Time { return t.current().CAsEnd }

// Config returns the configuration of a port that speaks these protocols (ALPN). A client that names protocols must
// name one of them; one that names none may speak any. It is nil without a certificate.
func (t *TLS) Config(protocols ...string) *tls.Config {
	if t == nil {
		return nil
	}
	type made struct {
		from   *certfile.Content
		config *tls.Config
	}
	var last atomic.Pointer[made]
	common := tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols} //mutant:old-tls-spoken
	port := common.Clone()
	port.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		content := t.files.Current()
		m := last.Load()
		if m == nil || m.from != content {
			m = &made{content, common.Clone()}
			m.config.Certificates = []tls.Certificate{content.Certificate}
			if content.CAs != nil {
				//mutant:any-authority-issues-roles
				m.config.ClientAuth, m.config.ClientCAs = tls.VerifyClientCertIfGiven, content.CAs
				m.config.VerifyConnection = mayHaveARole
			}
			last.Store(m)
		}
		if c, ok := hello.Conn.(*conn); ok && content.CAs != nil {
			return c.judging(m.config), nil
		}
		return m.config, nil
	}
	return port
}

// mayHaveARole refuses a client with a certificate that does not name a role. Its authority has been verified before.
func mayHaveARole(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	//mutant:any-certificate-is-a-client 2
	_, err := roleOf(state.PeerCertificates[0])
	return err
}

// roleURI is the prefix of the role in a client's certificate. It is a URI because no other use of certificates reads
// or issues that scheme, so that no other certificate names a role by accident.
const roleURI = "stint://role/"

// roleName matches the names of roles.
var roleName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Role returns the role that the client of a connection has proven, or "". state is that of a finished handshake with a
// configuration of this package: http.Request.TLS, credentials.TLSInfo.State of grpc-go, or tls.Conn.ConnectionState;
// nil if the connection has no TLS.
func Role(state *tls.ConnectionState) string {
	if state == nil || len(state.VerifiedChains) == 0 {
		return ""
	}
	name, err := roleOf(state.VerifiedChains[0][0])
	if err != nil {
		return ""
	}
	return name
}

// roleOf returns the role that a certificate names. There must be exactly one URI, so that the role is unambiguous, in
// our own spelling.
func roleOf(certificate *x509.Certificate) (string, error) {
	if len(certificate.URIs) != 1 { //mutant:first-uri-counts
		return "", fmt.Errorf("a role's certificate has exactly one URI, %s<name>, and this one has %d",
			roleURI, len(certificate.URIs))
	}
	uri := certificate.URIs[0]
	name, ok := strings.CutPrefix(uri.String(), roleURI)
	if !ok || !roleName.MatchString(name) { //mutant:role-of-any-name
		return "", fmt.Errorf("the certificate is no role's: its URI is %.200q, not %s<name>", uri, roleURI)
	}
	if !isSpelled(certificate, roleURI+name) {
		return "", fmt.Errorf("the certificate is no role's: its URI is not spelled %s%s", roleURI, name)
	}
	return name, nil
}

// isSpelled reports whether a certificate holds exactly this short URI: parsing drops an empty fragment and lowers the
// case of a scheme.
func isSpelled(certificate *x509.Certificate, uri string) bool {
	name := append([]byte{0x86, byte(len(uri))}, uri...) // GeneralName, [6], in DER
	return slices.ContainsFunc(certificate.Extensions, func(e pkix.Extension) bool {
		return e.Id.String() == "2.5.29.17" && bytes.Contains(e.Value, name)
	})
}
