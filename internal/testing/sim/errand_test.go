package sim

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// Policies and keys of errands, in addition to those of clients: pairs are charged several keys at a time, on any
// shards; turned starts fresh with each revision; ruled has an override now and then; damped repeats its denials. The
// key of kin has a parent or none, by the node that is asked.
const (
	pairQuota   = 40
	turnedBase  = 30
	ruledQuota  = 40
	ruledMore   = 60
	dampedQuota = 1
	dampedAge   = time.Second
	cappedKeys  = 2
	longHold    = limit.Span(3600e6)
	kinParent   = "kin"
)

func errandPolicies(version int) string {
	return fmt.Sprintf(`  pair:
    limits:
      - {name: total, quota: %d, lifetime: {}}
    meter: %s
  turned:
    on_change: reset
    limits:
      - {name: total, quota: %d, lifetime: {}}
    meter: %s
  ruled:
    limits:
      - {name: total, quota: %d, lifetime: {}}
    meter: %s
  damped:
    deny_cache: %v
    limits:
      - {name: window, quota: %d, fixed_window: {period: %v, anchor: first_hit}}
  capped:
    max_keys: %d
    limits:
      - {name: total, quota: 1_000_000, lifetime: {}}
  billed:
    limits:
      - {name: total, quota: 1_000_000, lifetime: {}}
    meter: {name: units, calendar: {unit: year}}
`, pairQuota, simMeter, turnedBase+version, simMeter, ruledQuota, simMeter, dampedAge, dampedQuota,
		hitsPeriod, cappedKeys)
}

// errand is one operation that has an id, or ends what another has taken: it is retried until its fate is known.
type errand struct {
	kind             string
	request          shard.Request
	of               *errand  // the errand that a settlement or refund ends
	spent            []uint64 // the part of it that was spent, for each entry
	called, returned time.Duration
	asked            int
	fate             fate
	decision         shard.Decision
	again            *shard.Decision
	err              *shard.Error
	endedBy          *errand   // no other errand ends it
	extensions       []*errand // of this hold, in their order

	// the settlement to turn to: the cancel in place of a rejected commit, or the commit again
	instead *shard.Settlement
	back    bool // the cancel found the hold ended, so the commit is asked for again
}

func (e *errand) String() string {
	s := fmt.Sprintf("%9.3f-%9.3f %s", e.called.Seconds(), e.returned.Seconds(), e.kind)
	for _, entry := range e.request.Entries {
		s += fmt.Sprintf(" %s:%d", entry.Key, entry.Cost)
	}
	s += fmt.Sprintf(" id %q asked %d fate %d error %v", e.request.ID, e.asked, e.fate, e.err)
	if e.fate == answered {
		d := &e.decision
		s += fmt.Sprintf(" allowed %v at %v index %d expires %d", d.Allowed, d.Position, d.Index, d.HoldExpires)
		for _, l := range d.Limits {
			s += fmt.Sprintf(" %s used %d held %d of %d", l.Key, l.Used, l.Held, l.Quota)
		}
		if d.Tallied != nil {
			s += fmt.Sprintf(" %+v", *d.Tallied)
		}
		if d.Operation != nil {
			s += fmt.Sprintf(" operation %q state %d", d.Operation.ID, d.Operation.State)
		}
	}
	return s
}

func (e *errand) admitted() bool { return e.fate == answered && e.decision.Allowed }

// sure reports whether it may be retried: an extension without an id would be another one.
func (e *errand) sure() bool {
	return e.request.ID != "" || e.request.Op == shard.Settle && e.kind != "extend"
}

// runner does one errand after the other.
type runner struct {
	w      *world
	number int
	chance *rand.Rand
	done   []*errand
	ids    int
}

func newRunner(w *world, number int) *runner {
	return &runner{w: w, number: number, chance: rand.New(rand.NewPCG(w.plan.seed, uint64(500+number)))}
}

func (r *runner) run(stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration((50 + r.chance.ExpFloat64()*250) * float64(time.Millisecond))):
		}
		if r.chance.IntN(30) == 0 {
			began := time.Since(r.w.began)
			e := r.forget()
			e.called, e.returned = began, time.Since(r.w.began)
			r.done = append(r.done, e)
			continue
		}
		e := r.next()
		r.done = append(r.done, e)
		e.called = time.Since(r.w.began)
		r.ask(e)
		for e.sure() && e.fate == unknown {
			select {
			case <-stop:
				return // resolve continues
			case <-time.After(100 * time.Millisecond):
			}
			r.ask(e)
		}
		for again := e; again.kind == "damped" && again.fate == answered && !again.decision.Allowed &&
			r.chance.IntN(4) != 0; {
			again = &errand{kind: e.kind, request: e.request, called: time.Since(r.w.began)}
			r.done = append(r.done, again)
			r.ask(again) // one of the nodes still has the denial
		}
		if e.fate == answered && e.sure() && e.decision.Allowed && r.chance.IntN(4) == 0 {
			r.askAgain(e)
		}
		if r.chance.IntN(8) == 0 {
			r.askLate()
		}
	}
}

// askLate sends one more copy of an extension that was answered long ago: the hold may have been extended since, or
// have ended.
func (r *runner) askLate() {
	var old []*errand
	for _, e := range r.done {
		if e.kind == "extend" && e.sure() && e.fate == answered && e.again == nil {
			old = append(old, e)
		}
	}
	if len(old) > 0 {
		e := old[r.chance.IntN(len(old))]
		if r.askAgain(e); e.again != nil && len(e.request.Settlement.Target.Operation) > 0 {
			r.w.tally.note("errands: extend over shards, a late copy")
		}
	}
}

// next draws the next errand.
func (r *runner) next() *errand {
	switch n := r.chance.IntN(27); {
	case n < 4:
		return r.several("check", shard.Check)
	case n < 8:
		return r.several("reserve", shard.Reserve)
	case n < 13:
		if of := r.open(); of != nil {
			return r.end(of)
		}
		return r.several("check", shard.Check)
	case n < 15:
		e := r.new("tally", shard.Tally, shard.Entry{Key: fmt.Sprint("tally ", r.chance.IntN(2)), Cost: 1,
			Limits: shard.TallyLimits})
		e.request.Tally = &shard.TallyTerms{Verb: shard.TallyAdd, Amount: int64(1 + r.chance.IntN(5))}
		return e
	case n < 16:
		units := int64(1 + r.chance.IntN(10))
		if units > 5 {
			return r.correct(units - 8)
		}
		e := r.new("add", shard.AddUsed, shard.Entry{Policy: "grown", Key: "added", Cost: 1})
		e.request.Adjustment = &shard.Adjustment{Amount: units, Actor: "simulated"}
		return e
	case n < 17:
		return r.new("turned", shard.Check, shard.Entry{Policy: "turned", Key: "turned",
			Cost: uint64(1 + r.chance.IntN(3))})
	case n < 18:
		return r.rule()
	case n < 20:
		return r.private()
	case n < 21:
		e := r.new("capped", shard.Check, shard.Entry{Policy: "capped",
			Key: fmt.Sprint("capped ", r.chance.IntN(12)), Cost: 1})
		e.request.ID = "" // a key that is refused may be refused forever
		return e
	case n < 22:
		return r.new("ruled", shard.Check, shard.Entry{Policy: "ruled", Key: "ruled", Cost: 1})
	case n < 24:
		return r.new("kin", shard.Check, shard.Entry{Policy: "grown", Key: kinParent + "/child",
			Cost: uint64(1 + r.chance.IntN(3))})
	default:
		e := r.new("damped", shard.Check, shard.Entry{Policy: "damped", Key: "damped", Cost: 1})
		e.request.ID = ""
		return e
	}
}

func (r *runner) new(kind string, op shard.Op, entries ...shard.Entry) *errand {
	r.ids++
	return &errand{kind: kind, request: shard.Request{Op: op, Namespace: shard.DefaultNamespace, Entries: entries,
		ID: fmt.Sprintf("e%d-%d", r.number, r.ids)}}
}

// several takes two or three keys at a time.
func (r *runner) several(kind string, op shard.Op) *errand {
	var entries []shard.Entry
	for _, key := range r.chance.Perm(5)[:2+r.chance.IntN(2)] {
		entries = append(entries, shard.Entry{Policy: "pair", Key: fmt.Sprint("pair ", key),
			Cost: uint64(1 + r.chance.IntN(3))})
	}
	if op == shard.Check && r.chance.IntN(3) == 0 {
		entries[r.chance.IntN(len(entries))].Cost = 0 // a look beside the takes
	}
	e := r.new(kind, op, entries...)
	if op == shard.Reserve {
		e.request.Hold = &shard.HoldTerms{TTL: longHold, OnExpire: policy.OnExpireCancel}
		if r.chance.IntN(3) == 0 {
			e.request.Hold.TTL = limit.Span(500e3 + r.chance.IntN(4_000_000))
		}
	}
	return e
}

// turn handles an errand with a commit that does not fit, while an earlier copy of it may still take effect: it cancels
// the hold instead, which ends the copy's target. If the hold has ended by then, the copy has ended it, and the
// repeated commit reports that.
func (e *errand) turn() {
	if e.instead == nil {
		cancel := *e.request.Settlement
		cancel.Action, cancel.Overage, cancel.Actual = shard.ActionCancel, shard.OverageClamp, nil
		e.instead = &cancel
	}
	e.request.Settlement, e.instead = e.instead, e.request.Settlement
	e.spent = e.request.Settlement.Actual
	if e.spent == nil {
		e.spent = make([]uint64, len(e.request.Entries))
	}
}

// open is a decision of this runner that has not been ended: usually the latest, so that holds do not pile up.
func (r *runner) open() *errand {
	for i := len(r.done) - 1; i >= 0; i-- {
		e := r.done[i]
		d := &e.decision
		if (e.kind == "check" || e.kind == "reserve") && e.admitted() && e.endedBy == nil &&
			(d.Index != 0 || d.Operation != nil) && r.chance.IntN(4) != 0 {
			return e
		}
	}
	return nil
}

// cancel cancels a hold, or gives a decision back.
func (r *runner) cancel(of *errand) *errand {
	d := &of.decision
	target := shard.Target{Hold: of.request.Op == shard.Reserve, DecidedAt: d.DecidedAt, Position: d.Position,
		Index: d.Index}
	if d.Operation != nil {
		target = shard.Target{Hold: target.Hold, DecidedAt: d.DecidedAt, Operation: d.Operation.ID,
			Home: d.Operation.Home}
	}
	e := &errand{kind: "settle", of: of, request: shard.Request{Op: shard.Settle, Namespace: shard.DefaultNamespace,
		Entries: shard.Taken(&of.request, d), Settlement: &shard.Settlement{Target: target,
			Action: shard.ActionCancel}}}
	for range e.request.Entries {
		e.spent = append(e.spent, 0)
	}
	return e
}

// end ends what was taken: a hold is committed or canceled, perhaps after an extension, and a decision is given back.
func (r *runner) end(of *errand) *errand {
	e := r.cancel(of)
	hold := e.request.Settlement.Target.Hold
	// The keys of a decision of one shard may be on several by now. What could be rejected by one of them is refused.
	parts := !hold && of.decision.Operation == nil && r.w.plan.moves()
	switch n := r.chance.IntN(7); {
	case n > 4 && !parts:
		r.spendAbove(e)
	case hold && n < 2:
		e.kind, e.request.Settlement.Action, e.request.Settlement.TTL = "extend", shard.ActionExtend,
			of.request.Hold.TTL
		if r.chance.IntN(2) == 0 {
			e.request.Settlement.TTL = longHold
		}
		of.extensions = append(of.extensions, e)
		if of.request.Hold.TTL == longHold && r.chance.IntN(2) == 0 {
			return e // without an id: whether it is counted or not, the hold lives long
		}
		r.ids++
		e.request.ID = fmt.Sprintf("e%d-%d", r.number, r.ids)
		return e
	case hold && n < 4:
		e.request.Settlement.Action = shard.ActionCommit
		for i := range e.spent {
			e.spent[i] = uint64(r.chance.IntN(int(e.request.Entries[i].Cost + 1)))
		}
		e.request.Settlement.Actual = e.spent
	}
	of.endedBy = e
	return e
}

// spendAbove turns an end into a commit of more than was taken, which is rejected if it does not fit.
func (r *runner) spendAbove(e *errand) {
	s := e.request.Settlement
	e.kind, s.Action, s.Overage, s.Actual = "above", shard.ActionCommit, shard.OverageReject, e.spent
	for i := range e.spent {
		e.spent[i] = e.request.Entries[i].Cost + uint64(r.chance.IntN(6))
		if r.chance.IntN(4) == 0 {
			e.spent[i] = 0
		}
	}
}

// rule sets or removes a key's override.
func (r *runner) rule() *errand {
	e := r.new("rule", shard.PutOverride, shard.Entry{Policy: "ruled", Key: "ruled", Cost: 1})
	e.request.Adjustment = &shard.Adjustment{Actor: "simulated"}
	if r.chance.IntN(2) == 0 {
		e.request.Op = shard.DeleteOverride
		return e
	}
	e.request.Adjustment.Override = &policy.Override{
		Limits: map[string]policy.TierLimit{"total": {Quota: new(uint64(ruledMore))}}}
	return e
}

// correct corrects the bill of a key that nothing else bills. 0 units would be refused.
func (r *runner) correct(units int64) *errand {
	e := r.new("correct", shard.CorrectUsage, shard.Entry{Policy: "billed", Key: "billed", Cost: 1})
	e.request.System = &shard.SystemTerms{Correction: &shard.Correction{}}
	e.request.Adjustment = &shard.Adjustment{Amount: cmp.Or(units, 7), Actor: "simulated", Note: "simulated"}
	return e
}

// corrected reads the sum of all corrections of a key.
func (r *runner) corrected(entry shard.Entry) (units int64, ok bool) {
	for range 10 {
		s, err := r.w.status()
		id := shard.Of(slotsOf(s), shard.DefaultNamespace, entry.Key)
		request := shard.UsageRequest(shard.DefaultNamespace, id,
			shard.UsageQuery{Policy: entry.Policy, Key: entry.Key})
		result, l := r.decide(&errand{request: request})
		slots := result.Decision.Slots()
		if err != nil || l == nil || result.Err != nil || !slots.Has(slot.Of(shard.DefaultNamespace, entry.Key)) {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		page, err := shard.UsageOf(shard.DefaultNamespace, &result.Decision)
		if err != nil {
			r.w.fail(err)
		}
		for i := range page.Periods {
			units += page.Periods[i].Corrections
		}
		return units, err == nil
	}
	return 0, false
}

func (r *runner) ask(e *errand) {
	result, l := r.decide(e)
	e.returned = time.Since(r.w.began)
	if l == nil {
		if e.asked == 0 {
			e.refuse()
		}
		return
	}
	e.asked++
	if l.dead.Load() {
		e.fate = unknown
		return
	}
	e.err = result.Err
	switch {
	case result.Err == nil:
		e.fate, e.decision = answered, result.Decision
		return
	case result.Err.Code == shard.HoldEnded && e.instead != nil && !e.back:
		e.fate, e.back = unknown, true
		e.turn()
		return
	case result.Err.Code == shard.HoldEnded && e.request.Op == shard.Settle:
		e.fate = ended
		return
	case result.Err.Code == shard.OverQuota && e.asked > 1 && e.instead == nil:
		e.fate = unknown
		e.turn()
		return
	case result.Err.Code == shard.Unavailable && result.Err.Field == "idempotency_id":
		e.refuse() // the operation of this id was given up: no copy of it counts, whichever node is asked
	case result.Err.MaybeApplied() || e.asked > 1:
		e.fate = unknown
	default:
		e.refuse()
	}
	switch result.Err.Code {
	case shard.NotOwner, shard.Overloaded, shard.Draining, shard.Unavailable, shard.TooLate, shard.UnknownOutcome:
	case shard.MemoryFull:
		if e.kind != "capped" {
			r.w.fail(fmt.Errorf("an errand finds no room: %v", e))
		}
	case shard.OverQuota:
		if e.kind != "above" {
			r.w.fail(fmt.Errorf("an errand that has no more to spend does not fit: %v", e))
		}
	default:
		r.w.fail(fmt.Errorf("an errand was answered with code %d: %v", result.Err.Code, e))
	}
}

// refuse notes that an errand was certainly not counted: another one may end what it was to end.
func (e *errand) refuse() {
	e.fate = refused
	if e.of != nil && e.of.endedBy == e {
		e.of.endedBy = nil
	}
}

func (r *runner) decide(e *errand) (shard.Result, *life) {
	lives := r.w.lives()
	if len(lives) == 0 {
		return shard.Result{}, nil
	}
	l := lives[r.chance.IntN(len(lives))]
	ctx, cancel := context.WithTimeout(l.ctx, deadline)
	defer cancel()
	request := e.request
	if e.kind == "kin" && r.chance.IntN(2) == 0 { // by the policies that this node knows, it has a parent
		parent := request.Entries[0]
		parent.Key = kinParent
		request.Entries, request.Own = append(slices.Clone(request.Entries), parent), 1
	}
	return l.Decide(ctx, []shard.Request{request})[0], l
}

// askAgain repeats a request that was answered: the answer must be the same.
func (r *runner) askAgain(e *errand) {
	result, l := r.decide(e)
	switch {
	case l == nil || l.dead.Load():
	case result.Err == nil:
		e.again = &result.Decision
	case result.Err.Code == shard.IDReused:
		r.w.fail(fmt.Errorf("a copy is taken for another request: %v", e))
	}
}

// resolve asks for the fates that are not known, when the world is whole again.
func (r *runner) resolve() {
	for _, e := range r.done {
		if inDoubt(e.fate, &e.decision, e.asked, e.request.ID) {
			e.fate = unknown
			r.w.tally.note("errands: denied after an unknown outcome")
		}
		for i := 0; e.sure() && e.fate == unknown && i < 10; i++ {
			r.ask(e)
		}
		if e.sure() && e.fate == unknown {
			r.w.fail(fmt.Errorf("the fate of an errand cannot be learned in a whole world: %v", e))
		}
	}
}

// read reads the final used count of a key, or the corrections of its bill; ok is false if there was no answer.
func (r *runner) read(entry shard.Entry) (used int64, ok bool) {
	if entry.Policy == "billed" {
		return r.corrected(entry)
	}
	op := shard.Get
	if entry.Limits != nil {
		op = shard.ReadTally
	}
	entry.Cost = 1
	for range 10 {
		e := &errand{request: shard.Request{Op: op, Namespace: shard.DefaultNamespace, Entries: []shard.Entry{entry}}}
		if result, l := r.decide(e); l != nil && result.Err == nil {
			if t := result.Decision.Tallied; t != nil {
				return t.Value, true
			}
			return int64(result.Decision.Limits[0].Used), true
		}
		time.Sleep(100 * time.Millisecond)
	}
	return 0, false
}
