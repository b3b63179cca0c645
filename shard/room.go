package shard

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/slot"
)

// Room is how much room there is for records where they are evaluated. The zero value is that of a shard with all slots
// and unbounded memory.
type Room struct {
	Used  Use // of the memory for records
	Slots int // that the shard has: its part of each policy's MaxKeys. 0: all
}

// Use is how much of the memory for records is used.
type Use uint8

// The uses, each of which refuses what those before it refuse (see full, and share.go).
const (
	Roomy   Use = iota
	Crowded     // three quarters: the rest is kept for policies and namespaces with less than half
	// seven eighths: what would add a record is refused. The rest is for records to grow and for the ends of holds
	Full
	Brimful // all: no record may grow
)

// UseOf returns the use of memory for so many bytes of records, which must be at least one.
func UseOf(used, most int) Use {
	switch {
	case used >= most:
		return Brimful
	case used >= most-most/8:
		return Full
	case used >= most-most/4:
		return Crowded
	}
	return Roomy
}

// keys returns the part that the shard has of the MaxKeys of a policy: that of its slots among all, rounded up, so that
// a small number leaves no shard without a key. So the parts of all shards come to the number, and less than one more
// for each.
func (r Room) keys(most uint64) uint64 {
	if r.Slots == 0 {
		return most
	}
	slots := uint64(r.Slots)
	return most/slot.Count*slots + (most%slot.Count*slots+slot.Count-1)/slot.Count //mutant:share-of-a-cap-rounds-down
}

func (r Room) crowded() bool { return r.Used >= Crowded }
func (r Room) full() bool    { return r.Used >= Full }
func (r Room) brimful() bool { return r.Used >= Brimful }

// A shard forgets nothing early, so when its memory is used up it must not take more. It is Full an eighth before the
// cap. From then on it refuses, before anything is counted, requests that would add a record: a new key, a new id, a
// hold, an operation on several shards, or the refund of a decision, which leaves a mark. It still accepts checks on
// existing keys, and requests that give units back: holds are settled, canceled, extended and expire, and operations
// end. The eighth is reserved for these: counters that grow a little, the records of how holds ended, answers that wait
// for their callers.
//
// When the eighth is used up too, the shard is Brimful, and nothing grows. A check that would add to its counter's
// record is refused. A settled hold leaves no record of its end, so a retry of the settlement is answered that the hold
// has ended.

func (b *batch) full() *Error {
	// clients know these errors by "until old ones end"
	return errorf(MemoryFull, "", "shard %d holds as many records as it may: "+
		"what would leave one more is refused until old ones end", b.at.Shard)
}

// growth refuses a request if its answer would make a record grow: a counter that would have more limits or another
// period of its meter, a limit that would remember more instants, or the record of the answer itself. It ignores the
// few bytes by which the encoding of larger numbers grows.
func (e *evaluation) growth(r *Request, d *Decision) *Error {
	if !d.Allowed && !e.charges.anyCountsDenied() {
		return nil
	}
	if d.Allowed && r.Op.answersOnce() && r.Number != 0 {
		return e.full()
	}
	for i := range e.charges {
		ch := &e.charges[i]
		//mutant:brimful-shard-begins-periods
		if d.Allowed && !ch.looks && ch.counter.meters.grow(ch.policy.Meter, e.at.Now) {
			return e.full()
		}
		for j := range ch.limits {
			l, next := &ch.limits[j], e.next[ch.first+j]
			if !d.Allowed {
				if !ch.policy.CountDenied || ch.looks {
					continue
				}
				next, _ = ask(Count, l, ch.counter.at(j, l, e.at.Now), r.Entries[i].Cost, e.at.Now)
			}
			if !ch.looks && ch.counter.limits.grow(j, l, next) {
				return e.full()
			}
		}
	}
	return nil
}

// grow reports whether next, as the state of the i-th limit of a policy, would enlarge the record.
func (s countedLimits) grow(i int, l *policy.Limit, next limit.State) bool {
	j := s.find(i, l.Name)
	return j < 0 || len(next.Points) > len(s[j].state.Points)
}
