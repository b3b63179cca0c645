package hop

import (
	"encoding/binary"
	"math"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

func appendOperation(b []byte, o *shard.Operation) []byte {
	b = append(appendText(b, o.ID), flag(o.Drawn, 1)|flag(o.Excess != nil, 2), byte(o.Op))
	b = binary.AppendUvarint(b, uint64(o.Home))
	b = binary.AppendUvarint(b, o.Fingerprint)
	b = binary.AppendVarint(b, int64(o.TTL))
	b = appendLegs(b, o.Legs)
	b = appendVerdict(b, &o.Verdict)
	b = binary.AppendUvarint(b, uint64(o.Leg))
	if o.Excess != nil { // home has asked for it
		b = appendLegs(appendText(b, o.Excess.ID), o.Excess.Legs)
	}
	return b
}

func (r *frameReader) operation() (o shard.Operation) {
	o.ID = r.string()
	flags := r.flags(1 | 2)
	o.Drawn, o.Op, o.Home = flags&1 != 0, shard.Op(r.flags(math.MaxUint8)), r.slot()
	o.Fingerprint, o.TTL = r.uvarint(), limit.Span(r.varint())
	o.Legs, o.Verdict, o.Leg = r.legs(), r.verdict(), r.slot()
	if flags&2 != 0 {
		o.Excess = &shard.Excess{ID: r.string(), Legs: r.legs()}
	}
	return o
}

// mostLegs returns the length of the longest list of legs.
func mostLegs(o *shard.Operation) int {
	most := max(len(o.Legs), len(o.Verdict.Legs))
	if o.Excess != nil {
		most = max(most, len(o.Excess.Legs))
	}
	return most
}

func appendVerdict(b []byte, v *shard.Verdict) []byte {
	b = append(appendText(b, v.ID), flag(v.Known, 1)|flag(v.Settled != nil, 2), byte(v.State))
	b = binary.AppendUvarint(b, uint64(v.Home))
	b = binary.AppendVarint(b, int64(v.Expires))
	if v.Settled != nil {
		b = appendSettlement(b, v.Settled)
	}
	return appendLegs(b, v.Legs)
}

func (r *frameReader) verdict() (v shard.Verdict) {
	v.ID = r.string()
	flags := r.flags(1 | 2)
	v.Known, v.State = flags&1 != 0, shard.OperationState(r.flags(math.MaxUint8))
	v.Home, v.Expires = r.slot(), limit.Span(r.varint())
	if flags&2 != 0 {
		settled := r.settlement()
		v.Settled = &settled
	}
	v.Legs = r.legs()
	return v
}

func appendLegs(b []byte, legs []shard.Leg) []byte {
	b = binary.AppendUvarint(b, uint64(len(legs)))
	for i := range legs {
		b = append(binary.AppendUvarint(b, uint64(legs[i].Slot)), flag(legs[i].Allowed, 1))
		// A leg's decision is about one slot. It travels without an operation, because operations must not nest.
		d := legs[i].Decision
		d.Operation = nil
		b = appendDecision(b, &d)
	}
	return b
}

func (r *frameReader) legs() (legs []shard.Leg) {
	for range r.countTo(maxEntries) {
		leg := shard.Leg{Slot: r.slot(), Allowed: r.flags(1) != 0, Decision: r.legDecision()}
		if r.failed {
			return nil
		}
		legs = append(legs, leg)
	}
	return legs
}

// legDecision reads the decision of a leg. It refuses one that contains an operation, because a peer could nest those
// without limit.
func (r *frameReader) legDecision() shard.Decision {
	r.inLeg = true
	d := r.decision(r.flags(bitsResult &^ bitError))
	if r.inLeg = false; len(d.Limits) > maxEntries*maxLimits {
		r.fail()
	}
	return d
}

func (r *frameReader) slot() slot.ID { return slot.ID(r.upTo(slot.Count - 1)) }
