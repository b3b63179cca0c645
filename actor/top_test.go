package actor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/internal/observe/top"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// tops returns what an actor says of one key: decisions, denials, admitted units.
func tops(t *testing.T, a *Actor, policy, key string) (counts [3]uint64, since int64) {
	t.Helper()
	q := top.Query{Namespace: "default", Span: top.Minute, Count: top.CountMax}
	parts, ok := a.Top(t.Context(), &q)
	if !ok {
		t.Fatal("nothing is known")
	}
	for _, p := range top.Join(&q, []top.Counts{top.Collect(&q, parts, nil)}).Policies {
		for _, k := range p.Keys {
			if p.Name == policy && k.Key == key {
				for m, e := range k.Estimates {
					counts[m] = e.Count
				}
				return counts, p.Since
			}
		}
	}
	return counts, 0
}

func TestTopCountsWhatWasDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		a := startActor(t, r, 3, func(c *Config) { c.Top = top.NewBudget(0) })
		for _, want := range []string{"allowed", "allowed", "allowed", "denied", "denied"} {
			mustSay(t, one(t, a, take("")), want)
		}
		read := take("")
		read.Op = shard.Get
		one(t, a, read)
		entry := take("").Entries[0]
		if counts, _ := tops(t, a, entry.Policy, entry.Key); counts != [3]uint64{5, 2, 3} {
			t.Errorf("of %q: %v", entry.Key, counts)
		}
		tally := shard.Request{Op: shard.Tally, Namespace: "default",
			Tally:   &shard.TallyTerms{Verb: shard.TallyAdd, Amount: 7},
			Entries: []shard.Entry{{Policy: "secret-name", Key: "hits", Cost: 1, Limits: shard.TallyLimits}}}
		if result := one(t, a, tally); result.Err != nil {
			t.Fatal(result.Err)
		}
		if counts, _ := tops(t, a, "inline", "hits"); counts != [3]uint64{1, 0, 7} {
			t.Errorf("of a tally: %v", counts)
		}
	})
}

// Of two entries only the one without room in its limit is denied, and neither has admitted anything.
func TestTopKnowsWhichEntryWasDenied(t *testing.T) {
	b := top.NewBoard(top.NewBudget(0), 0)
	r := shard.Request{Op: shard.Check, Namespace: "default",
		Entries: []shard.Entry{{Policy: "p", Key: "full", Cost: 2}, {Policy: "p", Key: "free", Cost: 2}}}
	no, yes := limit.Verdict{}, limit.Verdict{Allowed: true}
	CountKeys(b, &r, &shard.Decision{Limits: []shard.LimitStatus{{Policy: "p", Limit: "a", Key: "full", Verdict: yes},
		{Policy: "p", Limit: "b", Key: "full", Verdict: no}, {Policy: "p", Limit: "a", Key: "free", Verdict: yes}}})
	r.Op = shard.Partial
	CountKeys(b, &r, &shard.Decision{Allowed: true,
		Limits: []shard.LimitStatus{{Policy: "p", Key: "full", Granted: 1, Verdict: yes},
			{Policy: "p", Key: "free", Granted: 2, Verdict: yes}}})
	CountKeys(b, &r, &shard.Decision{Allowed: true, Replayed: true})
	q := top.Query{Namespace: "default", Order: top.Denials, Count: 5}
	keys := top.Join(&q, []top.Counts{top.Collect(&q, b.Read(&q, 0), nil)}).Policies[0].Keys
	if len(keys) != 1 || keys[0].Key != "full" || keys[0].Estimates[top.Denials].Count != 1 {
		t.Errorf("denied: %v", keys)
	}
	q.Order = top.Units
	keys = top.Join(&q, []top.Counts{top.Collect(&q, b.Read(&q, 0), nil)}).Policies[0].Keys
	if len(keys) != 2 || keys[0].Key != "free" || keys[0].Estimates[top.Units].Count != 2 ||
		keys[1].Estimates[top.Units].Count != 1 {
		t.Errorf("admitted: %v", keys)
	}
}

// An owner that loses its epoch and opens the next one goes on counting. One that follows another owner starts empty.
func TestTopStartsAnewAfterAnotherOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		a := startActor(t, r, 100, func(c *Config) { c.Top = top.NewBudget(0) })
		entry := take("").Entries[0]
		mustSay(t, one(t, a, take("")), "allowed")
		r.leading.Store(false)
		time.Sleep(time.Second)
		if _, ok := a.Top(t.Context(), &top.Query{Namespace: "default"}); ok {
			t.Error("a node that owns nothing tells")
		}
		r.leading.Store(true)
		time.Sleep(time.Second)
		mustSay(t, one(t, a, take("")), "allowed")
		counts, began := tops(t, a, entry.Policy, entry.Key)
		if counts != [3]uint64{2, 0, 2} {
			t.Errorf("after its own epoch: %v", counts)
		}
		r.leading.Store(false)
		time.Sleep(time.Second)
		r.openForeign()
		r.leading.Store(true)
		time.Sleep(time.Second)
		mustSay(t, one(t, a, take("")), "allowed")
		counts, since := tops(t, a, entry.Policy, entry.Key)
		if counts != [3]uint64{1, 0, 1} || since <= began {
			t.Errorf("after another's epoch: %v since %d, before since %d", counts, since, began)
		}
	})
}

func TestTopWithoutAnActorThatRuns(t *testing.T) {
	budget := top.NewBudget(0)
	a := startActor(t, newFakeReplica(), 100, func(c *Config) { c.Top = budget })
	for !a.Open() {
		one(t, a, take(""))
	}
	one(t, a, take(""))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	a.Top(ended, &top.Query{Namespace: "default"}) // returns
	a.Close(t.Context())
	if _, ok := a.Top(t.Context(), &top.Query{Namespace: "default"}); ok {
		t.Error("an actor that has ended tells")
	}
	if budget.Used() != 0 {
		t.Errorf("it keeps %d bytes", budget.Used())
	}
}

// A key that is suddenly denied is found when the minute is over, and its note becomes one event.
func TestASpikeIsFoundAndNotedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		a := startActor(t, r, 1, func(c *Config) { c.Top = top.NewBudget(0) })
		mustSay(t, one(t, a, take("")), "allowed")
		for range top.SpikeDenials {
			mustSay(t, one(t, a, take("")), "denied")
		}
		if spikes := a.Spikes(t.Context()); len(spikes) > 0 {
			t.Errorf("before the minute is over: %+v", spikes)
		}
		time.Sleep(time.Minute)
		spikes := a.Spikes(t.Context())
		entry := take("").Entries[0]
		if len(spikes) != 1 || spikes[0].Key != entry.Key || spikes[0].Policy != entry.Policy ||
			spikes[0].Denials != top.SpikeDenials {
			t.Fatalf("%+v", spikes)
		}
		s := spikes[0]
		for _, written := range []bool{true, false} {
			note := shard.SpikeRequest(&shard.Spike{Namespace: s.Namespace, Policy: s.Policy, Key: s.Key,
				At: limit.Time(s.End), Denials: s.Denials, Mean: s.Mean})
			if result := one(t, a, note); result.Err != nil || (result.Decision.Index != 0) != written {
				t.Errorf("%+v", result)
			}
		}
		r.leading.Store(false)
		time.Sleep(time.Second)
		if spikes := a.Spikes(t.Context()); len(spikes) > 0 {
			t.Errorf("a node that owns nothing tells %+v", spikes)
		}
	})
}
