package main

import (
	"crypto/x509"
	"sync"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// trustAuthorities has the program trust the authorities that Mozilla trusts, where the machine has none, as in an image of this program
// alone. Those of the machine, or of SSL_CERT_FILE, are trusted instead if there are any. It is called where they are needed: to read
// them takes milliseconds.
var trustAuthorities = sync.OnceFunc(func() {
	pool := x509.NewCertPool()
	for root := range bundle.Roots() {
		authority, err := x509.ParseCertificate(root.Certificate)
		switch {
		case err != nil: // one that this release of Go refuses
		case root.Constraint != nil:
			pool.AddCertWithConstraint(authority, root.Constraint)
		default:
			pool.AddCert(authority)
		}
	}
	x509.SetFallbackRoots(pool)
})
