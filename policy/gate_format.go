package policy

import (
	"strconv"
	"strings"
)

func (g *Gate) write(w *writer) {
	w.line(1, "%s:", plain(g.Name))
	if g.Namespace != "" {
		w.line(2, "namespace: %s", plain(g.Namespace))
	}
	if len(g.TrustedProxies) > 0 {
		networks := make([]string, len(g.TrustedProxies))
		for i, network := range g.TrustedProxies {
			networks[i] = strconv.Quote(network.String())
		}
		w.line(2, "trusted_proxies: [%s]", strings.Join(networks, ", "))
	}
	if g.Proxy != ProxyAny {
		w.line(2, "proxy: %s", gateProxyWords[g.Proxy])
	}
	if g.RequestID != "" {
		w.line(2, "request_id: %s", strconv.Quote(g.RequestID))
	}
	w.line(2, "identity: [%s]", strings.Join(identityTexts(g.Identity), ", "))
	if g.JWT != nil {
		w.line(2, "jwt: %s", g.JWT.text())
	}
	if g.OnMissing != MissingDeny {
		w.line(2, "on_missing: %s", onMissingWords[g.OnMissing])
	}
	if g.Fail != FailDefault {
		w.line(2, "fail: %s", failWords[g.Fail])
	}
	if g.NoMatch != 0 {
		w.line(2, "no_match: %s", noMatchWords[g.NoMatch])
	}
	if g.Denied != nil {
		w.line(2, "denied: {content_type: %s, body: %s}", strconv.Quote(g.Denied.ContentType), strconv.Quote(g.Denied.Body))
	}
	w.line(2, "routes:")
	for i := range g.Routes {
		w.line(3, "- %s", g.Routes[i].text())
	}
}

func identityTexts(identities []GateIdentity) (texts []string) {
	for _, identity := range identities {
		if identity.Kind == IdentityHeader {
			texts = append(texts, "{header: "+strconv.Quote(identity.Header)+"}")
		} else {
			texts = append(texts, identityWords[identity.Kind])
		}
	}
	return texts
}

func (j *GateJWT) text() string {
	var fields fieldList
	fields.quoted("jwks", j.JWKS)
	fields.quoted("issuer", j.Issuer)
	fields.quoted("audience", j.Audience)
	if len(j.Algorithms) != 1 || j.Algorithms[0] != jwtAlgorithm {
		fields.add("algorithms", "["+strings.Join(j.Algorithms, ", ")+"]")
	}
	return fields.String()
}

func (r *GateRoute) text() string {
	entries := make([]string, len(r.Entries))
	for i := range r.Entries {
		entries[i] = r.Entries[i].text()
	}
	var fields fieldList
	fields.add("match", r.Match.text())
	if r.Fail != FailDefault {
		fields.add("fail", failWords[r.Fail])
	}
	fields.add("entries", "["+strings.Join(entries, ", ")+"]")
	return fields.String()
}

func (m *GateMatch) text() string {
	var fields, headers fieldList
	fields.quoted("method", m.Method)
	fields.quoted("host", m.Host)
	fields.quoted("path", m.Path)
	fields.quoted("prefix", m.Prefix)
	fields.quoted("glob", m.Glob)
	fields.quoted("regexp", m.Regexp)
	for _, h := range m.Header {
		headers.add(strconv.Quote(h.Name), strconv.Quote(h.Value))
	}
	if len(headers) > 0 {
		fields.add("header", headers.String())
	}
	return fields.String()
}

func (e *GateEntry) text() string {
	var fields fieldList
	fields.add("policy", plain(e.Policy))
	fields.add("key", strconv.Quote(e.Key.String()))
	switch {
	case e.Cost.Header != "":
		fields.add("cost", "{header: "+strconv.Quote(e.Cost.Header)+", max: "+strconv.FormatUint(e.Cost.Units, 10)+"}")
	case e.Cost.Units != 1:
		fields.add("cost", strconv.FormatUint(e.Cost.Units, 10))
	}
	return fields.String()
}

// quoted adds a field of text; "" is left out.
func (f *fieldList) quoted(name, text string) {
	if text != "" {
		f.add(name, strconv.Quote(text)) // YAML has the same escapes
	}
}
