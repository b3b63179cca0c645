package gossip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/stint-io/stint/internal/sleep"
)

// gossipAddress holds where this node's gossip listens and how others reach it.
type gossipAddress struct {
	bind       netip.Addr
	port       uint16     // 0 for any free port
	announced  netip.Addr // what memberlist announces, which knows no names: an address of host
	host       string     // dialed by others if the peer or the API listener is on a wildcard address
	advertised bool       // others also dial host if the listener is on a specific address
}

// address reads Addr and Advertise. memberlist announces addresses, not names, so the advertised host is resolved here.
// An advertised host replaces the address of every listener, because a proxy or NAT may stand in front.
func (c *Config) address(ctx context.Context) (a gossipAddress, err error) {
	host, text, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return a, fmt.Errorf("gossip-addr: %q is not host:port", c.Addr)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return a, fmt.Errorf("gossip-addr: %q has no port between 0 and 65535", c.Addr)
	}
	a.port = uint16(port)
	if a.bind, err = c.bind(ctx, host); err != nil {
		return a, fmt.Errorf("gossip-addr: %w", err)
	}
	switch {
	case c.Advertise != "":
		found, err := c.lookupAdvertised(ctx)
		if err != nil {
			return a, fmt.Errorf("advertise: %w", err)
		}
		a.announced, a.host, a.advertised = found[0], c.Advertise, true
	case a.bind.IsUnspecified():
		if a.announced, err = machineAddress(net.InterfaceAddrs); err != nil {
			return a, err
		}
		a.host = a.announced.String()
	default:
		a.announced, a.host = a.bind, a.bind.String()
	}
	if a.announced.Is6() && a.bind == netip.IPv4Unspecified() {
		a.bind = netip.IPv6Unspecified() // which listens on IPv4 too
	}
	return a, err
}

// advertiseWait is how long a start waits for an address of the advertised name: in Kubernetes a pod is in the DNS a
// moment after it has started.
const advertiseWait = 30 * time.Second

// lookupAdvertised returns the addresses of Advertise, as soon as there is one.
func (c *Config) lookupAdvertised(ctx context.Context) (found []netip.Addr, err error) {
	ctx, cancel := context.WithTimeout(ctx, advertiseWait)
	defer cancel()
	for waits := false; ; waits = true {
		found, failed := lookup(ctx, c.Resolver, c.Advertise)
		if failed == nil {
			return found, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("after %v: %w", advertiseWait, cmp.Or(err, failed))
		}
		if err = failed; !waits {
			c.Logger.Warn("the advertised name has no address yet: it is looked up again",
				"name", c.Advertise, "for", advertiseWait, "error", err)
		}
		sleep.For(ctx, time.Second)
	}
}

// bind returns the listen address for host.
func (c *Config) bind(ctx context.Context, host string) (netip.Addr, error) {
	switch {
	case host == "::":
		return netip.IPv6Unspecified(), nil
	case listensEverywhere(host):
		return netip.IPv4Unspecified(), nil
	}
	found, err := lookup(ctx, c.Resolver, host)
	if err != nil {
		return netip.Addr{}, err
	}
	return found[0], nil
}

// machineAddress returns the first address of this machine that other machines may reach, preferably IPv4.
func machineAddress(list func() ([]net.Addr, error)) (found netip.Addr, err error) {
	addresses, err := list()
	if err != nil {
		return found, fmt.Errorf("advertise: cannot list this machine's addresses: %w", err)
	}
	for _, address := range addresses {
		prefix, err := netip.ParsePrefix(address.String())
		if err != nil || !prefix.Addr().IsGlobalUnicast() {
			continue
		}
		if prefix.Addr().Is4() {
			return prefix.Addr(), nil
		}
		if !found.IsValid() {
			found = prefix.Addr()
		}
	}
	if !found.IsValid() {
		return found, errors.New("advertise: this machine has no address but loopback: give --advertise HOST")
	}
	return found, nil
}

func listensEverywhere(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "" || err == nil && address.IsUnspecified()
}

// reachable returns the address at which other nodes dial a listener.
func (a *gossipAddress) reachable(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("%q is not host:port", listen)
	}
	if a.advertised || listensEverywhere(host) {
		return net.JoinHostPort(a.host, port), nil
	}
	return listen, nil
}
