package shard

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/codec"
)

// The first byte of a counter record is its format, with a bit for each part besides the states of limits. Most
// counters have none.
const (
	counterFormat = 1 << 5

	counterSinces   = 1 << 0 // after the state of each limit, its since
	counterRestored = 1 << 1 // likewise bits of each limit, and after the number of limits bits of the counter
	counterExtra    = 1 << 2 // the extras follow the limits
	counterMeters   = 1 << 3 // then the meters
	counterMarks    = 1 << 4 // then the marks of fired thresholds, to the end

	counterParts = counterSinces | counterRestored | counterExtra | counterMeters | counterMarks
)

// counted is the state of one limit on one key, with the numbers that shaped it. When the policy or the key's tier
// changes, the state is converted. It is never read under other numbers (X7).
type counted struct {
	name  string
	limit limit.Limit
	state limit.State
	// since is the generation of X6: the state does not count units taken at this instant or before, so they are not
	// given back. It is set when a state begins, from rest or in another shape, is put to rest, or is set by hand. 0
	// means too long ago to matter.
	since limit.Time
	// cleared means that the limit was put to rest or set by hand since the shard was restored. So a missing state does
	// not mean that it is full.
	cleared bool
}

// countedLimits are the states of a counter's limits.
type countedLimits []counted

// counter is the memory of one policy for one key, while an evaluation works on it.
type counter struct {
	key    string         // of the record
	known  bool           // a record existed before the evaluation
	listed bool           // among the effects
	copy   bool           // a copy of the one in the batch: nothing of it is written, and it has no meters
	size   int            // of the effect in bytes, roughly
	limits countedLimits  // in the order in which they began to count, usually the policy's
	extras *counterExtras // nil if there are none
	meters meters
	marks  marks
	// crossed are the thresholds that the current request has crossed: touch completes and writes these events.
	crossed []Event
	policy  *policy.Policy // its policy, or inlinePolicy
	mark    *restoreMark   // of the shard; nil if it was never restored
	// ladderKnown means that, after a restore, the record determines the ladder, even if it has none.
	ladderKnown bool
}

// recordRoom is enough for most records, in bytes.
const recordRoom = 96

// appendTo writes the record into the free memory of b and returns b extended by it: format and parts, count, then
// name, limit and state of each limit that is not at rest at now, then the other parts. So a limit that was removed
// from its policy leaves no trace on a key that lives on.
func (c *counter) appendTo(b []byte, now limit.Time) (Put, []byte) {
	c.tidy(now)
	has, forgetAt, start := c.parts(), limit.Time(0), len(b)
	b = binary.AppendUvarint(append(b, counterFormat|has), uint64(len(c.limits)))
	if has&counterRestored != 0 {
		b = append(b, bit(c.ladderKnown))
		forgetAt = c.knownUntil()
	}
	for i := range c.limits {
		l := &c.limits[i]
		b = appendString(b, l.name)
		b = limit.AppendLimit(b, l.limit)
		b = limit.AppendState(b, l.state)
		if has&counterSinces != 0 {
			b = binary.AppendUvarint(b, uint64(l.since))
		}
		if has&counterRestored != 0 {
			b = append(b, bit(l.cleared))
		}
		forgetAt = max(forgetAt, limit.ForgetAt(l.limit, l.state), l.sinceNeeded(now))
	}
	if c.extras != nil {
		x := codec.Writer(b)
		c.extras.code(&x)
		b = x.Written()
		forgetAt = max(c.forgetAt(now), c.knownUntil())
	}
	if len(c.meters) > 0 {
		m := codec.Writer(b)
		c.meters.code(&m, nil)
		b = m.Written()
		forgetAt = max(forgetAt, c.meters.until(c)) //mutant:bill-dropped-with-limits
	}
	if len(c.marks) > 0 {
		b = append(b, c.marks...)
		forgetAt = max(forgetAt, c.marks.until()) //mutant:counter-forgotten-with-marks
	}
	return Put{Key: c.key, Record: Record{Value: b[start:len(b):len(b)], ForgetAt: forgetAt}}, b
}

// parts returns the parts that the record has.
func (c *counter) parts() byte {
	sinces, restored := false, c.ladderKnown
	for i := range c.limits {
		sinces = sinces || c.limits[i].since != 0
		restored = restored || c.limits[i].cleared
	}
	return bit(sinces)*counterSinces | bit(restored)*counterRestored | bit(c.extras != nil)*counterExtra |
		bit(len(c.meters) > 0)*counterMeters | bit(len(c.marks) > 0)*counterMarks
}

// isCounter reports whether a record is a counter that has not ended and has a part.
func isCounter(key []byte, r Record, part byte, now limit.Time) bool {
	return len(key) > 0 && key[0] == counterRecord && r.ForgetAt > now && len(r.Value) > 0 && r.Value[0]&part != 0
}

// empty reports whether the counter needs no record.
func (c *counter) empty() bool {
	return len(c.limits) == 0 && c.extras == nil && !c.ladderKnown && len(c.meters) == 0 && len(c.marks) == 0
}

// unseen reports whether the counter has no record and will have none unless this request leaves one.
func (c *counter) unseen() bool { return !c.known && (c.empty() || !c.listed) }

// decode reads a record into an empty counter with a policy. It does not copy names that the policy has. After an error
// the counter has some of it.
func (c *counter) decode(value []byte, names []policy.Limit) error {
	r := codec.Over(value)
	var has byte
	codec.Byte(&r, &has)
	count := r.CountTo(0, r.Left()/8) // a limit has more than 8 bytes
	if r.Failed() || has&^counterParts != counterFormat {
		return fmt.Errorf("shard: counter record of format %#x with %d limits", has, count)
	}
	if has&counterRestored != 0 {
		r.Flags(&c.ladderKnown)
	}
	if cap(c.limits) >= count {
		c.limits = c.limits[:count]
	} else {
		c.limits = make([]counted, count, max(count, len(names)))
	}
	for i := range c.limits {
		l, name := &c.limits[i], ""
		r.Text(&name)
		like := l.nameFrom(name, i, names)
		rest, err := r.Rest(), error(nil)
		if l.limit, rest, err = limit.DecodeLimit(rest, *like); err != nil {
			return err
		}
		if l.state, rest, err = limit.DecodeState(rest); err != nil {
			return err
		}
		if r.SkipTo(len(rest)); has&counterSinces != 0 {
			codeTime(&r, &l.since)
		}
		if has&counterRestored != 0 {
			r.Flags(&l.cleared)
		}
	}
	if has&counterExtra != 0 {
		c.extras = &counterExtras{}
		c.extras.code(&r)
	}
	if has&counterMeters != 0 {
		c.meters.code(&r, c.policy.Meter) // which keep no part of it
	}
	if has&counterMarks != 0 {
		c.marks = r.Rest()
		codeMarks(&r)
	}
	if !r.Whole() || has&^counterFormat != c.parts() { // a part that is written empty is malformed too
		return fmt.Errorf("shard: counter record is malformed: %d bytes are left", r.Left())
	}
	return nil
}

// nameFrom sets the name and returns the policy's limit of that name. The recorded limit most likely shares its cycle.
func (l *counted) nameFrom(name string, i int, names []policy.Limit) (like *limit.Limit) {
	if i >= len(names) || names[i].Name != name {
		i = slices.IndexFunc(names, func(n policy.Limit) bool { return n.Name == name })
	}
	if i < 0 {
		l.name = strings.Clone(name)
		return &limit.Limit{}
	}
	l.name = names[i].Name
	return &names[i].Limit
}

// at returns the state of the i-th limit of a policy, converted to its current numbers. If there is none, the limit is
// at rest or, on a restored shard, full.
func (c *counter) at(i int, l *policy.Limit, now limit.Time) limit.State {
	j := c.limits.find(i, l.Name)
	if j < 0 {
		return c.mark.unknown(c, l, now)
	}
	k := &c.limits[j]
	if k.limit.Equal(&l.Limit) {
		return k.state
	}
	var s limit.State
	if !k.atRest(now) {
		s = c.changed(j, l.Limit, now) //mutant:new-numbers-reinterpret-use
	}
	return c.mark.atop(c, k, l, s, now)
}

// changing reports whether the i-th limit of a policy was counted under other numbers than the current ones, or is to
// count a lease under them.
func (c *counter) changing(i int, l *policy.Limit, now limit.Time) bool {
	j := c.limits.find(i, l.Name)
	return j >= 0 && !c.limits[j].limit.Equal(&l.Limit) && !c.limits[j].rests(c, now)
}

// rests reports whether the limit is at rest, and its counter has no lease that it is to count.
func (l *counted) rests(c *counter, now limit.Time) bool {
	return l.atRest(now) && c.extras.leased() == 0 //mutant:lease-counts-under-former-numbers
}

// set makes s the state of the i-th limit of a policy, after a call of at for that limit. A state that begins here does
// not count units taken earlier.
func (c *counter) set(i int, l *policy.Limit, s limit.State, now limit.Time) {
	j := c.limits.find(i, l.Name)
	if j < 0 {
		c.limits = append(c.limits, counted{name: l.Name, limit: l.Limit, state: s})
		c.extras.forgetSums()
		if !limit.IsTally(l.Limit, s) { // nothing is given back to a tally
			c.restart(&c.limits[len(c.limits)-1], before(now))
		}
		return
	}
	k := &c.limits[j]
	switch changes := !k.limit.Equal(&l.Limit); {
	case changes && !k.atRest(now) && c.beginsAnew(k, l.Limit):
		c.restart(k, c.beginning(now))
	// A state at rest is like none, and is left out of a written record.
	case (changes || c.extras != nil) && k.atRest(now),
		changes && limit.ForgetAt(l.Limit, c.at(i, l, now)) <= now, // nothing of it counts under the new numbers
		limit.IsTally(k.limit, k.state) && !limit.IsTally(l.Limit, s):
		c.restart(k, max(k.since, before(now)))
	}
	k.limit, k.state = l.Limit, s
}

// before returns the last instant before now.
func before(now limit.Time) limit.Time { return max(0, now-1) }

// beginning returns the since of a state that replaces another. Units that this batch has already counted were counted
// on the other state. If the batch has counted nothing yet, units that it counts next can be given back.
func (c *counter) beginning(now limit.Time) limit.Time {
	if c.listed {
		return now
	}
	return before(now)
}

// atRest reports whether the limit answers as if it had no state.
func (l *counted) atRest(now limit.Time) bool { return limit.ForgetAt(l.limit, l.state) <= now }

// find returns the index of the limit called name, which is i unless the policy was changed, or -1.
func (s countedLimits) find(i int, name string) int {
	if i < len(s) && s[i].name == name {
		return i
	}
	for j := range s {
		if s[j].name == name {
			return j
		}
	}
	return -1
}

// has reports whether the counter has a limit with these numbers.
func (c *counter) has(name string, numbers *limit.Limit) bool {
	i := c.limits.find(0, name)
	return i >= 0 && c.limits[i].limit.Equal(numbers)
}

// reset puts the limit called name to rest at now. If name is "", it puts all limits to rest and clears the ladder.
// Holds stay open, but their units are no longer given back. A block by hand stays.
func (c *counter) reset(name string, now limit.Time) {
	for i := range c.limits {
		if l := &c.limits[i]; (name == "" || l.name == name) && !l.atRest(now) {
			l.state = limit.State{}
			c.restart(l, now)
		}
	}
	if name == "" { //mutant:reset-ends-a-bill
		c.extras.clearLadder() //mutant:reset-lifts-manual-block
	}
}

// restart begins a new generation of a limit at an instant: units taken at or before it are not given back. Of the
// holds of that instant, only those added after this call are fresh.
func (c *counter) restart(l *counted, at limit.Time) {
	l.since = at
	c.extras.forgetSums()
	own := false // copied and future share the holds
	for i := range c.extras.openHolds() {
		if l.counts(&c.extras.holds[i]) {
			if !own {
				c.extras.holds, own = slices.Clone(c.extras.holds), true
			}
			h := &c.extras.holds[i]
			h.uncounted = append(slices.Clip(h.uncounted), l.name)
		}
	}
}

// copied returns a counter for a request that only reads. It bills nothing.
func (c *counter) copied() *counter {
	copied := *c
	copied.copy = true
	copied.limits, copied.meters = slices.Clone(c.limits), nil
	if c.extras != nil {
		x := *c.extras
		x.forgetSums()
		copied.extras = &x
	}
	return &copied
}
