package shard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stint-io/stint/policy"
)

func (r *run) tellf(format string, args ...any) {
	if r.plan.tells {
		r.story = append(r.story, fmt.Sprintf(format, args...))
	}
}

func shown(q *Request) string {
	s := fmt.Sprintf("op %d", q.Op)
	for _, e := range q.Entries {
		s += fmt.Sprintf(" %s/%s:%d", e.Policy, e.Key, e.Cost)
		if e.Tier != "" {
			s += " tier " + e.Tier
		}
		if e.Limits != nil {
			s += fmt.Sprintf(" inline of %d", len(e.Limits))
		}
	}
	if q.ID != "" {
		s += " id " + q.ID
	}
	if q.Limit != "" {
		s += " limit " + q.Limit
	}
	if q.Hold != nil {
		s += fmt.Sprintf(" %+v", *q.Hold)
	}
	if q.Settlement != nil {
		s += fmt.Sprintf(" %+v", *q.Settlement)
	}
	if q.Tally != nil {
		s += fmt.Sprintf(" %+v", *q.Tally)
	}
	if q.Op == CorrectUsage {
		s += fmt.Sprintf(" %+v", *correctionOf(q))
	}
	if a := q.Adjustment; a != nil {
		s += fmt.Sprintf(" amount %d until %d", a.Amount, a.Until-origin)
		if a.Override != nil {
			s += fmt.Sprintf(" override tier %q%s until %d", a.Override.Tier, shownNumbers(a.Override.Limits),
				a.Override.Expires)
		}
	}
	return s
}

func shownResult(r *Result) string {
	if r.Err != nil {
		return fmt.Sprintf("error %d: %v", r.Err.Code, r.Err)
	}
	d := &r.Decision
	s := fmt.Sprintf("allowed %v shadow %v replayed %v at %d/%d.%d retry %d", d.Allowed, d.ShadowDenied, d.Replayed,
		d.Position.Epoch, d.Position.Seq, d.Index, d.RetryAfter)
	if d.HoldExpires != 0 {
		s += fmt.Sprintf(" expires %d", d.HoldExpires-origin)
	}
	if d.Tallied != nil {
		s += fmt.Sprintf(" tally %+v", *d.Tallied)
	}
	for _, l := range d.Limits {
		s += fmt.Sprintf("\n            %s/%s %s %+v held %d granted %d level %d blocked until %d",
			l.Policy, l.Key, l.Limit, l.Verdict, l.Held, l.Granted, l.LockoutLevel, max(0, l.BlockedUntil-origin))
	}
	return s
}

func shownPolicy(p *policy.Policy) string {
	s := fmt.Sprintf("%s retention %d", p.Name, p.Retention)
	if p.Shadow {
		s += " shadow"
	}
	if p.CountDenied {
		s += " count_denied"
	}
	s += fmt.Sprintf(" on_expire %d on_change %d", p.OnExpire, p.OnChange)
	if p.Lockout != nil {
		s += fmt.Sprintf(" lockout %+v", *p.Lockout)
	}
	for _, l := range p.Limits {
		s += fmt.Sprintf("\n    %s shadow %v on_exceeded %d: algorithm %d quota %d period %d count %d bucket "+
			"%d initial %d", l.Name, l.Shadow, l.OnExceeded,
			l.Algorithm, l.Quota, l.Period, l.Count, l.Bucket, l.Initial)
	}
	for name, t := range p.Tiers {
		s += fmt.Sprintf("\n    tier %s%s", name, shownNumbers(t.Limits))
	}
	return s + " default " + p.DefaultTier
}

func shownNumbers(numbers map[string]policy.TierLimit) (s string) {
	for name, t := range numbers {
		for what, n := range map[string]*uint64{"quota": t.Quota, "refill": t.Refill, "rate": t.Rate} {
			if n != nil {
				s += fmt.Sprintf(" %s.%s %d", name, what, *n)
			}
		}
	}
	return s
}

// shrink reduces a failing plan and describes the rest.
func (p *plan) shrink() string {
	for size := max(1, len(p.steps)/2); size > 0; size /= 2 {
		for from := 0; from < len(p.steps); {
			p = p.without(&from, size,
				func(q *plan, to int) { q.steps = slices.Delete(slices.Clone(q.steps), from, to) }, len(p.steps))
		}
	}
	for i := range p.steps {
		for from := 0; from < len(p.steps[i].wishes); {
			p = p.without(&from, 1, func(q *plan, to int) {
				q.steps = slices.Clone(q.steps)
				q.steps[i].wishes = slices.Delete(slices.Clone(q.steps[i].wishes), from, to)
			}, len(p.steps[i].wishes))
		}
	}
	q := *p
	q.tells = true
	r := q.run()
	var b strings.Builder
	for n, revision := range p.revisions {
		for _, one := range revision {
			if told := strings.Join(r.story, " "); strings.Contains(told, one.Name+"/") {
				fmt.Fprintf(&b, "policies %d: %s\n", n, shownPolicy(one))
			}
		}
	}
	return fmt.Sprintf("%s%s\n%v", &b, strings.Join(r.story, "\n"), r.err)
}

// without returns p without a part, if it fails without that part. Else it returns p, and moves from past the part.
func (p *plan) without(from *int, size int, cut func(q *plan, to int), all int) *plan {
	q := *p
	to := min(*from+size, all)
	cut(&q, to)
	if q.run().err != nil {
		return &q
	}
	*from = to
	return p
}
