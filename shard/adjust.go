package shard

import (
	"fmt"
	"strings"
	"time"

	"github.com/stint-io/stint/limit"
)

// deeds are the operations by which a person changes what a key has used, or may use, as audit records call them.
var deeds = map[Op]string{Reset: "reset", SetUsed: "set", AddUsed: "add", Block: "block", Unblock: "unblock",
	PutOverride: "put_override", DeleteOverride: "delete_override"}

// adjust changes the counters of the entries by hand, and answers with their limits after it; before has them as they
// are. With an Adjustment it is put on record who did it.
func (e *evaluation) adjust(r *Request, before Decision) Result {
	if e.extras {
		e.showExtras(&before)
	}
	if err := e.deedProblem(r); err != nil {
		return Result{Err: err}
	}
	if r.Op == DeleteOverride && !e.overridden() {
		return Result{Decision: before} // nothing was changed: Index is 0
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
	if err := e.decideEntries(r, r.Op, &d); err != nil { // once more: an override changes the limits themselves
		panic(err) // it was possible before, and no adjustment makes it impossible
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
			Deed: deeds[r.Op], Before: said, After: e.deedWords(r, &d)})
	}
	return Result{Decision: d}
}

// adjustmentProblem refuses what no key can be adjusted with.
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

// deedProblem refuses what these keys cannot be adjusted with. Nothing was changed yet.
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
		ch.counter.blockUntil(r.Adjustment.Until)
	case Unblock:
		ch.counter.unblock()
	case PutOverride:
		ch.counter.putOverride(r.Adjustment.Override)
	case DeleteOverride:
		ch.counter.extras.override = nil // there is one: see overridden
	}
}

// deedWords say how the first entry's key stands, as far as the deed is about it. d has its statuses.
func (e *evaluation) deedWords(r *Request, d *Decision) string {
	switch r.Op {
	case Block, Unblock:
		return e.blockWords()
	case PutOverride, DeleteOverride:
		return e.overrideWords()
	}
	return r.usedWords(d)
}

// limitProblem refuses the name of a limit that is not there.
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
	for j := range e.charges[0].limits {
		if l := &e.charges[0].limits[j]; l.Name == r.Limit && l.Algorithm == limit.Concurrency {
			return Invalidf("limit", "%q counts the open holds and nothing else: settle them, or reset it", l.Name)
		}
	}
	return nil
}

// untilProblem refuses blocks that are over, or that nobody who set them would see the end of.
func (e *evaluation) untilProblem(until limit.Time) *Error {
	switch {
	case until <= e.at.Now:
		return Invalidf("block_until", "is %s, and now is %s: it must lie ahead", instantWords(until), instantWords(e.at.Now))
	case until-e.at.Now > limit.Time(limit.MaxPeriod):
		return Invalidf("block_until", "is %s: it must not lie more than 100 years ahead", instantWords(until))
	}
	return nil
}

// setUsed makes it that so many units are used of each limit that is meant.
func (e *evaluation) setUsed(r *Request, ch *charge) {
	e.eachMeant(r, ch, func(limit.Limit, limit.State) uint64 { return uint64(r.Adjustment.Amount) })
}

// addUsed counts more units as used, or fewer. What is taken away was taken by nobody in particular: so the rest
// begins anew, as if it were set.
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

// eachMeant sets what is used of each limit that is meant. Concurrency limits are not: they count the open holds.
func (e *evaluation) eachMeant(r *Request, ch *charge, used func(limit.Limit, limit.State) uint64) {
	for j := range ch.limits {
		if l := &ch.limits[j]; r.means(l.Name) && l.Algorithm != limit.Concurrency {
			s := ch.counter.at(j, l, e.at.Now)
			ch.counter.set(j, l, limit.SetUsed(l.Limit, s, used(l.Limit, s), e.at.Now), e.at.Now)
			ch.counter.restart(&ch.counter.limits[ch.counter.find(j, l.Name)], e.at.Now)
		}
	}
}

// means reports whether a limit is one of those that are adjusted.
func (r *Request) means(name string) bool { return r.Limit == "" || r.Limit == name }

// usedWords is how much is used of the limits that are meant.
func (r *Request) usedWords(d *Decision) string {
	var words []string
	for i := range d.Limits {
		if s := &d.Limits[i]; r.means(s.Limit) {
			words = append(words, fmt.Sprintf("%s: %d used", s.Limit, s.Used))
		}
	}
	return strings.Join(words, ", ")
}

// blockWords is until when the key is blocked, and how high it stands on the ladder.
func (e *evaluation) blockWords() string {
	c := e.charges[0].counter
	words := "not blocked"
	if until := c.blockedUntil(e.at.Now); until != 0 {
		words = "blocked until " + instantWords(until)
	}
	if level := c.level(e.at.Now); level != 0 {
		words += fmt.Sprintf(", level %d", level)
	}
	return words
}

func instantWords(t limit.Time) string {
	return time.UnixMicro(int64(t)).UTC().Format(time.RFC3339Nano)
}
