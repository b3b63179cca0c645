package shard

import (
	"math"
	"reflect"
	"slices"

	"github.com/stint-io/stint/shard/codec"
	"github.com/stint-io/stint/shard/slot"
)

// Result is a decision, or an error.
func (c *MessageCodec) Result(r *Result) {
	d, failed := &r.Decision, r.Err != nil
	if failed {
		d = &Decision{}
	}
	if has := c.head(d, &failed); !failed {
		c.decision(d, has)
	} else if d.Allowed || d.ShadowDenied || d.Replayed || has != (decisionParts{}) {
		*d = Decision{}
		c.Fail() // an error carries no decision
	} else {
		codec.Optional(&c.Codec, true, &r.Err, c.err)
	}
}

func (c *MessageCodec) err(e *Error) {
	codec.Byte(&c.Codec, &e.Code)
	c.Text(&e.Field, &e.Message)
	codec.Int(&c.Codec, &e.RetryAfter)
	if e.Code == Moved {
		codec.Uint(&c.Codec, &e.To, math.MaxUint32)
		codec.Uint(&c.Codec, &e.Slot, slot.Count-1)
	}
}

// part is the decision about one slot. It has no operation, because a peer could nest those without limit.
func (c *MessageCodec) part(d *Decision) {
	failed := false
	c.inLeg = true
	has := c.head(d, &failed)
	c.decision(d, has)
	if c.inLeg = false; c.Reading() && (failed || len(d.Limits) > MaxEntries*MaxLimits) {
		c.Fail()
	}
}

// decisionParts are what only some decisions have.
type decisionParts struct{ session, document, more bool }

// head is the first byte of a result.
func (c *MessageCodec) head(d *Decision, failed *bool) (has decisionParts) {
	if !c.Reading() {
		document := d.Answer().Document
		has = decisionParts{session: d.Answer().Session != (Session{}),
			document: document.Version != 0 || len(document.Body) > 0, more: c.rarities(d) != (decisionRarities{})}
	}
	c.Flags(failed, &d.Allowed, &d.ShadowDenied, &d.Replayed, &has.session, &has.document, &has.more)
	return has
}

// decision is a decision after its head.
func (c *MessageCodec) decision(d *Decision, has decisionParts) {
	codec.Int(&c.Codec, &d.RetryAfter)
	codec.Int(&c.Codec, &d.DecidedAt)
	c.position(&d.Position)
	codec.Uint(&c.Codec, &d.Index, math.MaxUint32)
	if n := c.CountTo(len(d.Limits), c.Left()/leastStatus); c.Reading() && n > 0 {
		d.Limits = c.statuses.take(n)
	}
	before := &LimitStatus{}
	for i := range d.Limits {
		c.status(before, &d.Limits[i])
		before = &d.Limits[i]
	}
	if has.session {
		c.session(&d.system().Session)
	}
	if has.document {
		document := &d.system().Document
		c.Uint64(&document.Version)
		c.Bytes(&document.Body, MaxDocumentBytes)
	}
	if has.more {
		c.rarely(d)
	}
	if c.Reading() && d.System != nil && reflect.DeepEqual(*d.System, SystemAnswer{}) {
		d.System = nil // as if the bits had not been there
	}
}

// decisionRarities are what few decisions have.
type decisionRarities struct{ hold, audit, verdict, tallied, age, forgot, fired, page bool }

func (c *MessageCodec) rarities(d *Decision) decisionRarities {
	return decisionRarities{
		hold:    d.HoldExpires != 0,
		audit:   len(d.Answer().Audit) > 0,
		verdict: d.Operation != nil && !c.inLeg,
		tallied: d.Tallied != nil,
		age:     d.Age != 0,
		forgot:  d.Answer().Forgot != (Forgot{}),
		fired:   len(d.Answer().Fired) > 0,
		page: d.System != nil && (d.System.Usage != nil || d.System.Events != nil || d.System.Changed != nil ||
			d.System.Moved != nil || d.System.Slots != nil || d.System.Lease != nil || d.System.Sealed != ""),
	}
}

func (c *MessageCodec) rarely(d *Decision) {
	has := c.rarities(d)
	c.Flags(&has.hold, &has.audit, &has.verdict, &has.tallied, &has.age, &has.forgot, &has.fired, &has.page)
	if has.hold {
		codec.Int(&c.Codec, &d.HoldExpires) //mutant:replay-lacks-hold-expiry
	}
	if has.audit {
		codec.List(&c.Codec, &d.system().Audit, math.MaxInt, func(a *AuditRecord) { a.code(c) })
	}
	if has.verdict && c.inLeg {
		c.Fail()
		return
	}
	codec.Optional(&c.Codec, has.verdict, &d.Operation, c.verdict)
	codec.Optional(&c.Codec, has.tallied, &d.Tallied, c.tallied)
	if has.age {
		codec.Int(&c.Codec, &d.Age)
	}
	if has.forgot {
		c.forgot(&d.system().Forgot)
	}
	if has.fired {
		codec.List(&c.Codec, &d.system().Fired, math.MaxInt, c.fired)
	}
	if has.page {
		d.system().pages(c)
	}
}

func (s *SystemAnswer) pages(c *MessageCodec) {
	usage, events, changed, moved, slots, lease, sealed := s.Usage != nil, s.Events != nil, s.Changed != nil,
		s.Moved != nil, s.Slots != nil, s.Lease != nil, s.Sealed != ""
	c.Flags(&usage, &events, &changed, &moved, &slots, &lease, &sealed)
	codec.Optional(&c.Codec, usage, &s.Usage, func(p *UsagePage) { p.code(c) })
	codec.Optional(&c.Codec, events, &s.Events, func(p *EventsPage) { p.code(c) })
	codec.Optional(&c.Codec, changed, &s.Changed, func(x *EventsChanged) { x.code(c) })
	codec.Optional(&c.Codec, moved, &s.Moved, func(a *MoveAnswer) { a.code(c) })
	codec.Optional(&c.Codec, slots, &s.Slots, func(set *slot.Set) {
		for i := range set {
			c.Fixed64(&set[i])
		}
	})
	codec.Optional(&c.Codec, lease, &s.Lease, func(l *Leased) { l.code(c) })
	if sealed {
		c.Text(&s.Sealed)
	}
}

// leastStatus is the minimum size of a status in bytes.
const leastStatus = 8

// status is a status of a decision. They come in the order of the entries, so policy and key are usually the same as in
// the one before.
func (c *MessageCodec) status(before, s *LimitStatus) {
	same := s.Policy == before.Policy && s.Key == before.Key
	held, granted := s.Held != 0, s.Granted != 0
	lockout := s.LockoutLevel != 0 || s.BlockedUntil != 0 || s.Blocked || s.Soft //mutant:softness-lost-between-shards
	c.Flags(&s.Unlimited, &s.Shadow, &s.Allowed, &same, &held, &granted, &lockout, &s.Uncounted)
	switch {
	case same && c.Reading():
		s.Policy, s.Key = before.Policy, before.Key
	case same:
	case c.names != nil:
		c.nameOf(s)
	default:
		c.Text(&s.Policy, &s.Key)
	}
	c.Text(&s.Limit)
	c.Uint64(&s.Quota, &s.Used, &s.Remaining)
	codec.Int(&c.Codec, &s.WindowStart)
	codec.Int(&c.Codec, &s.ResetAt)
	codec.Int(&c.Codec, &s.RetryAfter)
	if held {
		c.Uint64(&s.Held)
	}
	if granted {
		c.Uint64(&s.Granted)
	}
	if lockout {
		codec.Uint(&c.Codec, &s.LockoutLevel, math.MaxUint32)
		codec.Int(&c.Codec, &s.BlockedUntil)
		c.Flags(&s.Blocked, &s.ByHand, &s.Soft)
	}
}

// nameOf is the index of the entry of a status.
func (c *MessageCodec) nameOf(s *LimitStatus) {
	at := slices.IndexFunc(c.names, func(e Entry) bool { return e.Policy == s.Policy && e.Key == s.Key })
	if codec.Uint(&c.Codec, &at, math.MaxInt32); !c.Reading() {
		return
	}
	if at >= len(c.names) {
		c.alien = true
		return
	}
	s.Policy, s.Key = c.names[at].Policy, c.names[at].Key
}

func (c *MessageCodec) tallied(t *Tallied) {
	c.Flags(&t.Known, &t.Done, &t.Was)
	codec.Int(&c.Codec, &t.Before)
	codec.Int(&c.Codec, &t.Value)
	codec.Int(&c.Codec, &t.EndsAt)
}

func (c *MessageCodec) forgot(f *Forgot) {
	for _, n := range []*uint32{&f.Counters, &f.Holds, &f.Operations, &f.Audit, &f.Open} {
		codec.Uint(&c.Codec, n, math.MaxUint32)
	}
	c.Flags(&f.More)
}
