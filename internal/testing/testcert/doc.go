// Package testcert makes authorities and certificates for tests: real ones, of crypto/x509, in PEM files as an operator
// would have them. A test specifies only how a certificate differs from a good one.
//
// An Authority belongs to its test. Its methods may not be called concurrently. The files are removed with the test's
// directory.
package testcert
