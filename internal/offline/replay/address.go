package replay

import (
	"net/netip"
	"strings"
)

// clientAddress gives each address one spelling, without a port. A host name stays as it is. Placeholders for an
// unknown address ("-", "unix:", "UNKNOWN") are errors: one key for all of them would throttle unrelated clients
// together.
func clientAddress(text string) (string, error) {
	if address, ok := parseAddress(text); ok {
		return address.String(), nil
	}
	name := strings.ToLower(strings.TrimSuffix(text, "."))
	if name == "unknown" || !isHostName(name) {
		return "", lineErrorf("the client %q is no address", text)
	}
	return text, nil
}

// parseAddress parses an IP address, with or without a port.
func parseAddress(text string) (netip.Addr, bool) {
	address, err := netip.ParseAddr(text)
	if err != nil {
		var pair netip.AddrPort
		pair, err = netip.ParseAddrPort(text)
		address = pair.Addr()
	}
	return address.Unmap(), err == nil
}

func isAddress(text string) bool {
	_, ok := parseAddress(text)
	return ok
}

// isHostName reports whether a name may be a DNS name (RFC 1123, section 2.1; underscores occur in practice).
func isHostName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		if strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}
