package table

import (
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/stint-io/stint/limit"
)

// part is the records of one part: 1<<level + split segments; the first split of them are addressed with one more bit.
// An empty part has none.
type part struct {
	segments   []*segment
	records    int
	generation uint64 // of the table when the list of segments was copied; each segment has its own
}

// level returns how many bits of a hash address a segment, at least. There must be a segment.
func (p *part) level() int { return bits.Len(uint(len(p.segments))) - 1 }

// index returns the index of the segment for a hash. There must be a segment.
func (p *part) index(hash uint64) int {
	level := p.level()
	n := int(hash & (1<<(level+1) - 1))
	if n >= len(p.segments) {
		n &= 1<<level - 1
	}
	return n
}

// noSegment stands for the segment of an empty part. It must not be changed.
var noSegment segment

// segmentOf returns the segment for a hash, to be read.
func (p *part) segmentOf(hash uint64) *segment {
	if len(p.segments) == 0 {
		return &noSegment
	}
	return p.segments[p.index(hash)]
}

// own returns a part with a list of segments that no Picture shares.
func (t *Table) own(n int) *part {
	p := &t.parts[n]
	if p.generation != t.generation {
		p.segments, p.generation = slices.Clone(p.segments), t.generation
	}
	return p
}

// ownSegment returns a segment of an own part that no Picture shares.
func (t *Table) ownSegment(p *part, n int) *segment {
	g := p.segments[n]
	if g.generation != t.generation {
		g = g.clone(t.generation)
		p.segments[n] = g
		t.weigh(g)
	}
	return g
}

// append adds an empty segment at the end of an own part.
func (t *Table) append(p *part) *segment {
	g := &segment{generation: t.generation, forgetFirst: limit.Forever}
	p.segments = append(p.segments, g)
	t.weigh(g)
	return g
}

// grow adds one segment and moves records into it from the segment that is split.
func (t *Table) grow(p *part) {
	level := p.level()
	split := len(p.segments) - 1<<level
	from, to := t.ownSegment(p, split), t.append(p)
	var key [128]byte
	t.staying.clear()
	t.moving.clear()
	for at := from.first(); !from.past(at); {
		s := from.open(at)
		at = s.next
		if xxhash.Sum64(s.appendKey(key[:0], t.heads.texts))&(1<<(level+1)-1) != uint64(split) {
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
}

// shrink undoes the newest splits of an own part until its segments are full enough again. There are never more than
// records / fewRecords + 1.
func (t *Table) shrink(p *part) {
	for len(p.segments) > 1 && p.records < (len(p.segments)-1)*fewRecords {
		last := len(p.segments) - 1
		from := p.segments[last]
		p.segments[last] = nil
		p.segments = p.segments[:last]
		to := t.ownSegment(p, last-1<<(bits.Len(uint(last))-1))
		to.addAll(from)
		t.weigh(to)
		t.bytes -= int(from.weighed)
	}
}
