package api

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// idOf is the handle of a hold or of a counted decision; "" when there is nothing to settle, or nothing to seal it with.
func idOf(sealer *shard.Sealer, policies *policy.Set, r *shard.Request, d *shard.Decision) string {
	if sealer == nil {
		return ""
	}
	return sealer.ID(r, d, retentionOf(policies, r))
}

// retentionOf is how long what a request has taken may be settled: as long as all of its policies remember.
func retentionOf(policies *policy.Set, r *shard.Request) limit.Span {
	shortest := limit.Span(limit.MaxPeriod)
	for i := range r.Entries {
		retention := policy.DefaultRetention
		if p, ok := policies.Lookup(r.Entries[i].Policy); ok && r.Entries[i].Limits == nil {
			retention = p.Retention
		}
		shortest = min(shortest, retention)
	}
	return shortest
}

// entryOfStatus is the entry that a status belongs to; nil: there is none.
func entryOfStatus(entries []shard.Entry, s *shard.LimitStatus) *shard.Entry {
	for i := range entries {
		if e := &entries[i]; e.Key == s.Key && e.Policy == s.Policy {
			return e
		}
	}
	return nil
}
