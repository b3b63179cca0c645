package main

import (
	"crypto/x509"
	"sync"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// trustAuthorities makes the program trust the authorities that Mozilla trusts if the machine has none, as in an image
// of this program alone. Authorities of the machine, or of SSL_CERT_FILE, take precedence. It is called only when they
// are needed: reading them takes milliseconds.
var trustAuthorities = sync.OnceFunc(func() {
	pool := x509.NewCertPool()
	for root := range bundle.Roots() {
		authority, err := x509.ParseCertificate(root.Certificate)
		switch {
		case err != nil: // this release of Go refuses it
		case root.Constraint != nil:
			pool.AddCertWithConstraint(authority, root.Constraint)
		default:
			pool.AddCert(authority)
		}
	}
	x509.SetFallbackRoots(pool)
})
