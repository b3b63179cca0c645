package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/stint-io/stint/policy"
)

// The checks of the gates.
const (
	keySource  = "key source"
	platformIP = "platform IP"
	tokensAt   = "tokens at gates"
)

// gates examines what the gates count by, and asks each with a forged address.
func (d *doctor) gates(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	set, err := d.Policies(asking)
	if err != nil {
		d.unknown(keySource, err, "give the token the operation observe")
		return
	}
	rules := set.Rules().Gates
	if len(rules) == 0 {
		d.fine(keySource, "there is no gate: programs name the keys themselves, "+
			"and have to name only what they have verified")
	}
	for _, g := range rules {
		d.source(g)
		d.forge(ctx, g, set)
		d.forgeToken(ctx, g)
	}
	if d.Through != "" {
		d.throughProxy(ctx, set)
	}
}

// source reports what a gate counts by, and whether a client could choose it.
func (d *doctor) source(g *policy.Gate) {
	open := slices.IndexFunc(g.TrustedProxies, func(p netip.Prefix) bool { return p.Bits() == 0 })
	switch {
	case open >= 0:
		d.add(keySource, Wrong, fmt.Sprintf("gate %s believes everybody (trusted_proxies: %s): "+
			"a client chooses its own address", g.Name,
			g.TrustedProxies[open]), "name the addresses of your proxies alone")
		return
	case len(g.TrustedProxies) == 0 && countsAddresses(g):
		d.add(keySource, Suspect, fmt.Sprintf("gate %s trusts no proxy: behind one, all visitors have its address, "+
			"and share one count", g.Name),
			"name your proxies in trusted_proxies")
		return
	case g.OnMissing == policy.MissingShared:
		d.add(keySource, Suspect,
			fmt.Sprintf("gate %s counts all visitors without an identity as one (on_missing: shared)", g.Name),
			"on_missing: deny refuses them")
		return
	}
	d.fine(keySource, "gate %s counts by %s, and believes %s", g.Name, strings.Join(sources(g), ", "), proxiesText(g))
}

// sources lists the parts of a gate's keys, in the order of the attempts.
func sources(g *policy.Gate) (names []string) {
	for _, identity := range g.Identity {
		switch identity.Kind {
		case policy.IdentityJWT:
			names = append(names, "the subject of a verified token (user:)")
		case policy.IdentityHeader:
			names = append(names, "an API key that is known (key:)")
		default:
			names = append(names, "address (ip:)")
		}
	}
	return names
}

func proxiesText(g *policy.Gate) string {
	if len(g.TrustedProxies) == 0 {
		return "no proxy"
	}
	var list []string
	for _, p := range g.TrustedProxies {
		list = append(list, p.String())
	}
	return strings.Join(list, ", ")
}

// countsAddresses reports whether an address is in a key of a gate.
func countsAddresses(g *policy.Gate) bool {
	byIP := slices.ContainsFunc(g.Identity, func(i policy.GateIdentity) bool {
		return i.Kind == policy.IdentityAddress
	})
	return slices.ContainsFunc(g.Routes, func(r policy.GateRoute) bool {
		return slices.ContainsFunc(r.Entries, func(e policy.GateEntry) bool {
			return mentions(&e.Key, policy.GateFieldIP) || byIP && mentions(&e.Key, policy.GateFieldIdentity)
		})
	})
}

func mentions(key *policy.Template, field string) (does bool) {
	key.Key(func(name string) string {
		does = does || name == field
		return "x"
	})
	return does
}
