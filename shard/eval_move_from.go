package shard

import (
	"fmt"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/slot"
	"github.com/stint-io/stint/shard/table"
)

// The steps of a move on the shard that has the slot.

// movePageBytes is the size of a page, of keys and values.
const movePageBytes = 128 << 10

func (m *moveEvaluation) prepare() *Error {
	owned := m.status.State == SlotOwned || m.status.State == SlotUnknown && m.at.tableOwns(m.t.Slot)
	switch {
	case m.is(SlotPreparing):
	case !owned || m.t.Generation != m.status.Generation+1: //mutant:old-generation-moves
		return m.refuse("")
	default:
		m.set(SlotStatus{State: SlotPreparing, Generation: m.t.Generation, Other: m.t.To})
	}
	return nil
}

func (m *moveEvaluation) freeze() *Error {
	switch {
	case m.is(SlotFrozen): //mutant:frozen-twice
		return nil
	case !m.is(SlotPreparing):
		return m.refuse("")
	}
	if open, until, key := m.spanning(); open > 0 { //mutant:freeze-parts-a-hold
		m.answer.Waits = fmt.Sprintf("%d open holds with keys of other slots, too; "+
			"the last to end, of key %q, ends at %s",
			open, key, instantWords(until))
		return nil
	}
	m.set(SlotStatus{State: SlotFrozen, Generation: m.t.Generation, Other: m.t.To, Time: m.at.Now, Pushes: m.pushes()})
	return nil
}

// spanning counts the counters of the slot's keys that have an open hold of a request with keys of other slots: it
// could not be settled once its slots are apart. It returns also when the last such hold ends, and the key that has it.
func (m *moveEvaluation) spanning() (open int, until limit.Time, of string) {
	for key, r := range slotScan(m.view, m.t.Slot, 0) {
		if !isCounter(key, r, counterExtra, m.at.Now) {
			continue
		}
		c := counter{policy: inlinePolicy}
		if c.decode(r.Value, nil) != nil {
			continue // no request can settle it
		}
		for _, h := range c.extras.openHolds() {
			if !h.spans || h.expires <= m.at.Now {
				continue
			}
			if open++; h.expires > until {
				_, _, name, _ := readKeyOf(key)
				until, of = h.expires, string(name)
			}
		}
	}
	return open, until, of
}

// pushes lists the records of how far the shard has pushed bills.
func (m *moveEvaluation) pushes() (found []Put) {
	for key, r := range m.view.Scan(table.PartPlace(slot.Count)) {
		if len(key) > 0 && key[0] == pushRecord && r.ForgetAt > m.at.Now {
			found = append(found, recordCopy(key, r))
		}
	}
	return found
}

// read answers a page. It ends between two places, never within one. The first also has what tells of the whole shard
// and decides how the counters are read.
func (m *moveEvaluation) read() *Error {
	if !m.is(SlotFrozen) || m.status.Ended { //mutant:page-of-a-slot-in-use
		return m.refuse("")
	}
	page := &m.answer.Page
	page.Time, page.Last = m.at.Now, true
	if m.t.Place == 0 {
		for _, key := range []byte{restoreRecord, adoptionRecord} {
			if record, found := m.lookup(string(key)); found {
				page.Records = append(page.Records, recordCopy([]byte{key}, record))
			}
		}
	}
	bytes, last := 0, m.t.Place
	for key, r := range slotScan(m.view, m.t.Slot, m.t.Place) {
		if len(key) == 0 {
			return unreadable("", fmt.Sprintf("a record of slot %d", m.t.Slot), ErrDiverged)
		}
		if r.ForgetAt <= m.at.Now {
			continue
		}
		place := table.Place(keyLayout{}, key)
		if place != last && bytes >= movePageBytes {
			page.Next, page.Last = place, false
			return nil
		}
		last, bytes = place, bytes+len(key)+len(r.Value)
		page.Records = append(page.Records, recordCopy(key, r))
	}
	return nil
}

// drop removes a part of the records. Until the last one is gone the slot stays frozen, but with Ended, so that it can
// neither be read nor thawed.
func (m *moveEvaluation) drop() *Error {
	switch {
	case m.is(SlotMoved):
	case !m.is(SlotFrozen):
		return m.refuse("") //mutant:drop-before-freeze
	case m.remove():
		m.set(SlotStatus{State: SlotMoved, Generation: m.t.Generation, Other: m.t.To})
	case !m.status.Ended:
		begun := m.status
		begun.Ended = true
		m.set(begun)
	}
	return nil
}

// thaw makes the shard own the slot in a higher generation than the move's, so that no late copy of a step fits.
func (m *moveEvaluation) thaw() *Error {
	switch {
	case m.status.State == SlotOwned && m.status.Generation == m.t.Generation+1:
	case m.is(SlotPreparing), m.is(SlotFrozen) && !m.status.Ended: //mutant:thaw-after-drop
		if m.status.State == SlotFrozen { // its bills were not shown meanwhile
			m.lowerPushes(m.status.Pushes) //mutant:bill-passed-while-frozen
		}
		//mutant:thaw-keeps-its-generation
		m.set(SlotStatus{State: SlotOwned, Generation: m.t.Generation + 1})
	default:
		return m.refuse("")
	}
	return nil
}
