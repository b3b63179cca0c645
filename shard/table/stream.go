package table

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/stint-io/stint/limit"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Writer writes a file and the crc32c of what it has written. After an error it writes nothing more.
type Writer struct {
	buffer  *bufio.Writer
	crc     uint32
	written int64
	err     error
}

// NewWriter returns a Writer to a file.
func NewWriter(to io.Writer) *Writer { return &Writer{buffer: bufio.NewWriterSize(to, 64<<10)} }

// Write writes b. Flush returns the error, if there is one.
func (w *Writer) Write(b []byte) {
	if w.err != nil {
		return
	}
	w.crc = crc32.Update(w.crc, castagnoli, b)
	n, err := w.buffer.Write(b)
	w.written += int64(n)
	w.err = err
}

// WriteSum writes the crc32c of everything before it.
func (w *Writer) WriteSum() { w.Write(binary.LittleEndian.AppendUint32(nil, w.crc)) }

// Flush ends the file. It returns how many bytes were written, and the first error.
func (w *Writer) Flush() (int64, error) {
	if w.err == nil {
		w.err = w.buffer.Flush()
	}
	return w.written, w.err
}

// Reader reads the output of a Writer.
type Reader struct {
	buffer *bufio.Reader
	crc    uint32
	bytes  []byte // of the latest read
}

// NewReader returns a Reader of a file.
func NewReader(from io.Reader) *Reader { return &Reader{buffer: bufio.NewReaderSize(from, 64<<10)} }

// Next reads n bytes, which are valid until the next read.
func (r *Reader) Next(n int) ([]byte, error) {
	r.bytes = r.bytes[:0]
	err := r.more(n)
	return r.bytes, err
}

// more appends n bytes to the latest read. It allocates as they arrive, so a wrong length costs no more memory than the
// file is long.
func (r *Reader) more(n int) error {
	from := len(r.bytes)
	for n > 0 {
		step, at := min(n, 64<<10), len(r.bytes)
		r.bytes = slices.Grow(r.bytes, step)[:at+step]
		if _, err := io.ReadFull(r.buffer, r.bytes[at:]); err != nil {
			return err
		}
		n -= step
	}
	r.crc = crc32.Update(r.crc, castagnoli, r.bytes[from:])
	return nil
}

// CheckSum reads a crc32c and compares it with that of everything before it.
func (r *Reader) CheckSum() error {
	want := r.crc
	b, err := r.Next(4)
	if err != nil {
		return err
	}
	if got := binary.LittleEndian.Uint32(b); got != want {
		return fmt.Errorf("corrupt: crc32c is %08x, it says %08x", want, got)
	}
	return nil
}

// record reads one record. It is valid until the next read.
func (r *Reader) record() (key []byte, v Record, err error) {
	head, err := r.Next(recordHeader)
	if err != nil {
		return nil, Record{}, err
	}
	keyLength, valueLength := int(binary.LittleEndian.Uint16(head)), int(binary.LittleEndian.Uint32(head[2:]))
	v.ForgetAt = limit.Time(binary.LittleEndian.Uint64(head[6:]))
	if keyLength > MaxKeyBytes || valueLength > MaxRecordBytes {
		return nil, Record{}, fmt.Errorf("a record of %d and %d bytes", keyLength, valueLength)
	}
	if err = r.more(keyLength + valueLength); err != nil {
		return nil, Record{}, err
	}
	body := r.bytes[recordHeader:]
	v.Value = body[keyLength:]
	return body[:keyLength], v, nil
}
