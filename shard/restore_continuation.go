package shard

import (
	"reflect"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/slot"
)

// continuation is a Continue in progress.
type continuation struct {
	Restoration
	source   *State       // its records are dealt
	states   []*State     // of the new cluster, by id
	mark     *restoreMark // of the new cluster; nil: nothing was ever lost
	counts   Restored
	spanning spanningHolds
	slotless []slotless // by shard of the new cluster
	pushes   pushes
	sources  *slotSources
}

// newContinuation makes the states of the new cluster: without records, but with the mark, and in the greatest epoch of
// the backup. It refuses a backup that cannot continue at r.At, or that lacks a slot.
func newContinuation(backup []*State, r Restoration) (*continuation, error) {
	newest := backup[0]
	if r.Exact {
		r.At = 0 //mutant:exact-restore-ahead
	}
	for _, s := range backup {
		if s.epoch > newest.epoch {
			newest = s
		}
		if r.Exact {
			r.At = max(r.At, s.time) //mutant:shard-time-of-one-shard
		} else if r.At <= s.time {
			return nil, s.notAt(r.At)
		}
	}
	c := &continuation{
		Restoration: r,
		spanning:    spanningHolds{after: max(r.At, r.Now), met: map[string]ID{}},
		pushes:      pushes{map[string]map[ID]Record{}, map[ID]map[ID]bool{}},
		sources:     new(slotSources),
	}
	for id := range 1 + ID(slices.Max(r.Slots[:])) {
		c.states = append(c.states, newest.successor(id, r.At))
	}
	c.slotless = make([]slotless, len(c.states))
	for _, s := range backup {
		if err := c.sources.read(s.id, s.SlotRecords()); err != nil {
			return nil, err
		}
	}
	//mutant:restore-without-a-slot //mutant:lost-slot-stops-a-recovery
	if err := c.sources.problem(); err != nil && !r.Lost {
		return nil, err
	}
	return c, c.makeMark(backup)
}

// makeMark makes the mark of all shards of the new cluster. It has the gaps of all shards of the old one, since a hold
// or a decision names the shard that made it, wherever its keys are now.
func (c *continuation) makeMark(backup []*State) error {
	var gaps []historyGap
	for _, s := range backup {
		before, err := readRestoreMark(s)
		if err != nil {
			return err
		}
		if before == nil {
			continue
		}
		for _, g := range before.gaps {
			if !slices.Contains(gaps, g) {
				gaps = append(gaps, g)
			}
		}
		if c.mark == nil || before.full.At > c.mark.full.At { // all are of one restore
			c.mark = before
		}
	}
	if !c.Exact { //mutant:exact-restore-fills
		c.mark = &restoreMark{full: limit.Full{At: c.At, Hold: MaxHoldTTL}, keep: c.Keep}
		for _, s := range backup {
			gaps = append(gaps, historyGap{s.id, s.epoch, s.seq, c.Before})
		}
	}
	if c.mark == nil {
		return nil
	}
	c.mark.gaps = gaps //mutant:exact-restore-forgets-gaps
	for _, s := range c.states {
		s.put(Put{Key: string(restoreRecord), Record: Record{Value: c.mark.encode(), ForgetAt: limit.Forever}})
	}
	return nil
}

// shardOf returns the shard of a record of a slot.
func (c *continuation) shardOf(key string) ID {
	if part := (keyLayout{}).Part(key); part < slot.Count {
		return ID(c.Slots[part])
	}
	return c.heir() // memory failed, and no request can find it
}

// heir returns the shard that gets what tells of the source as a whole.
func (c *continuation) heir() ID { return c.source.id % ID(len(c.states)) }

func (c *continuation) put(p Put) { c.states[c.shardOf(p.Key)].put(p) }

// record deals one record of the backup.
func (c *continuation) record(key string, r Record) {
	if r.ForgetAt <= c.source.time {
		return // it had ended
	}
	if !c.sources.has(c.source, key) {
		return // another shard has the slot
	}
	switch key[0] {
	case counterRecord:
		c.counts.Keys++
		c.counter(key, r)
		return
	case sessionRecord:
		c.counts.Sessions++
		return
	case sessionAnswerRecord, restoreRecord, adoptionRecord, auditHeadRecord, slotRecord:
		return
	case pushRecord:
		c.pushes.note(c.source.id, key, r)
		return
	case auditRecord, outboxRecord, eventRecord, deadLetterRecord, pastEventRecord:
		c.noteSlotless(key[0], r)
		return
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

// counter deals a counter. If it cannot be read, every request for its key will say so.
func (c *continuation) counter(key string, r Record) {
	k := &counter{key: key, policy: policyAtKey(c.Policies, key), mark: c.mark}
	put := Put{Key: key, Record: r}
	if err := k.decode(r.Value, k.policy.Limits); err != nil {
		c.counts.Unreadable++
		c.put(put)
		return
	}
	if !c.Exact {
		c.fill(k)
		put, _ = k.appendTo(nil, c.At)
	}
	c.counts.Holds += len(k.extras.openHolds())
	to := c.shardOf(key)
	c.spanning.note(k, to)
	if len(k.meters) > 0 {
		c.pushes.billed(c.source.id, to)
	}
	if c.Exact || !k.empty() {
		c.put(put)
	}
}

// fill makes a counter what is known of it at the mark.
func (c *continuation) fill(k *counter) {
	k.expire(c.source.time)
	//mutant:lease-refills-a-full-bucket
	c.endLeases(k)                        // before the states are full as of then
	k.meters.recover(c.source.time, c.At) //mutant:restore-hides-lost-bills
	k.ladderKnown = k.policy.Lockout != nil
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
	if full {
		c.counts.Full++
	}
}

// endLeases ends the leases that end by the mark.
func (c *continuation) endLeases(k *counter) {
	for _, h := range k.extras.openLeases() {
		if h.expires <= c.At {
			k.removeHold(h.name)
			k.spendLease(h.cost, h.expires)
		}
	}
}

// limit makes the state of one limit what is known of it at the mark. It reports whether there is more to keep than an
// unknown key has, and whether something is no longer known.
func (c *continuation) limit(k *counter, l *counted) (stays, lost bool) {
	l.cleared = false
	keep := c.keeps(k, l)
	switch {
	case l.limit.Algorithm == limit.Concurrency:
		if !keep {
			l.state = c.mark.of(k.policy).With(l.limit, l.state) //mutant:unknown-holds-ignored
		}
		return true, !keep // the holds that the backup knows still give their units back
	case limit.IsTally(l.limit, l.state):
		return true, false
	case keep || !l.resets():
		l.since = c.At //mutant:refund-crosses-a-restore
		return true, false
	}
	found := l.state
	if limit.ForgetAt(l.limit, found) <= c.source.time {
		found = limit.State{}
	}
	l.state, l.since = c.mark.of(k.policy).With(l.limit, found), c.At //mutant:restored-window-goes-on
	return !reflect.DeepEqual(l.state, c.mark.of(k.policy).With(l.limit, limit.State{})), true
}

// keeps reports whether the policy's limit of that name, or the order to restore, says so.
func (c *continuation) keeps(k *counter, l *counted) bool {
	named := policy.Limit{Name: l.name}
	if i := slices.IndexFunc(k.policy.Limits, func(n policy.Limit) bool { return n.Name == l.name }); i >= 0 {
		named = k.policy.Limits[i]
	}
	return c.mark.keepsLimit(k, &named)
}

// resets reports whether what the limit has counted comes back by itself.
func (l *counted) resets() bool {
	return l.limit.Algorithm != limit.Lifetime && l.limit.Algorithm != limit.Unlimited
}
