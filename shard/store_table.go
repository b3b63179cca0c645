package shard

import (
	"iter"

	"github.com/cespare/xxhash/v2"

	"github.com/stint-io/stint/limit"
)

// segmentRecords is how many records a segment holds on average before the table grows: few enough to scan and copy in a
// microsecond, and enough that the garbage collector sees few objects. The table shrinks when a segment holds fewer than
// fewRecords on average, so that a flood of keys that have ended costs no memory.
const (
	segmentRecords = 32
	fewRecords     = segmentRecords / 4
)

// table holds the records of one shard in segments that a picture shares until they change. It grows and shrinks by one
// segment at a time (linear hashing: Litwin, "Linear hashing: a new tool for file and table addressing", VLDB 1980), so no
// entry ever pays for rehashing everything.
//
// The records and their segments are a function of the installed entries alone: replicas forget the same keys at the same entry.
type table struct {
	segments directory // 1<<level + split of them; the first split ones are addressed with one more bit
	level    uint
	records  int
	sum      uint64 // of the records' own sums; independent of their order
	ending   endings
	cursor   int // next segment to be swept
	bytes    int // of the segments, as last weighed
	shares   shares
	heads    headNumbers
	room     []byte // for a key; reused by every change
	staying  packed // records that stay in a segment; reused by every sweep and split
	moving   packed // records for the segment that is split from it
}

func newTable() *table {
	t := &table{segments: directory{heads: &heads{}}}
	t.append()
	return t
}

func (t *table) segmentIndex(hash uint64) int {
	n := hash & (1<<(t.level+1) - 1)
	if n >= uint64(t.segments.length) {
		n &= 1<<t.level - 1
	}
	return int(n)
}

func (t *table) lookup(key string) (Record, bool) {
	hash := xxhash.Sum64String(key)
	g := t.segments.at(t.segmentIndex(hash))
	at, found := g.find(t.segments.heads, hash, key)
	if !found {
		return Record{}, false
	}
	return g.open(at).Record, true
}

// all yields every record, segment by segment. The key is valid until the next one.
func (t *table) all() iter.Seq2[[]byte, Record] {
	return func(yield func([]byte, Record) bool) {
		var key []byte
		for n := range t.segments.length {
			g := t.segments.at(n)
			for at := g.first(); !g.past(at); {
				s := g.open(at)
				key = s.appendKey(key[:0], t.segments.heads)
				if !yield(key, s.Record) {
					return
				}
				at = s.next
			}
		}
	}
}

// put makes r the record of key.
func (t *table) put(key string, r Record) {
	hash := xxhash.Sum64String(key)
	g := t.own(t.segmentIndex(hash))
	if at, found := g.find(t.segments.heads, hash, key); found {
		old := g.open(at)
		t.leave(hash, old.Record)
		if len(old.Value) != len(r.Value) {
			t.shares.grow(key, len(r.Value)-len(old.Value))
		}
		g.replace(&old, r)
	} else {
		head, rest := t.take(key)
		g.add(hash, head, rest, r)
		t.records++
		t.shares.add(key, len(key)+len(r.Value))
	}
	t.weigh(g)
	t.enter(hash, r)
	if t.records > t.segments.length*segmentRecords {
		t.grow()
	}
}

// forget removes the record of key, if there is one.
func (t *table) forget(key string) {
	hash := xxhash.Sum64String(key)
	n := t.segmentIndex(hash)
	at, found := t.segments.at(n).find(t.segments.heads, hash, key)
	if !found {
		return
	}
	g := t.own(n)
	s := g.open(at)
	t.uncount(&s)
	g.remove(&s)
	t.weigh(g)
	t.shrink()
}

// uncount takes a record that is about to be removed out of everything that counts it.
func (t *table) uncount(s *stored) {
	key := t.key(s)
	t.leave(xxhash.Sum64(key), s.Record)
	t.shares.remove(key, len(key)+len(s.Value)) //mutant:swept-counts-forever
	t.release(s.head)
	t.records--
}

// key returns the record's key until the next change.
func (t *table) key(s *stored) []byte {
	t.room = s.appendKey(t.room[:0], t.segments.heads)
	return t.room
}

// enter and leave update the sums.
func (t *table) enter(hash uint64, r Record) {
	sum := recordSum(hash, r)
	t.sum += sum
	t.ending.add(r.ForgetAt, sum)
}

func (t *table) leave(hash uint64, r Record) {
	sum := recordSum(hash, r)
	t.sum -= sum
	t.ending.add(r.ForgetAt, -sum)
}

// weigh updates the table's bytes after a change of g, a segment of its own.
func (t *table) weigh(g *segment) {
	bytes := g.bytes()
	t.bytes += bytes - int(g.weighed)
	g.weighed = uint32(bytes)
}

// sweep searches the next segments for records that have ended at now, and removes them, until it has searched segments
// segments or removed about records records.
func (t *table) sweep(segments, records int, now limit.Time) {
	least := t.records - records
	for range min(segments, t.segments.length) {
		if t.records <= least {
			break
		}
		if t.segments.at(t.cursor).forgetFirst <= now {
			t.sweepSegment(t.own(t.cursor), now)
		}
		t.cursor = (t.cursor + 1) % t.segments.length
	}
	t.shrink()
}

func (t *table) sweepSegment(g *segment, now limit.Time) {
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
		t.uncount(&s)
	}
	if t.staying.records() < g.records {
		g.keep(&t.staying)
		t.weigh(g)
	}
}

// append adds an empty segment at the end.
func (t *table) append() *segment {
	g := &segment{generation: t.segments.generation, forgetFirst: limit.Forever}
	t.segments.append(g)
	t.weigh(g)
	return g
}

// own returns a segment that no picture shares.
func (t *table) own(n int) *segment {
	g := t.segments.at(n)
	if g.generation != t.segments.generation {
		g = g.clone(t.segments.generation)
		t.segments.set(n, g)
		t.weigh(g)
	}
	return g
}

// grow adds one segment and moves records into it from the segment that is split.
func (t *table) grow() {
	split := t.segments.length - 1<<t.level
	from, to := t.own(split), t.append()
	var key [128]byte
	t.staying.clear()
	t.moving.clear()
	for at := from.first(); !from.past(at); {
		s := from.open(at)
		at = s.next
		if t.segmentIndexAfterSplit(xxhash.Sum64(s.appendKey(key[:0], t.segments.heads))) != split {
			t.moving.add(from, &s)
			to.forgetFirst = min(to.forgetFirst, s.ForgetAt)
		} else {
			t.staying.add(from, &s)
		}
	}
	to.fill(&t.moving)
	from.fill(&t.staying)
	t.weigh(from)
	t.weigh(to)
	if t.segments.length == 2<<t.level {
		t.level++
	}
}

// shrink undoes the newest splits until the segments are full enough again. There are never more than records / fewRecords + 1.
func (t *table) shrink() {
	for t.records < (t.segments.length-1)*fewRecords {
		if t.segments.length == 1<<t.level {
			t.level--
		}
		last := t.segments.length - 1
		from, to := t.segments.at(last), t.own(last-1<<t.level)
		to.addAll(from)
		t.weigh(to)
		t.bytes -= int(from.weighed)
		t.segments.removeLast()
	}
	t.cursor %= t.segments.length
}

func (t *table) segmentIndexAfterSplit(hash uint64) int {
	return int(hash & (1<<(t.level+1) - 1))
}

// recordSum returns one record's part of the fingerprint.
func recordSum(keyHash uint64, r Record) uint64 {
	x := keyHash ^ xxhash.Sum64(r.Value)*0x9e3779b97f4a7c15 ^ uint64(r.ForgetAt)*0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	return x
}
