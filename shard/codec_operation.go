package shard

import "github.com/stint-io/stint/shard/codec"

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

// mostLegs returns the length of the longest list of legs.
func (o *Operation) mostLegs() int {
	most := max(len(o.Legs), len(o.Verdict.Legs))
	if o.Excess != nil {
		most = max(most, len(o.Excess.Legs))
	}
	return most
}
