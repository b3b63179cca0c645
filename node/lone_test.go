package node

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/cluster/peer"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/testing/await"
)

func TestALoneNodeOpensNoPortForOthers(t *testing.T) {
	for _, dev := range []bool{false, true} {
		config := testConfig(t)
		config.PeerAddr, config.GossipAddr, config.Dev = freeAddr(t), freeAddr(t), dev
		n := start(t, config)
		for _, addr := range []string{config.PeerAddr, config.GossipAddr} {
			if c, err := net.Dial("tcp", addr); err == nil {
				c.Close()
				t.Errorf("somebody answers at %s", addr)
			}
			udp, err := net.ListenPacket("udp", addr)
			if err != nil {
				t.Fatalf("it listens at %s: %v", addr, err)
			}
			udp.Close()
		}
		if _, ok := n.peers.port.Addr().(*net.TCPAddr); ok {
			t.Errorf("its peer port is at %s", n.peers.port.Addr())
		}
		stop(t, n)
	}
}

func TestGossipWithoutAKeyIsRefusedOnLoopbackToo(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"three that found a cluster": func(c *Config) { c.BootstrapExpect = 3 },
		"one that joins":             func(c *Config) { c.Join = []string{"127.0.0.1:7402"} },
		"one with a certificate":     func(c *Config) { c.NodeID, c.PeerTLS = "n1", newAuthority(t).peer("n1") },
		"a key that is missing, off loopback": func(c *Config) {
			c.ClusterKeyFile, c.GossipAddr = filepath.Join(t.TempDir(), "cluster.key"), "192.0.2.1:7402"
		},
	} {
		config := testConfig(t)
		change(&config)
		n, err := Start(t.Context(), config)
		if err == nil {
			stop(t, n)
		}
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "-key: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeysThatContradictEachOtherAreRefused(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"together with --insecure": func(c *Config) { c.InsecurePeers = true },
		"is there twice": func(c *Config) {
			key := strings.Repeat("ab", 32) + "\n"
			if err := os.WriteFile(c.ClusterKeyFile, []byte(key+key), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		config := testConfig(t)
		config.ClusterKeyFile = filepath.Join(t.TempDir(), "cluster.key")
		change(&config)
		n, err := Start(t.Context(), config)
		if err == nil {
			stop(t, n)
		}
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "cluster-key: ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := os.Stat(config.DataDir); !os.IsNotExist(err) {
			t.Errorf("the data directory was made: %v", err)
		}
	}
}

// The operator of a lone node gives its key to this node and to another: they are a cluster, and what was counted is
// counted.
func TestTheKeyOfALoneNodeLetsOthersJoin(t *testing.T) {
	t.Parallel()
	c := trioToBe(t)
	lone := &c.configs[0]
	lone.BootstrapExpect, lone.Join, lone.ClusterKeyFile = 1, nil, ""
	c.start(0)
	c.ready(0)
	if r := c.spend(0, "key"); r.Err != nil || !r.Decision.Allowed {
		t.Fatalf("%+v", r)
	}
	key := filepath.Join(lone.DataDir, ownKeyFile)
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	made, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	c.stop(0)
	copied := filepath.Join(t.TempDir(), "cluster.key")
	if err := os.WriteFile(copied, made, 0o600); err != nil {
		t.Fatal(err)
	}
	lone.ClusterKeyFile, c.configs[1].ClusterKeyFile, c.configs[1].BootstrapExpect = key, copied, 1
	c.start(0)
	if strings.Contains(c.journal.String(), "may read a secret") {
		t.Error("its own key is open to others")
	}
	if err := os.Chmod(copied, 0o644); err != nil {
		t.Fatal(err)
	}
	c.start(1)
	if !strings.Contains(c.journal.String(), "every user of this machine may read a secret") {
		t.Error("a key that others may read is not mentioned")
	}
	c.ready(0, 1)
	c.await("it is listed", func(*stintv1.StatusResponse) bool { return c.nodes[0].view.newestTable().Node("n2") != nil })
	if r := c.spend(1, "key"); r.Err != nil || r.Decision.Limits[0].Used != 2 {
		t.Errorf("%+v", r)
	}
	if again, err := os.ReadFile(key); err != nil || !bytes.Equal(again, made) {
		t.Errorf("the key was made again: %v", err)
	}
}

func TestAKeyThatIsMissingIsMadeOnce(t *testing.T) {
	config := testConfig(t)
	config = config.withDefaults()
	config.ClusterKeyFile = filepath.Join(t.TempDir(), "cluster.key")
	if err := config.validate(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(config.ClusterKeyFile); !os.IsNotExist(err) {
		t.Errorf("it was made before anything else was found right: %v", err)
	}
	var keys [8]*peer.KeyFile
	var nodes sync.WaitGroup
	for i := range keys {
		nodes.Go(func() {
			var err error
			if keys[i], err = config.clusterKey(); err != nil {
				t.Error(err)
			}
		})
	}
	nodes.Wait()
	for _, key := range keys {
		if !slices.Equal(key.Key().Fingerprints(), keys[0].Key().Fingerprints()) {
			t.Errorf("nodes that start at the same time have keys %v and %v",
				key.Key().Fingerprints(), keys[0].Key().Fingerprints())
		}
	}
	info, err := os.Stat(config.ClusterKeyFile)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if left, _ := os.ReadDir(filepath.Dir(config.ClusterKeyFile)); len(left) != 1 {
		t.Errorf("%d files are there", len(left))
	}
}

func TestANodeWithACompanyDoesNotStartAlone(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := trioToBe(t)
		c.configs[0].BootstrapExpect, c.configs[0].Join = 1, nil
		c.configs[1].BootstrapExpect = 1
		c.start(0)
		c.ready(0)
		c.start(1)
		c.ready(1)
		c.await("it is listed", func(*stintv1.StatusResponse) bool { return c.nodes[0].view.newestTable().Node("n2") != nil })
		c.stop(1, 0)
		alone := c.configs[0]
		alone.ClusterKeyFile = ""
		n, err := Start(t.Context(), alone)
		if err == nil {
			stop(t, n)
		}
		if !errors.Is(err, ErrConfig) ||
			!strings.Contains(err.Error(), "cluster-key: this node belongs to a cluster with n2") {
			t.Errorf("got %v", err)
		}
	})
}

// mustJoin adds a node, and waits until the table lists it.
func (c *trio) mustJoin(id string) (i int) {
	c.t.Helper()
	i = c.add(id)
	c.start(i)
	c.ready(i)
	c.await("it is listed", func(*stintv1.StatusResponse) bool { return c.nodes[0].view.newestTable().Node(id) != nil })
	return i
}

// The id is free for a node with an empty directory, again and again; the directories of before stay refused.
func TestARemovedNodeComesBackWithAnEmptyDirectoryOnly(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t)
		fourth := c.mustJoin("n4")
		told := func(n *Node) {
			t.Helper()
			err := await.Receive(t, "it ends", n.Done())
			if !errors.Is(err, ErrRemoved) || !strings.Contains(err.Error(), `"n4"`) ||
				!strings.Contains(err.Error(), "empty ") {
				t.Errorf("it ends with %v", err)
			}
			if n.Ready() == nil {
				t.Error("it says that it is ready")
			}
		}
		if err := c.nodes[0].admin.RemoveNode(t.Context(), "n4"); err != nil {
			t.Fatal(err)
		}
		told(c.nodes[fourth])
		c.stop(fourth)
		// It knows it at once if it had heard of the table that says so. Otherwise the others say it again.
		if n, err := Start(t.Context(), c.configs[fourth]); err == nil {
			told(n)
			stop(t, n)
		} else if !errors.Is(err, ErrRemoved) {
			t.Errorf("it does not start: %v", err)
		}
		c.await("the others go on", func(s *stintv1.StatusResponse) bool { return atRest(3)(s) })
		first := c.configs[fourth].DataDir
		for incarnation := range 2 {
			before := c.nodes[0].view.newestTable().Incarnation("n4")
			c.configs[fourth].DataDir = filepath.Join(t.TempDir(), "data")
			c.start(fourth)
			c.ready(fourth)
			c.await("it has replicas", func(s *stintv1.StatusResponse) bool {
				return atRest(3)(s) && len(c.numbers("n4")) > 0
			})
			if now := c.nodes[0].view.newestTable().Incarnation("n4"); now <= before {
				t.Errorf("the incarnation %d follows %d", now, before)
			}
			c.stop(fourth)
			c.start(fourth) // it keeps its place
			c.ready(fourth)
			// by a table from before it came back
			c.nodes[fourth].reporter.heard(placement.Report{Node: "n1", RemovedBy: 1})
			if len(c.nodes[fourth].fatal) > 0 {
				t.Error("it goes by an old table of another node")
			}
			if incarnation == 0 {
				if err := c.nodes[0].admin.RemoveNode(t.Context(), "n4"); err != nil {
					t.Fatal(err)
				}
				told(c.nodes[fourth])
				c.stop(fourth)
				c.await("it is removed again", func(s *stintv1.StatusResponse) bool { return s.Nodes[3].State == "removed" })
			}
		}
		c.stop(fourth)
		c.configs[fourth].DataDir = first // its id is that of a member, and it is not that one
		if n, err := Start(t.Context(), c.configs[fourth]); err == nil {
			told(n)
			stop(t, n)
		} else if !errors.Is(err, ErrRemoved) {
			t.Errorf("it does not start: %v", err)
		}
	})
}

// A directory that slept through the removal of its node, and through the admission of another one under its id, is not
// that one.
func TestANodeThatSleptThroughItsSuccessionIsToldWhenItWakes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t)
		fourth := c.mustJoin("n4")
		c.stop(fourth)
		if err := c.nodes[0].admin.RemoveNode(t.Context(), "n4"); err != nil {
			t.Fatal(err)
		}
		c.await("it is removed", func(*stintv1.StatusResponse) bool { return c.nodes[0].view.listing("n4") == peer.Removed })
		first := c.configs[fourth].DataDir
		c.configs[fourth].DataDir = filepath.Join(t.TempDir(), "data")
		c.start(fourth)
		c.ready(fourth)
		c.stop(fourth)
		c.configs[fourth].DataDir = first
		for range 2 { // and again when it is started again
			c.start(fourth) // by its stored table it is the member
			if err := await.Receive(t, "it ends", c.nodes[fourth].Done()); !errors.Is(err, ErrRemoved) {
				t.Errorf("it ends with %v", err)
			}
			c.stop(fourth)
		}
	})
}

func TestANodeThatSleptThroughItsRemovalIsToldWhenItWakes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t)
		fourth := c.mustJoin("n4")
		c.stop(fourth)
		if err := c.nodes[0].admin.RemoveNode(t.Context(), "n4"); err != nil {
			t.Fatal(err)
		}
		c.await("it is removed", func(*stintv1.StatusResponse) bool { return c.nodes[0].view.listing("n4") == peer.Removed })
		c.start(fourth) // by its stored table it is a member
		if err := await.Receive(t, "it ends", c.nodes[fourth].Done()); !errors.Is(err, ErrRemoved) {
			t.Errorf("it ends with %v", err)
		}
	})
}
