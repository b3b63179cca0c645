package raftfsm

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"github.com/hashicorp/raft"
)

// logFormat is the first byte of every stored log entry.
const logFormat = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sizeOfLog is the number of bytes that appendLog will append.
func sizeOfLog(log *raft.Log) int {
	var head [2 + 4*binary.MaxVarintLen64]byte
	return len(appendHead(head[:0], log)) + len(log.Extensions) + len(log.Data) + crc32.Size
}

// appendLog encodes a log entry:
//
//	format (1 byte) | type (1) | index, term, appended at (varints, ns) | extensions length | extensions | data |
//	crc32c of all preceding bytes (4)
//
// The encoding includes the index, although the key has it too, so that an entry found in the place of another is
// detected as corrupt.
func appendLog(b []byte, log *raft.Log) []byte {
	start := len(b)
	b = appendHead(b, log)
	b = append(b, log.Extensions...)
	b = append(b, log.Data...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// appendHead encodes the fields that precede the extensions and the data.
func appendHead(b []byte, log *raft.Log) []byte {
	b = append(b, logFormat, byte(log.Type))
	b = binary.AppendUvarint(b, log.Index)
	b = binary.AppendUvarint(b, log.Term)
	b = binary.AppendVarint(b, nanosOf(log.AppendedAt))
	return binary.AppendUvarint(b, uint64(len(log.Extensions)))
}

// decodeLog decodes what appendLog wrote for index. The entry's slices refer to b.
func decodeLog(b []byte, index uint64, log *raft.Log) error {
	body, err := unseal(b, 0)
	if err != nil {
		return fmt.Errorf("log entry %d: %w", index, err)
	}
	if len(body) < 2 || body[0] != logFormat {
		return fmt.Errorf("log entry %d has an unknown format: run a newer version", index)
	}
	rest := body[2:]
	var got, term, extensions uint64
	var appended int64
	ok := take(&rest, &got, binary.Uvarint) && take(&rest, &term, binary.Uvarint) &&
		take(&rest, &appended, binary.Varint) && take(&rest, &extensions, binary.Uvarint) &&
		extensions <= uint64(len(rest))
	if !ok || got != index {
		return fmt.Errorf("log entry %d is malformed or another's: %w", index, ErrCorrupt)
	}
	*log = raft.Log{Index: got, Term: term, Type: raft.LogType(body[1]), AppendedAt: timeOf(appended),
		Data: rest[extensions:]}
	if extensions > 0 {
		log.Extensions = rest[:extensions:extensions]
	}
	return nil
}

// unseal checks the crc32c at the end of b, which continues the sum of what goes before b, and cuts it off.
func unseal(b []byte, before uint32) ([]byte, error) {
	if len(b) < 4 {
		return nil, fmt.Errorf("%d bytes are too few: %w", len(b), ErrCorrupt)
	}
	body, want := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if got := crc32.Update(before, castagnoli, body); got != want {
		return nil, fmt.Errorf("crc32c is %08x, it says %08x: %w", got, want, ErrCorrupt)
	}
	return body, nil
}

// take takes a number off the front of rest.
func take[V uint64 | int64](rest *[]byte, into *V, read func([]byte) (V, int)) bool {
	v, n := read(*rest)
	if n <= 0 {
		return false
	}
	*into, *rest = v, (*rest)[n:]
	return true
}

// nanosOf encodes the zero time, which UnixNano cannot, as the least int64.
func nanosOf(t time.Time) int64 {
	if t.IsZero() {
		return math.MinInt64
	}
	return t.UnixNano()
}

func timeOf(nanos int64) time.Time {
	if nanos == math.MinInt64 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}
