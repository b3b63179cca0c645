package shard

import (
	"fmt"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/slot"
)

// A settlement decides the fate of units that were taken. It ends a hold, once, or keeps it open for longer; or it
// refunds a decision that had no hold, once. An end leaves a record under the name of the hold or decision, so that a
// retry of the same settlement gets the same answer, and a different one is refused. An expired hold leaves no record:
// it is no longer in its counters, so that a settlement comes too late. A hold that is settled on a brimful shard
// leaves none either: settling gives memory back, and must not wait for any.

// Action is what a settlement does. Its numbers are stored in records and sent between nodes: append new ones, never
// renumber.
type Action uint8

// The actions.
const (
	ActionCommit  Action = 1 // Actual is spent, the rest is given back
	ActionCancel  Action = 2 // everything is given back
	ActionExtend  Action = 3 // the hold lives for TTL from now on
	ActionSuccess Action = 4 // cancel, and clear (or step down) failures and ladder
	ActionFailed  Action = 5 // commit what was held, and record a violation
)

// Overage is the treatment of units that were spent above a hold. Its numbers are sent between nodes.
type Overage uint8

// The overages.
const (
	OverageClamp  Overage = 0 // counted as far as the quota has room
	OverageDebt   Overage = 1 // counted, above the quota if necessary
	OverageReject Overage = 2 // the commit is refused if it does not fit; the hold stays open
)

// Settlement ends or extends a hold, or refunds a decision. The request's entries are those of the hold or decision,
// each with the cost that was taken.
type Settlement struct {
	Target  Target
	Action  Action
	Actual  []uint64 // ActionCommit: one for each entry, possibly 0; nil means the taken units
	Overage Overage
	TTL     limit.Span // ActionExtend
}

// Target names a hold or a counted decision: by its place, or by the id of its operation on several shards.
type Target struct {
	Hold      bool // else a decision
	Position  Position
	Index     uint32
	DecidedAt limit.Time
	// Retention is how long after DecidedAt a decision may be settled, by its policies at that time. So if they get a
	// longer retention later, a refunded decision cannot be refunded again. 0 means by the current policies.
	Retention limit.Span
	Operation string  // "" if on one shard
	Home      slot.ID // of the operation
	// Hashed is for the node that receives an id: it has the keys as the client sent them, and they were counted as
	// hashes.
	Hashed bool
}

// settle ends or extends a hold, or refunds a decision. d has the limits of the entries.
func (e *evaluation) settle(r *Request, d Decision) Result {
	t, name := &r.Settlement.Target, holdName(r.Settlement.Target.Position, r.Settlement.Target.Index)
	key := endKey(r.Slot(), name)
	if record, found := e.lookup(key); found { //mutant:refunded-twice-in-clusters //mutant:settles-again
		return settledBefore(record.Value, r)
	}
	err := e.lost(t) //mutant:lost-handle-settles
	if err != nil {
		return Result{Err: err}
	}
	forgetAt, err := e.charges.mayStillSettle(t, e.at.Now)
	if err == nil && !t.Hold && e.room.full() {
		err = e.full() // without a record, the decision could be refunded twice
	}
	if err != nil {
		return Result{Err: err}
	}
	if err := e.settleTaken(r, r.Settlement, name, t.DecidedAt); err != nil {
		return Result{Err: err}
	}
	e.number(&d)
	e.statuses(&d)
	switch {
	case r.Settlement.Action == ActionExtend:
		d.HoldExpires = e.at.Now + limit.Time(r.Settlement.TTL)
	//mutant:refunded-twice
	case e.room.brimful() && t.Hold: // it has ended; its absence from the counters is enough to prevent a second end
	default:
		e.write(Put{Key: key, Record: Record{Value: encodeAnswer(r, &d), ForgetAt: forgetAt}})
	}
	return Result{Decision: d}
}

// settlementProblem refuses a settlement that is invalid for any hold or decision of this shard.
func settlementProblem(r *Request) *Error {
	s := r.Settlement
	switch {
	case s == nil || len(r.Entries) == 0:
		return Invalidf("target", "is missing")
	case s.Target.Operation != "" && r.Operation == nil:
		return Invalidf(s.Target.field(), "is of several shards: its home settles it, with the operation")
	case s.Action < ActionCommit || s.Action > ActionFailed:
		return Invalidf("action", "%d is not known to this version: run a newer one", s.Action)
	case s.Overage > OverageReject:
		return Invalidf("commit.overage", "%d is not known to this version: run a newer one", s.Overage)
	case s.Action == ActionExtend && !s.Target.Hold:
		return Invalidf("extend", "needs a hold_id: a decision has nothing that could live longer")
	case s.Action == ActionExtend && (s.TTL < 1 || s.TTL > MaxHoldTTL):
		return Invalidf("extend.ttl", "is %d us: a hold lives for 1 us to 31 days from now on", s.TTL)
	case s.Actual != nil && (s.Action != ActionCommit || len(s.Actual) != len(r.Entries)):
		return Invalidf("commit.actual_cost", "are %d: a commit has none, or one for each of the %d entries",
			len(s.Actual), len(r.Entries))
	}
	for i, cost := range s.Actual {
		if cost > limit.MaxCost {
			return Invalidf(fmt.Sprintf("commit.actual_cost[%d]", i), "%d is more than %d", cost, uint64(limit.MaxCost))
		}
	}
	return nil
}

// field returns the name of the field that contained the target.
func (t *Target) field() string {
	if t.Hold {
		return "hold_id"
	}
	return "decision_id"
}

// settledBefore answers from the record of an end.
func settledBefore(value []byte, r *Request) Result {
	d, same, err := decodeAnswer(value, r)
	if err != nil {
		return Result{Err: unreadable(r.Settlement.Target.field(), "how it ended", err)}
	}
	if !same {
		return Result{Err: r.refusalUnlessPart(value, errorf(HoldEnded, r.Settlement.Target.field(),
			"was settled in another way before: it ends once"))}
	}
	return Result{Decision: d}
}

// refusalUnlessPart returns the refusal of a request whose home has the record of another one, unless that is home's
// part of this one: a decision whose keys were on several shards was settled slot by slot then, perhaps not in all of
// them, and so is any copy.
func (r *Request) refusalUnlessPart(value []byte, refusal *Error) *Error {
	if s := r.Settlement; s == nil || s.Target.Hold || s.Target.Operation != "" {
		return refusal
	}
	part, home := Request{Op: Settle, Namespace: r.Namespace, Settlement: new(*r.Settlement)}, r.Slot()
	part.Entries, part.Settlement.Actual = partOf(r, func(key string) bool { return slot.Of(r.Namespace, key) == home })
	if _, same, err := decodeAnswer(value, &part); err != nil || !same { //mutant:parts-that-joined-are-no-copy
		return refusal
	}
	return errInParts
}

// errInParts has a settlement carried out slot by slot.
var errInParts = &Error{Code: Spread, Message: "the slots of the decision's keys are settled one by one, " +
	"as they were before; nothing was counted"}

// mayStillSettle returns until when the end is remembered. For a hold that is the longest retention of its policies. A
// decision may be settled only while its end and everything that its counters remember of resets are certainly still
// kept. That is the shortest retention, counted from the decision. The record of its end outlives every retention
// within which the decision could be settled.
func (cs charges) mayStillSettle(t *Target, now limit.Time) (limit.Time, *Error) {
	longest, shortest := limit.Span(0), limit.MaxPeriod
	for i := range cs {
		retention := cs[i].policy.Retention
		longest, shortest = max(longest, retention), min(shortest, retention)
	}
	if t.Hold {
		return now + limit.Time(longest), nil
	}
	if t.Retention != 0 {
		shortest = min(shortest, t.Retention)
	}
	ends := t.DecidedAt + limit.Time(shortest)
	if now >= ends || now < t.DecidedAt {
		return 0, errorf(HoldEnded, "decision_id", "is older than the %d s within which a decision is settled",
			shortest/1e6)
	}
	return max(ends, t.DecidedAt+limit.Time(t.Retention)), nil
}

// settleTaken executes a settlement on the units that the entries of r have taken, and changes nothing if it refuses.
// decideEntries must have put the counters into e.charges before. With s.Target.Hold the units are those of the hold
// called name, which must be in all counters; without it, those that were decided at decidedAt, which no counter has by
// name.
//
// It also serves a part of an operation on several shards. The part has taken its units with count and putHolds, under
// operationHold(id) and remote. To execute home's decision, it sets Target.Hold and
//
//   - ActionCommit for "committed": the units stay, and the hold leaves the counters;
//   - ActionCancel for "aborted";
//   - the caller's settlement for "settled", with Actual for the entries of this shard.
//
// When an operation is refunded after its confirmation, its part is settled without Target.Hold, and decidedAt is this
// shard's own time of the charge. The caller must ensure that this is done once: settleTaken writes no record.
func (e *evaluation) settleTaken(r *Request, s *Settlement, name string, decidedAt limit.Time) *Error {
	taken, err := e.charges.takenBy(r, s, name, decidedAt)
	if err != nil {
		return err
	}
	if i, room := e.charges.lacksRoom(s, taken, e.at.Now); i >= 0 {
		return overQuota(i, s.Actual[i], taken[i].cost, room)
	}
	for i := range e.charges {
		e.charges[i].settle(s, &taken[i], s.actual(i, taken[i].cost), e.at.Now)
		e.touch(e.charges[i].counter)
	}
	return nil
}

// takenBy returns the units of each entry that are to be settled.
func (cs charges) takenBy(r *Request, s *Settlement, name string, decidedAt limit.Time) ([]hold, *Error) {
	taken := make([]hold, len(cs))
	for i, ch := range cs {
		if !s.Target.Hold {
			taken[i] = hold{taken: decidedAt, cost: r.Entries[i].Cost,
				uncounted: ch.counter.limits.uncounted(r.Entries[i].Counted)}
			continue
		}
		h, found := ch.counter.extras.findHold(name)
		//mutant:look-needs-a-hold
		if !found && r.Entries[i].Cost == 0 { // it only looked, so it has no hold
			taken[i] = hold{taken: decidedAt}
			continue
		}
		if !found { //mutant:expired-hold-commits
			return nil, errorf(HoldEnded, "hold_id", "names a hold that has expired, or never was")
		}
		taken[i] = h
	}
	return taken, nil
}

// actual returns the units spent on the i-th entry; cost were taken.
func (s *Settlement) actual(i int, cost uint64) uint64 {
	switch {
	case s.Action == ActionCancel || s.Action == ActionSuccess:
		return 0
	case s.Actual == nil:
		return cost
	}
	return s.Actual[i]
}

// lacksRoom returns the first entry with an excess that does not fit, if that is to be refused, and the room, or -1 if
// there is none.
func (cs charges) lacksRoom(s *Settlement, taken []hold, now limit.Time) (i int, room uint64) {
	if s.Overage != OverageReject {
		return -1, 0
	}
	for i := range cs {
		actual := s.actual(i, taken[i].cost)
		if actual <= taken[i].cost {
			continue
		}
		if room := cs[i].room(limit.MaxCost, cs[i].boundsExcess, now); actual-taken[i].cost > room {
			return i, room
		}
	}
	return -1, 0
}

// overQuota returns the error of a commit with an excess that does not fit.
func overQuota(i int, actual, taken, room uint64) *Error {
	return errorf(OverQuota, fmt.Sprintf("commit.actual_cost[%d]", i),
		"%d is %d more than was taken, and there is room for %d more", actual, actual-taken, room)
}

// settle settles one entry, which has taken h.
func (ch *charge) settle(s *Settlement, h *hold, actual uint64, now limit.Time) {
	c := ch.counter
	if s.Action == ActionExtend {
		c.extendHold(h.name, now+limit.Time(s.TTL))
		return
	}
	if s.Target.Hold {
		c.endHold(h.name, false, now) // concurrency limits get their units back
	}
	if actual < h.cost {
		c.limits.refund(h, h.cost-actual, now)
		c.meters.giveBack(c, h.cost-actual, h.taken, now) //mutant:settlement-credits-nothing
	} else if excess := actual - h.cost; excess > 0 {
		if s.Overage != OverageDebt {
			excess = ch.room(excess, ch.boundsExcess, now)
		}
		ch.spend(excess, now)
	}
	switch s.Action {
	case ActionSuccess:
		c.extras.succeed(c.policy.Lockout, now)
	case ActionFailed:
		c.violate(now)
	}
}

// spend counts units on the meter and on all limits of an entry except concurrency limits, even past the quota.
func (ch *charge) spend(units uint64, now limit.Time) {
	if units == 0 {
		return
	}
	ch.counter.bill(ch.policy.Meter, units, now) //mutant:excess-not-billed
	for j := range ch.limits {
		if l := &ch.limits[j]; l.Algorithm != limit.Concurrency {
			s, _ := limit.Add(l.Limit, ch.counter.at(j, l, now), units, now)
			ch.setCounted(j, s, now) //mutant:excess-crosses-nothing
		}
	}
}

// boundsExcess reports whether a limit of the entry can refuse an excess. A concurrency limit cannot: it has counted
// the hold, whatever its cost.
func (ch *charge) boundsExcess(l *policy.Limit) bool {
	return ch.denies(l) && l.Algorithm != limit.Concurrency
}

// denies reports whether a limit of the entry can deny a request.
func (ch *charge) denies(l *policy.Limit) bool {
	return !l.Unlimited && l.Algorithm != limit.Unlimited && !l.Shadow && !ch.policy.Shadow
}
