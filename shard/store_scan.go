package shard

import (
	"bytes"
	"cmp"
	"iter"
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// A scan lists the records of a shard in an order that never changes: by the hash of the key, read from its lowest bit on. A
// segment of the table has the keys whose hashes end alike, which are neighbours in this order, and so are the two segments into
// which it splits. So a reader that goes on from a place meets every record that was there all along, whether the table has grown
// or shrunk in between: once, if it reads on without going back.

// scanPlace returns the place of a key in a scan.
func scanPlace(key []byte) uint64 { return bits.Reverse64(xxhash.Sum64(key)) }

// placed is a record at its place.
type placed struct {
	at  uint64
	key []byte
	Record
}

// compare orders records by place. Keys that somebody chose to have one hash are at one place: they are in the order of their bytes.
func (p placed) compare(q placed) int {
	if c := cmp.Compare(p.at, q.at); c != 0 {
		return c
	}
	return bytes.Compare(p.key, q.key)
}

// scan yields the records from a place on.
func (t *table) scan(from uint64) iter.Seq2[[]byte, Record] {
	return func(yield func([]byte, Record) bool) {
		var all []placed
		for {
			n := t.segmentIndex(bits.Reverse64(from))
			all = t.segments.at(n).from(t.segments.heads, from, all[:0])
			for i := range all {
				if !yield(all[i].key, all[i].Record) {
					return
				}
			}
			if from = t.after(n, from); from == 0 {
				return
			}
		}
	}
}

// from appends the segment's records from a place on, in order.
func (g *segment) from(h *heads, place uint64, to []placed) []placed {
	for at := g.first(); !g.past(at); {
		s := g.open(at)
		at = s.next
		key := s.appendKey(nil, h)
		if its := scanPlace(key); its >= place {
			to = append(to, placed{its, key, s.Record})
		}
	}
	slices.SortFunc(to, placed.compare)
	return to
}

// after returns the first place behind the segment n, in which a place lies; 0: there is none.
func (t *table) after(n int, place uint64) uint64 {
	address := t.level                                       // bits that all hashes of the segment share
	if n >= 1<<t.level || n+1<<t.level < t.segments.length { //mutant:scan-continues-elsewhere
		address++
	}
	if address == 0 {
		return 0
	}
	size := uint64(1) << (64 - address)
	return place&^(size-1) + size
}

// ScanOver is the Scan of a view: what base yields, with newer records at their places, those without a Value gone. No key may be
// newer twice.
func ScanOver(base iter.Seq2[[]byte, Record], from uint64, newer iter.Seq2[string, Record]) iter.Seq2[[]byte, Record] {
	var laid []placed
	over := make(map[string]bool)
	for key, r := range newer {
		over[key] = true
		if at := scanPlace([]byte(key)); at >= from && r.Value != nil { //mutant:scan-omits-uninstalled
			laid = append(laid, placed{at, []byte(key), r})
		}
	}
	slices.SortFunc(laid, placed.compare)
	return func(yield func([]byte, Record) bool) {
		next := 0
		for key, r := range base {
			if over[string(key)] {
				continue
			}
			for here := (placed{at: scanPlace(key), key: key}); next < len(laid) && laid[next].compare(here) < 0; next++ {
				if !yield(laid[next].key, laid[next].Record) {
					return
				}
			}
			if !yield(key, r) {
				return
			}
		}
		for ; next < len(laid); next++ {
			if !yield(laid[next].key, laid[next].Record) {
				return
			}
		}
	}
}
