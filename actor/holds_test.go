package actor

import (
	"slices"

	"github.com/stint-io/stint/internal/testing/model"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// holdOperation makes a random operation on holds, on keys that are not added up in the end; nil: not this time.
func (w *world) holdOperation(client int) *operation {
	r := w.random
	var o *operation
	switch n := r.IntN(100); {
	case n < 10:
		o = w.newOperation(shard.Reserve, r.IntN(3) > 0, w.anyCharges()...)
		o.request.Hold = &shard.HoldTerms{TTL: limit.Span(1 + r.IntN(3_000_000)), OnExpire: policy.OnExpire(r.IntN(3))}
	case n < 13:
		o = w.newOperation(shard.Partial, r.IntN(3) > 0, w.anyCharges()...)
	case n < 15:
		o = w.newOperation(shard.Count, r.IntN(3) > 0, w.anyCharges()...)
	case n < 28:
		if o = w.settleOperation(); o == nil {
			return nil
		}
	default:
		return nil
	}
	o.client = client
	return o
}

func (w *world) anyCharges() []model.Charge {
	r := w.random
	charges := []model.Charge{charge(theNames[r.IntN(resettable)], theKeys[r.IntN(2)], 1+r.Uint64N(3))}
	if second := theNames[r.IntN(resettable)]; r.IntN(3) == 0 && second != charges[0].Policy {
		charges = append(charges, charge(second, theKeys[r.IntN(2)], 1))
	}
	return charges
}

// settleOperation settles one of the newest operations that have taken units; nil: there is none.
func (w *world) settleOperation() *operation {
	r, all := w.random, w.judge.operations
	for back := 1; back <= min(len(all), 60); back++ {
		of := all[len(all)-back]
		if !of.settleable() || r.IntN(3) > 0 {
			continue
		}
		d := of.last
		entries := shard.Taken(&of.request, d)
		var charges []model.Charge
		for _, e := range entries {
			charges = append(charges, charge(e.Policy, e.Key, e.Cost))
		}
		o := w.newOperation(shard.Settle, r.IntN(3) == 0, charges...)
		o.request.Entries = entries
		o.request.Settlement = &shard.Settlement{Action: shard.Action(1 + r.IntN(5)), Overage: shard.Overage(r.IntN(2)),
			Target: shard.Target{Hold: d.HoldExpires != 0, Position: d.Position, Index: d.Index,
				DecidedAt: d.DecidedAt}}
		switch s := o.request.Settlement; {
		case s.Action == shard.ActionExtend && !s.Target.Hold:
			s.Action = shard.ActionCancel
		case s.Action == shard.ActionExtend:
			s.TTL = limit.Span(1 + r.IntN(2_000_000))
		case s.Action == shard.ActionCommit && r.IntN(2) == 0:
			for _, c := range o.charges {
				s.Actual = append(s.Actual, r.Uint64N(c.Cost+2))
			}
		}
		return o
	}
	return nil
}

// settleable reports whether the operation's client may settle the units that it has taken.
func (o *operation) settleable() bool {
	switch o.request.Op {
	case shard.Check, shard.Reserve, shard.Partial, shard.Count:
	default:
		return false
	}
	return o.last != nil && o.last.Allowed && o.last.Index != 0 &&
		!slices.ContainsFunc(o.charges, func(c model.Charge) bool { return theRetention(c.Policy) != shortRetention })
}

// described converts a request for check.History.
func (o *operation) described() model.Decided {
	d := model.Decided{Slot: uint32(o.request.Slot()), Op: model.Op(o.request.Op), ID: o.request.ID, Charges: o.charges}
	if h := o.request.Hold; h != nil {
		d.TTL, d.OnExpire = h.TTL, h.OnExpire
	}
	if s := o.request.Settlement; s != nil {
		t := &s.Target
		d.Settlement = &model.Settlement{Action: model.Action(s.Action), Actual: s.Actual,
			Overage: model.Overage(s.Overage), TTL: s.TTL, Target: model.Target{Hold: t.Hold, Index: t.Index,
				Place: model.Place{Epoch: t.Position.Epoch, Seq: t.Position.Seq, At: t.DecidedAt}}}
	}
	return d
}

// noteHold counts the events of holds.
func (t *tally) noteHold(o *operation, r *shard.Result) {
	switch d := &r.Decision; {
	case r.Err != nil && r.Err.Code == shard.HoldEnded:
		t.note("settled too late, or in another way before")
	case r.Err != nil:
	case o.request.Op == shard.Reserve && d.HoldExpires != 0:
		t.note("reserved")
	case o.request.Op == shard.Settle && d.Replayed:
		t.note("settled again")
	case o.request.Op == shard.Settle:
		t.note("settled")
	}
	for i := range r.Decision.Limits {
		if r.Decision.Limits[i].Blocked {
			t.note("blocked")
			return
		}
	}
}
