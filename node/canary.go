package node

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

const (
	// canaryEvery is how often a shard is checked by one of the nodes.
	canaryEvery = time.Minute
	// canaryWithin bounds one round.
	canaryWithin = 5 * time.Second
	// canaryKept is how long a shard keeps a canary's count after its node has gone. A node that was away for half as
	// long begins another one.
	canaryKept = 24 * time.Hour
)

// canary counts a key of its own on each shard, the way that clients' requests go, and compares what the shard says
// with what was answered before: acked <= used <= acked + unknown. So it sees a count that was lost or taken twice,
// wherever that happened. A key moves with its slot: it is counted once more there, and then its shard gets another
// one, unless it has no slots left. The reconciler calls look; a round is a task, of which one runs at a time and owns
// books.
type canary struct {
	node     string
	now      func() time.Time
	decide   func(context.Context, []shard.Request) []shard.Result
	shards   func() int
	slots    func() *slot.Map
	nodes    func() int // that take turns
	stopping func() bool
	tasks    *tasks
	observer canaryObserver
	logger   *slog.Logger

	next  time.Time // of the next round; zero: not known yet
	books map[shard.ID]*canaryBook
}

// canaryObserver is told what the canary finds.
type canaryObserver interface {
	CanaryHeard(shard uint32, at time.Time)
	CanaryLeft(shard uint32)                  // it has no slots: its silence is no alarm
	CanaryViolated(shard uint32, kind string) // kind is "lost" or "doubled"
}

// canaryBook is what a node knows of its key on one shard.
type canaryBook struct {
	key            string
	heard          time.Time // when the shard last answered, or the book was begun
	acked, unknown uint64    // counts that were answered, and that may have been taken
}

// look begins a round when it is time. The nodes take turns, each at its own time, so a shard is checked once in
// canaryEvery or so.
func (c *canary) look() {
	now := c.now()
	if c.next.IsZero() || now.Before(c.next.Add(-canaryKept)) { // the clock may have been set back
		c.next = now.Add(canaryEvery)
	}
	if now.Before(c.next) || c.stopping() || c.shards() == 0 {
		return
	}
	c.next = now.Add(canaryEvery * time.Duration(max(1, c.nodes())))
	c.tasks.start("canary", c.round)
}

// round counts once on each shard that has slots, and judges the answers.
func (c *canary) round(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, canaryWithin)
	defer cancel()
	slots := c.slots()
	var asked []shard.ID
	var requests []shard.Request
	for id := range shard.ID(c.shards()) {
		b := c.books[id]
		if b == nil || c.now().Sub(b.heard) > canaryKept/2 {
			key, some := c.keyOn(id, slots)
			if !some {
				c.observer.CanaryLeft(uint32(id)) //mutant:shard-without-slots-falls-silent
				continue
			}
			b = &canaryBook{key: key, heard: c.now()}
			c.books[id] = b
		}
		asked = append(asked, id)
		requests = append(requests, canaryRequest(b.key, shard.TallyTerms{Verb: shard.TallyAdd, Amount: 1}),
			canaryRequest(b.key, shard.TallyTerms{Verb: shard.TallyEnd, TTL: limit.Span(canaryKept.Microseconds())}))
	}
	for i, result := range c.decide(within, requests) {
		if i%2 == 0 {
			c.judge(asked[i/2], &result)
		}
	}
	maps.DeleteFunc(c.books, func(id shard.ID, b *canaryBook) bool {
		return shard.Of(slots, shard.CanaryNamespace, b.key) != id //mutant:canary-leaves-a-shard-with-its-key
	})
}

func canaryRequest(key string, terms shard.TallyTerms) shard.Request {
	return shard.Request{Op: shard.Tally, Namespace: shard.CanaryNamespace, Tally: &terms,
		Entries: []shard.Entry{{Key: key, Cost: 1, Limits: shard.TallyLimits}}}
}

// keyOn draws a key that lives on a shard; there is none if the shard has no slots.
func (c *canary) keyOn(id shard.ID, slots *slot.Map) (key string, some bool) {
	if slots.Owned(uint32(id)) == 0 {
		return "", false
	}
	run := rand.Text()
	for i := 0; ; i++ {
		if key := fmt.Sprintf("%s/%s/%d", c.node, run, i); shard.Of(slots, shard.CanaryNamespace, key) == id {
			return key, true
		}
	}
}

// judge compares a shard's answer with the book. After a violation the book goes on from what the shard says, so each
// is told once.
func (c *canary) judge(id shard.ID, result *shard.Result) {
	b := c.books[id]
	if result.Err != nil {
		if result.Err.MaybeApplied() {
			b.unknown++ //mutant:canary-alarms-at-unknown
		}
		return
	}
	b.acked, b.heard = b.acked+1, c.now()
	used, kind := uint64(max(0, result.Decision.Tallied.Value)), ""
	switch {
	case used < b.acked: //mutant:canary-misses-no-count
		kind = "lost"
	case used > b.acked+b.unknown: //mutant:canary-takes-two-for-one
		kind = "doubled"
	}
	c.observer.CanaryHeard(uint32(result.Decision.Position.Shard), c.now())
	if kind == "" {
		return
	}
	c.observer.CanaryViolated(uint32(id), kind)
	c.logger.Error("a shard does not count exactly: keep the logs of all nodes and report it",
		"shard", uint32(id), "kind", kind, "used", used, "answered", b.acked, "perhaps", b.unknown, "key", b.key,
		"position", fmt.Sprint(result.Decision.Position))
	b.acked, b.unknown = used, 0
}
