package shard

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// plan is all the random choices of a run against the twin, drawn in advance, so that a part can be cut out and the
// rest keeps its meaning.
type plan struct {
	revisions [][]*policy.Policy
	steps     []step
	tells     bool
}

// step is one batch.
type step struct {
	wait     limit.Time // since the previous step
	boundary bool       // instead, go to an instant at which something ends: the pick-th known one
	pick     int
	off      int // microseconds from that instant
	restore  bool
	revision int // of the policies, from now on; 0: unchanged
	pending  int // entries that may stay pending
	wishes   []wish
}

// wish is one request, without the parts that a run must fill in.
type wish struct {
	request Request
	again   bool // instead, repeat an earlier one
	pick    int  // for every choice to be made
}

// lifted is an unlimited tier, and wide one with other numbers. Half of the policies have them.
const (
	lifted = "lifted"
	wide   = "wide"
)

func drawPlan(rnd *rand.Rand) *plan {
	p := &plan{revisions: [][]*policy.Policy{randomPolicies(rnd)}}
	// few requests between long pauses, in which holds end, periods close and policies change
	seldom := rnd.IntN(3) == 0
	for len(p.revisions) < 4 && (seldom || rnd.IntN(2) == 0) {
		p.revisions = append(p.revisions, changedPolicies(rnd, p.revisions[len(p.revisions)-1]))
	}
	var corrected wish // last
	for range 40 {
		s := step{wait: randomStep(rnd), boundary: rnd.IntN(3) == 0, pick: rnd.IntN(1000), off: rnd.IntN(3) - 1,
			restore: rnd.IntN(30) == 0, pending: rnd.IntN(3)}

		if rnd.IntN(12) == 0 || seldom && rnd.IntN(4) == 0 {
			s.revision = 1 + rnd.IntN(6)
		}
		most := 20
		if seldom {
			most = 4
			s.wait += limit.Time(rnd.IntN(2) * rnd.IntN(int(minute)))
		}
		if rnd.IntN(8) == 0 { // a correction is alone in its batch
			if rnd.IntN(3) > 0 || corrected.request.Op == 0 { // else the last one again, by its id if it has one
				corrected = randomWish(rnd, p.revisions[0], CorrectUsage)
			}
			s.wishes = []wish{corrected}
			p.steps = append(p.steps, s)
			continue
		}
		for range 1 + rnd.IntN(most) {
			s.wishes = append(s.wishes, randomWish(rnd, p.revisions[0], randomOp(rnd)))
		}
		p.steps = append(p.steps, s)
	}
	return p
}

func randomPolicies(rnd *rand.Rand) (policies []*policy.Policy) {
	for i := range 1 + rnd.IntN(3) {
		p := &policy.Policy{Name: fmt.Sprintf("p%d", i), Retention: second * limit.Span(1+rnd.IntN(30)),
			OnExpire: policy.OnExpireCancel + policy.OnExpire(rnd.IntN(2)), OnChange: policy.OnChange(rnd.IntN(4))}
		if rnd.IntN(2) == 0 {
			p.CountDenied = rnd.IntN(2) == 0
			p.Lockout = randomLockout(rnd, p.CountDenied)
		}
		for j := range 1 + rnd.IntN(3) {
			p.Limits = append(p.Limits, policy.Limit{Name: fmt.Sprintf("l%d", j), Limit: randomLimit(rnd)})
		}
		if rnd.IntN(2) == 0 {
			p.Tiers = map[string]policy.Tier{}
		}
		mood(rnd, p)
		if rnd.IntN(2) == 0 {
			p.Meter = randomMeter(rnd)
		}
		if rnd.IntN(2) == 0 {
			randomThresholds(rnd, p)
		}
		policies = append(policies, p)
	}
	return policies
}

// randomThresholds gives limits thresholds that are often crossed, and sometimes alike.
func randomThresholds(rnd *rand.Rand, p *policy.Policy) {
	for i := range p.Limits {
		l := &p.Limits[i]
		l.Thresholds = nil
		for range rnd.IntN(4) {
			t := policy.Threshold{Units: uint64(1 + rnd.IntN(30))}
			if l.Quota > 0 && rnd.IntN(2) == 0 {
				t = policy.Threshold{Percent: uint32(1 + rnd.IntN(120))}
			}
			l.Thresholds = append(l.Thresholds, t)
		}
	}
	if p.Notify = nil; rnd.IntN(2) == 0 {
		p.Notify = []string{"billing", "ops"}
	}
}

// randomMeter has short periods, and a grace that may be longer than one.
func randomMeter(rnd *rand.Rand) *policy.Meter {
	return &policy.Meter{Name: fmt.Sprint("b", rnd.IntN(2)), Retain: uint64(1 + rnd.IntN(3)),
		Grace: second * limit.Span(1+rnd.IntN(90)),
		Cycle: &limit.Cycle{Unit: limit.Minute, Every: uint16(1 + rnd.IntN(2)), Zone: zones[rnd.IntN(len(zones))]}}
}

// mood draws the changes that a new revision may make besides the limits.
func mood(rnd *rand.Rand, p *policy.Policy) {
	p.Shadow = rnd.IntN(8) == 0
	p.UnknownKey = policy.UnknownKeyAllow
	if rnd.IntN(16) == 0 {
		p.UnknownKey = policy.UnknownKeyDeny
	}
	for j := range p.Limits {
		p.Limits[j].Shadow = rnd.IntN(8) == 0
		p.Limits[j].OnExceeded = policy.ExceededDeny
		if rnd.IntN(4) == 0 {
			p.Limits[j].OnExceeded = policy.ExceededChallenge
		}
	}
	p.DefaultTier = ""
	if p.Tiers != nil {
		p.Tiers = map[string]policy.Tier{lifted: {Unlimited: true}, wide: {Limits: randomNumbers(rnd, p.Limits)}}
		if rnd.IntN(4) == 0 {
			p.DefaultTier = wide
		} else if rnd.IntN(4) == 0 {
			delete(p.Tiers, []string{lifted, wide}[rnd.IntN(2)])
		}
	}
}

// changedPolicies returns the same policies in another version: other numbers, other algorithms, a limit more or less.
// Retentions and times of forgiveness stay, since forgotten records do not come back.
func changedPolicies(rnd *rand.Rand, before []*policy.Policy) (policies []*policy.Policy) {
	for _, old := range before {
		p := *old
		p.Limits = slices.Clone(old.Limits)
		for j := range p.Limits {
			switch l := &p.Limits[j]; rnd.IntN(4) {
			case 0:
				l.Limit = randomLimit(rnd)
			case 1:
				l.Limit = changed(rnd, l.Limit)
			}
		}
		switch n := rnd.IntN(8); {
		case n == 0 && len(p.Limits) > 1:
			p.Limits = slices.Delete(p.Limits, 0, 1)
		case n == 1:
			// No two of these names share a LimitPrint, which the twin does not model. No policy has a name twice.
			name := fmt.Sprintf("m%d", rnd.IntN(200))
			p.Limits = slices.DeleteFunc(p.Limits, func(l policy.Limit) bool { return l.Name == name })
			p.Limits = append(p.Limits, policy.Limit{Name: name, Limit: randomLimit(rnd)})
		}
		mood(rnd, &p)
		switch rnd.IntN(4) {
		case 0:
			p.Meter = randomMeter(rnd)
		case 1:
			p.Meter = nil
		}
		if rnd.IntN(3) == 0 {
			randomThresholds(rnd, &p)
		}
		p.OnExpire, p.OnChange = policy.OnExpireCancel+policy.OnExpire(rnd.IntN(2)), policy.OnChange(rnd.IntN(4))
		policies = append(policies, &p)
	}
	return policies
}

// changed returns a limit of the same algorithm with other numbers.
func changed(rnd *rand.Rand, l limit.Limit) limit.Limit {
	other := randomLimit(rnd)
	for other.Algorithm != l.Algorithm {
		other = randomLimit(rnd)
	}
	if rnd.IntN(2) == 0 {
		other.Period, other.Bucket = l.Period, l.Bucket
	}
	return other
}

// randomNumbers returns numbers for a tier or an override, for limits that have such numbers.
func randomNumbers(rnd *rand.Rand, limits []policy.Limit) map[string]policy.TierLimit {
	numbers := map[string]policy.TierLimit{}
	for _, l := range limits {
		quota := uint64(1 + rnd.IntN(40))
		t := policy.TierLimit{Quota: &quota}
		count := uint64(1 + rnd.IntN(10))
		switch l.Algorithm {
		case limit.Unlimited:
			continue
		case limit.TokenBucket:
			if l.Initial != l.Quota {
				*t.Quota = l.Quota + uint64(rnd.IntN(10))
			}
			t.Refill = &count
		case limit.GCRA:
			t.Rate = &count
		}
		if rnd.IntN(8) == 0 {
			*t.Quota = 0
		}
		if rnd.IntN(3) > 0 {
			numbers[l.Name] = t
		}
	}
	return numbers
}

func randomLockout(rnd *rand.Rand, countDenied bool) *policy.Lockout {
	l := &policy.Lockout{After: uint32(1 + rnd.IntN(3)), Base: second * limit.Span(1+rnd.IntN(4)),
		Factor: uint32(1 + rnd.IntN(3)), OnDenied: countDenied && rnd.IntN(2) == 0, StepDown: rnd.IntN(2) == 0}
	l.Max = l.Base * limit.Span(1+rnd.IntN(10))
	l.ForgiveAfter = second * limit.Span(1+rnd.IntN(60))
	return l
}

// inlines are inline limits of requests, under the name of an unrelated policy.
var inlines = []*policy.Policy{
	{Name: "p0", Retention: policy.DefaultRetention, OnExpire: policy.OnExpireCancel, Limits: []policy.Limit{
		{Name: "l0", Limit: limit.Limit{Algorithm: limit.SlidingLog, Quota: 9, Period: 7 * second}},
		{Name: "l1", Limit: limit.Limit{Algorithm: limit.Concurrency, Quota: 6}}}},
	{Name: "p0", Retention: policy.DefaultRetention, OnExpire: policy.OnExpireCancel, Limits: []policy.Limit{
		{Name: "l0", Limit: limit.Limit{Algorithm: limit.SlidingLog, Quota: 7, Period: 5 * second}}}},
	{Name: "p0", Retention: policy.DefaultRetention, OnExpire: policy.OnExpireCancel, Limits: TallyLimits},
}

// inlineOf returns the policy of an entry's inline limits; nil: it has none.
func inlineOf(e *Entry) *policy.Policy {
	i := slices.IndexFunc(inlines, func(p *policy.Policy) bool {
		return e.Limits != nil && &p.Limits[0] == &e.Limits[0]
	})
	if i < 0 {
		return nil
	}
	return inlines[i]
}

// zones are the zones of the calendars.
var zones = func() (zones []*limit.Zone) {
	for _, name := range []string{"UTC", "Asia/Kathmandu"} {
		zone, err := limit.LoadZone(name)
		if err != nil {
			panic(err)
		}
		zones = append(zones, zone)
	}
	return zones
}()

func randomLimit(rnd *rand.Rand) limit.Limit {
	algorithms := []limit.Algorithm{limit.FixedWindow, limit.FixedWindowFirstHit, limit.SlidingWindow,
		limit.SlidingBuckets, limit.SlidingLog, limit.TokenBucket, limit.GCRA, limit.Lifetime, limit.Unlimited,
		limit.Concurrency,
		limit.Calendar}
	l := limit.Limit{Algorithm: algorithms[rnd.IntN(len(algorithms))], Quota: uint64(1 + rnd.IntN(30))}
	if rnd.IntN(20) == 0 {
		l.Quota = 0
	}
	period := second * limit.Span(1+rnd.IntN(60))
	switch l.Algorithm {
	case limit.Unlimited:
		l.Quota = 0
	case limit.Lifetime:
		l.Quota *= 20
	case limit.Concurrency:
	case limit.Calendar:
		l.Cycle = &limit.Cycle{Unit: limit.Minute, Every: uint16(1 + rnd.IntN(3)), Zone: zones[rnd.IntN(len(zones))]}
	case limit.SlidingBuckets:
		l.Bucket = period / 10
		l.Period = period
	case limit.TokenBucket, limit.GCRA:
		l.Count, l.Period = uint64(1+rnd.IntN(10)), period
		if l.Algorithm == limit.TokenBucket {
			l.Initial = l.Quota - uint64(rnd.IntN(2))*uint64(rnd.IntN(max(1, int(l.Quota))))
		}
	default:
		l.Period = period
	}
	return l
}

// randomStep is usually a few milliseconds, sometimes seconds, and now and then longer than any window.
func randomStep(rnd *rand.Rand) limit.Time {
	switch n := rnd.IntN(100); {
	case n < 60:
		return limit.Time(1 + rnd.IntN(int(50*millisecond)))
	case n < 98:
		return limit.Time(1 + rnd.IntN(int(5*second)))
	}
	return limit.Time(rnd.IntN(int(3 * minute)))
}

// wishes are the weights with which operations are drawn.
var wishes = map[Op]int{Check: 400, Peek: 50, Get: 30, Reset: 8, Count: 40, Partial: 80, Reserve: 150, Settle: 190,
	SetUsed: 8, AddUsed: 10, Block: 6, Unblock: 6, PutOverride: 12, DeleteOverride: 5, Tally: 150, ReadTally: 30,
	Forget: 10}

func randomOp(rnd *rand.Rand) Op {
	all := slices.Sorted(maps.Keys(wishes))
	sum := 0
	for _, op := range all {
		sum += wishes[op]
	}
	at := rnd.IntN(sum)
	i := slices.IndexFunc(all, func(op Op) bool {
		at -= wishes[op]
		return at < 0
	})
	return all[i]
}

func randomWish(rnd *rand.Rand, policies []*policy.Policy, op Op) wish {
	w := wish{request: Request{Namespace: "default", Op: op}, pick: rnd.IntN(1 << 20), again: rnd.IntN(25) == 0}
	q := &w.request
	one := q.Op >= SetUsed && q.Op <= DeleteOverride || q.Op == Forget || q.Op == CorrectUsage
	if q.Op == Tally || q.Op == ReadTally {
		q.Entries = []Entry{{Policy: "p0", Key: fmt.Sprint("k", rnd.IntN(3)), Cost: 1, Limits: TallyLimits}}
	}
	for len(q.Entries) == 0 || q.Op < Tally && !one && rnd.IntN(4) == 0 {
		p := policies[rnd.IntN(len(policies))]
		e := Entry{Policy: p.Name, Key: fmt.Sprint("k", rnd.IntN(3)), Cost: 1}
		if rnd.IntN(8) == 0 {
			e.Tier = []string{lifted, wide}[rnd.IntN(2)]
		}
		if rnd.IntN(3) == 0 {
			e.Cost = uint64(1 + rnd.IntN(8))
		}
		if (q.Op == Check || q.Op == Peek) && rnd.IntN(6) == 0 {
			e.Cost = 0
		}
		if q.Op != Settle && !one && rnd.IntN(20) == 0 {
			e.Limits, e.Tier = inlines[rnd.IntN(len(inlines))].Limits, ""
		}
		if !slices.ContainsFunc(q.Entries, func(o Entry) bool {
			return o.Policy == e.Policy && o.Key == e.Key && (o.Limits == nil) == (e.Limits == nil)
		}) {
			q.Entries = append(q.Entries, e)
		}
	}
	switch p := policies[0]; q.Op {
	case Reserve:
		q.Hold = &HoldTerms{TTL: limit.Span(1 + rnd.IntN(int([]limit.Span{20 * second, 150 * second}[rnd.IntN(5)/4]))),
			OnExpire: policy.OnExpire(rnd.IntN(3))}
	case Settle:
		q.Settlement = &Settlement{Action: Action(1 + rnd.IntN(5)), Overage: Overage(rnd.IntN(3)),
			TTL: limit.Span(1 + rnd.IntN(int(20*second)))}
	case Unblock, DeleteOverride:
		q.Adjustment = &Adjustment{}
	case Reset, SetUsed, AddUsed:
		if rnd.IntN(2) == 0 && len(q.Entries) == 1 {
			q.Limit = "l0"
		}
		if q.Op != Reset {
			q.Adjustment = &Adjustment{Amount: int64(rnd.IntN(30))}
		}
		if q.Op == AddUsed {
			q.Adjustment.Amount -= 15
			if q.Adjustment.Amount >= 0 {
				q.Adjustment.Amount++
			}
		}
	case Tally:
		q.Tally = randomTally(rnd)
	case CorrectUsage:
		q.Adjustment = &Adjustment{Amount: int64(1+rnd.IntN(20)) * int64(1-2*rnd.IntN(2)), Note: "by hand"}
	case Block:
		q.Adjustment = &Adjustment{Until: limit.Time(1 + rnd.IntN(int(10*second)))}
	case PutOverride:
		o := &policy.Override{Limits: randomNumbers(rnd, p.Limits), Tier: []string{"", "", lifted, wide}[rnd.IntN(4)]}
		if rnd.IntN(3) > 0 {
			o.Expires = limit.Time(1 + rnd.IntN(int(20*second)))
		}
		q.Adjustment = &Adjustment{Override: o}
	}
	if q.Op != Peek && q.Op != Get && q.Op != Forget && rnd.IntN(3) == 0 {
		q.ID = fmt.Sprint("id", rnd.IntN(60))
	}
	if q.Op == CorrectUsage && rnd.IntN(4) > 0 {
		q.ID = fmt.Sprint("correction", rnd.IntN(60))
	}
	return w
}

// randomTally usually adds, and sometimes overflows.
func randomTally(rnd *rand.Rand) *TallyTerms {
	t := &TallyTerms{Verb: []TallyVerb{TallyAdd, TallyAdd, TallyAdd, TallySet, TallyEnd, TallyEnd, TallyKeep,
		TallyDrop}[rnd.IntN(8)]}
	switch t.Verb {
	case TallyAdd, TallySet:
		t.Amount = int64(rnd.IntN(20) - 10)
		if rnd.IntN(20) == 0 {
			t.Amount = []int64{math.MaxInt64, math.MinInt64, 1 << 62, -1 << 62}[rnd.IntN(4)] + t.Amount/10
		}
	case TallyEnd:
		t.When, t.TTL = TallyWhen(rnd.IntN(6)), limit.Span(rnd.IntN(int(20*second)))-limit.Span(rnd.IntN(2))*second
	}
	if t.Verb == TallySet {
		t.When, t.KeepTTL = TallyWhen(rnd.IntN(3)), rnd.IntN(3) == 0
		if !t.KeepTTL && rnd.IntN(2) == 0 {
			t.TTL = limit.Span(1 + rnd.IntN(int(20*second)))
		}
	}
	if (t.Verb == TallySet || t.Verb == TallyEnd) && t.TTL != 0 && rnd.IntN(3) == 0 {
		t.At = true // from the request's time on (see ask), or it has ended before
		t.TTL -= limit.Span(rnd.IntN(2)) * 5 * second
	}
	return t
}
