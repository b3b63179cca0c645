package model

import (
	"math"
	"math/big"

	"github.com/stint-io/stint/limit"
)

// Verb is an operation on a tally; When is the condition. Their numbers are those of package shard.
type (
	Verb uint8
	When uint8
)

// The verbs and conditions.
const (
	AddTo  Verb = 1 // always, and from 0; the end stays
	SetTo  Verb = 2
	EndIt  Verb = 3 // give it another end
	KeepIt Verb = 4 // take its end away
	DropIt Verb = 5 // always

	Always  When = 0
	Absent  When = 1 // SetTo: there is no tally. EndIt: it has no end
	Present When = 2 // SetTo: there is one. EndIt: it has an end
	Later   When = 3 // than its end; without one there is nothing later
	Earlier When = 4 // than its end, or it has none
	Sooner  When = 5 // than its end, and it has one
)

// TallyTerms are the terms of a Tally.
type TallyTerms struct {
	Verb    Verb
	When    When
	KeepTTL bool       // SetTo: the end stays
	At      bool       // TTL is an instant, not a length
	Amount  int64      // AddTo: to add. SetTo: the new value
	TTL     limit.Span // SetTo: 0 means no end
}

// Tallied is the result of a Tally: the state of the tally after it.
type Tallied struct {
	Known, Done, Was bool       // there is a tally now; something was done; there was one before, for a Tally alone
	Before, Value    int64      // 0 if there was, or is, none
	EndsAt           limit.Time // 0: never, or there is none
}

// integer is a tally: a number of any size until an instant, or forever (0). It exists even when it is 0, and nothing
// of it is given back.
type integer struct {
	value *big.Int
	until limit.Time
}

func (n *integer) isThere(at limit.Time) bool { return n.until == 0 || at < n.until }

func (n *integer) used(at limit.Time) *big.Rat {
	if !n.isThere(at) || n.value.Sign() < 0 {
		return rat(0)
	}
	return new(big.Rat).SetInt(n.value)
}

// count stops at 2^62, as every count does. A value already above that stays.
func (n *integer) count(units uint64, at limit.Time) {
	most := new(big.Int).Lsh(big.NewInt(1), 62)
	if n.value.Cmp(most) >= 0 {
		return
	}
	n.value = new(big.Int).Add(n.value, new(big.Int).SetUint64(units))
	if n.value.Cmp(most) > 0 {
		n.value = most
	}
}

func (n *integer) refund(uint64, limit.Time, limit.Time) {}

// tally applies a Tally, and returns the answer that the shard must give.
func (h *History) tally(d *Decided, a *openCharge) (answer Answer, refused Refusal) {
	now := d.Place.At
	k := a.at(0, now)
	value, until, there := big.NewInt(0), limit.Time(0), false
	if n, ok := k.model.memory.(*integer); ok {
		value, until, there = n.value, n.until, true
	} else if used := k.model.memory.used(now); used.Sign() > 0 {
		value, there = used.Num(), true
	}
	told := &Tallied{Known: there, Before: value.Int64()}
	if d.Op == Tally {
		told.Was = there
		switch t := d.Tally; {
		case t.Verb == DropIt:
			told.Done, told.Known = a.counter.drop(now), false
		case t.Verb == AddTo:
			value = new(big.Int).Add(value, big.NewInt(t.Amount))
			told.Done, told.Known = true, true
		case !t.applies(there, until, now):
		case t.Verb == SetTo:
			value = big.NewInt(t.Amount)
			if !t.KeepTTL {
				until = t.end(now)
			}
			if !t.KeepTTL && t.TTL == 0 {
				until = 0
			}
			told.Done, told.Known = true, t.TTL == 0 || t.end(now) > now
		case t.Verb == EndIt:
			until = t.end(now)
			told.Done, told.Known = true, until > now
		case t.Verb == KeepIt:
			until, told.Done = 0, true
		}
	}
	if !value.IsInt64() {
		return Answer{}, TooLarge
	}
	if told.Known {
		told.Value, told.EndsAt = value.Int64(), until
	}
	answer = Answer{Place: d.Place, Allowed: true, Tallied: told}
	if !told.Done {
		return answer, NotRefused
	}
	switch {
	case told.Known:
		k.model.memory = &integer{value, until}
	case d.Tally.Verb != DropIt:
		k.model = New(k.model.limit)
	}
	answer.Index = h.next()
	h.keep([]*openCharge{a}, d.Place.At)
	return answer, NotRefused
}

func (t *TallyTerms) end(now limit.Time) limit.Time {
	if t.At {
		return limit.Time(t.TTL)
	}
	return now + limit.Time(t.TTL)
}

// applies reports whether the condition of a SetTo, an EndIt or a KeepIt holds, and there is a tally for it to act on.
func (t *TallyTerms) applies(there bool, until, now limit.Time) bool {
	if t.Verb == SetTo {
		return t.When == Always || (t.When == Present) == there
	}
	ends, never := t.end(now), limit.Time(math.MaxInt64)
	if until == 0 {
		until = never
	}
	switch {
	case !there:
		return false
	case t.Verb == KeepIt:
		return until != never
	case t.When == Absent:
		return until == never
	case t.When == Present:
		return until != never
	case t.When == Later:
		return ends > until
	case t.When == Earlier:
		return ends < until
	case t.When == Sooner:
		return until != never && ends < until
	}
	return true
}

// drop resets every limit of a counter, and reports whether one was not at rest.
func (c *counter) drop(now limit.Time) (any bool) {
	for i := range c.kept {
		k := &c.kept[i]
		any = any || !k.atRest(now)
		if _, ok := k.model.memory.(*integer); ok {
			k.model = New(k.model.limit)
		} else {
			k.reset(now)
		}
	}
	return any
}
