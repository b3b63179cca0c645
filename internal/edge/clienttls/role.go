package clienttls

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

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

// mayHaveARole refuses a client with a certificate that does not name a role. Its authority has been verified before.
func mayHaveARole(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	//mutant:any-certificate-is-a-client 2
	_, err := roleOf(state.PeerCertificates[0])
	return err
}
