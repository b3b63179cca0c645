package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/gate"
	"github.com/stint-io/stint/policy"
)

// forged is a question with a forged address or token.
type forged struct {
	address netip.Addr        // the zero Addr if a token is forged, not an address
	route   *policy.GateRoute // of the gate; behind a proxy, one that has the host of the page alone
	path    string            // of the request that the gate is asked about
	moves   []gate.Entry      // counted if the gate believes the address
}

// forge asks a gate with a forged X-Forwarded-For, and checks whether the forged address was counted.
func (d *doctor) forge(ctx context.Context, g *policy.Gate, set *policy.Set) {
	if !countsAddresses(g) {
		return
	}
	f := forgery(g, set)
	if f == nil {
		d.add(platformIP, Unknown, fmt.Sprintf("gate %s: no route that counts addresses has a path to ask for", g.Name),
			"--through URL asks behind your proxy")
		return
	}
	response, err := d.askGate(ctx, g, f, "X-Forwarded-For", f.address.String())
	if err != nil {
		d.unknown(platformIP, err, "")
		return
	}
	moved, err := d.moved(ctx, g.Namespace, f)
	own := ownAddress(response.Request.URL)
	switch {
	case err != nil:
		d.unknown(platformIP, err, "give the token the operation read")
	case !moved && response.StatusCode == http.StatusOK: // a denied request counts nothing, for any address
		d.fine(platformIP, "gate %s: a forged X-Forwarded-For moved nothing", g.Name)
	case !moved:
		d.add(platformIP, Unknown, fmt.Sprintf("gate %s answered %s", g.Name, response.Status),
			"may the token check keys of its policies?")
	case trusts(g, own):
		d.add(platformIP, Unknown, fmt.Sprintf("gate %s believes this machine (%s): it is one of its trusted_proxies",
			g.Name, own),
			"ask from another machine, or behind the proxy: --through URL")
	default:
		d.add(platformIP, Wrong, fmt.Sprintf("gate %s counted a forged address from this machine, "+
			"which is none of its trusted_proxies", g.Name),
			"what is between may pass X-Forwarded-For on: it has to overwrite it, "+
				"or must not be trusted (docs/gates.md)")
	}
}

// forgery composes a question for the first route of a gate that counts addresses, or returns nil if none has a known
// path.
func forgery(g *policy.Gate, set *policy.Set) *forged {
	for i := range g.Routes {
		r := &g.Routes[i]
		f := &forged{address: unusedAddress(), route: r, path: cmp.Or(r.Match.Path, r.Match.Prefix, "/")}
		if r.Match.Glob != "" || r.Match.Regexp != "" || len(r.Match.Header) > 0 {
			continue
		}
		if f.moves = movesOf(g, set, f); len(f.moves) > 0 {
			return f
		}
	}
	return nil
}

// movesOf lists the entries with the forged address that a gate would count if it believed the question. It asks a copy
// of the gate that trusts one proxy, from which the question comes.
func movesOf(g *policy.Gate, set *policy.Set, f *forged) (moves []gate.Entry) {
	proxy := netip.MustParseAddr("192.0.2.1")
	believing := *g
	believing.TrustedProxies, believing.Proxy = []netip.Prefix{netip.PrefixFrom(proxy, proxy.BitLen())},
		policy.ProxyPath
	q := &gate.Question{Peer: net.JoinHostPort(proxy.String(), "1"), Method: methodOf(f.route), Host: hostOf(f.route),
		Path: f.path, Header: http.Header{"X-Forwarded-For": {f.address.String()}}}
	route, err := gate.New(&believing, set).Match(q)
	if err != nil || route == nil {
		return nil
	}
	entries, err := route.Entries(q, func(string) (string, error) { return "", gate.ErrToken })
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if strings.Contains(e.Key, networkOf(f.address)) {
			moves = append(moves, e)
		}
	}
	return moves
}

// unusedAddress returns a new, unused address of the network for documentation (RFC 3849).
func unusedAddress() netip.Addr {
	bytes := netip.MustParseAddr("2001:db8::1").As16()
	rand.Read(bytes[4:8])
	return netip.AddrFrom16(bytes)
}

// networkOf returns the part of an IPv6 address in keys.
func networkOf(a netip.Addr) string {
	network, _ := a.Prefix(64)
	return network.Addr().String()
}

func methodOf(r *policy.GateRoute) string {
	return cmp.Or(strings.ToUpper(r.Match.Method), http.MethodGet)
}

// hostOf is a host that the route matches; "": it matches any.
func hostOf(r *policy.GateRoute) string { return strings.Replace(r.Match.Host, "*", "doctor", 1) }

// askGate asks a gate at the first node, with one forged header. A node that trusts this machine gets the headers of a
// proxy with it.
func (d *doctor) askGate(ctx context.Context, g *policy.Gate, f *forged, header, value string) (*http.Response, error) {
	n := d.Nodes[0]
	request, err := http.NewRequestWithContext(ctx, methodOf(f.route),
		n.URL+"/gate/"+url.PathEscape(g.Name)+f.path, nil)
	if err != nil {
		return nil, err
	}
	request.Host = cmp.Or(hostOf(f.route), request.URL.Host)
	if trusts(g, ownAddress(request.URL)) {
		for name, value := range map[string]string{"X-Original-Method": methodOf(f.route), "X-Original-Uri": f.path,
			"X-Original-Url":     "http://" + request.Host + f.path,
			"X-Forwarded-Method": methodOf(f.route), "X-Forwarded-Uri": f.path, "X-Forwarded-Host": request.Host} {
			request.Header.Set(name, value)
		}
	}
	token, err := d.Token(n.URL)
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header.Set("Stint-Token", token)
	}
	request.Header.Set(header, value)
	return d.ask(request)
}

// ownAddress returns the address from which this machine reaches another, or none if it has no route. It sends nothing.
func ownAddress(u *url.URL) netip.Addr {
	conn, err := net.Dial("udp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443")))
	if err != nil {
		return netip.Addr{}
	}
	defer conn.Close()
	own, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return own.Addr().Unmap()
}

// ask sends a request as it is, adding no token, and follows no redirect. The body of the response is closed.
func (d *doctor) ask(request *http.Request) (*http.Response, error) {
	client := &http.Client{Transport: d.Bare, Timeout: d.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err == nil {
		response.Body.Close()
	}
	return response, err
}

// trusts reports whether an address is one of the trusted proxies. The zero Addr never is.
func trusts(g *policy.Gate, address netip.Addr) bool {
	return slices.ContainsFunc(g.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(address) })
}

// moved reports whether the entries of a forged address have been counted.
func (d *doctor) moved(ctx context.Context, namespace string, f *forged) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	request := &stintv1.GetRequest{Namespace: namespace}
	for _, e := range f.moves {
		request.Entries = append(request.Entries, &stintv1.Entry{Policy: e.Policy, Key: e.Key})
	}
	answer, err := d.Limits.Get(ctx, connect.NewRequest(request))
	if connect.CodeOf(err) == connect.CodeNotFound { // a policy that refuses unknown keys has counted nothing
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(answer.Msg.Limits, func(l *stintv1.LimitStatus) bool {
		return l.Used > 0 || l.BlockedUntil != nil
	}), nil
}

// forgeToken asks a gate for tokens with an unsigned one.
func (d *doctor) forgeToken(ctx context.Context, g *policy.Gate) {
	if g.JWT == nil {
		return
	}
	at := slices.IndexFunc(g.Routes, func(r policy.GateRoute) bool {
		return r.Match.Glob == "" && r.Match.Regexp == "" && len(r.Match.Header) == 0 &&
			slices.ContainsFunc(r.Entries, func(e policy.GateEntry) bool {
				return mentions(&e.Key, policy.GateFieldIdentity)
			})
	})
	if at < 0 {
		d.add(tokensAt, Unknown, fmt.Sprintf("gate %s: no route that counts identities has a path to ask for", g.Name),
			"")
		return
	}
	f := &forged{route: &g.Routes[at], path: cmp.Or(g.Routes[at].Match.Path, g.Routes[at].Match.Prefix, "/")}
	// {"alg":"RS256","kid":"stint-doctor"}.{"sub":"stint-doctor"}, and no signature
	const unsigned = "eyJhbGciOiJSUzI1NiIsImtpZCI6InN0aW50LWRvY3RvciJ9.eyJzdWIiOiJzdGludC1kb2N0b3IifQ.c2lnbmVkIGJ5IG5vYm9keQ"
	response, err := d.askGate(ctx, g, f, "Authorization", "Bearer "+unsigned)
	switch {
	case err != nil:
		d.unknown(tokensAt, err, "")
	case response.StatusCode == http.StatusUnauthorized:
		d.fine(tokensAt, "gate %s refuses a token that nobody signed (issuer %s)", g.Name, g.JWT.Issuer)
	case response.Header.Get("Stint-Failed") == "open" || response.StatusCode == http.StatusServiceUnavailable:
		d.add(tokensAt, Wrong, fmt.Sprintf("gate %s cannot verify tokens: it answered %s", g.Name, response.Status),
			"the nodes must reach "+g.JWT.JWKS+": their logs say why they do not")
	default:
		d.add(tokensAt, Unknown, fmt.Sprintf("gate %s answered %s to a token that nobody signed",
			g.Name, response.Status),
			"another route may come first: try it behind your proxy")
	}
}

// throughProxy asks a page behind the proxy with forged addresses, and checks whether one was counted.
func (d *doctor) throughProxy(ctx context.Context, set *policy.Set) {
	page, err := url.Parse(d.Through)
	if err != nil || page.Host == "" {
		d.unknown(platformIP, fmt.Errorf("--through %s: is no URL", d.Through), "")
		return
	}
	var found []string
	for _, g := range set.Rules().Gates {
		f := &forged{address: unusedAddress(), path: cmp.Or(page.EscapedPath(), "/"),
			route: &policy.GateRoute{Match: policy.GateMatch{Host: page.Host}}}
		if f.moves = movesOf(g, set, f); len(f.moves) == 0 {
			continue
		}
		found = append(found, g.Name)
		if err := d.askPage(ctx, g, f); err != nil {
			d.unknown(platformIP, err, "")
			return
		}
	}
	if len(found) == 0 {
		d.unknown(platformIP, errors.New("no gate has a route for "+d.Through+" that counts addresses"),
			"ask for a page that one counts")
	}
}

// askPage asks the page of --through once for a gate.
func (d *doctor) askPage(ctx context.Context, g *policy.Gate, f *forged) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.Through, nil)
	if err != nil {
		return err
	}
	request.Header.Set("X-Forwarded-For", f.address.String())
	response, err := d.ask(request)
	if err != nil {
		return err
	}
	moved, err := d.moved(ctx, g.Namespace, f)
	switch {
	case err != nil:
		return err
	case moved:
		d.add(platformIP, Wrong, fmt.Sprintf("%s: gate %s counted a forged X-Forwarded-For", d.Through, g.Name),
			"the proxy in front has to overwrite X-Forwarded-For, and trusted_proxies must not have more than your "+
				"proxies (docs/proxies.md)")
	case response.StatusCode/100 != 2:
		d.add(platformIP, Unknown, fmt.Sprintf("%s answered %s: what is refused or sent elsewhere counts nothing",
			d.Through, response.Status),
			"--through wants a page that is let through")
	default:
		d.fine(platformIP, "%s answered %s, and gate %s did not count the forged address",
			d.Through, response.Status, g.Name)
	}
	return nil
}
