package policy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-io/stint/policy"
)

const gatePolicies = `policies:
  login: {security: true, limits: [{name: l, quota: 1, lifetime: {}}]}
  per-ip: {limits: [{name: l, quota: 1, lifetime: {}}]}
  plan: {unknown_key: deny, limits: [{name: l, quota: 1, lifetime: {}}]}
  product: {parent: plan, limits: [{name: l, quota: 1, lifetime: {}}]}
gates:
`

// everyGateField has each field of a gate once, in the canonical form.
const everyGateField = `  web:
    namespace: shop
    trusted_proxies: ["10.0.0.0/8", "fd00::/8"]
    proxy: nginx
    request_id: "X-Request-Id"
    identity: [jwt, {header: "X-Api-Key"}, ip]
    jwt: {jwks: "https://id.example.com/keys", issuer: "https://id.example.com", audience: "shop", algorithms: [ES256]}
    on_missing: skip
    fail: closed
    no_match: allow
    denied: {content_type: "application/json", body: "{\"error\":\"rate_limited\"}"}
    routes:
      - {match: {method: "POST", host: "*.example.com", path: "/login"}, entries: [{policy: login, key: "{identity}"}]}
      - {match: {prefix: "/api/", header: {"X-Beta": "*", "X-Plan": "gold"}}, fail: open, entries: [{policy: per-ip, key: "{ip}", cost: 5}, {policy: plan, key: "{identity}"}]}
      - {match: {glob: "/files/**"}, entries: [{policy: per-ip, key: "{ip}", cost: {header: "X-Cost", max: 50}}]}
      - {match: {regexp: "/v[0-9]+/.*"}, entries: [{policy: per-ip, key: "all"}]}
`

func TestAGateIsWrittenAsItWasRead(t *testing.T) {
	set := parsed(t, gatePolicies+everyGateField)
	if got := string(policy.FormatRules(set)); got != "gates:\n"+everyGateField {
		t.Errorf("got\n%s", got)
	}
	again := parsed(t, string(policy.Format(set)))
	if string(policy.Format(again)) != string(policy.Format(set)) {
		t.Errorf("read and written once more:\n%s", policy.Format(again))
	}
	// As people write it, with the defaults left out.
	short := parsed(t, gatePolicies+`  web:
    trusted_proxies: ["10.1.2.3/8", "::ffff:10.1.2.3/104", "fd00::1/8"]
    identity: [jwt, {header: X-Api-Key}, ip]
    jwt: {jwks: https://id.example.com/keys, issuer: https://id.example.com, audience: shop}
    no_match: deny
    routes:
      - {match: {method: POST, path: /login}, entries: [{policy: login, key: "{identity}", cost: 1}]}
      - {match: {prefix: /api/}, entries: [{policy: per-ip, key: "{ip}"}, {policy: plan, key: "{identity}"}]}
`).Rules().Gates[0]
	if short.OnMissing != policy.MissingDeny || short.JWT.Algorithms[0] != "RS256" ||
		short.Routes[0].Entries[0].Cost.Units != 1 {
		t.Errorf("%+v", short)
	}
	if got := fmt.Sprint(short.TrustedProxies); got != "[10.0.0.0/8 10.0.0.0/8 fd00::/8]" {
		t.Errorf("it trusts %s", got)
	}
}

func TestAWrongGateIsRefusedAtItsField(t *testing.T) {
	const valid = "{no_match: deny, routes: [{match: {}, entries: [{policy: per-ip, key: k}]}]}"
	const jwt = "identity: [jwt], jwt: {jwks: https://a.b/k, issuer: i, audience: a"
	for fields, want := range map[string]string{
		"":                                    "",
		"namespace: Shop":                     "gates.web.namespace: is no name",
		"trusted_proxies: [10.0.0.1]":         "gates.web.trusted_proxies[0]: 10.0.0.1 is no network",
		`trusted_proxies: [""]`:               "gates.web.trusted_proxies[0]: \"\" is no network",
		"proxy: squid":                        "gates.web.proxy: must be nginx, ingress-nginx, x-forwarded or path",
		`request_id: "X Y"`:                   "gates.web.request_id: \"X Y\" is no name of a header",
		"identity: []":                        "gates.web.identity: must not be empty",
		"identity: [ip, ip]":                  "gates.web.identity[1]: is there twice",
		"identity: [cookie]":                  "gates.web.identity[0]: must be ip or jwt",
		"identity: [{header: Authorization}]": "has no API key alone",
		"identity: [jwt]":                     "gates.web.jwt: is missing",
		"identity: [{header: X-Api-Key}, ip]": "gates.web.identity[0].header: counts only where API keys are known",
		"on_missing: allow":                   "gates.web.on_missing: must be deny, skip or shared",
		"fail: maybe":                         "gates.web.fail: must be closed or open",
		"no_match: deny, no_match: allow":     "is there twice",
		"denied: {body: x}":                   "gates.web.denied.content_type: is missing",
		"denied: {content_type: a, body: " + strings.Repeat("x", 1025) + "}": "gates.web.denied.body: has 1025 bytes",
		"jwt: {jwks: https://a.b/k, issuer: i, audience: a}":                 "gates.web.jwt: is for an identity jwt",
		"identity: [jwt], jwt: {jwks: http://a.b/k, issuer: i, audience: a}": "gates.web.jwt.jwks: " +
			"must begin with https://",
		jwt + ", algorithms: [HS256]}": "gates.web.jwt.algorithms[0]: " +
			"\"HS256\" is no algorithm",
		jwt + ", algorithms: [none]}":                              "gates.web.jwt.algorithms[0]: none",
		"identity: [jwt], jwt: {jwks: https://a.b/k, audience: a}": "gates.web.jwt.issuer: is missing",
		"upstream: x": "gates.web.upstream: is unknown here",
	} {
		text := gatePolicies + "  web: " + strings.Replace(valid, "{", "{"+fields+", ", 1)
		if fields == "" {
			text = gatePolicies + "  web: " + valid
		}
		if strings.HasPrefix(fields, "no_match") {
			text = strings.Replace(text, ", no_match: deny, routes", ", routes", 1)
		}
		wrongGate(t, text, want)
	}
	for route, want := range map[string]string{
		"{match: {}, entries: []}": "gates.web.routes[0].entries: " +
			"must not be empty",
		"{entries: [ENTRY]}":                                                          "gates.web.routes[0].match: is missing",
		"{match: {}, entries: [{policy: none, key: k}]}":                              "gates.web.routes[0].entries[0].policy: there is no policy none",
		"{match: {}, entries: [{policy: per-ip, key: ''}]}":                           "gates.web.routes[0].entries[0].key: must not be empty",
		"{match: {}, entries: [{policy: per-ip, key: '{path}'}]}":                     "gates.web.routes[0].entries[0].key: has no field {path} here: known are {identity}, {ip}",
		"{match: {}, entries: [{policy: per-ip, key: k, cost: {header: X, max: 0}}]}": "gates.web.routes[0].entries[0].cost.max: must be 1 to",
		"{match: {}, entries: [{policy: per-ip, key: k, cost: {header: X}}]}":         "gates.web.routes[0].entries[0].cost.max: is missing",
		"{match: {}, entries: [ENTRY, ENTRY]}":                                        "gates.web.routes[0].entries[1]: repeats entries[0]",
		"{match: {}, fail: open, entries: [ENTRY, {policy: login, key: k}]}": "gates.web.routes[0].fail: " +
			"cannot be open",
		"{match: {}, entries: [{policy: product, key: '{identity}'}]}": "gates.web.routes[0].entries[0].key: " +
			"has no \"/\"",
		"{match: {method: post}, entries: [ENTRY]}":   "gates.web.routes[0].match.method: post is no method",
		"{match: {path: login}, entries: [ENTRY]}":    "gates.web.routes[0].match.path: must begin with /",
		"{match: {path: /a/../b}, entries: [ENTRY]}":  "gates.web.routes[0].match.path: matches nothing",
		"{match: {prefix: '/a?x'}, entries: [ENTRY]}": "gates.web.routes[0].match.prefix: matches nothing",
		"{match: {path: /a, glob: /b}, entries: [ENTRY]}": "gates.web.routes[0].match.glob: " +
			"cannot stand beside",
		"{match: {regexp: '('}, entries: [ENTRY]}": "gates.web.routes[0].match.regexp: is no regular expression",
		"{match: {host: 'a.b:80'}, entries: [ENTRY]}": "gates.web.routes[0].match.host: " +
			"must be a name in lower case",
		"{match: {header: {'A B': x}}, entries: [ENTRY]}": "is no name of a header",
	} {
		route = strings.ReplaceAll(route, "ENTRY", "{policy: per-ip, key: k}")
		wrongGate(t, gatePolicies+"  web: {no_match: deny, routes: ["+route+"]}", want)
	}
}

// An API key is an identity only where its policy, or the parent that pools its products, refuses unknown ones.
func TestWhereAPIKeysAreKnown(t *testing.T) {
	for entries, want := range map[string]bool{
		"[{policy: plan, key: '{identity}'}]":                                 true,
		"[{policy: login, key: '{ip}'}, {policy: plan, key: 'x/{identity}'}]": true,
		"[{policy: product, key: '{identity}/product:x'}]":                    true,
		"[{policy: product, key: 'product:x/{identity}'}]":                    false, // the parent's key is product:x
		"[{policy: plan, key: '{ip}'}, {policy: login, key: '{identity}'}]":   false,
		"[{policy: login, key: '{identity}'}]":                                false,
	} {
		set := parsed(t, gatePolicies+"  web: {no_match: deny, routes: [{match: {}, entries: "+entries+"}]}")
		if got := set.Rules().Gates[0].Routes[0].KnowsKeys(set); got != want {
			t.Errorf("%s: %v", entries, got)
		}
	}
}

// wrongGate expects an error with a text and a line; "": none.
func wrongGate(t *testing.T, text, want string) {
	t.Helper()
	_, err := policy.Parse("f.yaml", []byte(text))
	var problems *policy.ParseError
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", text, err)
	case want == "":
	case !errors.As(err, &problems) || !strings.Contains(err.Error(), want) || problems.Problems[0].Line < 6:
		t.Errorf("%s\n%v\nwant %s", text[len(gatePolicies):], err, want)
	}
}
