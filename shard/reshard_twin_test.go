package shard

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// TestAnotherNumberOfShardsDecidesAlike: a cluster with slots that move between requests, and that becomes one of more
// or fewer shards again and again, answers each request as one shard does that was never restored: the same at each
// instant, ids, open holds, ladders, bills and events included.
func TestAnotherNumberOfShardsDecidesAlike(t *testing.T) {
	t.Parallel()
	rnd, met := seeded(t), map[string]int{}
	for range 60 * times() {
		b := newBeside(t, rnd, met)
		for range 150 {
			b.step()
		}
		b.compareBills()
		b.compareEvents()
	}
	t.Log(met)
	for _, what := range []string{"other shards", "revised", "allowed", "denied", "held", "settled", "replayed",
		"refused", "billed", "fired", "moved", "aborted", "grown"} {
		if met[what] < 20 {
			t.Errorf("%q was met %d times", what, met[what])
		}
	}
}

// beside is a cluster beside one shard that gets the same requests.
type beside struct {
	testing.TB
	rnd      *rand.Rand
	met      map[string]int
	cluster  *fleet
	one      *fleet
	now      limit.Time
	version  uint64
	instants []limit.Time
	taken    []pair // what can be settled
	named    []pair // with an id
	moving   *besideMove
}

// pair is a request, and its answers.
type pair struct {
	request         Request
	clusters, other Decision
}

func newBeside(t testing.TB, rnd *rand.Rand, met map[string]int) *beside {
	policies := randomPolicies(rnd)
	b := &beside{TB: t, rnd: rnd, met: met, now: origin, cluster: newFleet(t, 1+rnd.Uint32N(5), policies...),
		one: newFleet(t, 1, policies...)}
	b.adopt(policies)
	return b
}

// adopt has all shards adopt policies.
func (b *beside) adopt(policies []*policy.Policy) {
	b.version++
	for _, f := range []*fleet{b.cluster, b.one} {
		f.policies = policies
		for _, w := range f.worlds {
			set := policy.NewSet(policies)
			at := w.next(b.now)
			w.append(EncodeBatch(at, Adopt(w, w.policies, policy.Revision{Version: b.version, Set: set}, at)))
			w.policies = set
		}
	}
}

func (b *beside) step() {
	b.instants = slices.DeleteFunc(b.instants, func(at limit.Time) bool { return at <= b.now })
	if b.now += randomStep(b.rnd); len(b.instants) > 0 && b.rnd.IntN(3) == 0 {
		b.now = b.instants[b.rnd.IntN(len(b.instants))]
	}
	b.move()
	switch b.rnd.IntN(25) {
	case 0:
		b.cluster, b.moving = b.cluster.exactly(1+b.rnd.Uint32N(6)), nil
		b.met["other shards"]++
	case 1:
		b.adopt(changedPolicies(b.rnd, b.cluster.policies))
		b.met["revised"]++
	}
	q, other := b.request()
	results, _ := b.cluster.at(&q).batch(b.now, q)
	others, _ := b.one.at(&other).batch(b.now, other)
	got, want := results[0], others[0]
	b.compare(&q, got, want)
	b.learn(&q, &got, &want)
}

// request returns a request, and the same for the one shard. Its keys are in one slot.
func (b *beside) request() (q, other Request) {
	if len(b.taken) > 0 && b.rnd.IntN(4) == 0 {
		p := b.taken[len(b.taken)-1-b.rnd.IntN(min(len(b.taken), 12))]
		s := Settlement{Action: Action(1 + b.rnd.IntN(5)), Overage: Overage(b.rnd.IntN(3)),
			TTL: limit.Span(1 + b.rnd.IntN(int(20*second)))}
		return settleOf(p.request, p.clusters, s), settleOf(p.request, p.other, s)
	}
	if len(b.named) > 0 && b.rnd.IntN(12) == 0 {
		q = b.named[b.rnd.IntN(len(b.named))].request
		return q, q
	}
	op := randomOp(b.rnd)
	for op == Settle || op == Forget {
		op = randomOp(b.rnd)
	}
	q = randomWish(b.rnd, b.cluster.policies, op).request
	tag := fmt.Sprintf("{%d}", b.rnd.IntN(12))
	for i := range q.Entries {
		e := &q.Entries[i]
		e.Key = tag + e.Key
		if p, known := b.one.worlds[0].policies.Lookup(e.Policy); known {
			if _, known := p.Tiers[e.Tier]; !known {
				e.Tier = ""
			}
		}
	}
	if a := q.Adjustment; a != nil && a.Until > 0 {
		a.Until += b.now
	}
	if a := q.Adjustment; a != nil && a.Override != nil && a.Override.Expires > 0 {
		a.Override.Expires += b.now
	}
	return q, q
}

func (b *beside) compare(q *Request, got, want Result) {
	got.Decision.Position, want.Decision.Position = Position{}, Position{}
	if (got.Err == nil) != (want.Err == nil) || got.Err != nil &&
		(got.Err.Code != want.Err.Code || got.Err.Field != want.Err.Field) ||
		got.Err == nil && !reflect.DeepEqual(got.Decision, want.Decision) {
		b.Fatalf("at %s, on %d shards: %s\n%s\none shard:\n%s",
			clock(b.now), len(b.cluster.worlds), shown(q), shownResult(&got), shownResult(&want))
	}
}

func (b *beside) learn(q *Request, got, want *Result) {
	d := &got.Decision
	for what, is := range map[string]bool{"refused": got.Err != nil, "allowed": got.Err == nil && d.Allowed,
		"denied": got.Err == nil && !d.Allowed, "replayed": d.Replayed, "settled": got.Err == nil && q.Op == Settle,
		"held": q.Op == Reserve && d.HoldExpires != 0} {
		b.met[what] += int(bit(is))
	}
	if got.Err != nil {
		return
	}
	for _, l := range d.Limits {
		b.instants = append(b.instants, l.ResetAt, l.BlockedUntil)
	}
	b.instants = append(b.instants, d.HoldExpires, b.now+limit.Time(d.RetryAfter))
	p := pair{*q, *d, want.Decision}
	if q.ID != "" {
		b.named = append(b.named, p)
	}
	if d.Allowed && d.Index != 0 && (q.Op == Reserve || q.Op == Check || q.Op == Partial) {
		b.taken = append(b.taken, p)
	}
}

// compareBills compares all bills.
func (b *beside) compareBills() {
	all := func(f *fleet) (bills []string) {
		for _, w := range f.worlds {
			for q := (UsageQuery{}); ; {
				d := w.must(b.now+1, UsageRequest("default", w.state.id, q))
				page, err := UsageOf("default", &d)
				if err != nil {
					b.Fatal(err)
				}
				for _, u := range page.Periods {
					bills = append(bills, fmt.Sprintf("%+v", u))
				}
				if q.From = page.Next; q.From == (UsagePlace{}) {
					break
				}
			}
		}
		slices.Sort(bills)
		return bills
	}
	got, want := all(b.cluster), all(b.one)
	if b.met["billed"] += len(got); !slices.Equal(got, want) {
		b.Fatalf("the bills are\n%s\nof one shard\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// compareEvents compares all events, and the changes that people made.
func (b *beside) compareEvents() {
	got, want := b.cluster.told(), b.one.told()
	for what, n := range want {
		if strings.HasPrefix(what, "event ") {
			b.met["fired"]++
		} else if strings.HasPrefix(what, "change {") {
			continue // it names a place
		}
		if got[what] != n {
			b.Fatalf("%s is there %d times, and on one shard %d", what, got[what], n)
		}
	}
}
