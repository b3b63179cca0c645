package inbound

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Proxies are the networks of the proxies that are trusted to say who connected to them. They never change.
type Proxies []netip.Prefix

// ParseProxies reads networks such as 10.0.0.0/8.
func ParseProxies(networks []string) (Proxies, error) {
	trusted := make(Proxies, len(networks))
	for i, text := range networks {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%q is no network, as 10.0.0.0/8 is", text)
		}
		trusted[i] = network.Masked()
	}
	return trusted, nil
}

// Client returns the key of the client of a connection: "ip:203.0.113.7", or "ip:2001:db8:0:1::/64", as whoever has one IPv6 address
// has the 2^64 beside it. If the other end is a trusted proxy, the client is the rightmost address of X-Forwarded-For that no
// trusted proxy has, or the first if all are theirs. What is left of it, anybody may have written.
func (p Proxies) Client(otherEnd string, forwardedFor []string) (string, error) {
	address, ok := parseAddress(otherEnd)
	if !ok {
		return "", fmt.Errorf("%q is no address of a connection", otherEnd)
	}
	forwarded := strings.Split(strings.Join(forwardedFor, ","), ",")
	for i := len(forwarded) - 1; i >= 0 && p.trust(address); i-- {
		if address, ok = parseAddress(strings.TrimSpace(forwarded[i])); !ok {
			return "", errors.New("X-Forwarded-For is missing, or has an entry that is no address")
		}
	}
	if address.Is6() {
		network, _ := address.Prefix(64)
		return "ip:" + network.String(), nil
	}
	return "ip:" + address.String(), nil
}

func (p Proxies) trust(address netip.Addr) bool {
	for _, network := range p {
		if network.Contains(address) {
			return true
		}
	}
	return false
}

// parseAddress reads an address with or without port, brackets and zone.
func parseAddress(text string) (netip.Addr, bool) {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	address, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	return address.Unmap().WithZone(""), err == nil
}
