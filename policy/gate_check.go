package policy

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/stint-io/stint/limit"
)

// Bounds of one gate.
const (
	gateListMax      = 64  // networks, routes
	gateEntriesMax   = 16  // with their parents they are a request of at most 32
	gateIdentityMax  = 8   // identities, headers of a match
	gateTextBytesMax = 256 // of a path, host, header or URL
	gateBodyBytesMax = 1024
)

// jwtAlgorithms are the signatures that a token may have. One with a shared secret is not among them: whoever can check it can
// make it.
var jwtAlgorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

func (g *Gate) problems(policies *Set) []Problem {
	var c checker
	c.path = "gates." + shown(g.Name)
	c.name("", g.Name)
	if g.Namespace != "" {
		c.name("namespace", g.Namespace)
	}
	c.count("trusted_proxies", len(g.TrustedProxies), 0, gateListMax)
	if g.RequestID != "" {
		c.header("request_id", g.RequestID)
	}
	c.count("identity", len(g.Identity), 1, gateIdentityMax)
	c.identity(g)
	if g.JWT != nil {
		c.jwt(g.JWT)
	}
	if g.NoMatch == 0 {
		c.fail("no_match", "is missing: allow or deny")
	}
	if g.Denied != nil {
		c.denied(g.Denied)
	}
	c.count("routes", len(g.Routes), 1, gateListMax)
	knows := false
	for i := range g.Routes {
		c.route(fmt.Sprintf("routes[%d]", i), &g.Routes[i], policies)
		knows = knows || g.Routes[i].KnowsKeys(policies)
	}
	if i := slices.IndexFunc(g.Identity, func(i GateIdentity) bool { return i.Kind == IdentityHeader }); i >= 0 && !knows {
		c.fail(fmt.Sprintf("identity[%d].header", i), "counts only where API keys are known, and no route has an entry with {identity} of a "+
			"policy with unknown_key: deny")
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
			c.header(field+".header", identity.Header)
			if reserved := []string{"authorization", "cookie", "stint-token"}; slices.Contains(reserved, strings.ToLower(identity.Header)) {
				c.fail(field+".header", "%s has no API key alone", shown(identity.Header))
			}
		}
	}
	if g.JWT != nil && !slices.Contains(g.Identity, GateIdentity{Kind: IdentityJWT}) {
		c.fail("jwt", "is for an identity jwt, which the gate does not have")
	}
}

func (c *checker) jwt(j *GateJWT) {
	c.words("jwt.issuer", j.Issuer, gateTextBytesMax)
	c.words("jwt.audience", j.Audience, gateTextBytesMax)
	c.words("jwt.jwks", j.JWKS, gateTextBytesMax)
	where, err := url.Parse(j.JWKS)
	switch {
	case err != nil || where.Host == "" || where.User != nil:
		c.fail("jwt.jwks", "must be the address of keys, as in https://id.example.com/keys")
	case where.Scheme == "http" && isLoopback(where.Hostname()):
	case where.Scheme != "https":
		c.fail("jwt.jwks", "must begin with https://, so that nobody on the way can put his own keys there; http:// is for this machine alone")
	}
	c.count("jwt.algorithms", len(j.Algorithms), 1, len(jwtAlgorithms))
	for i, name := range j.Algorithms {
		if !slices.Contains(jwtAlgorithms, name) {
			c.fail(fmt.Sprintf("jwt.algorithms[%d]", i), "%s is no algorithm here: known are %s", shown(name), strings.Join(jwtAlgorithms, ", "))
		}
	}
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

func (c *checker) denied(b *GateBody) {
	c.words("denied.content_type", b.ContentType, gateTextBytesMax)
	if len(b.Body) > gateBodyBytesMax {
		c.fail("denied.body", "has %d bytes: at most %d are allowed", len(b.Body), gateBodyBytesMax)
	}
}

func (c *checker) route(field string, r *GateRoute, policies *Set) {
	c.match(field+".match", &r.Match)
	c.count(field+".entries", len(r.Entries), 1, gateEntriesMax)
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
		if e.Cost.Header != "" {
			c.header(entry+".cost.header", e.Cost.Header)
		}
		if least := uint64(min(len(e.Cost.Header), 1)); e.Cost.Units < least || e.Cost.Units > limit.MaxCost { // 0 looks
			c.fail(entry+".cost", "must be %d to %d, not %d", least, int64(limit.MaxCost), e.Cost.Units)
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
	if strings.Trim(m.Method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" || len(m.Method) > nameBytesMax {
		c.fail(field+".method", "%s is no method: they are in upper case", shown(m.Method))
	}
	if m.Host != "" {
		c.words(field+".host", m.Host, gateTextBytesMax)
		if name := strings.TrimPrefix(m.Host, "*."); strings.ContainsAny(name, "*/@ ") || strings.HasSuffix(name, ".") || name == "" ||
			strings.ToLower(name) != name || strings.Contains(name, ":") && !strings.HasPrefix(name, "[") {
			c.fail(field+".host", "must be a name in lower case without a port, or all below one as in *.example.com")
		}
	}
	paths := 0
	for _, p := range []struct{ name, text string }{{"path", m.Path}, {"prefix", m.Prefix}, {"glob", m.Glob}, {"regexp", m.Regexp}} {
		if p.text == "" {
			continue
		}
		c.words(field+"."+p.name, p.text, gateTextBytesMax)
		if paths++; paths > 1 {
			c.fail(field+"."+p.name, "cannot stand beside another one of path, prefix, glob and regexp")
		}
		if p.name != "regexp" && !strings.HasPrefix(p.text, "/") {
			c.fail(field+"."+p.name, "must begin with /")
		}
		if p.name != "regexp" && hasNoRequest(p.text) {
			c.fail(field+"."+p.name, `matches nothing: requests whose path has a segment "." or "..", a "#" or a "\" are refused, and what follows "?" is no part of it`)
		}
	}
	if _, err := regexp.Compile(m.Regexp); err != nil {
		c.fail(field+".regexp", "is no regular expression: %v", err)
	}
	c.count(field+".header", len(m.Header), 0, gateIdentityMax)
	for _, h := range m.Header {
		c.header(field+".header."+shown(h.Name), h.Name)
		c.words(field+".header."+shown(h.Name), h.Value, gateTextBytesMax)
	}
}

// hasNoRequest reports whether a path has what no path of a request has.
func hasNoRequest(path string) bool {
	return strings.ContainsAny(path, `?#\`) ||
		slices.ContainsFunc(strings.Split(path, "/"), func(segment string) bool { return segment == "." || segment == ".." })
}

// words checks text that stands in a header or an address.
func (c *checker) words(field, text string, bytesMax int) {
	switch {
	case text == "":
		c.fail(field, "must not be empty")
	case len(text) > bytesMax:
		c.fail(field, "has %d bytes: at most %d are allowed", len(text), bytesMax)
	}
	c.reason(field, text)
}

// header checks the name of a header.
func (c *checker) header(field, name string) {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	if name == "" || len(name) > nameBytesMax || strings.Trim(name, letters) != "" {
		c.fail(field, "%s is no name of a header", shown(name))
	}
}
