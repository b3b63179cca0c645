package shard

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/stint-io/stint/internal/testing/model"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// ways are how a key can come to have other numbers. Each changes them at an instant and returns the request that has
// them.
var ways = map[string]func(w *owner, now limit.Time, slow, fast *policy.Policy) Request{
	"revision": func(w *owner, now limit.Time, _, fast *policy.Policy) Request {
		w.adopt(now, policy.NewSet([]*policy.Policy{fast}))
		return checkOf("p", "k", 1)
	},
	"tier": func(*owner, limit.Time, *policy.Policy, *policy.Policy) Request {
		r := checkOf("p", "k", 1)
		r.Entries[0].Tier = wide
		return r
	},
	"override": func(w *owner, now limit.Time, _, fast *policy.Policy) Request {
		w.decide(now, []Request{putOverrideOf(&policy.Override{Limits: fast.Tiers[wide].Limits})})
		return checkOf("p", "k", 1)
	},
	"end of an override": func(w *owner, now limit.Time, slow, fast *policy.Policy) Request {
		w.adopt(now-3, policy.NewSet([]*policy.Policy{fast}))
		l := slow.Limits[0].Limit
		o := &policy.Override{Limits: map[string]policy.TierLimit{"a": numbersOf(l.Algorithm, l)}, Expires: now}
		w.decide(now-2, []Request{resetOf("p", "k"), putOverrideOf(o), checkOf("p", "k", 5)})
		return checkOf("p", "k", 1)
	},
	"inline": func(w *owner, now limit.Time, slow, fast *policy.Policy) Request {
		r := checkOf("p", "k", 5)
		r.Entries[0].Limits = slow.Limits
		w.decide(now-1, []Request{r})
		r = checkOf("p", "k", 1)
		r.Entries[0].Limits = fast.Limits
		return r
	},
}

func putOverrideOf(o *policy.Override) Request {
	return Request{Op: PutOverride, Namespace: "default", Entries: []Entry{{Policy: "p", Key: "k"}},
		Adjustment: &Adjustment{Override: o}}
}

func resetOf(p, key string) Request {
	return Request{Op: Reset, Namespace: "default", Entries: []Entry{{Policy: p, Key: key}}}
}

// slowAndFast returns a policy and its revision. Tier wide of both has the numbers of the revision, as far as a tier
// can have them.
func slowAndFast(slow, fast limit.Limit, how policy.OnChange) (*policy.Policy, *policy.Policy) {
	p, q := onePolicy(slow), onePolicy(fast)
	p.Tiers, q.Tiers = tierOf(slow.Algorithm, fast), tierOf(fast.Algorithm, fast)
	p.OnChange, q.OnChange = how, how
	return p, q
}

func tierOf(a limit.Algorithm, l limit.Limit) map[string]policy.Tier {
	return map[string]policy.Tier{wide: {Limits: map[string]policy.TierLimit{"a": numbersOf(a, l)}}}
}

// numbersOf returns what a tier or an override can set of a limit's numbers.
func numbersOf(a limit.Algorithm, l limit.Limit) policy.TierLimit {
	t := policy.TierLimit{Quota: &l.Quota}
	switch {
	case a != l.Algorithm:
	case a == limit.TokenBucket:
		t.Refill = &l.Count
	case a == limit.GCRA:
		t.Rate = &l.Count
	}
	return t
}

// A raised rate reaches a used-up key on every path, regardless of the first request and of earlier answers: a look, a
// get and a check agree to the microsecond, and the key is admitted at the instant that they name and not before.
func TestARaisedRateReachesAUsedUpKey(t *testing.T) {
	bucket := limit.Limit{Algorithm: limit.TokenBucket, Quota: 5, Count: 1, Period: day, Initial: 5}
	gcra := limit.Limit{Algorithm: limit.GCRA, Quota: 5, Count: 1, Period: day}
	faster := func(l limit.Limit, quota uint64) limit.Limit {
		l.Quota, l.Count = quota, 20*86_400
		if l.Initial > 0 {
			l.Initial = quota
		}
		return l
	}
	window := limit.Limit{Algorithm: limit.SlidingWindow, Quota: 5, Period: day}
	shorter := window
	shorter.Period = second
	for _, of := range []struct {
		slow, fast limit.Limit
		hows       []policy.OnChange
		only       []string
		most       limit.Span // that one unit takes to come back
	}{
		{bucket, faster(bucket, 5), []policy.OnChange{policy.AsIs}, nil, 50 * millisecond},
		{bucket, faster(bucket, 6), []policy.OnChange{policy.Proportional, policy.Additive}, nil, 50 * millisecond},
		{gcra, faster(gcra, 5), []policy.OnChange{policy.AsIs}, nil, 50 * millisecond},
		{gcra, faster(gcra, 6), []policy.OnChange{policy.Proportional, policy.Additive}, nil, 50 * millisecond},
		{window, shorter, []policy.OnChange{policy.AsIs, policy.Proportional, policy.Additive},
			[]string{"revision", "inline"}, 2 * second},
		{limit.Limit{Algorithm: limit.Lifetime, Quota: 5}, shorter, []policy.OnChange{policy.AsIs},
			[]string{"revision", "inline"}, 2 * second},
	} {
		for _, how := range of.hows {
			for way, change := range ways {
				for looks := range 4 {
					if of.only != nil && !slices.Contains(of.only, way) {
						continue
					}
					t.Run(fmt.Sprintf("%d %d %s %d", of.slow.Algorithm, how, way, looks), func(t *testing.T) {
						slow, fast := slowAndFast(of.slow, of.fast, how)
						w := &owner{world: newWorld(t, slow), overlay: map[string]Record{}}
						w.adopt(origin, w.policies)
						w.decide(origin+1, []Request{checkOf("p", "k", 5)})
						now := origin + limit.Time(hour)
						mustComeBack(t, w, now, change(w, now, slow, fast), looks, of.most)
					})
				}
			}
		}
	}
}

// mustComeBack asks for a key after a change: with looks&1 it is read first, with looks&2 it is denied first.
func mustComeBack(t *testing.T, w *owner, now limit.Time, check Request, looks int, most limit.Span) {
	t.Helper()
	check.Entries[0].Cost = 1
	got, peek := check, check
	got.Op, peek.Op = Get, Peek
	if now++; looks&1 > 0 {
		w.decide(now, []Request{got, peek})
	}
	if now += 2; looks&2 > 0 {
		w.decide(now, []Request{check})
	}
	now += 2
	read := w.decide(now, []Request{got, peek})
	d := w.decide(now, []Request{check})[0].Decision
	if looked := read[1].Decision; looked.Allowed != d.Allowed || looked.RetryAfter != d.RetryAfter {
		t.Fatalf("a look is told %v and %d, a check %v and %d",
			looked.Allowed, looked.RetryAfter, d.Allowed, d.RetryAfter)
	}
	if d.Allowed {
		return // enough of it came back within the microseconds
	}
	if read[0].Decision.Limits[0].ResetAt != d.Limits[0].ResetAt || d.RetryAfter > most || d.RetryAfter < 2 {
		t.Fatalf("a get says at rest at %d, a denial at %d, retry after %d",
			read[0].Decision.Limits[0].ResetAt, d.Limits[0].ResetAt, d.RetryAfter)
	}
	then := now + limit.Time(d.RetryAfter)
	if early := w.decide(then-1, []Request{check})[0].Decision; early.Allowed || early.RetryAfter != 1 {
		t.Fatalf("a microsecond before: %+v", early)
	}
	if due := w.decide(then, []Request{check})[0].Decision; !due.Allowed {
		t.Fatalf("at the instant: %+v", due)
	}
}

// Changes of a key happen at their instant, regardless of requests, in every order: a revision and another, an
// override, its end, a tier, with reads, denials and successes between them. The twin is asked each time, also for
// every wait. Reads change nothing: without them every other answer is the same.
func TestChangesInEveryOrder(t *testing.T) {
	base := map[string][2]limit.Limit{
		"bucket": {{Algorithm: limit.TokenBucket, Quota: 4, Count: 1, Period: 5 * second, Initial: 4},
			{Algorithm: limit.TokenBucket, Quota: 6, Count: 7, Period: 5 * second, Initial: 2}},
		"gcra": {{Algorithm: limit.GCRA, Quota: 4, Count: 1, Period: 5 * second},
			{Algorithm: limit.GCRA, Quota: 3, Count: 9, Period: 5 * second}},
		"weighted": {{Algorithm: limit.SlidingWindow, Quota: 4, Period: 20 * second},
			{Algorithm: limit.SlidingWindow, Quota: 6, Period: 3 * second}},
		"log": {{Algorithm: limit.SlidingLog, Quota: 4, Period: 20 * second},
			{Algorithm: limit.SlidingLog, Quota: 7, Period: 4 * second}},
		"lifetime": {{Algorithm: limit.Lifetime, Quota: 4},
			{Algorithm: limit.SlidingBuckets, Quota: 6, Period: 8 * second, Bucket: second}},
		"window": {{Algorithm: limit.FixedWindow, Quota: 4, Period: 20 * second},
			{Algorithm: limit.TokenBucket, Quota: 5, Count: 2, Period: second, Initial: 5}},
	}
	const events = 8
	stride := max(1, 127/times()) // of all orders: make twins has more
	for name, limits := range base {
		for _, how := range []policy.OnChange{policy.AsIs, policy.Proportional, policy.Additive, policy.Restart} {
			t.Run(fmt.Sprint(name, how), func(t *testing.T) {
				t.Parallel()
				for n := range events * events * events * events {
					order := []int{n % events, n / events % events, n / events / events % events,
						n / events / events / events}
					if n%stride != int(how)%stride || slowsDown(order) {
						continue
					}
					with, without := changesIn(t, limits, how, order, true), changesIn(t, limits, how, order, false)
					// what a read has met as new stays new
					if how != policy.Restart && !reflect.DeepEqual(with, without) {
						t.Fatalf("order %v: with reads %+v, without %+v", order, with, without)
					}
				}
			})
		}
	}
}

// slowsDown reports whether a revision makes a limit slower while an override is in force: a record that is not written
// until both are over may be forgotten by the earlier numbers.
func slowsDown(order []int) bool {
	overridden, revisions := false, 0
	for _, event := range order {
		overridden = overridden || event == 1
		if event == 0 {
			if revisions++; overridden && revisions%2 == 0 {
				return true
			}
		}
	}
	return false
}

// changesIn plays events in an order, and tries the instant that the last denial names. It returns the answers to what
// was not a read.
func changesIn(t *testing.T, limits [2]limit.Limit, how policy.OnChange, order []int, reads bool) (answers []Decision) {
	slow, fast := slowAndFast(limits[0], limits[1], how)
	w := &owner{world: newWorld(t, slow), overlay: map[string]Record{}}
	w.adopt(origin, w.policies)
	twin := model.NewHistory(slow)
	twin.Thorough = true
	now := origin + 1
	ask := func(r Request) Decision {
		t.Helper()
		result := w.decide(now, []Request{r})[0]
		d := decided(&r, &result, w.stamp)
		if err := twin.Decide(&d); err != nil {
			t.Fatalf("%v at %d, order %v: %v", shown(&r), now-origin, order, err)
		}
		w.installOldest()
		return result.Decision
	}
	tiered := func(op Op, tier string) Request {
		r := checkOf("p", "k", 1)
		r.Op, r.Entries[0].Tier = op, tier
		return r
	}
	for len(w.pending) > 0 {
		w.installOldest()
	}
	ask(checkOf("p", "k", 4))
	current, ends, gap := 0, limit.Time(0), limit.Time(700_001)
	for _, event := range order {
		now += gap
		for _, r := range []Request{tiered(Get, ""), tiered(Peek, wide)} {
			if reads {
				ask(r)
			}
			now++
		}
		gap = 700_001
		switch event {
		case 0:
			current = 1 - current
			p := []*policy.Policy{slow, fast}[current]
			w.adopt(now, policy.NewSet([]*policy.Policy{p}))
			w.installOldest()
			twin.Adopt(now, p)
		case 1:
			quota := uint64(5)
			ends = now + 2_000_003
			ask(putOverrideOf(&policy.Override{Limits: map[string]policy.TierLimit{"a": {Quota: &quota}}, Tier: wide,
				Expires: ends}))
		case 2:
			answers = append(answers, ask(tiered(Check, wide)))
		case 3, 4: // the next comes one microsecond before the override ends, or at that instant
			now, gap = max(now, ends-7+limit.Time(event)), 1
		case 5:
			answers = append(answers, ask(checkOf("p", "k", 1)))
		case 6:
			answers = append(answers, ask(checkOf("p", "k", 4)))
		case 7:
			now += 6_000_000
		}
	}
	now += gap + 2
	d := ask(checkOf("p", "k", 3))
	if answers = append(answers, d); !d.Allowed && d.RetryAfter > 1 {
		at := now + limit.Time(d.RetryAfter)
		now = at - 1
		early := ask(checkOf("p", "k", 3))
		now = at
		if due := ask(checkOf("p", "k", 3)); early.Allowed || early.RetryAfter != 1 || !due.Allowed {
			t.Fatalf("order %v: told to wait for %d; a microsecond before %+v, then %+v",
				order, d.RetryAfter, early, due)
		}
	}
	for i := range answers {
		answers[i].Position, answers[i].Index = Position{}, 0
	}
	return answers
}

// A used bucket that is full again under its old numbers is full under the new ones, and not at the initial level of a
// never-used bucket. A caller that was told to wait until it has room finds the room, even if the caller comes later.
func TestABucketThatIsFullAgainStaysFullUnderOtherNumbers(t *testing.T) {
	for _, how := range []policy.OnChange{policy.AsIs, policy.Proportional, policy.Additive} {
		large := limit.Limit{Algorithm: limit.TokenBucket, Quota: 4, Count: 1, Period: 10 * second, Initial: 1}
		small := large
		small.Quota = 3
		before, after := onePolicy(large), onePolicy(small)
		before.OnChange, after.OnChange = how, how
		w := newWorld(t, before)
		w.batch(origin, checkOf("p", "k", 1))
		w.policies = policy.NewSet([]*policy.Policy{after})
		results, _ := w.batch(origin+limit.Time(10*second), checkOf("p", "k", 3))
		if d := results[0].Decision; d.Allowed || d.RetryAfter <= 0 || d.RetryAfter > 30*second {
			t.Fatalf("%v: %+v", how, d)
		}
		if late, _ := w.batch(origin+limit.Time(60*second), checkOf("p", "k", 3)); !late[0].Decision.Allowed {
			t.Errorf("%v: denied when the bucket has long been full: %+v", how, late[0].Decision)
		}
	}
}

// A revision that changes something else does not move the instant at which an earlier one has changed a limit.
func TestARevisionMovesOnlyWhatItChanges(t *testing.T) {
	slow, fast := slowAndFast(limit.Limit{Algorithm: limit.TokenBucket, Quota: 5, Count: 1, Period: day, Initial: 5},
		limit.Limit{Algorithm: limit.TokenBucket, Quota: 5, Count: 1, Period: second, Initial: 5}, policy.AsIs)
	w := &owner{world: newWorld(t, slow), overlay: map[string]Record{}}
	w.adopt(origin, w.policies)
	w.decide(origin+1, []Request{checkOf("p", "k", 5)})
	other := onePolicy(lifetimeOf(10))
	other.Name = "other"
	w.adopt(origin+limit.Time(hour), policy.NewSet([]*policy.Policy{fast}))
	w.adopt(origin+limit.Time(hour+3*second), policy.NewSet([]*policy.Policy{fast, other}))
	if d := w.decide(origin+limit.Time(hour+4*second), []Request{checkOf("p", "k", 4)})[0].Decision; !d.Allowed ||
		d.Limits[0].Used != 5 {
		t.Errorf("four seconds after the rate was raised to one a second: %+v", d)
	}
}

// A key that is used up under an override is not forgotten when it would be full again under that, if it ends before.
func TestAKeyIsKeptForTheEndOfItsOverride(t *testing.T) {
	slow, fast := slowAndFast(limit.Limit{Algorithm: limit.TokenBucket, Quota: 5, Count: 1, Period: day, Initial: 5},
		limit.Limit{Algorithm: limit.TokenBucket, Quota: 5, Count: 86_400, Period: day, Initial: 5}, policy.AsIs)
	w := newWorld(t, slow)
	w.must(origin, putOverrideOf(&policy.Override{Limits: fast.Tiers[wide].Limits,
		Expires: origin + limit.Time(2*second)}))
	w.must(origin, checkOf("p", "k", 5))
	if d := w.must(origin+limit.Time(5*second), checkOf("p", "k", 3)); d.Allowed || d.RetryAfter != day-3*second {
		t.Errorf("two units came back, and then none for a day: %+v", d)
	}
}

// The record of an adoption has the instants of changes.
func TestAdoptionSaysWhenNumbersChanged(t *testing.T) {
	before, after := onePolicy(lifetimeOf(10)), onePolicy(lifetimeOf(11))
	w := newWorld(t, before)
	view, old, set := w, policy.NewSet([]*policy.Policy{before}), policy.NewSet([]*policy.Policy{after})
	w.append(EncodeBatch(w.next(origin+1), []Put{adoptPut(policy.Revision{Version: 7, Text: []byte("x"), Set: old}, nil)}))
	const want = "\x01\x08\x01\x01p\x01a\x82\x80\xf7\xeb\x8b\xf3\x91\x03y"
	if got := Adopt(view, old, policy.Revision{Version: 8, Text: []byte("y"), Set: set},
		w.next(origin+2))[0].Value; string(got) != want {
		t.Errorf("%q", got)
	}
}

// A revision that starts over, or adds, reaches a key with an override that has ended before, without any request.
func TestARevisionReachesAKeyWhoseOverrideEndedUnseen(t *testing.T) {
	for how, want := range map[policy.OnChange]uint64{policy.Restart: 0, policy.Additive: 20} {
		before, after := onePolicy(lifetimeOf(10)), onePolicy(lifetimeOf(20))
		before.OnChange, after.OnChange = how, how
		w := &owner{world: newWorld(t, before), overlay: map[string]Record{}}
		w.adopt(origin, w.policies)
		quota := uint64(100)
		w.decide(origin+1,
			[]Request{putOverrideOf(&policy.Override{Limits: map[string]policy.TierLimit{"a": {Quota: &quota}},
				Expires: origin + limit.Time(second)}), checkOf("p", "k", 50)})
		w.adopt(origin+limit.Time(minute), policy.NewSet([]*policy.Policy{after}))
		get := checkOf("p", "k", 1)
		get.Op = Get
		if d := w.decide(origin+limit.Time(2*minute), []Request{get})[0].Decision; d.Limits[0].Used != want {
			t.Errorf("on_change %d: %d of %d used, want %d", how, d.Limits[0].Used, d.Limits[0].Quota, want)
		}
	}
}

// TestARevisionWithoutATierReachesWhatWasTakenUnderIt: a settlement of what was taken under a tier that a revision has
// removed finds the key as the revision left it. So it neither gives back what was taken at another rate, nor leaves
// the key to the former rate until somebody else asks.
func TestARevisionWithoutATierReachesWhatWasTakenUnderIt(t *testing.T) {
	slow := limit.Limit{Algorithm: limit.TokenBucket, Quota: 5, Count: 1, Period: day, Initial: 5}
	fast := slow
	fast.Count = 86_400 // one unit a second
	p := onePolicy(slow)
	p.Tiers = tierOf(slow.Algorithm, fast)
	for _, settles := range []bool{false, true} {
		w := &owner{world: newWorld(t, p), overlay: map[string]Record{}}
		w.adopt(origin, w.policies)
		reserve := reserveOf(Entry{Policy: "p", Key: "k", Cost: 5, Tier: wide})
		held := w.decide(origin+1, []Request{reserve})[0].Decision
		w.adopt(origin+2, policy.NewSet([]*policy.Policy{onePolicy(slow)}))
		if settles {
			one := settleOf(reserve, held, Settlement{Action: ActionCommit, Actual: []uint64{4}})
			if r := w.decide(origin+limit.Time(second), []Request{one})[0]; r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		d := w.decide(origin+limit.Time(2*second), []Request{checkOf("p", "k", 1)})[0].Decision
		if d.Allowed || d.RetryAfter < day-3*second {
			t.Errorf("settled %v: %+v", settles, d)
		}
	}
}

// TestAnExcessUnderARemovedTierIsCounted: what a commit spends above its hold counts on the limits that the key has now,
// although the tier of the hold is gone, and although its window has passed.
func TestAnExcessUnderARemovedTierIsCounted(t *testing.T) {
	window := limit.Limit{Algorithm: limit.FixedWindow, Quota: 5, Period: minute}
	p, more := onePolicy(window), window
	more.Quota = 9
	p.Tiers = tierOf(window.Algorithm, more)
	for overage, want := range map[Overage]uint64{OverageClamp: 5, OverageDebt: 7, OverageReject: 0} {
		w := newWorld(t, p)
		reserve := reserveOf(Entry{Policy: "p", Key: "k", Cost: 1, Tier: wide})
		reserve.Hold.TTL = hour
		held := w.must(origin, reserve)
		w.policies = policy.NewSet([]*policy.Policy{onePolicy(window)})
		commit := settleOf(reserve, held, Settlement{Action: ActionCommit, Actual: []uint64{8}, Overage: overage})
		later := origin + limit.Time(2*minute)
		if results, _ := w.batch(later, commit); (results[0].Err != nil) != (overage == OverageReject) {
			t.Errorf("overage %d: %v", overage, results[0].Err)
		}
		w.wantUsed(later+1, "p", "k", want)
	}
}
