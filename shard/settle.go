package shard

import (
	"fmt"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// A settlement says what became of units that were taken. It ends a hold, once, or keeps it open for longer; or it
// refunds a decision that had no hold, once. What ended leaves a record under its name, so that the same settlement sent
// again gets the same answer, and another one is refused. A hold that has expired leaves no record: it is in its
// counters no more, and whatever settles it comes too late.

// settle ends or extends a hold, or refunds a decision. d has the limits of the entries.
func (e *evaluation) settle(r *Request, d Decision) Result {
	t, name := &r.Settlement.Target, holdName(r.Settlement.Target.Position, r.Settlement.Target.Index)
	if record, found := e.lookup(endKey(name)); found {
		return e.settledBefore(record.Value, r)
	}
	forgetAt, err := e.mayStillSettle(t)
	if err != nil {
		return Result{Err: err}
	}
	if err := e.settleTaken(r, r.Settlement, name, t.DecidedAt); err != nil {
		return Result{Err: err}
	}
	e.index++
	d.Index = e.index
	e.statuses(&d)
	if r.Settlement.Action == ActionExtend {
		d.HoldExpires = e.at.Now + limit.Time(r.Settlement.TTL)
	} else {
		e.write(Put{Key: endKey(name), Record: Record{Value: encodeAnswer(r, &d), ForgetAt: forgetAt}})
	}
	return Result{Decision: d}
}

// settlementProblem refuses what no hold and no decision of this shard could be settled with.
func (e *evaluation) settlementProblem(r *Request) *Error {
	s := r.Settlement
	switch {
	case s == nil || len(r.Entries) == 0:
		return Invalidf("target", "is missing")
	case s.Target.Operation != "" && r.Operation == nil:
		return Invalidf(s.Target.field(), "is of several shards: its home settles it, with the operation")
	case s.Target.Operation == "" && s.Target.Position.Shard != e.at.Shard:
		return Invalidf(s.Target.field(), "is of shard %v, this is shard %v", s.Target.Position.Shard, e.at.Shard)
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

// field is the one in which the target came.
func (t *Target) field() string {
	if t.Hold {
		return "hold_id"
	}
	return "decision_id"
}

// settledBefore answers from the record of an end.
func (e *evaluation) settledBefore(value []byte, r *Request) Result {
	d, same, err := decodeAnswer(e.at.Shard, value, r)
	if err != nil {
		panic(err) // records are written by this package and guarded by checksums
	}
	if !same {
		return Result{Err: &Error{Code: HoldEnded, Field: r.Settlement.Target.field(),
			Message: "was settled in another way before: it ends once"}}
	}
	return Result{Decision: d}
}

// mayStillSettle tells until when the end is remembered: of a hold for the longest retention of its policies. A decision
// may be settled only while its mark and everything that its counters remember of resets are sure to be there, which is
// for the shortest retention, and from the decision on. The mark outlives every retention that the decision could be
// settled within.
func (e *evaluation) mayStillSettle(t *Target) (limit.Time, *Error) {
	longest, shortest := limit.Span(0), limit.MaxPeriod
	for i := range e.charges {
		retention := e.charges[i].policy.Retention
		longest, shortest = max(longest, retention), min(shortest, retention)
	}
	if t.Hold {
		return e.at.Now + limit.Time(longest), nil
	}
	if t.Retention != 0 {
		shortest = min(shortest, t.Retention)
	}
	ends := t.DecidedAt + limit.Time(shortest)
	if e.at.Now >= ends || e.at.Now < t.DecidedAt {
		return 0, &Error{Code: HoldEnded, Field: "decision_id", Message: fmt.Sprintf(
			"is older than the %d s within which a decision is settled", shortest/1e6)}
	}
	return max(ends, t.DecidedAt+limit.Time(t.Retention)), nil
}

// settleTaken does what a settlement says with the units that the entries of r have taken, and has nothing changed when
// it refuses. decideEntries has brought the counters into e.charges before. With s.Target.Hold they are those of the hold
// called name, which must be in all of them; without, what was decided at decidedAt and is in no counter by name.
//
// It is all that a part of an operation on several shards needs. It has taken its units with count and putHolds, under
// operationHold(id) and remote, and says what home has decided with Target.Hold set and
//
//   - ActionCommit for "committed": the units stay, and the hold leaves the counters;
//   - ActionCancel for "aborted";
//   - the settlement of the caller for "settled", with Actual for the entries of this shard.
//
// When an operation that was confirmed before is refunded, its part is settled without Target.Hold and with this shard's own
// time of the charge as decidedAt. That it is done once is for the caller to know: settleTaken writes no record.
func (e *evaluation) settleTaken(r *Request, s *Settlement, name string, decidedAt limit.Time) *Error {
	taken := make([]hold, len(e.charges))
	for i, ch := range e.charges {
		if !s.Target.Hold {
			taken[i] = hold{taken: decidedAt, cost: r.Entries[i].Cost, uncounted: ch.counter.uncounted(r.Entries[i].Counted)}
			continue
		}
		h, found := ch.counter.findHold(name)
		if !found {
			return &Error{Code: HoldEnded, Field: "hold_id", Message: "names a hold that has expired, or never was"}
		}
		taken[i] = h
	}
	if err := e.overQuota(s, taken); err != nil {
		return err
	}
	for i := range e.charges {
		e.settleCharge(&e.charges[i], s, &taken[i], s.actual(i, taken[i].cost))
		e.touch(e.charges[i].counter)
	}
	return nil
}

// actual is what was spent on the i-th entry, for which cost was taken.
func (s *Settlement) actual(i int, cost uint64) uint64 {
	switch {
	case s.Action == ActionCancel || s.Action == ActionSuccess:
		return 0
	case s.Actual == nil:
		return cost
	}
	return s.Actual[i]
}

// overQuota refuses a commit of more than was taken that does not fit, if it is to be refused.
func (e *evaluation) overQuota(s *Settlement, taken []hold) *Error {
	if s.Overage != OverageReject {
		return nil
	}
	for i := range e.charges {
		actual := s.actual(i, taken[i].cost)
		if actual <= taken[i].cost {
			continue
		}
		if excess, room := actual-taken[i].cost, e.roomAbove(&e.charges[i]); excess > room {
			return &Error{Code: OverQuota, Field: fmt.Sprintf("commit.actual_cost[%d]", i), Message: fmt.Sprintf(
				"%d is %d more than was taken, and there is room for %d more", actual, excess, room)}
		}
	}
	return nil
}

// settleCharge settles one entry: h is what it has taken.
func (e *evaluation) settleCharge(ch *charge, s *Settlement, h *hold, actual uint64) {
	c := ch.counter
	if s.Action == ActionExtend {
		c.extendHold(h.name, e.at.Now+limit.Time(s.TTL))
		return
	}
	if s.Target.Hold {
		c.endHold(h.name, false, e.at.Now) // and concurrency limits get theirs back
	}
	if actual < h.cost {
		c.refund(h, h.cost-actual, e.at.Now)
	} else if excess := actual - h.cost; excess > 0 {
		if s.Overage != OverageDebt {
			excess = min(excess, e.roomAbove(ch))
		}
		e.spend(ch, excess)
	}
	switch s.Action {
	case ActionSuccess:
		c.succeed(e.at.Now)
	case ActionFailed:
		c.violate(e.at.Now)
	}
}

// roomAbove is how much more all limits of an entry that may deny would admit.
func (e *evaluation) roomAbove(ch *charge) uint64 {
	room := uint64(limit.MaxCost)
	for j := range ch.limits {
		if l := &ch.limits[j]; ch.denies(l) && l.Algorithm != limit.Concurrency {
			room = min(room, limit.Status(l.Limit, ch.counter.at(j, l, e.at.Now), e.at.Now).Remaining)
		}
	}
	return room
}

// spend counts units on all limits of an entry, whatever they say.
func (e *evaluation) spend(ch *charge, units uint64) {
	if units == 0 {
		return
	}
	for j := range ch.limits {
		if l := &ch.limits[j]; l.Algorithm != limit.Concurrency {
			s, _ := limit.Add(l.Limit, ch.counter.at(j, l, e.at.Now), units, e.at.Now)
			ch.counter.set(j, l, s, e.at.Now)
		}
	}
}

// denies reports whether a limit of the entry may deny a request.
func (ch *charge) denies(l *policy.Limit) bool {
	return !l.Unlimited && l.Algorithm != limit.Unlimited && !l.Shadow && !ch.policy.Shadow
}
