package clienttls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"slices"
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

// current returns the content in force; without a certificate it is empty.
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
