package node

import (
	"time"

	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// happenings tells those who watch what has happened to the keys that this node owns. It holds no state; all methods may be called
// concurrently.
type happenings struct {
	node string // id of this node
	bus  func() *decisions.Bus
}

// wanted reports whether anybody watches for such things.
func (h *happenings) wanted() bool {
	bus := h.bus()
	return bus.Wanted(decisions.Threshold) || bus.Wanted(decisions.Lockout) || bus.Wanted(decisions.Change)
}

// tell passes on what is committed.
func (h *happenings) tell(all []shard.Happening) {
	bus := h.bus()
	for i := range all {
		if e := h.event(&all[i]); bus.Wanted(e.Kind) {
			bus.Put(e, 0)
		}
	}
}

func (h *happenings) event(from *shard.Happening) *decisions.Event {
	e := &decisions.Event{At: time.UnixMicro(int64(from.At)).UTC(), Namespace: from.Namespace, Node: h.node,
		Entry: decisions.Entry{Policy: from.Policy, Key: from.Key}}
	switch {
	case from.Fired != nil:
		f := from.Fired
		e.Kind = decisions.Threshold
		e.Happening = &decisions.Happening{Limit: f.Limit, Units: f.Units, Percent: f.Percent, Starts: instantOf(f.Starts), Ends: instantOf(f.Ends)}
	case from.Lockout != nil:
		e.Kind = decisions.Lockout
		e.Happening = &decisions.Happening{Level: from.Lockout.Level, Until: instantOf(from.Lockout.Until)}
	default:
		c := from.Change
		e.Kind = decisions.Change
		e.Happening = &decisions.Happening{Limit: c.Limit, Actor: c.Actor, Deed: c.Deed, Before: c.Before, After: c.After, Note: c.Note}
	}
	return e
}

// instantOf is an instant as JSON can have it; zero: there is none, or it never comes.
func instantOf(t limit.Time) (at time.Time) {
	if at = time.UnixMicro(int64(t)).UTC(); t <= 0 || at.Year() > 9999 {
		return time.Time{}
	}
	return at
}
