package api

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// idOf returns the handle of a hold or of a counted decision, or "" if there is nothing to settle or no sealer. An edge
// has that of the node that it asked.
func idOf(sealer *shard.Sealer, policies *policy.Set, r *shard.Request, d *shard.Decision) string {
	if id := d.Answer().Sealed; id != "" {
		return id
	}
	if sealer == nil {
		return ""
	}
	return sealer.ID(r, d, retentionOf(policies, r))
}

// retentionOf returns how long a request's units may be settled: the shortest retention of its policies.
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
