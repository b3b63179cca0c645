package notify

import (
	"fmt"
	"net/netip"
	"slices"
)

// specialNetworks are the addresses that are not hosts on the Internet. Of IPv6 only 2000::/3 is, so the list has the
// exceptions in it alone.
var specialNetworks = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"224.0.0.0/3", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

// globalIPv6 has the only IPv6 addresses that are assigned to hosts on the Internet.
var globalIPv6 = netip.MustParsePrefix("2000::/3")

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

func containsAddress(networks []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// addressProblem refuses an address that a node must not be made to call. Without TLS (plain) only those are allowed
// that its configuration allows besides the Internet.
func addressProblem(allowed []netip.Prefix, addr netip.Addr, plain bool) error {
	addr = addr.Unmap().WithZone("")
	switch {
	case containsAddress(allowed, addr):
		return nil
	case isSpecial(addr):
		return fmt.Errorf("%v is an address of a private or special network, "+
			"and this node's --sink-allow does not have it", addr)
	case plain:
		return fmt.Errorf("http is for addresses in this node's --sink-allow, which does not have %v: use https", addr)
	}
	return nil
}

// isSpecial reports whether an address belongs to no host on the Internet. An IPv4 address in IPv6 form must be
// unmapped before: as it is, it counts as special.
func isSpecial(addr netip.Addr) bool {
	return addr.Is6() && !globalIPv6.Contains(addr) || containsAddress(specialNetworks, addr)
}
