package raftfsm

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// A voter that is told that its leader has died is elected at once: no heartbeat has to be missed.
func TestAVoterSucceedsALeaderThatHasDied(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet, leader string) {
		lead(t, f.groups[leader]).mustPut(t, 20)
		time.Sleep(2 * restMost) // all have it
		a, b := f.others(leader)[0], f.others(leader)[1]
		known, same := f.groups[a].Succession(), f.groups[b].Succession()
		if known != same || known.Leader != lone.Name(leader) || known.Term == 0 || known.LastTerm != known.Term ||
			known.LastIndex < 20 {
			t.Fatalf("the voters know %+v and %+v", known, same)
		}
		f.net.Isolate(lone.Name(leader))
		lost := time.Now()
		if !f.groups[a].Succeed(known.Leader, known.Term) {
			t.Fatal("it does not stand")
		}
		next := f.leader(t, leader)
		if took := time.Since(lost); next != a || took > heartbeatTimeout/4 {
			t.Errorf("%s was elected after %v", next, took)
		}
		lead(t, f.groups[a]).mustPut(t, 30)
	})
}

// A replica that must not stand does not, whichever member tells it to: the leader goes on in its term.
func TestWhoMustNotSucceedDoesNot(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet, leader string) {
		o := lead(t, f.groups[leader])
		o.mustPut(t, 5)
		learner := Replica{lone.Shard, 8}
		f.create(t, "n4", learner)
		change(t, f.groups[leader].AddLearner, f.groups[leader], learner.Name("n4"))
		f.open(t, "n4", learner)
		time.Sleep(heartbeatTimeout) // it has the log, and knows the leader
		follower := f.others(leader)[0]
		is := f.groups[follower].Succession()
		if got := f.groups["n4"].Succession(); got.Leader != is.Leader || got.Term != is.Term {
			t.Fatalf("the learner knows %+v", got)
		}
		if own := f.groups[leader].Succession(); own.Leader != "" || own.Term != is.Term {
			t.Errorf("the leader follows %+v", own)
		}
		for _, c := range []struct {
			what, node, leader string
			term               uint64
		}{
			{"the leader", leader, is.Leader, is.Term},
			{"the leader, which follows none", leader, "", is.Term},
			{"a learner", "n4", is.Leader, is.Term},
			{"a voter that follows another leader", follower, lone.Name(follower), is.Term},
			{"a voter of a later term", follower, is.Leader, is.Term - 1},
			{"a voter of an earlier term", follower, is.Leader, is.Term + 1},
		} {
			if f.groups[c.node].Succeed(c.leader, c.term) {
				t.Errorf("%s stands", c.what)
			}
			time.Sleep(heartbeatTimeout / 4)
			for node, g := range f.groups {
				if g.raft.CurrentTerm() != is.Term || g.Leading() != (node == leader) {
					t.Fatalf("%s: %s is in term %d, leading: %v", c.what, node, g.raft.CurrentTerm(), g.Leading())
				}
			}
		}
		o.mustPut(t, 5)
	})
}

// A voter stands once in a term, also when that elects no leader.
func TestAVoterStandsOnceInATerm(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet, leader string) {
		g := f.groups[f.others(leader)[0]]
		is := g.Succession()
		f.net.Isolate(g.name) // no member hears that it stands
		if !g.Succeed(is.Leader, is.Term) {
			t.Fatal("it does not stand")
		}
		time.Sleep(time.Millisecond)
		stood := g.raft.CurrentTerm()
		if g.Succeed(is.Leader, is.Term) || stood != is.Term+1 {
			t.Errorf("it stands again, and stood in term %d after %d", stood, is.Term)
		}
		f.net.Rejoin(g.name)
		f.leader(t)
	})
}

// askForVote asks a voter for its vote, as a candidate of that term to which the leader has handed over.
func askForVote(t *testing.T, f *fleet, voter *Group, term uint64) raft.RequestVoteResponse {
	t.Helper()
	candidate := newTransport(f.net.Listen("candidate"), quiet, func() bool { return false })
	defer candidate.Close()
	is := voter.Succession()
	name := []byte("candidate")
	asks := raft.RequestVoteRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: name, Addr: name}, Term: term,
		LastLogIndex: is.LastIndex + 1, LastLogTerm: is.LastTerm, LeadershipTransfer: true}
	var answer raft.RequestVoteResponse
	if err := candidate.RequestVote("", raft.ServerAddress(voter.name), &asks, &answer); err != nil {
		t.Error(err)
	}
	return answer
}

// A voter that has granted its vote does not stand: it would depose the leader that it has elected. Nor does one that
// is about to grant it.
func TestAVoterThatGrantedItsVoteDoesNotStand(t *testing.T) {
	for _, granting := range []bool{false, true} {
		inFleet(t, func(t *testing.T, f *fleet, leader string) {
			lead(t, f.groups[leader]).mustPut(t, 5)
			time.Sleep(2 * restMost)
			g := f.groups[f.others(leader)[0]]
			is := g.Succession()
			begins := make(chan raft.Observation)
			observer := raft.NewObserver(begins, true, func(o *raft.Observation) bool {
				_, votes := o.Data.(raft.RequestVoteRequest)
				return votes
			})
			g.raft.RegisterObserver(observer)
			granted, stands := make(chan bool, 1), make(chan bool, 1)
			go func() { granted <- askForVote(t, f, g, is.Term+1).Granted }()
			synctest.Wait() // raft has the request, and waits for its observer
			if granting {
				go func() { stands <- g.Succeed(is.Leader, is.Term) }()
				synctest.Wait()
			}
			<-begins
			g.raft.DeregisterObserver(observer)
			if !<-granted {
				t.Error("it granted no vote")
			}
			if !granting {
				stands <- g.Succeed(is.Leader, is.Term)
			}
			if <-stands {
				t.Errorf("granting: %v, it stands", granting)
			}
			if term := g.raft.CurrentTerm(); term != is.Term+1 {
				t.Errorf("granting: %v, it is in term %d, and voted in term %d", granting, term, is.Term+1)
			}
			f.leader(t)
		})
	}
}

// What a voter knows of its log includes what only a snapshot has.
func TestSuccessionKnowsTheSnapshot(t *testing.T) {
	w := openWorld(t, t.TempDir(), nil, "n1")
	defer w.close(t)
	if err := CreateGroup(w.Stores, lone, []string{lone.Name("n1")}); err != nil {
		t.Fatal(err)
	}
	g := w.openGroup(t, GroupConfig{Replica: lone, Lone: true, SnapshotEvery: 1 << 40})
	defer g.Shutdown()
	lead(t, g).mustPut(t, 3)
	before := g.Succession()
	if err := g.Snapshot(); err != nil {
		t.Fatal(err)
	}
	after := g.Succession()
	if after != before || after.LastIndex == 0 || after.LastTerm == 0 || g.Status().SnapshotIndex == 0 {
		t.Errorf("before the snapshot %+v, after it %+v", before, after)
	}
}
