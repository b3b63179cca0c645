package shard

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/table"
)

// Restoration says how a shard continues from a backup.
type Restoration struct {
	// At is the instant at which shard time continues. No decision that may be lost was made at or after it (G5).
	At limit.Time
	// Before is the first epoch that the shard can have from now on. It is greater than every epoch that may be lost.
	Before   uint64
	Policies *policy.Set // the newest in the backup; never nil
	Keep     []Kept
	// Documents of the system shard that the restore replaces, by name. Each gets a version after that in the backup and after
	// Revision.
	Documents map[string][]byte
	Revision  uint64 // the newest revision of the policies that any shard has adopted
	// Exact says that the backup has everything that was ever answered: nothing is filled, and At and Keep have no meaning.
	Exact bool
	// Actor restores. If it is set, the shard's audit log says so, in the default namespace; one shard's is enough.
	Actor string
	Note  string
	From  string // what is restored, for the audit log; "": the backup
}

// Restored counts what became of a shard's records.
type Restored struct {
	Keys       int // counters that had not ended in the backup
	Full       int // of these, counters of which something is no longer known and counts as full
	Holds      int // open holds, which may be settled and give nothing back
	Answers    int // remembered answers to ids
	Operations int // operations on several shards that are not finished
	Sessions   int // sessions, which are gone
	Unreadable int // records that this version cannot read. They stay as they are
}

// Continue returns the state of a shard that is restored from a backup. What was decided between the backup and r.At is
// lost, and nothing of it may be admitted again (G14):
//
//   - windows, logs and buckets count as full (limit.Full), also those of keys that the backup does not have;
//   - quotas that never reset continue with the backup's value, of which G3 is not promised;
//   - units that were taken before r.At are not given back;
//   - a key of whose ladder the backup knows nothing is blocked for as long as the longest block;
//   - sessions are gone, since the nodes that had them are;
//   - overrides, blocks by hand, answers to ids, open holds, operations and documents stay.
//
// A limit that keeps (policy.RecoverKeep, r.Keep) continues with the state in the backup.
//
// From an exact backup (r.Exact) nothing is lost but the sessions: all else, and shard time, continue as they were. What an
// earlier restore did not know stays unknown. The backup's state is not changed.
func Continue(backup *State, r Restoration) (*State, Restored, error) {
	if r.Exact {
		r.At = backup.time
	} else if r.At <= backup.time {
		return nil, Restored{}, fmt.Errorf("shard: shard %d's backup is of %s: it cannot continue at %s",
			backup.id, instantWords(backup.time), instantWords(r.At))
	}
	c := continuation{Restoration: r, backup: backup, mark: &restoreMark{
		full: limit.Full{At: r.At, Hold: MaxHoldTTL}, keep: r.Keep,
		gaps: []historyGap{{backup.id, backup.epoch, backup.seq, r.Before}},
	}}
	if before, err := readRestoreMark(backup); err != nil {
		return nil, Restored{}, err
	} else if before != nil {
		c.mark.gaps = append(before.gaps, c.mark.gaps...)
	}
	c.state = &State{id: backup.id, epoch: backup.epoch, term: backup.term, seq: backup.seq, time: r.At,
		due: newDues()}
	c.state.table = table.New(keyLayout{}, c.state.shares.count)
	backup.eachRecord(c.record)
	if c.state.id == System {
		for name, body := range r.Documents {
			if err := c.document(name, body); err != nil {
				return nil, Restored{}, err
			}
		}
		return c.state, c.counts, nil
	}
	if !r.Exact { //mutant:exact-restore-fills
		c.put(Put{Key: string(restoreRecord), Record: Record{Value: c.mark.encode(), ForgetAt: limit.Forever}})
	}
	if r.Actor != "" {
		c.audit()
	}
	return c.state, c.counts, nil
}

// continuation is a Continue in progress.
type continuation struct {
	Restoration
	backup, state *State
	mark          *restoreMark
	counts        Restored
}

// eachRecord calls f with each record. The record's memory belongs to the state.
func (s *State) eachRecord(f func(key string, r Record)) {
	for key, r := range s.table.All() {
		f(string(key), r)
	}
}

func (c *continuation) put(p Put) {
	c.state.table.Put(p.Key, p.Record)
	c.state.due.note(p.Key, p.Value)
}

// record carries one record of the backup over.
func (c *continuation) record(key string, r Record) {
	if r.ForgetAt <= c.backup.time {
		return // it had ended
	}
	switch key[0] {
	case counterRecord:
		c.counts.Keys++
		if c.Exact {
			c.exactCounter(key, r)
		} else {
			c.counter(key, r)
		}
		return
	case sessionRecord:
		c.counts.Sessions++
		return
	case sessionAnswerRecord:
		return
	case restoreRecord:
		if !c.Exact { //mutant:exact-restore-forgets-gaps
			return // there is a new one
		}
	case answerRecord:
		c.counts.Answers++
	case legRecord, rulingRecord:
		if r.ForgetAt == limit.Forever {
			c.counts.Operations++
		}
	}
	if r.ForgetAt > c.At {
		c.put(Put{Key: key, Record: r})
	}
}

// counter carries a counter over. If it cannot be read, every request for its key will say so.
func (c *continuation) counter(key string, r Record) {
	k := &counter{key: key, policy: inlinePolicy, mark: c.mark}
	if p, known := c.Policies.Lookup(policyOfKey(key)); known {
		k.policy = p
	}
	if err := k.decode(r.Value, k.policy.Limits); err != nil {
		c.counts.Unreadable++
		c.put(Put{Key: key, Record: r})
		return
	}
	k.expire(c.backup.time)
	k.meters.recover(c.backup.time, c.At) //mutant:restore-hides-lost-bills
	k.ladderKnown = k.lockout() != nil
	full, kept := false, k.limits[:0]
	for _, l := range k.limits {
		if stays, lost := c.limit(k, &l); stays {
			kept = append(kept, l)
			full = full || lost
		} else {
			full = true
		}
	}
	k.limits = kept
	k.extras.forgetSums()
	c.counts.Holds += len(k.extras.openHolds())
	if full {
		c.counts.Full++
	}
	if put, _ := k.appendTo(nil, c.At); !k.empty() {
		c.put(put)
	}
}

// exactCounter carries a counter over as it is.
func (c *continuation) exactCounter(key string, r Record) {
	k := &counter{key: key, policy: inlinePolicy}
	if p, known := c.Policies.Lookup(policyOfKey(key)); known {
		k.policy = p
	}
	if err := k.decode(r.Value, k.policy.Limits); err != nil {
		c.counts.Unreadable++
	} else {
		c.counts.Holds += len(k.extras.openHolds())
	}
	c.put(Put{Key: key, Record: r})
}

// limit makes the state of one limit what is known of it at the mark. It reports whether there is more to keep than an
// unknown key has, and whether something is no longer known.
func (c *continuation) limit(k *counter, l *counted) (stays, lost bool) {
	l.cleared = false
	keep := c.keeps(k, l)
	switch {
	case l.limit.Algorithm == limit.Concurrency:
		if !keep {
			l.state = c.mark.full.With(l.limit, l.state) //mutant:unknown-holds-ignored
		}
		return true, !keep // the holds that the backup knows still give their units back
	case limit.IsTally(l.limit, l.state):
		return true, false
	case keep || !l.resets():
		l.since = c.At //mutant:refund-crosses-a-restore
		return true, false
	}
	found := l.state
	if limit.ForgetAt(l.limit, found) <= c.backup.time {
		found = limit.State{}
	}
	l.state, l.since = c.mark.full.With(l.limit, found), c.At //mutant:restored-window-goes-on
	return !reflect.DeepEqual(l.state, c.mark.full.With(l.limit, limit.State{})), true
}

// keeps reports whether the policy's limit of that name, or the person who restores, says so.
func (c *continuation) keeps(k *counter, l *counted) bool {
	named := policy.Limit{Name: l.name}
	for i := range k.policy.Limits {
		if k.policy.Limits[i].Name == l.name {
			named.OnRecovery = k.policy.Limits[i].OnRecovery
		}
	}
	return c.mark.keepsLimit(k, &named)
}

// resets reports whether what the limit has counted comes back by itself.
func (l *counted) resets() bool {
	return l.limit.Algorithm != limit.Lifetime && l.limit.Algorithm != limit.Unlimited
}

// document replaces a document.
func (c *continuation) document(name string, body []byte) error {
	before, err := ReadDocument(c.backup, name)
	if err != nil {
		return err
	}
	//mutant:shards-miss-recovered-policies
	c.put(Put{Key: documentKey(name), Record: Record{Value: encodeDocument(max(before.Version, c.Revision)+1, body), ForgetAt: limit.Forever}})
	return nil
}

// audit records the restore, and the limits that keep, among the changes that people made.
func (c *continuation) audit() {
	b := batch{view: restoredView{c.state}, at: Stamp{Position: Position{c.state.id, c.state.epoch, c.state.seq}, Now: c.At}}
	kept := []string{}
	if c.Exact {
		kept = []string{"everything: it is exact"}
	}
	for _, k := range c.Keep {
		kept = append(kept, strings.TrimSuffix(k.Policy+"/"+k.Limit, "/"))
	}
	auditLog{&b}.append(AuditRecord{At: c.At, Position: b.at.Position, Actor: c.Actor, Note: c.Note, Deed: "restore",
		Namespace: DefaultNamespace,
		Before:    cmp.Or(c.From, "backup of "+instantWords(c.backup.time)), After: fmt.Sprintf("keep: %s", cmp.Or(strings.Join(kept, ", "), "what the policies say"))})
	for _, p := range b.puts() {
		c.put(p)
	}
}

// restoredView is a state to which a Continue adds records.
type restoredView struct{ *State }

func (restoredView) Room() Room { return Room{} }
