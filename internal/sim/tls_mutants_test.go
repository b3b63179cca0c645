package sim

import "testing"

// tlsMutants are guards of the ports for clients, with the tests that detect their absence.
var tlsMutants = []judged{
	{mutant{"old versions of TLS are spoken", "internal/clienttls/clienttls.go", "MinVersion: tls.VersionTLS12", "MinVersion: tls.VersionTLS10"},
		tests("internal/clienttls", "TestOldVersionsAreRefused")},
	{mutant{"anybody issues roles", "internal/clienttls/clienttls.go", "tls.VerifyClientCertIfGiven", "tls.RequestClientCert"},
		tests("internal/clienttls", "TestARoleIsOneURIOfTheRightAuthority")},
	{mutant{"any certificate of the authority is a client's", "internal/clienttls/clienttls.go",
		"_, err := roleOf(state.PeerCertificates[0])\n\treturn err", "_, _ = roleOf(state.PeerCertificates[0])\n\treturn nil"},
		tests("internal/clienttls", "TestARoleIsOneURIOfTheRightAuthority")},
	{mutant{"the first of several URIs counts", "internal/clienttls/clienttls.go", "len(certificate.URIs) != 1 {", "len(certificate.URIs) == 0 {"},
		tests("internal/clienttls", "TestARoleIsOneURIOfTheRightAuthority")},
	{mutant{"a role may have any name", "internal/clienttls/clienttls.go", "!ok || !isName(name)", "!ok"},
		tests("internal/clienttls", "TestARoleIsOneURIOfTheRightAuthority")},
	{mutant{"plaintext ends without a word", "internal/clienttls/plaintext.go", "if b[0] == handshakeRecord {", "if b[0] >= 0 {"},
		tests("internal/clienttls", "TestWhoSpeaksPlaintextIsToldSo")},
	{mutant{"a browser may speak to the Redis port", "internal/node/port_tls.go", "p.secure.Config(\"redis\")", "p.secure.Config()"},
		tests("internal/node", "TestPlaintextIsRefusedOnPortsWithTLS")},
	{mutant{"an expired certificate is taken", "internal/certfile/certfile.go", "case now.After(certificate.NotAfter):", "case false:"},
		tests("internal/certfile", "TestTheLastGoodFilesStayInForce")},
	{mutant{"an authority that expires is not told", "internal/node/reporter.go", "\tproblems = append(problems, authorityProblems(p.node, \"--api-client-ca\", p.apiAuthoritiesEnd(), p.now())...)\n", ""},
		tests("internal/node", "TestStatusShowsAnAuthorityThatExpires")},
	{mutant{"files that cannot be used are taken in part", "internal/certfile/certfile.go", "\tcontent := &Content{Certificate: own}\n",
		"\tcontent := &Content{Certificate: own}\n\tw.content.Store(content)\n"},
		tests("internal/certfile", "TestTheLastGoodFilesStayInForce")},
	{mutant{"a handshake may last forever", "api/redis/conn.go", "context.WithTimeout(context.Background(), handshakeWithin)",
		"context.WithCancel(context.Background())"},
		tests("api/redis", "TestAHandshakeThatIsNotFinishedEndsAfterFiveSeconds")},
	{mutant{"a stop waits for handshakes", "api/redis/server.go", "secure := nc.(*tls.Conn); secure {", "secure := nc.(*tls.Conn); secure && nc == nil {"},
		tests("api/redis", "TestAStopWaitsForNoHandshake")},
	{mutant{"plaintext off loopback need not be wanted", "internal/node/config.go", "if c.InsecureAPI || c.ClientTLS != nil ||",
		"if c.RedisAddr != c.GRPCAddr || c.InsecureAPI || c.ClientTLS != nil ||"},
		tests("internal/node", "TestPortsOfClientsThatOthersCanReachMustBeWanted")},
	{mutant{"a certificate for clients' ports gives a role", "cmd/stint/certs.go", "ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}",
		"ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}"},
		tests("cmd/stint", "TestACertificateForClientsNamesItsHosts")},
	{mutant{"a cluster key is replaced", "cluster/peer/key_file.go", "\tif err := os.Link(f.Name(), name); !errors.Is(err, fs.ErrExist) {",
		"\tif err := os.Rename(f.Name(), name); !errors.Is(err, fs.ErrExist) {"},
		tests("cmd/stint", "TestAClusterKeyIsMadeOnce")},
}

func TestTLSMutants(t *testing.T) { judgeMutants(t, tlsMutants) }
