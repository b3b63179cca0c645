package shard

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/check"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

var (
	seedFlag       = flag.Uint64("seed", 0, "replay a random test from the seed it printed; 0 draws one")
	operationsFlag = flag.Int("operations", 100_000, "requests of the test against the slow twin")
)

// seeded returns a source of randomness and prints how to have the same again.
func seeded(t *testing.T) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("repeat with: go test ./shard -run '^%s$' -seed=%d", t.Name(), seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// TestEveryDecisionIsTheTwins decides random batches under random policies, with up to two entries not yet installed,
// and compares every answer with a model that is a map of slow twins and a map of ids.
func TestEveryDecisionIsTheTwins(t *testing.T) {
	t.Parallel()
	rnd := seeded(t)
	operations := *operationsFlag
	if testing.Short() {
		operations /= 10
	}
	for n := 0; n < operations; {
		n += playAgainstTwin(t, rnd, 500)
	}
}

func playAgainstTwin(t *testing.T, rnd *rand.Rand, operations int) int {
	policies := randomPolicies(rnd)
	o := owner{world: newWorld(t, policies...), overlay: map[string]Record{}}
	m := model{policies: policies, keys: map[string][]*check.Model{}, ids: map[string]remembered{}}
	now, n := origin, 0
	for n < operations {
		now += randomStep(rnd)
		requests := randomRequests(rnd, policies)
		results := o.decide(now, requests)
		for i := range requests {
			m.compare(t, &requests[i], &results[i], o.stamp)
			if t.Failed() {
				t.Fatalf("request %d of the batch at %v: %+v\nin %+v", i, now, requests[i], policies)
			}
		}
		n += len(requests)
		for len(o.pending) > rnd.IntN(3) {
			o.installOldest()
		}
	}
	audit(t, o.state.table)
	return n
}

// owner is an actor in small: it evaluates through an overlay of the effects that are not installed yet, and installs
// entries as they come back.
type owner struct {
	*world
	overlay map[string]Record
	pending [][]byte // payloads, oldest first
	stamp   Stamp
	seen    []Record // what the evaluation under way has read, copied
	read    []Record // the same, not copied
}

func (o *owner) decide(now limit.Time, requests []Request) []Result {
	o.Helper()
	o.stamp = o.next(now)
	o.stamp.Seq += uint64(len(o.pending))
	o.seen, o.read = nil, nil
	before, sum := copyOf(requests), o.state.Sum()
	results, puts := Evaluate(o, o.policies, requests, o.stamp)
	if !reflect.DeepEqual(before, requests) || o.state.Sum() != sum || !reflect.DeepEqual(o.seen, o.read) {
		o.Fatalf("the evaluation changed its arguments: requests were %+v, are %+v", before, requests)
	}
	if len(results) != len(requests) {
		o.Fatalf("%d answers to %d requests", len(results), len(requests))
	}
	keys := map[string]bool{}
	for _, p := range puts {
		if keys[p.Key] {
			o.Fatalf("two effects on %q in one batch", p.Key)
		}
		if p.Value != nil && p.ForgetAt <= now {
			o.Fatalf("the effect on %q is dead at its birth: %d at %d", p.Key, p.ForgetAt, now)
		}
		keys[p.Key] = true
		o.overlay[p.Key] = p.Record
	}
	o.pending = append(o.pending, EncodeBatch(o.stamp, puts))
	return results
}

func (o *owner) installOldest() {
	if outcome := o.append(o.pending[0]); outcome.Dropped != NotDropped {
		o.Fatalf("dropped: %v", outcome.Dropped)
	}
	if o.pending = o.pending[1:]; len(o.pending) == 0 {
		clear(o.overlay)
	}
}

func (o *owner) Lookup(key string) (Record, bool) {
	r, laid := o.overlay[key]
	found := r.Value != nil
	if !laid {
		r, found = o.state.Lookup(key)
	}
	if found {
		o.read = append(o.read, r)
		o.seen = append(o.seen, Record{slices.Clone(r.Value), r.ForgetAt})
	}
	return r, found
}

func copyOf(requests []Request) []Request {
	copied := slices.Clone(requests)
	for i := range copied {
		copied[i].Entries = slices.Clone(copied[i].Entries)
	}
	return copied
}

// model is what a shard promises, written down without a thought of how it is done.
type model struct {
	policies []*policy.Policy
	keys     map[string][]*check.Model
	ids      map[string]remembered
}

type remembered struct {
	request  string
	decision Decision
	until    limit.Time
}

func (m *model) compare(t *testing.T, r *Request, got *Result, at Stamp) {
	t.Helper()
	shown := fmt.Sprint(r.Op, r.Limit, r.Entries)
	if old, ok := m.ids[r.ID]; ok && r.ID != "" && at.Now < old.until {
		m.compareReplay(t, old, shown, got)
		return
	}
	if got.Err != nil {
		t.Errorf("error %v", got.Err)
		return
	}
	d := &got.Decision
	allowed := m.decide(t, r, d, at.Now)
	if d.Replayed || d.Allowed != allowed || d.DecidedAt != at.Now || d.Position != at.Position {
		t.Errorf("%+v of a request that is allowed: %v", d, allowed)
	}
	counted := allowed && r.Op == Check || r.Op == Reset
	if counted != (d.Index != 0) {
		t.Errorf("counted: %v, but the index is %d", counted, d.Index)
	}
	if counted && r.ID != "" {
		m.ids[r.ID] = remembered{shown, *d, at.Now + limit.Time(m.retention(r))}
	}
}

func (m *model) compareReplay(t *testing.T, old remembered, shown string, got *Result) {
	t.Helper()
	if old.request != shown {
		if got.Err == nil || got.Err.Code != IDReused {
			t.Errorf("the id was %s's, the answer is %+v", old.request, got)
		}
		return
	}
	old.decision.Replayed = true
	if got.Err != nil || !reflect.DeepEqual(got.Decision, old.decision) {
		t.Errorf("the retry was answered\n%+v, %v, before it was\n%+v", got.Decision, got.Err, old.decision)
	}
}

// decide asks every twin, and counts on all of them or on none.
func (m *model) decide(t *testing.T, r *Request, d *Decision, now limit.Time) (allowed bool) {
	allowed = true
	shadowDenied, wait, n := false, limit.Span(0), 0
	denials := map[*check.Model]limit.Verdict{}
	for _, e := range r.Entries {
		p, twins := m.of(e)
		for i, twin := range twins {
			if r.Op == Get || r.Op == Reset || e.Tier == lifted || twin.Admits(e.Cost, now) {
				continue
			}
			denials[twin] = twin.Peek(e.Cost, now)
			if p.Shadow || p.Limits[i].Shadow {
				shadowDenied = true
			} else {
				allowed = false
				wait = longer(wait, denials[twin].RetryAfter)
			}
		}
	}
	if d.ShadowDenied != shadowDenied || d.RetryAfter != wait {
		t.Errorf("retry after %d, shadow %v; the twins say %d, %v", d.RetryAfter, d.ShadowDenied, wait, shadowDenied)
	}
	for _, e := range r.Entries {
		p, twins := m.of(e)
		for i := range twins {
			if r.Op == Reset && (r.Limit == "" || r.Limit == p.Limits[i].Name) {
				twins[i] = check.New(p.Limits[i].Limit)
			}
			want, denies := denials[twins[i]]
			if !denies {
				want = verdictOf(twins[i], r.Op, e, now, allowed)
			}
			compareStatus(t, &d.Limits[n], p, i, e, want)
			n++
		}
	}
	if n != len(d.Limits) {
		t.Errorf("%d statuses, expected %d", len(d.Limits), n)
	}
	return allowed
}

func verdictOf(twin *check.Model, op Op, e Entry, now limit.Time, allowed bool) limit.Verdict {
	switch {
	case op == Check && allowed && e.Tier == lifted:
		twin.Add(e.Cost, now)
	case op == Check && allowed:
		return twin.Take(e.Cost, now)
	case (op == Check || op == Peek) && e.Tier != lifted:
		return twin.Peek(e.Cost, now)
	}
	return twin.Status(now)
}

func compareStatus(t *testing.T, got *LimitStatus, p *policy.Policy, i int, e Entry, want limit.Verdict) {
	t.Helper()
	l := p.Limits[i]
	expected := LimitStatus{Policy: p.Name, Limit: l.Name, Key: e.Key, Quota: l.Quota,
		Unlimited: e.Tier == lifted || l.Algorithm == limit.Unlimited, Shadow: l.Shadow || p.Shadow, Verdict: want}
	if e.Tier == lifted {
		expected.Quota, expected.Remaining = 0, 0
	}
	if *got != expected {
		t.Errorf("status %+v\nthe twin says %+v", *got, expected)
	}
	if got.Used > got.Quota && !got.Unlimited && p.Tiers == nil {
		t.Errorf("%d used of %d", got.Used, got.Quota)
	}
}

func (m *model) of(e Entry) (*policy.Policy, []*check.Model) {
	i := slices.IndexFunc(m.policies, func(p *policy.Policy) bool { return p.Name == e.Policy })
	name := e.Policy + "/" + e.Key
	if m.keys[name] == nil {
		for _, l := range m.policies[i].Limits {
			m.keys[name] = append(m.keys[name], check.New(l.Limit))
		}
	}
	return m.policies[i], m.keys[name]
}

func (m *model) retention(r *Request) (longest limit.Span) {
	for _, e := range r.Entries {
		p, _ := m.of(e)
		longest = max(longest, p.Retention)
	}
	return longest
}

// lifted names an unlimited tier, which half of the policies have.
const lifted = "lifted"

func randomPolicies(rnd *rand.Rand) (policies []*policy.Policy) {
	for i := range 1 + rnd.IntN(3) {
		p := &policy.Policy{Name: fmt.Sprintf("p%d", i), Retention: second * limit.Span(1+rnd.IntN(30)),
			Shadow: rnd.IntN(8) == 0}
		if rnd.IntN(2) == 0 {
			p.Tiers = map[string]policy.Tier{lifted: {Unlimited: true}}
		}
		for j := range 1 + rnd.IntN(3) {
			p.Limits = append(p.Limits, policy.Limit{Name: fmt.Sprintf("l%d", j), Shadow: rnd.IntN(8) == 0,
				Limit: randomLimit(rnd)})
		}
		policies = append(policies, p)
	}
	return policies
}

func randomLimit(rnd *rand.Rand) limit.Limit {
	l := limit.Limit{Algorithm: limit.Algorithm(1 + rnd.IntN(9)), Quota: uint64(1 + rnd.IntN(30))}
	period := second * limit.Span(1+rnd.IntN(60))
	switch l.Algorithm {
	case limit.Unlimited:
		l.Quota = 0
	case limit.Lifetime:
		l.Quota *= 50
	case limit.SlidingBuckets:
		l.Bucket = period / 10
		l.Period = period
	case limit.TokenBucket, limit.GCRA:
		l.Count, l.Period = uint64(1+rnd.IntN(10)), period
		if l.Algorithm == limit.TokenBucket {
			l.Initial = l.Quota - uint64(rnd.IntN(2))*uint64(rnd.IntN(int(l.Quota)))
		}
	default:
		l.Period = period
	}
	return l
}

// randomStep is mostly a few milliseconds, sometimes seconds, and now and then longer than any window.
func randomStep(rnd *rand.Rand) limit.Time {
	switch n := rnd.IntN(100); {
	case n < 70:
		return limit.Time(1 + rnd.IntN(int(50*millisecond)))
	case n < 98:
		return limit.Time(1 + rnd.IntN(int(5*second)))
	}
	return limit.Time(rnd.IntN(int(3 * minute)))
}

func randomRequests(rnd *rand.Rand, policies []*policy.Policy) []Request {
	requests := make([]Request, 1+rnd.IntN(20))
	for i := range requests {
		r := Request{Namespace: "default", Op: Check}
		switch n := rnd.IntN(100); {
		case n < 8:
			r.Op = Peek
		case n < 12:
			r.Op = Get
		case n < 14:
			r.Op = Reset
		}
		for len(r.Entries) == 0 || rnd.IntN(4) == 0 {
			p := policies[rnd.IntN(len(policies))]
			e := Entry{Policy: p.Name, Key: fmt.Sprint("k", rnd.IntN(4)), Cost: 1}
			if p.Tiers != nil && rnd.IntN(8) == 0 {
				e.Tier = lifted
			}
			if rnd.IntN(4) == 0 {
				e.Cost = uint64(1 + rnd.IntN(8))
			}
			if !slices.ContainsFunc(r.Entries, func(o Entry) bool { return o.Policy == e.Policy && o.Key == e.Key }) {
				r.Entries = append(r.Entries, e)
			}
		}
		if r.Op == Reset && rnd.IntN(2) == 0 {
			r.Limit = "l0"
		}
		if (r.Op == Check || r.Op == Reset) && rnd.IntN(3) == 0 {
			r.ID = fmt.Sprint("id", rnd.IntN(40))
		}
		requests[i] = r
		if i > 0 && r.ID != "" && rnd.IntN(4) == 0 {
			requests[i] = requests[rnd.IntN(i)] // the same again
		}
	}
	return requests
}
