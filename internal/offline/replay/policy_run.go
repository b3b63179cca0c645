package replay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// policyRun runs one policy alone.
type policyRun struct {
	name     string
	set      *policy.Set
	request  shard.Request // reused: only its entry changes
	records  records
	tally    PolicyReport      // without DeniedBy, TopDenied and Timeline, which report adds
	byLimit  map[string]uint64 // denials by limit
	byKey    map[string]uint64 // denials by key
	timeline timeline
}

func newPolicyRun(set *policy.Set, name, tier string) (*policyRun, error) {
	p, ok := set.Lookup(name)
	if !ok {
		return nil, fmt.Errorf("there is no policy %s: known are %s", name, strings.Join(set.Names(), ", "))
	}
	if _, ok := p.Resolve(tier); !ok {
		tiers := slices.Sorted(maps.Keys(p.Tiers))
		if tiers == nil {
			return nil, fmt.Errorf("policy %s has no tiers: try it without one", name)
		}
		return nil, fmt.Errorf("policy %s has no tier %s: known are %s", name, tier, strings.Join(tiers, ", "))
	}
	if p.UnknownKey == policy.UnknownKeyDeny { // a log does not tell which keys have an override
		known := *p
		known.UnknownKey = policy.UnknownKeyAllow
		set = policy.NewSet([]*policy.Policy{&known})
	}
	return &policyRun{
		name: name,
		set:  set,
		request: shard.Request{Op: shard.Check, Namespace: shard.DefaultNamespace,
			Entries: []shard.Entry{{Policy: name, Tier: tier}}},
		records: records{State: shard.NewState(0), byKey: map[string]shard.Record{}},
		tally:   PolicyReport{Policy: name},
		byLimit: map[string]uint64{},
		byKey:   map[string]uint64{},
	}, nil
}

// decide decides the event at now, and reports whether it is admitted.
func (l *policyRun) decide(event Event, now limit.Time) (allowed bool, err error) {
	l.request.Entries[0].Key, l.request.Entries[0].Cost = event.Key, event.Cost
	results, puts := shard.Evaluate(&l.records, l.set, []shard.Request{l.request}, shard.Stamp{Now: now})
	if err := results[0].Err; err != nil {
		return false, err
	}
	l.records.apply(puts, now)
	l.count(event, now, &results[0].Decision)
	return results[0].Decision.Allowed, nil
}

func (l *policyRun) count(event Event, now limit.Time, d *shard.Decision) {
	l.tally.Events++
	l.timeline.add(now, d.Allowed)
	if d.ShadowDenied {
		l.tally.ShadowDenied++
	}
	if d.Allowed {
		l.tally.Admitted++
		return
	}
	l.tally.Denied++
	if d.Challenged() {
		l.tally.Challenged++
	}
	if _, known := l.byKey[event.Key]; !known {
		event.Key = strings.Clone(event.Key) // avoids keeping the whole line
	}
	l.byKey[event.Key]++
	if l.tally.FirstDenial == nil {
		l.tally.FirstDenial = &Denial{Time: clock(now), Key: event.Key, Line: event.Line}
	}
	for _, status := range d.Limits {
		if !status.Allowed && !status.Shadow {
			l.byLimit[status.Limit]++
		}
	}
}

func (l *policyRun) report() PolicyReport {
	report := l.tally
	p, _ := l.set.Lookup(l.name)
	for _, rule := range p.Limits {
		report.DeniedBy = append(report.DeniedBy, LimitDenials{Limit: rule.Name, Denied: l.byLimit[rule.Name]})
	}
	report.TopDenied = topDenied(l.byKey)
	report.Timeline = l.timeline.report()
	return report
}

// topDeniedMost is the largest number of keys in the report.
const topDeniedMost = 10

// topDenied puts equally denied keys in the order of their names, so that equal logs have equal reports.
func topDenied(denials map[string]uint64) []KeyDenials {
	top := make([]KeyDenials, 0, len(denials))
	for key, denied := range denials {
		top = append(top, KeyDenials{Key: key, Denied: denied})
	}
	slices.SortFunc(top, func(a, b KeyDenials) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), strings.Compare(a.Key, b.Key))
	})
	return top[:min(len(top), topDeniedMost)]
}
