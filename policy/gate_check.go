package policy

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Bounds of one gate.
const (
	gateHeadersMax   = 8   // of a match
	gateTextBytesMax = 256 // of a path, host, header or URL
	gateBodyBytesMax = 1024
)

// jwtAlgorithms are the accepted signature algorithms. Algorithms with a shared secret are excluded: with it, the
// verifier could sign tokens as well.
var jwtAlgorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

func (g *Gate) problems(policies *Set) []Problem {
	var c checker
	c.path = "gates." + shown(g.Name)
	c.identity(g)
	if g.JWT != nil {
		c.jwt(g.JWT)
	}
	knows := false
	for i := range g.Routes {
		c.route(fmt.Sprintf("routes[%d]", i), &g.Routes[i], policies)
		knows = knows || g.Routes[i].KnowsKeys(policies)
	}
	if i := slices.IndexFunc(g.Identity, func(i GateIdentity) bool { return i.Kind == IdentityHeader }); i >= 0 &&
		!knows {
		c.fail(fmt.Sprintf("identity[%d].header", i), "counts only where API keys are known, "+
			"and no route has an entry with {identity} of a policy with unknown_key: deny")
	}
	return c.found
}

func (c *checker) identity(g *Gate) {
	for i, identity := range g.Identity {
		field := fmt.Sprintf("identity[%d]", i)
		switch {
		case slices.Index(g.Identity, identity) < i:
			c.fail(field, "is there twice")
		case identity.Kind == IdentityJWT && g.JWT == nil:
			c.fail("jwt", "is missing: identity[%d] is a token, whose keys, issuer and audience it says", i)
		case identity.Kind == IdentityHeader:
			if reserved := []string{"authorization", "cookie", "stint-token"}; slices.Contains(reserved,
				strings.ToLower(identity.Header)) {
				c.fail(field+".header", "%s has no API key alone", shown(identity.Header))
			}
		}
	}
	if g.JWT != nil && !slices.Contains(g.Identity, GateIdentity{Kind: IdentityJWT}) {
		c.fail("jwt", "is for an identity jwt, which the gate does not have")
	}
}

func (c *checker) jwt(j *GateJWT) {
	where, err := url.Parse(j.JWKS)
	switch {
	case err != nil || where.Host == "" || where.User != nil:
		c.fail("jwt.jwks", "must be the address of keys, as in https://id.example.com/keys")
	case where.Scheme == "http" && isLoopback(where.Hostname()):
	case where.Scheme != "https":
		c.fail("jwt.jwks", "must begin with https://, so that the keys cannot be replaced on the way; "+
			"http:// is for this machine alone")
	}
	for i, name := range j.Algorithms {
		if !slices.Contains(jwtAlgorithms, name) {
			c.fail(fmt.Sprintf("jwt.algorithms[%d]", i), "%s is no algorithm here: known are %s",
				shown(name), strings.Join(jwtAlgorithms, ", "))
		}
	}
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

func (c *checker) route(field string, r *GateRoute, policies *Set) {
	c.match(field+".match", &r.Match)
	for i := range r.Entries {
		e := &r.Entries[i]
		entry := fmt.Sprintf("%s.entries[%d]", field, i)
		p, ok := policies.Lookup(e.Policy)
		if !ok {
			c.fail(entry+".policy", "there is no policy %s", shown(e.Policy))
		}
		if ok && p.Parent != "" && !e.Key.hasParent() {
			c.fail(entry+".key", noParent, p.Name)
		}
		if e.Key.String() == "" {
			c.fail(entry+".key", "must not be empty")
		}
		for j := range i {
			if r.Entries[j].Policy == e.Policy && r.Entries[j].Key.String() == e.Key.String() {
				c.fail(entry, "repeats entries[%d]: add the costs", j)
			}
		}
	}
	if r.Fail == FailOpen && r.AlwaysCloses(policies) {
		c.fail(field+".fail", "cannot be open: one of the policies is for security")
	}
}

func (c *checker) match(field string, m *GateMatch) {
	if m.Host != "" {
		if name := strings.TrimPrefix(m.Host, "*."); strings.ContainsAny(name, "*/@ ") ||
			strings.HasSuffix(name, ".") || name == "" || strings.ToLower(name) != name ||
			strings.Contains(name, ":") && !strings.HasPrefix(name, "[") {
			c.fail(field+".host", "must be a name in lower case without a port, or all below one as in *.example.com")
		}
	}
	paths := 0
	for _, p := range []struct{ name, text string }{{"path", m.Path}, {"prefix", m.Prefix}, {"glob", m.Glob},
		{"regexp", m.Regexp}} {
		if p.text == "" {
			continue
		}
		if paths++; paths > 1 {
			c.fail(field+"."+p.name, "cannot stand beside another one of path, prefix, glob and regexp")
		}
		if p.name != "regexp" && !strings.HasPrefix(p.text, "/") {
			c.fail(field+"."+p.name, "must begin with /")
		}
		if p.name != "regexp" && hasNoRequest(p.text) {
			c.fail(field+"."+p.name, `matches nothing: requests whose path has a segment "." or "..",`+
				` a "#" or a "\" are refused, and what follows "?" is no part of it`)
		}
	}
	if _, err := regexp.Compile(m.Regexp); err != nil {
		c.fail(field+".regexp", "is no regular expression: %v", err)
	}
	c.count(field+".header", len(m.Header), gateHeadersMax)
}

// hasNoRequest reports whether a path contains something that no request's path contains.
func hasNoRequest(path string) bool {
	segments := strings.Split(path, "/")
	return strings.ContainsAny(path, `?#\`) || slices.Contains(segments, ".") || slices.Contains(segments, "..")
}
