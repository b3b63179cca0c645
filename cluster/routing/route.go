package routing

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/shard"
)

// probeEvery limits how often callers probe while no owner of a shard is found: one caller per interval, on behalf of
// all. This is the retry budget (R20): all requests waiting for a shard together ask 20 times a second.
const probeEvery = 50 * time.Millisecond

// shardRoute is the state of the route to one shard, shared by all requests to it.
type shardRoute struct {
	id            shard.ID
	sessions      sessionPool
	news          notifier      // of changes that may lead to the owner
	turn          atomic.Uint32 // index of the voter to ask first when there is no evidence
	lost          atomic.Bool   // all known nodes were asked, none was the owner, and no news came since
	exhausted     atomic.Bool   // callers that asked all nodes in vain wait for their turn
	decisionsSeen atomic.Uint64 // decisions received while lost or exhausted was set

	mu       sync.Mutex
	attempts []*attempt // canceled when another node seems to be the owner
	probed   time.Time  // when a caller last asked on behalf of all (mayAsk)
	seen     evidence   // as of the latest change
	voters   []string   // as of the latest change
}

// evidence is what this node knows about a shard's owner.
type evidence struct {
	owner  Owner       // the local actor, also one that is not open; nil: there is none
	open   bool        // this node is the owner
	leader string      // of the Raft group, according to our replica
	hint   gossip.Hint // without a node if there is none
}

func (r *Router) evidence(id shard.ID) (known evidence) {
	known.owner, known.open = r.config.Local(id)
	known.leader = r.config.Leader(id)
	known.hint, _ = r.config.Hints.Lookup(id)
	return known
}

// outbids reports whether known is newer than before and names an owner other than the asked node. Our own replica
// counts only when it is open; leading is not enough.
func (known *evidence) outbids(before *evidence, asked, self string) bool {
	return known.open && !before.open && asked != self ||
		known.hint.Epoch > before.hint.Epoch && known.hint.Node != asked ||
		known.leader != "" && known.leader != before.leader && known.leader != asked && known.leader != self
}

// same reports whether two states lead to the same nodes. An actor that is not open is not asked, so it does not count.
func (known *evidence) same(other *evidence) bool {
	return known.open == other.open && known.leader == other.leader && known.hint == other.hint
}

// attempt is a call in flight to a node that can be canceled in favor of a better node. Its route's mutex guards it.
type attempt struct {
	node   string
	before evidence // that led to node
	cancel context.CancelFunc
	place  int  // index in the route's attempts
	moved  bool // it was canceled for a better node
}

// begin registers a, so that news can cancel it. It returns false if there were news since count.
func (w *shardRoute) begin(a *attempt, count uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.news.count() != count {
		return false
	}
	a.place = len(w.attempts)
	w.attempts = append(w.attempts, a)
	return true
}

// end unregisters a and reports whether it was canceled in favor of a better node.
func (w *shardRoute) end(a *attempt) (moved bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := len(w.attempts) - 1
	w.attempts[a.place] = w.attempts[last]
	w.attempts[a.place].place = a.place
	w.attempts = slices.Delete(w.attempts, last, last+1)
	return a.moved
}

// changed compares what is known now with what was known before. News wakes the waiting callers, and attempts to the
// wrong node are canceled.
func (w *shardRoute) changed(known evidence, voters []string, self string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !known.same(&w.seen) || !slices.Equal(voters, w.voters) {
		w.seen, w.voters = known, voters
		w.lost.Store(false)
		w.exhausted.Store(false)
		w.news.notify()
	}
	for _, a := range w.attempts {
		if !a.moved && known.outbids(&a.before, a.node, self) {
			a.moved = true
			a.cancel()
		}
	}
}

// lose records that a caller found no owner at any known node. It does nothing if there were news since count.
// decisionsSeen is the value of w.decisionsSeen when the caller began or was last in vain; if it has not changed, the
// shard decided nothing since then, and the route is marked as lost.
func (w *shardRoute) lose(count, decisionsSeen uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.news.count() != count {
		return
	}
	w.exhausted.Store(true)
	if w.decisionsSeen.Load() == decisionsSeen {
		w.lost.Store(true)
	}
}

// found records that the shard decided something for a caller; exhausted tells whether this caller had asked in vain
// before. All waiting callers may ask again if this is the first news of an owner, or if exhausted is set. Otherwise
// callers that asked in vain keep waiting for their turn: an answer to a new caller says nothing about a request that
// the same owner left undecided.
func (w *shardRoute) found(exhausted bool) {
	lost := w.lost.Load()
	if !lost && !w.exhausted.Load() {
		return
	}
	w.decisionsSeen.Add(1)
	if lost {
		w.lost.Store(false)
	}
	if lost || exhausted {
		w.exhausted.Store(false)
	}
}

// mayAsk reports whether a caller may ask around now; exhausted tells whether it has asked in vain before. Normally
// every caller may. While asking is known to be in vain, only one caller per probeEvery may (R20).
func (w *shardRoute) mayAsk(exhausted bool) bool {
	if !w.lost.Load() && !(exhausted && w.exhausted.Load()) { //mutant:each-waiter-asks-around
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); now.Sub(w.probed) >= probeEvery {
		w.probed = now
		return true
	}
	return false
}

// unfound returns the error for a caller that found no owner before its deadline.
func (w *shardRoute) unfound(tried string) *shard.Error {
	return &shard.Error{Code: shard.Unavailable, RetryAfter: 100e3, Message: "no owner of shard " + w.id.String() +
		" was found before the deadline: " + tried}
}
