package gate

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-io/stint/policy"
)

const policies = `policies:
  login: {security: true, limits: [{name: l, quota: 1, lifetime: {}}]}
  per-ip: {limits: [{name: l, quota: 1, lifetime: {}}]}
  plan: {unknown_key: deny, limits: [{name: l, quota: 1, lifetime: {}}]}
gates:
  web:
`

// made makes a gate of its fields; each line has four spaces.
func made(t testing.TB, fields string) *Gate {
	t.Helper()
	set, err := policy.Parse("f.yaml", []byte(policies+fields))
	if err != nil {
		t.Fatal(err)
	}
	return New(set.Rules().Gates[0], set)
}

// routed makes a gate with one route for each match.
func routed(t testing.TB, matches ...string) *Gate {
	fields := "    no_match: allow\n    routes:\n"
	for _, m := range matches {
		fields += "      - {match: " + m + `, entries: [{policy: per-ip, key: "{ip}"}]}` + "\n"
	}
	return made(t, fields)
}

// question is a direct one: it is about itself.
func question(method, host, path string, headers ...string) *Question {
	q := &Question{Peer: "203.0.113.7:1", Method: method, Host: host, Path: path, Header: http.Header{}}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		q.Header.Add(name, value)
	}
	return q
}

// index returns the number of the first route as which a question counts; -1: none.
func (g *Gate) index(t testing.TB, q *Question) int {
	t.Helper()
	r, err := g.Match(q)
	if err != nil {
		t.Fatal(err)
	}
	first := -1
	for ; r != nil; r = r.also {
		for i := range g.routes {
			if g.routes[i].rules == r.rules && (first < 0 || i < first) {
				first = i
			}
		}
	}
	return first
}

func TestTheFirstRouteThatMatchesIsTheOnlyOne(t *testing.T) {
	g := routed(t,
		"{method: POST, path: /login}",          // 0
		"{host: admin.example.com}",             // 1
		"{host: '*.example.org', prefix: /x/}",  // 2
		"{glob: '/files/*/raw'}",                // 3
		"{glob: '/all/**'}",                     // 4
		"{regexp: '/v[0-9]+'}",                  // 5
		"{path: /beta, header: {X-Beta: '*'}}",  // 6
		"{path: /beta, header: {X-Plan: gold}}", // 7
		"{prefix: /api}",                        // 8
		"{method: GET, path: /}",                // 9
	)
	for _, c := range []struct {
		method, host, path string
		headers            []string
		want               int
	}{
		{"POST", "a", "/login", nil, 0},
		{"post", "a", "/login", nil, 0},
		{"GET", "a", "/login", nil, -1},
		{"POST", "a", "/login/x", nil, -1},
		{"GET", "admin.example.com", "/", nil, 1},
		{"GET", "ADMIN.Example.com.:8443", "/", nil, 1},
		{"GET", "admin.example.com.evil.org", "/x", nil, -1},
		{"GET", "a.example.org", "/x/y", nil, 2},
		{"GET", "a.b.example.org:80", "/x", nil, 2},
		{"GET", "example.org", "/x/y", nil, -1},
		{"GET", "notexample.org", "/x/y", nil, -1},
		{"GET", "a", "/files/1/raw", nil, 3},
		{"GET", "a", "/files/1/2/raw", nil, -1},
		{"GET", "a", "/files//raw", nil, -1},
		{"GET", "a", "/all", nil, 4},
		{"GET", "a", "/all/1/2", nil, 4},
		{"GET", "a", "/allof", nil, -1},
		{"GET", "a", "/v12", nil, 5},
		{"GET", "a", "/v12/x", nil, -1},
		{"GET", "a", "/x/v12", nil, -1},
		{"GET", "a", "/beta", []string{"X-Beta: 1"}, 6},
		{"GET", "a", "/beta", []string{"X-Plan: gold"}, 7},
		{"GET", "a", "/beta", []string{"X-Plan: free", "X-Plan: gold"}, 7},
		{"GET", "a", "/beta", []string{"X-Plan: golden"}, -1},
		{"GET", "a", "/api", nil, 8},
		{"GET", "a", "/api/x", nil, 8},
		{"GET", "a", "/apix", nil, -1},
		{"GET", "a", "", nil, 9},
		{"HEAD", "a", "/", nil, 9}, // a server that answers GET answers HEAD
		{"POST", "a", "/", nil, -1},
	} {
		if got := g.index(t, question(c.method, c.host, c.path, c.headers...)); got != c.want {
			t.Errorf("%s %s%s %v: route %d, want %d", c.method, c.host, c.path, c.headers, got, c.want)
		}
	}
}

func TestHeadersCountOnlyFromATrustedProxy(t *testing.T) {
	g := func(proxy string) *Gate {
		return made(t, "    trusted_proxies: [10.0.0.0/8]\n"+proxy+"    no_match: allow\n    routes:\n"+
			`      - {match: {method: POST, host: shop.example, path: /login}, entries: [{policy: login,`+
			` key: "{ip}"}]}`+"\n")
	}
	nginx := []string{"X-Original-Method: POST", "X-Original-Uri: /login"}
	traefik := []string{"X-Forwarded-Method: POST", "X-Forwarded-Uri: /login", "X-Forwarded-Host: shop.example"}
	free := []string{"X-Original-Method: GET", "X-Original-Uri: /free", "X-Original-Url: http://shop.example/free"}
	for name, c := range map[string]struct {
		proxy, peer, method, host, path string
		headers                         []string
		want                            int // -2: refused
	}{
		"nginx":   {"", "10.1.1.1:5", "GET", "shop.example", "", nginx, 0},
		"Traefik": {"", "10.1.1.1:5", "GET", "gate", "", traefik, 0},
		"ingress-nginx": {"", "10.1.1.1:5", "GET", "gate", "",
			[]string{"X-Original-Method: POST", "X-Original-Url: https://shop.example:443/login"}, 0},
		"Envoy":                             {"", "10.1.1.1:5", "POST", "shop.example", "/login", nil, 0},
		"Envoy, and a forged header":        {"", "10.1.1.1:5", "POST", "shop.example", "/login", free, 0},
		"a stranger":                        {"", "192.0.2.1:5", "GET", "gate", "", traefik, -2},
		"a stranger, and no path":           {"", "192.0.2.1:5", "GET", "gate", "", nil, -1},
		"a stranger, who says what is true": {"", "192.0.2.1:5", "POST", "shop.example", "/login", free, 0},
		"forged beside Traefik's":           {"", "10.1.1.1:5", "GET", "gate", "", append(free, traefik...), -2},
		"forged beside nginx'": {"", "10.1.1.1:5", "GET", "shop.example", "",
			append([]string{"X-Forwarded-Method: GET", "X-Forwarded-Uri: /free"}, nginx...), -2},
		"the same, with another host": {"", "10.1.1.1:5", "GET", "gate", "",
			append(append([]string{}, nginx...), traefik...), -2},
		"forged beside the one that counts": {"    proxy: x-forwarded\n", "10.1.1.1:5", "GET", "gate", "",
			append(free, traefik...), 0},
		"forged beside the nginx that counts": {"    proxy: nginx\n", "10.1.1.1:5", "GET", "shop.example", "",
			append(traefik[:2:2], nginx...), 0},
		"only forged":               {"    proxy: nginx\n", "10.1.1.1:5", "GET", "shop.example", "", traefik, -2},
		"only forged, and no path":  {"    proxy: path\n", "10.1.1.1:5", "GET", "gate", "", traefik, -2},
		"no path":                   {"    proxy: path\n", "10.1.1.1:5", "GET", "gate", "", nil, -2},
		"a stranger's, and no path": {"    proxy: path\n", "192.0.2.1:5", "GET", "gate", "", traefik, -2},
		"only forged, beside the path": {"    proxy: path\n", "10.1.1.1:5", "POST", "shop.example", "/login",
			append(free, traefik...), 0},
		"two URIs": {"", "10.1.1.1:5", "GET", "shop.example", "",
			append([]string{"X-Original-Uri: /free"}, nginx...), -2},
		"two hosts": {"", "10.1.1.1:5", "GET", "gate", "", append([]string{"X-Forwarded-Host: other"}, traefik...), -2},
		"no method": {"", "10.1.1.1:5", "GET", "gate", "", traefik[1:], -2},
		"nothing":   {"", "10.1.1.1:5", "GET", "gate", "", nil, -2},
	} {
		q := question(c.method, c.host, c.path, c.headers...)
		q.Peer = c.peer
		gate := g(c.proxy)
		if stranger := strings.HasPrefix(name, "a stranger") && c.headers != nil; gate.Ignores(q) != stranger {
			t.Errorf("%s: headers are said to be ignored: %v", name, !stranger)
		}
		r, err := gate.Match(q)
		var refusal *Refusal
		got := -1
		if r != nil {
			got = 0
		}
		if errors.As(err, &refusal) && refusal.Status == http.StatusBadRequest {
			got = -2
		}
		if got != c.want {
			t.Errorf("%s: %d, %v, want %d", name, got, err, c.want)
		}
	}
}

// A report says what was asked, whatever the headers say; a stranger's report is refused, and so is one without a
// method or a path, which could pass for "/".
func TestAReportCountsOnlyFromATrustedProxy(t *testing.T) {
	forged := []string{"X-Original-Method: GET", "X-Original-Uri: /free", "X-Forwarded-Method: GET",
		"X-Forwarded-Uri: /free"}
	for _, proxy := range []string{"", "    proxy: nginx\n", "    proxy: x-forwarded\n", "    proxy: path\n"} {
		g := made(t, "    trusted_proxies: [10.0.0.0/8]\n"+proxy+"    no_match: allow\n    routes:\n"+
			`      - {match: {method: POST, host: shop.example, path: /login}, entries: [{policy: login,`+
			` key: "{ip}"}]}`+"\n")
		for name, c := range map[string]struct {
			peer, method, path string
			route, refused     bool
		}{
			"a proxy":                {"10.1.1.1:5", "POST", "/login?next=/", true, false},
			"another spelling":       {"10.1.1.1:5", "POST", "//%6Cogin", true, false},
			"another method":         {"10.1.1.1:5", "GET", "/login", false, false},
			"a stranger":             {"192.0.2.1:5", "POST", "/login", false, true},
			"a stranger, and /":      {"192.0.2.1:5", "GET", "/", false, true},
			"no address":             {"", "POST", "/login", false, true},
			"a proxy without a path": {"10.1.1.1:5", "POST", "", false, true},
			"without a method":       {"10.1.1.1:5", "", "/login", false, true},
			"a way up":               {"10.1.1.1:5", "POST", "/login/..", false, true},
		} {
			q := question(c.method, "shop.example:443", c.path, forged...)
			q.Peer, q.Reported = c.peer, true
			r, err := g.Match(q)
			var refusal *Refusal
			if refused := errors.As(err, &refusal) && refusal.Status == http.StatusBadRequest; refused != c.refused ||
				(r != nil) != c.route {
				t.Errorf("%q, %s: route %v, %v", proxy, name, r, err)
			}
			if stranger := !strings.HasPrefix(c.peer, "10."); g.Ignores(q) != stranger {
				t.Errorf("%q, %s: it is said to be ignored: %v", proxy, name, !stranger)
			}
		}
	}
}

// nobody verifies no token.
func nobody(string) (string, error) { return "", errors.New("a token was looked at") }

// counted writes the entries of a question, or the status of its refusal.
func (g *Gate) counted(t testing.TB, q *Question, subject Subject) string {
	t.Helper()
	r, err := g.Match(q)
	var entries []Entry
	if err == nil && r == nil {
		t.Fatal("no route")
	} else if err == nil {
		entries, err = r.Entries(q, subject)
	}
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return fmt.Sprint(refusal.Status)
	}
	if err != nil {
		return err.Error()
	}
	var texts []string
	for _, e := range entries {
		texts = append(texts, fmt.Sprint(e.Policy, " ", e.Key, " ", e.Cost))
	}
	return strings.Join(texts, ", ")
}

func TestTheFirstIdentityCountsAndABadOneIsRefused(t *testing.T) {
	const gate = `    identity: [jwt, {header: X-Api-Key}, ip]
    jwt: {jwks: https://id.example.com/keys, issuer: https://id.example.com, audience: shop}
    no_match: allow
    routes:
      - {match: {path: /login}, entries: [{policy: login, key: "{identity}"}]}
      - {match: {path: /ip}, entries: [{policy: login, key: "{ip}"}]}
      - {match: {path: /plan}, entries: [{policy: plan, key: "{identity}/product:web"}]}
`
	const apiKey = "key:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b" // SHA-256 of "secret"
	subject := func(token string) (string, error) {
		switch token {
		case "good":
			return "a|b={c}", nil
		case "later":
			return "", errors.New("no keys yet")
		}
		return "", fmt.Errorf("%w: forged", ErrToken)
	}
	for name, c := range map[string]struct {
		path, want string
		headers    []string
	}{
		"a token": {"/login", "login user:a%7Cb%3D%7Bc%7D 1",
			[]string{"Authorization: Bearer good", "X-Api-Key: secret"}},
		"in lower case":         {"/login", "login user:a%7Cb%3D%7Bc%7D 1", []string{"Authorization: bearer good"}},
		"a bad token":           {"/login", "401", []string{"Authorization: Bearer bad", "X-Api-Key: secret"}},
		"an empty token":        {"/login", "401", []string{"Authorization: Bearer"}},
		"a token behind a tab":  {"/login", "login user:a%7Cb%3D%7Bc%7D 1", []string{"Authorization: Bearer\tgood"}},
		"behind something else": {"/login", "401", []string{"Authorization: Bearer\xa0good"}},
		"behind white space":    {"/login", "login user:a%7Cb%3D%7Bc%7D 1", []string{"Authorization:  \tBearer good"}},
		"a bad one behind it":   {"/login", "401", []string{"Authorization: \xa0Bearer bad", "X-Api-Key: secret"}},
		"two tokens":            {"/login", "401", []string{"Authorization: Bearer good", "Authorization: Bearer good"}},
		"two, joined":           {"/login", "401", []string{"Authorization: Basic eDp5,bearer good"}},
		"a list that is no token": {
			"/login",
			"login ip:203.0.113.7 1", []string{"Authorization: Digest username=x, realm=y"}},
		"a token that nobody can look at": {"/login", "no keys yet", []string{"Authorization: Bearer later"}},
		"a token where only the ip counts": {"/ip", "login ip:203.0.113.7 1",
			[]string{"Authorization: Bearer bad"}},
		"a password":                {"/login", "login ip:203.0.113.7 1", []string{"Authorization: Basic eDp5"}},
		"a key":                     {"/plan", "plan " + apiKey + "/product:web 1", []string{"X-Api-Key: secret"}},
		"two keys":                  {"/plan", "401", []string{"X-Api-Key: secret", "X-Api-Key: other"}},
		"a key where none is known": {"/login", "login ip:203.0.113.7 1", []string{"X-Api-Key: invented"}},
		"an empty key":              {"/plan", "plan ip:203.0.113.7/product:web 1", []string{"X-Api-Key: "}},
		"nothing":                   {"/login", "login ip:203.0.113.7 1", nil},
	} {
		if got := made(t, gate).counted(t, question("GET", "a", c.path, c.headers...), subject); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestWithoutAnIdentityTheGateSaysWhatCounts(t *testing.T) {
	const rest = `    trusted_proxies: [203.0.113.0/24]
    proxy: path
    no_match: allow
    routes:
      - {match: {}, entries: [{policy: per-ip, key: "{ip}"}, {policy: login, key: "{identity}", cost: 3}, {policy: login, key: all}]}
`
	for fields, want := range map[string]string{
		"":                         "400",
		"    on_missing: deny\n":   "400",
		"    on_missing: skip\n":   "login all 1",
		"    on_missing: shared\n": "per-ip anonymous 1, login anonymous 3, login all 1",
	} {
		for _, headers := range [][]string{nil, {"X-Forwarded-For: garbage"}, {"X-Forwarded-For: 192.0.2.1, "}} {
			if got := made(t, fields+rest).counted(t, question("GET", "a", "/x", headers...), nobody); got != want {
				t.Errorf("%s%v: %s, want %s", fields, headers, got, want)
			}
		}
	}
	// Another field that is missing does not hide a bad token.
	const both = `    identity: [jwt, ip]
    jwt: {jwks: https://a.b/k, issuer: i, audience: a}
    on_missing: skip
`
	forged := func(string) (string, error) { return "", ErrToken }
	for _, key := range []string{"{identity}{ip}", "{ip}{identity}"} {
		g := made(t, both+rest[:strings.Index(rest, "      - ")]+`      - {match: {},`+
			` entries: [{policy: login, key: "`+key+`"}]}`+"\n")
		if got := g.counted(t, question("GET", "a", "/x", "Authorization: Bearer x"), forged); got != "401" {
			t.Errorf("a bad token and no address, %s: %s", key, got)
		}
	}
	token := "    identity: [jwt]\n    jwt: {jwks: https://a.b/k, issuer: i, audience: a}\n"
	if got := made(t, token+rest).counted(t, question("GET", "a", "/x", "X-Forwarded-For: 192.0.2.1"),
		nobody); got != "401" {
		t.Errorf("without a token: %s", got)
	}
}

func TestTheCostIsAtMostWhatTheGateSays(t *testing.T) {
	g := made(t, `    trusted_proxies: [203.0.113.7/32]
    proxy: path
    no_match: allow
    routes:
      - {match: {}, entries: [{policy: per-ip, key: k, cost: {header: X-Cost, max: 50}}]}
`)
	for header, want := range map[string]string{"X-Cost: 7": "7", "X-Cost: 50": "50", "X-Cost: 51": "50",
		"X-Cost: 0": "50", "X-Cost: -1": "50", "X-Cost: 1.5": "50", "X-Cost: ": "50", "Other: 1": "50",
		"X-Cost: 99999999999999999999": "50"} {
		if got := g.counted(t, question("GET", "a", "/", header), nobody); got != "per-ip k "+want {
			t.Errorf("%s: %s, want %s", header, got, want)
		}
	}
	stranger := question("GET", "a", "/", "X-Cost: 1")
	stranger.Peer = "192.0.2.1:5"
	if got := g.counted(t, stranger, nobody); got != "per-ip k 50" {
		t.Errorf("a stranger names the cost: %s", got)
	}
	if got := g.counted(t, question("GET", "a", "/", "X-Cost: 1", "X-Cost: 2"), nobody); got != "per-ip k 50" {
		t.Errorf("two costs: %s", got)
	}
}

// Two keys that turn out to be the same are one entry.
func TestTheSameKeyTwiceCostsBoth(t *testing.T) {
	g := made(t, `    no_match: allow
    routes:
      - {match: {}, entries: [{policy: per-ip, key: "{ip}", cost: 2}, {policy: per-ip, key: "{identity}", cost: 3}]}
`)
	if got := g.counted(t, question("GET", "a", "/"), nobody); got != "per-ip ip:203.0.113.7 5" {
		t.Error(got)
	}
}

func TestOnlyATrustedProxyNamesTheID(t *testing.T) {
	fields := `    trusted_proxies: [203.0.113.7/32]
    proxy: path
    request_id: X-Request-Id
    no_match: allow
    routes: [{match: {}, entries: [{policy: per-ip, key: k}]}]
`
	g := made(t, fields)
	one := []Entry{{"per-ip", "k", 1}}
	id := g.ID(question("GET", "a", "/", "X-Request-Id: 1"), one)
	if id == "" || len(id) > 64 || id != g.ID(question("GET", "a", "/", "X-Request-Id: 1"), one) {
		t.Errorf("the id is %q", id)
	}
	for name, other := range map[string]string{
		"another request": g.ID(question("GET", "a", "/", "X-Request-Id: 2"), one),
		"other entries":   g.ID(question("GET", "a", "/", "X-Request-Id: 1"), []Entry{{"per-ip", "k", 2}}),
	} {
		if other == id || other == "" {
			t.Errorf("%s has the id %q", name, other)
		}
	}
	stranger := question("GET", "a", "/", "X-Request-Id: 1")
	stranger.Peer = "192.0.2.1:5"
	for name, q := range map[string]*Question{"a stranger": stranger, "nothing": question("GET", "a", "/"),
		"two":  question("GET", "a", "/", "X-Request-Id: 1", "X-Request-Id: 2"),
		"long": question("GET", "a", "/", "X-Request-Id: "+strings.Repeat("x", requestIDBytesMax+1))} {
		if got := g.ID(q, one); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := made(t, strings.Replace(fields, "    request_id: X-Request-Id\n", "", 1)).
		ID(question("GET", "a", "/", "X-Request-Id: 1"), one); got != "" {
		t.Errorf("no header was named, and the id is %q", got)
	}
}

func TestARouteOpensOnlyWithoutSecurity(t *testing.T) {
	for fail, want := range map[string]string{"": "false true false true", "    fail: open\n": "false true false true",
		"    fail: closed\n": "false false false true"} {
		g := made(t, fail+`    no_match: allow
    routes:
      - {match: {}, entries: [{policy: login, key: k}, {policy: per-ip, key: k}]}
      - {match: {}, entries: [{policy: per-ip, key: k}]}
      - {match: {}, fail: closed, entries: [{policy: per-ip, key: k}]}
      - {match: {}, fail: open, entries: [{policy: per-ip, key: k}]}
`)
		if got := fmt.Sprint(g.routes[0].Open(), g.routes[1].Open(), g.routes[2].Open(),
			g.routes[3].Open()); got != want {
			t.Errorf("%q: %s, want %s", fail, got, want)
		}
	}
}
