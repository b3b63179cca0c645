package shard

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

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
