package api

import (
	"github.com/stint-io/stint/shard"
)

// idOf is the handle of a hold or of a counted decision; "" when there is nothing to settle. A denial has none, even if it
// was counted.
func idOf(sealer *shard.Sealer, r *shard.Request, d *shard.Decision) string {
	if sealer == nil || !d.Allowed || d.Index == 0 && d.Operation == nil {
		return ""
	}
	target := shard.Target{Hold: r.Op == shard.Reserve, DecidedAt: d.DecidedAt}
	if d.Operation != nil {
		target.Operation, target.Home = d.Operation.ID, d.Operation.Home
	} else {
		target.Position, target.Index = d.Position, d.Index
	}
	return sealer.Seal(target, r.Namespace, taken(r, d))
}

// taken is the entries of a request, each with the units that were taken.
func taken(r *shard.Request, d *shard.Decision) []shard.Entry {
	if r.Op != shard.Partial {
		return r.Entries
	}
	entries := append([]shard.Entry(nil), r.Entries...)
	for i := range d.Limits {
		s := &d.Limits[i]
		if e := entryOfStatus(entries, s); e != nil {
			e.Cost = s.Granted
		}
	}
	return entries
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
