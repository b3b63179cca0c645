package table

import (
	"encoding/binary"
	"slices"

	"github.com/stint-io/stint/limit"
)

// segment is a group of records packed into one byte slice: the stubs of all records, then their bodies in the same
// order.
//
//	stub: tag (1 byte) | number of its head (1) | length of rest (1) | length of value (1)
//	body: forget at (8) | rest of the key | value
//
// If a length does not fit into its byte, or that of rest is longLength, both bytes are longLength, and the body begins
// with the lengths (2 and 4 bytes).
//
// A record is found by walking the stubs. Those of some 30 records are two lines of a processor's cache; the bodies are
// as many lines as records, and where each begins depends on the one before. Stubs among the bodies took a fifth of the
// processor time of pipelined commands on 100,000 keys (docs/benchmarks/log.md, "Finding a record").
type segment struct {
	generation  uint64     // of the table, when the segment was made or copied
	forgetFirst limit.Time // no record here ends before it; it may be too early, never too late
	data        []byte     // changed in place only in a segment of the table's generation
	records     uint32
	weighed     uint32 // bytes that the table counts for the segment
}

// spot is the position of a record: the number of its stub, and where its body begins in data.
type spot struct{ stub, body int }

// stored is a record in a segment. Its slices are the segment's memory: the caller must not change them, nor keep them
// beyond the next change of any record.
type stored struct {
	spot
	next spot   // of the record after it
	tag  byte   // as in tagOfHash
	head byte   // the number of its head; 0: the whole key is in rest
	rest []byte // of the key, after its head
	Record
}

const (
	recordHeader = 2 + 4 + 8 // in a picture: length of the key, of the value, forget at
	stubBytes    = 4
	longLength   = 0xff
	longBytes    = 2 + 4 // of the lengths in front of a body
	forgetBytes  = 8
)

// segmentOwnBytes is the memory besides data on a 64-bit machine: a segment and the pointer to it.
const segmentOwnBytes = 56

// bytes returns the segment's memory, including its spare capacity.
func (g *segment) bytes() int { return segmentOwnBytes + cap(g.data) }

// tagOfHash returns bits that do not also choose the segment.
func tagOfHash(hash uint64) byte { return byte(hash >> 56) }

// stubsEnd returns where the stubs end and the bodies begin.
func (g *segment) stubsEnd() int { return int(g.records) * stubBytes }

// first returns the place of the first record.
func (g *segment) first() spot { return spot{0, g.stubsEnd()} }

// past reports whether p is after the last record.
func (g *segment) past(p spot) bool { return p.stub >= int(g.records) }

func (g *segment) stub(p spot) []byte { return g.data[p.stub*stubBytes:][:stubBytes] }

// bounds returns where the parts of the record at p begin and where it ends. After a flipped bit they may be wrong, and
// then ok may be false; if it is true, they are within data.
func (g *segment) bounds(p spot) (rest, value, end int, ok bool) {
	stub := g.stub(p)
	rest, value, end = p.body+forgetBytes, int(stub[2]), int(stub[3])
	if stub[2] == longLength {
		lengths := g.data[min(p.body, len(g.data)):]
		if stub[3] != longLength || len(lengths) < longBytes {
			return 0, 0, 0, false
		}
		long := binary.LittleEndian.Uint32(lengths[2:])
		if long > MaxRecordBytes {
			return 0, 0, 0, false
		}
		rest, value, end = rest+longBytes, int(binary.LittleEndian.Uint16(lengths)), int(long)
	}
	value += rest
	end += value
	return rest, value, end, end <= len(g.data)
}

// open returns the record at p. If a flipped bit has made records unreadable, they are one record without key and
// value, up to the end.
func (g *segment) open(p spot) stored {
	s, _ := g.intact(p)
	return s
}

// intact is like open, and reports whether the record has bounds.
func (g *segment) intact(p spot) (s stored, ok bool) {
	rest, value, end, ok := g.bounds(p)
	if !ok {
		return stored{spot: p, next: spot{int(g.records), len(g.data)}, Record: Record{ForgetAt: limit.Forever}}, false
	}
	stub := g.stub(p)
	return stored{spot: p, next: spot{p.stub + 1, end}, tag: stub[0], head: stub[1], rest: g.data[rest:value:value],
		Record: Record{Value: g.data[value:end:end],
			ForgetAt: limit.Time(binary.LittleEndian.Uint64(g.data[rest-forgetBytes:]))}}, true
}

// find returns the position of the record of key.
func (g *segment) find(h *headTexts, hash uint64, key string) (p spot, found bool) {
	tag := tagOfHash(hash)
	for p = g.first(); !g.past(p); p.stub++ {
		stub := g.stub(p)
		// As in bounds, without the call: a lookup takes a quarter less.
		end := p.body + forgetBytes + int(stub[2]) + int(stub[3])
		if stub[2] == longLength || stub[0] == tag {
			rest, value, itsEnd, ok := g.bounds(p)
			if !ok {
				break
			}
			if end = itsEnd; stub[0] == tag {
				head := h.texts[stub[1]]
				if len(key) == len(head)+value-rest && key[:len(head)] == head &&
					key[len(head):] == string(g.data[rest:value]) {
					return p, true
				}
			}
		}
		p.body = end
	}
	return spot{}, false
}

// appendKey appends the record's key to b.
func (s *stored) appendKey(b []byte, h *headTexts) []byte {
	return append(append(b, h.texts[s.head]...), s.rest...)
}

// add adds a record with a key that is known not to be there.
func (g *segment) add(hash uint64, head byte, rest string, r Record) {
	lengths := lengthsOf(len(rest), len(r.Value))
	g.roomFor(stubBytes + lengths.body())
	g.records++
	end := g.stubsEnd()
	g.move(end-stubBytes, end)
	lengths.putStub(g.data[end-stubBytes:], tagOfHash(hash), head)
	g.data = append(lengths.appendBody(g.data, r.ForgetAt), rest...)
	g.data = append(g.data, r.Value...)
	g.forgetFirst = min(g.forgetFirst, r.ForgetAt)
}

// lengths are the lengths of a record's parts.
type lengths struct {
	rest, value int
	long        bool // they do not fit into a stub
}

func lengthsOf(rest, value int) lengths {
	return lengths{rest, value, rest >= longLength || value > longLength}
}

// body returns the length of the body.
func (l lengths) body() int {
	if l.long {
		return longBytes + forgetBytes + l.rest + l.value
	}
	return forgetBytes + l.rest + l.value
}

func (l lengths) putStub(b []byte, tag, head byte) {
	b[0], b[1], b[2], b[3] = tag, head, byte(l.rest), byte(l.value)
	if l.long {
		b[2], b[3] = longLength, longLength
	}
}

// appendBody appends the body up to the rest of the key.
func (l lengths) appendBody(b []byte, forgetAt limit.Time) []byte {
	if l.long {
		b = binary.LittleEndian.AppendUint16(b, uint16(l.rest))
		b = binary.LittleEndian.AppendUint32(b, uint32(l.value))
	}
	return binary.LittleEndian.AppendUint64(b, uint64(forgetAt))
}

// roomFor grows the capacity by an eighth, where append would double it: unused capacity costs memory for every record.
func (g *segment) roomFor(n int) {
	if need := len(g.data) + n; need > cap(g.data) {
		g.data = append(slices.Grow([]byte(nil), need+need/8), g.data...)
	}
}

// replace makes r the record at s, of the same key.
func (g *segment) replace(s *stored, r Record) {
	value := s.next.body - len(s.Value)
	if len(s.Value) == len(r.Value) {
		binary.LittleEndian.PutUint64(g.data[value-len(s.rest)-forgetBytes:], uint64(r.ForgetAt))
	} else {
		value = g.resize(s, r)
	}
	copy(g.data[value:], r.Value)
	g.forgetFirst = min(g.forgetFirst, r.ForgetAt)
	g.fit()
}

// resize makes room at s for a value of another length, and writes everything but the value. It returns where that
// begins.
func (g *segment) resize(s *stored, r Record) (value int) {
	lengths := lengthsOf(len(s.rest), len(r.Value))
	body := lengths.appendBody(make([]byte, 0, 128), r.ForgetAt)
	body = append(body, s.rest...)
	g.move(s.next.body, s.body+lengths.body())
	lengths.putStub(g.stub(s.spot), s.tag, s.head)
	return s.body + copy(g.data[s.body:], body)
}

// remove removes the record at s. Its body goes first, since the removal of its stub moves all bodies.
func (g *segment) remove(s *stored) {
	g.move(s.next.body, s.body)
	g.move((s.stub+1)*stubBytes, s.stub*stubBytes)
	g.records--
	g.fit()
}

// move moves the bytes that begin at from, so that they begin at to.
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

// clone returns a copy that takes the place of g, also in the table's bytes (weighed).
func (g *segment) clone(generation uint64) *segment {
	copied := *g
	copied.generation, copied.data = generation, slices.Clone(g.data)
	return &copied
}

// packed are records from which a segment is rebuilt.
type packed struct{ stubs, bodies []byte }

// add adds a record of a segment.
func (p *packed) add(g *segment, s *stored) {
	p.stubs = append(p.stubs, g.data[s.stub*stubBytes:s.next.stub*stubBytes]...)
	p.bodies = append(p.bodies, g.data[s.body:s.next.body]...)
}

// clear keeps the memory for other records, unless it is unusually large.
func (p *packed) clear() {
	const usual, most = 4 << 10, 64 << 10 // bytes of the bodies of a segment
	if cap(p.bodies) == 0 || cap(p.bodies) > most {
		*p = packed{make([]byte, 0, 2*segmentRecords*stubBytes), make([]byte, 0, usual)}
	}
	p.stubs, p.bodies = p.stubs[:0], p.bodies[:0]
}

func (p *packed) records() uint32 { return uint32(len(p.stubs) / stubBytes) }

// fill makes the records the only ones of the segment, in memory of their size.
func (g *segment) fill(p *packed) { g.data, g.records = slices.Concat(p.stubs, p.bodies), p.records() }

// keep makes some of its own records the only ones, in its existing memory.
func (g *segment) keep(p *packed) {
	g.data, g.records = append(append(g.data[:0], p.stubs...), p.bodies...), p.records()
	g.fit()
}

// addAll adds the records of another segment of the table.
func (g *segment) addAll(from *segment) {
	mine, its := g.stubsEnd(), from.stubsEnd()
	g.data = slices.Concat(g.data[:mine], from.data[:its], g.data[mine:], from.data[its:])
	g.records += from.records
	g.forgetFirst = min(g.forgetFirst, from.forgetFirst)
}

// pack appends the record to b in the format of pictures.
func (s *stored) pack(b []byte, h *headTexts) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(len(h.texts[s.head])+len(s.rest)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s.Value)))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.ForgetAt))
	return append(s.appendKey(b, h), s.Value...)
}
