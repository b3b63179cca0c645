package shard

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/stint-io/stint/limit"
)

// snapshotMagic begins every snapshot; its last byte is the format.
const snapshotMagic = "stint shard 1\n"

// maxRecordKeyBytes and maxRecordBytes bound what a decoder makes room for, and maxRecords the pointers.
const (
	maxRecordKeyBytes = 1 << 10
	maxRecordBytes    = 64 << 20
	maxRecords        = 1 << 32
)

// Snapshot is an immutable picture of a State. Taking one copies a pointer for every ten thousand records or so; it may
// be written by another goroutine while entries go on being installed.
type Snapshot struct {
	head     [9]uint64 // shard, epoch, term, seq, time, cursor, records, segments, sum: in the order of the file
	segments directory
}

// Snapshot takes a picture of the state.
func (s *State) Snapshot() *Snapshot {
	segments := s.table.segments.share()
	return &Snapshot{
		head: [9]uint64{uint64(s.id), s.epoch, s.term, s.seq, uint64(s.time), uint64(s.table.cursor),
			uint64(s.table.records), uint64(segments.length), s.Sum()},
		segments: segments,
	}
}

// WriteTo writes the picture: magic, head (8 bytes a number), the crc32c of these, the records as a segment holds
// them, segment by segment, then the crc32c of all of it. The head's last number is the fingerprint.
func (p *Snapshot) WriteTo(w io.Writer) (int64, error) {
	out := &summingWriter{buffer: bufio.NewWriterSize(w, 64<<10), crc: crc32.New(castagnoli)}
	head := []byte(snapshotMagic)
	for _, v := range p.head {
		head = binary.LittleEndian.AppendUint64(head, v)
	}
	out.write(head)
	out.write(binary.LittleEndian.AppendUint32(nil, out.crc.Sum32()))
	for n := range p.segments.length {
		g := p.segments.at(n)
		for i := range g.slots {
			out.write(g.packed(i))
		}
	}
	out.write(binary.LittleEndian.AppendUint32(nil, out.crc.Sum32()))
	if out.err == nil {
		out.err = out.buffer.Flush()
	}
	return out.written, out.err
}

type summingWriter struct {
	buffer  *bufio.Writer
	crc     hash.Hash32
	written int64
	err     error
}

func (w *summingWriter) write(b []byte) {
	if w.err != nil {
		return
	}
	w.crc.Write(b)
	n, err := w.buffer.Write(b)
	w.written += int64(n)
	w.err = err
}

// summingReader checks what summingWriter wrote.
type summingReader struct {
	buffer *bufio.Reader
	crc    uint32
	bytes  []byte // what was read newest
}

// record reads one record as a segment holds it. It is good until the next is read.
func (r *summingReader) record() (packed, key []byte, v Record, err error) {
	if err = r.next(recordHeader); err != nil {
		return nil, nil, Record{}, err
	}
	keyLength, valueLength, forgetAt := readRecordHeader(r.bytes)
	if keyLength > maxRecordKeyBytes || valueLength > maxRecordBytes {
		return nil, nil, Record{}, fmt.Errorf("a record of %d and %d bytes", keyLength, valueLength)
	}
	if err = r.more(keyLength + valueLength); err != nil {
		return nil, nil, Record{}, err
	}
	body := r.bytes[recordHeader:]
	return r.bytes, body[:keyLength], Record{Value: body[keyLength:], ForgetAt: forgetAt}, nil
}

// next reads n bytes.
func (r *summingReader) next(n int) error {
	r.bytes = r.bytes[:0]
	return r.more(n)
}

// more reads n bytes behind those that were read newest, making room for them as they come: a false length costs no more
// memory than the file is long.
func (r *summingReader) more(n int) error {
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

// checkSum reads a crc32c and compares it with that of everything before it.
func (r *summingReader) checkSum() error {
	want := r.crc
	if err := r.next(4); err != nil {
		return err
	}
	if got := binary.LittleEndian.Uint32(r.bytes); got != want {
		return fmt.Errorf("corrupt: crc32c is %08x, it says %08x", want, got)
	}
	return nil
}

// Restore reads a picture back into a fresh State, verifying checksum and fingerprint. An error leaves nothing behind;
// the replica must not go on without its snapshot.
func Restore(id ID, from io.Reader) (*State, error) {
	s, err := restore(id, &summingReader{buffer: bufio.NewReaderSize(from, 64<<10)})
	if err != nil {
		return nil, fmt.Errorf("shard: snapshot of shard %d: %w", id, err)
	}
	return s, nil
}

func restore(id ID, r *summingReader) (*State, error) {
	head, err := readHead(r)
	if err != nil {
		return nil, err
	}
	if head[0] != uint64(id) {
		return nil, fmt.Errorf("it is shard %d's", head[0])
	}
	s := &State{id: id, epoch: head[1], term: head[2], seq: head[3], time: limit.Time(head[4]), due: newDues()}
	if s.table, err = readTable(r, s.due, head[6], head[7]); err != nil {
		return nil, err
	}
	if err := r.checkSum(); err != nil {
		return nil, err
	}
	if head[5] >= head[7] {
		return nil, fmt.Errorf("cursor %d of %d segments", head[5], head[7])
	}
	s.table.cursor = int(head[5])
	if s.Sum() != head[8] {
		return nil, fmt.Errorf("fingerprint is %016x, it says %016x", s.Sum(), head[8])
	}
	return s, nil
}

func readHead(r *summingReader) (head [9]uint64, err error) {
	if err := r.next(len(snapshotMagic) + 8*len(head)); err != nil {
		return head, err
	}
	if string(r.bytes[:len(snapshotMagic)]) != snapshotMagic {
		return head, errors.New("unknown format: run a newer version")
	}
	for i := range head {
		head[i] = binary.LittleEndian.Uint64(r.bytes[len(snapshotMagic)+8*i:])
	}
	return head, r.checkSum()
}

// readTable fills a table that has as many segments as the picture's had, so that each record goes where it was, and
// sweeping goes on where it was.
func readTable(r *summingReader, due *dues, records, segments uint64) (*table, error) {
	if segments == 0 || records > maxRecords || segments > records/fewRecords+1 || records > segments*segmentRecords {
		return nil, fmt.Errorf("%d records in %d segments", records, segments)
	}
	f := newFilling(int(segments))
	for n := range records {
		packed, key, v, err := r.record()
		if err != nil {
			return nil, err
		}
		if !f.add(packed, key, v) {
			return nil, fmt.Errorf("record %d is not where it belongs", n)
		}
		if noteworthy(key) {
			due.note(string(key), v.Value)
		}
	}
	return f.done(), nil
}

// filling makes a table out of records that come segment by segment, as a picture has them: each segment once, and as
// large as it must be. A segment is made when its first record has come.
type filling struct {
	*table
	at   int     // the segment that is being filled
	next segment // its contents
}

func newFilling(segments int) *filling {
	f := &filling{table: &table{level: uint(bits.Len(uint(segments)) - 1)}}
	f.segments.length = segments
	f.segments.chunks = make([]*chunk, (segments+chunkSegments-1)/chunkSegments)
	f.next.forgetFirst = limit.Forever
	return f
}

// add takes the next record. It reports false when the record belongs into an earlier segment, or is there already.
func (f *filling) add(packed, key []byte, r Record) bool {
	hash := xxhash.Sum64(key)
	n := f.segmentIndex(hash)
	if n > f.at {
		f.finish()
		f.at = n
	}
	if n < f.at || f.next.find(hash, string(key)) >= 0 {
		return false
	}
	f.next.addPacked(hash, packed, r.ForgetAt)
	f.records++
	f.sum += recordSum(hash, r)
	return true
}

// finish puts a copy of the contents that have come in the segment's place.
func (f *filling) finish() {
	if len(f.next.slots) > 0 {
		g := f.next.clone(0)
		f.segments.fill(f.at, g)
		f.weigh(g)
	}
	f.next.slots, f.next.data, f.next.forgetFirst = f.next.slots[:0], f.next.data[:0], limit.Forever
}

func (f *filling) done() *table {
	f.finish()
	for n := range f.segments.length {
		if f.segments.chunks[n/chunkSegments] == nil || f.segments.at(n) == nil {
			g := &segment{forgetFirst: limit.Forever}
			f.segments.fill(n, g)
			f.weigh(g)
		}
	}
	return f.table
}
