package stintcaddy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	_ "github.com/stint-io/stint/client/stintcaddy"
	"github.com/stint-io/stint/stinttest"
)

const policies = `
policies:
  site:
    headers: [ietf]
    limits: [{name: hour, quota: 100, fixed_window: {period: 1h}}]
  login:
    reason: Too many attempts.
    limits: [{name: hour, quota: 3, fixed_window: {period: 1h}}]
  few:
    max_keys: 1
    limits: [{name: ever, quota: 100, lifetime: {}}]
`

// adapted returns the JSON of a Caddyfile.
func adapted(text string) ([]byte, error) {
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), nil)
	return config, err
}

// site returns a free address, and a Caddyfile of a site there with these lines.
func site(t *testing.T, lines string) (address, caddyfile string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	_ = l.Close()
	return address, fmt.Sprintf("{\nadmin off\nauto_https off\npersist_config off\nservers {\n"+
		"trusted_proxies static 127.0.0.1/32\n}\n"+
		"log {\noutput discard\n}\n}\nhttp://%s {\n%s\nrespond passed\n}\n", address, lines)
}

// serve runs a Caddy with a site of these lines until the test ends, and returns its base URL. A process has one Caddy.
func serve(t *testing.T, lines string) string {
	t.Helper()
	address, text := site(t, lines)
	config, err := adapted(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(config, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	return "http://" + address
}

// stint returns the lines of a directive.
func stint(address string, lines string) string {
	return fmt.Sprintf("stint {\naddress %s\n%s\n}\n", address, lines)
}

// answer is a response with its body.
type answer struct {
	*http.Response
	body string
}

func get(t *testing.T, url string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response, string(body)}
}

// run builds the program caddy and runs it, with a site of these lines, until the test ends. It returns its base URL.
func run(t *testing.T, lines string) string {
	t.Helper()
	dir := t.TempDir()
	address, text := site(t, lines)
	if err := os.WriteFile(filepath.Join(dir, "Caddyfile"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "caddy"), "./caddy")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program := exec.Command(filepath.Join(dir, "caddy"), "run", "--config", filepath.Join(dir, "Caddyfile"))
	program.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- program.Wait() }()
	t.Cleanup(func() {
		_ = program.Process.Kill()
		<-ended
	})
	for {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			_ = connection.Close()
			return "http://" + address
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("caddy ended: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestExactlyTheLimitPasses(t *testing.T) {
	s := stinttest.Start(t, policies)
	url := run(t, stint(s.URL, "fail closed\nlimit site {client_ip}"))
	var passed atomic.Int32
	var group sync.WaitGroup
	for range 64 {
		group.Go(func() {
			for range 5 {
				if get(t, url, "X-Forwarded-For", "203.0.113.7").StatusCode == http.StatusOK {
					passed.Add(1)
				}
			}
		})
	}
	group.Wait()
	if passed.Load() != 100 {
		t.Errorf("%d of 320 requests passed, want 100", passed.Load())
	}
	denied := get(t, url, "X-Forwarded-For", "203.0.113.7")
	if denied.StatusCode != http.StatusTooManyRequests || denied.Header.Get("Retry-After") == "" ||
		denied.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("denied: %d %v %s", denied.StatusCode, denied.Header, denied.body)
	}
	other := get(t, url, "X-Forwarded-For", "203.0.113.8")
	if other.body != "passed" || !strings.HasPrefix(other.Header.Get("RateLimit"), `"hour";r=99`) {
		t.Errorf("another client: %d %v %s", other.StatusCode, other.Header, other.body)
	}
	if used := usedBy(t, s, "site", "ip:203.0.113.7"); used != 100 {
		t.Errorf("the key ip:203.0.113.7 has used %d, want 100", used)
	}
}

func usedBy(t *testing.T, s *stinttest.Server, policy, key string) uint64 {
	t.Helper()
	answer, err := s.Client().Get(t.Context(),
		&stintv1.GetRequest{Entries: []*stintv1.Entry{{Policy: policy, Key: key}}})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Limits[0].Used
}

func TestPartsAreOneDecisionAndEscaped(t *testing.T) {
	s := stinttest.Start(t, policies)
	url := serve(t, stint(s.URL, "fail open\nlimit site {client_ip}\n"+
		"limit login account={header.X-User} address={client_ip}"))
	for i := range 5 {
		want := http.StatusOK
		if i >= 3 {
			want = http.StatusTooManyRequests
		}
		a := get(t, url, "X-User", "a/{nn}|x=y", "X-Forwarded-For", "2001:db8:1:2::7")
		if a.StatusCode != want ||
			(a.StatusCode == http.StatusTooManyRequests) != strings.Contains(a.body, "Too many attempts.") {
			t.Errorf("request %d: %d %s", i, a.StatusCode, a.body)
		}
	}
	if used := usedBy(t, s, "login", "account=a%2F%7Bnn%7D%7Cx%3Dy|address=ip:2001:db8:1:2::"); used != 3 {
		t.Errorf("the key of parts has used %d, want 3", used)
	}
	if used := usedBy(t, s, "site", "ip:2001:db8:1:2::"); used != 3 {
		t.Errorf("a denied request took units of another policy: %d, want 3", used)
	}
	if a := get(t, url); a.StatusCode != http.StatusBadRequest {
		t.Errorf("without X-User: %d, want 400, also with fail open", a.StatusCode)
	}
	url = serve(t, stint(s.URL, "fail open\nlimit site user:{header.X-User}"))
	if with, without := get(t, url, "X-User", "ann"), get(t, url); with.StatusCode != http.StatusOK ||
		without.StatusCode != http.StatusBadRequest {
		t.Errorf("with X-User %d, without %d: all without it would share the key user:",
			with.StatusCode, without.StatusCode)
	}
}

func TestWithoutADecision(t *testing.T) {
	refusing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + refusing.Addr().String()
	_ = refusing.Close()
	t.Run("closed", func(t *testing.T) {
		a := get(t, serve(t, stint(nobody, "timeout 50ms\nfail closed\nlimit site {client_ip}")))
		if a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") != "1" {
			t.Errorf("%d %v", a.StatusCode, a.Header)
		}
	})
	t.Run("open", func(t *testing.T) {
		a := get(t, serve(t, stint(nobody, "timeout 50ms\nfail open\nlimit site {client_ip}")))
		if a.body != "passed" || a.Header.Get("Stint-Failed") != "open" {
			t.Errorf("%d %v %s", a.StatusCode, a.Header, a.body)
		}
	})
	s := stinttest.Start(t, policies)
	t.Run("no room", func(t *testing.T) {
		url := serve(t, stint(s.URL, "fail open\nlimit few {header.X-User}"))
		first, second := get(t, url, "X-User", "ann"), get(t, url, "X-User", "bob")
		if first.StatusCode != http.StatusOK || second.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%d and %d, want 200 and 503", first.StatusCode, second.StatusCode)
		}
	})
	t.Run("a mistake", func(t *testing.T) {
		if a := get(t, serve(t, stint(s.URL, "fail open\nlimit missing {client_ip}"))); a.StatusCode !=
			http.StatusInternalServerError {
			t.Errorf("%d, want 500: a mistake never passes", a.StatusCode)
		}
	})
}

// The client of a configuration ends with it.
func TestAReload(t *testing.T) {
	s := stinttest.Start(t, policies)
	for range 3 {
		if a := get(t, serve(t, stint(s.URL, "fail closed\nlimit login {client_ip}"))); a.StatusCode != http.StatusOK {
			t.Errorf("%d %s", a.StatusCode, a.body)
		}
	}
	if a := get(t, serve(t, stint(s.URL, "fail closed\nlimit login {client_ip}"))); a.StatusCode !=
		http.StatusTooManyRequests {
		t.Errorf("%d, want 429: a reload forgets no count", a.StatusCode)
	}
}

func TestMistakesInAConfiguration(t *testing.T) {
	for _, c := range []struct{ lines, says string }{
		{"stint x {\n}", "argument"},
		{"stint {\nother x\n}", "no option other"},
		{"stint {\nfail open closed\n}", "argument"},
		{"stint {\naddress\n}", "argument"},
		{"stint {\ntimeout soon\n}", "timeout"},
		{"stint {\nlimit login {header.A} {header.B}\n}", "name=value"},
		{stint("http://127.0.0.1:7400", "fail closed"), "no limit"},
		{stint("http://127.0.0.1:7400", "limit login {client_ip}"), "fail is"},
		{stint("http://127.0.0.1:7400", "fail maybe\nlimit login {client_ip}"), "fail is"},
		{stint("http://127.0.0.1:7400", "fail open\nlimit login"), "no key"},
		{stint("http://127.0.0.1:7400", "fail open\nlimit login {header.A}:{header.B}"), "two placeholders"},
		{stint("http://127.0.0.1:7400", "fail open\nlimit login a={header.A} a={header.B}"), "two parts"},
		{stint("http://127.0.0.1:7400", "fail open\nlimit login a= b={header.B}"), "no key"},
		{stint("localhost", "fail open\nlimit login {client_ip}"), "no base URL"},
		{stint("http://192.0.2.1:7400", "token stint_x_y\nfail open\nlimit login {client_ip}"), "in the clear"},
		{stint("http://127.0.0.1:7400", "token {env.STINT_CADDY_NOT_SET}\nfail open\nlimit login {client_ip}"),
			"token"},
	} {
		config, err := adapted("{\nadmin off\n}\nhttp://127.0.0.1:1 {\n" + c.lines + "\n}\n")
		if err == nil {
			_, err = validated(config)
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s\n%v, want an error that says %q", c.lines, err, c.says)
		}
	}
}

// validated provisions a configuration, and runs nothing.
func validated(config []byte) (*caddy.Config, error) {
	c := new(caddy.Config)
	if err := json.Unmarshal(config, c); err != nil {
		return nil, err
	}
	return c, caddy.Validate(c)
}

func TestThePageIsTrue(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("STINT_TOKEN", "stint_x_y")
	t.Setenv("HOME", t.TempDir())
	blocks := regexp.MustCompile("(?s)```caddyfile\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	for _, block := range blocks {
		config, err := adapted(block[1])
		if err == nil {
			_, err = validated(config)
		}
		if err != nil {
			t.Errorf("%s\n%v", block[1], err)
		}
	}
	if len(blocks) != 2 {
		t.Errorf("the page has %d Caddyfiles, want 2", len(blocks))
	}
}
