package replay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// Comparison is how two versions of policies would have decided the same events. An event is newly denied when the
// policies before would have admitted it and those after would not, and newly admitted the other way around.
type Comparison struct {
	Log
	Added    []string           `json:"added"`   // policies only in the version after; not run
	Removed  []string           `json:"removed"` // policies only in the version before; not run
	Policies []PolicyComparison `json:"policies"`
	// The keys with the most newly denied, or newly admitted, events, over all policies: at most 20 of each.
	TopNewlyDenied   []KeyComparison `json:"topNewlyDenied"`
	TopNewlyAdmitted []KeyComparison `json:"topNewlyAdmitted"`
}

// PolicyComparison is the comparison of one policy, over the events of all keys.
type PolicyComparison struct {
	Policy            string `json:"policy"`
	Events            uint64 `json:"events"`
	DeniedBefore      uint64 `json:"deniedBefore"`
	DeniedAfter       uint64 `json:"deniedAfter"`
	NewlyDenied       uint64 `json:"newlyDenied"`
	NewlyDeniedKeys   uint64 `json:"newlyDeniedKeys"` // keys with at least one newly denied event
	NewlyAdmitted     uint64 `json:"newlyAdmitted"`
	NewlyAdmittedKeys uint64 `json:"newlyAdmittedKeys"`
}

// KeyComparison is the comparison of one key under one policy.
type KeyComparison struct {
	Policy             string  `json:"policy"`
	Key                string  `json:"key"`
	Events             uint64  `json:"events"`
	DeniedBefore       uint64  `json:"deniedBefore"`
	DeniedAfter        uint64  `json:"deniedAfter"`
	NewlyDenied        uint64  `json:"newlyDenied"`
	NewlyAdmitted      uint64  `json:"newlyAdmitted"`
	FirstNewlyDenied   *Moment `json:"firstNewlyDenied,omitempty"`
	FirstNewlyAdmitted *Moment `json:"firstNewlyAdmitted,omitempty"`
}

// Moment is a position in a log.
type Moment struct {
	Time time.Time `json:"time"` // UTC: the instant at which the event was decided
	Line int       `json:"line"`
}

// String formats the moment for display.
func (m *Moment) String() string {
	return fmt.Sprintf("%s  (line %d)", m.Time.Format(time.RFC3339Nano), m.Line)
}

// Compare replays all events under the policies of both sets. It fails as Run does.
func Compare(events *Events, before, after *policy.Set, plan Plan) (*Comparison, error) {
	c := &comparing{tier: plan.Tier, report: Comparison{Added: []string{}, Removed: []string{},
		Policies: []PolicyComparison{}}}
	names := plan.Policies
	if names == nil {
		names = slices.Concat(before.Names(), after.Names())
		slices.Sort(names)
		names = slices.Compact(names)
	}
	for _, name := range names {
		if err := c.add(before, after, name); err != nil {
			return nil, err
		}
	}
	if err := events.each(c.step); err != nil {
		return nil, err
	}
	return c.finish(events), nil
}

// comparing is a comparison under way.
type comparing struct {
	tier   string
	pairs  []*pair
	report Comparison
}

// pair runs both versions of one policy, each alone.
type pair struct {
	before, after *policyRun
	keys          map[string]*KeyComparison
}

// add prepares the comparison of a policy that both versions have, and notes one that only one of them has.
func (c *comparing) add(before, after *policy.Set, name string) error {
	_, was := before.Lookup(name)
	_, is := after.Lookup(name)
	switch {
	case was && !is:
		c.report.Removed = append(c.report.Removed, name)
		return nil
	case is && !was:
		c.report.Added = append(c.report.Added, name)
		return nil
	}
	old, err := newPolicyRun(before, name, c.tier)
	if err != nil {
		return fmt.Errorf("the policies before: %w", err)
	}
	fresh, err := newPolicyRun(after, name, c.tier)
	if err != nil {
		return fmt.Errorf("the policies after: %w", err)
	}
	c.pairs = append(c.pairs, &pair{before: old, after: fresh, keys: map[string]*KeyComparison{}})
	return nil
}

func (c *comparing) step(event Event, now limit.Time) error {
	for _, p := range c.pairs {
		if err := p.step(event, now); err != nil {
			return fmt.Errorf("policy %s: %w", p.before.name, err)
		}
	}
	return nil
}

func (p *pair) step(event Event, now limit.Time) error {
	before, err := p.before.decide(event, now)
	if err != nil {
		return err
	}
	after, err := p.after.decide(event, now)
	if err != nil {
		return err
	}
	key, known := p.keys[event.Key]
	if !known {
		key = &KeyComparison{Policy: p.before.name, Key: strings.Clone(event.Key)} // avoids keeping the whole line
		p.keys[key.Key] = key
	}
	key.count(before, after, Moment{Time: clock(now), Line: event.Line})
	return nil
}

func (k *KeyComparison) count(before, after bool, at Moment) {
	k.Events++
	if !before {
		k.DeniedBefore++
	}
	if !after {
		k.DeniedAfter++
	}
	switch {
	case before && !after:
		if k.NewlyDenied++; k.FirstNewlyDenied == nil {
			k.FirstNewlyDenied = &at
		}
	case after && !before:
		if k.NewlyAdmitted++; k.FirstNewlyAdmitted == nil {
			k.FirstNewlyAdmitted = &at
		}
	}
}

func (c *comparing) finish(events *Events) *Comparison {
	r := &c.report
	r.Log = events.log(c.tier)
	var keys []*KeyComparison
	for _, p := range c.pairs {
		r.Policies = append(r.Policies, p.sum())
		keys = slices.AppendSeq(keys, maps.Values(p.keys))
	}
	r.TopNewlyDenied = topChanged(keys, func(k *KeyComparison) uint64 { return k.NewlyDenied })
	r.TopNewlyAdmitted = topChanged(keys, func(k *KeyComparison) uint64 { return k.NewlyAdmitted })
	return r
}

func (p *pair) sum() PolicyComparison {
	sum := PolicyComparison{Policy: p.before.name}
	for _, k := range p.keys {
		sum.Events += k.Events
		sum.DeniedBefore += k.DeniedBefore
		sum.DeniedAfter += k.DeniedAfter
		sum.NewlyDenied += k.NewlyDenied
		sum.NewlyAdmitted += k.NewlyAdmitted
		if k.NewlyDenied > 0 {
			sum.NewlyDeniedKeys++
		}
		if k.NewlyAdmitted > 0 {
			sum.NewlyAdmittedKeys++
		}
	}
	return sum
}

// topChangedMost is the largest number of keys in each of a comparison's lists.
const topChangedMost = 20

// topChanged puts equally changed keys in the order of their policies and names, as topDenied does.
func topChanged(keys []*KeyComparison, by func(*KeyComparison) uint64) []KeyComparison {
	changed := slices.DeleteFunc(slices.Clone(keys), func(k *KeyComparison) bool { return by(k) == 0 })
	slices.SortFunc(changed, func(a, b *KeyComparison) int {
		return cmp.Or(cmp.Compare(by(b), by(a)), strings.Compare(a.Policy, b.Policy), strings.Compare(a.Key, b.Key))
	})
	top := make([]KeyComparison, 0, topChangedMost)
	for _, k := range changed[:min(len(changed), topChangedMost)] {
		top = append(top, *k)
	}
	return top
}
