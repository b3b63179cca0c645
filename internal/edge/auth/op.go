package auth

import "slices"

// Op is an operation that can be granted. Records name it, so its number may change between versions. There may be 31
// besides NoOp (grant.ops).
type Op uint8

const (
	NoOp Op = iota // any authenticated caller may do it, without a grant
	// Check counts: Check, CheckBatch, CheckStream, Reserve; on the Redis port INCR, CL.THROTTLE and their like.
	Check
	Settle      // end a hold, refund a decision
	Read        // Get; on the Redis port GET, TTL
	Adjust      // change what a key has used, or block it; on the Redis port SET, DEL, EXPIRE
	Override    // give a key a tier or quotas of its own
	Policies    // apply policies
	Observe     // status, policies, metrics: calls that show no key
	ObserveKeys // audit: calls that show keys
	Usage       // usage of billing meters
	Cluster     // drain, remove, upgrade
	Backup      // read everything at once
	Tokens      // create, list, rotate and revoke tokens
	Inline      // send limits along with a request, beside Check or Read
	Sinks       // event sinks, and waiting events with their keys
	Correct     // correct a bill by hand
	Lease       // take and return leases: the caller is believed what it says it has spent
	Edge        // be an edge: relay requests as far as other grants go, and read policies and tokens' hashes
	opCount
)

// opNames are in the order of the operations. They are part of the format of records.
var opNames = [opCount]string{"", "check", "settle", "read", "adjust", "override", "policies", "observe",
	"observe-keys", "usage", "cluster", "backup", "tokens", "inline", "sinks", "correct", "lease", "edge"}

// String returns the name of the operation in a grant.
func (o Op) String() string { return opNames[o] }

// opOf returns the operation with a name, or NoOp if there is none.
func opOf(name string) Op {
	if i := slices.Index(opNames[:], name); i > 0 {
		return Op(i)
	}
	return NoOp
}

// ofKeys reports whether the operation is about keys, so that a grant can restrict them. The others are about the whole
// cluster.
func (o Op) ofKeys() bool {
	switch o {
	case Check, Settle, Read, Adjust, Override, ObserveKeys, Usage, Inline, Correct, Lease:
		return true
	}
	return false
}

// survivesSilence reports whether the last known tokens are good enough for the operation at any age: otherwise a login
// would depend on the system shard.
func (o Op) survivesSilence() bool {
	return o == Check || o == Settle || o == Read || o == Inline || o == Lease || o == Edge
}
