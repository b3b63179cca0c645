package shard

import (
	"github.com/cespare/xxhash/v2"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/slot"
)

// A slot moves by stop-and-copy (MoveStep). Nothing of it is lost: the sequencer of From puts everything that was ever
// answered before MoveFreeze, and nothing changes the slot after it, so the pages are its state at that instant; To can
// take it only with all of them. Nothing is counted twice: From answers only before MoveFreeze or after MoveThaw, which
// follows a committed MoveAbort, and To only after MoveTake; the last two are ordered in the log of To, which does one
// of them.
//
// A step is alone in its batch, so it finds all records in the view.

// moveEvaluation is the evaluation of a step of a move.
type moveEvaluation struct {
	*evaluation
	t      *MoveTerms
	status SlotStatus // of the slot on this shard; set keeps it up to date
	answer MoveAnswer
}

func (e *evaluation) move(r *Request) Result {
	t := r.systemTerms().Move
	switch {
	case t == nil:
		return Result{Err: Invalidf("system", "is no step of a move that this version knows: run a newer one")}
	case e.at.Shard == System || t.Slot >= slot.Count || t.From == t.To || e.at.Shard != t.From && e.at.Shard != t.To,
		// A driver may look before it knows the generation.
		t.Generation == 0 && t.Step != MoveLook:
		return Result{Err: Invalidf("system.move", "is no move between this shard and another")}
	}
	status, err := e.statusOf(t.Slot)
	if err != nil {
		return Result{Err: err}
	}
	m := &moveEvaluation{evaluation: e, t: t, status: status}
	if err = m.step(); err == nil {
		err = m.tellShard()
	}
	if err != nil {
		return Result{Err: err}
	}
	return e.answerOf(SystemAnswer{Moved: &m.answer})
}

func (m *moveEvaluation) step() *Error {
	from, to := m.at.Shard == m.t.From, m.at.Shard == m.t.To
	switch s := m.t.Step; {
	case s == MoveLook:
		return nil
	case from && s == MovePrepare:
		return m.prepare()
	case from && s == MoveFreeze:
		return m.freeze()
	case from && s == MoveRead:
		return m.read()
	case from && s == MoveDrop:
		return m.drop()
	case from && s == MoveThaw:
		return m.thaw()
	case to && s == MoveBegin:
		return m.begin()
	case to && s == MovePut:
		return m.putPage()
	case to && s == MoveTake:
		return m.take()
	case to && s == MoveAbort:
		return m.abort()
	}
	return Invalidf("system.move.step", "%d is none of this shard, or not known to this version", m.t.Step)
}

// tellShard completes the answer. A frozen slot has changed since the freeze if its shard has adopted a revision: that
// brings up leased keys.
func (m *moveEvaluation) tellShard() *Error {
	s := &m.answer.Status
	*s = m.status
	version, _, revised, _ := adopted(m.view)
	s.Revision = version
	if s.State == SlotFrozen { //mutant:leased-key-changes-unnoticed
		for i := range revised {
			s.Time = max(s.Time, revised[i].at)
		}
	}
	if s.State == SlotPreparing || s.State == SlotImporting && s.Pages == 0 {
		s.Pushes = m.pushes()
	}
	restored, err := m.restoredBy()
	s.Restored = restored
	return err
}

// restoredBy returns a number that identifies the restore whose mark the shard has, or 0 if it has none.
func (m *moveEvaluation) restoredBy() (uint64, *Error) {
	if _, err := m.restored(); err != nil {
		return 0, err
	}
	if record, found := m.lookup(string(restoreRecord)); found {
		return xxhash.Sum64(record.Value) | 1, nil
	}
	return 0, nil
}

// is reports whether the slot is in a state of this move.
func (m *moveEvaluation) is(state SlotState) bool {
	other := m.t.To
	if state == SlotImporting || state == SlotAborted {
		other = m.t.From
	}
	return m.status.State == state && m.status.Generation == m.t.Generation && m.status.Other == other
}

// set makes a status the record of the slot.
func (m *moveEvaluation) set(s SlotStatus) {
	m.status = s
	m.write(Put{Key: slotKey(m.t.Slot), Record: Record{Value: s.encode(), ForgetAt: limit.Forever}})
}

// refuse answers a step with a condition that does not hold.
func (m *moveEvaluation) refuse(why string) *Error {
	return errorf(Conflict, "system.move", "slot %d on shard %s is %s in generation %d: step %d of the move to "+
		"shard %s in generation %d is not possible%s; nothing was changed",
		m.t.Slot, m.at.Shard, m.status.State, m.status.Generation, m.t.Step, m.t.To, m.t.Generation, why)
}

// ownsNothing reports whether the shard owns no slot.
func (m *moveEvaluation) ownsNothing() bool {
	served := slotsServed(m.view, m.slotted, &m.at)
	return served != nil && *served == slot.Set{}
}

// removedMost bounds the records that one step removes, so that an entry keeps its size.
const removedMost = 2048

// remove removes records of the slot, and reports whether none is left. Those that have ended are left to the sweep.
func (m *moveEvaluation) remove() (all bool) {
	removed := 0
	for key, r := range slotScan(m.view, m.t.Slot, 0) {
		if len(key) == 0 || r.ForgetAt <= m.at.Now {
			continue
		}
		if removed++; removed > removedMost || m.bytes > MaxEntryBytes/2 {
			return false
		}
		m.write(Put{Key: string(key)})
	}
	return true
}
