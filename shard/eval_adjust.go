package shard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// Adjustment is a change by hand, with the texts for the audit log.
type Adjustment struct {
	Amount   int64            // SetUsed, AddUsed, CorrectUsage: in units
	Until    limit.Time       // Block
	Override *policy.Override // PutOverride
	Forget   string           // Forget: the key, of the request's namespace
	Bills    bool             // Forget: its bills end too; without it a key that has any is refused
	// Actor is the person, as far as known. "" writes no audit record: of a Forget on further shards, and of traffic
	// that changes usage, such as Envoy's. For CorrectUsage, Swap and ChangeEvents it makes no difference.
	Actor string
	Note  string // CorrectUsage needs one
}

// adjust changes the counters of the entries by hand and returns their limits after the change; before contains the
// limits before it. A request with an actor leaves an audit record.
func (e *evaluation) adjust(r *Request, before Decision) Result {
	e.showExtras(&before)
	if err := e.charges.adjustmentProblem(r, &e.at); err != nil {
		return Result{Err: err}
	}
	if e.room.brimful() && (r.Op == SetUsed || r.Op == AddUsed || r.Op == PutOverride) {
		return Result{Err: e.full()}
	}
	if r.Op == DeleteOverride && !e.charges[0].counter.extras.overridden(e.at.Now) {
		return Result{Decision: before} // nothing changed: Index is 0
	}
	said := ""
	if r.Adjustment != nil {
		said = e.charges.deedWords(r, &before, e.at.Now)
	}
	for i := range e.charges {
		e.charges[i].adjust(r, e.at.Now)
		e.touch(e.charges[i].counter)
	}
	d := e.newDecision()
	if err := e.decideEntries(r, r.Op, &d); err != nil { // again: an override changes the limits themselves
		panic(err) // it succeeded before, and no adjustment makes it fail
	}
	e.showExtras(&d)
	e.charges.showLeases(&d)
	e.number(&d)
	// Otherwise it is traffic, such as Envoy's negative hits, and no change by hand.
	if a := r.Adjustment; a != nil && a.Actor != "" {
		entry := &r.Entries[0]
		auditLog{&e.batch}.note(a, AuditRecord{Namespace: r.Namespace, Policy: entry.Policy, Key: entry.Key,
			Limit: r.Limit, Deed: r.Op.Deed(), Before: said, After: e.charges.deedWords(r, &d, e.at.Now)})
	}
	return Result{Decision: d}
}

// adjustmentProblem refuses an adjustment that is invalid for any key.
func adjustmentProblem(r *Request) *Error {
	switch a := r.Adjustment; {
	case a == nil && r.Op == Reset:
		return nil
	case a == nil:
		return Invalidf("op", "is missing")
	case len(r.Entries) != 1:
		return Invalidf("entries", "are %d: one key is adjusted at a time", len(r.Entries))
	case r.Limit != "" && r.Op != Reset && r.Op != SetUsed && r.Op != AddUsed:
		return Invalidf("limit", "is %q: this is done to all limits of the key", r.Limit)
	case r.Op == CorrectUsage:
		return cmp.Or(a.auditProblem(), correctionProblem(r))
	default:
		return a.auditProblem()
	}
}

// adjustmentProblem refuses an adjustment that is invalid for these keys. Nothing has been changed yet.
func (cs charges) adjustmentProblem(r *Request, at *Stamp) *Error {
	switch r.Op {
	case Reset:
		return cs.limitProblem(r)
	case SetUsed, AddUsed:
		return cs.amountProblem(r)
	case Block:
		return untilProblem(r.Adjustment.Until, at.Now)
	case PutOverride:
		return cs[0].overrideProblem(r, at)
	}
	return nil
}

// adjust changes the counter of one entry.
func (ch *charge) adjust(r *Request, now limit.Time) {
	switch r.Op {
	case Reset:
		ch.counter.reset(r.Limit, now)
		ch.counter.mark.clear(ch.counter, r, ch.limits, now)
	case SetUsed:
		ch.eachMeant(r, now, func(limit.Limit, limit.State) uint64 { return uint64(r.Adjustment.Amount) })
	case AddUsed:
		ch.addUsed(r, now)
	case Block:
		// It replaces an earlier one; only Unblock or that instant ends it.
		ch.counter.extra().block = r.Adjustment.Until
	case Unblock:
		ch.counter.extras.unblock()
	case PutOverride:
		ch.changeOverride(r, r.Adjustment.Override, now)
		ch.counter.extra().putOverride(r.Adjustment.Override)
	case DeleteOverride:
		ch.changeOverride(r, nil, now)
		ch.counter.extras.override = nil // not nil: see overridden
	}
}

// deedWords describes the state of the first entry's key, as far as the deed concerns it. d has its statuses.
func (cs charges) deedWords(r *Request, d *Decision, now limit.Time) string {
	switch c := cs[0].counter; r.Op {
	case Block, Unblock:
		return c.extras.blockWords(c.policy.Lockout, now)
	case PutOverride, DeleteOverride:
		return c.extras.overrideWords(now)
	}
	return r.usedWords(d)
}

// limitProblem refuses the name of a limit that does not exist.
func (cs charges) limitProblem(r *Request) *Error {
	if r.Limit == "" {
		return nil
	}
	named := func(l policy.Limit) bool { return l.Name == r.Limit }
	if slices.ContainsFunc(cs, func(ch charge) bool { return slices.ContainsFunc(ch.limits, named) }) {
		return nil
	}
	return Invalidf("limit", "policy %q has no limit %q", r.Entries[0].Policy, r.Limit)
}

func (cs charges) amountProblem(r *Request) *Error {
	if err := cs.limitProblem(r); err != nil {
		return err
	}
	switch n := r.Adjustment.Amount; {
	case r.Op == SetUsed && (n < 0 || n > limit.MaxQuota):
		return Invalidf("set_used", "is %d: 0 to %d units can be used", n, int64(limit.MaxQuota))
	case r.Op == AddUsed && (n == 0 || n < -limit.MaxCost || n > limit.MaxCost):
		return Invalidf("add_used", "is %d: 1 to %d units are added, or taken away if it is negative",
			n, int64(limit.MaxCost))
	}
	running := ""
	for j := range cs[0].limits {
		switch l := &cs[0].limits[j]; {
		case !r.means(l.Name):
		case l.Algorithm != limit.Concurrency:
			return nil
		default:
			running = l.Name
		}
	}
	return Invalidf("limit", "%q counts the open holds and nothing else: settle them, or reset it", running)
}

// untilProblem refuses blocks that have already ended, or that end too far ahead.
func untilProblem(until, now limit.Time) *Error {
	switch {
	case until <= now:
		return Invalidf("block_until", "is %s, and now is %s: it must lie ahead",
			instantWords(until), instantWords(now))
	case until-now > limit.Time(limit.MaxPeriod):
		return Invalidf("block_until", "is %s: it must not lie more than 100 years ahead", instantWords(until))
	}
	return nil
}

// addUsed adds used units, or removes some. Removed units belong to no particular decision, so the rest begins a new
// generation, as after a SetUsed.
func (ch *charge) addUsed(r *Request, now limit.Time) {
	n := r.Adjustment.Amount
	if n < 0 {
		ch.eachMeant(r, now, func(l limit.Limit, s limit.State) uint64 {
			used := limit.Status(l, s, now).Used
			return used - min(used, uint64(-n))
		})
		return
	}
	for j := range ch.limits {
		if l := &ch.limits[j]; r.means(l.Name) && l.Algorithm != limit.Concurrency {
			s, _ := limit.Add(l.Limit, ch.counter.at(j, l, now), uint64(n), now)
			ch.setCounted(j, s, now)
		}
	}
}

// eachMeant sets the used units of each selected limit, except concurrency limits, which count the open holds.
func (ch *charge) eachMeant(r *Request, now limit.Time, used func(limit.Limit, limit.State) uint64) {
	for j := range ch.limits {
		if l := &ch.limits[j]; r.means(l.Name) && l.Algorithm != limit.Concurrency {
			s := ch.counter.at(j, l, now)
			ch.setCounted(j, limit.SetUsed(l.Limit, s, used(l.Limit, s), now), now)
			k := &ch.counter.limits[ch.counter.limits.find(j, l.Name)]
			k.cleared = ch.counter.mark.clearedUntil(ch.policy, l.Limit) > now
			ch.counter.restart(k, now)
		}
	}
}

// means reports whether the request adjusts the limit called name.
func (r *Request) means(name string) bool { return r.Limit == "" || r.Limit == name }

// usedWords describes how much of each selected limit is used.
func (r *Request) usedWords(d *Decision) string {
	var words []string
	for i := range d.Limits {
		if s := &d.Limits[i]; r.means(s.Limit) {
			words = append(words, fmt.Sprintf("%s: %d used", s.Limit, s.Used))
		}
	}
	return strings.Join(words, ", ")
}

// blockWords describes how long the key is blocked, and its level on the ladder.
func (x *counterExtras) blockWords(k *policy.Lockout, now limit.Time) string {
	words := "not blocked"
	if until := x.blockedUntil(now); until != 0 {
		words = "blocked until " + instantWords(until)
	}
	if level := x.level(k, now); level != 0 {
		words += fmt.Sprintf(", level %d", level)
	}
	return words
}

func instantWords(t limit.Time) string {
	return time.UnixMicro(int64(t)).UTC().Format(time.RFC3339Nano)
}
