package gate

import (
	"net/http"
	"slices"
	"strings"

	"github.com/stint-io/stint/policy"
)

// Question is a request to a gate. Method asked finds the method, host and path that it is about: unless Reported is
// set, headers may name others than the fields.
type Question struct {
	Peer   string // the other end of the connection, as in net/http
	Method string
	Host   string
	Path   string // after /gate/NAME, percent-encoded; "" if there is nothing; if Reported, it may have a query
	Header http.Header
	// Reported means that all fields but Peer come from a message of the proxy about a request. They are believed only
	// if Peer is a trusted proxy.
	Reported bool
}

// one returns the value of a header that occurs once. many means that it occurs more often, so that its value is
// ambiguous.
func (q *Question) one(name string) (value string, many bool) {
	values := q.Header[http.CanonicalHeaderKey(name)]
	if len(values) == 0 {
		return "", false
	}
	return values[0], len(values) > 1
}

// Refusal is an answer to a question that does not depend on limits.
type Refusal struct {
	Status int // of HTTP
	Detail string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Detail }

// request is the request that a proxy asks about, in canonical form: equal requests mean the same to every route.
type request struct {
	method, host string
	paths        paths
}

// asked returns the request that a question is about. A client may have sent any headers on a connection that is not
// from a trusted proxy: such a question is about itself, and is refused if its headers say otherwise.
func (g *Gate) asked(q *Question) (request, error) {
	//mutant:strangers-question-is-root //mutant:stranger-reports-a-request
	if (q.Path == "" || q.Reported) && g.Ignores(q) { // taken for "/", it could pass without a route
		return request{}, &Refusal{http.StatusBadRequest,
			"the address that says which request this is about is not in the gate's trusted_proxies: " +
				"only those are believed"}
	}
	if q.Reported && (q.Method == "" || q.Path == "") { //mutant:report-without-a-path-is-root
		return request{}, &Refusal{http.StatusBadRequest, "the proxy does not say which request it asks about: " +
			"a method and a path"}
	}
	if q.Reported || !g.proxies.Trust(q.Peer) { //mutant:strangers-headers-believed
		return requestOf(q.Method, q.Host, q.Path)
	}
	//mutant:proxy-without-a-path-asks-for-root
	if q.Path != "" && (g.rules.Proxy == policy.ProxyAny || g.rules.Proxy == policy.ProxyPath) {
		return requestOf(q.Method, q.Host, q.Path) // the client controls no part of this path
	}
	var found *request
	for _, of := range forwards {
		if g.rules.Proxy != policy.ProxyAny && g.rules.Proxy != of.proxy {
			continue
		}
		r, said, err := of.read(q)
		switch {
		case err != nil:
			return request{}, err
		case said && found != nil && *found != r: //mutant:either-proxy-believed
			return request{}, &Refusal{http.StatusBadRequest,
				"the headers name two different requests, and one of them may be the client's: " +
					"the gate's field proxy says which ones count"}
		case said:
			found = &r
		}
	}
	if found == nil {
		return request{}, &Refusal{http.StatusBadRequest, "the proxy does not say which request it asks about: " +
			"it sends X-Original-URI, X-Original-URL or X-Forwarded-Uri, or puts the path behind that of the gate"}
	}
	return *found, nil
}

// Ignores reports whether a question describes another request, in headers or as a report, but is not from a trusted
// proxy: it may be from a proxy that the gate should trust.
func (g *Gate) Ignores(q *Question) bool {
	if g.proxies.Trust(q.Peer) {
		return false
	}
	//mutant:stranger-without-a-path-asks-for-root
	if g.rules.Proxy == policy.ProxyPath && q.Path != "" && !q.Reported {
		return false // such a proxy passes on whatever headers its clients have sent
	}
	return q.Reported || slices.ContainsFunc(forwards, func(f forward) bool { return len(q.Header[f.uri]) > 0 })
}

// forward is the headers in which a kind of proxy describes the request, by their canonical names (http.Header).
type forward struct {
	proxy             policy.GateProxy
	method, uri, host string // host "": the Host header, or the one in the URI
}

// forwards are the kinds of proxies that describe the request in headers. Each proxy passes on what clients have sent
// in the headers of the other kinds.
var forwards = []forward{
	{policy.ProxyNginx, "X-Original-Method", "X-Original-Uri", ""},
	{policy.ProxyIngressNginx, "X-Original-Method", "X-Original-Url", ""},
	{policy.ProxyForwarded, "X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-Host"},
}

// read reads the headers; said is false if they are missing. A URI without its method is refused: the method of the
// question would match another route.
func (f *forward) read(q *Question) (r request, said bool, err error) {
	uri, manyURIs := q.one(f.uri)
	if uri == "" && !manyURIs {
		return r, false, nil
	}
	method, manyMethods := q.one(f.method)
	host, manyHosts := q.Host, false
	if f.host != "" {
		if given, many := q.one(f.host); given != "" {
			host, manyHosts = given, many
		}
	} else if given, _, err := splitTarget(uri); err == nil && given != "" {
		host = given
	}
	if manyURIs || manyMethods || manyHosts || method == "" || strings.Contains(host, ",") { //mutant:no-method-is-get
		return r, false, &Refusal{http.StatusBadRequest,
			"the proxy sends " + f.uri + " without one " + f.method + ", or a header twice"}
	}
	r, err = requestOf(method, host, uri)
	return r, err == nil, err
}

// requestOf returns a request in canonical form.
func requestOf(method, host, target string) (request, error) {
	all, err := readings(target)
	return request{cleanMethod(method), cleanHost(host), all}, err
}

// cleanMethod treats HEAD as GET: servers answer both alike.
func cleanMethod(method string) string {
	if method = strings.ToUpper(method); method == http.MethodHead {
		return http.MethodGet
	}
	return method
}
