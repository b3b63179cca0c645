package raftfsm

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/internal/testing/memnet"
)

// Only an answer that no commit needs is withheld, and only while the others commit without it.
func TestFollowerRestsWhileTheOthersCommit(t *testing.T) {
	const last, tick = 100, restLook / 5
	for _, c := range []struct {
		what     string
		progress func(since time.Duration) (committed, newest uint64)
		exchange time.Duration
		end      time.Duration // when the group is shut down; 0: it is not
		want     time.Duration
	}{
		{what: "a commit waits for it", progress: func(time.Duration) (uint64, uint64) {
			return last - 1, last
		}, want: 0},
		{what: "it lacks many entries", progress: func(time.Duration) (uint64, uint64) {
			return last, last + restEntries
		}, want: 0},
		{what: "nothing more is proposed", progress: func(time.Duration) (uint64, uint64) {
			return last, last
		}, want: restLook},
		{what: "the others do not answer", progress: func(since time.Duration) (uint64, uint64) {
			return last, last + min(1, uint64(since/tick))
		}, want: restLook},
		{what: "they stop answering", progress: func(since time.Duration) (uint64, uint64) {
			return last + min(7, uint64(since/tick)), last + 10
		}, want: 3 * restLook},
		{what: "they commit", progress: func(since time.Duration) (uint64, uint64) {
			return last + uint64(since/restLook), last + uint64(since/restLook)
		}, want: restMost},
		{what: "they commit slowly", progress: func(since time.Duration) (uint64, uint64) {
			return last + uint64(since/(3*restLook)), last + 10
		}, exchange: restLook, want: 60 * time.Millisecond},
		{what: "many entries gather", progress: func(since time.Duration) (uint64, uint64) {
			return last + 2*uint64(since/tick), last + 2*uint64(since/tick)
		}, want: 4 * restLook},
		{what: "the group is shut down", progress: func(since time.Duration) (uint64, uint64) {
			return last + uint64(since/tick), last + uint64(since/tick)
		}, end: restLook / 2, want: restLook / 2},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				trans := newTransport(memnet.New().Listen("a"), quiet, func() bool { return false })
				defer trans.Close()
				began := time.Now()
				trans.exchange = c.exchange
				trans.progress = func() (uint64, uint64) { return c.progress(time.Since(began)) }
				if c.end > 0 {
					time.AfterFunc(c.end, trans.end)
				}
				trans.rest(last)
				if took := time.Since(began); took != c.want {
					t.Errorf("it rested for %v, not %v", took, c.want)
				}
			})
		})
	}
}

// Under load one follower gets each entry at once, and the other one many at a time. Each of them suffices when the
// other one is gone, and both end with all entries.
func TestOneFollowerOfThreeRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTrio(t)
		defer c.stop(t)
		leader := c.leader(t, 0, 1, 2)
		o := lead(t, c.groups[leader])
		const entries = 400
		lag := 0
		put := func(n int) (worst time.Duration) {
			for i := range n {
				began := time.Now()
				if err := o.put(key(i), value(i)); err != nil {
					t.Fatal(err)
				}
				worst = max(worst, time.Since(began))
				time.Sleep(time.Millisecond)
				for _, f := range c.others(leader) {
					lag = max(lag, int(c.groups[leader].raft.LastIndex()-c.groups[f].raft.LastIndex()))
				}
			}
			return worst
		}
		put(entries)
		if lag < 5 || lag > recentEntries {
			t.Errorf("the follower that rests lacked at most %d entries", lag)
		}
		c.agree(t, entries)
		for _, f := range c.others(leader) {
			c.net.Isolate(lone.Name(nodeName(f)))
			if worst := put(entries); worst > 2*restMost {
				t.Errorf("without %s, an entry took %v", nodeName(f), worst)
			}
			c.net.Rejoin(lone.Name(nodeName(f)))
			c.agree(t, entries)
		}
	})
}
