package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/stint-io/stint/internal/edge/certfile"
)

// trust has the TLS flags of every command that calls a server.
type trust struct {
	CA      string `name:"ca" help:"Authorities that servers' certificates must be from. An address without a scheme is https:// then. Default: the system's, for https://." placeholder:"FILE" env:"STINT_CA"`
	Cert    string `help:"Certificate of a role, for https://." placeholder:"FILE" env:"STINT_CERT"`
	CertKey string `help:"Its key." placeholder:"FILE" env:"STINT_CERT_KEY"`
}

// scheme returns the scheme of an address without one.
func (t trust) scheme() string {
	if t.CA != "" || t.Cert != "" {
		return "https"
	}
	return "http"
}

// config reads the files. The error begins with the flag.
func (t trust) config() (*tls.Config, error) {
	config := &tls.Config{}
	if t.CA != "" {
		var err error
		if config.RootCAs, err = certfile.Authorities(t.CA); err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
	} else {
		trustAuthorities()
	}
	switch {
	case t.Cert != "" && t.CertKey == "":
		return nil, errors.New("--cert-key: is needed beside --cert")
	case t.Cert == "" && t.CertKey != "":
		return nil, errors.New("--cert: is needed beside --cert-key")
	case t.Cert != "":
		own, err := tls.LoadX509KeyPair(t.Cert, t.CertKey)
		if err != nil {
			return nil, fmt.Errorf("--cert: %w", err)
		}
		// The library holds back a certificate that is from none of the authorities that the server names; then no
		// error would say that it is the wrong one.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
	}
	return config, nil
}

// transport returns the transport of these flags.
func (t trust) transport() http.RoundTripper {
	if t == (trust{}) {
		return http.DefaultTransport
	}
	config, err := t.config()
	if err != nil {
		return broken{err} // the files were valid when the command line was read
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = config
	return transport
}

// broken fails every request with its error.
type broken struct{ error }

// RoundTrip implements http.RoundTripper.
func (b broken) RoundTrip(*http.Request) (*http.Response, error) { return nil, b.error }

// tlsProblem explains in a sentence why a connection failed at TLS, and which flag helps; "" if it failed otherwise.
// Nothing was counted then: no request is read before the handshake is over on both sides.
func tlsProblem(err error) string {
	var (
		unknown *tls.CertificateVerificationError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
		alert   *net.OpError
		record  tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &host):
		return fmt.Sprintf("its certificate is for %s, not for %s: use an address that it names in --addr, "+
			"or give the node a certificate that names this one", namesOf(host.Certificate), host.Host)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		if time.Now().Before(invalid.Cert.NotBefore) {
			return fmt.Sprintf("its certificate is valid only from %s on: check the clocks",
				invalid.Cert.NotBefore.UTC().Format(time.RFC3339))
		}
		return fmt.Sprintf("its certificate has expired, at %s: put a new one in the place of the node's --api-cert",
			invalid.Cert.NotAfter.UTC().Format(time.RFC3339))
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "its certificate is from an authority that is not trusted here: --ca FILE names those that are"
	case errors.As(err, &unknown):
		return fmt.Sprintf("its certificate is not accepted: %v", unknown.Err)
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		return "it does not speak TLS there: write http:// in --addr and leave --ca out, " +
			"or start the node with --api-cert"
	case errors.As(err, &alert) && alert.Op == "remote error": // crypto/tls marks an alert so
		return alertText(strings.TrimPrefix(alert.Err.Error(), "tls: "))
	}
	return ""
}

// refusesUs explains that the server refuses our certificate; "" if it does not. In TLS 1.3 the refusal comes only
// after our part of the handshake, and the library often reports only that the connection broke.
func (r remote) refusesUs(ctx context.Context) string {
	if r.Cert == "" {
		return ""
	}
	config, err := r.trust.config()
	if err != nil {
		return ""
	}
	dialer := &net.Dialer{Timeout: dialMax}
	conn, err := tls.DialWithDialer(dialer, "tcp", hostPort(r.reach(ctx)), config)
	if err == nil {
		defer conn.Close()
		conn.SetReadDeadline(time.Now().Add(dialMax))
		_, err = conn.Read(make([]byte, 1))
	}
	return tlsProblem(err)
}

// alertText explains a server's refusal (RFC 8446, 6.2).
func alertText(text string) string {
	switch text {
	case "internal error":
		return "it has no room for another connection, or failed; ask another node, or again in a second"
	case "protocol version not supported":
		return "it speaks no version of TLS that this program speaks"
	case "bad certificate", "unknown certificate authority", "expired certificate", "unsupported certificate",
		"certificate required":
		return "it refuses our certificate (" + text + "): --cert needs one with exactly one URI, stint://role/NAME, " +
			"from an authority in its --api-client-ca"
	default:
		return "it ended the TLS handshake: " + text
	}
}

// namesOf lists the hosts that a certificate is for.
func namesOf(c *x509.Certificate) string {
	names := c.DNSNames
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return "no host at all"
	}
	return strings.Join(names, ", ")
}
