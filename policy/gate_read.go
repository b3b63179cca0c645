package policy

import (
	"net/netip"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// The words of a gate: the index of each word is its number.
var (
	gateProxyWords = []string{ProxyNginx: "nginx", ProxyIngressNginx: "ingress-nginx", ProxyForwarded: "x-forwarded", ProxyPath: "path"}
	onMissingWords = []string{MissingDeny: "deny", MissingSkip: "skip", MissingShared: "shared"}
	failWords      = []string{FailClosed: "closed", FailOpen: "open"}
	noMatchWords   = []string{NoMatchAllow: "allow", NoMatchDeny: "deny"}
	identityWords  = []string{IdentityAddress: "ip", IdentityJWT: "jwt"}
)

// jwtAlgorithm is the one that OpenID Connect begins with.
const jwtAlgorithm = "RS256"

// gateDecoder reads the section of gates.
type gateDecoder struct{ *decoder }

func (d gateDecoder) gate(v value) *Gate {
	g := &Gate{Name: v.name}
	f := d.fields(v, "namespace", "trusted_proxies", "proxy", "request_id", "identity", "jwt", "on_missing", "fail", "no_match",
		"denied", "routes")
	d.require(v, f, "no_match", "routes")
	d.text(f["namespace"], &g.Namespace)
	if proxies, ok := f["trusted_proxies"]; ok {
		for _, item := range d.items(proxies) {
			g.TrustedProxies = append(g.TrustedProxies, d.network(item))
		}
	}
	word(d.decoder, f["proxy"], gateProxyWords, &g.Proxy)
	d.text(f["request_id"], &g.RequestID)
	g.Identity = []GateIdentity{{}}
	if identity, ok := f["identity"]; ok {
		g.Identity = nil
		for _, item := range d.items(identity) {
			g.Identity = append(g.Identity, d.gateIdentity(item))
		}
	}
	if jwt, ok := f["jwt"]; ok {
		g.JWT = d.gateJWT(jwt)
	}
	word(d.decoder, f["on_missing"], onMissingWords, &g.OnMissing)
	word(d.decoder, f["fail"], failWords, &g.Fail)
	word(d.decoder, f["no_match"], noMatchWords, &g.NoMatch)
	if denied, ok := f["denied"]; ok {
		g.Denied = &GateBody{}
		inner := d.fields(denied, "content_type", "body")
		d.require(denied, inner, "content_type", "body")
		d.text(inner["content_type"], &g.Denied.ContentType)
		d.text(inner["body"], &g.Denied.Body)
	}
	if routes, ok := f["routes"]; ok {
		for _, item := range d.items(routes) {
			g.Routes = append(g.Routes, d.gateRoute(item))
		}
	}
	return g
}

func (d gateDecoder) network(v value) netip.Prefix {
	var text string
	d.text(v, &text)
	network, err := netip.ParsePrefix(text)
	if err != nil && text != "" {
		d.fail(v.path, "%s is no network, as 10.0.0.0/8 is", shown(text))
	}
	return network.Masked()
}

func (d gateDecoder) gateIdentity(v value) (i GateIdentity) {
	if v.node.Kind != yaml.MappingNode {
		word(d.decoder, v, identityWords, &i.Kind)
		return i
	}
	i.Kind = IdentityHeader
	f := d.fields(v, "header")
	d.require(v, f, "header")
	d.text(f["header"], &i.Header)
	return i
}

func (d gateDecoder) gateJWT(v value) *GateJWT {
	j := &GateJWT{Algorithms: []string{jwtAlgorithm}}
	f := d.fields(v, "jwks", "issuer", "audience", "algorithms")
	d.require(v, f, "jwks", "issuer", "audience")
	d.text(f["jwks"], &j.JWKS)
	d.text(f["issuer"], &j.Issuer)
	d.text(f["audience"], &j.Audience)
	if algorithms, ok := f["algorithms"]; ok {
		j.Algorithms = nil
		for _, item := range d.items(algorithms) {
			var name string
			d.text(item, &name)
			j.Algorithms = append(j.Algorithms, name)
		}
	}
	return j
}

func (d gateDecoder) gateRoute(v value) (r GateRoute) {
	f := d.fields(v, "match", "entries", "fail")
	d.require(v, f, "match", "entries")
	word(d.decoder, f["fail"], failWords, &r.Fail)
	if match, ok := f["match"]; ok {
		r.Match = d.gateMatch(match)
	}
	if entries, ok := f["entries"]; ok {
		for _, item := range d.items(entries) {
			r.Entries = append(r.Entries, d.gateEntry(item))
		}
	}
	return r
}

func (d gateDecoder) gateMatch(v value) (m GateMatch) {
	f := d.fields(v, "method", "host", "path", "prefix", "glob", "regexp", "header")
	d.text(f["method"], &m.Method)
	d.text(f["host"], &m.Host)
	d.text(f["path"], &m.Path)
	d.text(f["prefix"], &m.Prefix)
	d.text(f["glob"], &m.Glob)
	d.text(f["regexp"], &m.Regexp)
	if header, ok := f["header"]; ok {
		for _, e := range d.entries(header) {
			h := GateHeader{Name: e.name}
			d.text(e, &h.Value)
			m.Header = append(m.Header, h)
		}
	}
	slices.SortFunc(m.Header, func(a, b GateHeader) int { return strings.Compare(a.Name, b.Name) })
	return m
}

func (d gateDecoder) gateEntry(v value) GateEntry {
	e := GateEntry{Cost: GateCost{Units: 1}}
	f := d.fields(v, "policy", "key", "cost")
	d.require(v, f, "policy", "key")
	d.text(f["policy"], &e.Policy)
	var key string
	d.text(f["key"], &key)
	var err error
	if e.Key, err = ParseTemplate(key, GateFields); err != nil {
		d.fail(f["key"].path, "%s", err)
	}
	if cost, ok := f["cost"]; ok && cost.node.Kind == yaml.MappingNode {
		inner := d.fields(cost, "header", "max")
		d.require(cost, inner, "header", "max")
		d.text(inner["header"], &e.Cost.Header)
		d.number(inner["max"], &e.Cost.Units)
	} else {
		d.number(cost, &e.Cost.Units)
	}
	return e
}
