package shard

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/table"
)

// The steps of a move on the shard that gets the slot.

// untaken reports whether this shard can still begin or give up the move: it does not own the slot, and an earlier move
// of it here has ended.
func (m *moveEvaluation) untaken() bool {
	switch m.status.State {
	case SlotUnknown:
		return !m.at.tableOwns(m.t.Slot)
	case SlotMoved, SlotAborted:
		return m.status.Generation < m.t.Generation //mutant:aborted-move-begins-again
	}
	return false
}

func (m *moveEvaluation) begin() *Error {
	if m.is(SlotImporting) {
		return nil
	}
	if !m.untaken() {
		return m.refuse("")
	}
	for _, r := range slotScan(m.view, m.t.Slot, 0) {
		if r.ForgetAt > m.at.Now { //mutant:begins-over-remains
			return m.refuse(", since records of an earlier move are left")
		}
	}
	mine, err := m.restoredBy()
	switch {
	case err != nil:
		return err
	//mutant:marks-of-two-restores
	case mine != m.t.Frozen.Restored && (mine != 0 || !m.ownsNothing()):
		return m.refuse(", since one of the shards was restored from a backup and the other not, or from another")
	case m.room.full():
		m.answer.Waits = fmt.Sprintf("shard %s to have room for more records", m.at.Shard)
		return nil
	}
	m.set(SlotStatus{State: SlotImporting, Generation: m.t.Generation, Other: m.t.From})
	return nil
}

func (m *moveEvaluation) putPage() *Error {
	f, page := &m.t.Frozen, &m.t.Put
	switch {
	case !m.is(SlotImporting):
		return m.refuse("")
	case m.t.Page < m.status.Pages: //mutant:page-put-twice
		return nil
	case m.t.Page > m.status.Pages || m.t.Place != m.status.Place || m.status.Ended: //mutant:page-missing
		return m.refuse(fmt.Sprintf(", since page %d, from place %d on, is next", m.status.Pages, m.status.Place))
	case f.State != SlotFrozen || f.Generation != m.t.Generation || f.Other != m.t.To || !page.Last && page.Next == 0:
		return Invalidf("system.move.frozen", "or the page is not of this move")
	case m.room.brimful():
		return m.full()
	}
	if m.waitsFor(f.Time) { //mutant:page-ahead-of-time
		return nil
	}
	needed := f.Revision
	for i := range page.Records {
		if r := &page.Records[i]; r.Key == string(adoptionRecord) {
			version, _, _, _ := decodeAdoption(r.Value)
			needed = max(needed, version)
		}
	}
	if AdoptedVersion(m.view) < needed { //mutant:page-under-older-policies
		m.answer.Waits = fmt.Sprintf("shard %s to adopt version %d of the policies", m.at.Shard, needed)
		return nil
	}
	if err := m.store(page.Records); err != nil {
		return err
	}
	next := m.status
	next.Pages, next.Place, next.Ended = next.Pages+1, page.Next, page.Last
	next.Time = max(next.Time, page.Time)
	m.set(next)
	return nil
}

// waitsFor reports whether this shard has to wait for an instant of the other, and answers so.
func (m *moveEvaluation) waitsFor(at limit.Time) bool {
	if m.at.Now >= at {
		return false
	}
	m.answer.Waits = "the time of shard " + m.at.Shard.String() + " to reach that of the other"
	return true
}

// store puts the records of a page. A shard without a mark of a restore, which has no slots, gets the other's.
func (m *moveEvaluation) store(records []Put) *Error {
	for i := range records {
		switch r := &records[i]; {
		case m.belongs(r.Key):
			if !m.storeLeased(r) { //mutant:moved-key-misses-a-lease
				m.write(*r)
			}
		case r.Key == string(restoreRecord):
			if _, found := m.lookup(r.Key); !found {
				m.write(*r)
			}
		case r.Key == string(adoptionRecord):
			if err := m.learnRevisions(r.Value); err != nil { //mutant:moved-key-forgets-a-revision
				return unreadable("", "which policies a shard has adopted", err)
			}
		default:
			return Invalidf("system.move.put", "has a record that is not of slot %d", m.t.Slot)
		}
	}
	return nil
}

// storeLeased stores a key with leases as this shard's policies have it, which may be newer than the other's, and
// reports whether it did. Whatever changes, changes now: the other shard may have brought the key up since this one
// adopted its policies.
func (m *moveEvaluation) storeLeased(put *Put) bool {
	if _, err := m.restored(); err != nil || m.written[string(restoreRecord)].Value != nil {
		return false // what a mark makes full stays so
	}
	m.revisions = revisions{read: true} //mutant:moved-bucket-refills-twice
	leased := leasedKeys{&m.batch}
	c := leased.counterOf([]byte(put.Key), put.Record, nil)
	if c == nil {
		return false
	}
	_, name, _, _ := readKeyOf(c.key)
	p, found := m.policies.Lookup(name)
	if found {
		leased.bringUp(c, p, p.TierOf(c.has, c.override()))
	}
	return c.listed
}

// learnRevisions adds when the other shard's limits got their numbers to what this shard knows of that: until then the
// slot's keys were counted under the old ones. What the other shard has not adopted, its keys get now.
func (m *moveEvaluation) learnRevisions(theirs []byte) error {
	version, text, known, err := decodeAdoption(theirs)
	if err != nil {
		return err
	}
	mine, mineText, before, err := adopted(m.view)
	if err != nil {
		return err
	}
	if version != mine {
		if known, err = revisedFrom(text, mineText, known, m.at.Now); err != nil {
			return err
		}
	}
	all := mergeNumberChanges(slices.Clone(before), known)
	if !slices.Equal(all, before) {
		m.write(adoptPut(policy.Revision{Version: mine, Text: mineText}, all))
	}
	return nil
}

// belongs reports whether a key is of a record of the slot.
func (m *moveEvaluation) belongs(key string) bool {
	return len(key) <= table.MaxKeyBytes && (keyLayout{}).Part(key) == int(m.t.Slot)
}

func (m *moveEvaluation) take() *Error {
	switch {
	case m.status.State == SlotOwned && m.status.Generation == m.t.Generation:
	case !m.is(SlotImporting) || !m.status.Ended: //mutant:taken-before-the-last-page
		return m.refuse("")
	case m.waitsFor(m.status.Time): //mutant:taken-ahead-of-a-page
	default:
		m.takePushes()
		m.set(SlotStatus{State: SlotOwned, Generation: m.t.Generation})
	}
	return nil
}

// takePushes makes the lesser of the two shards' positions that of this one, so that no bill of the slot is left out.
// One that is pushed twice has one id. A shard that owned nothing has pushed nothing, and goes on where the other was.
func (m *moveEvaluation) takePushes() {
	m.lowerPushes(m.t.Frozen.Pushes) //mutant:bill-passed-by-its-new-pusher
	if !m.ownsNothing() {
		return
	}
	for _, r := range m.t.Frozen.Pushes {
		if _, has := m.lookup(r.Key); !has && r.ForgetAt > m.at.Now && r.Key != "" && r.Key[0] == pushRecord {
			m.setPush(r.Key, nil, leastOf(map[ID]Record{m.t.From: r.Record}, []ID{m.t.From}, m.own))
		}
	}
}

// lowerPushes makes the lesser of this shard's positions and those of From at MoveFreeze this shard's.
func (m *moveEvaluation) lowerPushes(frozen []Put) {
	then := make(map[string]Record)
	for _, r := range frozen {
		then[r.Key] = r.Record
	}
	const before = System // stands for From at that time
	for _, p := range m.pushes() {
		found := map[ID]Record{m.at.Shard: p.Record}
		if r, has := then[p.Key]; has {
			found[before] = r
		}
		m.setPush(p.Key, p.Value, leastOf(found, []ID{before, m.at.Shard}, m.own))
	}
}

// own reports whether bills that a sink was not sent are counted on this shard: those that the shard has skipped
// itself.
func (m *moveEvaluation) own(source ID) bool { return source == m.at.Shard }

// setPush replaces the record of a position under a new version, so that a pusher that is at work with the old one is
// refused.
func (m *moveEvaluation) setPush(key string, before []byte, least Record) {
	p, err := pushOf("", "", least, true)
	if old, _ := pushOf("", "", Record{Value: before}, before != nil); err != nil ||
		bytes.Equal(old.Position, p.Position) {
		return
	}
	p.Version++ //mutant:pusher-at-work-steps-over
	m.write(Put{Key: key, Record: Record{Value: p.encode(), ForgetAt: least.ForgetAt}})
}

// abort gives the move up at once, so that no page can follow, and then removes the pages.
func (m *moveEvaluation) abort() *Error {
	switch {
	case m.is(SlotAborted) && m.status.Ended:
		return nil
	case m.is(SlotAborted), m.is(SlotImporting), m.untaken(): //mutant:abort-after-take
		all := m.remove()
		m.set(SlotStatus{State: SlotAborted, Generation: m.t.Generation, Other: m.t.From, Ended: all})
		return nil
	}
	return m.refuse("")
}
