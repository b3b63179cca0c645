package shard

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// judge is an independent check of a run against the twin, since the twin may have the shard's own errors. It knows
// nothing of states, conversions and generations: it keeps a list of admissions and of the units that came back, and
// checks that no window and no bucket has admitted more than its limit (G3). A new revision of the policies, and a set
// or reset of a key, start a new list. Units that were counted without being admitted are in no list.
type judge struct {
	lists map[listed]*admissions
	by    map[Target][]listed // the lists that contain a decision or hold
}

// listed is the name of a list.
type listed struct{ policy, key, limit string }

// admissions is what one limit has admitted on one key, and the largest numbers that it has had.
type admissions struct {
	all   []*admission
	quota uint64
	rate  uint64 // units that come back in a period
}

// admission is one admitted decision or hold.
type admission struct {
	target Target
	at     limit.Time
	units  uint64 // that have not come back
	cost   uint64
	hold   bool
	ends   limit.Time // of an open hold
	back   bool       // units come back when it ends
}

func newJudge() *judge { return &judge{map[listed]*admissions{}, map[Target][]listed{}} }

// revise starts again.
func (j *judge) revise() { *j = *newJudge() }

// hear records an answer, and returns what is wrong with it.
func (j *judge) hear(r *run, q *Request, d *Decision) error {
	switch {
	case d.Replayed:
		return nil
	case q.Op == Settle:
		j.settled(q, d)
	case q.Op == Forget:
		for name := range j.lists {
			if name.key == q.Entries[0].Key {
				delete(j.lists, name)
			}
		}
	case q.Op == Reset || q.Op == SetUsed || q.Op == AddUsed || q.Op == Tally:
		for i := range q.Entries {
			j.forget(&q.Entries[i])
		}
	case d.Allowed && d.Index != 0 && (q.Op == Check || q.Op == Partial || q.Op == Reserve):
		return j.admitted(r, q, d)
	}
	return nil
}

func (j *judge) forget(e *Entry) {
	for name := range j.lists {
		if name.policy == e.Policy && name.key == e.Key {
			delete(j.lists, name)
		}
	}
}

func (j *judge) admitted(r *run, q *Request, d *Decision) error {
	target := Target{Hold: q.Op == Reserve, Position: d.Position, Index: d.Index, DecidedAt: d.DecidedAt}
	n := 0
	for i := range q.Entries {
		e := &q.Entries[i]
		statuses := d.Limits[n : n+q.StatusesOf(i, d.Limits[n:])]
		n += len(statuses)
		p, _ := r.policies.Lookup(e.Policy)
		for k := range statuses {
			s := &statuses[k]
			at := slices.IndexFunc(p.Limits, func(l policy.Limit) bool { return l.Name == s.Limit })
			if e.Limits != nil || at < 0 || s.Shadow || s.Unlimited || s.Uncounted {
				continue
			}
			a := &admission{target: target, at: d.DecidedAt, units: e.Cost, cost: e.Cost, hold: target.Hold,
				ends: d.HoldExpires}
			if q.Op == Partial {
				a.units = s.Granted
			}
			if q.Hold != nil {
				a.back = q.Hold.OnExpire == policy.OnExpireCancel ||
					q.Hold.OnExpire == policy.OnExpireDefault && p.OnExpire == policy.OnExpireCancel
			}
			if err := j.admit(listed{e.Policy, e.Key, s.Limit}, &p.Limits[at].Limit, p, a, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (j *judge) admit(name listed, l *limit.Limit, p *policy.Policy, a *admission, s *LimitStatus) error {
	list := j.lists[name]
	if list == nil {
		list = &admissions{}
		j.lists[name] = list
	}
	list.all = append(list.all, a)
	j.by[a.target] = append(j.by[a.target], name)
	list.quota = max(list.quota, s.Quota)
	list.rate = max(list.rate, 10, l.Count) // overrides and tiers of these runs have at most 10
	for _, t := range p.Tiers {
		for _, n := range []*uint64{t.Limits[name.limit].Refill, t.Limits[name.limit].Rate} {
			if n != nil {
				list.rate = max(list.rate, *n)
			}
		}
	}
	return list.tooMuch(name, l, a.at, s)
}

// tooMuch returns the excess of admissions, including the current one.
func (a *admissions) tooMuch(name listed, l *limit.Limit, now limit.Time, s *LimitStatus) error {
	sum := uint64(0)
	for i := len(a.all) - 1; i >= 0; i-- {
		one := a.all[i]
		if one.hold && one.ends <= now && one.back {
			one.units = 0
		}
		if !one.countsIn(l, now, s) {
			continue
		}
		sum += one.units
		if most := a.most(l, now-one.at); sum > most {
			return fmt.Errorf("%s of %s for %s has admitted %d in the %d us until now, of %d",
				name.limit, name.policy, name.key, sum, now-one.at, most)
		}
	}
	return nil
}

// countsIn reports whether an admission is in the current window.
func (a *admission) countsIn(l *limit.Limit, now limit.Time, s *LimitStatus) bool {
	switch l.Algorithm {
	case limit.FixedWindow:
		return a.at/limit.Time(l.Period) == now/limit.Time(l.Period)
	case limit.FixedWindowFirstHit, limit.Calendar:
		return a.at >= s.WindowStart
	case limit.SlidingBuckets:
		return a.at/limit.Time(l.Bucket) > now/limit.Time(l.Bucket)-limit.Time(l.Period/l.Bucket)
	case limit.SlidingLog, limit.SlidingWindow:
		return a.at+limit.Time(l.Period) > now
	case limit.Concurrency:
		return a.hold && a.ends > now
	}
	return l.Algorithm != limit.Unlimited
}

// most returns how much may be admitted in a time that is within one window.
func (a *admissions) most(l *limit.Limit, in limit.Time) uint64 {
	switch l.Algorithm {
	case limit.SlidingWindow: // the older of two windows counts as evenly spread
		return 2 * a.quota
	case limit.TokenBucket, limit.GCRA:
		high, low := bits.Mul64(a.rate, uint64(in))
		back, _ := bits.Div64(high, low, uint64(l.Period))
		return a.quota + back + 1
	}
	return a.quota
}

// settled records the units that came back.
func (j *judge) settled(q *Request, d *Decision) {
	s := q.Settlement
	for i := range q.Entries {
		for _, name := range j.by[s.Target] {
			if name.policy != q.Entries[i].Policy || name.key != q.Entries[i].Key || j.lists[name] == nil {
				continue
			}
			for _, a := range j.lists[name].all {
				if a.target == s.Target {
					a.settle(s, i, d)
				}
			}
		}
	}
}

func (a *admission) settle(s *Settlement, i int, d *Decision) {
	switch {
	case s.Action == ActionExtend:
		a.ends = d.HoldExpires
		return
	case s.Action == ActionCancel || s.Action == ActionSuccess:
		a.units = 0
	case s.Actual != nil:
		a.units = min(a.units, s.Actual[i])
	}
	a.ends, a.back = d.DecidedAt, false
}
