package clientaddr

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the networks of proxies that are trusted to name their clients. They never change.
type Proxies []netip.Prefix

// ParseProxies reads networks such as 10.0.0.0/8.
func ParseProxies(networks []string) (Proxies, error) {
	trusted := make(Proxies, len(networks))
	for i, text := range networks {
		network, err := netip.ParsePrefix(text)
		if err != nil || network.Addr().Is4In6() { // which would contain no address
			return nil, fmt.Errorf("%q is no network, as 10.0.0.0/8 is", text)
		}
		trusted[i] = network.Masked()
	}
	return trusted, nil
}

// Client returns the key of the client of a connection: "ip:203.0.113.7", or the first address of its network as in
// "ip:2001:db8:0:1::", as the holder of one IPv6 address has the 2^64 beside it (Holder). It has no "/64": text before
// a "/" is the key of a parent. If the other end is a trusted proxy, the client is the rightmost address of
// X-Forwarded-For that is not a trusted proxy's, or the first if all are. Anyone may have written the addresses to the
// left of it.
func (p Proxies) Client(otherEnd string, forwardedFor []string) (string, error) {
	address, ok := parseAddress(otherEnd)
	if !ok {
		return "", fmt.Errorf("%q is no address of a connection", otherEnd)
	}
	forwarded := strings.Split(strings.Join(forwardedFor, ","), ",")
	//mutant:leftmost-address-counts //mutant:strangers-forwarded-for-counts
	for i := len(forwarded) - 1; i >= 0 && p.has(address); i-- {
		if address, ok = parseAddress(strings.TrimSpace(forwarded[i])); !ok {
			return "", errors.New("X-Forwarded-For is missing, or has an entry that is no address")
		}
	}
	return "ip:" + Holder(address).String(), nil
}

// Holder returns the holder of an address: an IPv4 address, or the first address of an IPv6 /64. A client of IPv4 that
// comes through NAT64 (RFC 6052) or Teredo (RFC 4380), which put all clients in one /64, is its IPv4 address.
func Holder(address netip.Addr) netip.Addr {
	bytes := address.As16()
	behind := [4]byte(bytes[12:])
	switch {
	case !address.Is6():
		return address
	case nat64.Contains(address):
		return netip.AddrFrom4(behind)
	case teredo.Contains(address):
		for i := range behind {
			behind[i] ^= 0xff
		}
		return netip.AddrFrom4(behind)
	}
	network, _ := address.Prefix(64) // the error is for more bits than an address has
	return network.Addr()
}

var nat64, teredo = netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("2001::/32")

// Trust reports whether the other end of a connection is a trusted proxy.
func (p Proxies) Trust(otherEnd string) bool {
	address, ok := parseAddress(otherEnd)
	return ok && p.has(address)
}

// has reports whether an address, as parseAddress returns it, is a trusted proxy's.
func (p Proxies) has(address netip.Addr) bool {
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(address) })
}

// parseAddress reads an address with or without port, brackets and zone. An IPv4 address in IPv6 form becomes an IPv4
// address, and the zone is dropped.
func parseAddress(text string) (netip.Addr, bool) {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	address, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	return address.Unmap().WithZone(""), err == nil
}
