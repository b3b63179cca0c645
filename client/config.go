package client

import (
	"crypto/tls"
	"time"

	"connectrpc.com/connect"
)

// Config tells a Client how to reach the cluster. Only Addresses is required.
type Config struct {
	// Addresses are the base URLs of some nodes, as in http://127.0.0.1:7400. At least one is required. The client
	// learns the other nodes from them.
	Addresses []string
	// Namespace is given to requests that name none; "" means the server's default.
	Namespace string
	// Token authenticates the requests, if the cluster requires it; its grants must cover their namespaces, policies
	// and keys. It is sent to https:// addresses and to this machine only. "" sends none.
	Token string
	// Timeout bounds a call without a deadline in its context, retries included, so that a cluster that is down ends
	// each call with an error. 0 means 5 s.
	Timeout time.Duration
	// HTTP sends the requests, for instance with certificates, through a proxy or with a tracer. The client does not
	// close it. It should speak HTTP/2: over HTTP/1 each call under way needs a connection of its own. nil means HTTP/2
	// with one connection per node.
	HTTP connect.HTTPClient
	// Leases has Check spend units of hot keys in memory, where the policies allow it (lease). A Token then needs the
	// operation lease beside check. See the package comment.
	Leases bool
	// TLS is used for https:// addresses, for instance with the authorities of the nodes' certificates (RootCAs) and
	// the certificate of a role (Certificates). The client reaches nodes that it learns by the addresses that they
	// announce, so their certificates must name these, or all of them ServerName. nil means the system's authorities.
	// It must be nil if HTTP is set.
	TLS *tls.Config
}

const defaultTimeout = 5 * time.Second
