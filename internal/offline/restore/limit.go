package restore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// Limit says how a limit continues.
type Limit struct {
	Policy, Limit string // Limit "": the policy's lockout
	Keeps         bool   // it continues with the backup's counts
	Never         bool   // it never resets, so it continues with the backup's counts in any case
	// FullUntil is when the last key, of whichever tier, is no longer full, or blocked; 0: it keeps.
	FullUntil limit.Time
}

// EndsOf says for each limit until when it is full.
func EndsOf(policies *policy.Set, at limit.Time, keeps func(policy, limit string) bool) (ends []Limit) {
	full := limit.Full{At: at, Hold: shard.MaxHoldTTL}
	for _, name := range policies.Names() {
		p, _ := policies.Lookup(name)
		for i := range p.Limits {
			l := &p.Limits[i]
			end := Limit{Policy: name, Limit: l.Name, Keeps: l.OnRecovery == policy.RecoverKeep || keeps(name, l.Name),
				Never: l.Algorithm == limit.Lifetime || l.Algorithm == limit.Unlimited}
			for _, limits := range p.EveryTier() {
				if !end.Keeps {
					end.FullUntil = max(end.FullUntil,
						limit.ForgetAt(limits[i].Limit, shard.FullOf(p, full).With(limits[i].Limit, limit.State{})))
				}
			}
			ends = append(ends, end)
		}
		if p.Lockout != nil {
			end := Limit{Policy: name, Keeps: keeps(name, "")}
			if !end.Keeps {
				end.FullUntil = at + limit.Time(p.Lockout.Max)
			}
			ends = append(ends, end)
		}
	}
	return ends
}

// keeps reports whether a person wants a limit to continue with the backup's counts, or the lockout if limit is "".
// Only keeping the whole policy keeps its lockout.
func (r *Restore) keeps(policy, limit string) bool {
	return slices.ContainsFunc(r.config.Keep, func(k shard.Kept) bool {
		return k.Policy == policy && (k.Limit == "" || k.Limit == limit)
	})
}

// checkKeep refuses to keep what no policy has. Inline limits are named by "~" and their label; those are not listed.
func (r *Restore) checkKeep() error {
	for i, k := range r.config.Keep {
		if label, inline := strings.CutPrefix(k.Policy, "~"); inline {
			r.config.Keep[i].Policy = label
			continue
		}
		p, known := r.Policies.Lookup(k.Policy)
		if !known {
			return fmt.Errorf("keep: the backup has no policy %q", k.Policy)
		}
		if k.Limit != "" && !slices.ContainsFunc(p.Limits, func(l policy.Limit) bool { return l.Name == k.Limit }) {
			return fmt.Errorf("keep: policy %q has no limit %q", k.Policy, k.Limit)
		}
	}
	return nil
}
