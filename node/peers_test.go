package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/cluster/peer"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/testing/await"
)

// authority signs the certificates of a test's nodes.
type authority struct {
	t           *testing.T
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, key: newKey(t)}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotAfter: time.Now().Add(365 * 24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	a.certificate = a.sign(template, template, a.key)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) sign(template, parent *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return signed
}

// peer creates a node's certificate files.
func (a *authority) peer(node string) *peer.TLS { return a.peerFor(node, 365*24*time.Hour) }

func (a *authority) peerFor(node string, life time.Duration) *peer.TLS {
	key := newKey(a.t)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	signed := a.sign(&x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: node},
		NotAfter: time.Now().Add(life), URIs: []*url.URL{{Scheme: "stint", Host: "peer", Path: "/" + node}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, a.certificate, key)
	dir := a.t.TempDir()
	file := func(name, kind string, der []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			a.t.Fatal(err)
		}
		return name
	}
	return &peer.TLS{CertFile: file("cert.pem", "CERTIFICATE", signed.Raw),
		KeyFile: file("key.pem", "EC PRIVATE KEY", der), CAFile: file("ca.pem", "CERTIFICATE", a.certificate.Raw)}
}

// securedTrio founds a cluster of nodes that authenticate each other.
func securedTrio(t *testing.T, ca *authority) *trio {
	c := trioToBe(t)
	for i := range c.configs {
		c.configs[i].PeerTLS = ca.peer(c.configs[i].NodeID)
	}
	for i := range 3 {
		c.start(i)
	}
	c.ready(0, 1, 2)
	return c
}

func TestNodesThatProveWhoTheyAreCountAsOneAndLetNobodyElseIn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		ca := newAuthority(t)
		c := securedTrio(t, ca)
		crowd := newCrowd(t, c, 0, 1, 2)

		other := c.add("other-authority")
		c.configs[other].PeerTLS = newAuthority(t).peer("other-authority")
		keyless := c.add("keyless")
		c.configs[keyless].PeerTLS, c.configs[keyless].ClusterKeyFile = ca.peer("keyless"), ""
		c.configs[keyless].InsecurePeers = true
		impostor := c.add("impostor")
		c.configs[impostor].PeerTLS = ca.peer("n1")
		c.start(other)
		c.start(keyless)
		if _, err := Start(t.Context(), c.configs[impostor]); !errors.Is(err, ErrConfig) ||
			!strings.Contains(err.Error(), `is that of node "n1", and this is "impostor"`) {
			t.Errorf("a node with the certificate of another name: %v", err)
		}
		c.await("the other authority's node has long been refused by all", func(*stintv1.StatusResponse) bool {
			for _, n := range c.nodes[:3] {
				if n.peers.silent()["other-authority"] < 2*time.Second {
					return false
				}
			}
			return strings.Contains(c.journal.String(), "unknown authority")
		})
		if c.nodes[other].Ready() == nil || c.nodes[keyless].Ready() == nil {
			t.Error("a stranger got in")
		}
		if c.nodes[keyless].view.hasTable() || c.nodes[other].view.hasTable() {
			t.Error("a stranger was told the table")
		}
		c.await("only the founders hold replicas", func(s *stintv1.StatusResponse) bool { return atRest(3)(s) })
		for _, id := range []string{"keyless", "impostor", "other-authority"} {
			if listed := c.nodes[0].view.newestTable().Node(id); listed != nil {
				t.Errorf("%s is registered: %+v", id, listed)
			}
		}
		crowd.goesHome(2)
	})
}

func TestPortsThatOthersCanReachNeedCertificatesAndAKey(t *testing.T) {
	ca := newAuthority(t)
	for name, change := range map[string]func(*Config){
		"peer-addr":   func(c *Config) { c.PeerAddr = "0.0.0.0:0" },
		"gossip-addr": func(c *Config) { c.GossipAddr = "0.0.0.0:0" },
		"both":        func(c *Config) { c.PeerAddr, c.GossipAddr = "0.0.0.0:0", "0.0.0.0:0" },
		"both, with a key that is missing": func(c *Config) {
			c.PeerAddr, c.GossipAddr, c.ClusterKeyFile = "0.0.0.0:0", "0.0.0.0:0",
				filepath.Join(t.TempDir(), "cluster.key")
		},
		"gossip-addr beside a certificate": func(c *Config) {
			c.NodeID, c.PeerAddr, c.GossipAddr, c.PeerTLS = "n1", "0.0.0.0:0", "0.0.0.0:0", ca.peer("n1")
		},
		"another node's": func(c *Config) { c.NodeID, c.PeerTLS = "n1", ca.peer("n2") },
	} {
		t.Run(name, func(t *testing.T) {
			config := testConfig(t)
			config.BootstrapExpect = 3
			change(&config)
			n, err := Start(t.Context(), config)
			if err == nil {
				stop(t, n)
			}
			if !errors.Is(err, ErrConfig) {
				t.Errorf("got %v, want an error of the configuration", err)
			}
			if _, err := os.Stat(config.DataDir); !os.IsNotExist(err) {
				t.Errorf("the data directory was made: %v", err)
			}
		})
	}
}

func TestPortsOfClientsThatOthersCanReachMustBeWanted(t *testing.T) {
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "stint.example.org:0",
		"[::ffff:192.0.2.1]:0"} {
		for flag, change := range map[string]func(*Config){
			"api-addr":   func(c *Config) { c.APIAddr = addr },
			"grpc-addr":  func(c *Config) { c.GRPCAddr = addr },
			"redis-addr": func(c *Config) { c.RedisAddr = addr },
		} {
			for _, dev := range []bool{false, true} {
				config := testConfig(t)
				config.Dev, config.InsecurePeers = dev, true
				change(&config)
				n, err := Start(t.Context(), config)
				if err == nil {
					stop(t, n)
				}
				if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), flag+": "+addr) ||
					!strings.Contains(err.Error(), "--insecure") {
					t.Errorf("%s %s: %v", flag, addr, err)
				}
			}
		}
	}
}

func TestPortsOfClientsThatAreWantedOffLoopbackServe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		config := testConfig(t)
		config.APIAddr, config.GRPCAddr, config.RedisAddr, config.InsecureAPI = "0.0.0.0:0", "[::]:0", ":0", true
		n, err := Start(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		stop(t, n)
		for _, addr := range []string{"127.0.0.1:0", "[::1]:0", "localhost:0", "127.9.9.9:0", "[::ffff:127.0.0.1]:0"} {
			if !isLoopback(addr) {
				t.Errorf("%s is taken for an address that others reach", addr)
			}
		}
	})
}

func TestACertificateIsRefusedWhenItHasExpiredAndAProblemBefore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ca := newAuthority(t)
		config := testConfig(t)
		config.NodeID, config.PeerTLS = "n1", ca.peerFor("n1", -time.Minute)
		config.ClusterKeyFile = filepath.Join(t.TempDir(), "cluster.key")
		n, err := Start(t.Context(), config)
		if err == nil {
			stop(t, n)
		}
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), config.PeerTLS.CertFile+" expired 1m") {
			t.Errorf("an expired certificate: %v", err)
		}
		if _, err := os.Stat(config.DataDir); !os.IsNotExist(err) {
			t.Errorf("the data directory was made: %v", err)
		}
		config.PeerTLS = ca.peerFor("n1", 50*time.Hour)
		n = start(t, config)
		defer stop(t, n)
		s, err := n.admin.Status(t.Context())
		if err != nil || len(s.Problems) != 1 ||
			!strings.Contains(s.Problems[0], "node n1: its peer certificate expires in 2 days") {
			t.Errorf("%v, %v", s.Problems, err)
		}
	})
}

func TestWhatIsLeftOfACertificate(t *testing.T) {
	for left, want := range map[time.Duration]string{6*24*time.Hour + time.Hour: "6 days", 47 * time.Hour: "47 h",
		90 * time.Minute: "90 min", time.Second: "0 min"} {
		if got := formatTimeLeft(left); got != want {
			t.Errorf("%v: %s, want %s", left, got, want)
		}
	}
}

// The peer port answers a moment before the node asks the others itself.
func TestBeforeItAsksANodeKnowsNothingOfTheOthers(t *testing.T) {
	p := &peers{node: "n1", joined: make(chan struct{})}
	if silent := p.silent(); len(silent) != 0 {
		t.Errorf("silent: %v", silent)
	}
	if ahead, ok := p.offset([]string{"n2"}); ok {
		t.Errorf("its clock is known to be %v ahead", ahead)
	}
	h := &duplicateGuard{node: "n1", peers: p}
	if addr := h.takenBy("n2", &placement.Question{Life: "another"}); addr != "" {
		t.Errorf("n2 is known to answer at %s", addr)
	}
}

// A node gets no shard once raft hears nothing of it, though its last report is still believed.
func TestANodeThatRaftDoesNotHearIsNotCaughtUp(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t)
		owner := c.owner(0)
		n, other := c.nodes[owner], c.nodes[(owner+1)%3].id
		r, table := n.replicas.of(0), n.view.newestTable()
		name := n.handover.voterOn(r, other)
		await.Until(t, "it has caught up", func() bool { return n.peers.isCaughtUp(r, name) })
		addr := table.Nodes[slices.IndexFunc(table.Nodes, func(n placement.Node) bool { return n.ID == other })].PeerAddr
		memoryOf(t).net.Cut("", addr)
		memoryOf(t).net.Cut(addr, "")
		await.Until(t, "raft does not hear it", func() bool { return r.group.Behind(name) != nil })
		if n.peers.member(0, name) == nil || !n.peers.isReady(other) {
			t.Fatal("its report is no longer believed")
		}
		if n.peers.isCaughtUp(r, name) {
			t.Error("it could be handed the shard")
		}
		memoryOf(t).net.Heal()
	})
}
