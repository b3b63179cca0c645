package raftfsm

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/internal/testing/memnet"
)

// Heartbeats that are due at different times leave at the same instant. Nothing else waits, nor does a group that is
// shut down.
func TestHeartbeatsOfAllGroupsLeaveTogether(t *testing.T) {
	const groups = 8
	entry := []*raft.Log{{Index: 1, Term: 1, Type: raft.LogNoop}}
	for _, c := range []struct {
		what  string
		asks  raft.AppendEntriesRequest
		ended bool
		waits bool
	}{
		{what: "a heartbeat", asks: raft.AppendEntriesRequest{Term: 1}, waits: true},
		{what: "the first entry", asks: raft.AppendEntriesRequest{Term: 1, Entries: entry}},
		{what: "what is committed", asks: raft.AppendEntriesRequest{Term: 1, LeaderCommitIndex: 1}},
		{what: "the newest entry", asks: raft.AppendEntriesRequest{Term: 1, PrevLogEntry: 1}},
		{what: "a heartbeat of a group that is shut down", asks: raft.AppendEntriesRequest{Term: 1}, ended: true},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := memnet.New()
				arrived := make(chan time.Time, groups)
				began := time.Now()
				for i := range groups {
					time.Sleep(beatEvery / (groups + 2))
					leader, follower := groupOnly(t, net, i, arrived)
					if c.ended {
						leader.end()
					}
					asks := c.asks // it is the caller's, and is changed
					go leader.AppendEntries("", raft.ServerAddress(follower), &asks, new(raft.AppendEntriesResponse))
				}
				instants := make(map[time.Duration]bool)
				for range groups {
					instants[(<-arrived).Sub(began)] = true
				}
				if c.waits && (len(instants) != 1 || !instants[beatEvery]) || !c.waits && len(instants) != groups {
					t.Errorf("%d groups sent at %v", groups, instants)
				}
			})
		})
	}
}

// groupOnly makes the transports of a group's leader and of its follower, which answers every request and says when it
// came.
func groupOnly(t *testing.T, net *memnet.Net, i int, arrived chan<- time.Time) (leader *transport, follower string) {
	t.Helper()
	follower = fmt.Sprintf("b%d", i)
	a := newTransport(net.Listen(fmt.Sprintf("a%d", i)), quiet, func() bool { return false })
	b := newTransport(net.Listen(follower), quiet, func() bool { return false })
	over := make(chan struct{})
	t.Cleanup(func() {
		close(over)
		a.Close()
		b.Close()
	})
	calls := b.Consumer()
	go func() {
		for {
			select {
			case call := <-calls:
				arrived <- time.Now()
				call.Respond(&raft.AppendEntriesResponse{Term: 1, Success: true}, nil)
			case <-over:
				return
			}
		}
	}()
	return a, follower
}

// A node that stood still makes up for it at once. Without that, followers of an idle group could miss a leader that
// stood still for less than half of their timeout.
func TestALateHeartbeatWaitsForNoBeat(t *testing.T) {
	for _, c := range []struct {
		silent time.Duration
		waits  bool
	}{{2 * beatEvery, true}, {beatLate + 1, false}, {heartbeatTimeout, false}, {heartbeatTimeout + 1, true}} {
		synctest.Test(t, func(t *testing.T) {
			arrived := make(chan time.Time, 1)
			leader, follower := groupOnly(t, memnet.New(), 0, arrived)
			time.Sleep(beatEvery/2 - c.silent%beatEvery + beatEvery) // so that the heartbeat is due between two beats
			leader.note(follower, 1)
			time.Sleep(c.silent)
			due := time.Now()
			go leader.AppendEntries("", raft.ServerAddress(follower), &raft.AppendEntriesRequest{Term: 1},
				new(raft.AppendEntriesResponse))
			if waited := (<-arrived).Sub(due); (waited == beatEvery/2) != c.waits || !c.waits && waited != 0 {
				t.Errorf("silent for %v: the heartbeat waited %v", c.silent, waited)
			}
		})
	}
}

// A wait for a beat is never longer than the time between two, whatever the clock says.
func TestNoWaitIsLongerThanABeat(t *testing.T) {
	for _, now := range []time.Time{{}, time.Unix(0, 0), time.Unix(-1, 1), time.Unix(0, int64(beatEvery)),
		time.Unix(1<<40, 999_999_999)} {
		for _, more := range []time.Duration{0, 1, beatEvery / 2, beatEvery - 1} {
			if wait := untilBeat(now.Add(more)); wait <= 0 || wait > beatEvery {
				t.Errorf("at %v it waits %v", now.Add(more), wait)
			}
		}
	}
}

// A heartbeat says no more than a follower of this term is known to have, and nothing when the term is over.
func TestAHeartbeatSaysWhatIsCommitted(t *testing.T) {
	const term = 5
	entries := []*raft.Log{{Index: 8, Term: 4}, {Index: 9, Term: term}}
	for _, c := range []struct {
		what      string
		accepted  *raft.AppendEntriesRequest // nil: nothing yet
		refused   bool                       // a later heartbeat that named that entry
		committed uint64
		want      raft.AppendEntriesRequest
	}{
		{what: "nothing was accepted", committed: 9, want: raft.AppendEntriesRequest{Term: term}},
		{what: "entries were accepted", accepted: &raft.AppendEntriesRequest{Term: term, PrevLogEntry: 7,
			PrevLogTerm: 4, Entries: entries},
			committed: 8, want: raft.AppendEntriesRequest{Term: term, PrevLogEntry: 9, PrevLogTerm: term,
				LeaderCommitIndex: 8}},
		{what: "the newest entry was", accepted: &raft.AppendEntriesRequest{Term: term, PrevLogEntry: 7,
			PrevLogTerm: 4},
			committed: 7, want: raft.AppendEntriesRequest{Term: term, PrevLogEntry: 7, PrevLogTerm: 4,
				LeaderCommitIndex: 7}},
		{what: "more is committed", accepted: &raft.AppendEntriesRequest{Term: term, PrevLogEntry: 7, PrevLogTerm: 4},
			committed: 9, want: raft.AppendEntriesRequest{Term: term, PrevLogEntry: 7, PrevLogTerm: 4,
				LeaderCommitIndex: 7}},
		{what: "in another term", accepted: &raft.AppendEntriesRequest{Term: term - 1, PrevLogEntry: 7, PrevLogTerm: 4},
			committed: 9, want: raft.AppendEntriesRequest{Term: term}},
		{what: "the term is over", accepted: &raft.AppendEntriesRequest{Term: term, Entries: entries},
			want: raft.AppendEntriesRequest{Term: term}},
		{what: "the entry was lost", accepted: &raft.AppendEntriesRequest{Term: term, Entries: entries}, refused: true,
			committed: 9, want: raft.AppendEntriesRequest{Term: term}},
	} {
		trans := newTransport(memnet.New().Listen("a"), quiet, func() bool { return false })
		trans.committed = func(in uint64) uint64 {
			if in != term {
				t.Errorf("%s: asked about term %d", c.what, in)
			}
			return c.committed
		}
		if c.accepted != nil {
			trans.accepted("b", 0, c.accepted)
		}
		if c.refused {
			trans.unmatch("b")
		}
		trans.note("b", 0)
		if got := trans.telling("b", &raft.AppendEntriesRequest{Term: term}); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: it says %+v, want %+v", c.what, got, c.want)
		}
		trans.Close()
	}
}

// A follower that has lost what it had hears that there is a leader all the same, in the same beat.
func TestAFollowerThatLostAnEntryHearsItsLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := memnet.New()
		a := newTransport(net.Listen("a"), quiet, func() bool { return false })
		b := newTransport(net.Listen("b"), quiet, func() bool { return false })
		defer a.Close()
		defer b.Close()
		a.committed = func(uint64) uint64 { return 7 }
		a.accepted("b", 7, &raft.AppendEntriesRequest{Term: 1, PrevLogEntry: 7, PrevLogTerm: 1})
		calls := b.Consumer()
		var got []uint64
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			for range 3 {
				call := <-calls
				entry := call.Command.(*raft.AppendEntriesRequest).PrevLogEntry
				got = append(got, entry)
				call.Respond(&raft.AppendEntriesResponse{Term: 1, Success: entry == 0}, nil)
			}
		}()
		for range 2 {
			var resp raft.AppendEntriesResponse
			if err := a.AppendEntries("", "b", &raft.AppendEntriesRequest{Term: 1}, &resp); err != nil ||
				!resp.Success {
				t.Fatalf("%+v, %v", resp, err)
			}
		}
		<-answered
		if want := []uint64{7, 0, 0}; !slices.Equal(got, want) {
			t.Errorf("heartbeats named entries %v, want %v", got, want)
		}
	})
}

// What is committed in one term is no news about another.
func TestWhatIsCommittedIsSaidInItsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t)
		defer c.stop(t)
		leader := c.groups[c.leader(t, 0, 1, 2)]
		o := lead(t, leader)
		if err := o.put(key(0), value(0)); err != nil {
			t.Fatal(err)
		}
		term := leader.raft.CurrentTerm()
		if got, want := leader.committed(term), leader.raft.CommitIndex(); got != want || got == 0 {
			t.Errorf("%d is committed, want %d", got, want)
		}
		for _, other := range []uint64{term - 1, term + 1} {
			if got := leader.committed(other); got != 0 {
				t.Errorf("in term %d, %d is committed; it is term %d", other, got, term)
			}
		}
	})
}

// The followers of a group that has become idle learn from the next heartbeat what is committed, and so does one that
// starts again. raft's own word would come a second later.
func TestFollowersOfAnIdleGroupKnowWhatIsCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t)
		defer c.stop(t)
		leader := c.leader(t, 0, 1, 2)
		o := lead(t, c.groups[leader])
		time.Sleep(3 * commitTimeout)
		if err := o.put(key(0), value(0)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(restMost) // both have the entry by now
		time.Sleep(3 * beatEvery)
		for _, f := range c.others(leader) {
			mustHold(t, c.groups[f], 1)
		}
		again := c.others(leader)[0]
		c.groups[again].Shutdown()
		c.start(t, again)
		time.Sleep((keptConnections + 1) * 3 * beatEvery) // a heartbeat finds that each kept connection has ended
		mustHold(t, c.groups[again], 1)
	})
}
