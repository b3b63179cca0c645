package shard

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// counterFormat is the first byte of a counter record.
const counterFormat = 1

// counted is one limit's state on one key, beside the numbers that shaped it: when a policy changes, or the key's tier,
// the state is converted, never read under other numbers (SEMANTICS X7).
type counted struct {
	name  string
	limit limit.Limit
	state limit.State
}

// counter is what one policy remembers of one key, while an evaluation works on it.
type counter struct {
	key    string // of the record
	known  bool   // a record was there before the evaluation
	listed bool   // among the effects
	size   int    // of the effect in bytes, roughly
	limits []counted
}

// encode writes the record: format, count, then name, limit and state of each limit that is not at rest at now. So a
// limit that was taken out of its policy leaves nothing behind on a key that lives on.
func (c *counter) encode(now limit.Time) Put {
	c.limits = slices.DeleteFunc(c.limits, func(l counted) bool { return limit.ForgetAt(l.limit, l.state) <= now })
	forgetAt := limit.Time(0)
	b := make([]byte, 0, 64*len(c.limits)+2)
	b = binary.AppendUvarint(append(b, counterFormat), uint64(len(c.limits)))
	for i := range c.limits {
		l := &c.limits[i]
		b = appendString(b, l.name)
		b = limit.AppendLimit(b, l.limit)
		b = limit.AppendState(b, l.state)
		forgetAt = max(forgetAt, limit.ForgetAt(l.limit, l.state))
	}
	return Put{Key: c.key, Record: Record{Value: b, ForgetAt: forgetAt}}
}

// decode reads a record. Names that the policy knows are not copied.
func (c *counter) decode(value []byte, names []policy.Limit) error {
	r := reader{rest: value}
	format, count := r.byte(), r.uvarint()
	if r.failed || format != counterFormat || count > uint64(len(r.rest)/8) { // a limit has more bytes than that
		return fmt.Errorf("shard: counter record of format %d with %d limits", format, count)
	}
	c.limits = make([]counted, count, max(int(count), len(names)))
	for i := range c.limits {
		l := &c.limits[i]
		l.name = intern(r.bytes(r.uvarint()), i, names)
		if r.failed {
			return fmt.Errorf("shard: counter record ends in limit %d", i)
		}
		var like limit.Limit
		if i < len(names) {
			like = names[i].Limit
		}
		var err error
		if l.limit, r.rest, err = limit.DecodeLimit(r.rest, like); err != nil {
			return err
		}
		if l.state, r.rest, err = limit.DecodeState(r.rest); err != nil {
			return err
		}
	}
	if len(r.rest) != 0 {
		return fmt.Errorf("shard: counter record has %d bytes too many", len(r.rest))
	}
	return nil
}

func intern(name []byte, i int, names []policy.Limit) string {
	if i < len(names) && names[i].Name == string(name) {
		return names[i].Name
	}
	return string(name)
}

// at returns the state of the i-th limit of a policy, at rest if there is none, converted to its numbers of now.
func (c *counter) at(i int, l *policy.Limit, now limit.Time) limit.State {
	j := c.find(i, l.Name)
	if j < 0 {
		return limit.State{}
	}
	if c.limits[j].limit == l.Limit {
		return c.limits[j].state
	}
	return limit.Convert(c.limits[j].limit, c.limits[j].state, l.Limit, now)
}

func (c *counter) set(i int, l *policy.Limit, s limit.State) {
	j := c.find(i, l.Name)
	if j < 0 {
		c.limits = append(c.limits, counted{name: l.Name})
		j = len(c.limits) - 1
	}
	c.limits[j].limit, c.limits[j].state = l.Limit, s
}

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

// reset puts the limit called name back to rest, or all limits when name is "".
func (c *counter) reset(name string) {
	if name == "" {
		c.limits = c.limits[:0]
		return
	}
	if j := c.find(0, name); j >= 0 {
		c.limits = append(c.limits[:j], c.limits[j+1:]...)
	}
}
