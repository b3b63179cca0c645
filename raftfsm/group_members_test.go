package raftfsm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/memfs"
	"github.com/stint-io/stint/shard"
)

// One voter becomes three, by way of learners that caught up. Then any of the three can be lost.
func TestLoneGroupGrowsToThree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		defer f.stop(t)
		f.create(t, "n1", lone, lone.Name("n1"))
		g, err := f.tryOpen(t, "n1", GroupConfig{Replica: lone, Lone: true})
		if err != nil {
			t.Fatal(err)
		}
		lead(t, g).mustPut(t, 30)
		_, index, _ := g.Members()
		if err := g.AddLearner(lone.Name("n2"), index); err != nil {
			t.Errorf("a learner in a group of one: %v", err)
		}
		_, index, _ = g.Members()
		mustCode(t, "a second voter with the timing of one", g.Promote(lone.Name("n2"), index), shard.Invalid)
		f.shutdown("n1")

		g = f.open(t, "n1", lone)
		o := lead(t, g)
		change(t, g.Remove, g, lone.Name("n2"))
		f.join(t, g, "n2", Replica{lone.Shard, 8})
		f.join(t, g, "n3", Replica{lone.Shard, 9})
		mustBe(t, g, "n1/1/7", "n2/1/8", "n3/1/9")
		o.mustPut(t, 40)
		f.agree(t, 40)
		for _, node := range f.others() {
			mustBe(t, f.groups[node], "n1/1/7", "n2/1/8", "n3/1/9")
		}

		f.shutdown("n1")
		if _, err := f.tryOpen(t, "n1", GroupConfig{Replica: lone, Lone: true}); err == nil ||
			!strings.Contains(err.Error(), "open it without Lone") {
			t.Errorf("one of three was opened as the only voter: %v", err)
		}
		lead(t, f.groups[f.leader(t)]).mustPut(t, 50)
		f.open(t, "n1", lone)
		f.agree(t, 50)
	})
}

func TestLearnerIsPromotedWhenItHasCaughtUp(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet, leader string) {
		g := f.groups[leader]
		o := lead(t, g)
		const n = caughtUpEntries + 500
		for i := range n {
			o.Propose(o.next(key(i), value(i)))
		}
		r := Replica{lone.Shard, 8}
		name := r.Name("n4")
		_, index, _ := g.Members()
		mustCode(t, "promoting nobody", g.Promote(name, index), shard.Invalid)
		f.create(t, "n4", r)
		change(t, g.AddLearner, g, name)
		_, index, _ = g.Members()
		mustCode(t, "promoting a replica that does not run", g.Promote(name, index), shard.Unavailable)

		f.net.Delay("", name, 300*time.Millisecond)
		f.open(t, "n4", r)
		await.Until(t, "a refusal for what is missing", func() bool {
			err := g.Promote(name, index)
			if err == nil {
				t.Fatal("promoted before it caught up")
			}
			return strings.Contains(err.Error(), "it has not caught up")
		})
		f.net.Delay("", name, 0)
		change(t, g.Promote, g, name)
		f.agree(t, n)
	})
}

// Every change names the configuration that it was decided upon, and only the leader makes it.
func TestMembershipOrdersAreChecked(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet, leader string) {
		g, follower := f.groups[leader], f.groups[f.others(leader)[0]]
		lead(t, g)
		_, index, _ := g.Members()
		const newcomer = "n4/1/8"
		mustCode(t, "an order to a follower", follower.AddLearner(newcomer, index), shard.NotOwner)
		mustCode(t, "an order without an index", g.AddLearner(newcomer, 0), shard.Conflict)
		mustCode(t, "an order for another index", g.AddLearner(newcomer, index+1), shard.Conflict)
		mustCode(t, "a voter as a learner", g.AddLearner(follower.name, index), shard.Invalid)
		mustCode(t, "its own removal", g.Remove(g.name, index), shard.Invalid)
		mustBe(t, g, "n1/1/7", "n2/1/7", "n3/1/7")
		if err := g.AddLearner(newcomer, index); err != nil {
			t.Fatal(err)
		}
		mustBe(t, g, "n1/1/7", "n2/1/7", "n3/1/7", "-"+newcomer)
		mustCode(t, "an order decided upon the configuration before", g.Remove(newcomer, index), shard.Conflict)
		_, index, _ = g.Members()
		for what, err := range map[string]error{
			"adding a learner again": g.AddLearner(newcomer, index),
			"promoting a voter":      g.Promote(follower.name, index),
			"removing nobody":        g.Remove("n9/1/9", index),
		} {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, after, _ := g.Members(); after != index {
			t.Errorf("what changed nothing made configuration %d", after)
		}
	})
}

// A change that cannot be committed ends in time with an unknown outcome.
func TestChangeWithoutAMajorityEnds(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet, leader string) {
		g := f.groups[leader]
		lead(t, g)
		_, index, settled := g.Settled()
		if !settled {
			t.Error("the configuration by which it was elected is not committed")
		}
		f.net.Cut(g.name, "") // no other member receives the change
		f.net.Cut("", g.name)
		started := time.Now()
		mustCode(t, "a change while cut off", g.AddLearner("n4/1/8", index), shard.UnknownOutcome)
		if took := time.Since(started); took > enqueueTimeout+changeTimeout {
			t.Errorf("ended after %v", took)
		}
		if members, at, settled := g.Settled(); settled || at == index || len(members) != 4 {
			t.Errorf("what nobody else knows of is settled: %v, %v", settled, members)
		}
		f.leader(t, leader)
		f.net.Heal()
		await.Until(t, "the end of the change that nobody else saw", func() bool {
			members, _, _ := g.Members()
			return len(members) == 3
		})
	})
}

// A replica that was removed without learning of it keeps asking for votes. This does not disturb the group.
func TestRemovedReplicaDoesNotDisturb(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet, leader string) {
		g := f.groups[leader]
		o := lead(t, g)
		o.mustPut(t, 10)
		gone := f.others(leader)[0]
		f.net.Isolate(lone.Name(gone))
		change(t, g.Remove, g, lone.Name(gone))
		f.net.Rejoin(lone.Name(gone))
		term := g.raft.CurrentTerm()
		for range 30 {
			time.Sleep(heartbeatTimeout)
			o.mustPut(t, 1)
		}
		if now := g.raft.CurrentTerm(); now != term || !g.Leading() {
			t.Errorf("the removed replica moved the group from term %d to %d", term, now)
		}
		if f.groups[gone].Leading() {
			t.Error("the removed replica leads")
		}

		// Its node gets another replica, under another number.
		f.shutdown(gone)
		if err := DestroyGroup(f.worlds[gone].Stores, lone); err != nil {
			t.Fatal(err)
		}
		f.join(t, g, gone, Replica{lone.Shard, 8})
		f.agree(t, 10)
	})
}

// A voter that missed a membership change votes for the voter that the change added: these two have all committed
// entries, and the third voter is lost.
func TestVoterThatMissedAChangeVotes(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet, leader string) {
		g := f.groups[leader]
		o := lead(t, g)
		o.mustPut(t, 10)
		behind, gone := f.others(leader)[0], f.others(leader)[1]
		f.net.Isolate(lone.Name(behind))
		f.join(t, g, "n4", Replica{lone.Shard, 8})
		change(t, g.Remove, g, lone.Name(gone))
		f.shutdown(gone)
		o.mustPut(t, 20)
		await.Until(t, "the newcomer has all", func() bool {
			return f.groups["n4"].Status().AppliedIndex == g.Status().AppliedIndex
		})
		f.wipe(t, leader)
		f.net.Heal()
		if now := f.leader(t); now != "n4" {
			t.Errorf("%s leads", now)
		}
		lead(t, f.groups["n4"]).mustPut(t, 30)
		mustHold(t, f.groups["n4"], 20)
	})
}

// A voter that does not know yet that it is one votes. The leader wrote the change into its own log only. One of the
// voters that all others know is lost, so no leader can be elected without the new voter.
func TestVoterThatDoesNotKnowItYetVotes(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet, leader string) {
		g := f.groups[leader]
		o := lead(t, g)
		o.mustPut(t, 10)
		r := Replica{lone.Shard, 8}
		name := r.Name("n4")
		f.create(t, "n4", r)
		change(t, g.AddLearner, g, name)
		f.open(t, "n4", r)
		await.Until(t, "the newcomer has all", func() bool {
			return f.groups["n4"].Status().AppliedIndex == g.Status().AppliedIndex
		})
		_, index, _ := g.Members()
		f.shutdown(f.others(leader, "n4")[0])
		f.net.Isolate(g.name)
		mustCode(t, "a vote that nobody hears of", g.Promote(name, index), shard.UnknownOutcome)
		await.Until(t, "the end of its office", func() bool { return !g.Leading() })
		time.Sleep(time.Minute) // raft sends once more what it had to send when it led: no member may hear that either
		f.net.Heal()
		if now := f.leader(t); now != leader {
			t.Errorf("%s leads, whose log lacks an entry", now)
		}
		lead(t, g).mustPut(t, 20)
		mustHold(t, g, 20)
	})
}

// Members returns what raft believes, after any history of the group: changes that were cut off with their leader,
// snapshots, restarts.
func TestMembersFollowTheLog(t *testing.T) {
	for seed := range uint64(6) {
		inFleet(t, func(t *testing.T, f *fleet, _ string) {
			random := rand.New(rand.NewPCG(seed, 0))
			for step := range 12 {
				leader := f.leader(t)
				g := f.groups[leader]
				_, index, _ := g.Members()
				switch random.IntN(6) {
				case 0: // a change that only the leader has
					f.net.Cut(g.name, "")
					f.net.Cut("", g.name)
					g.AddLearner(fmt.Sprintf("n8/1/%d", 100+step), index)
					f.leader(t, leader)
					f.net.Heal()
				case 1: // a change with lost answers, which the next leader makes
					f.net.Cut("", g.name)
					g.AddLearner(fmt.Sprintf("n9/1/%d", 100+step), index)
					f.leader(t, leader)
					f.net.Heal()
				case 2:
					g.AddLearner(fmt.Sprintf("n9/1/%d", 100+step), index)
				case 3:
					if members, _, _ := g.Members(); len(members) > 3 {
						g.Remove(members[3].Name, index)
					}
				case 4:
					g.Snapshot()
				case 5:
					f.halt(t, leader)
					f.open(t, leader, lone)
				}
				time.Sleep(3 * time.Second)
				synctest.Wait() // including events at this very instant
				f.compareMembers(t, seed, step)
			}
		})
	}
}

// compareMembers compares each replica's Members with raft, and with the others.
func (f *fleet) compareMembers(t *testing.T, seed uint64, step int) {
	t.Helper()
	told := make(map[string]bool)
	for node, g := range f.groups {
		members, index, err := g.Members()
		believed := g.raft.GetConfiguration()
		if err := errors.Join(err, believed.Error()); err != nil {
			t.Fatal(err)
		}
		var want []Member
		for _, s := range believed.Configuration().Servers {
			want = append(want, Member{string(s.ID), s.Suffrage == raft.Voter})
		}
		if fmt.Sprint(members) != fmt.Sprint(want) {
			t.Fatalf("seed %d, step %d: %s tells %v, raft believes %v", seed, step, node, members, want)
		}
		told[fmt.Sprint(index, members)] = true
	}
	if len(told) != 1 {
		t.Fatalf("seed %d, step %d: three replicas tell %v", seed, step, told)
	}
}

// A replica that received its state as a snapshot knows the members from it.
func TestMembersComeWithTheSnapshot(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet, leader string) {
		g := f.groups[leader]
		behind := f.others(leader)[0]
		f.shutdown(behind)
		o := lead(t, g)
		change(t, g.AddLearner, g, "n4/1/8")
		var last func() (shard.Outcome, error)
		for i := range trailingEntries + 100 {
			last = o.Propose(o.next(key(i), value(i)))
		}
		if _, err := last(); err != nil {
			t.Fatal(err)
		}
		if err := g.Snapshot(); err != nil {
			t.Fatal(err)
		}
		want, index, _ := g.Members()
		for range 2 { // from the leader's snapshot, then from its own
			late := f.open(t, behind, lone)
			f.agree(t, 100)
			if got, at, _ := late.Members(); at != index || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("members of configuration %d are %v, want %v of %d", at, got, want, index)
			}
			f.halt(t, behind)
		}
	})
}

// A member was added, and nothing was proposed since. The log can be shortened nevertheless: raft must know that the
// entry with the configuration is applied.
func TestIdleGroupIsSnapshottedAfterAMove(t *testing.T) {
	w := openWorld(t, t.TempDir(), memfs.New(), "n1")
	g := w.loneGroup(t)
	lead(t, g).mustPut(t, 3)
	change(t, g.AddLearner, g, "n2/1/8")
	_, index, _ := g.Members()
	if err := g.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if at := g.Status().SnapshotIndex; at < index {
		t.Errorf("the snapshot is of entry %d, the member came with %d", at, index)
	}
	g.Shutdown()
	w.close(t)
}
