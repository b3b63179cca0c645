package routing

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/shard"
)

// struggling is a node that decides some requests and leaves others undecided.
type struggling struct{ bad atomic.Int64 }

func (f *struggling) Submit(_ context.Context, _ string, _ int, _ shard.ID, requests []shard.Request) []shard.Result {
	if requests[0].Entries[0].Key == "good" {
		time.Sleep(50 * time.Millisecond)
		return []shard.Result{{Decision: shard.Decision{Allowed: true}}}
	}
	f.bad.Add(1)
	return shard.RefuseAll(len(requests), &shard.Error{Code: shard.Unavailable, Message: "not now"})
}

// TestRetriesAreASmallPartOfTheLoad: a shard answers most requests and leaves some undecided until their deadline.
// After each of these has asked once, all of them together ask once every 50 ms, whatever else the shard decides
// meanwhile: that is the retry budget of R20, less than a tenth of the load. The other requests do not wait behind
// them.
func TestRetriesAreASmallPartOfTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := new(struggling)
		router := New(Config{
			Node:     "n1",
			Slots:    evenly(1),
			Places:   func(shard.ID) []string { return []string{"n2", "n3"} },
			Local:    func(shard.ID) (Owner, bool) { return nil, false },
			Leader:   func(shard.ID) string { return "" },
			Forward:  node,
			Hints:    gossip.NewHints(1),
			Sessions: func(shard.ID) bool { return false },
		})
		const stuck, patience, load = 200, 10 * time.Second, 5000
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var group sync.WaitGroup
		for i := range stuck {
			group.Go(func() {
				time.Sleep(time.Duration(i) * 997 * time.Microsecond) // spreads the callers over time
				if r := router.Decide(ctx, []shard.Request{check("bad")})[0]; r.Err == nil ||
					r.Err.Code != shard.Unavailable {
					t.Errorf("got %+v", r)
				}
			})
		}
		for range load {
			group.Go(func() {
				begin := time.Now()
				router.Decide(ctx, []shard.Request{check("good")})
				if took := time.Since(begin); took > time.Second && ctx.Err() == nil {
					t.Errorf("a request that is decided in 50 ms waited %v behind those that are not", took)
				}
			})
			time.Sleep(patience / load)
		}
		group.Wait()
		rounds := int(node.bad.Load()) / 2
		if most := load / 10; rounds > most {
			t.Errorf("%d requests asked around %d times beside %d others, want %d at most", stuck, rounds, load, most)
		}
		if rounds == 0 {
			t.Error("nobody asked around")
		}
	})
}

// The id of an operation that was given up is answered so at once: no other node knows better, and no owner is missing.
func TestAnIDThatWasGivenUpIsAskedOfNobodyElse(t *testing.T) {
	for _, r := range []shard.Request{{ID: "x"}, {ID: "x", Number: 7}, {ID: "x", Retry: true}} {
		result := shard.Result{Err: shard.ErrGivenUp}
		if goesOn(&r, &result, false) || result.Err != shard.ErrGivenUp {
			t.Errorf("%+v is asked again, or answered %v", r, result.Err)
		}
	}
}
