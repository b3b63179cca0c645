package shard

import (
	"fmt"
	"strings"
	"time"

	"github.com/stint-io/stint/limit"
)

// adjustmentNames maps the operations by which a person changes a key's usage or allowance to their names in audit records.
var adjustmentNames = map[Op]string{Reset: "reset", SetUsed: "set", AddUsed: "add", Block: "block", Unblock: "unblock",
	PutOverride: "put_override", DeleteOverride: "delete_override"}

// adjust changes the counters of the entries by hand and returns their limits after the change; before contains the limits
// before it. A request with an Adjustment leaves an audit record.
func (e *evaluation) adjust(r *Request, before Decision) Result {
	if e.extras {
		e.showExtras(&before)
	}
	if err := e.deedProblem(r); err != nil {
		return Result{Err: err}
	}
	if e.brimful && (r.Op == SetUsed || r.Op == AddUsed || r.Op == PutOverride) {
		return Result{Err: e.full()}
	}
	if r.Op == DeleteOverride && !e.overridden() {
		return Result{Decision: before} // nothing changed: Index is 0
	}
	said := ""
	if r.Adjustment != nil {
		said = e.deedWords(r, &before)
	}
	for i := range e.charges {
		e.do(r, &e.charges[i])
		e.touch(e.charges[i].counter)
	}
	d := e.newDecision()
	if err := e.decideEntries(r, r.Op, &d); err != nil { // again: an override changes the limits themselves
		panic(err) // it succeeded before, and no adjustment makes it fail
	}
	if e.extras {
		e.showExtras(&d)
	}
	e.index++
	d.Index = e.index
	if a := r.Adjustment; a != nil {
		entry := &r.Entries[0]
		e.writeAudit(AuditRecord{At: e.at.Now, Position: e.at.Position, Actor: a.Actor, Note: a.Note,
			Namespace: r.Namespace, Policy: entry.Policy, Key: entry.Key, Limit: r.Limit,
			Deed: adjustmentNames[r.Op], Before: said, After: e.deedWords(r, &d)})
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
	default:
		return a.auditProblem()
	}
}

// deedProblem refuses an adjustment that is invalid for these keys. Nothing has been changed yet.
func (e *evaluation) deedProblem(r *Request) *Error {
	switch r.Op {
	case Reset:
		return e.limitProblem(r)
	case SetUsed, AddUsed:
		return e.amountProblem(r)
	case Block:
		return e.untilProblem(r.Adjustment.Until)
	case PutOverride:
		return e.overrideProblem(r)
	}
	return nil
}

// do changes the counter of one entry.
func (e *evaluation) do(r *Request, ch *charge) {
	switch r.Op {
	case Reset:
		ch.counter.reset(r.Limit, e.at.Now)
	case SetUsed:
		e.setUsed(r, ch)
	case AddUsed:
		e.addUsed(r, ch)
	case Block:
		ch.counter.extra().block = r.Adjustment.Until // it replaces an earlier one; only Unblock or that instant ends it
	case Unblock:
		ch.counter.extras.unblock()
	case PutOverride:
		e.leaveOverride(r, ch, r.Adjustment.Override)
		ch.counter.extra().putOverride(r.Adjustment.Override)
	case DeleteOverride:
		e.leaveOverride(r, ch, nil)
		ch.counter.extras.override = nil // not nil: see overridden
	}
}

// deedWords describes the state of the first entry's key, as far as the deed concerns it. d has its statuses.
func (e *evaluation) deedWords(r *Request, d *Decision) string {
	switch r.Op {
	case Block, Unblock:
		return e.blockWords()
	case PutOverride, DeleteOverride:
		return e.overrideWords()
	}
	return r.usedWords(d)
}

// limitProblem refuses the name of a limit that does not exist.
func (e *evaluation) limitProblem(r *Request) *Error {
	if r.Limit == "" {
		return nil
	}
	for i := range e.charges {
		for j := range e.charges[i].limits {
			if e.charges[i].limits[j].Name == r.Limit {
				return nil
			}
		}
	}
	return Invalidf("limit", "policy %q has no limit %q", r.Entries[0].Policy, r.Limit)
}

func (e *evaluation) amountProblem(r *Request) *Error {
	if err := e.limitProblem(r); err != nil {
		return err
	}
	switch n := r.Adjustment.Amount; {
	case r.Op == SetUsed && (n < 0 || n > limit.MaxQuota):
		return Invalidf("set_used", "is %d: 0 to %d units can be used", n, int64(limit.MaxQuota))
	case r.Op == AddUsed && (n == 0 || n < -limit.MaxCost || n > limit.MaxCost):
		return Invalidf("add_used", "is %d: 1 to %d units are added, or taken away if it is negative", n, int64(limit.MaxCost))
	}
	running := ""
	for j := range e.charges[0].limits {
		switch l := &e.charges[0].limits[j]; {
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
func (e *evaluation) untilProblem(until limit.Time) *Error {
	switch {
	case until <= e.at.Now:
		return Invalidf("block_until", "is %s, and now is %s: it must lie ahead", instantWords(until), instantWords(e.at.Now))
	case until-e.at.Now > limit.Time(limit.MaxPeriod):
		return Invalidf("block_until", "is %s: it must not lie more than 100 years ahead", instantWords(until))
	}
	return nil
}

// setUsed sets the number of used units of each selected limit.
func (e *evaluation) setUsed(r *Request, ch *charge) {
	e.eachMeant(r, ch, func(limit.Limit, limit.State) uint64 { return uint64(r.Adjustment.Amount) })
}

// addUsed adds used units, or removes some. Removed units belong to no particular decision, so the rest begins a new
// generation, as after setUsed.
func (e *evaluation) addUsed(r *Request, ch *charge) {
	n := r.Adjustment.Amount
	if n < 0 {
		e.eachMeant(r, ch, func(l limit.Limit, s limit.State) uint64 {
			used := limit.Status(l, s, e.at.Now).Used
			return used - min(used, uint64(-n))
		})
		return
	}
	for j := range ch.limits {
		if l := &ch.limits[j]; r.means(l.Name) && l.Algorithm != limit.Concurrency {
			s, _ := limit.Add(l.Limit, ch.counter.at(j, l, e.at.Now), uint64(n), e.at.Now)
			ch.counter.set(j, l, s, e.at.Now)
		}
	}
}

// eachMeant sets the used units of each selected limit, except concurrency limits, which count the open holds.
func (e *evaluation) eachMeant(r *Request, ch *charge, used func(limit.Limit, limit.State) uint64) {
	for j := range ch.limits {
		if l := &ch.limits[j]; r.means(l.Name) && l.Algorithm != limit.Concurrency {
			s := ch.counter.at(j, l, e.at.Now)
			ch.counter.set(j, l, limit.SetUsed(l.Limit, s, used(l.Limit, s), e.at.Now), e.at.Now)
			ch.counter.restart(&ch.counter.limits[ch.counter.limits.find(j, l.Name)], e.at.Now)
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
func (e *evaluation) blockWords() string {
	c := e.charges[0].counter
	words := "not blocked"
	if until := c.extras.blockedUntil(e.at.Now); until != 0 {
		words = "blocked until " + instantWords(until)
	}
	if level := c.extras.level(c.lockout(), e.at.Now); level != 0 {
		words += fmt.Sprintf(", level %d", level)
	}
	return words
}

func instantWords(t limit.Time) string {
	return time.UnixMicro(int64(t)).UTC().Format(time.RFC3339Nano)
}
