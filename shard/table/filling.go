package table

import (
	"github.com/cespare/xxhash/v2"

	"github.com/stint-io/stint/limit"
)

// filling builds a table from records that arrive part by part and segment by segment, as in a picture. Each segment is
// made once and in its exact size, when its last record has arrived.
type filling struct {
	*Table
	number int // of the part being filled
	*part
	full part    // with as many segments as the part will have
	at   int     // the segment being filled
	next segment // its contents
}

func (f *filling) begin(p partHead) {
	f.number, f.part, f.at = int(p.part), &f.parts[p.part], 0
	f.full = part{segments: make([]*segment, p.segments)}
	f.next = segment{data: f.next.data[:0], forgetFirst: limit.Forever}
}

// add adds the next record. It returns false if the record belongs in an earlier segment or another part, or is already
// there.
func (f *filling) add(key string, r Record) bool {
	hash := xxhash.Sum64String(key)
	n := f.full.index(hash)
	if n > f.at {
		f.finish(n)
	}
	if _, found := f.next.find(f.heads.texts, hash, key); n < f.at || found || f.layout.Part(key) != f.number {
		return false
	}
	head, rest := f.take(key)
	f.next.add(hash, head, rest, r)
	f.part.records++
	f.Table.records++
	f.enter(hash, r)
	f.count(key, 1, len(key)+len(r.Value)) //mutant:snapshot-forgets-shares
	return true
}

// finish stores a copy of the collected contents as the segment, and goes on with the segment n.
func (f *filling) finish(n int) {
	for f.full.segments[f.at] = f.next.clone(0); ; {
		f.weigh(f.full.segments[f.at])
		f.next = segment{data: f.next.data[:0], forgetFirst: limit.Forever}
		if f.at++; f.at >= n {
			return
		}
		f.full.segments[f.at] = &segment{forgetFirst: limit.Forever}
	}
}

func (f *filling) end() {
	f.finish(len(f.full.segments))
	f.part.segments = f.full.segments
}
