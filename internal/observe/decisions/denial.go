package decisions

import (
	"iter"

	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// DeniedBy returns the limits that denied, and after them the lockouts and the blocks by hand, which belong to no
// limit.
func DeniedBy(d *shard.Decision) (names []string) {
	for s, name := range denials(d) {
		names = append(names, s.Policy+"/"+name)
	}
	return names
}

// denials lists the reasons of a denial: the limits by name, then the blocks, each once although every limit of a
// blocked key reports it.
func denials(d *shard.Decision) iter.Seq2[*shard.LimitStatus, string] {
	return func(yield func(*shard.LimitStatus, string) bool) {
		for i := range d.Limits {
			if s := &d.Limits[i]; !d.Allowed && Denies(s) && !yield(s, s.Limit) {
				return
			}
		}
		for i := range d.Limits {
			s := &d.Limits[i]
			if !d.Allowed && s.Blocked && (i == 0 || !SameKey(s, &d.Limits[i-1])) && !yield(s, BlockName(s)) {
				return
			}
		}
	}
}

// Reason returns the text of the first limit that denied and has one: its own or its policy's. A block has the text of
// the policy. A denial never has the text of a soft limit, which would ask for a challenge.
func Reason(policies *policy.Set, r *shard.Request, d *shard.Decision) string {
	challenged := d.Challenged()
	for i := range d.Limits {
		s := &d.Limits[i]
		if !Stands(s) || s.Soft && !s.Blocked && !challenged {
			continue
		}
		if rule, _ := RuleOf(policies, r, s); Denies(s) && rule.Reason != "" {
			return rule.Reason
		}
		if p := PolicyOf(policies, r, s); p != nil && p.Reason != "" {
			return p.Reason
		}
	}
	return ""
}

// DenialCounter counts denials by limit. Policy and limit are Inline for limits that came with a request, which may
// have any name. The limit is "lockout" or "block" for the block of a key.
type DenialCounter interface {
	Denied(namespace, policy, limit string)
}

// CountDenials counts every limit that denied, and every block.
func (e *Event) CountDenials(to DenialCounter) {
	for i := range e.Asked {
		a := &e.Asked[i]
		for j := range a.Results {
			r, d := &a.Requests[j], &a.Results[j].Decision
			if !a.counts(j) || d.Replayed || r.Op == shard.Settle {
				continue
			}
			for s, name := range denials(d) {
				if e := EntryOf(r.Entries, s); e != nil && e.Limits != nil {
					to.Denied(r.Namespace, Inline, Inline)
				} else {
					to.Denied(r.Namespace, s.Policy, name)
				}
			}
		}
	}
}
