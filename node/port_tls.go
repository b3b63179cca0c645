package node

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/api/redis"
	"github.com/stint-io/stint/internal/edge/clienttls"
	"github.com/stint-io/stint/internal/edge/connlimit"
)

// loadCertificate reads the certificate of the clients' ports, if there is one.
func (p *ports) loadCertificate() (err error) {
	files := p.config.ClientTLS
	if files == nil {
		return nil
	}
	if p.secure, err = clienttls.Load(*files, p.config.announcedHost(), p.config.Logger,
		p.config.World.Now); err != nil {
		return fmt.Errorf("%w: api-cert: %w", ErrConfig, err)
	}
	return nil
}

// announcedHost is the host of the address that the cluster shows for the API of this node; "": not known from the
// configuration.
func (c *Config) announcedHost() string {
	host, _, err := net.SplitHostPort(c.APIAddr)
	if ip := net.ParseIP(host); err != nil || ip != nil && ip.IsUnspecified() {
		host = ""
	}
	return cmp.Or(c.Advertise, host)
}

// noRoom is a TLS alert, internal_error: the answer to a connection that does not fit, before any handshake.
var noRoom = []byte{21, 3, 3, 0, 2, 2, 80}

// apiDoor is the listener of the API with its bound and TLS.
func (p *ports) apiDoor() net.Listener {
	if p.secure == nil {
		return p.limits.api.Listen(p.listener, connlimit.Refusal{Text: api.Refusal, AfterRequest: true})
	}
	bounded := p.limits.api.Listen(p.listener, connlimit.Refusal{Text: noRoom, AfterRequest: true})
	return tls.NewListener(clienttls.Listen(bounded, api.RefusePlaintext), p.secure.Config("h2", "http/1.1"))
}

// grpcDoor is the listener for gRPC alone with its bound. It refuses without a text: a gRPC client takes anything that
// is not HTTP/2 for a broken connection, as it does a closed one. TLS is grpc-go's.
func (p *ports) grpcDoor() net.Listener {
	bounded := p.limits.api.Listen(p.grpcPort, connlimit.Refusal{})
	if p.secure == nil {
		return bounded
	}
	return clienttls.Listen(bounded, api.RefusePlaintext)
}

// redisDoor is the listener of the Redis protocol with its bound and TLS. Its clients name no protocol (ALPN). A
// browser does, and not this one.
func (p *ports) redisDoor() net.Listener {
	if p.secure == nil {
		return p.limits.redis.Listen(p.redisPort, connlimit.Refusal{Text: redis.Refusal})
	}
	bounded := p.limits.redis.Listen(p.redisPort, connlimit.Refusal{Text: noRoom, AfterRequest: true})
	//mutant:browser-speaks-redis
	return tls.NewListener(clienttls.Listen(bounded, redis.RefusePlaintext), p.secure.Config("redis"))
}
