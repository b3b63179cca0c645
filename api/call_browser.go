package api

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/stint-io/stint/api/gates"
)

// browsers keeps web pages out. A browser lets a page send requests to any address. While clients need no token, a page
// that reaches this port would count with its visitor's rights: on loopback, or inside a network. Checking the dialed
// address does not help, because a page's owner can point a name at it (DNS rebinding, as in Tailscale's
// CVE-2022-41924). But the browser sends the name that it used.
//
// Once the cluster requires tokens, the name no longer matters: a page knows no token, and TLS checks the name if a
// browser has a client certificate. Pages of other sites stay out.
//
// Gates are exempt: a proxy asks them, with the headers of a page's visitor. The name does not matter either where
// nothing is counted or read (probes), or in a protocol that browsers do not speak (gRPC): callers that a check of the
// name would refuse there, under a name of Kubernetes or Envoy, are never pages.
type browsers struct {
	// hosts are allowed names in lower case, besides addresses and names without a dot; a leading dot makes a name a
	// suffix.
	hosts []string
	gate  *gatekeeper
}

func newBrowsers(hosts []string, gate *gatekeeper) browsers {
	b := browsers{gate: gate}
	for _, host := range hosts {
		b.hosts = append(b.hosts, strings.TrimSuffix(strings.ToLower(host), "."))
	}
	return b
}

// keepOut refuses the requests of other sites' pages before it reads any of their bodies.
func (b browsers) keepOut(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gates.Asked(r) {
			next.ServeHTTP(w, r)
			return
		}
		if set := b.gate.guard.Set(); !set.Required && (set.Known || set.Outside) && !isProbe(r) && !isGRPC(r) &&
			!b.isOurs(r.Host) {
			b.refused(r, "its name is not one of this server's: if it is, start it with --api-hosts and that name")
			turnAway(w, r, http.StatusMisdirectedRequest, connect.CodePermissionDenied,
				fmt.Sprintf("%.300q is not a name of this server: nothing was done; "+
					"use its address, or start it with --api-hosts and that name", r.Host))
			return
		}
		if isOfAnotherSite(r) {
			b.refused(r, "it is from a web page of another site")
			turnAwayWith(w, r, http.StatusForbidden, connect.CodePermissionDenied,
				"a web page of another site may not ask this server: nothing was done")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isProbe reports whether a request only asks for this server's health.
func isProbe(r *http.Request) bool { return r.URL.Path == "/healthz" || r.URL.Path == "/readyz" }

// isGRPC reports whether a request is native gRPC, which needs HTTP/2 and trailers: in plaintext browsers speak HTTP/1
// only, and with TLS they check the name.
func isGRPC(r *http.Request) bool {
	kind := r.Header.Get("Content-Type")
	return r.ProtoMajor == 2 && (kind == "application/grpc" || strings.HasPrefix(kind, "application/grpc+"))
}

// refused counts a refusal and logs it, unless its address sends too many.
func (b browsers) refused(r *http.Request, why string) {
	procedure := b.gate.countRefusal(r.URL.Path, connect.CodePermissionDenied)
	b.gate.tell(r.RemoteAddr, "a request was refused: "+why, "procedure", procedure, "host",
		fmt.Sprintf("%.300s", r.Host))
}

// isOurs reports whether a Host header names this server and not a web site: an address, a name without a dot (such as
// that of a machine or a container), or a configured name.
func (b browsers) isOurs(host string) bool {
	name := host
	if i := strings.LastIndexByte(name, ':'); i >= 0 && strings.IndexByte(name, ']') < i && isPort(name[i+1:]) {
		name = name[:i]
	}
	if !strings.ContainsAny(name, ".:") {
		return true
	}
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return true
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	return slices.ContainsFunc(b.hosts, func(ours string) bool {
		return name == ours || ours[0] == '.' && strings.HasSuffix(name, ours)
	})
}

func isPort(text string) bool { return strings.Trim(text, "0123456789") == "" }

// isOfAnotherSite reports whether a browser sent the request for a page that did not come from this server. Other
// clients send neither of these headers.
func isOfAnotherSite(r *http.Request) bool {
	switch site := r.Header["Sec-Fetch-Site"]; {
	case len(site) == 0:
	case len(site) > 1 || site[0] != "same-origin" && site[0] != "none": // none: the address was typed, or a bookmark
		return true
	}
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		return false
	}
	scheme, host, found := strings.Cut(origins[0], "://")
	return len(origins) > 1 || !found || scheme != "http" && scheme != "https" || !strings.EqualFold(host, r.Host)
}

// HostProblem returns the problem with a name for --api-hosts, or "".
func HostProblem(name string) string {
	switch _, _, err := net.SplitHostPort(name); {
	case err == nil || strings.ContainsAny(name, ":/ "):
		return "must be a name alone, without a port or a path"
	case name == "" || strings.ContainsAny(name, "*"):
		return "must be one name, as in stint.example.com"
	}
	return ""
}
