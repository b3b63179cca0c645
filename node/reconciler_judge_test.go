package node

import (
	"encoding/binary"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// flip flips one bit of a key's record in a node's memory, in the used count of a lifetime limit: 1 becomes 9. Two
// numbers that are 0 follow it.
func flip(t *testing.T, n *Node, id shard.ID, policy, key string) {
	t.Helper()
	flipBit(t, n, id, policy, key, 3)
}

func flipBit(t *testing.T, n *Node, id shard.ID, policy, key string, bit int) {
	t.Helper()
	record := []byte{'k'}
	for _, part := range []string{shard.DefaultNamespace, policy} {
		record = append(binary.AppendUvarint(record, uint64(len(part))), part...)
	}
	record = binary.BigEndian.AppendUint16(record, uint16(slot.Of(shard.DefaultNamespace, key)))
	record = append(record, key...)
	n.replicas.of(id).group.View(func(s *shard.State) {
		r, found := s.Lookup(string(record))
		if !found {
			t.Fatalf("node %s has no record of %q in shard %s", n.ID(), key, id)
		}
		r.Value[len(r.Value)-3] ^= 1 << bit
	})
}

// newJudgingTrio founds a cluster with replicas that compare their sums more often than usual.
func newJudgingTrio(t *testing.T) *trio {
	t.Helper()
	c := trioToBe(t, 4)
	for i := range c.nodes {
		c.configs[i].World.IdleSum = time.Second
		c.start(i)
	}
	c.ready(0, 1, 2)
	return c
}

// keyOn returns a key that lives on a shard.
func keyOn(n *Node, id shard.ID) string {
	for key := "flipped"; ; key += "'" {
		if shard.Of(slot.Even(uint32(n.view.shards())), shard.DefaultNamespace, key) == id {
			return key
		}
	}
}

// owner is the index of the node that owns a shard.
func (c *trio) owner(id shard.ID) (index int) {
	c.t.Helper()
	c.await("shard "+id.String()+" has an owner", func(*stintv1.StatusResponse) bool {
		index = slices.IndexFunc(c.nodes, func(n *Node) bool {
			if n == nil {
				return false
			}
			_, open := n.replicas.owner(id)
			return open
		})
		return index >= 0
	})
	return index
}

func (c *trio) mustSpend(i int, key string) {
	c.t.Helper()
	if r := c.spend(i, key); r.Err != nil || !r.Decision.Allowed {
		c.t.Fatalf("node %d: %+v", i+1, r)
	}
}

// awaitEqual waits until all nodes have installed a shard's log up to the same place.
func (c *trio) awaitEqual(id shard.ID) {
	c.t.Helper()
	c.await("the replicas are at one place", func(*stintv1.StatusResponse) bool {
		var places [][2]uint64
		for _, n := range c.nodes {
			if r := n.replicas.of(id); r != nil {
				r.group.View(func(s *shard.State) { places = append(places, [2]uint64{s.Epoch(), s.Seq()}) })
			}
		}
		return len(places) == len(c.nodes) && len(slices.Compact(places)) == 1
	})
}

func (c *trio) allAlive() {
	c.t.Helper()
	for _, n := range c.nodes {
		select {
		case err := <-n.Done():
			c.t.Errorf("node %s stops: %v", n.ID(), err)
		default:
		}
	}
}

// awaitReplaced waits until the replica of one shard on one node has another number, and all others are unchanged.
func (c *trio) awaitReplaced(which raftfsm.Replica, bad int) {
	c.t.Helper()
	c.await("the bad replica is replaced, and only that", func(s *stintv1.StatusResponse) bool {
		if !atRest(3)(s) {
			return false
		}
		for _, one := range s.Shards {
			for _, r := range one.Replicas {
				if old := shard.ID(one.Id) == which.Shard && r.Node == c.configs[bad].NodeID; old != (r.Number != 1) {
					return false
				}
			}
		}
		return true
	})
	if _, convicted := c.nodes[bad].dir.stores.Convictions()[which]; !convicted {
		c.t.Errorf("the replica was replaced without a conviction")
	}
	if !slices.Contains(c.nodes[bad].dir.stores.Groups(), which) {
		c.t.Errorf("what the convicted replica had on the disk is gone")
	}
}

// comeBack stops and starts all nodes: they serve, and the convicted replica does not run.
func (c *trio) comeBack(convicted raftfsm.Replica, bad int) {
	c.t.Helper()
	c.stopAll()
	c.startAll()
	c.ready(0, 1, 2)
	for i := range c.nodes {
		c.mustSpend(i, "after the restart")
	}
	c.allAlive()
	if r := c.nodes[bad].replicas.of(convicted.Shard); r == nil || r.Replica == convicted {
		c.t.Errorf("after the restart shard %s runs as %+v, the convicted one is %+v", convicted.Shard, r, convicted)
	}
}

// One bit flips in the memory of an owner, or of a follower, under load. No request fails, the two good replicas go on,
// and the bad one is replaced. That holds after a restart of all nodes too.
func TestABitThatFlipsCostsOneReplica(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"owner", "follower"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				c := newJudgingTrio(t)
				key := keyOn(c.nodes[0], 1)
				c.mustSpend(0, key)
				bad := c.owner(1)
				if who == "follower" {
					bad = (bad + 1) % 3
				}
				c.awaitEqual(1)
				crowd := newCrowd(t, c, 0, 1, 2)
				flip(t, c.nodes[bad], 1, "stock", key)
				c.mustSpend(bad, key)
				which := raftfsm.Replica{Shard: 1, Number: 1}
				c.awaitReplaced(which, bad)
				crowd.goesHome((bad + 1) % 3)
				c.allAlive()
				c.comeBack(which, bad)
				crowd.recount(bad)
			})
		})
	}
}

// A flipped bit is found while a snapshot is written, and the snapshot is not kept. The second conviction of a day
// drains the node.
func TestABitThatFlippedGetsIntoNoSnapshot(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newJudgingTrio(t)
		bad := (c.owner(1) + 1) % 3
		for _, id := range []shard.ID{1, 2} {
			key := keyOn(c.nodes[0], id)
			c.mustSpend(0, key)
			c.awaitEqual(id)
			n, r := c.nodes[bad], c.nodes[bad].replicas.of(id)
			flip(t, n, id, "stock", key)
			if err := r.group.Snapshot(); err == nil || !strings.Contains(err.Error(), shard.ErrDiverged.Error()) {
				t.Fatalf("a snapshot of shard %s with a record that flipped: %v", id, err)
			}
			if at := r.group.Status().SnapshotIndex; at != 0 {
				t.Fatalf("there is a snapshot up to entry %d", at)
			}
			c.await("the bad replica is replaced", func(s *stintv1.StatusResponse) bool {
				r := n.replicas.of(id)
				return r != nil && r.Number != 1 || id == 2 && c.journal.says(n.ID(), "this node is drained") > 0
			})
			for i := range c.nodes {
				c.mustSpend(i, key)
			}
		}
		c.await("the node is drained, and says why", func(s *stintv1.StatusResponse) bool {
			at := slices.IndexFunc(s.Nodes, func(n *stintv1.Node) bool { return n.Id == c.configs[bad].NodeID })
			return s.Nodes[at].State == "draining" && slices.ContainsFunc(s.Problems, func(p string) bool {
				return strings.Contains(p, "is drained, since several of its replicas were convicted")
			})
		})
		c.allAlive()
		c.comeBack(raftfsm.Replica{Shard: 1, Number: 1}, bad)
	})
}

// Of three replicas one is down and the others differ: nothing shows which of them is right. The shard stops and says
// so; the other shards serve. When the third is back, there is a majority.
func TestAShardWithoutAMajorityOfEqualSumsStops(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newJudgingTrio(t)
		key, other := keyOn(c.nodes[0], 1), keyOn(c.nodes[0], 2)
		c.mustSpend(0, key)
		c.awaitEqual(1)
		bad, away := 1, 2
		c.stop(away)
		c.mustSpend(0, other)
		c.mustSpend(0, key)
		flip(t, c.nodes[bad], 1, "stock", key)
		c.mustSpend(0, key)
		c.await("one problem says that the shard has stopped, and who says so", func(s *stintv1.StatusResponse) bool {
			said := slices.DeleteFunc(s.Problems, func(p string) bool {
				return !strings.HasPrefix(p, "shard 1 has stopped: ")
			})
			return len(said) == 1 && strings.HasSuffix(said[0], "(so say n1, n2)")
		})
		c.await("both count it, and are ready: else a load balancer would take all nodes out",
			func(*stintv1.StatusResponse) bool {
				return !slices.ContainsFunc(c.nodes[:away], func(n *Node) bool {
					return scraped(n, "stint_shards_stopped") != "1" || n.Ready() != nil
				})
			})
		if r := c.spend(0, key); r.Err == nil || r.Err.MaybeApplied() ||
			!strings.Contains(r.Err.Message, "no majority of them agrees") {
			t.Errorf("the shard that has stopped answers %+v", r)
		}
		c.mustSpend(0, other)
		c.start(away)
		c.ready(away)
		c.awaitReplaced(raftfsm.Replica{Shard: 1, Number: 1}, bad)
		for i := range c.nodes {
			c.mustSpend(i, key)
		}
		c.await("nobody counts a shard that has stopped", func(*stintv1.StatusResponse) bool {
			return !slices.ContainsFunc(c.nodes, func(n *Node) bool {
				return scraped(n, "stint_shards_stopped") != "0"
			})
		})
		c.allAlive()
		c.comeBack(raftfsm.Replica{Shard: 1, Number: 1}, bad)
	})
}

// scraped is the value of a metric without labels.
func scraped(n *Node, name string) string {
	w := httptest.NewRecorder()
	n.metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	_, after, _ := strings.Cut(w.Body.String(), "\n"+name+" ")
	value, _, _ := strings.Cut(after, "\n")
	return value
}

// Two of three replicas find at once that their records are wrong, and wrong in the same way, as after a program fault.
// Both decide nothing, but go on voting: without them there would be no majority. Their agreement convicts no other
// replica. When one is restarted, its records are good, and the other one is dismissed.
func TestAConvictedReplicaStaysWhileItsVoteIsNeeded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newJudgingTrio(t)
		key := keyOn(c.nodes[0], 1)
		c.mustSpend(0, key)
		good := c.owner(1)
		c.awaitEqual(1)
		bad := []int{(good + 1) % 3, (good + 2) % 3}
		for _, i := range bad {
			flip(t, c.nodes[i], 1, "stock", key)
			if err := c.nodes[i].replicas.of(1).group.Snapshot(); err == nil {
				t.Fatal("there is a snapshot of a record that flipped")
			}
		}
		c.await("both would go", func(*stintv1.StatusResponse) bool {
			return !slices.ContainsFunc(bad, func(i int) bool {
				return c.journal.says(c.configs[i].NodeID, "cannot be replaced now") == 0
			})
		})
		for i := range c.nodes {
			c.mustSpend(i, key)
		}
		if c.owner(1) != good {
			t.Errorf("node %d owns the shard, and its records are wrong", c.owner(1)+1)
		}
		c.stop(bad[0])
		c.start(bad[0])
		c.ready(bad[0])
		c.awaitReplaced(raftfsm.Replica{Shard: 1, Number: 1}, bad[1])
		for i := range c.nodes {
			c.mustSpend(i, key)
		}
		c.allAlive()
	})
}

// The owner of the system shard is bad: its successor changes the table that replaces its replica.
func TestTheSystemShardIsJudgedAsTheOthersAre(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newJudgingTrio(t)
		bad := c.owner(shard.System)
		r := c.nodes[bad].replicas.of(shard.System)
		r.group.View(func(s *shard.State) {
			record, _ := s.Lookup("d" + placement.PoliciesDocument)
			record.Value[len(record.Value)/2] ^= 1
		})
		if err := r.group.Snapshot(); err == nil {
			t.Fatal("there is a snapshot of a record that flipped")
		}
		c.awaitReplaced(r.Replica, bad)
		for i := range c.nodes {
			c.mustSpend(i, "key")
		}
		c.allAlive()
		c.comeBack(r.Replica, bad)
	})
}

// All three replicas differ, and none is missing. An operator gives up one node's copies by emptying its directory:
// they are rebuilt from the leader's, and these two are the majority against the third.
func TestWhoRunsTheClusterChoosesWhereAllReplicasDiffer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newJudgingTrio(t)
		key := keyOn(c.nodes[0], 1)
		c.mustSpend(0, key)
		good := c.owner(1)
		c.awaitEqual(1)
		bad, given := (good+1)%3, (good+2)%3
		flipBit(t, c.nodes[bad], 1, "stock", key, 3)
		flipBit(t, c.nodes[given], 1, "stock", key, 4)
		c.mustSpend(good, key)
		c.await("the shard has stopped", func(s *stintv1.StatusResponse) bool {
			return len(s.Problems) == 1 && strings.HasPrefix(s.Problems[0], "shard 1 has stopped") &&
				strings.HasSuffix(s.Problems[0], "(so say n1, n2, n3)")
		})
		c.stop(given)
		if err := c.configs[given].World.FS.RemoveAll(c.configs[given].DataDir); err != nil {
			t.Fatal(err)
		}
		c.start(given)
		c.await("the shard goes on with the leader's copy", func(s *stintv1.StatusResponse) bool {
			r := c.nodes[bad].replicas.of(1)
			return atRest(3)(s) && r != nil && r.Number != 1
		})
		c.ready(0, 1, 2)
		for i := range c.nodes {
			c.mustSpend(i, key)
		}
		if used := c.used(bad, "stock", key); used != 5 {
			t.Errorf("used %d, of the leader's copy it would be 5", used)
		}
		c.allAlive()
	})
}

// The only replica cannot be replaced. Its shard stops, the process keeps running for its other shards, and after a
// restart the records are those on disk.
func TestTheOnlyReplicaStopsWhenItsRecordsAreWrong(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		journal, config := newJournal(t), testConfig(t)
		config.Logger, config.Shards = journal.of("n1"), 4
		n := start(t, config)
		key, other := keyOn(n, 1), keyOn(n, 2)
		spend := func(key string) shard.Result { return ask(n, shard.Check, "stock", key) }
		for range 3 {
			if r := spend(key); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		flip(t, n, 1, "stock", key)
		if err := n.replicas.of(1).group.Snapshot(); err == nil {
			t.Fatal("there is a snapshot of a record that flipped")
		}
		if r := spend(key); r.Err == nil || r.Err.MaybeApplied() ||
			!strings.Contains(r.Err.Message, "this is its only replica") {
			t.Errorf("the shard that has stopped answers %+v", r)
		}
		if r := spend(other); r.Err != nil || !r.Decision.Allowed {
			t.Errorf("another shard answers %+v", r)
		}
		stale := shard.Request{Op: shard.Get, Namespace: shard.DefaultNamespace,
			Entries: []shard.Entry{{Policy: "stock", Key: key}}}
		if d, _, ok := n.stale.read(stale); ok {
			t.Errorf("a read of the records that are wrong is answered: %+v", d.Limits)
		}
		stale.Entries[0].Key = other
		if _, _, ok := n.stale.read(stale); !ok {
			t.Error("another shard's replica is not read")
		}
		await.Until(t, "it is said that the replica cannot be replaced", func() bool {
			return journal.says("n1", "cannot be replaced now") > 0
		})
		select {
		case err := <-n.Done():
			t.Fatalf("the node stops: %v", err)
		default:
		}
		s, err := n.admin.Status(t.Context())
		if err != nil || len(s.Problems) == 0 || !strings.Contains(s.Problems[0], "shard 1 has stopped") {
			t.Errorf("status tells %q, %v", s.Problems, err)
		}
		stop(t, n)
		n = start(t, config)
		defer stop(t, n)
		if r := spend(key); r.Err != nil || r.Decision.Limits[0].Used != 4 {
			t.Errorf("after the restart %+v", r)
		}
	})
}

// Two of five replicas are lost for good. Two equal ones among the other three are no majority.
func TestLostReplicasCountForTheMajority(t *testing.T) {
	g, reports := &placement.Group{Shard: 1}, map[string]placement.Report{}
	for i, node := range []string{"n1", "n2", "n3", "n4", "n5"} {
		g.Replicas = append(g.Replicas, placement.Replica{Node: node, Number: 1, Role: placement.Voter, Created: true,
			Lost: i >= 3})
		sum := shard.SumAt{Version: shard.SumVersion, Epoch: 5, Seq: 10, Sum: 8}
		if i == 0 {
			sum.Sum = 7
		}
		reports[node] = placement.Report{Node: node,
			Replicas: []placement.ReplicaReport{{Shard: 1, Number: 1, Epoch: 5, Seq: 20, Sums: []shard.SumAt{sum}}}}
	}
	voters, said := testify(g, reports)
	if len(voters) != 5 || len(said) != 3 {
		t.Errorf("%d of %d voters say something", len(said), len(voters))
	}
	if verdict, _ := placement.Judge("n1/1/1", voters, said); verdict != placement.Disputed {
		t.Errorf("two of five voters against one come to verdict %d", verdict)
	}
	g.Replicas[3].Lost = false
	voters, said = testify(g, reports)
	if verdict, _ := placement.Judge("n1/1/1", voters, said); verdict != placement.Convicted {
		t.Errorf("three of five voters against one come to verdict %d", verdict)
	}
}

// Evidence of convicted replicas does not fill the disk: the newest of each shard is kept for a week, and none when
// space is needed. A clock that was wrong once does not keep evidence for years, and drains no node.
func TestEvidenceIsBounded(t *testing.T) {
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	at := func(id shard.ID, number uint64) raftfsm.Replica { return raftfsm.Replica{Shard: id, Number: number} }
	ago := func(d time.Duration) raftfsm.Conviction { return raftfsm.Conviction{At: now.Add(-d)} }
	convicted := map[raftfsm.Replica]raftfsm.Conviction{
		at(1, 1): ago(3 * time.Hour), at(1, 4): ago(2 * time.Hour), at(1, 7): ago(time.Hour),
		at(2, 1): ago(6 * 24 * time.Hour), at(3, 1): ago(8 * 24 * time.Hour), at(4, 1): ago(-365 * 24 * time.Hour),
	}
	set := &replicaSet{now: func() time.Time { return now }, convicted: convicted}
	for r, c := range convicted {
		if want := r == at(1, 7) || r == at(2, 1); set.isEvidence(r, c, false) != want {
			t.Errorf("replica %+v, convicted at %v, is kept: %v", r, c.At, !want)
		}
		if set.isEvidence(r, c, true) {
			t.Errorf("replica %+v is kept although the disk is nearly full", r)
		}
	}
	if late := set.convictions(convictedAgain); len(late) != 3 {
		t.Errorf("within a day %d replicas were convicted, three were", len(late))
	}
}

// A replica is found to be wrong at the moment when a dispute is settled: it does not go on.
func TestASettledDisputeDoesNotAcquit(t *testing.T) {
	for range 50_000 {
		r := &replica{node: "n1", logger: slog.New(slog.DiscardHandler), changed: newNotifier()}
		r.dispute(shard.SumAt{})
		var diverging sync.WaitGroup
		diverging.Go(func() { r.diverge("its snapshot says so") })
		r.settleDispute()
		diverging.Wait()
		if r.stopped.Load() == nil {
			t.Fatal("a replica whose records are wrong decides")
		}
	}
}
