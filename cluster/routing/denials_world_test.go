package routing

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/cluster/hop"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// shore is one real shard, owned by the first of three nodes, and one clock for the nodes and the shard. Every message
// takes a while, and one thing happens at a time.
type shore struct {
	testing.TB
	rnd      *rand.Rand
	policies *policy.Set
	state    *shard.State
	index    uint64
	at       limit.Time
	begin    limit.Time
	nodes    []*Router
	commits  int
	decided  map[limit.Time][]decidedHere // actual decisions, by instant
	passed   []map[string]limit.Time      // at each node, by key: the latest answered change
}

type decidedHere struct {
	request  shard.Request
	decision shard.Decision
}

func newShore(t testing.TB, seed uint64) *shore {
	token := limit.Limit{Algorithm: limit.TokenBucket, Quota: 3, Period: 1000 * ms, Count: 2, Initial: 3}
	window := limit.Limit{Algorithm: limit.FixedWindow, Quota: 2, Period: 400 * ms}
	w := &shore{TB: t, rnd: rand.New(rand.NewPCG(seed, 3)), state: shard.NewState(0), begin: 1_767_571_200_000_000,
		decided: map[limit.Time][]decidedHere{}}
	more := uint64(4)
	w.policies = policy.NewSet([]*policy.Policy{
		{Name: "long", Retention: policy.DefaultRetention, DenyCache: 250 * ms,
			Limits: []policy.Limit{{Name: "a", Limit: token}},
			Tiers:  map[string]policy.Tier{"gold": {Limits: map[string]policy.TierLimit{"a": {Quota: &more}}}}},
		{Name: "short", Retention: policy.DefaultRetention, DenyCache: 80 * ms,
			Limits: []policy.Limit{{Name: "b", Limit: window}}},
		{Name: "never", Retention: policy.DefaultRetention, Limits: []policy.Limit{{Name: "c", Limit: window}}},
	})
	w.at = w.begin
	w.append(shard.EncodeEpochOpen(0, w.at, shard.LevelNewest))
	wire := newShoreWire(w)
	for i := range 3 {
		w.passed = append(w.passed, map[string]limit.Time{})
		node := New(Config{
			Node:     fmt.Sprint("n", i),
			Slots:    evenly(1),
			Places:   func(shard.ID) []string { return nil },
			Local:    func(shard.ID) (Owner, bool) { return w, i == 0 },
			Leader:   func(shard.ID) string { return "n0" },
			Forward:  wire,
			Hints:    gossip.NewHints(1),
			Sessions: func(shard.ID) bool { return false },
			Policies: func() *policy.Revision { return &policy.Revision{Version: 1, Set: w.policies} },
		})
		node.denials.now = func() limit.Span { return limit.Span(w.at - w.begin) }
		w.nodes = append(w.nodes, node)
	}
	return w
}

func (w *shore) append(payload []byte) {
	w.index++
	if o, err := w.state.Install(payload, w.index, 1); err != nil || o.Dropped != shard.NotDropped {
		w.Fatalf("install: %v, %v", o.Dropped, err)
	}
}

// pass advances the clock by a random time.
func (w *shore) pass(most limit.Span) { w.at += limit.Time(w.rnd.Int64N(int64(most))) }

// Submit implements Owner.
func (w *shore) Submit(_ context.Context, requests []shard.Request) []shard.Result {
	w.pass(5 * ms)
	w.at = max(w.at, w.state.Time()+1)
	at := shard.Stamp{Position: shard.Position{Epoch: w.state.Epoch(), Seq: w.state.Seq() + 1}, Now: w.at}
	results, puts := shard.Evaluate(roomy{w.state}, w.policies, requests, at)
	w.append(shard.EncodeBatch(at, puts))
	w.commits++
	for i := range requests {
		if d := results[i].Decision; results[i].Err == nil {
			d.Limits = append([]shard.LimitStatus(nil), d.Limits...)
			w.decided[w.at] = append(w.decided[w.at], decidedHere{requests[i], d})
		}
	}
	w.pass(5 * ms)
	return results
}

// shoreWire forwards to the first node through a real Hop over a pipe. Each message takes a while on the world's clock.
type shoreWire struct {
	*shore
	hop *hop.Hop
}

func newShoreWire(w *shore) shoreWire {
	owner := func(ctx context.Context, hops int, id shard.ID, requests []shard.Request) []shard.Result {
		return w.nodes[0].Forwarded(ctx, hops, id, requests)
	}
	var nodes sync.WaitGroup
	hop := hop.New(hop.Near, func(context.Context, string) (net.Conn, error) {
		near, far := net.Pipe()
		nodes.Go(func() { hop.Serve(context.Background(), far, owner) })
		return near, nil
	})
	w.Cleanup(func() {
		hop.Close()
		nodes.Wait()
	})
	return shoreWire{w, hop}
}

func (w shoreWire) Submit(
	ctx context.Context, node string, hops int, id shard.ID, requests []shard.Request,
) []shard.Result {
	w.pass(5 * ms)
	results := w.hop.Submit(ctx, node, hops, id, requests)
	w.pass(5 * ms)
	return results
}

func (w *shore) request() shard.Request {
	entry := func(policies ...string) shard.Entry {
		e := shard.Entry{Policy: policies[w.rnd.IntN(len(policies))], Key: fmt.Sprint("k", w.rnd.IntN(2)),
			Cost: 1 + w.rnd.Uint64N(2)}
		if e.Policy == "long" && w.rnd.IntN(3) == 0 {
			e.Tier = "gold"
		}
		return e
	}
	r := shard.Request{Op: shard.Check, Namespace: "default",
		Entries: []shard.Entry{entry("long", "long", "short", "never")}}
	switch w.rnd.IntN(40) {
	case 0:
		r.Op = shard.Reset
	case 1:
		r.Op, r.Adjustment = shard.AddUsed, &shard.Adjustment{Amount: -1}
	case 2:
		r.ID = fmt.Sprint("id", w.rnd.IntN(1<<30))
	case 3, 4:
		r.Op = shard.Peek
	case 5:
		r.Op = shard.Partial
	case 6, 7, 8, 9:
		second := entry("short", "never")
		if second.Policy != r.Entries[0].Policy {
			r.Entries = append(r.Entries, second)
		}
	}
	if !r.Op.Changes() || r.Op == shard.Check || r.Op == shard.Partial {
		return r
	}
	r.Entries[0].Tier = ""
	return r
}

// In any sequence of events, a repeated denial was true, word for word, at most deny_cache ago, and is no older than
// its age says. It names no instant too early, and does not predate a change that its node, or the owner, has answered.
func TestWhatIsRepeatedWasTrueAtMostDenyCacheAgo(t *testing.T) {
	repeated, overtaken, atOwner, twice := 0, 0, 0, 0
	for seed := range uint64(8) {
		w := newShore(t, seed)
		for range 1500 {
			if w.rnd.IntN(3) == 0 {
				w.pass(60 * ms)
			}
			node := w.rnd.IntN(len(w.nodes))
			requests := []shard.Request{w.request()}
			for w.rnd.IntN(3) == 0 {
				requests = append(requests, w.request())
			}
			asked, before := w.at, w.commits
			results := w.nodes[node].Decide(t.Context(), requests)
			for i := range requests {
				r, d := &requests[i], &results[i].Decision
				if results[i].Err != nil {
					t.Fatalf("seed %d: %v", seed, results[i].Err)
				}
				if r.Op == shard.Reset || r.Op == shard.AddUsed {
					key := r.Entries[0].Policy + r.Entries[0].Key
					w.passed[node][key], w.passed[0][key] = d.DecidedAt, d.DecidedAt
				}
				if d.Age == 0 {
					continue
				}
				w.judge(node, asked, r, d)
				repeated++
				if node == 0 {
					atOwner++
				} else if w.commits == before && w.at > asked {
					twice++ // repeated by the owner to this node
				}
				if w.peek(r) {
					overtaken++
				}
			}
		}
	}
	if repeated < 1000 || atOwner < 100 || twice < 10 || overtaken < 10 {
		t.Errorf("%d were repeated, %d of them by the owner, %d to another node, %d when they were untrue: too few",
			repeated, atOwner, twice, overtaken)
	}
}

// judge checks one repeated denial, asked for at an instant.
func (w *shore) judge(node int, asked limit.Time, r *shard.Request, d *shard.Decision) {
	w.Helper()
	most := policy.DenyCacheMax
	for _, e := range r.Entries {
		p, _ := w.policies.Lookup(e.Policy)
		most = min(most, p.DenyCache)
		if changed := w.passed[node][e.Policy+e.Key]; changed > d.DecidedAt && changed < asked {
			w.Errorf("node %d repeats a denial of %d, and has answered a change at %d", node, d.DecidedAt, changed)
		}
	}
	if r.Op != shard.Check || r.ID != "" || d.Allowed {
		w.Errorf("a request of op %d, id %q was answered %+v without being asked", r.Op, r.ID, d)
	}
	// A forwarded request was answered a little later than it was asked.
	if old := limit.Span(asked - d.DecidedAt); old >= most || d.Age < old || d.Age > most {
		w.Errorf("a denial of %d us ago says that it is %d old, and may be %d", old, d.Age, most)
	}
	for _, truth := range w.decided[d.DecidedAt] {
		if !(&denial{namespace: r.Namespace, entries: r.Entries}).answers(&truth.request) ||
			truth.request.Op != shard.Check || truth.decision.Allowed {
			continue
		}
		w.compare(d, &truth.decision)
		return
	}
	w.Errorf("%+v was never decided", d)
}

// compare checks a denial that its caller receives now against the actual decision.
func (w *shore) compare(d, truth *shard.Decision) {
	w.Helper()
	said, was := *d, *truth
	if truth.RetryAfter != limit.Never && w.at+limit.Time(d.RetryAfter) < truth.DecidedAt+limit.Time(truth.RetryAfter) {
		w.Errorf("at %d it says wait %d, and was admitted not before %d", w.at, d.RetryAfter,
			truth.DecidedAt+limit.Time(truth.RetryAfter))
	}
	if d.RetryAfter > truth.RetryAfter || len(d.Limits) != len(truth.Limits) {
		w.Fatalf("it says %+v, and was %+v", said, was)
	}
	for i := range d.Limits {
		a, b := d.Limits[i], truth.Limits[i]
		a.RetryAfter, b.RetryAfter = 0, 0
		if a != b {
			w.Errorf("it says %+v, and was %+v", a, b)
		}
	}
}

// peek reports whether a request would be admitted now.
func (w *shore) peek(r *shard.Request) bool {
	look := *r
	look.Op = shard.Peek
	results, _ := shard.Evaluate(roomy{w.state}, w.policies, []shard.Request{look},
		shard.Stamp{Now: max(w.state.Time(), w.at)})
	return results[0].Decision.Allowed
}
