package routing

import (
	"context"
	"slices"
	"time"

	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// settleAnswerWithin bounds the wait of a settlement's answer for the statuses of the legs.
const settleAnswerWithin = time.Second

// settleAcross settles a hold or a decision of an operation on several shards. Home settles once; the legs settle when
// they hear of it. The answer waits for the legs briefly.
func (r *Router) settleAcross(ctx context.Context, request *shard.Request) shard.Result {
	target := settlesOperation(request)
	o := &operation{router: r, whole: request, at: slotsOf(request), home: target.Home}
	o.legs = legsBeside(o.home, o.at)
	o.header = shard.Operation{ID: target.Operation, Home: o.home, TTL: chargeTTL}
	for _, id := range o.legs {
		o.header.Legs = append(o.header.Legs, o.legWithKeys(id, target))
	}
	result := o.settleHome(ctx, nil)
	var committed []shard.Duty
	if result.Err == nil && o.wantsExcess(&result.Decision) {
		result, committed = o.settleWithExcess(ctx)
	}
	if result.Err != nil {
		return result
	}
	d := &result.Decision
	verdict := d.Operation
	parts := map[slot.ID][]shard.LimitStatus{o.home: d.Limits}
	d.Operation = &shard.Verdict{ID: verdict.ID, Home: o.home, Known: true, State: verdict.State}
	if verdict.State == shard.OperationSettled {
		o.settleLegs(ctx, verdict, committed, d, parts)
	} else {
		o.finishBehind(verdict, verdict.Legs) // tells the legs when the hold now ends
	}
	o.lookAtLegs(ctx, parts)
	d.Limits = o.arrange(parts)
	return result
}

var errHoldParted = &shard.Error{Code: shard.HoldEnded, Field: "hold_id",
	Message: "names a hold that has ended: slots of its keys have moved since"}

// errRejectParted is the error of what might fit on one shard and not on another.
var errRejectParted = shard.Invalidf("commit.overage",
	"cannot be OVERAGE_REJECT: the decision's keys live on several shards now")

// settleParted settles a hold or a decision of one shard whose keys are on several shards now, or were when a copy was
// settled. Home knows what was settled before they parted. A decision is refunded slot by slot, home first. Each part
// ends once, so a copy of the request goes on where the first has stopped, also if the keys are on one shard again. A
// part that is never reached stays counted (S5).
func (o *operation) settleParted(ctx context.Context) shard.Result {
	var parted *shard.Error
	switch s := o.whole.Settlement; {
	case s.Target.Hold:
		parted = errHoldParted
	case s.Overage == shard.OverageReject && s.Actual != nil:
		parted = errRejectParted
	}
	if parted != nil { //mutant:parted-by-an-old-table
		if result, done := o.settleTogether(ctx); done {
			return result
		}
	}
	if result, known := o.ask(ctx); known { //mutant:settled-again-when-parted
		return result
	}
	if parted != nil {
		return shard.Result{Err: parted}
	}
	part := func(id slot.ID) shard.Result {
		s := *o.whole.Settlement
		s.Actual = o.actualAt(id)
		result := o.send(ctx, id, shard.Request{Op: shard.Settle, ID: o.whole.ID, Entries: o.entriesAt(id),
			Settlement: &s})
		if result.Err != nil {
			result.Err = o.errorInWhole(result.Err, id)
		}
		return result
	}
	first := part(o.home)
	if first.Err != nil { //mutant:parts-refunded-after-a-no
		return first
	}
	results := o.atEach(part)
	d := first.Decision
	parts := map[slot.ID][]shard.LimitStatus{o.home: d.Limits}
	for i, id := range o.legs {
		if err := results[i].Err; err != nil {
			return shard.Result{Err: partRefunded(err)}
		}
		d.Replayed = d.Replayed && results[i].Decision.Replayed
		parts[id] = results[i].Decision.Limits
	}
	d.Limits = o.arrange(parts)
	return shard.Result{Decision: d}
}

// settleTogether settles on one shard what this node believes to be parted: its table may be old. Home decides: if its
// shard lacks another slot, the keys are parted, and settleTogether returns false. A hold has ended then, since neither
// a move nor a restore parts the slots of one that is open (X16).
func (o *operation) settleTogether(ctx context.Context) (result shard.Result, done bool) {
	question := o.question()
	o.address(&question)
	for trail := (trail{}); ; {
		slots, _, err := o.router.slots(ctx)
		if err != nil {
			return shard.Result{Err: err}, true
		}
		results, strays := o.router.deliverTo(ctx, o.router.routeTo(shard.ID(slots[o.home])),
			[]shard.Request{question, *o.whole})
		refusals := [2]*shard.Error{}
		for i := range strays {
			refusals[strays[i].place] = strays[i].err
		}
		switch moved := refusals[0]; {
		case refusals[1] == nil:
			return results[1], true
		case moved == nil: //mutant:hold-ended-by-a-shard-without-home
			return shard.Result{}, false
		default:
			o.router.learn(moved)
			if !trail.next(ctx) {
				return shard.Result{Err: fate(o.whole, errMoving(moved))}, true
			}
		}
	}
}

// partRefunded returns the error of a refund that home has made in its part, and another slot has not.
func partRefunded(err *shard.Error) *shard.Error {
	if err.MaybeApplied() { //mutant:half-a-refund-is-none
		return err
	}
	return &shard.Error{Code: shard.UnknownOutcome, Field: err.Field,
		Message: "a part of it is done; ask again, and it goes on (another part: " + err.Message + ")"}
}

// actualAt returns the actual costs of the entries that live in a slot; nil: the settlement has none.
func (o *operation) actualAt(id slot.ID) (actual []uint64) {
	if all := o.whole.Settlement.Actual; all != nil {
		for i, at := range o.at {
			if at == id {
				actual = append(actual, all[i])
			}
		}
	}
	return actual
}

// settleHome has home settle. excess is what the legs were charged beforehand, or nil.
func (o *operation) settleHome(ctx context.Context, excess *shard.Excess) shard.Result {
	header := o.header
	header.Excess = excess
	return o.send(ctx, o.home, shard.Request{Op: shard.Settle, ID: o.whole.ID, Entries: o.whole.Entries,
		Settlement: o.whole.Settlement, Operation: &header})
}

// legWithKeys returns a leg with the keys that live in its slot.
func (o *operation) legWithKeys(id slot.ID, target *shard.Target) shard.Leg {
	leg := shard.Leg{Slot: id, Allowed: true, Decision: shard.Decision{Allowed: true, DecidedAt: target.DecidedAt}}
	for _, entry := range o.entriesAt(id) {
		leg.Decision.Limits = append(leg.Decision.Limits, shard.LimitStatus{Policy: entry.Policy, Key: entry.Key})
	}
	return leg
}

// settleLegs tells the legs what home has settled, and adds their statuses if they come in time. Slower work continues
// in the background. The legs first receive what was committed with the settlement, so that their statuses show that as
// used.
func (o *operation) settleLegs(ctx context.Context, verdict *shard.Verdict, committed []shard.Duty, d *shard.Decision,
	parts map[slot.ID][]shard.LimitStatus) {
	messages := o.settling(verdict)
	answered := make(chan []shard.Result, 1)
	if !o.router.background.start(func(ctx context.Context) {
		all := slices.Concat(committed, messages)
		results := o.router.dispatch(ctx, all)
		answered <- results[len(committed):]
		o.router.acknowledge(ctx, all, results)
	}) {
		return
	}
	timer := time.NewTimer(settleAnswerWithin)
	defer timer.Stop()
	select {
	case results := <-answered:
		for i := range results {
			parts[messages[i].To] = results[i].Decision.Limits
			if results[i].Err == nil {
				d.Operation.Legs = append(d.Operation.Legs, bareLeg(shard.Leg{Slot: messages[i].To, Allowed: true,
					Decision: results[i].Decision}))
			}
		}
	case <-timer.C:
	case <-ctx.Done():
	}
}

// settling returns the messages that tell the legs how they are settled.
func (o *operation) settling(verdict *shard.Verdict) (messages []shard.Duty) {
	for _, leg := range verdict.Legs {
		header := o.header
		header.Leg, header.Legs = leg.Slot, []shard.Leg{bareLeg(leg)}
		header.Verdict = *verdict
		header.Verdict.Legs = nil
		if verdict.Settled != nil {
			header.Verdict.Settled = new(*verdict.Settled)
			header.Verdict.Settled.Actual = o.actualAt(leg.Slot)
		}
		messages = append(messages, shard.Duty{To: leg.Slot, Request: shard.Request{Op: shard.FinishLeg,
			Namespace: o.whole.Namespace, Entries: o.keysAt(leg.Slot), Operation: &header}})
	}
	return messages
}

// lookAtLegs adds the current statuses of the legs that have not given any, if they come in time.
func (o *operation) lookAtLegs(ctx context.Context, parts map[slot.ID][]shard.LimitStatus) {
	if len(o.legs) == 0 {
		return
	}
	results := o.atEach(func(id slot.ID) shard.Result {
		if len(parts[id]) > 0 {
			return shard.Result{}
		}
		ctx, cancel := context.WithTimeout(ctx, settleAnswerWithin)
		defer cancel()
		return o.send(ctx, id, shard.Request{Op: shard.Get, Entries: o.entriesAt(id)})
	})
	for i, id := range o.legs {
		if len(parts[id]) == 0 {
			parts[id] = results[i].Decision.Limits
		}
	}
}
