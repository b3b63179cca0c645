//go:build docker

package chaos

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/offline/verify"
	"github.com/stint-io/stint/internal/testing/await"
)

const hostsPolicies = `policies:
  few:
    limits:
      - {name: few, quota: 100, lifetime: {}}
  stock:
    limits:
      - {name: stock, quota: 1000, lifetime: {}}
`

// imageUser is the user that the image runs as.
const imageUser = 10001

// TestProductionHosts makes the files of three hosts as an operator does, with deploy/hosts.sh, and runs all of them
// unchanged on one engine: each host is an address of this machine. Clients keep to the address, the authority and the
// token that they were given.
func TestProductionHosts(t *testing.T) {
	h := newHosts(t)
	for i := range h.addresses {
		h.compose(i, "up", "-d")
	}
	h.awaitHealthy()
	h.isLockedUp()
	h.servesNoStranger()
	h.stint("apply", "-f", h.file("policies.yaml", hostsPolicies))
	h.admitsExactly("few", 100)

	h.count(true, func() {
		h.compose(0, "kill", "-s", "SIGKILL", "stint")
		h.compose(0, "up", "-d")
		h.awaitHealthy()
	})
	h.count(false, func() {
		for i := range h.addresses {
			h.compose(i, "restart")
			h.awaitHealthy()
		}
	})
	h.count(false, h.rotatesEverySecret)
	h.writesBackup()
	h.endsToken()
	for i := range h.addresses {
		h.compose(i, "stop")
		if code := h.inspect(i, "{{.State.ExitCode}}"); code != "0" {
			t.Errorf("host %d ended with %s after a stop", i+1, code)
		}
	}
	h.saysNoSecret()
}

// hosts are the hosts of a production cluster on one engine.
type hosts struct {
	t         *testing.T
	dir       string // what deploy/hosts.sh has made
	addresses []string
	project   string   // prefix of the names of all that the engine is asked to make
	env       []string // of stint and of the engine's tools
	command   []string // Compose
	secure    *tls.Config
	secrets   []string // all tokens
	spent     atomic.Int64
}

func newHosts(t *testing.T) *hosts {
	t.Helper()
	dir := t.TempDir()
	h := &hosts{t: t, dir: filepath.Join(dir, "hosts"),
		project: "stint-hosts-" + strings.ToLower(filepath.Base(filepath.Dir(dir))), command: composeCommand(t)}
	h.env = append(os.Environ(), "PATH="+filepath.Dir(program(t))+":"+os.Getenv("PATH"))
	arguments := []string{h.dir}
	for i := range 3 {
		arguments = append(arguments, fmt.Sprintf("stint%d=%s", i+1, h.address(i)))
	}
	h.must(exec.Command("../../../deploy/hosts.sh", arguments...))
	for i := range h.addresses {
		h.must(exec.Command("chown", "-R", fmt.Sprintf("%d:%[1]d", imageUser), h.secret(i, "")))
		t.Cleanup(func() { h.compose(i, "down", "-v") })
	}
	h.secure = &tls.Config{RootCAs: x509.NewCertPool()}
	h.secure.RootCAs.AppendCertsFromPEM([]byte(h.text("ca.crt")))
	settings, err := os.ReadFile(filepath.Join(h.dir, "client.env"))
	if err != nil {
		t.Fatal(err)
	}
	h.env = append(h.env, strings.Split(strings.TrimSpace(string(settings)), "\n")...)
	h.secrets = append(h.secrets, h.text("admin.token"))
	return h
}

// address gives this machine an address that is not on loopback: that of an empty network.
func (h *hosts) address(i int) string {
	h.t.Helper()
	name := fmt.Sprintf("%s-%d", h.project, i+1)
	h.must(exec.Command("docker", "network", "create", name))
	h.t.Cleanup(func() { h.must(exec.Command("docker", "network", "rm", name)) })
	address := h.must(exec.Command("docker", "network", "inspect", "-f", "{{(index .IPAM.Config 0).Gateway}}", name))
	h.addresses = append(h.addresses, address)
	return address
}

func (h *hosts) must(command *exec.Cmd) string {
	h.t.Helper()
	if command.Env == nil {
		command.Env = h.env
	}
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		h.t.Fatalf("%v: %v\n%s%s", command.Args, err, out, &stderr)
	}
	return strings.TrimSpace(string(out))
}

// stint runs a command of the binary as an administrator.
func (h *hosts) stint(arguments ...string) string {
	h.t.Helper()
	return h.must(exec.Command(program(h.t), arguments...))
}

// compose runs Compose where a host would: in its own directory.
func (h *hosts) compose(i int, arguments ...string) {
	h.t.Helper()
	command := exec.Command(h.command[0], append(h.command[1:len(h.command):len(h.command)], arguments...)...)
	command.Dir = filepath.Join(h.dir, fmt.Sprintf("stint%d", i+1))
	command.Env = append(slices.DeleteFunc(slices.Clone(h.env), func(v string) bool {
		return strings.HasPrefix(v, "STINT_")
	}),
		fmt.Sprintf("COMPOSE_PROJECT_NAME=%s-%d", h.project, i+1))
	h.must(command)
}

func (h *hosts) container(i int) string {
	return h.must(exec.Command("docker", "ps", "-aq", "--filter",
		fmt.Sprintf("label=com.docker.compose.project=%s-%d", h.project, i+1)))
}

func (h *hosts) inspect(i int, format string) string {
	h.t.Helper()
	return h.must(exec.Command("docker", "inspect", "-f", format, h.container(i)))
}

func (h *hosts) secret(i int, name string) string {
	return filepath.Join(h.dir, fmt.Sprintf("stint%d", i+1), "secrets", name)
}

func (h *hosts) text(name string) string {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(h.dir, name))
	if err != nil {
		h.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func (h *hosts) file(name, text string) string {
	h.t.Helper()
	name = filepath.Join(h.dir, name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return name
}

// awaitHealthy waits for the engine's health checks, which speak TLS.
func (h *hosts) awaitHealthy() {
	h.t.Helper()
	for i := range h.addresses {
		await.Until(h.t, fmt.Sprintf("host %d is healthy", i+1), func() bool {
			return h.inspect(i, "{{.State.Health.Status}}") == "healthy"
		}, hostLogs{h})
	}
}

// hostLogs says what the containers said last.
type hostLogs struct{ *hosts }

// String implements fmt.Stringer.
func (l hostLogs) String() (text string) {
	for i := range l.addresses {
		// shows what there is
		said, _ := exec.Command("docker", "logs", "--tail", "50", l.container(i)).CombinedOutput()
		text += string(said)
	}
	return text
}

// isLockedUp looks at what the processes really have, not at what the file asks for.
func (h *hosts) isLockedUp() {
	h.t.Helper()
	const memory = 2 << 30
	for i := range h.addresses {
		if got, want := h.inspect(i, "{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.Memory}} "+
			"{{.HostConfig.MemorySwap}}"),
			fmt.Sprintf("true %d %d", memory, memory); got != want {
			h.t.Errorf("host %d: root read-only, memory, swap: %s, want %s", i+1, got, want)
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%s/status", h.inspect(i, "{{.State.Pid}}")))
		if err != nil {
			h.t.Fatal(err)
		}
		for _, line := range []string{"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1",
			fmt.Sprintf("Uid:\t%d", imageUser)} {
			if !bytes.Contains(status, []byte("\n"+line)) {
				h.t.Errorf("host %d: its process has no %q:\n%s", i+1, line, status)
			}
		}
	}
}

// servesNoStranger: without the token there is no answer but health, and without TLS none at all.
func (h *hosts) servesNoStranger() {
	h.t.Helper()
	client := h.client("")
	for i, address := range h.addresses {
		for path, want := range map[string]int{"/stint.v1.LimitService/Check": http.StatusUnauthorized,
			"/metrics": http.StatusUnauthorized, "/stint.v1.ClusterService/Status": http.StatusUnauthorized,
			"/healthz": http.StatusOK} {
			method, body := http.MethodPost, `{"entries":[{"policy":"few","key":"k"}]}`
			if !strings.HasPrefix(path, "/stint.") {
				method, body = http.MethodGet, ""
			}
			for scheme, want := range map[string]int{"https": want, "http": http.StatusBadRequest} {
				request, err := http.NewRequest(method, scheme+"://"+address+":7400"+path, strings.NewReader(body))
				if err != nil {
					h.t.Fatal(err)
				}
				request.Header.Set("Content-Type", "application/json")
				response, err := client.Do(request)
				if err != nil {
					h.t.Fatalf("host %d, %s: %v", i+1, path, err)
				}
				response.Body.Close()
				if response.StatusCode != want {
					h.t.Errorf("host %d answers %s over %s with %d, want %d",
						i+1, path, scheme, response.StatusCode, want)
				}
			}
		}
	}
}

// client sends a token, if it is not "", over TLS.
func (h *hosts) client(token string) *http.Client {
	return &http.Client{Timeout: 10 * time.Second,
		Transport: bearer{token, &http.Transport{TLSClientConfig: h.secure.Clone()}}}
}

type bearer struct {
	token string
	next  *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.next.RoundTrip(r)
}

// check asks one host once. Its code is Connect's; "": there is a decision.
func (h *hosts) check(client *http.Client, host int, policy, key, id string) (allowed bool, code string, err error) {
	body := fmt.Sprintf(`{"entries":[{"policy":%q,"key":%q}],"idempotencyId":%q}`, policy, key, id)
	response, err := client.Post("https://"+h.addresses[host]+":7400/stint.v1.LimitService/Check", "application/json",
		strings.NewReader(body))
	if err != nil {
		return false, "", err
	}
	defer response.Body.Close()
	var reply struct {
		Decision struct{ Allowed bool }
		Code     string
	}
	err = json.NewDecoder(response.Body).Decode(&reply)
	return reply.Decision.Allowed, reply.Code, err
}

// admitsExactly sends half as many requests more than the limit allows, through all hosts at once.
func (h *hosts) admitsExactly(policy string, quota int) {
	h.t.Helper()
	client := h.client(h.secrets[0])
	var admitted atomic.Int64
	var group sync.WaitGroup
	for worker := range 6 {
		group.Go(func() {
			for n := range quota / 4 {
				allowed, code, err := h.check(client, worker%len(h.addresses), policy, "k",
					fmt.Sprintf("%d-%d", worker, n))
				if err != nil || code != "" {
					h.t.Errorf("host %d: %s, %v", worker%len(h.addresses)+1, code, err)
				}
				if allowed {
					admitted.Add(1)
				}
			}
		})
	}
	group.Wait()
	if admitted.Load() != int64(quota) {
		h.t.Errorf("%d admitted, want %d", admitted.Load(), quota)
	}
}

// count has clients count through all hosts meanwhile, and judges their answers. Without faults no request may fail.
func (h *hosts) count(faults bool, meanwhile func()) {
	h.t.Helper()
	plan := verify.Plan{Token: h.secrets[0], TLS: h.secure, Targets: []verify.Target{{Policy: "stock", Quota: 1000}},
		Rate: 500, Workers: 64, Seed: uint64(h.spent.Add(1))}
	for _, address := range h.addresses {
		plan.Addresses = append(plan.Addresses, "https://"+address+":7400")
	}
	if faults {
		plan.IDs = 100
	}
	result, err := verify.Run(h.t.Context(), plan, func(context.Context) error { meanwhile(); return nil })
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Logf("faults: %v; %d operations in %.1f s, the slowest in %d ms; %d admitted, %d missed",
		faults, result.Operations, result.Seconds, result.Latency.Worst/1000, result.AdmittedAll, result.Missed)
	if !result.Exact || result.Operations < 100 {
		h.t.Errorf("not exact, or too little: %+v", result)
	}
	if !faults && result.Missed+result.Unknown > 0 {
		h.t.Errorf("%d of %d operations failed: %v\n%s", result.Missed+result.Unknown, result.Operations,
			describe(result), hostLogs{h})
	}
}

// rotatesEverySecret replaces the certificates, the token and the cluster key. Nothing is restarted.
func (h *hosts) rotatesEverySecret() {
	h.t.Helper()
	for i := range h.addresses {
		h.renewsCertificate(i)
	}
	// The old secret ends in an hour, and what it makes may live no longer: the administrator goes on with the new one.
	token := h.stint("token", "rotate", "admin", "--overlap", "1h")
	h.secrets = append(h.secrets, token)
	h.file("admin.token", token)
	old, fresh := h.text("cluster.key"), filepath.Join(h.dir, "fresh.key")
	h.stint("tool", "certs", "cluster-key", fresh)
	for _, lines := range []string{old + "\n" + h.text("fresh.key"), h.text("fresh.key") + "\n" + old,
		h.text("fresh.key")} {
		for i := range h.addresses {
			h.replace(i, "cluster.key", h.file("step.key", lines+"\n"))
		}
		want := keyNames(h.t, []byte(lines))
		await.Until(h.t, "the step is in force on all hosts", func() bool { return h.keyLinesAre(want) }, hostLogs{h})
	}
	if _, code, err := h.check(h.client(h.secrets[len(h.secrets)-1]), 0, "few", "k", ""); err != nil || code != "" {
		h.t.Errorf("the new token: %s, %v", code, err)
	}
}

// keyLinesAre reports whether every host has these lines of the cluster key in force, in this order.
func (h *hosts) keyLinesAre(want []string) bool {
	h.t.Helper()
	command := exec.Command(program(h.t), "status", "-o", "json")
	command.Env = h.env
	out, _ := command.Output() // not healthy while the lines differ
	var status struct{ Nodes []struct{ KeyLines []string } }
	if json.Unmarshal(out, &status) != nil || len(status.Nodes) != len(h.addresses) {
		return false
	}
	for _, n := range status.Nodes {
		if !slices.Equal(n.KeyLines, want) {
			return false
		}
	}
	return true
}

// replace puts a file into the place of a host's secret, in one step.
func (h *hosts) replace(i int, name, file string) {
	h.t.Helper()
	if err := errors.Join(os.Chown(file, imageUser, imageUser), os.Rename(file, h.secret(i, name))); err != nil {
		h.t.Fatal(err)
	}
}

// renewsCertificate puts a new certificate into the place of a host's old one. Nothing is restarted.
func (h *hosts) renewsCertificate(i int) {
	h.t.Helper()
	started, before := h.inspect(i, "{{.State.StartedAt}}"), h.serial(i)
	fresh := filepath.Join(h.dir, "fresh")
	h.stint("tool", "certs", "api", h.addresses[i], "--ca-cert", filepath.Join(h.dir, "ca.crt"), "--ca-key",
		filepath.Join(h.dir, "ca.key"), "--out", fresh)
	for _, name := range []string{"api.crt", "api.key"} {
		h.replace(i, name, filepath.Join(fresh, name))
	}
	await.Until(h.t, "the new certificate is in use", func() bool { return h.serial(i) != before }, hostLogs{h})
	if now := h.inspect(i, "{{.State.StartedAt}}"); now != started {
		h.t.Errorf("the container was restarted at %s", now)
	}
}

// serial is the number of the certificate that a host shows.
func (h *hosts) serial(i int) string {
	h.t.Helper()
	conn, err := tls.Dial("tcp", h.addresses[i]+":7400", h.secure)
	if err != nil {
		h.t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// writesBackup runs what the hosts' timer runs, with a token for nothing else.
func (h *hosts) writesBackup() {
	h.t.Helper()
	token := h.stint("token", "create", "backup", "--expires", "never", "--grant", "ops=observe,backup")
	h.secrets = append(h.secrets, token)
	backup := exec.Command(program(h.t), "backup", "--dir", filepath.Join(h.dir, "backups"), "--keep", "14d")
	backup.Env = append(slices.Clone(h.env), "STINT_TOKEN_FILE="+h.file("backup.token", token))
	h.must(backup)
	if status := h.stint("status"); !strings.Contains(status, "last backup: ") ||
		strings.Contains(status, "last backup: none") {
		h.t.Errorf("the status knows of no backup:\n%s", status)
	}
}

// endsToken: a revoked token is refused by every host.
func (h *hosts) endsToken() {
	h.t.Helper()
	token := h.stint("token", "create", "web", "--expires", "1d", "--grant", "ops=check")
	h.secrets = append(h.secrets, token)
	client := h.client(token)
	refused := func(i int) bool {
		_, code, err := h.check(client, i, "stock", "revoked", "")
		return err == nil && code == "unauthenticated"
	}
	for i := range h.addresses {
		await.Until(h.t, fmt.Sprintf("host %d knows the new token", i+1), func() bool { return !refused(i) })
	}
	h.stint("token", "revoke", "web")
	for i := range h.addresses {
		await.Until(h.t, fmt.Sprintf("host %d refuses the revoked token", i+1), func() bool { return refused(i) })
	}
}

// saysNoSecret looks for what was secret in all that the containers have said.
func (h *hosts) saysNoSecret() {
	h.t.Helper()
	secrets := append(slices.Clone(h.secrets), h.text("cluster.key"), h.text("fresh.key"))
	for i := range h.addresses {
		said, err := exec.Command("docker", "logs", h.container(i)).CombinedOutput()
		if err != nil || len(said) == 0 {
			h.t.Fatalf("host %d has no log: %v", i+1, err)
		}
		for _, secret := range secrets {
			if bytes.Contains(said, []byte(secret)) {
				h.t.Errorf("host %d has logged a secret", i+1)
			}
		}
	}
}
