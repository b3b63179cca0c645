//go:build docker

package chaos

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/testcert"
)

// TestImageAsksOverHTTPS has nodes of the image fetch the keys of a gate's tokens, and tell a sink, at a server with a
// certificate of an authority of the operator's own. With that authority mounted, as docs/install.md says, both work.
// Without it the image has its own authorities alone, so that a token proves nothing, and the sink is told nothing.
func TestImageAsksOverHTTPS(t *testing.T) {
	outside := newOutside(t)
	stranger := outside.startNode("stranger")
	for _, what := range []string{"the keys of tokens cannot be fetched", "a sink did not take an event"} {
		await.Until(t, "the log says: "+what, func() bool {
			for line := range strings.Lines(stranger.String()) {
				if strings.Contains(line, what) && strings.Contains(line, "certificate") {
					return true
				}
			}
			return false
		}, stranger)
	}
	if status := stranger.askGate(); status == http.StatusOK {
		t.Error("a token proves something without the keys of its issuer")
	}
	if outside.asked.Load()+outside.told.Load() > 0 {
		t.Error("a server that proved nothing was asked")
	}

	friend := outside.startNode("friend", "-e", "SSL_CERT_FILE=/etc/stint/ca.pem")
	await.Until(t, "a token is good", func() bool { return friend.askGate() == http.StatusOK }, friend)
	await.Until(t, "the sink is told", func() bool { return outside.told.Load() > 0 }, friend)
}

// outside is a server on this machine's address in a network of the engine. It has the keys of an issuer, and takes
// events.
type outside struct {
	*httptest.Server
	t           *testing.T
	dir         string // what the nodes find at /etc/stint
	address     string // the server's, without its port
	network     string
	token       string // of a client, signed by the issuer
	asked, told atomic.Int64
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{t: t, dir: t.TempDir(), network: "stint-outside-" + freePort(t)}
	engine(t, "network", "create", o.network)
	t.Cleanup(func() { engine(t, "network", "rm", o.network) })
	o.address = engine(t, "network", "inspect", "-f", "{{(index .IPAM.Config 0).Gateway}}", o.network)
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		o.asked.Add(1)
		fmt.Fprintf(w, `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","use":"sig","x":%q}]}`,
			base64.RawURLEncoding.EncodeToString(public))
	})
	mux.HandleFunc("POST /hook", func(http.ResponseWriter, *http.Request) { o.told.Add(1) })
	o.serve(mux)
	o.sign(key)
	o.writePolicies()
	return o
}

// serve begins to answer with a certificate of an authority that the nodes find in ca.pem.
func (o *outside) serve(handler http.Handler) {
	o.t.Helper()
	files := testcert.New(o.t).Write(o.dir, func(c *x509.Certificate) {
		c.IPAddresses = []net.IP{net.ParseIP(o.address)}
	})
	certificate, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		o.t.Fatal(err)
	}
	o.Server = httptest.NewUnstartedServer(handler)
	o.Listener.Close()
	if o.Listener, err = net.Listen("tcp", net.JoinHostPort(o.address, "0")); err != nil {
		o.t.Fatal(err)
	}
	o.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	o.StartTLS()
	o.t.Cleanup(o.Close)
	for _, file := range []string{o.dir, files.CA} {
		if err := os.Chmod(file, 0o755); err != nil { // the image's user reads it
			o.t.Fatal(err)
		}
	}
}

func (o *outside) sign(key ed25519.PrivateKey) {
	claims := fmt.Sprintf(`{"iss":%q,"aud":"shop","sub":"user:42","exp":%d}`, o.URL, time.Now().Add(time.Hour).Unix())
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"EdDSA","kid":"a"}`)) + "." +
		base64.RawURLEncoding.EncodeToString([]byte(claims))
	o.token = text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(text)))
}

func (o *outside) writePolicies() {
	o.t.Helper()
	text := fmt.Sprintf(`policies:
  plan:
    notify: [hook]
    limits: [{name: all, quota: 100, lifetime: {}, thresholds: [1]}]
gates:
  web:
    identity: [jwt]
    jwt: {jwks: %[1]s/keys, issuer: %[1]s, audience: shop, algorithms: [EdDSA]}
    fail: closed
    no_match: deny
    routes: [{match: {}, entries: [{policy: plan, key: "{identity}"}]}]
`, o.URL)
	if err := os.WriteFile(filepath.Join(o.dir, "policies.yaml"), []byte(text), 0o644); err != nil {
		o.t.Fatal(err)
	}
}

// outsideNode is a node of the image that may ask the server.
type outsideNode struct {
	*outside
	name, api string
}

// startNode starts a node, makes its sink, and takes the first unit, of which the sink is to be told.
func (o *outside) startNode(name string, options ...string) outsideNode {
	o.t.Helper()
	n := outsideNode{outside: o, name: o.network + "-" + name}
	args := []string{"run", "-d", "--name", n.name, "--network", o.network, "-v", o.dir + ":/etc/stint:ro", "-e",
		"STINT_INSECURE=true", "-e", "STINT_POLICIES=/etc/stint/policies.yaml", "-e",
		"STINT_SINK_ALLOW=" + o.address + "/32"}
	engine(o.t, append(append(args, options...), "stint:dev")...)
	o.t.Cleanup(func() { engine(o.t, "rm", "-f", "-v", n.name) })
	n.api = engine(o.t, "inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}:7400", n.name)
	await.Until(o.t, name+" is ready", func() bool {
		response, err := http.Get("http://" + n.api + "/readyz")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, n)
	engine(o.t, "exec", n.name, "/stint", "sink", "create", "hook", "--kind", "webhook", "--url", o.URL+"/hook",
		"--events", "threshold")
	engine(o.t, "exec", n.name, "/stint", "check", "plan", "somebody")
	return n
}

// askGate asks the gate with the client's token.
func (n outsideNode) askGate() int {
	n.t.Helper()
	request, err := http.NewRequest(http.MethodGet, "http://"+n.api+"/gate/web/page", nil)
	if err != nil {
		n.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+n.token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		n.t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}

// String implements fmt.Stringer: what the node has logged.
func (n outsideNode) String() string { return engine(n.t, "logs", n.name) }
