package shard

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stint-io/stint/policy"
)

// Forget deletes a shard's records of one key, at the request of a person. The key's counters live on its own shard,
// but the ruling of an operation on several shards names the keys of its legs too, so every shard is asked.
//
// A shard cannot look up a key of an unknown policy: the policy may no longer exist, or the limits were inline. So a
// Forget reads every record. It is alone in its batch, and finds its records in the view.
//
//   - A counter is removed, with its holds, ladder, block and override. The id of such a hold is answered like that of
//     an expired one. The other keys of the hold keep their part until it expires. If one has bills and the request
//     does not say that they end too, all of the request is refused.
//   - A hold on several shards expires now, by a ruling of home. While a leg or a home has yet to hear of an outcome,
//     the counter and the record stay: Forgot.Open. This ends soon, and the caller asks again.
//   - The record of an ended operation must stay, or it could be settled a second time. It no longer names the key, and
//     gives nothing back to it.
//   - A counter with leased units keeps nothing but its leases, until they end and what they spent is at rest.
//   - An audit record stays, and no longer names the key.
//
// Answers to ids and sessions, and the ends of holds, hold no key: they have a number in its place.

// Forgot is the result of a Forget on one shard.
type Forgot struct {
	Counters   uint32 // removed: one for each policy that has counted the key
	Holds      uint32 // open ones that ended early
	Operations uint32 // records of ended operations that no longer name the key
	Audit      uint32 // audit records that no longer name the key
	Open       uint32 // records that still name the key, until an operation on several shards has ended: ask again
	More       bool   // not everything fitted into one entry: ask again
}

// ForgottenKey stands for a forgotten key in audit records.
const ForgottenKey = "(forgotten)"

// forgetting is one Forget.
type forgetting struct {
	*evaluation
	r         *Request
	namespace string
	key       string
	done      Forgot
}

func (e *evaluation) forget(r *Request) Result {
	a := r.Adjustment
	switch {
	case e.at.Shard == System:
		return Result{Err: Invalidf("", "the system shard holds documents and no keys")}
	case a == nil || a.Forget == "" || len(r.Namespace)+len(a.Forget) > textMost:
		return Result{Err: Invalidf("key", "is missing, or has more than %d bytes with the namespace", textMost)}
	case a.auditProblem() != nil:
		return Result{Err: a.auditProblem()}
	}
	f := forgetting{evaluation: e, r: r, namespace: r.Namespace, key: a.Forget}
	keys := f.find()
	if !a.Bills { //mutant:bills-forgotten-unasked
		if err := f.billed(keys); err != nil {
			return Result{Err: err}
		}
	}
	for _, key := range keys {
		if e.bytes > MaxEntryBytes/2 {
			f.done.More = true
			break
		}
		if err := f.end(key); err != nil {
			return Result{Err: err}
		}
	}
	f.record()
	d := e.newDecision()
	e.number(&d)
	d.System = &SystemAnswer{Forgot: f.done, Slots: slotsServed(e.view, e.slotted, &e.at)}
	return Result{Decision: d}
}

// find lists the records that may name the key: operations first, because the units that they hold leave the counters
// with them.
func (f *forgetting) find() (keys []string) {
	key, shown := []byte(f.key), showing(f.view, f.slotted)
	for k, r := range f.view.All() {
		if len(k) == 0 { // a flipped bit has made it unreadable
			continue
		}
		switch k[0] {
		case counterRecord, cooldownRecord:
			//mutant:longer-neighbor-forgotten
			if namespace, _, name, _ := readKeyOf(k); string(namespace) != f.namespace || string(name) != f.key {
				continue
			}
		case legRecord, rulingRecord:
			if namespace, _, _ := readIDKey(string(k)); namespace != f.namespace || !bytes.Contains(r.Value, key) {
				continue
			}
		case auditRecord, eventRecord, deadLetterRecord, pastEventRecord:
			if !bytes.Contains(r.Value, key) {
				continue
			}
		default:
			continue
		}
		if !shown.has(string(k)) { //mutant:forgotten-while-it-moves
			// While the slot moves, the record may be copied, or be the copy: ask again. Otherwise it is about to be
			// removed.
			f.done.Open += uint32(bit(shown.status.State == SlotFrozen || shown.status.State == SlotImporting))
			continue
		}
		keys = append(keys, string(k))
	}
	slices.SortFunc(keys, func(a, b string) int { return strings.Compare(b, a) }) // 'u', 'o', 'l', 'k'
	return keys
}

// billed returns an error that counts the bills of the key, or nil if there are none.
func (f *forgetting) billed(keys []string) *Error {
	mark, err := f.restored()
	if err != nil {
		return err
	}
	u := usageReader{UsageQuery: UsageQuery{Key: f.key}, namespace: f.namespace, policies: f.policies, mark: mark,
		shown: showing(f.view, f.slotted), page: UsagePage{Through: f.at.Now}}
	for _, key := range keys {
		if record, found := f.lookup(key); found {
			if err := u.read([]byte(key), record); err != nil {
				return err
			}
		}
	}
	if len(u.page.Periods) == 0 {
		return nil
	}
	counts := make(map[string]int)
	for i := range u.page.Periods {
		counts[u.page.Periods[i].Policy]++
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d of %s", counts[name], name))
	}
	return errorf(Conflict, "bills", "the key has bills, which would end with it: %s; its shard has forgotten "+
		"nothing: list them (stint usage --key), keep them, and ask for bills too (stint keys forget --bills)",
		strings.Join(parts, ", "))
}

// end deletes one record, or its mention of the key.
func (f *forgetting) end(key string) *Error {
	record, found := f.lookup(key)
	switch {
	case !found, key[0] == cooldownRecord: // one that is not found has ended, and was not swept yet
		f.write(Put{Key: key})
	case key[0] == counterRecord:
		return f.endCounter(key, record)
	case key[0] == legRecord:
		return f.endLeg(key, record)
	case key[0] == rulingRecord:
		return f.endRuling(key, record)
	case key[0] == auditRecord:
		f.endAudit(key, record)
	default:
		f.endEvent(key, record)
	}
	return nil
}

// endCounter removes a counter, unless an operation on several shards holds units of it. It also removes an unreadable
// one.
func (f *forgetting) endCounter(key string, record Record) *Error {
	c := f.metCounter([]byte(key))
	if c == nil {
		mark, err := f.restored()
		if err != nil {
			return err
		}
		c = &counter{key: key, known: true, size: len(key) + 20, mark: mark, policy: policyAtKey(f.policies, key)}
		if c.decode(record.Value, nil) != nil {
			c.limits, c.extras, c.meters, c.marks = nil, nil, nil, nil
		}
		c.expire(f.at.Now)
		f.meetCounter(c)
	}
	for _, h := range c.extras.openHolds() {
		if h.remote { //mutant:forgotten-under-an-open-leg
			f.done.Open++
			return nil
		}
	}
	f.done.Counters++
	leases := c.extras.openLeases()
	f.done.Holds += uint32(len(c.extras.openHolds()) - len(leases))
	var limits []policy.Limit // that are to count the leases, of the tier that the key has now
	if p, known := f.policies.Lookup(policyOfKey(key)); known && len(leases) > 0 {
		limits = p.OfTier(p.TierOf(c.has, c.override()), nil) //mutant:forgotten-lease-changes-its-tier
	}
	c.limits, c.extras, c.ladderKnown, c.meters, c.marks = c.limits[:0], nil, false, nil, nil
	// Leases may still be spent. They are no reason to ask again, which would remove what was counted since.
	for _, h := range leases {
		f.openLease(c, limits, h) //mutant:forgotten-lease-is-free
	}
	f.touch(c)
	return nil
}

// endLeg removes the key from the record of an ended leg. Its entry stays, without a key, since a settlement names
// costs by their places (settlePart).
func (f *forgetting) endLeg(key string, record Record) *Error {
	l, err := decodeLeg(record.Value)
	if err != nil {
		return unreadable("key", "what an operation on several shards has charged it", err)
	}
	switch {
	case !f.isNamed(l.entries, &l.answer):
		return nil
	case !l.state.ended():
		f.done.Open++
		return nil
	}
	for i := range l.entries {
		if l.entries[i].Key == f.key {
			l.entries[i].Key = ""
		}
	}
	f.hide(&l.answer)
	f.done.Operations++
	f.write(Put{Key: key, Record: Record{Value: l.encode(), ForgetAt: record.ForgetAt}})
	return nil
}

// endRuling removes the key from the record of an ended operation. A hold expires first.
func (f *forgetting) endRuling(key string, record Record) *Error {
	u, err := decodeRuling(record.Value)
	if err != nil {
		return unreadable("key", "what became of an operation on several shards", err)
	}
	decisions := []*Decision{&u.answer}
	for i := range u.legs {
		decisions = append(decisions, &u.legs[i].Decision)
	}
	if u.settled != nil {
		decisions = append(decisions, &u.settled.answer)
	}
	switch {
	case !f.isNamed(u.entries, decisions...):
		return nil
	case u.state == OperationHeld: //mutant:held-operation-outlives-its-key
		f.done.Holds++
		f.done.Open++
		return f.expireHeld(key, u)
	case u.isPending():
		f.done.Open++
		return nil
	}
	u.entries = slices.DeleteFunc(u.entries, func(e Entry) bool { return e.Key == f.key }) // they end nothing any more
	for _, d := range decisions {
		f.hide(d)
	}
	f.done.Operations++
	f.write(Put{Key: key, Record: Record{Value: u.encode(), ForgetAt: record.ForgetAt}})
	return nil
}

// expireHeld lets a hold on several shards expire before its time.
func (f *forgetting) expireHeld(key string, u *ruling) *Error {
	_, home, id := readIDKey(key)
	part := partEvaluation{f.evaluation, &Request{Namespace: f.namespace, Operation: &Operation{ID: id, Home: home}}}
	return homeEvaluation{part, key}.expireRuling(u)
}

// endAudit removes the key from an audit record.
func (f *forgetting) endAudit(key string, record Record) {
	a, err := decodeAudit(record.Value)
	if err != nil || a.Namespace != f.namespace {
		return
	}
	note := withoutWord(a.Note, f.key)
	if a.Key != f.key && note == a.Note {
		return
	}
	if a.Note = note; a.Key == f.key {
		a.Key = ForgottenKey //mutant:audit-keeps-the-key
	}
	f.done.Audit++
	f.write(Put{Key: key, Record: Record{Value: encodeAudit(&a), ForgetAt: record.ForgetAt}})
}

// endEvent removes an event of the key from any list. It is no longer sent to any sink.
func (f *forgetting) endEvent(key string, record Record) {
	e, err := decodeEvent(record.Value)
	if err != nil || e.Namespace != f.namespace || e.Key != f.key {
		return
	}
	o := openOutbox(&f.batch)
	if key[0] == eventRecord {
		o.drop(key, record) //mutant:forgotten-key-in-events
	} else {
		o.head.dead -= min(bitOf(key[0] == deadLetterRecord), o.head.dead)
		f.write(Put{Key: key})
	}
	o.save()
}

// record leaves an audit record, if the request has an actor.
func (f *forgetting) record() {
	by := *f.r.Adjustment
	if by.Actor == "" {
		return
	}
	by.Note = withoutWord(by.Note, f.key)
	auditLog{&f.batch}.note(&by, AuditRecord{
		Namespace: f.namespace,
		Key:       ForgottenKey,
		Deed:      Forget.Deed(),
		Before:    fmt.Sprintf("%d counters, %d open holds", f.done.Counters, f.done.Holds),
		After:     "none",
	})
}

// isNamed reports whether entries or statuses name the key.
func (f *forgetting) isNamed(entries []Entry, decisions ...*Decision) bool {
	return slices.ContainsFunc(entries, func(e Entry) bool { return e.Key == f.key }) ||
		slices.ContainsFunc(decisions, func(d *Decision) bool { return slices.ContainsFunc(d.Limits, f.isOf) })
}

func (f *forgetting) isOf(s LimitStatus) bool { return s.Key == f.key }

// hide drops the statuses of the key.
func (f *forgetting) hide(d *Decision) { d.Limits = slices.DeleteFunc(d.Limits, f.isOf) }

// dropForgotten drops the entries of keys that were forgotten since the charge, with their costs in a settlement.
func (l *leg) dropForgotten(s *Settlement) {
	for i := len(l.entries) - 1; i >= 0; i-- {
		if l.entries[i].Key != "" {
			continue
		}
		l.entries = slices.Delete(l.entries, i, i+1)
		if i < len(s.Actual) {
			s.Actual = slices.Delete(slices.Clone(s.Actual), i, i+1)
		}
	}
}

// withoutWord replaces a key in a text only as a whole word: a short key may be a part of other words.
func withoutWord(text, key string) string {
	var b strings.Builder
	for from := 0; ; {
		at := strings.Index(text[from:], key)
		if at < 0 {
			return b.String() + text[from:]
		}
		at += from
		b.WriteString(text[from:at])
		from = at + len(key)
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		after, _ := utf8.DecodeRuneInString(text[from:])
		if isPartOfWord(before) || isPartOfWord(after) {
			b.WriteString(key)
		} else {
			b.WriteString(ForgottenKey)
		}
	}
}

func isPartOfWord(c rune) bool {
	return c != utf8.RuneError && (unicode.IsLetter(c) || unicode.IsDigit(c))
}
