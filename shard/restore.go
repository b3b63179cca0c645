package shard

import (
	"fmt"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/slot"
)

// Restoration says how the data shards of a cluster continue from a backup.
type Restoration struct {
	// Slots are the shards of the new cluster, which may be more or fewer than those of the backup.
	Slots *slot.Map
	// At is the instant at which shard time continues. No decision that may be lost was made at or after it (G5).
	At limit.Time
	// Now is when the restore is made, by the clock of the machine that makes it.
	Now limit.Time
	// Before is the first epoch that a shard can have from now on. It is greater than every epoch that any shard may
	// have had.
	Before   uint64
	Policies *policy.Set // the newest in the backup; never nil
	Keep     []Kept
	// Exact says that the backup has everything that was ever answered: nothing is filled, and At and Keep have no
	// meaning.
	Exact bool
	// Lost says that the backup is known to lack what a shard had: a slot that is in no shard of it begins empty. Without
	// it such a backup is refused, as another one has the slot.
	Lost bool
	// Actor restores. If it is set, the audit log of the shard of slot 0 says so, in the default namespace.
	Actor string
	Note  string
	From  string // what is restored, for the audit log; "": the backup
}

// Restored counts what became of the records of all shards.
type Restored struct {
	Keys       int // counters that had not ended in the backup
	Full       int // of these, counters with a limit whose usage is no longer known and counts as full
	Holds      int // open holds, which may be settled and give nothing back
	Answers    int // remembered answers to ids
	Operations int // operations on several shards that are not finished
	Sessions   int // sessions, which are gone
	Unreadable int // records that this version cannot read. They stay as they are
}

// Continue returns the data shards of a cluster that is restored from the data shards of a backup. The records of a
// slot go to the shard of the slot; what belongs to no slot is dealt as restore_slotless.go says. What was decided
// between the backup and r.At is lost, and nothing of it may be admitted again (G14):
//
//   - windows, logs and buckets count as full (limit.Full), also those of keys that the backup does not have;
//   - quotas that never reset continue with the backup's value, for which G3 is not promised;
//   - units that were taken before r.At are not given back;
//   - a key with a ladder unknown to the backup is blocked for as long as the longest block;
//   - sessions are gone, since the nodes that had them are;
//   - overrides, blocks by hand, answers to ids, open holds and operations stay.
//
// A limit that keeps (policy.RecoverKeep, r.Keep) continues with the state in the backup.
//
// From an exact backup (r.Exact) nothing is lost but the sessions: all else continues as it was, at the newest instant
// of all shards. What an earlier restore did not know stays unknown. The backup's states are not changed.
//
// A hold that one shard took on keys of several slots is settled by one shard. Continue refuses to part its keys.
func Continue(backup []*State, r Restoration) ([]*State, Restored, error) {
	c, err := newContinuation(backup, r)
	if err != nil {
		return nil, Restored{}, err
	}
	for _, c.source = range backup {
		for key, record := range c.source.table.All() {
			c.record(string(key), record)
		}
	}
	if err := c.spanning.problem(); err != nil {
		return nil, Restored{}, err
	}
	return c.states, c.counts, c.dealSlotless(backup)
}

// ContinueSystem returns the system shard of a restored cluster. Its documents are those of the backup, but for some
// that are replaced: each of these gets a version after that in the backup and after revision, the newest of the
// policies that any shard has adopted.
func ContinueSystem(backup *State, at limit.Time, documents map[string][]byte, revision uint64) (*State, error) {
	if at <= backup.time {
		return nil, backup.notAt(at)
	}
	s := backup.successor(System, at)
	for key, r := range backup.table.All() {
		if gone := key[0] == sessionRecord || key[0] == sessionAnswerRecord; !gone && r.ForgetAt > at {
			s.put(Put{Key: string(key), Record: r})
		}
	}
	for name, body := range documents {
		before, err := ReadDocument(backup, name)
		if err != nil {
			return nil, err
		}
		//mutant:shards-miss-recovered-policies
		value := encodeDocument(max(before.Version, revision)+1, body)
		s.put(Put{Key: documentKey(name), Record: Record{Value: value, ForgetAt: limit.Forever}})
	}
	return s, nil
}

func (s *State) notAt(at limit.Time) error {
	return fmt.Errorf("shard: shard %s's backup is of %s: it cannot continue at %s", s.id, instantWords(s.time),
		instantWords(at))
}

// successor returns a state without records that comes after s.
func (s *State) successor(id ID, at limit.Time) *State {
	next := NewState(id)
	next.epoch, next.term, next.time = s.epoch, s.term, at
	return next
}

// put adds a record to a state that is being made.
func (s *State) put(p Put) {
	s.table.Put(p.Key, p.Record)
	s.note(p.Key, p.Value)
}
