package policy

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Gate is the rules of one gate, /gate/NAME: what a request counts when a proxy asks about it. It is immutable.
type Gate struct {
	Name string
	// Namespace of the keys; "" is the default namespace.
	Namespace string `policy:"namespace" text:"name" about:"Absent: the default namespace."`
	// TrustedProxies are the networks with trusted forwarding headers. Default: none.
	TrustedProxies []netip.Prefix `policy:"trusted_proxies" most:"64" about:"Networks whose word is taken: 10.0.0.0/8."`
	// Proxy selects which of a trusted proxy's headers name the method and the path.
	Proxy GateProxy `policy:"proxy" about:"Whose headers name the method and the path. Absent: whichever there are."`
	// RequestID is a header that the trusted proxies overwrite with an id for each request: a second question with the
	// same id is not counted again. "" disables this.
	RequestID string `policy:"request_id" text:"header" about:"A header with an id for each request: counted once."`
	// Identity lists how a client may be identified, in the order of the attempts; never empty.
	Identity  []GateIdentity `policy:"identity,always" usual:"ip" least:"1" most:"8" about:"Who a request can be."`
	JWT       *GateJWT       `policy:"jwt" about:"Which tokens prove an identity."` // nil if no identity is a JWT
	OnMissing OnMissing      `policy:"on_missing" about:"What happens to a request without an identity."`
	Fail      FailMode       `policy:"fail" about:"What happens to a request without a decision. Absent: open."`
	NoMatch   NoMatch        `policy:"no_match,required" about:"What happens to a request that no route matches."`
	// Denied is the body of the answer to a denied request; nil means a problem document.
	Denied *GateBody   `policy:"denied" about:"Body for a denied request. Absent: a problem document."`
	Routes []GateRoute `policy:"routes,required" least:"1" most:"64" lines:"items" about:"The first match counts."`
}

// GateJWT configures which tokens prove an identity.
type GateJWT struct {
	JWKS     string `policy:"jwks,required" text:"words" about:"Address of the keys, with https."`
	Issuer   string `policy:"issuer,required" text:"words" about:"Issuer of the tokens."`
	Audience string `policy:"audience,required" text:"words" about:"Audience of the tokens."`
	// Algorithms of signatures; never empty. The default, RS256, is that of OpenID Connect.
	Algorithms []string `policy:"algorithms" text:"signature" usual:"RS256" least:"1" most:"10" about:"Of signatures."`
}

// GateIdentity is one way to identify the client of a request.
type GateIdentity struct {
	Kind IdentityKind
	// Header of the API key, with IdentityHeader.
	Header string `policy:"header,required" text:"header" about:"The header of the API key."`
}

// IdentityKind is a kind of identity.
type IdentityKind uint8

// The kinds of identities, and the keys that they make.
const (
	IdentityAddress IdentityKind = 0 // "ip:" and the address of the client
	IdentityJWT     IdentityKind = 1 // "user:" and the subject of a token
	IdentityHeader  IdentityKind = 2 // "key:" and the SHA-256 of an API key
)

// GateProxy is a kind of proxy.
type GateProxy uint8

// The kinds of proxies, by the headers that carry the original request.
const (
	ProxyAny          GateProxy = 0 // any of the headers below; requests with contradicting headers are refused
	ProxyNginx        GateProxy = 1 // X-Original-Method, X-Original-URI, and Host
	ProxyIngressNginx GateProxy = 2 // X-Original-Method, X-Original-URL
	ProxyForwarded    GateProxy = 3 // X-Forwarded-Method, X-Forwarded-Uri, X-Forwarded-Host: Traefik, Caddy
	ProxyPath         GateProxy = 4 // the request's own method, and the path after /gate/NAME: Envoy
)

// OnMissing is the fate of a request from an unidentified client.
type OnMissing uint8

// The ways to treat a request without an identity.
const (
	MissingDeny   OnMissing = 0 // it is refused, and nothing is counted
	MissingSkip   OnMissing = 1 // entries with a key that needs the identity are left out
	MissingShared OnMissing = 2 // all such requests count together
)

// FailMode is the fate of a request without a decision.
type FailMode uint8

// The ways to fail. A route that names a security policy always fails closed.
const (
	FailDefault FailMode = 0 // of a route: as configured for the gate; of a gate: open
	FailClosed  FailMode = 1 // it is refused
	FailOpen    FailMode = 2 // it passes, with a mark
)

// NoMatch is the fate of a request that no route matches.
type NoMatch uint8

// The ways to treat a request that no route matches. There is no default.
const (
	NoMatchAllow NoMatch = 1
	NoMatchDeny  NoMatch = 2
)

// GateBody is the body of the answer to a denied request. {retry_after} in it stands for the whole seconds to wait, or
// for nothing (null in JSON) if no wait helps, and {reason} for the reason of the denial.
type GateBody struct {
	ContentType string `policy:"content_type,required" text:"words" about:"Its Content-Type."`
	Body        string `policy:"body,required" text:"body" about:"Its text, with {retry_after} and {reason}."`
}

// GateRoute is a kind of requests and what they count. The first route that matches a request is the only one.
type GateRoute struct {
	Match GateMatch `policy:"match,required" about:"Which requests. Empty: all."`
	Fail  FailMode  `policy:"fail" about:"What happens without a decision. Absent: as the gate does."`
	// Entries are counted all or none. With their parents they form a request of at most 32 entries.
	Entries []GateEntry `policy:"entries,required" least:"1" most:"16" about:"What it counts: all, or nothing."`
}

// GateMatch selects the requests of a route. An empty field matches all.
type GateMatch struct {
	Method string `policy:"method" text:"method" about:"GET includes HEAD."`
	// Host is a name, or "*.example.com" for all names below one.
	Host string `policy:"host" text:"words" about:"A name, or all below one: *.example.com."`
	// At most one of Path, Prefix, Glob and Regexp is set. All are compared without regard to upper and lower case.
	Path   string `policy:"path" text:"words" about:"The whole path."`
	Prefix string `policy:"prefix" text:"words" about:"Whole segments from the start of the path."`
	Glob   string `policy:"glob" text:"words" about:"* is any text within a segment, ** any text."`
	Regexp string `policy:"regexp" text:"words" about:"The whole path, in the syntax of RE2."`
	// Header lists required headers.
	Header []*GateHeader `policy:"header" text:"header" about:"Headers that must be there; *: with any value."`
}

// GateHeader is a header with one value, or "*" for any value.
type GateHeader struct{ Name, Value string }

// GateEntry is one policy and key that a request counts.
type GateEntry struct {
	Policy string   `policy:"policy,required" about:"A policy of this file."`
	Key    Template `policy:"key,required" about:"What is counted: text with {identity} or {ip}."`
	Cost   GateCost `policy:"cost" usual:"1" about:"Units, or the header that says how many. Absent: 1."`
}

// GateCost is how many units an entry spends.
type GateCost struct {
	// Header is a header that the trusted proxies overwrite. If it is not a number from 1 to Units, the request spends
	// Units.
	Header string `policy:"header,required" text:"header" about:"A header that the trusted proxies overwrite."`
	// Units is the largest cost, and the cost if Header is not set.
	Units uint64 `policy:"max,required" min:"1" max:"1099511627776" about:"The most that it may say."`
}

// identityKind is a word, or a mapping with the header of an API key.
func identityKind() kind {
	key := mappingKind(fieldsOf(reflect.TypeFor[GateIdentity]()),
		func(_ *decoder, _ value, of any) { of.(*GateIdentity).Kind = IdentityHeader })
	return eitherKind(key, partKind(wordKind([]string{IdentityAddress: "ip", IdentityJWT: "jwt"}), "Kind"), hasHeader)
}

// costKind is a number, or a mapping with the header that says how many.
func costKind() kind {
	said := mappingKind(fieldsOf(reflect.TypeFor[GateCost]()), nil)
	return eitherKind(said, partKind(numberKind(reflect.TypeFor[uint64](), `max:"1099511627776"`), "Units"), hasHeader)
}

func hasHeader(v reflect.Value) bool { return v.FieldByName("Header").String() != "" }

// finishGateEntry refuses a key with fields that no gate has.
func finishGateEntry(d *decoder, v value, of any) {
	d.templateFields(v.path+".key", of.(*GateEntry).Key, GateFields)
}

// networkKind is a network, such as 10.0.0.0/8. One of IPv4 addresses in IPv6 is that of the IPv4 addresses: a Prefix of
// the other form contains none of them.
var networkKind = kindFor(func(d *decoder, v value, into *netip.Prefix) {
	var text string
	anyTextKind.readInto(d, v, &text)
	network, err := netip.ParsePrefix(text)
	if err != nil && !d.failed[v.path] { //mutant:empty-text-is-a-network
		d.fail(v.path, "%s is no network, as 10.0.0.0/8 is", shown(text))
	}
	if address := network.Addr(); address.Is4In6() && network.Bits() >= 96 {
		network = netip.PrefixFrom(address.Unmap(), network.Bits()-96)
	}
	*into = network.Masked()
}, func(n *netip.Prefix) *yaml.Node { return scalar(n.String(), true) },
	jsonSchema{"type": "string", "pattern": "^[0-9a-fA-F.:]+/[0-9]+$"})

// The fields of a gate's key templates.
const (
	GateFieldIdentity = "identity"
	GateFieldIP       = "ip"
)

// GateFields lists the fields of a gate's key templates. Fields that a client can choose freely are not among them:
// each new text would have a count of its own.
var GateFields = []string{GateFieldIdentity, GateFieldIP}

// AlwaysCloses reports whether a route fails closed regardless of the gate's setting, because one of its policies is
// for security.
func (r *GateRoute) AlwaysCloses(policies *Set) bool {
	return slices.ContainsFunc(r.Entries, func(e GateEntry) bool {
		p, ok := policies.Lookup(e.Policy)
		return ok && p.Security
	})
}

// KnowsKeys reports whether a route refuses requests with an invented API key, so that an API key can be an identity
// there: one of its policies, or of their parents, refuses unknown keys, and the identity is part of the key that it
// looks up.
func (r *GateRoute) KnowsKeys(policies *Set) bool {
	const mark = "\uE000" // a character that key templates do not escape
	for _, e := range r.Entries {
		key := e.Key.Key(func(field string) string {
			if field == GateFieldIdentity {
				return mark
			}
			return field
		})
		for p, ok := policies.Lookup(e.Policy); ok && strings.Contains(key, mark); p, ok = policies.Lookup(p.Parent) {
			if p.UnknownKey == UnknownKeyDeny {
				return true
			}
			key = key[:max(0, strings.LastIndexByte(key, '/'))]
		}
	}
	return false
}
