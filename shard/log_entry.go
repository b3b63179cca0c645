package shard

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"strings"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/codec"
	"github.com/stint-io/stint/shard/table"
)

// MaxEntryBytes is the target size of an entry of ordinary requests (R8): Evaluate closes a batch when its effects
// reach 7/8 of it. A request is never split: an entry exceeds MaxEntryBytes when the effects of the last request of its
// batch are larger than the room left, and by at most those effects.
const MaxEntryBytes = 256 << 10

// entryKind is what an entry does. Its numbers are stored in logs: append new ones, never renumber.
type entryKind uint8

const (
	epochOpen  entryKind = 1 // an owner takes over; the epoch is the entry's Raft index
	batchEntry entryKind = 2 // effects of decided requests; none when all were denied or reads
	sumEntry   entryKind = 3 // every replica records its own sum of the state after this entry
)

// entry is one decoded log entry:
//
//	level (1 byte) | kind (1) | shard | epoch | seq | time (varints) | body | crc32c of all before (4 bytes)
//
// The level is the cluster's when the entry was written. A reader halts on one that it does not know: so no entry that
// a replica could misread is installed, even if one was written too early. Body of a batch: count, then for each put
// key length, key, forget at, value length + 1 (0: forget), value. The bodies of an epochOpen and of a sumEntry are
// empty.
type entry struct {
	kind  entryKind
	shard ID
	epoch uint64 // 0 in an epochOpen, whose epoch is its Raft index
	seq   uint64 // from 1; 0 in an epochOpen
	time  limit.Time
	puts  []Put
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// EncodeEpochOpen makes the entry with which an owner opens its epoch, at the owner's own time and at a level of Stamp.
func EncodeEpochOpen(shard ID, now limit.Time, level Level) []byte {
	return appendChecksum(appendHead(nil, epochOpen, Stamp{Position: Position{Shard: shard}, Now: now, Level: level}))
}

// EncodeBatch makes the entry with the effects of one batch.
func EncodeBatch(at Stamp, puts []Put) []byte {
	size := 64
	for i := range puts {
		size += len(puts[i].Key) + len(puts[i].Value) + 20
	}
	b := appendHead(make([]byte, 0, size), batchEntry, at)
	b = binary.AppendUvarint(b, uint64(len(puts)))
	for i := range puts {
		b = appendPut(b, &puts[i])
	}
	return appendChecksum(b)
}

// EncodeSum makes the entry at which every replica records its sum (State.Sums).
func EncodeSum(at Stamp) []byte { return appendChecksum(appendHead(nil, sumEntry, at)) }

func appendHead(b []byte, kind entryKind, at Stamp) []byte {
	b = append(b, byte(cmp.Or(at.Level, LevelNewest)), byte(kind))
	return binary.AppendVarint(appendNumbers(b, uint64(at.Shard), at.Epoch, at.Seq), int64(at.Now))
}

// appendPut panics on a key that no replica would accept: such an entry in the log would halt all of them.
func appendPut(b []byte, p *Put) []byte {
	if len(p.Key) == 0 || len(p.Key) > table.MaxKeyBytes {
		panic(fmt.Sprintf("shard: record key of %d bytes, outside 1..%d", len(p.Key), table.MaxKeyBytes))
	}
	b = binary.AppendUvarint(b, uint64(len(p.Key)))
	b = append(b, p.Key...)
	if p.Value == nil {
		return binary.AppendUvarint(binary.AppendVarint(b, 0), 0)
	}
	b = binary.AppendVarint(b, int64(p.ForgetAt))
	b = binary.AppendUvarint(b, uint64(len(p.Value))+1)
	return append(b, p.Value...)
}

func appendChecksum(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeEntry reads an entry. The values of its puts share the memory of payload.
func decodeEntry(payload []byte) (entry, error) {
	if len(payload) < 2+4 {
		return entry{}, fmt.Errorf("shard: entry of %d bytes is too short", len(payload))
	}
	body, crc := payload[:len(payload)-4], binary.LittleEndian.Uint32(payload[len(payload)-4:])
	if got := crc32.Checksum(body, castagnoli); got != crc {
		return entry{}, fmt.Errorf("shard: entry is corrupt: crc32c is %08x, it says %08x", got, crc)
	}
	//mutant:entry-of-any-level
	if level := Level(body[0]); level < LevelFirst || level > LevelNewest {
		return entry{}, fmt.Errorf("shard: entry is of level %d, this version reads %d: run a newer version",
			level, LevelNewest)
	}
	c, e := codec.Over(body[2:]), entry{kind: entryKind(body[1])}
	codec.Uint(&c, &e.shard, math.MaxUint32)
	c.Uint64(&e.epoch, &e.seq)
	codec.Int(&c, &e.time)
	switch e.kind {
	case epochOpen, sumEntry:
	case batchEntry:
		e.puts = readPuts(&c)
	default:
		return entry{}, fmt.Errorf("shard: entry has unknown kind %d: run a newer version", e.kind)
	}
	if !c.Whole() {
		return entry{}, fmt.Errorf("shard: entry of kind %d is malformed", e.kind)
	}
	return e, nil
}

// readPuts reads the effects. It copies their keys, some of which State.note keeps: a key must not keep the payload
// alive.
func readPuts(c *codec.Codec) []Put {
	puts := make([]Put, c.CountTo(0, c.Left()/4)) // a put has at least four bytes
	for i := range puts {
		p := &puts[i]
		c.Text(&p.Key)
		codec.Int(c, &p.ForgetAt)
		var length uint64
		c.Uint64(&length)
		if c.Failed() || p.Key == "" || len(p.Key) > table.MaxKeyBytes || length > uint64(c.Left())+1 {
			c.Fail()
			return nil
		}
		p.Key = strings.Clone(p.Key)
		if length > 0 {
			p.Value = c.Rest()[: length-1 : length-1]
			c.SkipTo(c.Left() - len(p.Value))
		}
	}
	return puts
}
