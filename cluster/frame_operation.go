package cluster

import (
	"encoding/binary"
	"math"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

func appendOperation(b []byte, o *shard.Operation) []byte {
	b = append(appendText(b, o.ID), flag(o.Drawn, 1), byte(o.Op))
	b = binary.AppendUvarint(b, uint64(o.Home))
	b = binary.AppendUvarint(b, o.Fingerprint)
	b = binary.AppendVarint(b, int64(o.TTL))
	b = appendLegs(b, o.Legs)
	b = appendVerdict(b, &o.Verdict)
	return binary.AppendUvarint(b, uint64(o.Leg))
}

func (r *frameReader) operation() (o shard.Operation) {
	o.ID, o.Drawn, o.Op, o.Home = r.string(), r.flags(1) != 0, shard.Op(r.flags(math.MaxUint8)), r.shardID()
	o.Fingerprint, o.TTL = r.uvarint(), limit.Span(r.varint())
	o.Legs, o.Verdict, o.Leg = r.legs(), r.verdict(), r.shardID()
	return o
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
	v.Home, v.Expires = r.shardID(), limit.Span(r.varint())
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
		b = append(binary.AppendUvarint(b, uint64(legs[i].Shard)), flag(legs[i].Allowed, 1))
		// A leg's own decision is of one shard: without what would make an operation contain another.
		d := legs[i].Decision
		d.Operation = nil
		b = appendDecision(b, &d)
	}
	return b
}

func (r *frameReader) legs() (legs []shard.Leg) {
	for range r.countTo(maxEntries) {
		leg := shard.Leg{Shard: r.shardID(), Allowed: r.flags(1) != 0, Decision: r.legDecision()}
		if r.failed {
			return nil
		}
		legs = append(legs, leg)
	}
	return legs
}

// legDecision reads the decision of a leg. One that contains an operation is refused: it could be as deep as a peer
// likes.
func (r *frameReader) legDecision() shard.Decision {
	r.inLeg = true
	d := r.decision(r.flags(bitsResult &^ bitError))
	r.inLeg = false
	return d
}

func (r *frameReader) shardID() shard.ID { return shard.ID(r.upTo(math.MaxUint32)) }
