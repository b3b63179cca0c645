package table

import (
	"iter"
	"unsafe"

	"github.com/cespare/xxhash/v2"

	"github.com/stint-io/stint/limit"
)

// segmentRecords is how many records a segment holds on average before its part grows. The part shrinks when a segment
// holds fewer than fewRecords on average, so that a flood of keys that have ended costs no memory.
const (
	segmentRecords = 32
	fewRecords     = segmentRecords / 4
)

// Layout describes the keys of a Table. Its methods are called for each change, and must not keep the key.
type Layout interface {
	// Parts returns the number of parts, from 1 to 2048. It never changes.
	Parts() int
	// Part returns the part to which a key belongs, from 0 to Parts()-1. It never changes.
	Part(key string) int
	// Head returns how many bytes at the beginning of a key it has in common with many others, or 0. In memory a record
	// has a number in place of them.
	Head(key string) int
}

// Count is called with each change: the number of records more, 1, 0 or -1, and of bytes of keys and values. It must
// not keep the key.
type Count func(key string, records, bytes int)

// Table holds records in segments that a Picture shares until they change.
type Table struct {
	layout     Layout
	count      Count
	parts      []part // by number
	generation uint64 // older ones are shared with a Picture, and copied before they change
	records    int
	bytes      int    // of the segments, as last weighed
	sum        uint64 // of the records' own sums; independent of their order
	ending     endings
	sweeper    cursor // the next to sweep
	heads      heads
	room       []byte // for a key; reused by every change
	staying    packed // records that stay in a segment; reused by every sweep and split
	moving     packed // records for the segment that is split from it
}

// cursor is a segment of a part. If it does not exist, the part has shrunk, or is empty.
type cursor struct{ part, segment int }

// New returns an empty table.
func New(layout Layout, count Count) *Table {
	return &Table{layout: layout, count: count, parts: make([]part, layout.Parts()), heads: heads{texts: &headTexts{}}}
}

// Records returns the number of records, including some that have ended and are not yet swept.
func (t *Table) Records() int { return t.records }

// Bytes returns the memory of the records: their bytes, the index, and spare capacity.
func (t *Table) Bytes() int { return t.bytes }

// Lookup returns the record of a key. Its value belongs to the table: the caller must read it before the next change,
// and must not change it.
func (t *Table) Lookup(key string) (Record, bool) {
	hash := xxhash.Sum64String(key)
	g := t.parts[t.layout.Part(key)].segmentOf(hash)
	at, found := g.find(t.heads.texts, hash, key)
	if !found {
		return Record{}, false
	}
	return g.open(at).Record, true
}

// All yields every record, in no order. The key is valid until the next one, and the record until the next change.
func (t *Table) All() iter.Seq2[[]byte, Record] {
	return func(yield func([]byte, Record) bool) {
		var key []byte
		for i := range t.parts {
			for _, g := range t.parts[i].segments {
				for at := g.first(); !g.past(at); {
					s := g.open(at)
					key = s.appendKey(key[:0], t.heads.texts)
					if !yield(key, s.Record) {
						return
					}
					at = s.next
				}
			}
		}
	}
}

// Put makes r the record of key.
func (t *Table) Put(key string, r Record) {
	hash := xxhash.Sum64String(key)
	p := t.own(t.layout.Part(key))
	if len(p.segments) == 0 {
		t.append(p)
	}
	g := t.ownSegment(p, p.index(hash))
	if at, found := g.find(t.heads.texts, hash, key); found {
		old := g.open(at)
		t.leave(hash, old.Record)
		if len(old.Value) != len(r.Value) {
			t.count(key, 0, len(r.Value)-len(old.Value))
		}
		g.replace(&old, r)
	} else {
		head, rest := t.take(key)
		g.add(hash, head, rest, r)
		t.records++
		p.records++
		t.count(key, 1, len(key)+len(r.Value))
	}
	t.weigh(g)
	t.enter(hash, r)
	if p.records > len(p.segments)*segmentRecords {
		t.grow(p)
	}
}

// Forget removes the record of key, if there is one.
func (t *Table) Forget(key string) {
	hash := xxhash.Sum64String(key)
	n := t.layout.Part(key)
	at, found := t.parts[n].segmentOf(hash).find(t.heads.texts, hash, key)
	if !found {
		return
	}
	p := t.own(n)
	g := t.ownSegment(p, p.index(hash))
	s := g.open(at)
	t.uncount(p, &s)
	g.remove(&s)
	t.weigh(g)
	t.shrink(p)
}

// uncount removes a record that is about to be removed from all counts.
func (t *Table) uncount(p *part, s *stored) {
	key := t.key(s)
	t.leave(xxhash.Sum64String(key), s.Record)
	t.count(key, -1, -len(key)-len(s.Value)) //mutant:swept-counts-forever
	t.release(s.head)
	t.records--
	p.records--
}

// key returns the record's key until the next change.
func (t *Table) key(s *stored) string {
	t.room = s.appendKey(t.room[:0], t.heads.texts)
	return unsafe.String(unsafe.SliceData(t.room), len(t.room))
}

// enter and leave update the sums.
func (t *Table) enter(hash uint64, r Record) {
	sum := r.sum(hash)
	t.sum += sum
	t.ending.add(r.ForgetAt, sum)
}

func (t *Table) leave(hash uint64, r Record) {
	sum := r.sum(hash)
	t.sum -= sum
	t.ending.add(r.ForgetAt, -sum)
}

// SumAfter returns the sum of the records that end after the minute of now.
func (t *Table) SumAfter(now limit.Time) uint64 { return t.ending.after(now) }

// weigh updates the table's bytes after a change of g, a segment of its own.
func (t *Table) weigh(g *segment) {
	bytes := g.bytes()
	t.bytes += bytes - int(g.weighed)
	g.weighed = uint32(bytes)
}

// Sweep searches for records that have ended at now, and removes them, until it has looked at so many segments, or
// parts without one, or has removed about so many records. The next Sweep continues there.
func (t *Table) Sweep(segments, records int, now limit.Time) {
	least := t.records - records
	for range segments {
		if t.records <= least {
			return
		}
		p := &t.parts[t.sweeper.part]
		if n := t.sweeper.segment; n < len(p.segments) && p.segments[n].forgetFirst <= now {
			p = t.own(t.sweeper.part)
			t.sweepSegment(p, t.ownSegment(p, n), now)
			t.shrink(p)
		}
		if t.sweeper.segment++; t.sweeper.segment >= len(p.segments) {
			t.sweeper = cursor{part: (t.sweeper.part + 1) % len(t.parts)}
		}
	}
}

// sweepSegment removes the records of an own segment that have ended at now. Its forgetFirst is then exact.
func (t *Table) sweepSegment(p *part, g *segment, now limit.Time) {
	g.forgetFirst = limit.Forever
	t.staying.clear()
	for at := g.first(); !g.past(at); {
		s := g.open(at)
		at = s.next
		if s.ForgetAt > now { //mutant:records-forgotten-early
			g.forgetFirst = min(g.forgetFirst, s.ForgetAt)
			t.staying.add(g, &s)
			continue
		}
		t.uncount(p, &s)
	}
	if t.staying.records() < g.records {
		g.keep(&t.staying)
		t.weigh(g)
	}
}
