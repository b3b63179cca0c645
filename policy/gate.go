package policy

import (
	"net/netip"
	"strings"
)

// Gate is the rules of one gate, /gate/NAME: what a request that a proxy asks about counts. It is immutable.
type Gate struct {
	Name      string
	Namespace string // "": the default namespace
	// TrustedProxies are the networks whose word is taken about who asked for what. There are none by default.
	TrustedProxies []netip.Prefix
	// Proxy says which of a trusted proxy's headers name the method and the path.
	Proxy GateProxy
	// RequestID is a header that the trusted proxies overwrite with an id for each request: a second question with the same
	// id is not counted again. "": there is none.
	RequestID string
	// Identity lists who a request can be, in the order in which they are looked for; never empty.
	Identity  []GateIdentity
	JWT       *GateJWT // nil: no identity is a JWT
	OnMissing OnMissing
	Fail      FailMode
	NoMatch   NoMatch
	Denied    *GateBody // nil: a problem document
	Routes    []GateRoute
}

// GateJWT says which tokens prove an identity.
type GateJWT struct {
	JWKS       string // URL of the keys
	Issuer     string
	Audience   string
	Algorithms []string // of signatures; never empty
}

// GateIdentity is one way to say who sent a request.
type GateIdentity struct {
	Kind   IdentityKind
	Header string // with IdentityHeader: the header of the API key
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

// The kinds of proxies, by the headers with which they say what was asked.
const (
	ProxyAny          GateProxy = 0 // whichever of the others' headers there are; requests whose headers differ are refused
	ProxyNginx        GateProxy = 1 // X-Original-Method, X-Original-URI, and Host
	ProxyIngressNginx GateProxy = 2 // X-Original-Method, X-Original-URL
	ProxyForwarded    GateProxy = 3 // X-Forwarded-Method, X-Forwarded-Uri, X-Forwarded-Host: Traefik, Caddy
	ProxyPath         GateProxy = 4 // the request's own, with the path behind /gate/NAME: Envoy
)

// OnMissing is what happens to a request that does not say who sent it.
type OnMissing uint8

// The ways to treat a request without an identity.
const (
	MissingDeny   OnMissing = 0 // it is refused, and nothing is counted
	MissingSkip   OnMissing = 1 // entries whose key needs the identity are left out
	MissingShared OnMissing = 2 // all of them count together
)

// FailMode is what happens to a request without a decision.
type FailMode uint8

// The ways to fail. A route that names a security policy always fails closed.
const (
	FailDefault FailMode = 0 // of a route: as the gate does; of a gate: open
	FailClosed  FailMode = 1 // it is refused
	FailOpen    FailMode = 2 // it passes, with a mark
)

// NoMatch is what happens to a request that no route matches.
type NoMatch uint8

// The ways to treat a request that no route matches. There is no default.
const (
	NoMatchAllow NoMatch = 1
	NoMatchDeny  NoMatch = 2
)

// GateBody is the body of the answer to a denied request. {retry_after} in it stands for the whole seconds to wait, and
// {reason} for the reason of the denial.
type GateBody struct{ ContentType, Body string }

// GateRoute is a kind of requests and what they count. The first route that matches a request is the only one.
type GateRoute struct {
	Match   GateMatch
	Entries []GateEntry // all are counted, or none
	Fail    FailMode
}

// GateMatch says which requests a route is for. An empty field matches all.
type GateMatch struct {
	Method string // GET includes HEAD
	Host   string // a name, or as "*.example.com" all names below one
	// At most one of these is set. All are compared without regard to upper and lower case.
	Path   string       // the whole path
	Prefix string       // whole segments from the start of the path
	Glob   string       // "*" is any text within a segment, "**" any text
	Regexp string       // the whole path, in the syntax of RE2
	Header []GateHeader // all of them must be there
}

// GateHeader is a header with one value; "*": any.
type GateHeader struct{ Name, Value string }

// GateEntry is one policy and key that a request counts.
type GateEntry struct {
	Policy string
	Key    Template // of GateFields
	Cost   GateCost
}

// GateCost is how many units an entry spends.
type GateCost struct {
	Units uint64 // the most that Header may say, if there is one
	// Header is one that the trusted proxies overwrite. A request whose header is no number from 1 to Units spends Units.
	Header string
}

// The fields of a gate's key templates.
const (
	GateFieldIdentity = "identity"
	GateFieldIP       = "ip"
)

// GateFields lists the fields of a gate's key templates. What a client can choose at will is not among them: each new text would
// have a count of its own.
var GateFields = []string{GateFieldIdentity, GateFieldIP}

// AlwaysCloses reports whether a route fails closed whatever its gate says, because one of its policies is for security.
func (r *GateRoute) AlwaysCloses(policies *Set) bool {
	for _, e := range r.Entries {
		if p, ok := policies.Lookup(e.Policy); ok && p.Security {
			return true
		}
	}
	return false
}

// KnowsKeys reports whether a request that invents an API key is refused on a route, so that an API key can be an identity
// there: one of its policies, or of their parents, refuses unknown keys, and the identity is in the key that it looks up.
func (r *GateRoute) KnowsKeys(policies *Set) bool {
	const mark = "\uE000" // a character that no key template escapes
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

func (g *Gate) title() (section, name string) { return "gates", g.Name }
