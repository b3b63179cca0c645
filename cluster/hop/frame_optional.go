package hop

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// Bits for the fields that only some operations have.
const (
	bitLimits byte = 1 << iota
	bitHold
	bitSettlement
	bitAdjustment
	bitOperation
	bitCounted
	bitTally
	bitsMore = 1<<iota - 1
)

func moreBits(r *shard.Request) byte {
	return flag(mostLimits(r.Entries) > 0 && !impliesLimits(r), bitLimits) | flag(r.Tally != nil, bitTally) | flag(r.Hold != nil, bitHold) |
		flag(r.Settlement != nil, bitSettlement) | flag(r.Adjustment != nil, bitAdjustment) |
		flag(r.Operation != nil, bitOperation) | flag(mostCounted(r.Entries) > 0, bitCounted)
}

func appendMore(b []byte, r *shard.Request, more byte) []byte {
	if more&bitLimits != 0 {
		for i := range r.Entries {
			b = appendLimits(b, r.Entries[i].Limits)
		}
	}
	if more&bitHold != 0 {
		b = append(binary.AppendVarint(b, int64(r.Hold.TTL)), byte(r.Hold.OnExpire))
	}
	if more&bitSettlement != 0 {
		b = appendSettlement(b, r.Settlement)
	}
	if more&bitAdjustment != 0 {
		b = appendAdjustment(b, r.Adjustment)
	}
	if more&bitOperation != 0 {
		b = appendOperation(b, r.Operation)
	}
	if more&bitCounted != 0 {
		for i := range r.Entries {
			b = appendCounted(b, r.Entries[i].Counted)
		}
	}
	if more&bitTally != 0 {
		b = appendTally(b, r.Tally)
	}
	return b
}

func (r *frameReader) more(q *shard.Request) {
	more := r.flags(bitsMore)
	if more&bitLimits != 0 {
		for i := range q.Entries {
			q.Entries[i].Limits = r.limits(q.Op)
		}
	}
	if more&bitHold != 0 {
		q.Hold = &shard.HoldTerms{TTL: limit.Span(r.varint()), OnExpire: policy.OnExpire(r.flags(math.MaxUint8))}
	}
	if more&bitSettlement != 0 {
		settlement := r.settlement()
		q.Settlement = &settlement
	}
	if more&bitAdjustment != 0 {
		adjustment := r.adjustment()
		q.Adjustment = &adjustment
	}
	if more&bitOperation != 0 {
		operation := r.operation()
		q.Operation = &operation
	}
	if more&bitCounted != 0 {
		for i := range q.Entries {
			q.Entries[i].Counted = r.counted()
		}
	}
	if more&bitTally != 0 {
		q.Tally = r.tally()
	}
	if q.Op == shard.Charge && !chargesExcess(q) && slices.ContainsFunc(q.Entries, namesLimits) {
		r.fail()
	}
}

// chargesExcess reports whether a charge is for the excess of a settlement. The shard knows the limits of such a charge.
func chargesExcess(q *shard.Request) bool {
	return q.Operation != nil && q.Operation.Op == shard.Settle
}

// namesLimits reports whether an entry brings limits by name alone.
func namesLimits(e shard.Entry) bool {
	return slices.ContainsFunc(e.Limits, func(l policy.Limit) bool { return l.Limit == (limit.Limit{}) })
}

func isTally(op shard.Op) bool { return op == shard.Tally || op == shard.ReadTally }

// impliesLimits reports whether the limits of all entries are those of a tally, which need not travel.
func impliesLimits(r *shard.Request) bool {
	for i := range r.Entries {
		if !shard.AreTallyLimits(r.Entries[i].Limits) {
			return false
		}
	}
	return isTally(r.Op)
}

func appendTally(b []byte, t *shard.TallyTerms) []byte {
	b = append(b, byte(t.Verb), byte(t.When), flag(t.KeepTTL, 1)|flag(t.At, 2))
	return binary.AppendVarint(binary.AppendVarint(b, t.Amount), int64(t.TTL))
}

func (r *frameReader) tally() *shard.TallyTerms {
	t := &shard.TallyTerms{Verb: shard.TallyVerb(r.flags(math.MaxUint8)), When: shard.TallyWhen(r.flags(math.MaxUint8))}
	flags := r.flags(1 | 2)
	t.KeepTTL, t.At, t.Amount, t.TTL = flags&1 != 0, flags&2 != 0, r.varint(), limit.Span(r.varint())
	return t
}

func appendTallied(b []byte, t *shard.Tallied) []byte {
	b = append(b, flag(t.Known, 1)|flag(t.Done, 2)|flag(t.Was, 4))
	b = binary.AppendVarint(binary.AppendVarint(b, t.Before), t.Value)
	return binary.AppendVarint(b, int64(t.EndsAt))
}

func (r *frameReader) tallied() *shard.Tallied {
	flags := r.flags(1 | 2 | 4)
	return &shard.Tallied{Known: flags&1 != 0, Done: flags&2 != 0, Was: flags&4 != 0, Before: r.varint(), Value: r.varint(),
		EndsAt: limit.Time(r.varint())}
}

// mostCounted returns the largest number of limits that have counted one entry.
func mostCounted(entries []shard.Entry) (most int) {
	for i := range entries {
		most = max(most, len(entries[i].Counted))
	}
	return most
}

func appendCounted(b []byte, counted []shard.LimitPrint) []byte {
	b = binary.AppendUvarint(b, uint64(len(counted)))
	for _, limit := range counted {
		b = binary.AppendUvarint(b, uint64(limit))
	}
	return b
}

func (r *frameReader) counted() (counted []shard.LimitPrint) {
	for range r.countTo(maxLimits) {
		counted = append(counted, shard.LimitPrint(r.upTo(math.MaxUint16)))
	}
	return counted
}

// appendLimits omits the Reason, which the node that received the request adds to the answer.
func appendLimits(b []byte, limits []policy.Limit) []byte {
	b = binary.AppendUvarint(b, uint64(len(limits)))
	for i := range limits {
		l := &limits[i]
		b = appendText(appendText(b, l.Name), l.Unit)
		named := l.Limit == (limit.Limit{}) // a name alone, from a settlement
		b = append(b, flag(l.Shadow, 1)|flag(l.Unlimited, 2)|flag(named, 4))
		if !named {
			b = appendSized(b, func(b []byte) []byte { return limit.AppendLimit(b, l.Limit) })
		}
	}
	return b
}

// limits reads limits that replace a policy's. Numbers that no policy could have are refused, because the arithmetic
// relies on Validate. Only operations that decide nothing may leave the numbers out.
func (r *frameReader) limits(op shard.Op) (limits []policy.Limit) {
	for range r.countTo(maxLimits) {
		l := policy.Limit{Name: r.string(), Unit: r.string()}
		flags := r.flags(1 | 2 | 4)
		l.Shadow, l.Unlimited = flags&1 != 0, flags&2 != 0
		if flags&4 == 0 {
			l.Limit = r.limit()
		} else if op != shard.Settle && op != shard.FinishLeg && op != shard.Charge {
			r.fail()
		}
		if r.failed {
			return nil
		}
		limits = append(limits, l)
	}
	return limits
}

func (r *frameReader) limit() limit.Limit {
	l, rest, err := limit.DecodeLimit([]byte(r.string()), limit.Limit{})
	if err != nil || len(rest) > 0 {
		r.fail()
	}
	return l
}

func appendSettlement(b []byte, s *shard.Settlement) []byte {
	t := &s.Target
	b = append(b, flag(t.Hold, 1)|flag(t.Hashed, 2))
	b = appendPosition(b, t.Position)
	b = binary.AppendUvarint(b, uint64(t.Index))
	b = binary.AppendVarint(b, int64(t.DecidedAt))
	b = binary.AppendVarint(b, int64(t.Retention))
	b = appendText(b, t.Operation)
	b = binary.AppendUvarint(b, uint64(t.Home))
	b = append(b, byte(s.Action), byte(s.Overage))
	b = binary.AppendUvarint(b, uint64(len(s.Actual)))
	for _, actual := range s.Actual {
		b = binary.AppendUvarint(b, actual)
	}
	return binary.AppendVarint(b, int64(s.TTL))
}

func (r *frameReader) settlement() (s shard.Settlement) {
	of := r.flags(1 | 2)
	s.Target = shard.Target{Hold: of&1 != 0, Hashed: of&2 != 0, Position: r.position(), Index: uint32(r.upTo(math.MaxUint32)),
		DecidedAt: limit.Time(r.varint()), Retention: limit.Span(r.varint()), Operation: r.string(), Home: r.slot()}
	s.Action, s.Overage = shard.Action(r.flags(math.MaxUint8)), shard.Overage(r.flags(math.MaxUint8))
	for range r.countTo(maxEntries) {
		s.Actual = append(s.Actual, r.uvarint())
	}
	s.TTL = limit.Span(r.varint())
	return s
}

func appendAdjustment(b []byte, a *shard.Adjustment) []byte {
	b = append(b, flag(a.Override != nil, 1)|flag(a.Forget != "", 2))
	b = binary.AppendVarint(b, a.Amount)
	b = binary.AppendVarint(b, int64(a.Until))
	b = appendText(appendText(b, a.Actor), a.Note)
	if a.Forget != "" {
		b = appendText(b, a.Forget)
	}
	if a.Override == nil {
		return b
	}
	b = appendText(b, a.Override.Tier)
	b = binary.AppendVarint(b, int64(a.Override.Expires))
	b = binary.AppendUvarint(b, uint64(len(a.Override.Limits)))
	for _, name := range slices.Sorted(maps.Keys(a.Override.Limits)) {
		b = appendNumbers(appendText(b, name), a.Override.Limits[name])
	}
	return b
}

func (r *frameReader) adjustment() (a shard.Adjustment) {
	flags := r.flags(1 | 2)
	a.Amount, a.Until = r.varint(), limit.Time(r.varint())
	a.Actor, a.Note = r.string(), r.string()
	if flags&2 != 0 {
		a.Forget = r.string()
	}
	if flags&1 == 0 {
		return a
	}
	a.Override = &policy.Override{Tier: r.string(), Expires: limit.Time(r.varint())}
	n := r.countTo(maxLimits)
	if n > 0 {
		a.Override.Limits = make(map[string]policy.TierLimit, n)
	}
	for range n {
		name := r.string()
		a.Override.Limits[name] = r.numbers()
	}
	return a
}

// appendNumbers writes the numbers that a tier or an override changes in one limit, and bits for which of them are
// present.
func appendNumbers(b []byte, l policy.TierLimit) []byte {
	b = append(b, flag(l.Quota != nil, 1)|flag(l.Refill != nil, 2)|flag(l.Rate != nil, 4))
	for _, number := range []*uint64{l.Quota, l.Refill, l.Rate} {
		if number != nil {
			b = binary.AppendUvarint(b, *number)
		}
	}
	return b
}

func (r *frameReader) numbers() (l policy.TierLimit) {
	flags := r.flags(1 | 2 | 4)
	for i, number := range []**uint64{&l.Quota, &l.Refill, &l.Rate} {
		if flags&(1<<i) != 0 {
			v := r.uvarint()
			*number = &v
		}
	}
	return l
}

func appendForgot(b []byte, f shard.Forgot) []byte {
	for _, n := range []uint32{f.Counters, f.Holds, f.Operations, f.Audit, f.Open} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return append(b, flag(f.More, 1))
}

func (r *frameReader) forgot() (f shard.Forgot) {
	for _, n := range []*uint32{&f.Counters, &f.Holds, &f.Operations, &f.Audit, &f.Open} {
		*n = uint32(r.upTo(math.MaxUint32))
	}
	f.More = r.flags(1) != 0
	return f
}

func appendFired(b []byte, fired []shard.FiredThreshold) []byte {
	b = binary.AppendUvarint(b, uint64(len(fired)))
	for i := range fired {
		f := &fired[i]
		b = appendText(appendText(appendText(b, f.Policy), f.Limit), f.Key)
		for _, n := range []uint64{f.Units, uint64(f.Percent), uint64(f.Starts), uint64(f.Ends)} {
			b = binary.AppendUvarint(b, n)
		}
	}
	return b
}

func (r *frameReader) fired() (fired []shard.FiredThreshold) {
	for range r.count() {
		f := shard.FiredThreshold{Policy: r.string(), Limit: r.string(), Key: r.string(), Units: r.uvarint(),
			Percent: uint32(r.upTo(math.MaxUint32)), Starts: limit.Time(r.uvarint()), Ends: limit.Time(r.uvarint())}
		if r.failed {
			return nil
		}
		fired = append(fired, f)
	}
	return fired
}

func appendAudit(b []byte, records []shard.AuditRecord) []byte {
	b = binary.AppendUvarint(b, uint64(len(records)))
	for i := range records {
		a := &records[i]
		b = appendPosition(binary.AppendVarint(b, int64(a.At)), a.Position)
		for _, text := range []string{a.Actor, a.Namespace, a.Policy, a.Key, a.Limit, a.Deed, a.Before, a.After, a.Note} {
			b = appendText(b, text)
		}
	}
	return b
}

func (r *frameReader) audit() (records []shard.AuditRecord) {
	for range r.count() {
		a := shard.AuditRecord{At: limit.Time(r.varint()), Position: r.position()}
		for _, text := range []*string{&a.Actor, &a.Namespace, &a.Policy, &a.Key, &a.Limit, &a.Deed, &a.Before, &a.After,
			&a.Note} {
			*text = r.string()
		}
		if r.failed {
			return nil
		}
		records = append(records, a)
	}
	return records
}
