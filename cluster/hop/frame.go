package hop

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
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
	maxRecord  = 64      // bytes before the body of a record: at most three varints
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
