package shard

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/codec"
)

const (
	// auditKept is how many changes a shard keeps. Their places are numbered, so that they need no sweep and their size
	// is bounded.
	auditKept = 1024
	// auditRead is how many changes ReadAudit returns at most, and auditReadBytes is roughly how many bytes of them: an
	// answer must fit into a frame between nodes.
	auditRead      = 1000
	auditReadBytes = 1 << 20

	// MaxActor and MaxNote bound the Actor and the Note of an Adjustment, in bytes.
	MaxActor = 128
	MaxNote  = 512
)

// AuditRecord is one change by hand.
type AuditRecord struct {
	At                     limit.Time
	Position               Position
	Actor                  string
	Namespace, Policy, Key string
	Limit                  string // "" for all limits
	// Deed is "reset", "set", "add", "block", "unblock", "put_override", "delete_override", "correct" or "forget";
	// "replay" or "restore", which are in the default namespace and have no key; "apply" in the history of a document;
	// "unreadable" in place of a record that this version cannot read.
	Deed          string
	Before, After string // in words
	Note          string
}

// auditProblem refuses texts that would make an audit record too large. nil leaves none.
func (a *Adjustment) auditProblem() *Error {
	switch {
	case a == nil:
		return nil
	case len(a.Actor) > MaxActor:
		return Invalidf("actor", "has %d bytes: at most %d are allowed", len(a.Actor), MaxActor)
	case len(a.Note) > MaxNote:
		return Invalidf("note", "has %d bytes: at most %d are allowed", len(a.Note), MaxNote)
	}
	return nil
}

// auditLog is the list of the newest changes of the shard.
type auditLog struct{ *batch }

// note records a change that is made now. It takes the actor and the note from by, and the rest from a.
func (l auditLog) note(by *Adjustment, a AuditRecord) {
	a.At, a.Position, a.Actor, a.Note = l.at.Now, l.at.Position, by.Actor, by.Note
	l.append(a)
}

// append records a change. If all places are taken, it replaces the oldest change of the actor with the most changes,
// so that no actor displaces the changes of one with fewer.
func (l auditLog) append(a AuditRecord) {
	n, by := l.count(), provenActor(a.Actor)
	place := n
	if n >= auditKept { //mutant:audit-emptied-by-one
		place = l.replaced(n, by)
		l.changes[place%auditKept] = auditChange{by, a.At}
	}
	l.write(Put{Key: auditKey(place), Record: Record{Value: encodeAudit(&a), ForgetAt: limit.Forever}})
	n++
	head := encodeRecord(func(c *MessageCodec) { c.Uint64(&n) })
	l.write(Put{Key: string(auditHeadRecord), Record: Record{Value: head, ForgetAt: limit.Forever}})
}

// auditChange is the actor and the time of a change; both are zero if it cannot be read.
type auditChange struct {
	by string
	at limit.Time
}

// replaced returns the place of the change that the n-th change, made by an actor, replaces.
func (l auditLog) replaced(n uint64, by string) (place uint64) {
	type share struct {
		changes int
		oldest  uint64
		at      limit.Time
	}
	l.readChanges()
	shares := map[string]*share{by: {changes: 1, at: limit.Forever}}
	for old := n - auditKept; old < n; old++ { // mostly in the order of time
		m := &l.changes[old%auditKept]
		of := shares[m.by]
		if of == nil {
			of = &share{at: limit.Forever}
			shares[m.by] = of
		}
		if of.changes++; m.at < of.at {
			of.oldest, of.at = old, m.at
		}
	}
	var most share
	for _, of := range shares {
		if of.changes > most.changes || of.changes == most.changes &&
			(of.at < most.at || of.at == most.at && of.oldest < most.oldest) {
			most = *of
		}
	}
	return most.oldest
}

// readChanges reads the ring once for all changes of a batch: the shard decides nothing meanwhile.
func (l auditLog) readChanges() {
	if l.changes != nil {
		return
	}
	l.changes = make([]auditChange, auditKept)
	for place := range l.changes {
		if record, found := l.lookup(auditKey(uint64(place))); found {
			a, _ := decodeAudit(record.Value)
			l.changes[place] = auditChange{provenActor(a.Actor), a.At}
		}
	}
}

// provenActor returns the token, role or socket of an actor, without the person that it names: it may name any number
// of them.
func provenActor(actor string) string {
	name, _, _ := strings.Cut(actor, " for ")
	return name
}

// count returns how many changes were ever recorded. If the record cannot be read, the count starts again from 0: a
// broken audit log must not prevent changes.
func (l auditLog) count() uint64 {
	record, _ := l.lookup(string(auditHeadRecord))
	n, _ := decodeAuditHead(record.Value)
	return n
}

// read lists the newest changes of the shard, newest first. An unreadable one is listed as unreadable.
func (l auditLog) read() Result {
	var newest []AuditRecord
	count, bytes := l.count(), 0
	for n := count; n > count-min(count, auditKept); n-- {
		record, found := l.lookup(auditKey(n - 1))
		if !found {
			break
		}
		a, err := decodeAudit(record.Value)
		if err != nil {
			a = AuditRecord{Deed: "unreadable", Note: "this version cannot read the record: run a newer one"}
		}
		newest = append(newest, a)
	}
	slices.SortStableFunc(newest, func(a, b AuditRecord) int { return cmp.Compare(b.At, a.At) })
	for i := range newest {
		if bytes += newest[i].size(); i == auditRead || bytes > auditReadBytes {
			newest = newest[:i]
			break
		}
	}
	return l.answerOf(SystemAnswer{Audit: newest})
}

// auditKey returns the record key of the n-th change, counted from 0: its place in the ring.
func auditKey(n uint64) string {
	return string(binary.BigEndian.AppendUint16([]byte{auditRecord}, uint16(n%auditKept)))
}

// size is roughly how many bytes a record has in an answer.
func (a *AuditRecord) size() int {
	return 40 + len(a.Actor) + len(a.Namespace) + len(a.Policy) + len(a.Key) + len(a.Limit) + len(a.Deed) +
		len(a.Before) + len(a.After) + len(a.Note)
}

// encodeAudit writes a record. The shard is the one that the change was made on.
func encodeAudit(a *AuditRecord) []byte { return encodeRecord(a.code) }

func decodeAudit(value []byte) (AuditRecord, error) {
	a, err := decodeRecord(value, "a change by hand", (*AuditRecord).code)
	return *a, err
}

func decodeAuditHead(value []byte) (uint64, error) {
	n, err := decodeRecord(value, "the number of changes", func(n *uint64, c *MessageCodec) { c.Uint64(n) })
	return *n, err
}

func (a *AuditRecord) code(c *MessageCodec) {
	codec.Int(&c.Codec, &a.At)
	c.position(&a.Position)
	c.Text(&a.Actor, &a.Namespace, &a.Policy, &a.Key, &a.Limit, &a.Deed, &a.Before, &a.After, &a.Note)
}
