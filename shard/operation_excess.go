package shard

import (
	"math"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/slot"
)

// A settlement on several shards that is refused if its excess does not fit (OverageReject) is decided by home, after
// all shards have said that it fits. So the units that the legs have spent above those taken are charged first, by an
// operation of its own with the same home, the excess. Its legs never end on their own, like all legs. Home settles and
// commits the excess in one entry, or refuses and aborts it in one. An excess that home has not decided has no effect,
// like any operation after the loss of its coordinator, and the hold stays open.
//
// A leg that hears of the settlement leaves the excess out: it hears of that separately.

// excessFits decides whether the excess has room everywhere. charged is false if a leg has an excess and was not
// charged; nothing has changed then. If there is no room, the error says so, and the excess is aborted.
func (e homeEvaluation) excessFits(part *Request, s *Settlement, print uint64) (charged bool, err *Error) {
	if err := e.excessIsOpen(); err != nil {
		return false, err
	}
	taken, err := e.charges.takenBy(part, s, e.nameOfHolds(), s.Target.DecidedAt)
	if err != nil {
		return false, err
	}
	if err := e.charges.excessProblem(e.r, s, taken, e.at.Now); err != nil {
		e.ruleExcess(OperationAborted, print)
		return false, err
	}
	for i := range e.r.Operation.Legs {
		if l := &e.r.Operation.Legs[i]; l.hasExcess(e.r) && !e.r.Operation.Excess.has(l.Slot) {
			return false, nil
		}
	}
	return true, nil
}

// excessIsOpen refuses a settlement if home has already decided its excess, or may have decided and forgotten it.
func (e homeEvaluation) excessIsOpen() *Error {
	x := e.r.Operation.Excess
	if x == nil {
		return nil
	}
	if x.ID == "" || len(x.ID) > operationIDMax || x.ID == e.r.Operation.ID {
		return Invalidf("operation.excess", "has no id of its own, or one of more than %d bytes", operationIDMax)
	}
	switch u, err := e.ruling(e.rulingKey(e.r.Operation.Home, x.ID)); {
	case err != nil:
		return err
	//mutant:settled-with-a-dead-excess
	case u != nil, e.at.Now > x.until(): // an aborted record may have existed and been forgotten
		return errOperationEnded
	case e.room.full():
		return e.full()
	}
	return nil
}

// until returns the last instant at which home decides an excess, as for any other operation.
func (x *Excess) until() limit.Time {
	earliest := limit.MaxTime
	for i := range x.Legs {
		earliest = min(earliest, x.Legs[i].Decision.DecidedAt)
	}
	return earliest + limit.Time(ConcludeWithin)
}

// excessProblem returns the error of an entry that has spent more than there is room for, at home or at a leg.
func (cs charges) excessProblem(r *Request, s *Settlement, taken []hold, now limit.Time) *Error {
	if i, room := cs.lacksRoom(s, taken, now); i >= 0 {
		return overQuota(r.placeOfHome(i), s.Actual[i], taken[i].cost, room)
	}
	if r.Operation.Excess == nil {
		return nil
	}
	for i := range r.Operation.Excess.Legs {
		if l := &r.Operation.Excess.Legs[i]; !l.Allowed {
			return r.refusedBy(l)
		}
	}
	return nil
}

// refusedBy returns the error of a leg without room, for the first of its entries that has none.
func (r *Request) refusedBy(l *Leg) *Error {
	for i := range r.Entries {
		entry, room := &r.Entries[i], uint64(math.MaxUint64)
		actual := r.Settlement.actual(i, entry.Cost)
		for _, s := range l.Decision.Limits {
			if s.Policy == entry.Policy && s.Key == entry.Key && !s.Allowed {
				room = min(room, s.Remaining)
			}
		}
		if actual > entry.Cost && actual-entry.Cost > room {
			return overQuota(i, actual, entry.Cost, room)
		}
	}
	return errorf(OverQuota, "commit.actual_cost", "is more than was taken, and shard %s has no room for it",
		l.Decision.Position.Shard)
}

// ruleExcess records the outcome of the excess, for its legs.
func (e homeEvaluation) ruleExcess(state OperationState, print uint64) {
	x := e.r.Operation.Excess
	if x == nil {
		return
	}
	u := &ruling{
		state:       state,
		drawn:       true,
		fingerprint: print,
		keep:        operationKept,
		until:       x.until(),
		answer:      e.newDecision(),
	}
	u.answer.Allowed = state == OperationCommitted
	for _, l := range x.Legs {
		if l.Allowed {
			u.legs = append(u.legs, ruled{Leg: Leg{Slot: l.Slot, Allowed: true, Decision: l.Decision.bare()},
				pending: state == OperationCommitted})
		}
	}
	if len(u.legs) > 0 { // else there is nothing to end
		e.writeRuling(e.rulingKey(e.r.Operation.Home, x.ID), u)
	}
}

// atHome returns a function that reports whether a key of a settlement belongs to no leg.
func (r *Request) atHome() func(key string) bool {
	return func(key string) bool {
		return !slices.ContainsFunc(r.Operation.Legs, func(l Leg) bool { return l.has(key) })
	}
}

// placeOfHome returns the index in the settlement of home's i-th entry.
func (r *Request) placeOfHome(i int) int {
	atHome := r.atHome()
	for place := range r.Entries {
		if !atHome(r.Entries[place].Key) {
			continue
		}
		if i--; i < 0 {
			return place
		}
	}
	return 0
}

// hasExcess reports whether the leg has spent more than it took.
func (l *Leg) hasExcess(r *Request) bool {
	for i := range r.Entries {
		if entry := &r.Entries[i]; l.has(entry.Key) && r.Settlement.actual(i, entry.Cost) > entry.Cost {
			return true
		}
	}
	return false
}

// has reports whether a leg was charged.
func (x *Excess) has(at slot.ID) bool {
	return x != nil && slices.ContainsFunc(x.Legs, func(l Leg) bool { return l.Slot == at && l.Allowed })
}

// leaveExcess removes the units that a leg has spent above those taken, if they were charged before.
func (s *Settlement) leaveExcess(taken []Entry) {
	if s.Overage != OverageReject || s.Actual == nil {
		return
	}
	s.Actual = slices.Clone(s.Actual)
	for i := range s.Actual {
		s.Actual[i] = min(s.Actual[i], taken[i].Cost)
	}
}

// takeExcess charges the excess on the entries of this shard, if there is room for all of it by the rule for one shard
// (lacksRoom): all limits except concurrency limits count it, and no block denies it. It is a remote hold until home
// has decided.
func (e partEvaluation) takeExcess() ([]Entry, Result) {
	d, err := e.chargesOf(e.r.Entries)
	if err != nil {
		return nil, Result{Err: err}
	}
	if e.charges.refuseExcess(e.r, &d); !d.Allowed {
		return nil, Result{Decision: d}
	}
	if err := e.charges.roomForHolds(); err != nil {
		return nil, Result{Err: err}
	}
	name := e.nameOfHolds()
	if e.charges.heldUnder(name) {
		return nil, Result{Err: idReused(e.r.Operation.ID)}
	}
	e.charges.spendExcess(e.r, &d, e.at.Now)
	e.number(&d)
	e.putHolds(&Request{Entries: e.r.Entries}, &d,
		hold{name: name, remote: true, onExpire: policy.OnExpireCancel, expires: limit.MaxTime})
	e.statuses(&d)
	return e.r.Entries, Result{Decision: d}
}

// spendExcess counts the excess on the limits of a charge. In the statuses it marks the limits that have not counted
// all of it, to which nothing is given back.
func (cs charges) spendExcess(r *Request, d *Decision, now limit.Time) {
	for i := range cs {
		ch, cost := &cs[i], r.Entries[i].Cost
		ch.spend(cost, now)
		for j := range ch.limits {
			l, s := &ch.limits[j], &d.Limits[ch.first+j]
			_, v := ch.ask(Get, j, ch.counter.at(j, l, now), 0, now)
			s.Uncounted = v.Used != s.Used+cost //mutant:excess-returns-what-others-hold
		}
	}
}

// refuseExcess sets in each status whether the limit has room for the excess, and in the decision whether all limits
// have.
func (cs charges) refuseExcess(r *Request, d *Decision) {
	for i := range cs {
		ch := &cs[i]
		for j := range ch.limits {
			s := &d.Limits[ch.first+j]
			s.Allowed = !ch.boundsExcess(&ch.limits[j]) || r.Entries[i].Cost <= s.Remaining //mutant:room-for-any-excess
			d.Allowed = d.Allowed && s.Allowed
		}
	}
}
