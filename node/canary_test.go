package node

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/observe/top"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// cage has a canary of one node over two shards with counts that are a map, and may lie.
type cage struct {
	*canary
	on       *slot.Map
	at       time.Time
	counts   map[string]int64
	answer   func(counted int64, r *shard.Request) (int64, *shard.Error) // of an add; nil: the truth
	heard    map[uint32]time.Time
	violated []string
	log      strings.Builder
}

func newCage() *cage {
	c := &cage{on: slot.Even(2), at: time.Unix(1_000_000, 0), counts: map[string]int64{}, heard: map[uint32]time.Time{}}
	c.canary = &canary{node: "a", now: func() time.Time { return c.at }, decide: c.count, shards: func() int {
		return 2
	}, slots: func() *slot.Map { return c.on },
		nodes: func() int { return 3 }, stopping: func() bool {
			return false
		}, observer: c, books: map[shard.ID]*canaryBook{},
		logger: slog.New(slog.NewTextHandler(&c.log, nil))}
	return c
}

func (c *cage) CanaryHeard(shard uint32, at time.Time) { c.heard[shard] = at }
func (c *cage) CanaryLeft(shard uint32)                { delete(c.heard, shard) }
func (c *cage) CanaryViolated(_ uint32, kind string)   { c.violated = append(c.violated, kind) }
func (c *cage) sing(times int) {
	for range times {
		c.round(context.Background())
	}
}
func (c *cage) count(_ context.Context, all []shard.Request) (results []shard.Result) {
	for i := range all {
		r := &all[i]
		if r.Tally.Verb != shard.TallyAdd {
			results = append(results, shard.Result{})
			continue
		}
		key := r.Entries[0].Key
		c.counts[key] += r.Tally.Amount
		value, err := c.counts[key], (*shard.Error)(nil)
		if c.answer != nil {
			value, err = c.answer(value, r)
		}
		results = append(results,
			shard.Result{Err: err, Decision: shard.Decision{Tallied: &shard.Tallied{Known: true, Value: value},
				Position: shard.Position{Shard: shard.Of(c.on, shard.CanaryNamespace, key)}}})
	}
	return results
}

// What is within acked <= used <= acked + unknown is no violation: the truth, refusals, and requests of unknown fate,
// counted or not.
func TestTheCanaryIsQuietWhileCountsAreExact(t *testing.T) {
	c := newCage()
	c.sing(3)
	maybe, refused := &shard.Error{Code: shard.UnknownOutcome}, &shard.Error{Code: shard.Unavailable}
	if !maybe.MaybeApplied() || refused.MaybeApplied() {
		t.Fatal("the errors of this test mean something else")
	}
	for _, step := range []func(int64, *shard.Request) (int64, *shard.Error){
		func(int64, *shard.Request) (int64, *shard.Error) { return 0, maybe },
		func(_ int64, r *shard.Request) (int64, *shard.Error) { c.counts[r.Entries[0].Key]--; return 0, maybe },
		func(_ int64, r *shard.Request) (int64, *shard.Error) { c.counts[r.Entries[0].Key]--; return 0, refused },
		nil,
	} {
		c.answer = step
		c.sing(2)
	}
	if len(c.violated) > 0 || len(c.heard) != 2 || c.log.Len() > 0 {
		t.Errorf("%v, heard %v: %s", c.violated, c.heard, c.log.String())
	}
	keys := slices.Collect(maps.Keys(c.counts))
	if len(keys) != 2 {
		t.Errorf("counted on %v", keys)
	}
}

// A count that is missing, or taken twice, is told once for each shard, and the canary goes on from there.
func TestTheCanaryTellsALostAndADoubledCount(t *testing.T) {
	for kind, wrong := range map[string]int64{"lost": -1, "doubled": 1} {
		c := newCage()
		c.sing(2)
		for key := range c.counts {
			c.counts[key] += wrong
		}
		c.sing(3)
		if !slices.Equal(c.violated, []string{kind, kind}) || !strings.Contains(c.log.String(), "kind="+kind) {
			t.Errorf("%s: told %v: %s", kind, c.violated, c.log.String())
		}
	}
}

// Where slots move, the canary goes on counting on the shards that have some, and sees what a move has lost.
func TestTheCanaryCountsWhereSlotsAre(t *testing.T) {
	c := newCage()
	c.canary.shards = func() int { return 3 }
	c.sing(2)
	if len(c.heard) != 2 || len(c.books) != 2 {
		t.Errorf("beside a shard without slots: heard %v, books %v", c.heard, c.books)
	}
	for key := range c.counts {
		c.counts[key]--
	}
	clear(c.heard)
	c.on = new(slot.Map)
	for at := range c.on {
		c.on[at] = 2
	}
	c.sing(1)
	if !slices.Equal(c.violated, []string{"lost", "lost"}) || c.heard[2].IsZero() || len(c.heard) != 1 {
		t.Errorf("when all slots have moved: told %v, heard %v", c.violated, c.heard)
	}
	c.sing(2)
	if len(c.violated) != 2 || len(c.books) != 1 || c.books[2] == nil {
		t.Errorf("then: told %v, books %v", c.violated, c.books)
	}
}

// A shard that has no slots left answers no canary. It is not one that has fallen silent, which is an alert.
func TestTheCanaryLeavesAShardWithoutSlots(t *testing.T) {
	c := newCage()
	c.sing(1)
	if len(c.heard) != 2 {
		t.Fatalf("heard %v", c.heard)
	}
	c.on = slot.Even(1)
	c.sing(2)
	if at, told := c.heard[1]; told || len(c.heard) != 1 {
		t.Errorf("shard 1, which has no slots, is said to have answered last at %v", at)
	}
	c.on = slot.Even(2)
	c.sing(1)
	if len(c.heard) != 2 {
		t.Errorf("with slots again: heard %v", c.heard)
	}
}

// After a night away the shard may have forgotten the key: the canary begins with another one.
func TestTheCanaryBeginsAnewAfterALongPause(t *testing.T) {
	c := newCage()
	c.sing(2)
	clear(c.counts)
	c.at = c.at.Add(canaryKept)
	c.sing(2)
	if len(c.violated) > 0 || len(c.counts) != 2 {
		t.Errorf("%v, counts %v", c.violated, c.counts)
	}
}

// The canary counts on every shard of a real node, and no list has its keys.
func TestTheCanaryCountsOnARealNodeUnseen(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		n := start(t, testConfig(t))
		defer stop(t, n)
		for range 3 {
			n.reconciler.canary.round(t.Context())
		}
		for id, b := range n.reconciler.canary.books {
			if b.acked != 3 || b.unknown != 0 {
				t.Errorf("shard %v: %+v", id, b)
			}
			results := n.Decide(t.Context(), []shard.Request{{Op: shard.ReadTally, Namespace: shard.CanaryNamespace,
				Entries: []shard.Entry{{Key: b.key, Limits: shard.TallyLimits}}}})
			if tallied := results[0].Decision.Tallied; results[0].Err != nil || tallied.Value != 3 ||
				tallied.EndsAt == 0 {
				t.Errorf("shard %v: %+v", id, results[0])
			}
		}
		if len(n.reconciler.canary.books) != n.view.shards() {
			t.Errorf("books of %d shards", len(n.reconciler.canary.books))
		}
		q := top.Query{Namespace: shard.CanaryNamespace, Span: top.Hour, Count: top.CountMax}
		if answer, _, err := n.topReader.Top(t.Context(), &q); err != nil || len(answer.Policies) > 0 {
			t.Errorf("stint keys top shows %+v, %v", answer.Policies, err)
		}
	})
}
