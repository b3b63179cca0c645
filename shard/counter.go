package shard

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// The formats of a counter record, its first byte. Most counters have states of limits and nothing more.
const (
	counterFormat       = 1
	counterFormatExtras = 2 // each limit has a since, and extras follow
)

// counted is one limit's state on one key, beside the numbers that shaped it: when a policy changes, or the key's tier,
// the state is converted, never read under other numbers (SEMANTICS X7).
type counted struct {
	name  string
	limit limit.Limit
	state limit.State
	// since is the instant at which the limit was put to rest, set, or begun anew under other numbers: what was taken at
	// it or before is not given back (the generation of SEMANTICS X6). 0: never, or so long ago that nobody asks.
	since limit.Time
}

// counter is what one policy remembers of one key, while an evaluation works on it.
type counter struct {
	key    string // of the record
	known  bool   // a record was there before the evaluation
	listed bool   // among the effects
	size   int    // of the effect in bytes, roughly
	limits []counted
	extras *extras        // nil: none
	policy *policy.Policy // whose it is, or inlinePolicy; nil only in tests
}

// recordRoom is what most records fit into.
const recordRoom = 96

// appendTo writes the record into the memory behind b, of which it returns the rest: format, count, then name, limit and
// state of each limit that is not at rest at now. So a limit that was taken out of its policy leaves nothing behind on a key
// that lives on. A counter that has more than limits writes since behind each state, and its extras at the end.
func (c *counter) appendTo(b []byte, now limit.Time) (Put, []byte) {
	c.tidy(now)
	more := c.extras != nil || slices.ContainsFunc(c.limits, func(l counted) bool { return l.since != 0 })
	forgetAt := limit.Time(0)
	start := len(b)
	b = binary.AppendUvarint(append(b, counterFormat+bit(more)), uint64(len(c.limits)))
	for i := range c.limits {
		l := &c.limits[i]
		b = appendString(b, l.name)
		b = limit.AppendLimit(b, l.limit)
		b = limit.AppendState(b, l.state)
		if more {
			b = binary.AppendUvarint(b, uint64(l.since))
		}
		forgetAt = max(forgetAt, limit.ForgetAt(l.limit, l.state))
	}
	if more {
		b = c.extras.append(b)
		forgetAt = c.forgetAt()
	}
	return Put{Key: c.key, Record: Record{Value: b[start:len(b):len(b)], ForgetAt: forgetAt}}, b
}

// empty reports whether there is nothing to keep a record for.
func (c *counter) empty() bool { return len(c.limits) == 0 && c.extras == nil }

// decode reads a record. Names that the policy knows are not copied.
func (c *counter) decode(value []byte, names []policy.Limit) error {
	r := reader{rest: value}
	format, count := r.byte(), r.uvarint()
	if r.failed || format < counterFormat || format > counterFormatExtras || count > uint64(len(r.rest)/8) {
		return fmt.Errorf("shard: counter record of format %d with %d limits", format, count) // a limit has more bytes than 8
	}
	if uint64(cap(c.limits)) >= count {
		c.limits = c.limits[:count]
	} else {
		c.limits = make([]counted, count, max(int(count), len(names)))
	}
	for i := range c.limits {
		l := &c.limits[i]
		like := l.nameFrom(r.bytes(r.uvarint()), i, names)
		if r.failed {
			return fmt.Errorf("shard: counter record ends in limit %d", i)
		}
		var err error
		if l.limit, r.rest, err = limit.DecodeLimit(r.rest, *like); err != nil {
			return err
		}
		if l.state, r.rest, err = limit.DecodeState(r.rest); err != nil {
			return err
		}
		if format == counterFormatExtras {
			l.since = r.time()
		}
	}
	if format == counterFormatExtras {
		c.extras = r.extras()
	}
	if r.failed || len(r.rest) != 0 {
		return fmt.Errorf("shard: counter record is malformed: %d bytes are left", len(r.rest))
	}
	return nil
}

// nameFrom sets the name, and returns what the policy has under it: most likely the record's shares its cycle.
func (l *counted) nameFrom(name []byte, i int, names []policy.Limit) (like *limit.Limit) {
	if i >= len(names) || names[i].Name != string(name) {
		i = slices.IndexFunc(names, func(n policy.Limit) bool { return n.Name == string(name) })
	}
	if i < 0 {
		l.name = string(name)
		return &limit.Limit{}
	}
	l.name = names[i].Name
	return &names[i].Limit
}

// at returns the state of the i-th limit of a policy, at rest if there is none, converted to its numbers of now.
func (c *counter) at(i int, l *policy.Limit, now limit.Time) limit.State {
	j := c.find(i, l.Name)
	if j < 0 {
		return limit.State{}
	}
	if c.limits[j].limit.Equal(&l.Limit) {
		return c.limits[j].state
	}
	if c.limits[j].atRest(now) {
		return limit.State{}
	}
	return c.changed(j, l.Limit, now)
}

// changing reports whether the i-th limit of a policy was counted under other numbers than those of now.
func (c *counter) changing(i int, l *policy.Limit, now limit.Time) bool {
	j := c.find(i, l.Name)
	return j >= 0 && !c.limits[j].limit.Equal(&l.Limit) && !c.limits[j].atRest(now)
}

// set makes s the state of the i-th limit of a policy, which at was asked for before.
func (c *counter) set(i int, l *policy.Limit, s limit.State, now limit.Time) {
	j := c.find(i, l.Name)
	switch {
	case j < 0:
		c.limits = append(c.limits, counted{name: l.Name, limit: l.Limit})
		j = len(c.limits) - 1
		c.restart(&c.limits[j], c.newestTaken())
	case (c.extras != nil || !c.limits[j].limit.Equal(&l.Limit)) && c.limits[j].atRest(now):
		// As if it were not there: it would not be if the record had been written since.
		c.limits[j].limit = l.Limit
		c.restart(&c.limits[j], max(c.limits[j].since, c.newestTaken()))
	case !c.limits[j].limit.Equal(&l.Limit):
		if c.beginsAnew(c.limits[j].limit, l.Limit) {
			c.restart(&c.limits[j], now)
		} else if limit.ForgetAt(l.Limit, c.at(i, l, now)) <= now { // nothing of it counts under the new numbers
			c.restart(&c.limits[j], max(c.limits[j].since, c.newestTaken()))
		}
		c.limits[j].limit = l.Limit
	}
	c.limits[j].state = s
}

// atRest reports whether the limit answers as one that is not there.
func (l *counted) atRest(now limit.Time) bool { return limit.ForgetAt(l.limit, l.state) <= now }

// find returns the place of the limit called name, which is i unless the policy was changed; -1 when it is not there.
func (c *counter) find(i int, name string) int {
	if i < len(c.limits) && c.limits[i].name == name {
		return i
	}
	for j := range c.limits {
		if c.limits[j].name == name {
			return j
		}
	}
	return -1
}

// reset puts the limit called name back to rest at now, or all limits when name is "", and the ladder then too. Holds
// stay open, and what they took is not given back any more; a block by hand stays.
func (c *counter) reset(name string, now limit.Time) {
	for i := range c.limits {
		if l := &c.limits[i]; (name == "" || l.name == name) && !l.atRest(now) {
			l.state = limit.State{}
			c.restart(l, now)
		}
	}
	if name == "" {
		c.clearLadder()
	}
}
