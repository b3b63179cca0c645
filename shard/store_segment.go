package shard

import (
	"encoding/binary"
	"slices"

	"github.com/stint-io/stint/limit"
)

// segment is a group of records packed into one byte slice, in the format of snapshots:
//
//	key length (2 bytes) | value length (4) | forget at (8) | key | value
//
// Bytes that no slot points at are dead. They are removed when they are a quarter of the whole.
type segment struct {
	generation  uint64     // of the table, when the segment was made or copied
	forgetFirst limit.Time // no record here ends before it; it may be too early, never too late
	slots       []slot
	data        []byte
	dead        int // bytes of data
	weighed     int // bytes that the table counts for the segment
}

// slot locates one record: tag is part of its key's hash, at is its offset in data.
type slot struct {
	tag, at uint32
}

const recordHeader = 2 + 4 + 8

// segmentOwnBytes and slotBytes are the memory besides data on a 64-bit machine: a segment with the pointer to it, and one slot.
const (
	segmentOwnBytes = 96
	slotBytes       = 8
)

// bytes returns the segment's memory, including its spare capacity.
func (g *segment) bytes() int { return segmentOwnBytes + cap(g.slots)*slotBytes + cap(g.data) }

// tagOfHash returns bits that do not also choose the segment.
func tagOfHash(hash uint64) uint32 { return uint32(hash >> 32) }

// find returns the index of the slot that holds key, or -1.
func (g *segment) find(hash uint64, key string) int {
	tag := tagOfHash(hash)
	for i := range g.slots {
		if g.slots[i].tag == tag && string(g.key(i)) == key {
			return i
		}
	}
	return -1
}

func (g *segment) key(i int) []byte {
	at := g.slots[i].at
	length := uint32(binary.LittleEndian.Uint16(g.data[at:]))
	return g.data[at+recordHeader : at+recordHeader+length]
}

// record returns slices of the segment's memory: the caller must not change them, nor keep them beyond the next change.
func (g *segment) record(i int) (key []byte, r Record) {
	head := g.data[g.slots[i].at:]
	keyLength, valueLength, forgetAt := readRecordHeader(head)
	body := head[recordHeader : recordHeader+keyLength+valueLength]
	return body[:keyLength], Record{Value: body[keyLength:], ForgetAt: forgetAt}
}

func readRecordHeader(head []byte) (keyLength, valueLength int, forgetAt limit.Time) {
	return int(binary.LittleEndian.Uint16(head)), int(binary.LittleEndian.Uint32(head[2:])),
		limit.Time(binary.LittleEndian.Uint64(head[6:]))
}

func (g *segment) size(i int) int { return len(g.packed(i)) }

// packed returns slot i's record in the format of data.
func (g *segment) packed(i int) []byte {
	head := g.data[g.slots[i].at:]
	keyLength, valueLength, _ := readRecordHeader(head)
	return head[:recordHeader+keyLength+valueLength]
}

// intact is packed and record for bytes that may contain flipped bits.
func (g *segment) intact(i int) (packed, key []byte, r Record, ok bool) {
	at := uint64(g.slots[i].at)
	if at+recordHeader > uint64(len(g.data)) {
		return nil, nil, Record{}, false
	}
	keyLength, valueLength, forgetAt := readRecordHeader(g.data[at:])
	end := at + recordHeader + uint64(keyLength) + uint64(valueLength)
	if end > uint64(len(g.data)) {
		return nil, nil, Record{}, false
	}
	packed = g.data[at:end]
	key = packed[recordHeader : recordHeader+keyLength]
	return packed, key, Record{Value: packed[recordHeader+keyLength:], ForgetAt: forgetAt}, true
}

func (g *segment) add(hash uint64, key string, r Record) {
	g.roomForSlot()
	g.slots = append(g.slots, slot{tag: tagOfHash(hash), at: g.write(key, r)})
}

// addPacked adds a record that is already in this format, from another segment or a snapshot.
func (g *segment) addPacked(hash uint64, packed []byte, forgetAt limit.Time) {
	g.roomForSlot()
	g.roomFor(len(packed))
	g.slots = append(g.slots, slot{tag: tagOfHash(hash), at: uint32(len(g.data))})
	g.data = append(g.data, packed...)
	g.forgetFirst = min(g.forgetFirst, forgetAt)
}

func (g *segment) write(key string, r Record) uint32 {
	g.roomFor(recordHeader + len(key) + len(r.Value))
	at := len(g.data)
	g.data = binary.LittleEndian.AppendUint16(g.data, uint16(len(key)))
	g.data = binary.LittleEndian.AppendUint32(g.data, uint32(len(r.Value)))
	g.data = binary.LittleEndian.AppendUint64(g.data, uint64(r.ForgetAt))
	g.data = append(g.data, key...)
	g.data = append(g.data, r.Value...)
	g.forgetFirst = min(g.forgetFirst, r.ForgetAt)
	return uint32(at)
}

// roomFor and roomForSlot grow the capacity by an eighth, where append would double it: unused capacity costs memory for
// every record.
func (g *segment) roomFor(n int) {
	if need := len(g.data) + n; need > cap(g.data) {
		g.data = append(slices.Grow([]byte(nil), need+need/8), g.data...)
	}
}

func (g *segment) roomForSlot() {
	if len(g.slots) == cap(g.slots) {
		g.slots = append(slices.Grow([]slot(nil), len(g.slots)+len(g.slots)/8+1), g.slots...)
	}
}

// replace makes r the record of slot i: in place if the value has the same length, else at the end of data.
func (g *segment) replace(i int, key string, r Record) {
	_, old := g.record(i)
	if len(old.Value) == len(r.Value) {
		copy(old.Value, r.Value)
		binary.LittleEndian.PutUint64(g.data[g.slots[i].at+6:], uint64(r.ForgetAt))
		g.forgetFirst = min(g.forgetFirst, r.ForgetAt)
		return
	}
	g.dead += g.size(i)
	g.slots[i].at = g.write(key, r)
	g.squeeze()
}

func (g *segment) remove(i int) {
	g.dead += g.size(i)
	last := len(g.slots) - 1
	g.slots[i] = g.slots[last]
	g.slots = g.slots[:last]
	g.squeeze()
}

func (g *segment) squeeze() {
	if g.dead > 256 && g.dead > len(g.data)/4 {
		g.compact()
	}
}

// compact copies the live records into a slice of exactly their size.
func (g *segment) compact() {
	data := make([]byte, 0, len(g.data)-g.dead)
	for i := range g.slots {
		at := uint32(len(data))
		data = append(data, g.packed(i)...)
		g.slots[i].at = at
	}
	g.data, g.dead = data, 0
}

func (g *segment) clone(generation uint64) *segment {
	return &segment{
		generation:  generation,
		forgetFirst: g.forgetFirst,
		slots:       append([]slot(nil), g.slots...),
		data:        append([]byte(nil), g.data...),
		dead:        g.dead,
		weighed:     g.weighed,
	}
}
