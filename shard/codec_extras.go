package shard

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// The bits for the extras that a record has.
const (
	extraLadder = 1 << iota
	extraOverride
	extraBlock
)

// The flags of a hold: its OnExpire in the two lowest bits, then these.
const (
	holdRemote = 4 << iota
	holdFresh
	holdUncounted // the names follow
	holdSpans
	holdLease
)

// The bits for the numbers of a limit that an override changes.
const (
	overrideQuota = 1 << iota
	overrideRefill
	overrideRate
)

// append writes the extras: number of holds, each hold, a byte of bits for the parts that follow, ladder, override,
// block.
func (x *counterExtras) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(x.holds)))
	for i := range x.holds {
		b = x.holds[i].append(b)
	}
	b = append(b, bit(x.ladder != ladder{})*extraLadder|bit(x.override != nil)*extraOverride|bit(x.block != 0)*extraBlock)
	if l := &x.ladder; *l != (ladder{}) {
		b = binary.AppendUvarint(b, uint64(l.failures))
		b = binary.AppendUvarint(b, uint64(l.level))
		b = binary.AppendUvarint(b, uint64(l.blockedUntil))
		b = binary.AppendUvarint(b, uint64(l.lastViolation))
	}
	if x.override != nil {
		b = appendOverride(b, x.override)
	}
	if x.block != 0 {
		b = binary.AppendUvarint(b, uint64(x.block))
	}
	return b
}

// append writes a hold: name, expires, taken, cost, flags, and the number and names of the limits that did not count
// it.
func (h *hold) append(b []byte) []byte {
	b = appendString(b, h.name)
	b = binary.AppendUvarint(b, uint64(h.expires))
	b = binary.AppendUvarint(b, uint64(h.taken))
	b = binary.AppendUvarint(b, h.cost)
	b = append(b, byte(h.onExpire)|bit(h.remote)*holdRemote|bit(h.fresh)*holdFresh|
		bit(len(h.uncounted) > 0)*holdUncounted|bit(h.spans)*holdSpans|bit(h.lease)*holdLease)
	if len(h.uncounted) == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(h.uncounted)))
	for _, name := range h.uncounted {
		b = appendString(b, name)
	}
	return b
}

// appendOverride writes an override: tier, expires, number of limits, then for each limit, in the order of names, which
// numbers it has and those numbers.
func appendOverride(b []byte, o *policy.Override) []byte {
	b = appendString(b, o.Tier)
	b = binary.AppendUvarint(b, uint64(o.Expires))
	b = binary.AppendUvarint(b, uint64(len(o.Limits)))
	for _, name := range slices.Sorted(maps.Keys(o.Limits)) {
		t := o.Limits[name]
		b = appendString(b, name)
		b = append(b, bit(t.Quota != nil)*overrideQuota|bit(t.Refill != nil)*overrideRefill|bit(t.Rate != nil)*overrideRate)
		for _, n := range [...]*uint64{t.Quota, t.Refill, t.Rate} {
			if n != nil {
				b = binary.AppendUvarint(b, *n)
			}
		}
	}
	return b
}

// extras reads extras written by append. It returns nil if they are empty or malformed.
func (r *reader) extras() *counterExtras {
	var x counterExtras
	count := r.uvarint()
	if count > uint64(len(r.rest)/5) { // a hold has at least five bytes: check before allocating
		r.failed = true
		return nil
	}
	text := ""
	if count > 0 {
		x.holds = make([]hold, count)
		text = string(r.rest) // names are substrings of it, so that they are not copied one by one
	}
	for i := range x.holds {
		x.holds[i] = r.hold(text)
		x.leasedSum += x.holds[i].leasedUnits()
		r.failed = r.failed || i > 0 && x.holds[i-1].compare(&x.holds[i]) >= 0
	}
	has := r.byte()
	if has&extraLadder != 0 {
		x.ladder = ladder{r.uint32(), r.uint32(), r.time(), r.time()}
		r.failed = r.failed || x.ladder == ladder{}
	}
	if has&extraOverride != 0 {
		x.override = r.override()
	}
	if has&extraBlock != 0 {
		x.block = r.time()
		r.failed = r.failed || x.block == 0
	}
	if r.failed = r.failed || has > extraLadder|extraOverride|extraBlock; r.failed || count == 0 && has == 0 {
		return nil
	}
	return &x
}

// hold reads one hold. Its name is a substring of text, which has the same end as the reader's input.
func (r *reader) hold(text string) hold {
	size := len(r.bytes(r.uvarint()))
	end := len(text) - len(r.rest)
	h := hold{name: text[end-size : end], expires: r.time(), taken: r.time(), cost: r.uvarint()}
	flags := r.byte()
	h.onExpire = policy.OnExpire(flags & 3)
	h.remote, h.fresh, h.spans, h.lease = flags&holdRemote != 0, flags&holdFresh != 0, flags&holdSpans != 0, flags&holdLease != 0
	bad := h.onExpire == policy.OnExpireDefault || h.onExpire > policy.OnExpireCommit || flags > 127 || h.name == "" ||
		h.cost == 0 || h.cost > limit.MaxCost || h.taken > h.expires && !h.remote ||
		h.lease && (h.remote || h.onExpire != policy.OnExpireCommit)
	if flags&holdUncounted != 0 {
		h.uncounted = r.names()
	}
	r.failed = r.failed || bad
	return h
}

// names reads a list of at least one text.
func (r *reader) names() []string {
	count := r.uvarint()
	if count == 0 || count > uint64(len(r.rest)) {
		r.failed = true
		return nil
	}
	names := make([]string, count)
	for i := range names {
		names[i] = r.string()
	}
	return names
}

func (r *reader) override() *policy.Override {
	o := &policy.Override{Tier: r.string(), Expires: r.time()}
	count := r.uvarint()
	if count > uint64(len(r.rest)/2) {
		r.failed = true
		return nil
	}
	if count > 0 {
		o.Limits = make(map[string]policy.TierLimit, count)
	}
	last := ""
	for i := range count {
		name, has := r.string(), r.byte()
		var t policy.TierLimit
		t.Quota, t.Refill, t.Rate = r.optional(has&overrideQuota), r.optional(has&overrideRefill), r.optional(has&overrideRate)
		r.failed = r.failed || i > 0 && name <= last || has > overrideQuota|overrideRefill|overrideRate
		o.Limits[name], last = t, name
	}
	return o
}

// optional reads a number if it is present.
func (r *reader) optional(there byte) *uint64 {
	if there == 0 {
		return nil
	}
	n := r.uvarint()
	return &n
}

func (r *reader) uint32() uint32 {
	n := r.uvarint()
	r.failed = r.failed || n > 1<<32-1
	return uint32(n)
}

// time reads an instant of shard time.
func (r *reader) time() limit.Time {
	n := r.uvarint()
	r.failed = r.failed || n > uint64(limit.MaxTime)
	return limit.Time(n)
}
