package gate

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"

	"github.com/stint-io/stint/internal/edge/clientaddr"
	"github.com/stint-io/stint/policy"
)

// Gate is the rules of one gate, prepared for questions. It never changes.
type Gate struct {
	rules   *policy.Gate       // part of an immutable set of policies
	proxies clientaddr.Proxies // rules.TrustedProxies
	routes  []Route            // in the order of the rules: the first that matches counts
}

// New makes the gate of valid rules, in the set of policies that they belong to.
func New(rules *policy.Gate, policies *policy.Set) *Gate {
	g := &Gate{rules: rules, proxies: rules.TrustedProxies, routes: make([]Route, len(rules.Routes))}
	for i := range rules.Routes {
		r := &rules.Routes[i]
		fail := r.Fail
		if fail == policy.FailDefault {
			fail = rules.Fail
		}
		g.routes[i] = Route{gate: g, rules: r, match: newMatcher(&r.Match), knowsKeys: r.KnowsKeys(policies),
			open: fail != policy.FailClosed && !r.AlwaysCloses(policies)} //mutant:security-policy-fails-open
	}
	return g
}

// Rules returns the rules of the gate. The caller must not change them.
func (g *Gate) Rules() *policy.Gate { return g.rules }

// Match returns the route of a question, or nil if there is none. A path that servers read in several ways counts as
// all of them, or the other reading would be free. The error is a *Refusal.
func (g *Gate) Match(q *Question) (*Route, error) {
	r, err := g.asked(q)
	if err != nil {
		return nil, err
	}
	var found *Route
	var seen [len(r.paths)]*Route
	for i, path := range r.paths {
		if path == "" {
			continue
		}
		route := g.first(&r, path, q.Header)
		switch {
		case route == nil && g.rules.NoMatch == policy.NoMatchDeny: //mutant:reading-without-route-passes
			return nil, nil
		case route == nil || slices.Contains(seen[:i], route):
		case found == nil:
			found = route
		default:
			found = route.with(found) //mutant:first-reading-alone
		}
		seen[i] = route
	}
	return found, nil
}

// first returns the route of a path of a request, or nil if there is none.
func (g *Gate) first(r *request, path string, header http.Header) *Route {
	for i := range g.routes {
		if g.routes[i].match.matches(r, path, header) {
			return &g.routes[i]
		}
	}
	return nil
}

// missing refuses a request that does not identify its client: with 401 if the client could have shown a token or a
// key, with 400 if the proxy alone could have named it.
func (g *Gate) missing() error {
	for _, identity := range g.rules.Identity {
		if identity.Kind != policy.IdentityAddress {
			return unproven(errMissing)
		}
	}
	return &Refusal{http.StatusBadRequest, "the proxy does not say in X-Forwarded-For where the request came from"}
}

// cost returns the units of an entry. If the proxy did not set the header to a number within the bound, it costs the
// most: no client makes its requests cheaper.
func (g *Gate) cost(c *policy.GateCost, q *Question) uint64 {
	if c.Header == "" {
		return c.Units
	}
	text, many := q.one(c.Header)
	units, err := strconv.ParseUint(text, 10, 64)
	//mutant:cost-without-bound //mutant:stranger-names-the-cost
	if many || err != nil || units == 0 || units > c.Units || !g.proxies.Trust(q.Peer) {
		return c.Units
	}
	return units
}

// requestIDBytesMax bounds the ids that proxies give to requests.
const requestIDBytesMax = 256

// ID returns the idempotency id of a question, or "". It is made from the proxy's id, the gate and the entries, so that
// two gates, or two different requests with one id, never share it.
func (g *Gate) ID(q *Question, entries []Entry) string {
	if g.rules.RequestID == "" || !g.proxies.Trust(q.Peer) { //mutant:strangers-id-is-a-free-pass
		return ""
	}
	id, many := q.one(g.rules.RequestID)
	if id == "" || many || len(id) > requestIDBytesMax {
		return ""
	}
	sum := sha256.New()
	for _, text := range []string{g.rules.Name, id} {
		sum.Write([]byte(strconv.Quote(text)))
	}
	for _, e := range entries {
		sum.Write([]byte(strconv.Quote(e.Policy) + strconv.Quote(e.Key) + strconv.FormatUint(e.Cost, 10)))
	}
	return "gate:" + base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
}
