package replay

import (
	"maps"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// records is the state of one policyRun: a shard's records in a plain map. A replay only looks them up; all else that
// a shard.View has is that of an empty shard.
type records struct {
	*shard.State
	byKey   map[string]shard.Record
	sweepAt int // number of records from which a sweep for dead ones pays off
}

// sweepLeast is the size below which a map is never swept.
const sweepLeast = 1024

// Lookup implements shard.View.
func (r *records) Lookup(key string) (shard.Record, bool) {
	record, ok := r.byKey[key]
	return record, ok
}

// apply stores what a decision has changed, and drops dead records once the map has doubled.
func (r *records) apply(puts []shard.Put, now limit.Time) {
	for _, put := range puts {
		if put.Value == nil {
			delete(r.byKey, put.Key)
		} else {
			r.byKey[put.Key] = put.Record
		}
	}
	if len(r.byKey) >= max(r.sweepAt, sweepLeast) {
		maps.DeleteFunc(r.byKey, func(_ string, record shard.Record) bool { return record.ForgetAt <= now })
		r.sweepAt = 2 * len(r.byKey)
	}
}
