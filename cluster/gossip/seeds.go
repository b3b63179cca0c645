package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// lookupTimeout bounds the lookup of one name.
const lookupTimeout = 2 * time.Second

// Resolver finds the addresses of a name; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// checkSeeds returns an error for the first seed that is not host:port.
func checkSeeds(seeds []string) error {
	for i, seed := range seeds {
		if _, _, err := splitSeed(seed); err != nil {
			return fmt.Errorf("join[%d]: %w", i, err)
		}
	}
	return nil
}

func splitSeed(seed string) (host string, port uint16, err error) {
	host, text, err := net.SplitHostPort(seed)
	if err != nil {
		return "", 0, fmt.Errorf("%q is not host:port", seed)
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil || number == 0 || host == "" {
		return "", 0, fmt.Errorf("%q is not host:port with a port between 1 and 65535", seed)
	}
	return host, uint16(number), nil
}

// resolveSeeds returns every address behind seeds once, in their order: a name with several addresses is several seeds.
// The error names the seeds that were not found; the addresses of the others are valid.
func resolveSeeds(ctx context.Context, resolver Resolver, seeds []string) ([]netip.AddrPort, error) {
	var found []netip.AddrPort
	var failed []error
	for _, seed := range seeds {
		host, port, err := splitSeed(seed)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		addresses, err := lookup(ctx, resolver, host)
		if err != nil {
			failed = append(failed, err)
		}
		for _, address := range addresses {
			if at := netip.AddrPortFrom(address, port); !slices.Contains(found, at) {
				found = append(found, at)
			}
		}
	}
	return found, errors.Join(failed...)
}

// lookup returns the addresses of host, which may be an address itself. IPv4 comes first, because most nodes listen on
// it.
func lookup(ctx context.Context, resolver Resolver, host string) ([]netip.Addr, error) {
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address.Unmap()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addresses, err := resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("no address for %q: %w", host, err)
	}
	if len(addresses) == 0 {
		return nil, fmt.Errorf("no address for %q", host)
	}
	for i := range addresses {
		addresses[i] = addresses[i].Unmap()
	}
	slices.SortStableFunc(addresses, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	return addresses, nil
}
