package routing

import (
	"context"
	"fmt"
	"testing"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// recorder is an owner that answers with the requests' keys, so that a misplaced result shows.
type recorder struct {
	id    shard.ID
	calls [][]shard.Request
}

func (o *recorder) Submit(_ context.Context, requests []shard.Request) []shard.Result {
	o.calls = append(o.calls, requests)
	results := make([]shard.Result, len(requests))
	for i := range requests {
		results[i].Decision = shard.Decision{Allowed: true, Position: shard.Position{Shard: o.id}}
		for _, e := range requests[i].Entries[:min(1, len(requests[i].Entries))] {
			results[i].Decision.Limits = []shard.LimitStatus{{Key: e.Key}}
		}
	}
	return results
}

// newRecorders returns a router on a node that owns n shards, with a recorder for each.
func newRecorders(n int) (*Router, []*recorder) {
	recorders := make([]*recorder, n)
	owners := make([]Owner, n)
	for i := range owners {
		recorders[i] = &recorder{id: shard.ID(i)}
		owners[i] = recorders[i]
	}
	return New(Config{
		Node:     "n1",
		Slots:    evenly(uint32(n)),
		Places:   func(shard.ID) []string { return nil },
		Local:    func(id shard.ID) (Owner, bool) { return owners[id], true },
		Leader:   func(shard.ID) string { return "" },
		Hints:    gossip.NewHints(n),
		Sessions: func(shard.ID) bool { return false },
	}), recorders
}

func check(keys ...string) shard.Request {
	r := shard.Request{Op: shard.Check, Namespace: "default"}
	for _, key := range keys {
		r.Entries = append(r.Entries, shard.Entry{Policy: "p", Key: key, Cost: 1})
	}
	return r
}

func TestEveryAnswerReturnsToItsPlaceAndRequestsOfOneShardTravelTogether(t *testing.T) {
	router, owners := newRecorders(4)
	var requests []shard.Request
	for i := range 200 {
		requests = append(requests, check(fmt.Sprintf("user:%d", i)))
	}
	results := router.Decide(t.Context(), requests)
	for i := range requests {
		key := requests[i].Entries[0].Key
		if got := results[i].Decision.Limits[0].Key; got != key {
			t.Fatalf("result %d is that of %q, want %q", i, got, key)
		}
		if got, want := results[i].Decision.Position.Shard, shard.Of(slot.Even(4), "default", key); got != want {
			t.Fatalf("%q was decided by shard %d, want %d", key, got, want)
		}
	}
	for _, o := range owners {
		if len(o.calls) != 1 {
			t.Errorf("shard %d was asked %d times, want once", o.id, len(o.calls))
		}
	}
}

func TestWhatIsForOneShardIsRefusedOnSeveralAndATagBringsEntriesTogether(t *testing.T) {
	router, owners := newRecorders(16)
	apart := check("user:1", "ip:203.0.113.7", "ip:203.0.113.8", "ip:203.0.113.9")
	apart.Op = shard.Reset
	together := check("{user:1}/account", "{user:1}/ip", "{user:1}/pair")
	results := router.Decide(t.Context(), []shard.Request{apart, together})
	if err := results[0].Err; err == nil || err.Code != shard.Invalid || err.Field == "" || err.MaybeApplied() {
		t.Fatalf("a reset on several shards: got %v, want that it is invalid", err)
	}
	if err := results[1].Err; err != nil {
		t.Fatalf("entries with one tag: %v", err)
	}
	asked := 0
	for _, o := range owners {
		asked += len(o.calls)
	}
	if asked != 1 {
		t.Errorf("%d owners were asked, want only that of the tag", asked)
	}
}

// A request about a shard goes there. One about a shard that the cluster does not have is refused alone.
func TestARequestAboutAShardGoesThere(t *testing.T) {
	router, owners := newRecorders(3)
	about := func(id shard.ID) shard.Request { return shard.Request{Op: shard.ReadAudit, Shard: id} }
	results := router.Decide(t.Context(), []shard.Request{about(2), about(3), about(0), about(shard.System)})
	for i, r := range results {
		if unknown := i%2 == 1; unknown != (r.Err != nil) || unknown && r.Err.Code != shard.Invalid {
			t.Errorf("request %d: %+v", i, r)
		}
	}
	if len(owners[0].calls) != 1 || len(owners[1].calls) != 0 || len(owners[2].calls) != 1 {
		t.Errorf("the owners were asked %v, %v and %v", owners[0].calls, owners[1].calls, owners[2].calls)
	}
	wantCode(t, "alone", router.Decide(t.Context(), []shard.Request{about(3)}), shard.Invalid)
}

// A request that no node sends to the shard is refused; requests of other callers in the same frame are not.
func TestARequestInTheWrongPlaceFailsAlone(t *testing.T) {
	router, owners := newRecorders(2)
	right, wrong := check("a"), shard.Request{Op: shard.Fetch, Document: "table"}
	results := router.Forwarded(t.Context(), 1, 0, []shard.Request{right, wrong, right, wrong})
	for i, r := range results {
		if bad := i%2 == 1; bad != (r.Err != nil) || bad && r.Err.Code != shard.Invalid {
			t.Errorf("request %d: %+v", i, r)
		}
	}
	if calls := owners[0].calls; len(calls) != 1 || len(calls[0]) != 2 {
		t.Errorf("the owner was asked %v", calls)
	}
	results = router.Forwarded(t.Context(), 1, 0, []shard.Request{wrong})
	if wantCode(t, "all wrong", results, shard.Invalid); len(owners[0].calls) != 1 {
		t.Error("the owner was asked for nothing")
	}
}

func wantAllowed(t *testing.T, what string, results []shard.Result) {
	t.Helper()
	for i := range results {
		if results[i].Err != nil || !results[i].Decision.Allowed {
			t.Errorf("%s: result %d is %+v, %v", what, i, results[i].Decision, results[i].Err)
			return
		}
	}
	if len(results) == 0 {
		t.Errorf("%s: no results", what)
	}
}

func wantCode(t *testing.T, what string, results []shard.Result, want shard.Code) {
	t.Helper()
	for i := range results {
		if err := results[i].Err; err == nil || err.Code != want {
			t.Errorf("%s: result %d is %+v (%v), want code %d", what, i, results[i].Decision, err, want)
			return
		}
	}
	if len(results) == 0 {
		t.Errorf("%s: no results", what)
	}
}
