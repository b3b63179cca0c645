package api

import (
	"github.com/stint-io/stint/shard"
)

// idOf is the handle of a hold or of a counted decision; "" when there is nothing to settle, or nothing to seal it with.
func idOf(sealer *shard.Sealer, r *shard.Request, d *shard.Decision) string {
	if sealer == nil {
		return ""
	}
	return sealer.ID(r, d)
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
