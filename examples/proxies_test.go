//go:build proxies

package examples

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-io/stint/internal/testing/testcluster"
)

// The policies of the examples: so many logins in a minute, and requests in an hour, from one address.
const (
	logins   = 5
	requests = 1000
	crowd    = 64
)

// TestProxies runs the examples of proxies as they stand, with three nodes behind each. `make proxies` runs it.
func TestProxies(t *testing.T) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			w := front(t, p)
			for i, story := range []struct {
				name string
				only string // the one program that it is about
				tell func(w *world, address string) error
			}{
				{name: "the answers reach the client", tell: answers},
				{name: "what a client forges does nothing", tell: forged},
				{name: "another spelling of a path is not free", tell: spellings},
				{name: "a large body reaches the site", tell: uploads},
				{name: "what no node can read does not pass", tell: unreadable},
				{name: "nobody has two names", tell: twoNames, only: "haproxy"},
				{name: "a request that is asked about twice is counted once", tell: twice, only: "nginx"},
			} {
				if story.only == "" || story.only == p.name {
					t.Run(story.name, func(t *testing.T) { w.with(t).decided(i, story.tell) })
				}
			}
			t.Run("a crowd is counted exactly while a node dies", func(t *testing.T) { exactly(w.with(t)) })
			t.Run("no crowd gets too much while the owner of its count dies",
				func(t *testing.T) { exactlyWithoutOwner(w.with(t)) })
			t.Run("nodes that hang or are dead", func(t *testing.T) { dead(w.with(t)) })
		})
	}
}

// TestProxiesSendTheirToken holds that nodes which ask for tokens take the one of a proxy, and that no request passes
// without one.
func TestProxiesSendTheirToken(t *testing.T) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			locate(t, p)
			token, err := exec.Command(binary(t), "token", "generate").Output()
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "token")
			write(t, file, string(token))
			w := frontOf(t, p, filepath.Join(p.name, "policies.yaml"),
				testcluster.Options{Nodes: 1, Args: []string{"--admin-token-file", file}},
				strings.TrimSpace(string(token)))
			w.decided(0, answers)
			w.decided(1, func(w *world, address string) error {
				r, err := http.Get("http://" + w.nodes.Addr(0) + "/gate/web")
				if err != nil || r.StatusCode != http.StatusUnauthorized {
					return fmt.Errorf("without a token the gate answers %+v, %v", r, err)
				}
				return r.Body.Close()
			})
		})
	}
}

// with is the same world for another test.
func (w *world) with(t *testing.T) *world {
	of := *w
	of.T = t
	return &of
}

// decided tells a story at an address of its own, and once more at another one if the nodes could not decide in time:
// the gate waits 250 ms for them, and this machine may be busy.
func (w *world) decided(story int, tell func(w *world, address string) error) {
	w.Helper()
	for try := range 10 {
		w.undecided.Store(false)
		err := tell(w, fmt.Sprintf("127.0.%d.%d", 10+story, 1+try))
		if err == nil {
			return
		}
		if !w.undecided.Load() {
			w.Fatal(err)
		}
		w.Logf("it is told once more, as the nodes could not decide: %v", err)
	}
	w.Fatal("the nodes could not decide")
}

func answers(w *world, address string) error {
	c := w.from(address)
	for i := range logins {
		header := http.Header{}
		if i == 1 {
			header.Set("Transfer-Encoding", "chunked")
		}
		a := w.ask(c, "POST", "/login", header)
		if a.status != http.StatusOK || a.body != "POST /login name=me" {
			return fmt.Errorf("login %d: %+v", i+1, a)
		}
		if w.shows && a.header.Get("RateLimit-Policy") == "" {
			return fmt.Errorf("login %d has no RateLimit-Policy: %v", i+1, a.header)
		}
	}
	w.site.takes("/login")
	a := w.ask(c, "POST", "/login", nil)
	seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
	if a.status != http.StatusTooManyRequests || err != nil || seconds < 1 || seconds > 60 ||
		a.header.Get("Content-Type") != "application/problem+json" || a.header.Get("Cache-Control") != "no-store" ||
		!strings.Contains(a.body, "Too many attempts. Wait a little.") {
		return fmt.Errorf("one login more: %+v", a)
	}
	if n := w.site.takes("/login"); n != 0 {
		return errors.New("the site saw the denied login")
	}
	return nil
}

// forged sends every header by which a proxy might name the visitor and the request to the gate, and asks the proxy to
// drop them on the way.
func forged(w *world, address string) error {
	const stranger = "192.0.2.7"
	header := http.Header{}
	for name, value := range map[string]string{
		"X-Forwarded-For": stranger, "X-Real-Ip": stranger, "Forwarded": "for=" + stranger,
		"X-Forwarded-Uri": "/free", "X-Original-Uri": "/free", "X-Original-Url": "/free", "X-Forwarded-Prefix": "/free",
		"X-Forwarded-Method": "GET", "X-Original-Method": "GET", "X-Http-Method-Override": "GET",
		"X-Forwarded-Host": "free.example.com", "X-Request-Id": "the-same", "X-Stint-Status": "200",
		"Stint-Token": "forged",
	} {
		header.Set(name, value)
	}
	drops := header.Clone()
	drops.Set("Connection", "X-Forwarded-For, X-Forwarded-Uri, X-Forwarded-Method, X-Original-Uri, "+
		"X-Original-Method, X-Request-Id")
	c := w.from(address)
	for i := range 2 * logins {
		h := header
		if i%2 == 1 {
			h = drops
		}
		want := http.StatusOK
		if i >= logins {
			want = http.StatusTooManyRequests
		}
		if a := w.ask(c, "POST", "/login", h); a.status != want {
			return fmt.Errorf("forged login %d: %+v, want %d", i+1, a, want)
		}
	}
	return errors.Join(w.used("login", address, logins), w.used("site", address, logins), w.used("login", stranger, 0))
}

// uploads sends bodies that are larger than what a proxy keeps in memory, or takes by default.
func uploads(w *world, address string) error {
	c := w.from(address)
	for _, bytes := range []int{0, 1, 900_000, 1_100_000, 20_000_000} {
		for _, chunked := range []bool{false, true} {
			body := strings.Repeat("x", bytes)
			header := http.Header{}
			if chunked {
				header.Set("Transfer-Encoding", "chunked")
			}
			if a := w.send(c, "POST", "/upload", header, body); a.status != http.StatusOK ||
				a.body != "POST /upload "+body {
				return fmt.Errorf("%d bytes, chunked %v: %d, and %d bytes: %.200s",
					bytes, chunked, a.status, len(a.body), a.body)
			}
		}
	}
	return w.used("site", address, 10)
}

func spellings(w *world, address string) error {
	for i, path := range []string{"/login", "//login", "/%6Cogin", "/login?deny=403", "/login%2F", "/LOGIN", "/login/",
		"/login;x=1", "//login/?/static/a.png", "http://" + w.address + "/login"} {
		want := http.StatusOK
		if i >= logins {
			want = http.StatusTooManyRequests
		}
		if status := w.spell(address, path); status != want {
			return fmt.Errorf("%s: status %d, want %d", path, status, want)
		}
	}
	// Each of these is a login for some server, or was written to lead out of one.
	for _, path := range []string{"/./login", "/a/../login", "/static/../login", "/static/%2e%2e/login",
		"/static/..%2flogin", "/static/..;/login",
		"/login/../page", "/login/%2e%2e/page", "/login/..%2fpage", "/login/..;/page", "/login/..%5cpage", "/login%0a",
		"/login%0d%0a", "/login\x85", "/login\xa0"} {
		if status := w.spell(address, path); status == http.StatusOK {
			return fmt.Errorf("%s: status %d", path, status)
		}
	}
	// Where the proxy itself knows files that are not counted, it passes on the name of a file, and no login.
	for _, path := range []string{"/login/../static/a.png", "/login/%2e%2e/static/a.png", "/login/..%2fstatic/a.png",
		"/static/a.png%0a"} {
		w.spell(address, path)
	}
	for _, line := range w.site.lines("static") {
		if strings.Contains(line, "login") || strings.Contains(line, "\n") {
			return fmt.Errorf("the site got %q", line)
		}
	}
	return w.used("login", address, logins)
}

// unreadable sends requests of readers that a node refuses to read as a question, or that the proxy may fail to make
// one. Whatever reaches the site, and be it to be refused there, has been counted.
func unreadable(w *world, address string) error {
	path := "/unreadable/" + address
	ask := func(target string, headers ...string) {
		if headers == nil || !strings.HasPrefix(headers[0], "Host: ") {
			headers = append([]string{"Host: " + w.address}, headers...)
		}
		w.raw(address, "GET "+target+" HTTP/1.1\r\n"+strings.Join(headers, "\r\n")+"\r\nConnection: close\r\n\r\n")
	}
	ask(path)
	for _, host := range []string{"a/b", "a<b", "a b", "a\"", "a?b", "a\x01b", "\xff", "["} {
		ask(path, "Host: "+host)
		ask("http://"+host+path, "Host: "+host)
		ask("http://" + host + path)
	}
	for _, name := range []string{"Authorization", "X-Api-Key", "X-Forwarded-For", "Cookie", "X-Other",
		"X-Forwarded-Host", "Stint-Token", "Upgrade", "Expect"} {
		for _, value := range []string{"a\x01b", "\x7f", "\xff", "a\tb", "a\rb", "a\x00b"} {
			ask(path, name+": "+value)
		}
		ask(path, name+": a", name+": b")
	}
	for _, bytes := range []int{8 << 10, 14_000, 14_400, 14_800, 15_000, 15_100, 15_200, 15_260, 15_280, 15_300, 15_320,
		15_340, 15_400, 16_000, 31 << 10, 60 << 10, 64 << 10, 100 << 10, 900 << 10} {
		ask(path + "?" + strings.Repeat("x", bytes))
		ask(path, "Authorization: "+strings.Repeat("x", bytes))
		ask(path, "X-Other: "+strings.Repeat("x", bytes))
		ask(path, strings.TrimSuffix(strings.Repeat("X-Other: x\r\n", bytes/12), "\r\n"))
	}
	reached := uint64(len(w.site.lines(path)))
	if err := w.usedAtLeast("site", address, reached); err != nil || reached == 0 {
		w.undecided.Store(true) // or the nodes were slow
		return fmt.Errorf("%d requests reached the site: %v", reached, err)
	}
	return nil
}

// twoNames sends headers twice of which HAProxy's script could show the gate only one.
func twoNames(w *world, address string) error {
	for _, name := range []string{"Authorization", "X-Api-Key"} {
		status := w.raw(address, fmt.Sprintf("GET / HTTP/1.1\r\nHost: a\r\n%s: a\r\n%s: b\r\nConnection: close\r\n\r\n",
			name, name))
		if status != http.StatusBadRequest {
			return fmt.Errorf("%s twice: status %d", name, status)
		}
	}
	return w.used("site", address, 0)
}

// twice has nginx look for a file first, and go elsewhere then.
func twice(w *world, address string) error {
	c := w.from(address)
	for range 3 {
		if a := w.ask(c, "POST", "/files/none", nil); a.status != http.StatusOK ||
			a.body != "POST /files/none name=me" {
			return fmt.Errorf("a file that is not there: %+v", a)
		}
	}
	return w.used("site", address, 3)
}

// dead holds that what the proxy was told to do without a node happens: with nodes that hang, and with nodes that are
// gone.
func dead(w *world) {
	for _, how := range []struct {
		name string
		do   func(node int) error
	}{{"hang", w.nodes.Pause}, {"gone", w.nodes.Kill}} {
		for i := range w.nodes.Len() {
			if w.nodes.Running(i) {
				if err := how.do(i); err != nil {
					w.Fatal(err)
				}
			}
		}
		c := w.from("127.0.1.3")
		if a := w.ask(c, "POST", "/login", nil); a.status < 500 {
			w.Errorf("%s: a login: %+v", how.name, a)
		} else if a.header.Get("Content-Type") == "application/problem+json" && !json.Valid([]byte(a.body)) {
			w.Errorf("%s: a login gets no problem document: %+v", how.name, a)
		}
		a := w.ask(c, "GET", "/page", nil)
		if pass := a.status == http.StatusOK && a.body == "GET /page "; pass != w.opens {
			w.Errorf("%s: a page: %+v", how.name, a)
		}
	}
}
