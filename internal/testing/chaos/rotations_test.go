//go:build chaos

package chaos

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/testcert"
	"github.com/stint-io/stint/internal/testing/testcluster"
)

const rotationPolicies = `policies:
  free:
    limits:
      - {name: free, quota: 1000000000, lifetime: {}}
`

// identity is a client that proves itself in one way, until it is replaced by one that has the new secret.
type identity struct {
	token string // "": the certificate of a role
	http  *http.Client
}

func identified(token string, config *tls.Config) *identity {
	return &identity{token, &http.Client{Timeout: 10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: config, MaxIdleConnsPerHost: 64}}}
}

// steadyLoad sends requests at a fixed rate, whether or not they are answered, each once: a request that is not
// answered as it should be has failed. Every other one is a check; the rest reserve, and settle what was reserved a
// while ago.
type steadyLoad struct {
	addresses []string
	web, role atomic.Pointer[identity]
	sent      atomic.Int64
	failed    atomic.Int64

	mu    sync.Mutex
	wrong []string   // of the first failures
	held  []heldUnit // by when they were answered
}

type heldUnit struct {
	id string
	at time.Time
}

const rotationRate = 500 // requests per second

// run sends until ctx ends, and waits for the answers.
func (l *steadyLoad) run(ctx context.Context) {
	tick := time.NewTicker(time.Second / rotationRate * 5)
	defer tick.Stop()
	var asked sync.WaitGroup
	defer asked.Wait()
	began, due := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for ; due < int(time.Since(began).Seconds()*rotationRate); due++ {
			n := due
			asked.Go(func() { l.one(n) })
		}
	}
}

func (l *steadyLoad) one(n int) {
	as := l.web.Load()
	if n%3 == 0 {
		as = l.role.Load()
	}
	address := l.addresses[n/2%len(l.addresses)]
	check := fmt.Sprintf(`{"entries":[{"policy":"free","key":"key-%d"}]}`, n%97)
	switch {
	case n%2 == 0:
		l.ask(as, address, "Check", check)
	case n%4 == 1:
		if id := l.ask(as, address, "Reserve", `{"check":`+check+`,"ttl":"3600s"}`); id != "" {
			l.mu.Lock()
			l.held = append(l.held, heldUnit{id, time.Now()})
			l.mu.Unlock()
		}
	default:
		if id := l.oldest(time.Second); id != "" {
			l.ask(as, address, "Settle", `{"holdId":"`+id+`","cancel":{}}`)
		}
	}
}

// oldest takes the hold that is open for longest, if it is for so long.
func (l *steadyLoad) oldest(than time.Duration) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) == 0 || time.Since(l.held[0].at) < than {
		return ""
	}
	id := l.held[0].id
	l.held = l.held[1:]
	return id
}

// oldestAt returns since when the oldest open hold is open.
func (l *steadyLoad) oldestAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) == 0 {
		return time.Now()
	}
	return l.held[0].at
}

// ask sends one request, and returns the id of the hold that it made.
func (l *steadyLoad) ask(as *identity, address, call, body string) (hold string) {
	l.sent.Add(1)
	code, answer, err := as.post(address, "LimitService/"+call, body)
	var reply struct {
		Decision struct {
			Allowed bool
			HoldID  string `json:"holdId"`
		}
	}
	if err == nil {
		err = json.Unmarshal(answer, &reply)
	}
	if err != nil || code != http.StatusOK || !reply.Decision.Allowed && call != "Settle" ||
		call == "Reserve" && reply.Decision.HoldID == "" {
		l.failed.Add(1)
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.wrong) < 10 {
			l.wrong = append(l.wrong, fmt.Sprintf("%s at %s: %d %s %v", call, address, code, answer, err))
		}
		return ""
	}
	return reply.Decision.HoldID
}

func (i *identity) post(address, call, body string) (code int, answer []byte, err error) {
	request, err := http.NewRequest(http.MethodPost, "https://"+address+"/stint.v1."+call, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if i.token != "" {
		request.Header.Set("Authorization", "Bearer "+i.token)
	}
	response, err := i.http.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// rotations is a cluster with every kind of secret, and the files that have them.
type rotations struct {
	t       *testing.T
	c       *testcluster.Cluster
	dir     string
	load    *steadyLoad
	servers *testcert.Authority // of the nodes' certificates for clients
	roles   *testcert.Authority // of the roles' certificates
}

func (r *rotations) file(name string) string { return filepath.Join(r.dir, name) }

// put replaces a file that nodes or clients read, at once.
func (r *rotations) put(name string, parts ...[]byte) {
	r.t.Helper()
	if err := os.WriteFile(r.file(name)+".new", bytes.Join(parts, []byte("\n")), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(r.file(name)+".new", r.file(name)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rotations) read(name string) []byte {
	r.t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		r.t.Fatal(err)
	}
	return text
}

// issueServer writes a certificate for all nodes, in the place of the former one.
func (r *rotations) issueServer() {
	r.t.Helper()
	files := r.servers.Write(r.t.TempDir(), func(c *x509.Certificate) {
		c.IPAddresses = nil
		for _, address := range r.c.Addrs() {
			host, _, _ := net.SplitHostPort(address)
			c.IPAddresses = append(c.IPAddresses, net.ParseIP(host))
		}
	})
	r.put("api.crt", r.read(files.Cert))
	r.put("api.key", r.read(files.Key))
}

// role returns a client that is the role load, by a new certificate, and trusts the authorities in a file.
func (r *rotations) role() *identity {
	config := r.roles.Client(testcert.URIs("stint://role/load"))
	config.RootCAs = r.trusted().RootCAs
	return identified("", config)
}

func (r *rotations) trusted() *tls.Config {
	r.t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(r.read(r.file("ca.crt"))) {
		r.t.Fatal("no authority")
	}
	return &tls.Config{RootCAs: pool}
}

// stint runs a command as the administrator.
func (r *rotations) stint(arguments ...string) string {
	r.t.Helper()
	out, err := r.tryStint(arguments...)
	if err != nil {
		r.t.Fatalf("stint %v: %v\n%s", arguments, err, out)
	}
	return out
}

func (r *rotations) tryStint(arguments ...string) (string, error) {
	arguments = append(arguments, "--addr", r.c.Addr(1), "--ca", r.file("ca.crt"), "--token-file",
		r.file("admin.token"))
	command := exec.CommandContext(within(r.t, time.Minute), program(r.t), arguments...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), err
}

// under does one rotation, and has the load run for a while before and after it.
func (r *rotations) under(name string, rotate func()) {
	r.t.Helper()
	began, sent, failed := time.Now(), r.load.sent.Load(), r.load.failed.Load()
	pause(context.Background(), time.Second)
	rotate()
	pause(context.Background(), time.Second)
	took := time.Since(began)
	sent, failed = r.load.sent.Load()-sent, r.load.failed.Load()-failed
	r.t.Logf("%-34s %6d requests, %d failed, in %v: %.0f/s", name, sent, failed, took.Round(100*time.Millisecond),
		float64(sent)/took.Seconds())
	if failed != 0 {
		r.load.mu.Lock()
		defer r.load.mu.Unlock()
		r.t.Errorf("%s: %d requests failed: %q", name, failed, r.load.wrong)
	}
}

// newRotations starts three nodes with all that can be rotated.
func newRotations(t *testing.T) *rotations {
	r := &rotations{t: t, dir: t.TempDir(), servers: testcert.New(t), roles: testcert.New(t)}
	r.c = newStoppedCluster(t, testcluster.Options{Nodes: 3, Policies: rotationPolicies, Direct: true,
		TLS: &tls.Config{InsecureSkipVerify: true},
		Args: []string{"--api-cert", r.file("api.crt"), "--api-key", r.file("api.key"),
			"--api-client-ca", r.file("roles.crt"), "--admin-token-file", r.file("admin.token")}})
	r.issueServer()
	r.put("ca.crt", r.read(r.servers.Write(t.TempDir()).CA))
	r.put("roles.crt", r.read(r.roles.Write(t.TempDir()).CA))
	r.put("admin.token", []byte(said(t, "token", "generate")))
	for i := range r.c.Len() {
		if err := r.c.Restart(i); err != nil {
			t.Fatal(err)
		}
	}
	ready(t, r.c)
	r.load = &steadyLoad{addresses: r.c.Addrs()}
	await.Until(t, "the first token", func() bool { _, err := r.tryStint("token", "list"); return err == nil })
	grant := "policy=free ops=check,settle"
	r.load.web.Store(identified(r.stint("token", "create", "web", "--expires", "1h", "--grant", grant), r.trusted()))
	r.stint("token", "create", "load", "--role", "--expires", "never", "--grant", grant)
	r.load.role.Store(r.role())
	r.awaitAccepted(r.load.web.Load())
	r.awaitAccepted(r.load.role.Load())
	return r
}

// awaitAccepted waits until every node knows a client: they hear of new tokens and authorities within a second.
func (r *rotations) awaitAccepted(who *identity) {
	r.t.Helper()
	for _, address := range r.c.Addrs() {
		await.Until(r.t, address+" accepts it", func() bool {
			code, _, err := who.post(address, "LimitService/Check", `{"entries":[{"policy":"free","key":"new"}]}`)
			if err != nil || code != http.StatusOK {
				who.http.CloseIdleConnections() // a connection keeps what its handshake proved
				return false
			}
			return true
		})
	}
}

// TestEverySecretIsRotatedUnderLoad: every secret of a cluster is replaced while clients count, hold and settle; none
// repeats a request. No request fails, and every hold that was ever given out is settled.
func TestEverySecretIsRotatedUnderLoad(t *testing.T) {
	r := newRotations(t)
	ctx, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.load.run(ctx) })
	defer running.Wait()
	defer end()

	r.under("cluster key", r.rotateClusterKey)
	r.under("certificate of the API", func() { r.issueServer(); r.awaitServer() })
	r.under("authority of the API", r.rotateServers)
	r.under("certificate of a role", func() { r.load.role.Store(r.role()) })
	r.under("authority of roles", r.rotateRoles)
	r.under("token", r.rotateToken)
	r.under("token of the administrator", func() {
		r.put("admin.token", []byte(r.stint("token", "rotate", "admin", "--overlap", "1m")))
		await.Until(t, "the new one administers", func() bool {
			_, err := r.tryStint("token", "list")
			return err == nil
		})
	})
	var first string
	r.under("sealing secret", func() {
		first = r.reserve()
		r.stint("cluster", "secret", "rotate")
		r.stint("cluster", "secret", "rotate")
	})
	r.under("sealing secrets dropped", func() {
		rotated := time.Now()
		await.Until(t, "all older holds are settled", func() bool {
			return r.load.oldestAt().After(rotated.Add(2 * time.Second))
		})
		r.stint("cluster", "secret", "drop-old")
	})
	await.Until(t, "the dropped secret is gone everywhere", func() bool {
		for _, address := range r.c.Addrs() {
			code, answer, err := r.load.web.Load().post(address, "LimitService/Settle",
				`{"holdId":"`+first+`","cancel":{}}`)
			if err != nil || code != http.StatusBadRequest || !bytes.Contains(answer, []byte("has dropped")) {
				return false
			}
		}
		return true
	})
	end()
	running.Wait()
	for id := r.load.oldest(0); id != ""; id = r.load.oldest(0) {
		r.load.ask(r.load.role.Load(), r.c.Addr(0), "Settle", `{"holdId":"`+id+`","cancel":{}}`)
	}
	t.Logf("%d requests, %d failed", r.load.sent.Load(), r.load.failed.Load())
	if r.load.failed.Load() != 0 {
		t.Errorf("%q", r.load.wrong)
	}
	if surprises := r.c.Surprises(); len(surprises) > 0 {
		t.Error(surprises)
	}
}

// reserve makes a hold that is not settled before its secret is dropped.
func (r *rotations) reserve() string {
	r.t.Helper()
	id := r.load.ask(r.load.web.Load(), r.c.Addr(0), "Reserve",
		`{"check":{"entries":[{"policy":"free","key":"left"}]},"ttl":"3600s"}`)
	if id == "" {
		r.t.Fatalf("no hold: %q", r.load.wrong)
	}
	return id
}

// rotateClusterKey takes the three steps: add, move up, remove. The next one is safe when status says so.
func (r *rotations) rotateClusterKey() {
	old := bytes.TrimSpace(r.read(r.c.KeyFile()))
	secret := make([]byte, 32)
	rand.Read(secret)
	fresh := []byte(hex.EncodeToString(secret))
	for _, lines := range [][][]byte{{old, fresh}, {fresh, old}, {fresh}} {
		name := r.c.KeyFile() + ".new"
		if err := os.WriteFile(name, bytes.Join(lines, []byte("\n")), 0o600); err != nil {
			r.t.Fatal(err)
		}
		if err := os.Rename(name, r.c.KeyFile()); err != nil {
			r.t.Fatal(err)
		}
		missing := rotated(r.c.Len(), keyNames(r.t, lines...))
		await.Until(r.t, "the step is in force at all nodes", func() bool {
			var s status
			text, err := r.tryStint("status", "-o", "json")
			return err == nil && json.Unmarshal([]byte(text), &s) == nil && missing(s) == ""
		})
	}
}

// awaitServer waits until every node shows a certificate of the newest file.
func (r *rotations) awaitServer() {
	want, err := tls.LoadX509KeyPair(r.file("api.crt"), r.file("api.key"))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, address := range r.c.Addrs() {
		await.Until(r.t, address+" shows the new certificate", func() bool {
			conn, err := tls.Dial("tcp", address, r.trusted())
			if err != nil {
				return false
			}
			defer conn.Close()
			return bytes.Equal(conn.ConnectionState().PeerCertificates[0].Raw, want.Certificate[0])
		})
	}
	r.renewClients()
}

// renewClients has the load connect anew, as it trusts now.
func (r *rotations) renewClients() {
	r.load.web.Store(identified(r.load.web.Load().token, r.trusted()))
	r.load.role.Store(r.role())
}

// rotateServers replaces the authority that clients trust: both, then another certificate, then the new one alone.
func (r *rotations) rotateServers() {
	old := r.read(r.file("ca.crt"))
	r.servers = testcert.New(r.t)
	fresh := r.read(r.servers.Write(r.t.TempDir()).CA)
	r.put("ca.crt", old, fresh)
	r.renewClients()
	r.issueServer()
	r.awaitServer()
	r.put("ca.crt", fresh)
	r.renewClients()
}

// rotateRoles replaces the authority that nodes trust: both, then another certificate, then the new one alone.
func (r *rotations) rotateRoles() {
	old := r.read(r.file("roles.crt"))
	r.roles = testcert.New(r.t)
	fresh := r.read(r.roles.Write(r.t.TempDir()).CA)
	r.put("roles.crt", old, fresh)
	next := r.role()
	r.awaitAccepted(next)
	former := r.load.role.Swap(next)
	former.http.CloseIdleConnections()
	r.put("roles.crt", fresh)
}

// rotateToken replaces the token; clients take the new one while the former one is accepted, and then that is none any
// more.
func (r *rotations) rotateToken() {
	former := r.load.web.Load()
	next := identified(r.stint("token", "rotate", "web", "--overlap", "1m"), r.trusted())
	r.awaitAccepted(next)
	r.load.web.Store(next)
	if code, answer, err := former.post(r.c.Addr(0), "LimitService/Check",
		`{"entries":[{"policy":"free","key":"new"}]}`); code != http.StatusOK {
		r.t.Errorf("the former token, within the overlap: %d %s %v", code, answer, err)
	}
}
