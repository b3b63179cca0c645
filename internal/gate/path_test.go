package gate

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestAPathHasOneSpelling(t *testing.T) {
	for target, want := range map[string]string{
		"":                          "/",
		"/":                         "/",
		"/login":                    "/login",
		"/login/":                   "/login",
		"/login?next=/x":            "/login",
		"/login?next=../x#y":        "/login",
		"/LOGIN":                    "/login",
		"/%6c%6Fgin":                "/login",
		"http://shop.example/login": "/login",
		"https://shop.example":      "/",
		"/http://x/login":           "/http:/x/login",
		"/%zz%41%":                  "/%zza%",
		"/a%252fb":                  "/a%2fb", // decoded once
		"/a%3fb":                    "/a?b",
		"/...":                      "/... /",
		"/a.png":                    "/a.png",
		"/caf%C3%A9%20bar":          "/café bar",
		"*":                         "/*",
		// Targets that some servers read differently have both paths.
		"/a%2Fb":                "/a/b /a%2fb",
		"/a%5cB/":               "/a/b /a%5cb",
		"/%2f":                  "/ /%2f",
		"/login;jsessionid=1/x": "/login/x /login;jsessionid=1/x",
		"/login%3Bx":            "/login /login;x",
		"/;jsessionid=1":        "/ /;jsessionid=1",
		"/a%2fb;c":              "/a/b /a%2fb /a/b;c /a%2fb;c",
		"//login":               "/login /",
		"//shop.example/login":  "/shop.example/login /login",
		"/login.":               "/login. /login",
		"/login%20":             "/login  /login",
		"/login!":               "/login! /login",
		"/lo!gin":               "/lo!gin",
		"/%e3%80%80login/a":     "/　login/a /login/a",
		"/login%a0/a":           "/login\xa0/a /login/a",
		"//a/b%20":              "/a/b  /a/b /b  /b",
		// Targets that servers read in too many ways are refused.
		"/x/../login":                            "400",
		"/..":                                    "400",
		"/./login":                               "400",
		"/login/.":                               "400",
		"/x/%2e%2E/login":                        "400",
		"/x%2f..%2Flogin":                        "400",
		"/x/..%5clogin":                          "400",
		"/x/..;a=b/login":                        "400",
		"/x/.%2e%3ba=b/login":                    "400",
		`/x\..\login`:                            "400",
		`/x\login`:                               "400",
		"/;a/login":                              "400",
		"/%3ba/login":                            "400",
		"/;x=%2Flogin":                           "400",
		"/a;x=%5Clogin":                          "400",
		"/login%00.png":                          "400",
		"/login%0a":                              "400",
		"/login%0A/x":                            "400",
		"/lo\tgin":                               "400",
		"/login%7f":                              "400",
		"/login%c2%85":                           "400",
		"/login\xa0":                             "400",
		"/caf\u00e9":                             "400",
		"login":                                  "400",
		"http:/login":                            "400",
		"%2flogin":                               "400",
		"/x/..%20/login":                         "400",
		"/x#/../login":                           "400",
		"https://shop.example?x=1":               "400",
		"/" + strings.Repeat("x", pathBytesMax):  "400",
		"/?" + strings.Repeat("x", pathBytesMax): "/",
		"https://shop#/login":                    "400",
		`https://shop\login`:                     "400",
	} {
		all, err := readings(target)
		got := strings.Join(slices.DeleteFunc(all[:], func(path string) bool { return path == "" }), " ")
		var refusal *Refusal
		if errors.As(err, &refusal) {
			got = strconv.Itoa(refusal.Status)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", target, got, want)
		}
	}
}

// A path that servers read in several ways counts as each of them, and what several count is counted once.
func TestAPathOfSeveralReadingsCountsAsAll(t *testing.T) {
	const routes = `    routes:
      - {match: {glob: '/search/*'}, entries: [{policy: login, key: "{ip}", cost: 7}, {policy: per-ip, key: "{ip}", cost: 2}]}
      - {match: {glob: '/q/*/*'}, entries: [{policy: login, key: "q"}]}
      - {match: {glob: '/q/*'}, entries: [{policy: plan, key: "{identity}"}]}
      - {match: {path: /login}, entries: [{policy: login, key: "{identity}"}]}
      - {match: {glob: '/*;*'}, entries: [{policy: plan, key: "{identity}"}]}
      - {match: {prefix: /ping}, entries: [{policy: per-ip, key: "ping"}]}
      - {match: {prefix: /}, entries: [{policy: per-ip, key: "{ip}"}]}
`
	const key = "key:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b" // SHA-256 of "secret"
	const site, search = "per-ip ip:203.0.113.7 1", "login ip:203.0.113.7 7, per-ip ip:203.0.113.7 2"
	g := made(t, "    identity: [{header: X-Api-Key}, ip]\n    no_match: allow\n"+routes)
	for path, want := range map[string]string{
		"/search/a":      search,
		"/search/a/b":    site,
		"/search/a%2Fb":  search,
		"/search/a%5Cb":  search,
		"/search/a;q":    search,
		"/search/;q":     "per-ip ip:203.0.113.7 2, login ip:203.0.113.7 7",
		"/ping":          "per-ip ping 1",
		"/ping/x;y%2fz":  "400",
		"/login;x":       "login ip:203.0.113.7 1, plan " + key + " 1", // the key is none at a login
		"/ping;x":        "per-ip ping 1, plan " + key + " 1",
		"/%70ing%2Fx":    site + ", per-ip ping 1",
		"/x;ping":        site + ", plan " + key + " 1",
		"/q/a%2Fb":       "plan " + key + " 1, login q 1",
		"/q/a%2Fb;x":     "plan " + key + " 1, login q 1",
		"/q/a;x%2Fb":     "400",
		"/search/../x":   "400",
		"/search/..%2fx": "400",
	} {
		q := question("GET", "a", path, "X-Api-Key: secret")
		if r, err := g.Match(q); err == nil && strings.Contains(want, "login") == r.Open() {
			t.Errorf("%s: open %v", path, r.Open())
		}
		if got := g.counted(t, q, nobody); !sameEntries(got, want) {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	// Where no route denies, each reading wants one.
	strict := made(t, "    no_match: deny\n    routes:\n"+`      - {match: {path: /ping}, entries: [{policy: per-ip,`+
		` key: "{ip}"}]}`+"\n")
	for path, want := range map[string]int{"/ping": 0, "/ping;x": -1, "/ping%2F": -1} {
		if got := strict.index(t, question("GET", "a", path)); got != want {
			t.Errorf("%s: route %d, want %d", path, got, want)
		}
	}
}

// sameEntries compares what counted returns, in any order.
func sameEntries(a, b string) bool {
	return slices.Equal(slices.Sorted(strings.SplitSeq(a, ", ")), slices.Sorted(strings.SplitSeq(b, ", ")))
}

// respelled writes a path in another way, which net/http takes for the same, or any of the servers named in cleanPath.
func respelled(random *rand.Rand, segments []string, any bool) string {
	starts, ends := []string{"/", "//", "/./", "/x/../"}, []string{"", "?a=/b"}
	if any {
		starts, ends = []string{"/", "//", "///"}, append(ends, "/", "/;a", "//", "%2f")
	}
	var b strings.Builder
	for _, segment := range segments {
		b.WriteString(starts[random.IntN(len(starts))])
		for _, c := range []byte(segment) {
			switch random.IntN(4) {
			case 0:
				fmt.Fprintf(&b, "%%%02x", c)
			case 1:
				if any {
					c = strings.ToUpper(string(c))[0]
				}
				fallthrough
			default:
				b.WriteByte(c)
			}
		}
		if any {
			b.WriteString([]string{"", "", ";v=1"}[random.IntN(3)])
		}
	}
	return b.String() + ends[random.IntN(len(ends))]
}

func TestASecondSpellingIsNotFree(t *testing.T) {
	g := routed(t, "{path: /api/v1/login}", "{prefix: /shop/cart}", "{glob: '/files/*/raw'}", "{regexp: '/u/[a-z]+'}")
	paths := [][]string{{"api", "v1", "login"}, {"shop", "cart", "items"}, {"files", "one", "raw"}, {"u", "ann"}}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		i := random.IntN(len(paths))
		spelling := respelled(random, paths[i], true)
		if got := g.index(t, question("GET", "a", spelling)); got != i {
			t.Fatalf("%q: route %d, want %d", spelling, got, i)
		}
	}
}

// Some letters outside of ASCII are an ASCII letter in another case, and "(?i)" takes one for the other. "i" with and
// without its dot is one letter for Python and Java.
func TestALetterInAnotherCaseIsNotFree(t *testing.T) {
	g := routed(t, "{path: /api/task-list}")
	page := regexp.MustCompile("(?i)^/api/task-list$")
	for _, spelling := range []string{"/api/ta%C5%BFk-list", "/api/tas%E2%84%AA-list",
		"/API/TA%C5%BF%e2%84%aa-LI%c5%bfT"} {
		if path, err := url.PathUnescape(spelling); err != nil || !page.MatchString(path) {
			t.Errorf("%q is another page: %v", spelling, err)
		}
		if got := g.index(t, question("GET", "a", spelling)); got != 0 {
			t.Errorf("%q is free: route %d", spelling, got)
		}
	}
	for _, spelling := range []string{"/api/task-l%C4%B0st", "/ap%C4%B1/task-list"} {
		if got := g.index(t, question("GET", "a", spelling)); got != 0 {
			t.Errorf("%q is free: route %d", spelling, got)
		}
	}
	// Letters outside of ASCII have cases too, some of them three.
	g = routed(t, "{path: /größe}", "{prefix: /ΟΔΌΣ}", "{glob: '/élan/*'}", "{regexp: '/ǆ'}")
	for i, spellings := range [][]string{{"/GR%C3%96%C3%9FE", "/gr%c3%96%E1%BA%9Ee"}, {"/οδός", "/οδόσ/x", "/ΟΔΌΣ/X"},
		{"/%C3%89lan/x"}, {"/%C7%84", "/%C7%85"}} {
		for _, spelling := range spellings {
			target := (&url.URL{Path: spelling}).EscapedPath()
			if strings.Contains(spelling, "%") {
				target = spelling
			}
			if got := g.index(t, question("GET", "a", target)); got != i {
				t.Errorf("%q is free: route %d, want %d", target, got, i)
			}
		}
	}
}

// Whatever net/http takes for one path, so does the gate, or it refuses: its mux redirects a spelling, or serves it,
// and never elsewhere.
func TestNetHTTPAndTheGateAgree(t *testing.T) {
	g := routed(t, "{path: /api/login}")
	mux := http.NewServeMux()
	mux.HandleFunc("/api/login", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	random := rand.New(rand.NewPCG(3, 4))
	served := 0
	for range 20_000 {
		spelling := respelled(random, []string{"api", "login"}, false)
		r, err := http.NewRequest(http.MethodGet, "http://a"+spelling, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			answer := httptest.NewRecorder()
			mux.ServeHTTP(answer, r)
			if answer.Code == http.StatusTeapot {
				served++
				if r, err := g.Match(question("GET", "a", spelling)); err == nil && r == nil {
					t.Fatalf("%q is free, and net/http serves it", spelling)
				}
			}
			if answer.Code/100 != 3 {
				break
			}
			r = httptest.NewRequest(http.MethodGet, answer.Header().Get("Location"), nil)
		}
	}
	if served < 100 {
		t.Errorf("net/http served %d spellings", served)
	}
}

func FuzzQuestion(f *testing.F) {
	f.Add("/login", "POST", "shop.example:80", "203.0.113.7, 10.0.0.1", "Bearer x")
	f.Add("http://a/%2e%2e//b;c?d#e", "", "[::1]:80", "::1%eth0", "")
	f.Add("%", "HEAD", ":", ",,,", "Bearer")
	g := made(f, `    trusted_proxies: [10.0.0.0/8]
    request_id: X-Request-Id
    identity: [{header: X-Api-Key}, ip]
    on_missing: shared
    no_match: allow
    routes:
      - {match: {path: /login}, entries: [{policy: login, key: "{identity}"}]}
      - {match: {}, entries: [{policy: plan, key: "{identity}"}, {policy: per-ip, key: "{ip}", cost: {header: X-Cost, max: 9}}]}
`)
	f.Fuzz(func(t *testing.T, uri, method, host, from, key string) {
		all, err := readings(uri)
		for _, clean := range all {
			if clean != "" && (clean[0] != '/' || path.Clean(clean) != clean) || err != nil && clean != "" {
				t.Errorf("%q becomes %q, %v", uri, clean, err)
			}
		}
		for _, peer := range []string{"10.0.0.1:1", "192.0.2.1:1", "@"} {
			q := &Question{Peer: peer, Method: "GET",
				Header: http.Header{"X-Original-Uri": {uri}, "X-Original-Method": {method},
					"X-Forwarded-For": {from}, "X-Api-Key": {key}, "X-Cost": {key}, "X-Request-Id": {key}}, Host: host}
			r, err := g.Match(q)
			if err != nil || r == nil {
				continue
			}
			entries, err := r.Entries(q, nobody)
			if err != nil && key != "" {
				t.Errorf("%v", err)
			}
			for _, e := range entries {
				if len(e.Key) > 512 || e.Key == "" || strings.ContainsAny(e.Key, "{}") || e.Cost < 1 || e.Cost > 9 {
					t.Errorf("%+v", e)
				}
			}
			if id := g.ID(q, entries); len(id) > 64 {
				t.Errorf("the id is %q", id)
			}
		}
	})
}
