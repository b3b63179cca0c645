package raftfsm

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/internal/testing/memnet"
)

// Of two survivors only the one with the longer log can be elected. It may be the first that misses the leader; then it
// does not wait for another election timeout when the other one misses it, too.
func TestOwnerIsReplacedInTimeWhileAFollowerLags(t *testing.T) {
	for range 20 { // raft's timeouts are random
		synctest.Test(t, func(t *testing.T) {
			c := newTrio(t)
			defer c.stop(t)
			leader := c.leader(t, 0, 1, 2)
			o := lead(t, c.groups[leader])
			a, b := c.others(leader)[0], c.others(leader)[1]
			const entries = 20
			for i := range entries {
				if i == entries-1 {
					c.net.Break(lone.Name(nodeName(leader)), lone.Name(nodeName(b)))
				}
				if err := o.put(key(i), value(i)); err != nil {
					t.Fatal(err)
				}
			}
			if c.groups[a].raft.LastIndex() <= c.groups[b].raft.LastIndex() {
				t.Fatal("no follower lags")
			}
			c.net.Isolate(lone.Name(nodeName(leader)))
			lost := time.Now()
			next := c.leader(t, a, b)
			// Each survivor notices within three timeouts, and then they agree.
			if took := time.Since(lost); next != a || took > 3*heartbeatTimeout+2*preVoteEvery {
				t.Errorf("%s was elected after %v", nodeName(next), took)
			}
			lead(t, c.groups[next])
			mustHold(t, c.groups[next], entries)
		})
	}
}

// A pre-vote that is refused is asked for again, until it is granted, the term is over, or raft asks anew.
func TestAPreVoteIsAskedForAgain(t *testing.T) {
	for _, c := range []struct {
		what   string
		answer func(asked int) raft.RequestPreVoteResponse
		asked  int
		grants bool
	}{
		{"granted", func(int) raft.RequestPreVoteResponse {
			return raft.RequestPreVoteResponse{Term: 2, Granted: true}
		}, 1, true},
		{"granted later", func(asked int) raft.RequestPreVoteResponse {
			return raft.RequestPreVoteResponse{Term: 2, Granted: asked == 4}
		}, 4, true},
		{"refused", func(int) raft.RequestPreVoteResponse { return raft.RequestPreVoteResponse{Term: 2} }, 20, false},
		{"a newer term", func(int) raft.RequestPreVoteResponse { return raft.RequestPreVoteResponse{Term: 3} }, 1,
			false},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := memnet.New()
				a := newTransport(net.Listen("a"), quiet, func() bool { return false })
				defer a.Close()
				b := newTransport(net.Listen("b"), quiet, func() bool { return false })
				defer b.Close()
				asked, over := 0, make(chan struct{})
				defer close(over)
				calls := b.Consumer()
				go func() {
					for {
						select {
						case call := <-calls:
							asked++
							answer := c.answer(asked)
							call.Respond(&answer, nil)
						case <-over:
							return
						}
					}
				}()
				var got raft.RequestPreVoteResponse
				if err := a.RequestPreVote("b", "b", &raft.RequestPreVoteRequest{Term: 2}, &got); err != nil {
					t.Fatal(err)
				}
				if got.Granted != c.grants || asked != c.asked {
					t.Errorf("asked %d times, granted: %v; not %d times, %v", asked, got.Granted, c.asked, c.grants)
				}
			})
		})
	}
}
