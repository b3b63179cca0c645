// Package clienttls is TLS on the ports of clients: the API's, that of gRPC alone and that of the Redis protocol. It
// owns the parameters of handshakes there (TLS), the role of a client's certificate (Role), and the answer to a
// plaintext client on such a port (Listen). It never knows what a role may do.
//
// It speaks TLS 1.2 and later, with Go's default suites: clients may be old. The port between nodes has rules of its
// own (cluster/peer).
//
// # Roles
//
// A client may present a certificate if the node was given authorities for it. Such a certificate must have exactly one
// URI, stint://role/NAME, and be issued for clients by one of these authorities; otherwise the handshake fails. The
// common name is ignored, because every tool that issues certificates fills it in (etcd: CVE-2018-16886), and so are
// headers that a proxy forwards. A node's certificate is no role, even if the same authority issued it. A resumed
// session is checked against the current authorities.
//
// # Files
//
// Certificate, key and authorities are read again when the files change, at most once a second
// (internal/edge/certfile). Connections that are open stay open.
//
// All functions and methods may be called concurrently. There are no goroutines.
package clienttls
