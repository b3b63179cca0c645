package shard

import (
	"encoding/binary"
	"slices"

	"github.com/stint-io/stint/limit"
)

// segment is a handful of records packed into one byte slice, as they stand in snapshots too:
//
//	key length (2 bytes) | value length (4) | forget at (8) | key | value
//
// Bytes that no slot points at are dead; they are squeezed out when they are a quarter of the whole.
type segment struct {
	generation  uint64     // of the table, when the segment was made or copied
	forgetFirst limit.Time // no record here ends before it; it may be too early, never too late
	slots       []slot
	data        []byte
	dead        int // bytes of data
	weighed     int // bytes that the table counts for it
}

// slot finds one record: tag is part of its key's hash, at its place in data.
type slot struct {
	tag, at uint32
}

const recordHeader = 2 + 4 + 8

// segmentOwnBytes and slotBytes are what a 64-bit machine keeps besides data: the segment with the pointer to it, and
// one slot.
const (
	segmentOwnBytes = 96
	slotBytes       = 8
)

// bytes is the memory that the segment holds, with the room that it keeps for growth.
func (g *segment) bytes() int { return segmentOwnBytes + cap(g.slots)*slotBytes + cap(g.data) }

// tagOfHash takes bits that do not also choose the segment.
func tagOfHash(hash uint64) uint32 { return uint32(hash >> 32) }

// find returns the number of the slot that holds key, or -1.
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

// record returns slices of the segment's own bytes: not to be changed, nor kept beyond the next change.
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

// packed is slot i's record as it stands in data.
func (g *segment) packed(i int) []byte {
	head := g.data[g.slots[i].at:]
	keyLength, valueLength, _ := readRecordHeader(head)
	return head[:recordHeader+keyLength+valueLength]
}

func (g *segment) add(hash uint64, key string, r Record) {
	g.roomForSlot()
	g.slots = append(g.slots, slot{tag: tagOfHash(hash), at: g.write(key, r)})
}

// addPacked adds a record that stands as it would here, in another segment or in a snapshot.
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

// roomFor and roomForSlot make room by an eighth of what is there, where append would double it: the room that nobody
// uses is memory of every record.
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

// replace puts r in the place of slot i's record: over it where it fits exactly, else behind all others.
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

// compact writes the living records into a slice of their own size.
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
