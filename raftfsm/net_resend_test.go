package raftfsm

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/memnet"
)

// Entries that were lost on their way are sent again as soon as the follower answers heartbeats, and raft is told of
// the loss only if that takes too long.
func TestEntriesAreSentAgainOnceTheFollowerAnswers(t *testing.T) {
	const at = 300 * time.Millisecond // not on a beat
	const soon = at + 3*beatEvery
	for _, c := range []struct {
		what string
		lost func(net *memnet.Net, hung *atomic.Bool)               // before the entries are sent
		back func(net *memnet.Net, a *transport, hung *atomic.Bool) // after at; nil: never
		want error                                                  // errAny: whichever
		most time.Duration                                          // until raft has the outcome
	}{
		{what: "its connections break, and it can be reached at once", lost: func(net *memnet.Net, _ *atomic.Bool) {
			net.Break("a", "b")
			net.Mend("a", "b")
		}},
		{what: "it can be reached again", lost: func(net *memnet.Net, _ *atomic.Bool) { net.Isolate("b") },
			back: func(net *memnet.Net, _ *transport, _ *atomic.Bool) { net.Rejoin("b") }, most: soon},
		{what: "it cannot be reached", lost: func(net *memnet.Net, _ *atomic.Bool) { net.Isolate("b") }, want: errAny,
			most: resendWithin + beatEvery},
		{what: "the group is shut down", lost: func(net *memnet.Net, _ *atomic.Bool) { net.Isolate("b") },
			back: func(_ *memnet.Net, a *transport, _ *atomic.Bool) { a.end() }, want: errAny, most: at},
		{what: "the disk hung", lost: func(_ *memnet.Net, hung *atomic.Bool) { hung.Store(true) },
			back: func(_ *memnet.Net, _ *transport, hung *atomic.Bool) { hung.Store(false) }, most: soon},
		{what: "the disk hangs", lost: func(_ *memnet.Net, hung *atomic.Bool) {
			hung.Store(true)
		}, want: errHungDisk, most: resendWithin + beatEvery},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net, hung := memnet.New(), new(atomic.Bool)
				a := newTransport(net.Listen("a"), quiet, hung.Load)
				b := newTransport(net.Listen("b"), quiet, func() bool { return false })
				defer a.Close()
				defer b.Close()
				ended := make(chan struct{})
				defer close(ended)
				go func() { // the follower
					for {
						select {
						case call := <-b.Consumer():
							call.Respond(&raft.AppendEntriesResponse{Term: 1, Success: true}, nil)
						case <-ended:
							return
						}
					}
				}()
				beat := func() {
					a.AppendEntries("b", "b", &raft.AppendEntriesRequest{Term: 1}, new(raft.AppendEntriesResponse))
				}
				beat()
				go func() { // the leader's heartbeats
					for {
						select {
						case <-ended:
							return
						case <-time.After(heartbeatTimeout / 10): // as raft waits between two
							beat()
						}
					}
				}()
				began := time.Now()
				c.lost(net, hung)
				if c.back != nil {
					time.AfterFunc(at, func() { c.back(net, a, hung) })
				}
				var resp raft.AppendEntriesResponse
				err := a.AppendEntries("b", "b",
					&raft.AppendEntriesRequest{Term: 1, Entries: []*raft.Log{{Index: 1, Term: 1}}}, &resp)
				if (err != nil) != (c.want != nil) || c.want != errAny && !errors.Is(err, c.want) ||
					resp.Success != (err == nil) {
					t.Errorf("got %v and %+v, want %v", err, resp, c.want)
				}
				if took := time.Since(began); took > c.most {
					t.Errorf("it took %v, more than %v", took, c.most)
				}
			})
		})
	}
}

var errAny = errors.New("any")

// When the connections of a leader to its followers break, as they do when the cluster key is rotated, an entry that
// was on its way is committed all the same: no client has to write another one, or to wait for raft's commit timeout.
func TestAnEntryOutlivesTheConnectionsThatCarriedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t)
		defer c.stop(t)
		at := c.leader(t, 0, 1, 2)
		o := lead(t, c.groups[at])
		for i := range 20 {
			began := time.Now()
			written := make(chan error)
			go func() { written <- o.put(key(i), value(i)) }()
			for _, other := range c.others(at) {
				c.net.Break(lone.Name(nodeName(at)), lone.Name(nodeName(other)))
			}
			time.Sleep(time.Duration(i) * time.Millisecond)
			for _, other := range c.others(at) {
				c.net.Mend(lone.Name(nodeName(at)), lone.Name(nodeName(other)))
			}
			if err := <-written; err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > heartbeatTimeout/2 {
				t.Errorf("an entry whose connections broke for %d ms took %v", i, took)
			}
		}
	})
}

// A follower that was away while the others went on is sent what it lacks as soon as it answers. raft alone would have
// gone over to a try every ten seconds.
func TestAFollowerThatWasAwayIsNotKeptWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t)
		defer c.stop(t)
		at := c.leader(t, 0, 1, 2)
		o, away := lead(t, c.groups[at]), c.others(at)[0]
		c.net.Isolate(lone.Name(nodeName(away)))
		const entries = 300
		for i := range entries {
			if err := o.put(key(i), value(i)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		c.net.Rejoin(lone.Name(nodeName(away)))
		back := time.Now()
		await.Until(t, "it has all entries", func() bool {
			return c.groups[away].raft.LastIndex() == c.groups[at].raft.LastIndex()
		})
		if took := time.Since(back); took > heartbeatTimeout {
			t.Errorf("it lacked entries for another %v", took)
		}
		c.agree(t, entries)
	})
}
