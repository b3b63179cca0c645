package shard

import (
	"github.com/cespare/xxhash/v2"

	"github.com/stint-io/stint/limit"
)

// segmentRecords is how many records a segment holds on average before the table grows: small enough to scan and to
// copy in a microsecond, large enough that the garbage collector sees few objects. The table shrinks when a segment
// holds less than fewRecords on average, so that a flood of keys that ended costs no memory.
const (
	segmentRecords = 32
	fewRecords     = segmentRecords / 4
)

// table holds the records of one shard in segments that a picture shares until they change. It grows by one segment
// at a time and shrinks the same way (linear hashing: Litwin, "Linear hashing: a new tool for file and table
// addressing", VLDB 1980), so no entry ever pays for rehashing everything.
//
// Which records are there, and in which segment, is a function of the entries installed alone: replicas forget the
// same keys at the same entry.
type table struct {
	segments   []*segment // 1<<level + split of them; the first split ones are addressed with one more bit
	level      uint
	generation uint64 // segments of an older generation are shared with a picture: copied before they change
	records    int
	sum        uint64 // sum of the records' own sums, in any order
	cursor     int    // next segment to be searched for records that ended
	bytes      int    // of the segments, as weigh found them
}

func newTable() *table {
	t := &table{segments: []*segment{{forgetFirst: limit.Forever}}}
	t.weigh(t.segments[0])
	return t
}

func (t *table) segmentIndex(hash uint64) int {
	n := hash & (1<<(t.level+1) - 1)
	if n >= uint64(len(t.segments)) {
		n &= 1<<t.level - 1
	}
	return int(n)
}

func (t *table) lookup(key string) (Record, bool) {
	hash := xxhash.Sum64String(key)
	g := t.segments[t.segmentIndex(hash)]
	i := g.find(hash, key)
	if i < 0 {
		return Record{}, false
	}
	_, r := g.record(i)
	return r, true
}

// put makes r the record of key.
func (t *table) put(key string, r Record) {
	hash := xxhash.Sum64String(key)
	g := t.own(t.segmentIndex(hash))
	if i := g.find(hash, key); i >= 0 {
		_, old := g.record(i)
		t.sum -= recordSum(hash, old)
		g.replace(i, key, r)
	} else {
		g.add(hash, key, r)
		t.records++
	}
	t.weigh(g)
	t.sum += recordSum(hash, r)
	if t.records > len(t.segments)*segmentRecords {
		t.grow()
	}
}

// forget drops the record of key, if there is one.
func (t *table) forget(key string) {
	hash := xxhash.Sum64String(key)
	n := t.segmentIndex(hash)
	if i := t.segments[n].find(hash, key); i >= 0 {
		t.drop(t.own(n), i, hash)
		t.shrink()
	}
}

func (t *table) drop(g *segment, i int, hash uint64) {
	_, old := g.record(i)
	t.sum -= recordSum(hash, old)
	g.remove(i)
	t.weigh(g)
	t.records--
}

// weigh makes the table's bytes true again after g, a segment of its own, was changed.
func (t *table) weigh(g *segment) {
	bytes := g.bytes()
	t.bytes += bytes - g.weighed
	g.weighed = bytes
}

// sweep searches the next n segments for records that say nothing any more at now, and drops them.
func (t *table) sweep(n int, now limit.Time) {
	for range min(n, len(t.segments)) {
		if t.segments[t.cursor].forgetFirst <= now {
			t.sweepSegment(t.own(t.cursor), now)
		}
		t.cursor = (t.cursor + 1) % len(t.segments)
	}
	t.shrink()
}

func (t *table) sweepSegment(g *segment, now limit.Time) {
	first := limit.Forever
	for i := len(g.slots) - 1; i >= 0; i-- {
		key, r := g.record(i)
		if r.ForgetAt <= now {
			t.drop(g, i, xxhash.Sum64(key))
		} else {
			first = min(first, r.ForgetAt)
		}
	}
	g.forgetFirst = first
}

// own returns a segment that no picture shares.
func (t *table) own(n int) *segment {
	g := t.segments[n]
	if g.generation != t.generation {
		g = g.clone(t.generation)
		t.segments[n] = g
		t.weigh(g)
	}
	return g
}

// grow adds one segment and moves the records that belong there now out of the one it was split from.
func (t *table) grow() {
	split := len(t.segments) - 1<<t.level
	from := t.own(split)
	to := &segment{generation: t.generation, forgetFirst: limit.Forever}
	t.segments = append(t.segments, to)
	for i := len(from.slots) - 1; i >= 0; i-- {
		key, r := from.record(i)
		hash := xxhash.Sum64(key)
		if t.segmentIndexAfterSplit(hash) != split {
			to.add(hash, string(key), r)
			from.remove(i)
		}
	}
	from.compact()
	t.weigh(from)
	t.weigh(to)
	if len(t.segments) == 2<<t.level {
		t.level++
	}
}

// shrink undoes the newest splits until the segments are filled well enough again. There are never more than
// records / fewRecords + 1.
func (t *table) shrink() {
	for t.records < (len(t.segments)-1)*fewRecords {
		if len(t.segments) == 1<<t.level {
			t.level--
		}
		last := len(t.segments) - 1
		from, to := t.segments[last], t.own(last-1<<t.level)
		for i := range from.slots {
			key, r := from.record(i)
			to.add(xxhash.Sum64(key), string(key), r)
		}
		t.weigh(to)
		t.bytes -= from.weighed
		t.segments[last] = nil
		t.segments = t.segments[:last]
	}
	t.cursor %= len(t.segments)
}

func (t *table) segmentIndexAfterSplit(hash uint64) int {
	return int(hash & (1<<(t.level+1) - 1))
}

// share gives the segments to a picture: from here on each is copied before it changes.
func (t *table) share() []*segment {
	t.generation++
	return append([]*segment(nil), t.segments...)
}

// recordSum is one record's part of the fingerprint.
func recordSum(keyHash uint64, r Record) uint64 {
	x := keyHash ^ xxhash.Sum64(r.Value)*0x9e3779b97f4a7c15 ^ uint64(r.ForgetAt)*0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	return x
}
