package shard

import (
	"math"

	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/codec"
	"github.com/stint-io/stint/shard/slot"
)

// Bounds of a request between nodes, as in the API. A reader does not trust a peer's data.
const (
	MaxEntries = 32
	MaxLimits  = 16 // of one entry that brings its own limits
)

// MessageCodec writes requests and results, or reads them, as nodes send them to each other. Records about operations
// and ids have their decisions in the same form. It must not be used concurrently.
type MessageCodec struct {
	codec.Codec

	// names are the entries that the statuses of a decision are about: a status then has the index of its entry instead
	// of a policy and a key. nil: it has these.
	names []Entry
	alien bool // a status was read with an entry that is not among the names
	inLeg bool // the decision of a leg, which must not contain an operation

	// Memory that the requests or results of one frame share.
	entries  slab[Entry]
	statuses slab[LimitStatus]
}

// MessageWriter returns a MessageCodec that appends to b.
func MessageWriter(b []byte) MessageCodec { return MessageCodec{Codec: codec.Writer(b)} }

// MessageReader returns a MessageCodec that reads text. What it reads refers to the text.
func MessageReader(text string) MessageCodec { return MessageCodec{Codec: codec.Reader(text)} }

// Next makes a reader read another text, the first of ahead that are left.
func (c *MessageCodec) Next(text string, ahead int) {
	*c = MessageCodec{Codec: codec.Reader(text), entries: c.entries, statuses: c.statuses}
	c.entries.given, c.statuses.given = ahead, ahead // most requests and results have one of these
}

func (c *MessageCodec) position(p *Position) {
	codec.Uint(&c.Codec, &p.Shard, math.MaxUint32)
	c.Uint64(&p.Epoch, &p.Seq)
}

func (c *MessageCodec) slot(at *slot.ID) { codec.Uint(&c.Codec, at, slot.Count-1) }

func (c *MessageCodec) session(s *Session) {
	c.Uint64(&s.Epoch, &s.Seq)
	codec.Uint(&c.Codec, &s.Index, math.MaxUint32)
}

// limits are limits that replace a policy's. They lack the Reason, which the node that received the request adds to the
// answer. Numbers that no policy could have are refused, because the arithmetic relies on Validate. Only operations
// that decide nothing may leave the numbers out.
func (c *MessageCodec) limits(limits *[]policy.Limit, op Op) {
	codec.List(&c.Codec, limits, MaxLimits, func(l *policy.Limit) {
		c.Text(&l.Name, &l.Unit)
		named := isNamed(l)
		if c.Flags(&l.Shadow, &l.Unlimited, &named); !named {
			c.limit(l)
		} else if c.Reading() && op != Settle && op != FinishLeg && op != Charge {
			c.Fail()
		}
	})
}

// A trace that is followed takes 26 bytes, as in the binary form of the W3C's traceparent: version 0, the ids of the
// trace and of the span above, and the flag that says that it is followed. Nothing else of it crosses.
const (
	traceVersion = 0
	traceSampled = 1
)

func (c *MessageCodec) trace(t *Trace) {
	version, sampled := byte(traceVersion), byte(traceSampled)
	var at TraceContext
	if !c.Reading() {
		at = (*t).Context()
	}
	codec.Byte(&c.Codec, &version)
	c.Array(at.ID[:])
	c.Array(at.Span[:])
	codec.Byte(&c.Codec, &sampled)
	switch {
	case !c.Reading():
	case version != traceVersion || sampled != traceSampled || at.ID == [16]byte{} || at.Span == [8]byte{}:
		c.Fail()
	default:
		*t = receivedTrace(at)
	}
}

func (c *MessageCodec) operation(o *Operation) {
	c.Text(&o.ID)
	excess := o.Excess != nil // home has asked for it
	c.Flags(&o.Drawn, &excess)
	codec.Byte(&c.Codec, &o.Op)
	c.slot(&o.Home)
	c.Uint64(&o.Fingerprint)
	codec.Int(&c.Codec, &o.TTL)
	c.legs(&o.Legs)
	c.verdict(&o.Verdict)
	c.slot(&o.Leg)
	codec.Optional(&c.Codec, excess, &o.Excess, func(x *Excess) {
		c.Text(&x.ID)
		c.legs(&x.Legs)
	})
}

func (c *MessageCodec) verdict(v *Verdict) {
	c.Text(&v.ID)
	settled := v.Settled != nil
	c.Flags(&v.Known, &settled)
	codec.Byte(&c.Codec, &v.State)
	c.slot(&v.Home)
	codec.Int(&c.Codec, &v.Expires)
	codec.Optional(&c.Codec, settled, &v.Settled, c.settlement)
	c.legs(&v.Legs)
}

func (c *MessageCodec) legs(legs *[]Leg) {
	codec.List(&c.Codec, legs, MaxEntries, func(l *Leg) {
		c.slot(&l.Slot)
		c.Flags(&l.Allowed)
		c.part(&l.Decision)
	})
}
