package shard

import (
	"math"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/codec"
)

// Request is a request without its Shard, which the call that carries it names.
func (c *MessageCodec) Request(r *Request) {
	codec.Byte(&c.Codec, &r.Op)
	c.Text(&r.Namespace, &r.Limit, &r.ID)
	codec.Int(&c.Codec, &r.NotAfter)
	if n := c.CountTo(len(r.Entries), MaxEntries); c.Reading() && n > 0 {
		r.Entries = c.entries.take(n)
	}
	for i := range r.Entries {
		e := &r.Entries[i]
		c.Text(&e.Policy, &e.Key, &e.Tier)
		c.Uint64(&e.Cost)
	}
	c.rare(r)
	if !c.Reading() {
		return
	}
	if isTally(r.Op) && mostLimits(r.Entries) == 0 {
		for i := range r.Entries {
			r.Entries[i].Limits = TallyLimits
		}
	}
	if r.MessageProblem() != nil {
		c.Fail()
	}
}

// rare are the fields that few requests have. If there are none, their bits are missing too. Acked travels as its
// distance from the number, which is usually small; the subtraction is undone exactly for any two values.
func (c *MessageCodec) rare(r *Request) {
	inSession := r.Session != (Session{}) || r.Number != 0 || r.Acked != 0
	aboutDocument := r.Document != "" || r.Expect != 0 || len(r.Body) > 0
	hasTerms := r.bringsLimits() || r.Hold != nil || r.Settlement != nil || r.Adjustment != nil || r.Operation != nil ||
		mostCounted(r.Entries) > 0 || r.Tally != nil || r.System != nil
	hasRevision, followed, hasOwn := r.Revision != 0, r.Trace != nil, r.Own != 0
	if c.Reading() && c.Left() == 0 || !c.Reading() &&
		!(inSession || r.Retry || aboutDocument || hasTerms || hasRevision || r.Hashed || followed || hasOwn) {
		return
	}
	c.Flags(&inSession, &r.Retry, &aboutDocument, &hasTerms, &hasRevision, &r.Hashed, &followed, &hasOwn)
	if inSession {
		c.session(&r.Session)
		c.Uint64(&r.Number)
		unfinished := r.Number - r.Acked
		if c.Uint64(&unfinished); c.Reading() {
			r.Acked = r.Number - unfinished
		}
	}
	if aboutDocument {
		c.Text(&r.Document)
		c.Uint64(&r.Expect)
		c.Bytes(&r.Body, MaxDocumentBytes)
	}
	if hasTerms {
		c.terms(r)
	}
	if hasRevision {
		c.Uint64(&r.Revision)
	}
	if followed {
		c.trace(&r.Trace)
	}
	if hasOwn {
		codec.Uint(&c.Codec, &r.Own, math.MaxInt32)
	}
}

// terms are the parameters of certain operations that a request has.
func (c *MessageCodec) terms(r *Request) {
	limits, hold, settlement, adjustment := r.bringsLimits(), r.Hold != nil, r.Settlement != nil, r.Adjustment != nil
	operation, counted, tally, system := r.Operation != nil, mostCounted(r.Entries) > 0, r.Tally != nil, r.System != nil
	c.Flags(&limits, &hold, &settlement, &adjustment, &operation, &counted, &tally, &system)
	if limits {
		for i := range r.Entries {
			c.limits(&r.Entries[i].Limits, r.Op)
		}
	}
	codec.Optional(&c.Codec, hold, &r.Hold, func(h *HoldTerms) {
		codec.Int(&c.Codec, &h.TTL)
		codec.Byte(&c.Codec, &h.OnExpire)
	})
	codec.Optional(&c.Codec, settlement, &r.Settlement, c.settlement)
	codec.Optional(&c.Codec, adjustment, &r.Adjustment, c.adjustment)
	codec.Optional(&c.Codec, operation, &r.Operation, c.operation)
	if counted {
		for i := range r.Entries {
			c.counted(&r.Entries[i].Counted)
		}
	}
	codec.Optional(&c.Codec, tally, &r.Tally, c.tally)
	codec.Optional(&c.Codec, system, &r.System, func(t *SystemTerms) { t.code(c) })
	if c.Reading() && r.Op == Charge && !chargesExcess(r) && slices.ContainsFunc(r.Entries, namesLimits) {
		c.Fail()
	}
}

func (c *MessageCodec) counted(prints *[]LimitPrint) {
	if n := c.CountTo(len(*prints), MaxLimits); c.Reading() && n > 0 {
		*prints = make([]LimitPrint, n)
	}
	for i, p := range *prints {
		b := [2]byte{byte(p), byte(p >> 8)}
		if c.Array(b[:]); c.Reading() {
			(*prints)[i] = LimitPrint(b[0]) | LimitPrint(b[1])<<8
		}
	}
}

// mostLimits returns the largest number of limits that an entry brings.
func mostLimits(entries []Entry) (most int) {
	for i := range entries {
		most = max(most, len(entries[i].Limits))
	}
	return most
}

// mostCounted returns the largest number of limits that have counted one entry.
func mostCounted(entries []Entry) (most int) {
	for i := range entries {
		most = max(most, len(entries[i].Counted))
	}
	return most
}

// chargesExcess reports whether a charge is for the excess of a settlement. The shard knows the limits of such a
// charge.
func chargesExcess(r *Request) bool { return r.Operation != nil && r.Operation.Op == Settle }

// namesLimits reports whether an entry brings limits by name alone.
func namesLimits(e Entry) bool {
	return slices.ContainsFunc(e.Limits, func(l policy.Limit) bool { return isNamed(&l) })
}

// isNamed reports whether a limit is a name alone, from a settlement.
func isNamed(l *policy.Limit) bool { return l.Limit == (limit.Limit{}) }

// bringsLimits reports whether an entry brings limits. Those of a tally need not travel.
func (r *Request) bringsLimits() bool {
	return mostLimits(r.Entries) > 0 &&
		!(isTally(r.Op) && !slices.ContainsFunc(r.Entries, func(e Entry) bool { return !AreTallyLimits(e.Limits) }))
}

// limit is the arithmetic of a limit, in package limit's own form.
func (c *MessageCodec) limit(l *policy.Limit) {
	if !c.Reading() {
		form := string(limit.AppendLimit(nil, l.Limit))
		c.Text(&form)
		return
	}
	var form string
	c.Text(&form)
	var rest []byte
	var err error
	if l.Limit, rest, err = limit.DecodeLimit([]byte(form), limit.Limit{}); err != nil || len(rest) > 0 {
		c.Fail()
	}
}

func (c *MessageCodec) tally(t *TallyTerms) {
	codec.Byte(&c.Codec, &t.Verb)
	codec.Byte(&c.Codec, &t.When)
	c.Flags(&t.KeepTTL, &t.At)
	codec.Int(&c.Codec, &t.Amount)
	codec.Int(&c.Codec, &t.TTL)
}

func (c *MessageCodec) settlement(s *Settlement) {
	t := &s.Target
	c.Flags(&t.Hold, &t.Hashed)
	c.position(&t.Position)
	codec.Uint(&c.Codec, &t.Index, math.MaxUint32)
	codec.Int(&c.Codec, &t.DecidedAt)
	codec.Int(&c.Codec, &t.Retention)
	c.Text(&t.Operation)
	c.slot(&t.Home)
	codec.Byte(&c.Codec, &s.Action)
	codec.Byte(&c.Codec, &s.Overage)
	codec.List(&c.Codec, &s.Actual, MaxEntries, func(n *uint64) { c.Uint64(n) })
	codec.Int(&c.Codec, &s.TTL)
}

func (c *MessageCodec) adjustment(a *Adjustment) {
	overrides, forgets := a.Override != nil, a.Forget != ""
	c.Flags(&overrides, &forgets, &a.Bills)
	codec.Int(&c.Codec, &a.Amount)
	codec.Int(&c.Codec, &a.Until)
	c.Text(&a.Actor, &a.Note)
	if forgets {
		c.Text(&a.Forget)
	}
	codec.Optional(&c.Codec, overrides, &a.Override, c.override)
}
