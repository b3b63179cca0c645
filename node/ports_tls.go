package node

import (
	"cmp"
	"fmt"
	"net"

	"github.com/stint-io/stint/internal/edge/clienttls"
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

// noRoomAlert is a TLS alert, internal_error: the answer to a connection that does not fit, before any handshake.
var noRoomAlert = []byte{21, 3, 3, 0, 2, 2, 80}
