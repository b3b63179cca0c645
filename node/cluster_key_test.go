package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/cluster/peer"
)

// keyLine is a line of a cluster key file.
func keyLine(n int) string { return strings.Repeat(fmt.Sprintf("%02x", n), 32) }

// writeKey writes a cluster key file.
func writeKey(t testing.TB, name string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// keyedTrio founds a cluster in which each node has a key file of its own, with the same line.
func keyedTrio(t *testing.T, line string) *trio {
	c := trioToBe(t)
	for i := range c.configs {
		c.configs[i].ClusterKeyFile = filepath.Join(t.TempDir(), "cluster.key")
		writeKey(t, c.configs[i].ClusterKeyFile, line)
		c.start(i)
	}
	c.ready(0, 1, 2)
	return c
}

func fingerprints(t testing.TB, lines ...string) []string {
	t.Helper()
	key, err := peer.ParseClusterKey([]byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return key.Fingerprints()
}

// Each node is changed on its own, as operators do, and one is restarted in the middle of each step. No request fails.
func TestTheClusterKeyIsReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		old, fresh := keyLine(1), keyLine(2)
		c := keyedTrio(t, old)
		crowd := newCrowd(t, c, 0, 1, 2)
		for step, lines := range [][]string{{old, fresh}, {fresh, old}, {fresh}} {
			for i := range c.nodes {
				writeKey(t, c.configs[i].ClusterKeyFile, lines...)
				c.await(fmt.Sprintf("step %d is in force at node %d", step+1, i+1), func(s *stintv1.StatusResponse) bool {
					inForce := len(s.Nodes) == 3 && slices.Equal(s.Nodes[i].KeyLines, fingerprints(t, lines...))
					if said := strings.Join(s.Moves, "; "); inForce && i < 2 &&
						strings.Contains(said, "the next step is safe") {
						t.Errorf("step %d, after node %d: %s", step+1, i+1, said)
					}
					return inForce
				})
				if i == 1 { // a restart in the middle of the step
					const restarted = 2
					crowd.avoid(restarted)
					c.stop(restarted)
					c.start(restarted)
					c.ready(restarted)
					crowd.include(restarted)
				}
			}
			c.await("status says that the step is done", func(s *stintv1.StatusResponse) bool {
				return atRest(3)(s) == (len(lines) == 1) &&
					strings.Contains(strings.Join(s.Moves, "; "), "the next step is safe") == (len(lines) == 2)
			})
		}
		crowd.goesHome(0)
		if logged := c.journal.String(); strings.Contains(logged, old) || strings.Contains(logged, fresh) {
			t.Error("the key is in the log")
		}
		// The old line is worth nothing now.
		late := c.add("late")
		c.configs[late].ClusterKeyFile = filepath.Join(t.TempDir(), "cluster.key")
		writeKey(t, c.configs[late].ClusterKeyFile, old)
		c.start(late)
		time.Sleep(time.Minute) // it looks for the others
		if c.nodes[late].Ready() == nil || c.nodes[late].view.hasTable() ||
			len(c.nodes[0].peers.gossip.Members()) != 3 {
			t.Error("a node with the old line got in")
		}
	})
}

func TestAMissingKeyOffLoopbackIsNotMade(t *testing.T) {
	config := testConfig(t)
	config.GossipAddr, config.ClusterKeyFile = "192.0.2.1:7402", filepath.Join(t.TempDir(), "cluster.key")
	n, err := Start(t.Context(), config)
	if err == nil {
		stop(t, n)
	}
	if !errors.Is(err, ErrConfig) || !errors.Is(err, os.ErrNotExist) ||
		!strings.Contains(err.Error(), "cluster-key: ") {
		t.Errorf("got %v", err)
	}
}
