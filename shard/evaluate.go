package shard

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// Record is what a shard keeps under one key: the encoded state of a policy's limits, or an idempotency record.
type Record struct {
	Value    []byte
	ForgetAt limit.Time // from this instant on the record says nothing any more and is dropped; limit.Forever: never
}

// Put is one effect: the new absolute record of one key, or its end.
type Put struct {
	Key    string // internal: made by this package only
	Record        // a nil Value forgets the key
}

// View is what an evaluation may read: committed state, or an overlay on top of it.
type View interface {
	// Lookup finds a record. The caller must not change its Value, and must not keep it beyond the evaluation.
	Lookup(key string) (Record, bool)
}

// Evaluate decides requests in their order at one instant and returns an answer to each, and the effects: one Put
// for each key whose record changed. It reads nothing but its arguments and changes none of them.
func Evaluate(view View, policies *policy.Set, requests []Request, now limit.Time) ([]Result, []Put) {
	panic("being written")
}
