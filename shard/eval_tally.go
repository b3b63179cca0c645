package shard

import (
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// TallyVerb is an operation on a tally. Its numbers are sent between nodes: append new ones, never renumber.
type TallyVerb uint8

// The verbs.
const (
	TallyAdd  TallyVerb = 1 // add Amount, possibly negative; the result may be below zero
	TallySet  TallyVerb = 2 // set to Amount, with the end given by TTL
	TallyEnd  TallyVerb = 3 // the counter ends after TTL; a TTL of 0 or less ends it now
	TallyKeep TallyVerb = 4 // the counter no longer ends on its own
	// TallyDrop puts to rest all inline limits of the key under the name of the entry's policy. A tally leaves no
	// trace. Any other limit keeps the record of a reset, so that no earlier decision gives anything back to it. Open
	// holds and a block by hand stay.
	TallyDrop TallyVerb = 5
)

// TallyWhen is a condition of TallySet and TallyEnd, as in Redis. Its numbers are sent between nodes: append new ones,
// never renumber.
type TallyWhen uint8

// The conditions.
const (
	TallyAlways  TallyWhen = 0
	TallyAbsent  TallyWhen = 1 // SET NX: only if there is no counter; EXPIRE NX: only if it has no end
	TallyPresent TallyWhen = 2 // SET XX: only if there is a counter; EXPIRE XX: only if it has an end
	TallyLater   TallyWhen = 3 // EXPIRE GT: only if the new end is later; never for a counter without an end
	TallyEarlier TallyWhen = 4 // EXPIRE LT: only if the new end is earlier, or the counter has no end
	TallySooner  TallyWhen = 5 // EXPIRE XX LT: only if the counter has an end, and the new one is earlier
)

// TallyTerms are the parameters of a Tally: a counter as in Redis, an integer with an optional end.
type TallyTerms struct {
	Verb    TallyVerb
	When    TallyWhen
	KeepTTL bool // TallySet: keep the end
	At      bool // TTL is an instant, so that it ends when the client said, however long the request was under way
	Amount  int64
	TTL     limit.Span // until the end, or with At the end; 0 in TallySet for no end
}

// Tallied is a tally after an operation.
type Tallied struct {
	Known  bool // the counter exists
	Done   bool // the verb took effect: its condition held, and there was something to change
	Was    bool // the counter existed before, with the value Before; not set by ReadTally
	Before int64
	Value  int64
	EndsAt limit.Time // first instant at which the counter no longer exists; 0 if it does not end on its own
}

// TallyLimits are the limits of the entry of a Tally or ReadTally: one limit that counts everything and denies nothing.
// A Check with an inline unlimited limit of this name counts on the same counter. TallyLimits must not be changed.
var TallyLimits = []policy.Limit{{Name: "count", Limit: limit.Limit{Algorithm: limit.Unlimited}}}

// AreTallyLimits reports whether limits are equal to TallyLimits.
func AreTallyLimits(limits []policy.Limit) bool {
	return len(limits) == 1 && limits[0].Name == TallyLimits[0].Name && limits[0].Limit == TallyLimits[0].Limit &&
		limits[0].Unit == "" && limits[0].Reason == "" && !limits[0].Shadow && !limits[0].Unlimited &&
		limits[0].OnRecovery == policy.RecoverFull && len(limits[0].Thresholds) == 0
}

// tallyProblem refuses a request that is not a valid tally operation, before anything is looked up.
func tallyProblem(r *Request) *Error {
	switch t := r.Tally; {
	case len(r.Entries) != 1:
		return Invalidf("entries", "are %d: a tally is one key's", len(r.Entries))
	case !AreTallyLimits(r.Entries[0].Limits):
		return Invalidf("entries[0].limits", "must be those of a tally")
	case r.Op == ReadTally:
		return nil
	case t == nil:
		return Invalidf("tally", "is missing")
	case t.Verb < TallyAdd || t.Verb > TallyDrop || t.When > TallySooner:
		return &Error{Code: NotBuilt, Field: "tally", Message: "it is not known to this version: run a newer one"}
	case t.When > TallyPresent && t.Verb != TallyEnd || t.When != TallyAlways && t.Verb != TallySet &&
		t.Verb != TallyEnd:
		return Invalidf("tally.when", "is no condition of what is done")
	case t.At && (t.TTL < 0 || t.TTL == 0 && t.Verb == TallySet || t.Verb != TallySet && t.Verb != TallyEnd):
		return Invalidf("tally.ttl", "is %d us: it must be an instant after 1970, of an end", t.TTL)
	case t.Verb == TallySet && (t.TTL < 0 || t.KeepTTL && t.TTL != 0):
		return Invalidf("tally.ttl", "is %d us: it must be more than 0, or 0 for none or for the one that is kept",
			t.TTL)
	}
	return nil
}

// tally answers Tally and ReadTally. The answer contains the tally and no limits.
func (e *evaluation) tally(r *Request, answer *Result) {
	e.charges, e.extras = e.charges[:0], false
	ch, err := e.charge(r, 0, r.Op)
	if err == nil {
		err = e.checkIDTime(r)
	}
	if err != nil {
		answer.Err = err
		return
	}
	c, l := ch.counter, &ch.limits[0]
	after, known := limit.TallyOf(c.at(0, l, e.at.Now), e.at.Now)
	t := &e.slabs.tallies.take(1)[0]
	t.Known, t.Before = known, after.Value
	if r.Op == Tally {
		t.Was = known
		if answer.Err = e.doTally(r.Tally, c, &after, t); answer.Err != nil {
			return
		}
	}
	if t.Known {
		t.Value, t.EndsAt = after.Value, after.EndsAt
	}
	d := &answer.Decision
	d.Allowed, d.DecidedAt, d.Position, d.Tallied = true, e.at.Now, e.at.Position, t
	if !t.Done {
		return
	}
	switch {
	case t.Known:
		c.set(0, l, after.State(), e.at.Now)
	case r.Tally.Verb == TallyDrop:
		c.drop(e.at.Now)
	default:
		c.set(0, l, limit.State{}, e.at.Now)
	}
	e.touch(c)
	e.number(d)
}

// doTally applies the verb to a tally and updates t.Known and t.Done.
func (e *evaluation) doTally(terms *TallyTerms, c *counter, tally *limit.Tally, t *Tallied) *Error {
	if (terms.Verb == TallyAdd || terms.Verb == TallySet) && c.unseen() && e.room.full() {
		return e.full()
	}
	if e.room.brimful() && terms.Verb <= TallySet && c.limits.find(0, TallyLimits[0].Name) < 0 {
		return e.full()
	}
	switch terms.Verb {
	case TallyAdd:
		sum := tally.Value + terms.Amount
		if (sum < tally.Value) != (terms.Amount < 0) {
			return Invalidf("tally.amount", "is %d: added to %d that is more than 64 bits hold",
				terms.Amount, tally.Value)
		}
		tally.Value = sum
		t.Known, t.Done = true, true
	case TallySet:
		return setTally(terms, tally, t, e.at.Now)
	case TallyEnd:
		return endTally(terms, tally, t, e.at.Now)
	case TallyKeep:
		t.Done = tally.EndsAt != 0
		tally.EndsAt = 0
	case TallyDrop:
		t.Done, t.Known = c.limits.countAny(e.at.Now), false
	}
	return nil
}

func setTally(terms *TallyTerms, tally *limit.Tally, t *Tallied, now limit.Time) *Error {
	ends, err := terms.ends(now)
	if err != nil || terms.When == TallyAbsent && t.Known || terms.When == TallyPresent && !t.Known {
		return err
	}
	tally.Value = terms.Amount
	switch {
	case terms.TTL != 0:
		tally.EndsAt = ends
	case !terms.KeepTTL:
		tally.EndsAt = 0
	}
	t.Known, t.Done = terms.TTL == 0 || ends > now, true
	return nil
}

func endTally(terms *TallyTerms, tally *limit.Tally, t *Tallied, now limit.Time) *Error {
	ends, err := terms.ends(now)
	if err != nil || !t.Known {
		return err
	}
	has := tally.EndsAt
	switch terms.When {
	case TallyAlways:
		t.Done = true
	case TallyAbsent:
		t.Done = has == 0
	case TallyPresent:
		t.Done = has != 0
	case TallyLater:
		t.Done = has != 0 && ends > has
	case TallyEarlier:
		t.Done = has == 0 || ends < has
	case TallySooner:
		t.Done = ends < has
	}
	if t.Done {
		tally.EndsAt = ends
		t.Known = ends > now
	}
	return nil
}

// ends returns the instant at which the TTL is over.
func (terms *TallyTerms) ends(now limit.Time) (limit.Time, *Error) {
	from := now
	if terms.At {
		from = 0
	}
	if terms.TTL > limit.Span(limit.MaxTime-from) {
		return 0, Invalidf("tally.ttl", "is %d us: that ends later than any time that can be told", terms.TTL)
	}
	return from + limit.Time(max(terms.TTL, 0)), nil
}

// countAny reports whether any of the limits is not at rest.
func (s countedLimits) countAny(now limit.Time) bool {
	return slices.ContainsFunc(s, func(l counted) bool { return !l.atRest(now) })
}

// drop puts all limits to rest. Nothing is ever given back to a tally, so it needs no since and leaves nothing behind.
// The units that open holds took from it are not given back to the next tally either (see set).
func (c *counter) drop(now limit.Time) {
	for i := range c.limits {
		if l := &c.limits[i]; limit.IsTally(l.limit, l.state) {
			l.state = limit.State{}
		}
	}
	c.reset("", now)
}
