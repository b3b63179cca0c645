package hop

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"github.com/stint-io/stint/shard"
)

// A hop connection carries frames: calls from the dialer and answers from the acceptor.
//
//	length 4 | crc32c 4 | kind 1 | records
//
// Numbers are little endian. The length counts kind and records, and the checksum covers them. A wrong checksum, or a
// record that does not end with its frame, ends the connection. A frame without records is a beat: it shows that its
// sender is alive. A record with another layout needs another kind of frame.
const (
	frameHead  = 8
	maxFrame   = 4 << 20 // bytes of kind and records
	maxRecord  = 64      // bytes before the body of a record: at most seven varints
	maxInFrame = maxFrame - 1 - maxRecord
)

// frameKind says what the records of a frame are. The numbers cross the wire: append, never renumber.
type frameKind byte

const (
	frameCalls   frameKind = 1 // from the dialer
	frameAnswers frameKind = 2 // from the acceptor
	frameGoodbye frameKind = 3 // the acceptor's last frame: calls above the number in it were not begun
)

var (
	errMalformedFrame = errors.New("cluster: malformed frame")
	castagnoli        = crc32.MakeTable(crc32.Castagnoli)
)

// beginFrame starts a frame in the space of b. Records are appended to the result.
func beginFrame(b []byte, kind frameKind) []byte {
	return append(b[:0], 0, 0, 0, 0, 0, 0, 0, 0, byte(kind))
}

// sealFrame fills in the head of a frame.
func sealFrame(b []byte) []byte {
	binary.LittleEndian.PutUint32(b, uint32(len(b)-frameHead))
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[frameHead:], castagnoli))
	return b
}

// readFrame reads one frame into buffer, growing it if needed. The records point into the buffer, which is returned as
// next for the next call.
func readFrame(in io.Reader, buffer []byte) (kind frameKind, records, next []byte, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, nil, buffer, err
	}
	length := binary.LittleEndian.Uint32(head[:])
	if length == 0 || length > maxFrame {
		return 0, nil, buffer, fmt.Errorf("%w: it claims %d bytes, of %d at most", errMalformedFrame, length, maxFrame)
	}
	if int(length) > cap(buffer) {
		buffer = make([]byte, length)
	}
	body := buffer[:length]
	if _, err := io.ReadFull(in, body); err != nil {
		return 0, nil, buffer, err
	}
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return 0, nil, buffer, fmt.Errorf("%w: wrong checksum", errMalformedFrame)
	}
	return frameKind(body[0]), body[1:], buffer, nil
}

// frameReader takes values off the front of a string. After the first missing or malformed value, failed stays set and
// every further value is zero, so callers check once, at the end. Strings are substrings of the input, not copies.
type frameReader struct {
	rest   string
	failed bool
	inLeg  bool // reading a leg's decision, which must not contain an operation

	// Preallocated memory for values, shared by the requests or results of one record; ahead is how many of these are
	// still to be read, including the current one.
	entries  []shard.Entry
	statuses []shard.LimitStatus
	ahead    int
}

func (r *frameReader) uvarint() uint64 {
	var v uint64
	for i := 0; i < len(r.rest) && i < binary.MaxVarintLen64; i++ {
		b := r.rest[i]
		if b < 0x80 {
			if i == binary.MaxVarintLen64-1 && b > 1 {
				break // more than 64 bits
			}
			r.rest = r.rest[i+1:]
			return v | uint64(b)<<(7*i)
		}
		v |= uint64(b&0x7f) << (7 * i)
	}
	r.fail()
	return 0
}

func (r *frameReader) fail() { r.failed, r.rest = true, "" }

func (r *frameReader) varint() int64 {
	v := r.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// upTo reads a number no greater than most.
func (r *frameReader) upTo(most uint64) uint64 {
	v := r.uvarint()
	if v > most {
		r.fail()
		return 0
	}
	return v
}

// count reads how many values follow. Each takes at least one byte, so the count never exceeds the number of bytes left.
func (r *frameReader) count() int {
	v := r.uvarint()
	if v > uint64(len(r.rest)) {
		r.fail()
		return 0
	}
	return int(v)
}

// countTo is like count, with an upper bound.
func (r *frameReader) countTo(most int) int {
	n := r.count()
	if n > most {
		r.fail()
		return 0
	}
	return n
}

// flags reads a byte in which only the bits of known may be set.
func (r *frameReader) flags(known byte) byte {
	if len(r.rest) == 0 || r.rest[0]&^known != 0 {
		r.fail()
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *frameReader) string() string {
	n := r.count()
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

// strings takes n strings off and returns a reader of a copy of them, so that values that refer to them keep only that
// copy alive.
func (r *frameReader) strings(n int) frameReader {
	before := r.rest
	for range n {
		r.string()
	}
	if r.failed {
		return frameReader{failed: true}
	}
	return frameReader{rest: strings.Clone(before[:len(before)-len(r.rest)])}
}

// carve returns n zero values from a shared block of memory, and the rest of the block. If the block is too small, carve
// allocates one with room for ahead values, within bounds.
func carve[T any](piece []T, n, ahead int) (values, left []T) {
	if len(piece) < n {
		piece = make([]T, max(n, min(ahead, 64)))
	}
	return piece[:n:n], piece[n:]
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// flag returns bit if b is true, else 0.
func flag(b bool, bit byte) byte {
	if b {
		return bit
	}
	return 0
}
