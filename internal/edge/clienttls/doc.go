// Package clienttls is TLS on the ports of clients: the API's, that of gRPC alone and that of the Redis protocol. It owns
// what a handshake offers and accepts there (TLS), which role a client's certificate has (Role), and what a client hears
// that speaks plaintext to such a port (Listen). It never knows what a role may do.
//
// TLS 1.2 and later is spoken, with Go's default suites: clients may be old. The port between nodes has rules of its own
// (cluster/peer).
//
// # Roles
//
// A client may present a certificate if the node was given authorities for it. Such a certificate must have exactly one
// URI, stint://role/NAME, and be issued for clients by one of these authorities; if it is anything else, the handshake
// fails. The common name says nothing, because everything that issues certificates fills it in (etcd: CVE-2018-16886), nor
// does a header that a proxy forwards. A node's certificate is no role, even of the same authority. A resumed session is
// held to the authorities of the moment.
//
// # Files
//
// Certificate, key and authorities are read again when the files change, at most once a second (internal/edge/certfile).
// Connections that are open stay open.
//
// All functions and methods may be called concurrently. There are no goroutines.
package clienttls
