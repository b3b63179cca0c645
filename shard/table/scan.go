package table

import (
	"bytes"
	"cmp"
	"iter"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/cespare/xxhash/v2"
)

// A scan lists records in an order that never changes: by part, then by the hash of the key, read from its lowest bit
// on. A segment has the keys with the same end of their hash, which are neighbours in this order, and so are the two
// segments into which it splits. So a reader that goes on from a place sees every record that was there all along, even
// if the table has grown or shrunk in between: once, if it reads on without going back.

// partBits are the bits that the number of a part has of a place.
const partBits = 11

const placeBits = 64 - partBits // of a hash in a place

// Place returns the place of a key in a scan. Parts are in the order of their numbers.
func Place(layout Layout, key []byte) uint64 {
	text := unsafe.String(unsafe.SliceData(key), len(key)) // a Layout does not keep the key
	return PartPlace(layout.Part(text)) | placeWithin(key)
}

// placeWithin returns the place of a key in its part.
func placeWithin(key []byte) uint64 { return bits.Reverse64(xxhash.Sum64(key)) >> partBits }

// PartPlace returns the first place of a part.
func PartPlace(part int) uint64 { return uint64(part) << placeBits }

// placed is a record at its place.
type placed struct {
	at  uint64 // within the part
	key []byte
	Record
}

// compare orders records by place. Keys of one place are in the order of their bytes.
func (p placed) compare(q placed) int {
	if c := cmp.Compare(p.at, q.at); c != 0 {
		return c
	}
	return bytes.Compare(p.key, q.key)
}

// Scan yields the records from a place on.
func (t *Table) Scan(from uint64) iter.Seq2[[]byte, Record] {
	return func(yield func([]byte, Record) bool) {
		var all []placed
		for i := int(from >> placeBits); i < len(t.parts); i++ {
			p := &t.parts[i]
			for within := from & (1<<placeBits - 1); len(p.segments) > 0; {
				n := p.index(bits.Reverse64(within << partBits))
				all = t.from(p.segments[n], within, all[:0])
				for i := range all {
					if !yield(all[i].key, all[i].Record) {
						return
					}
				}
				if within = p.after(n, within); within == 0 {
					break
				}
			}
			from = 0
		}
	}
}

// from appends a segment's records from a place in its part on, in order.
func (t *Table) from(g *segment, place uint64, to []placed) []placed {
	for at := g.first(); !g.past(at); {
		s := g.open(at)
		at = s.next
		key := s.appendKey(nil, t.heads.texts)
		if its := placeWithin(key); its >= place {
			to = append(to, placed{its, key, s.Record})
		}
	}
	slices.SortFunc(to, placed.compare)
	return to
}

// after returns the first place after the segment n, in which a place lies, both within the part, or 0 if there is
// none.
func (p *part) after(n int, place uint64) uint64 {
	level := p.level()
	address := level                                   // bits that all hashes of the segment share
	if n >= 1<<level || n+1<<level < len(p.segments) { //mutant:scan-continues-elsewhere
		address++
	}
	size := uint64(1) << (placeBits - address)
	return (place&^(size-1) + size) & (1<<placeBits - 1)
}
