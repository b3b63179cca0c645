package decisions

import (
	"slices"

	"github.com/stint-io/stint/shard"
)

// Kind is the kind of an event, in the words of the decision log.
type Kind string

// The kinds.
const (
	Denied       Kind = "denied"
	Allowed      Kind = "allowed"
	ShadowDenied Kind = "shadow_denied" // allowed, and a limit or policy in shadow would have denied
	Settled      Kind = "settled"       // a hold was settled, or a decision refunded

	// The kinds below are no decisions: Record.Happened describes them. The owner of the key reports them.
	Threshold Kind = "threshold" // a key has reached a threshold
	Lockout   Kind = "lockout"   // a ladder began to block a key
	Change    Kind = "change"    // a key was changed by hand
)

// kinds are all kinds, each at the place of its bit: eight at most.
var kinds = []Kind{Denied, Allowed, ShadowDenied, Settled, Threshold, Lockout, Change}

// bit returns a bit for the kind, or 0 if this release does not know it.
func (k Kind) bit() uint8 {
	if i := slices.Index(kinds, k); i >= 0 {
		return 1 << i
	}
	return 0
}

func kindOf(r *shard.Request, d *shard.Decision) Kind {
	switch {
	case r.Op == shard.Settle:
		return Settled
	case !d.Allowed:
		return Denied
	case d.ShadowDenied:
		return ShadowDenied
	}
	return Allowed
}
