package node

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// across asks for one unit of each key, all or nothing.
func across(n *Node, op shard.Op, id string, keys ...string) shard.Result {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r := shard.Request{Op: op, Namespace: shard.DefaultNamespace, ID: id}
	for _, key := range keys {
		r.Entries = append(r.Entries, shard.Entry{Policy: "stock", Key: key, Cost: 1})
	}
	if op == shard.Reserve {
		r.Hold = &shard.HoldTerms{TTL: limit.Span(time.Minute / time.Microsecond)}
	}
	return n.Decide(ctx, []shard.Request{r})[0]
}

func TestChecksOfSeveralShardsAreCountedEverywhereOrNowhere(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t, 4)
		keys := keysOfAllShards(4)
		var admitted atomic.Int64
		var group sync.WaitGroup
		for worker := range 12 {
			group.Go(func() {
				for i := range 10 {
					id := ""
					if i%2 == 0 {
						id = fmt.Sprint("id ", worker, i)
					}
					r := across(c.nodes[worker%3], shard.Check, id, keys[3], keys[worker%3])
					if r.Err != nil {
						t.Errorf("node %d: %v", worker%3+1, r.Err)
						continue
					}
					if r.Decision.Allowed {
						admitted.Add(1)
					}
					if again := across(c.nodes[(worker+1)%3], shard.Check, id, keys[3], keys[worker%3]); id != "" &&
						(again.Err != nil || again.Decision.Allowed != r.Decision.Allowed || !again.Decision.Replayed) {
						t.Errorf("asked again with its id: %+v, was %+v", again, r)
					} else if id == "" && again.Err == nil && again.Decision.Allowed {
						admitted.Add(1)
					}
				}
			})
		}
		group.Wait()
		if admitted.Load() != 100 {
			t.Errorf("limit 100, admitted %d of 180", admitted.Load())
		}
		sum := uint64(0)
		sumUp := func() uint64 {
			sum = 0
			for _, key := range keys[:3] {
				sum += c.used(0, "stock", key)
			}
			return sum
		}
		if all := c.used(0, "stock", keys[3]); all != 100 {
			t.Errorf("the key that all share has used %d", all)
		}
		c.t.Logf("before what was denied is given back: %d", sumUp())
		await.Until(t, "the others have used 100", func() bool { return sumUp() == 100 }, &sum)
	})
}

func TestHoldsOfSeveralShardsAreSettledOnAll(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t, 4)
		keys := keysOfAllShards(4)
		reserved := across(c.nodes[1], shard.Reserve, "", keys[0], keys[2], keys[3])
		if reserved.Err != nil || !reserved.Decision.Allowed || reserved.Decision.HoldExpires == 0 {
			t.Fatalf("reserved: %+v", reserved)
		}
		settle := func(n *Node, action shard.Action) shard.Result {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			s := &shard.Settlement{Action: action,
				Target: shard.Target{Hold: true, DecidedAt: reserved.Decision.DecidedAt,
					Operation: reserved.Decision.Operation.ID, Home: reserved.Decision.Operation.Home}}
			r := shard.Request{Op: shard.Settle, Namespace: shard.DefaultNamespace, Settlement: s}
			for _, i := range []int{0, 2, 3} {
				r.Entries = append(r.Entries, shard.Entry{Policy: "stock", Key: keys[i], Cost: 1})
			}
			return n.Decide(ctx, []shard.Request{r})[0]
		}
		settled := settle(c.nodes[2], shard.ActionCancel)
		if settled.Err != nil || len(settled.Decision.Limits) != 3 {
			t.Fatalf("cancelled: %+v", settled)
		}
		for i, status := range settled.Decision.Limits {
			if want := keys[[]int{0, 2, 3}[i]]; status.Key != want || status.Used != 0 || status.Held != 0 {
				t.Errorf("cancelled, status %d is %+v, want one of %q", i, status, want)
			}
		}
		if again := settle(c.nodes[0], shard.ActionCancel); again.Err != nil || !again.Decision.Replayed {
			t.Errorf("cancelled again: %+v", again)
		}
		if other := settle(c.nodes[0], shard.ActionCommit); other.Err == nil || other.Err.Code != shard.HoldEnded {
			t.Errorf("committed after that: %+v", other)
		}
	})
}

// What a silent coordinator has charged comes back when the leg has waited its time, been looked at, and asked home.
func TestWhatACoordinatorLeavesBehindComesBack(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t, 4)
		keys := keysOfAllShards(4)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		const ttl = 5 * time.Second
		charge := shard.Request{Op: shard.Charge, Namespace: shard.DefaultNamespace,
			Entries: []shard.Entry{{Policy: "stock", Key: keys[2], Cost: 7}},
			Operation: &shard.Operation{ID: "silent", Op: shard.Check, Drawn: true,
				Home: slot.Of(shard.DefaultNamespace, keys[1]), Leg: slot.Of(shard.DefaultNamespace, keys[2]),
				TTL: limit.Span(ttl / time.Microsecond)}}
		if r := c.nodes[0].router.Submit(ctx, 2, []shard.Request{charge})[0]; r.Err != nil || !r.Decision.Allowed {
			t.Fatalf("charged: %+v", r)
		}
		if used := c.used(0, "stock", keys[2]); used != 7 {
			t.Fatalf("charged, it has used %d", used)
		}
		began := time.Now()
		await.Until(t, "it comes back", func() bool { return c.used(0, "stock", keys[2]) == 0 })
		took := time.Since(began)
		t.Logf("back after %v", took)
		if took < ttl-time.Second {
			t.Errorf("back after %v: a coordinator has %v to conclude", took, ttl)
		}
	})
}
