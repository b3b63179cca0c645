package shard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-io/stint/policy"
)

// What a restore makes of records that belong to no slot:
//
//   - Events go to the shard of their keys, in the order in which they were written. The lists have their bounds: what
//     is too much for a shard becomes a dead letter, or is lost and counted.
//   - The audit log of a shard, and the number of events that it has lost, go to one shard, which orders them by time.
//   - Every shard adopts the newest policies that any had adopted. A limit got its numbers when the last shard learned
//     of them: no shard has counted under the old ones since.
//   - How far bills were pushed: see pushes.
//   - The mark is the same on all shards (makeMark), and sessions are gone.

// slotless is what a shard of the new cluster gets of that.
type slotless struct {
	events [EventsPast + 1][]sourced // by EventList
	audit  []AuditRecord
	lost   uint64 // events
}

// sourced is an event of a shard of the backup.
type sourced struct {
	source ID
	Event
}

// noteSlotless gathers a record about events or changes.
func (c *continuation) noteSlotless(kind byte, r Record) {
	mine := &c.slotless[c.heir()]
	list := EventsWaiting
	switch kind {
	case auditRecord:
		if a, err := decodeAudit(r.Value); err == nil {
			mine.audit = append(mine.audit, a)
		} else {
			c.counts.Unreadable++
		}
		return
	case outboxRecord:
		h, _ := outboxHeadOf(r, true) // a broken outbox must not prevent a restore
		mine.lost += h.lost
		return
	case deadLetterRecord:
		list = EventsDead
	case pastEventRecord:
		list = EventsPast
	}
	e, err := decodeEvent(r.Value)
	if err != nil {
		mine.lost++
		return
	}
	to := &c.slotless[Of(c.Slots, e.Namespace, e.Key)] //mutant:event-stays-with-its-shard
	to.events[list] = append(to.events[list], sourced{c.source.id, e})
}

// dealSlotless writes what belongs to no slot.
func (c *continuation) dealSlotless(backup []*State) error {
	adoption, err := c.adoption(backup)
	if err != nil {
		return err
	}
	for i, s := range c.states {
		if adoption.Value != nil {
			s.put(adoption)
		}
		for _, p := range c.pushes.of(s.id, len(c.states)) {
			s.put(p)
		}
		b := &batch{view: s, at: Stamp{Position: Position{s.id, s.epoch, s.seq}, Now: c.At}}
		c.slotless[i].write(b)
		if s.id == ID(c.Slots[0]) && c.Actor != "" {
			c.audit(auditLog{b}, backup)
		}
		for _, p := range b.puts() {
			s.put(p)
		}
	}
	return nil
}

// write writes events and changes.
func (l *slotless) write(b *batch) {
	o := openOutbox(b)
	for list := range l.events {
		slices.SortFunc(l.events[list], func(a, b sourced) int {
			return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.source, b.source), cmp.Compare(a.Number, b.Number))
		})
	}
	for _, e := range l.events[EventsDead] {
		o.bury(e.Event, e.Sinks, e.Why)
	}
	for _, e := range l.events[EventsPast] {
		o.keepPast(&e.Event)
	}
	for _, e := range l.events[EventsWaiting] {
		o.enqueue(&e.Event)
	}
	if o.head.lost += l.lost; o.head != (outboxHead{}) {
		o.save()
	}
	slices.SortFunc(l.audit, func(a, b AuditRecord) int {
		x, y := a.Position, b.Position
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(x.Shard, y.Shard), cmp.Compare(x.Epoch, y.Epoch),
			cmp.Compare(x.Seq, y.Seq))
	})
	for _, a := range l.audit {
		auditLog{b}.append(a)
	}
}

// adoption is the record of the newest policies that any shard has adopted; without a Value: none has.
func (c *continuation) adoption(backup []*State) (Put, error) {
	var newest policy.Revision
	for _, s := range backup {
		if version, text, _, err := adopted(s); err != nil {
			return Put{}, err
		} else if version > newest.Version {
			newest.Version, newest.Text = version, text
		}
	}
	if newest.Version == 0 {
		return Put{}, nil
	}
	var changes []numberChange
	for _, s := range backup {
		version, text, known, _ := adopted(s)
		if version != newest.Version && version > 0 { // it adopts them now
			var err error
			if known, err = revisedFrom(text, newest.Text, known, c.At); err != nil {
				return Put{}, err
			}
		}
		changes = mergeNumberChanges(changes, known)
	}
	return adoptPut(newest, changes), nil
}

// audit records the restore, and the limits that keep, among the changes that people made.
func (c *continuation) audit(log auditLog, backup []*State) {
	kept := []string{}
	if c.Exact {
		kept = []string{"everything: it is exact"}
	}
	for _, k := range c.Keep {
		kept = append(kept, strings.TrimSuffix(k.Policy+"/"+k.Limit, "/"))
	}
	log.note(&Adjustment{Actor: c.Actor, Note: c.Note}, AuditRecord{Deed: "restore", Namespace: DefaultNamespace,
		Before: cmp.Or(c.From, "backup of "+instantWords(backup[0].time)),
		After:  fmt.Sprintf("keep: %s", cmp.Or(strings.Join(kept, ", "), "what the policies say"))})
}
