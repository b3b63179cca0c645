package shard

import (
	"math"
	"slices"
	"strings"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/codec"
)

// A shard that was restored from a backup does not know what was taken between the backup and the restore. Its mark,
// one record, says so. As long as the mark is there, a limit without a state on a key is full (limit.Full), unless
// the policy or the mark says keep. No timer ends it: a full limit is at rest again when all that may have been taken
// no longer counts.

// restoreMark is what a shard remembers of its restore. It is immutable.
type restoreMark struct {
	full limit.Full // its Late is 0; FullOf sets it for a policy with leases
	keep []Kept     // limits that continue with what the backup has, besides those with on_recovery keep
	// gaps are the parts of the shard's history that were lost, of this restore and of earlier ones.
	gaps []historyGap
}

// Kept names a limit that continues after a restore with what the backup says, or all limits of a policy and its
// ladder.
type Kept struct {
	Policy string // or the label of inline limits
	Limit  string // "": all limits, and the lockout
}

// historyGap is a lost part of a shard's log: what comes after a place, in epochs before another.
type historyGap struct {
	shard      ID     // of the log; the mark's own shard may have slots of others
	epoch, seq uint64 // the newest entry that the backup has
	before     uint64 // the first epoch that can be one of the restored shard
}

// of returns what is unknown of the keys of a policy.
func (m *restoreMark) of(p *policy.Policy) limit.Full { return FullOf(p, m.full) }

// FullOf returns the unknown usage of the keys of a policy after a restore. Leases that were lost may still be spent
// (X17).
func FullOf(p *policy.Policy, full limit.Full) limit.Full {
	if p != nil && p.Lease != nil { //mutant:lost-leases-spent-again
		full.Late = leaseSpentLate
	}
	return full
}

// lostAt reports whether a place in the log is in a lost part of it.
func (m *restoreMark) lostAt(at Position) bool {
	return m != nil && slices.ContainsFunc(m.gaps, func(g historyGap) bool {
		//mutant:gap-of-any-shard 2
		return at.Shard == g.shard && at.Epoch < g.before &&
			(at.Epoch > g.epoch || at.Epoch == g.epoch && at.Seq > g.seq)
	})
}

// keeps reports whether a limit of a policy, or with limit "" its ladder, continues with what the backup has.
func (m *restoreMark) keeps(policy, limit string) bool {
	return slices.Contains(m.keep, Kept{policy, ""}) || limit != "" && slices.Contains(m.keep, Kept{policy, limit})
}

func (m *restoreMark) encode() []byte { return encodeRecord(m.code) }

func (m *restoreMark) code(c *MessageCodec) {
	codec.Uint(&c.Codec, &m.full.At, uint64(limit.MaxTime))
	codec.Uint(&c.Codec, &m.full.Hold, uint64(limit.MaxPeriod))
	codec.List(&c.Codec, &m.keep, math.MaxInt, func(k *Kept) { c.Text(&k.Policy, &k.Limit) })
	codec.List(&c.Codec, &m.gaps, math.MaxInt, func(g *historyGap) {
		codec.Uint(&c.Codec, &g.shard, math.MaxUint32)
		c.Uint64(&g.epoch, &g.seq, &g.before)
	})
}

func decodeRestoreMark(value []byte) (*restoreMark, error) {
	return decodeRecord(value, "the restore", (*restoreMark).code)
}

// readRestoreMark returns the mark of a shard, or nil if it was never restored.
func readRestoreMark(view Records) (*restoreMark, error) {
	record, found := view.Lookup(string(restoreRecord))
	if !found {
		return nil, nil
	}
	return decodeRestoreMark(record.Value)
}

// restored returns the shard's mark; nil: it was never restored. It is read once in a batch.
func (b *batch) restored() (*restoreMark, *Error) {
	if !b.markRead {
		b.markRead = true
		b.mark, b.markErr = readRestoreMark(b.view)
	}
	if b.markErr != nil { //mutant:unreadable-mark-ignored
		return nil, unreadable("", "what was lost in a restore", b.markErr)
	}
	return b.mark, nil
}

// lost refuses to settle what was taken after the backup and before the restore: it counts as taken.
func (b *batch) lost(t *Target) *Error {
	m, err := b.restored()
	if err != nil || m == nil {
		return err
	}
	// An operation's id has no place; the caller knows of no record. Of a shard that the cluster got after the restore, a
	// place in its log may be a lost one of an earlier shard of that number.
	//mutant:growth-after-a-restore-loses
	if t.DecidedAt >= m.full.At || t.Operation == "" && !m.lostAt(t.Position) {
		return nil
	}
	return errorf(HoldEnded, t.field(), "is of a time that was lost when the cluster was restored from a backup: "+
		"what it took counts as taken before %s", instantWords(m.full.At))
}

// restoredSince refuses an id if its record may have been lost in a restore.
func (b *batch) restoredSince(r *Request, made limit.Time) *Error {
	m, err := b.restored()
	if err != nil || m == nil || made >= m.full.At {
		return err
	}
	return errorf(IDExpired, "idempotency_id", "%q was made before %s, when the cluster was restored from a backup "+
		"that does not know it: whether it ran can no longer be told", r.ID, instantWords(m.full.At))
}

// unknown returns the state of a limit for which a counter has none. A shard that was never restored has no mark.
func (m *restoreMark) unknown(c *counter, l *policy.Limit, now limit.Time) limit.State {
	if m == nil || m.keepsLimit(c, l) {
		return limit.State{}
	}
	return m.of(c.policy).State(l.Limit, now) //mutant:restored-unknown-key-at-rest
}

// atop adds what is not known to a state that was counted under other numbers.
func (m *restoreMark) atop(c *counter, k *counted, l *policy.Limit, s limit.State, now limit.Time) limit.State {
	if m == nil || k.cleared || m.keepsLimit(c, l) {
		return s
	}
	return m.of(c.policy).Atop(l.Limit, s, now) //mutant:restored-tier-not-full
}

// keepsLimit reports whether a limit of a counter continues with what the backup has.
func (m *restoreMark) keepsLimit(c *counter, l *policy.Limit) bool {
	if l.OnRecovery == policy.RecoverKeep && c.policy != inlinePolicy {
		return true
	}
	return len(m.keep) > 0 && m.keeps(strings.TrimPrefix(policyOfKey(c.key), "~"), l.Name)
}

// blockUnknown blocks a key if nothing is known of its ladder, for the longest block that it may have had. It runs when
// the counter is loaded. A record that is written from then on says that the ladder is known.
func (m *restoreMark) blockUnknown(c *counter, now limit.Time) {
	until := m.ladderUnknownUntil(c.policy.Lockout)
	if until <= now || c.ladderKnown || m.keeps(policyOfKey(c.key), "") {
		return
	}
	l := &c.extra().ladder
	l.blockedUntil = max(l.blockedUntil, until)
	c.ladderKnown = true
}

// ladderUnknownUntil returns when every block has ended to which a lost violation may have led.
func (m *restoreMark) ladderUnknownUntil(k *policy.Lockout) limit.Time {
	if m == nil || k == nil {
		return 0
	}
	return m.full.At + limit.Time(k.Max)
}

// clear makes the limits known that a person has put to rest, and those that have no state because nothing is known of
// them. So they are no longer full.
func (m *restoreMark) clear(c *counter, r *Request, limits []policy.Limit, now limit.Time) {
	for i := range limits {
		l := &limits[i]
		if !r.means(l.Name) || m.clearedUntil(c.policy, l.Limit) <= now {
			continue
		}
		j := c.limits.find(i, l.Name)
		if j < 0 {
			j = len(c.limits)
			c.limits = append(c.limits, counted{name: l.Name})
			c.extras.forgetSums()
		}
		k := &c.limits[j]
		k.limit, k.state, k.cleared = l.Limit, limit.State{}, true
		c.restart(k, now)
	}
}

// fills reports whether a limit may be full of what is not known.
func (m *restoreMark) fills(p *policy.Policy, limits []policy.Limit, now limit.Time) bool {
	return m != nil && slices.ContainsFunc(limits, func(l policy.Limit) bool {
		return m.clearedUntil(p, l.Limit) > now
	})
}

// clearedUntil returns until when a limit that was cleared must be remembered as such: until it would no longer be
// full. So a key that changes its tier then may meet what is not known under the longer window of the new tier.
func (m *restoreMark) clearedUntil(p *policy.Policy, l limit.Limit) limit.Time {
	if m == nil {
		return 0
	}
	return limit.ForgetAt(l, m.of(p).With(l, limit.State{}))
}
