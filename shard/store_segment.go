package shard

import (
	"encoding/binary"
	"slices"

	"github.com/stint-io/stint/limit"
)

// segment is a group of records packed into one byte slice, one after another:
//
//	tag (1 byte) | number of its head (1) | length of rest, of value (varints) | forget at (8) | rest of the key | value
//
// A record is found by walking: some 30 records are 2 KB in a row, which a processor reads about as fast as one address of its
// own for each. An index beside them took a tenth of the memory, and a second object for the garbage collector.
type segment struct {
	generation  uint64     // of the table, when the segment was made or copied
	forgetFirst limit.Time // no record here ends before it; it may be too early, never too late
	data        []byte
	weighed     int // bytes that the table counts for the segment
}

// stored is a record in a segment. Its slices are the segment's memory: the caller must not change them, nor keep them beyond
// the next change of any record.
type stored struct {
	at, end int // of it in data
	head    byte
	rest    []byte // of the key, behind its head
	Record
}

const (
	recordHeader = 2 + 4 + 8         // in a snapshot: length of the key, of the value, forget at
	storedHeader = 1 + 1 + 1 + 1 + 8 // in memory, with lengths below 128
)

// segmentOwnBytes is the memory besides data on a 64-bit machine: a segment and the pointer to it.
const segmentOwnBytes = 56

// bytes returns the segment's memory, including its spare capacity.
func (g *segment) bytes() int { return segmentOwnBytes + cap(g.data) }

// tagOfHash returns bits that do not also choose the segment.
func tagOfHash(hash uint64) byte { return byte(hash >> 56) }

// bounds returns where the parts of the record at at begin and where it ends. After a flipped bit they may be wrong, and then ok
// may be false; but they are always within data, and end is beyond at.
func (g *segment) bounds(at int) (rest, value, end int, ok bool) {
	b := g.data[at:]
	if len(b) >= storedHeader && b[2]|b[3] < 0x80 {
		rest = at + storedHeader
		value = rest + int(b[2])
		end = value + int(b[3])
	} else {
		r := reader{rest: b[min(2, len(b)):]}
		keyLength, valueLength := r.uvarint(), r.uvarint()
		r.bytes(8)
		if r.failed || keyLength > maxRecordKeyBytes || valueLength > maxRecordBytes {
			return len(g.data), len(g.data), len(g.data), false
		}
		rest = len(g.data) - len(r.rest)
		value = rest + int(keyLength)
		end = value + int(valueLength)
	}
	if end > len(g.data) {
		return len(g.data), len(g.data), len(g.data), false
	}
	return rest, value, end, true
}

// open returns the record at at. What a flipped bit has made unreadable is one record without key and value, up to the end.
func (g *segment) open(at int) stored {
	s, _ := g.intact(at)
	return s
}

// intact is like open, and reports whether the record has bounds.
func (g *segment) intact(at int) (s stored, ok bool) {
	rest, value, end, ok := g.bounds(at)
	if !ok {
		return stored{at: at, end: end, Record: Record{ForgetAt: limit.Forever}}, false
	}
	return stored{at: at, end: end, head: g.data[at+1], rest: g.data[rest:value:value],
		Record: Record{Value: g.data[value:end:end], ForgetAt: limit.Time(binary.LittleEndian.Uint64(g.data[rest-8:]))}}, true
}

// find returns where the record of key is, or -1.
func (g *segment) find(h *heads, hash uint64, key string) int {
	tag := tagOfHash(hash)
	for at := 0; at < len(g.data); {
		rest, value, end, ok := g.bounds(at)
		if ok && g.data[at] == tag {
			head := h.texts[g.data[at+1]]
			if len(key) == len(head)+value-rest && key[:len(head)] == head && key[len(head):] == string(g.data[rest:value]) {
				return at
			}
		}
		at = end
	}
	return -1
}

// appendKey appends the record's key to b.
func (s *stored) appendKey(b []byte, h *heads) []byte {
	return append(append(b, h.texts[s.head]...), s.rest...)
}

// add adds a record whose key is known not to be there.
func (g *segment) add(hash uint64, head byte, rest string, r Record) {
	g.roomFor(storedLength(len(rest), len(r.Value)))
	g.data = append(appendStoredHeader(g.data, tagOfHash(hash), head, len(rest), r), rest...)
	g.data = append(g.data, r.Value...)
	g.forgetFirst = min(g.forgetFirst, r.ForgetAt)
}

func appendStoredHeader(b []byte, tag, head byte, restLength int, r Record) []byte {
	b = append(b, tag, head)
	b = binary.AppendUvarint(b, uint64(restLength))
	b = binary.AppendUvarint(b, uint64(len(r.Value)))
	return binary.LittleEndian.AppendUint64(b, uint64(r.ForgetAt))
}

func storedLength(rest, value int) int {
	return storedHeader - 2 + lengthOfUvarint(rest) + lengthOfUvarint(value) + rest + value
}

func lengthOfUvarint(n int) (length int) {
	for length = 1; n >= 0x80; n >>= 7 {
		length++
	}
	return length
}

// addAll adds records of another segment of the table, packed as they are there.
func (g *segment) addAll(packed []byte, forgetFirst limit.Time) {
	g.roomFor(len(packed))
	g.data = append(g.data, packed...)
	g.forgetFirst = min(g.forgetFirst, forgetFirst)
}

// roomFor grows the capacity by an eighth, where append would double it: unused capacity costs memory for every record.
func (g *segment) roomFor(n int) {
	if need := len(g.data) + n; need > cap(g.data) {
		g.data = append(slices.Grow([]byte(nil), need+need/8), g.data...)
	}
}

// replace makes r the record at s, of the same key.
func (g *segment) replace(s *stored, r Record) {
	value := s.end - len(s.Value)
	if len(s.Value) == len(r.Value) {
		binary.LittleEndian.PutUint64(g.data[value-len(s.rest)-8:], uint64(r.ForgetAt))
	} else {
		value = g.resize(s, r)
	}
	copy(g.data[value:], r.Value)
	g.forgetFirst = min(g.forgetFirst, r.ForgetAt)
	g.fit()
}

// resize makes room at s for a value of another length, and writes everything but the value. It returns where that begins.
func (g *segment) resize(s *stored, r Record) (value int) {
	rest := s.end - len(s.Value) - len(s.rest)
	moved := rest + lengthOfUvarint(len(r.Value)) - lengthOfUvarint(len(s.Value)) // to where the rest of the key moves
	value = moved + len(s.rest)
	key := append(make([]byte, 0, 128), s.rest...)
	tag := g.data[s.at]
	g.move(s.end, value+len(r.Value))
	appendStoredHeader(g.data[:s.at], tag, s.head, len(key), r)
	copy(g.data[moved:], key)
	return value
}

func (g *segment) remove(s *stored) {
	g.move(s.end, s.at)
	g.fit()
}

// move moves what begins at from, so that it begins at to.
func (g *segment) move(from, to int) {
	length := len(g.data)
	if to > from {
		g.roomFor(to - from)
		g.data = g.data[:length+to-from]
	}
	copy(g.data[to:], g.data[from:length])
	g.data = g.data[:length+to-from]
}

// fit gives memory back if a quarter of it is not used.
func (g *segment) fit() {
	if spare := cap(g.data) - len(g.data); spare > 256 && spare > cap(g.data)/4 {
		g.data = slices.Clone(g.data)
	}
}

func (g *segment) clone(generation uint64) *segment {
	return &segment{
		generation:  generation,
		forgetFirst: g.forgetFirst,
		data:        slices.Clone(g.data),
		weighed:     g.weighed,
	}
}

// pack appends the record to b in the format of snapshots.
func (s *stored) pack(b []byte, h *heads) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(len(h.texts[s.head])+len(s.rest)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s.Value)))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.ForgetAt))
	return append(s.appendKey(b, h), s.Value...)
}

func readRecordHeader(head []byte) (keyLength, valueLength int, forgetAt limit.Time) {
	return int(binary.LittleEndian.Uint16(head)), int(binary.LittleEndian.Uint32(head[2:])),
		limit.Time(binary.LittleEndian.Uint64(head[6:]))
}
