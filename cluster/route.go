package cluster

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/shard"
)

// probeEvery is how often, while no owner of a shard is found, one of all who wait for it asks around. (SEMANTICS R20:
// retries must not become a load of their own.)
const probeEvery = 50 * time.Millisecond

// road is the way to one shard: what all requests to it share.
type road struct {
	id   shard.ID
	desk desk
	bell bell          // something changed that may lead to the owner
	turn atomic.Uint32 // the place to ask first when nothing is known
	lost atomic.Bool   // everybody was asked and nobody was the owner, and nothing was heard since

	mu       sync.Mutex
	attempts []*attempt // that end when somebody else seems to be the owner
	probed   time.Time
	seen     evidence // at the newest change
	voters   []string // likewise
}

// evidence is what this node knows about a shard's owner.
type evidence struct {
	owner  Owner
	open   bool   // the owner is here
	leader string // of the Raft group, as our replica knows it
	hint   Hint
}

func (r *Router) evidence(id shard.ID) (known evidence) {
	known.owner, known.open = r.config.Local(id)
	known.leader = r.config.Leader(id)
	known.hint, _ = r.config.Hints.Lookup(id)
	return known
}

// outbids reports whether this is news against what was known before, and says that another node than the one that
// was asked owns the shard. Our own replica counts when it is open: to lead is not enough.
func (known *evidence) outbids(before *evidence, asked, self string) bool {
	return known.open && !before.open && asked != self ||
		known.hint.Epoch > before.hint.Epoch && known.hint.Node != asked ||
		known.leader != "" && known.leader != before.leader && known.leader != asked && known.leader != self
}

func (known *evidence) same(other *evidence) bool {
	return known.open == other.open && known.leader == other.leader && known.hint == other.hint
}

// attempt is a call under way to a node, which may be given up for a better one. Its road's mutex guards it.
type attempt struct {
	node   string
	before evidence
	cancel context.CancelFunc
	place  int // among the road's attempts
	moved  bool
}

// begin lets a be ended by news. It refuses when there is some already, after the count-th ring.
func (w *road) begin(a *attempt, count uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bell.count() != count {
		return false
	}
	a.place = len(w.attempts)
	w.attempts = append(w.attempts, a)
	return true
}

// end reports whether a was given up for a better node.
func (w *road) end(a *attempt) (moved bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := len(w.attempts) - 1
	w.attempts[a.place] = w.attempts[last]
	w.attempts[a.place].place = a.place
	w.attempts = slices.Delete(w.attempts, last, last+1)
	return a.moved
}

// changed looks at what is known now: news wakes those who wait, and attempts that go to the wrong node are given up.
func (w *road) changed(known evidence, voters []string, self string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !known.same(&w.seen) || !slices.Equal(voters, w.voters) {
		w.seen, w.voters = known, voters
		w.lost.Store(false)
		w.bell.ring()
	}
	for _, a := range w.attempts {
		if !a.moved && known.outbids(&a.before, a.node, self) {
			a.moved = true
			a.cancel()
		}
	}
}

// lose says that after the count-th ring nobody was found to be the owner.
func (w *road) lose(count uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bell.count() == count {
		w.lost.Store(true)
	}
}

// found says that somebody decides. Those who wait come by themselves.
func (w *road) found() {
	if w.lost.Load() {
		w.lost.Store(false)
	}
}

// mayAsk reports whether a caller may ask around: all may, but one at a time while that was just seen to be in vain.
func (w *road) mayAsk() bool {
	if !w.lost.Load() {
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

// unfound is the error when no owner was found before the caller's deadline.
func (w *road) unfound(tried string) *shard.Error {
	return &shard.Error{Code: shard.Unavailable, RetryAfter: 100e3, Message: "no owner of shard " + w.id.String() +
		" was found before the deadline: " + tried}
}
