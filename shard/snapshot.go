package shard

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"github.com/stint-io/stint/limit"
)

// snapshotMagic begins every snapshot; its last byte is the format.
const snapshotMagic = "stint shard 1\n"

// maxRecordKeyBytes and maxRecordBytes bound what a decoder makes room for.
const (
	maxRecordKeyBytes = 1 << 10
	maxRecordBytes    = 64 << 20
)

// Snapshot is an immutable picture of a State. Taking one copies a list of pointers; it may be written by another
// goroutine while entries go on being installed.
type Snapshot struct {
	head     [9]uint64 // shard, epoch, term, seq, time, cursor, records, segments, sum: in the order of the file
	segments []*segment
}

// Snapshot takes a picture of the state.
func (s *State) Snapshot() *Snapshot {
	segments := s.table.share()
	return &Snapshot{
		head: [9]uint64{uint64(s.id), s.epoch, s.term, s.seq, uint64(s.time), uint64(s.table.cursor),
			uint64(s.table.records), uint64(len(segments)), s.Sum()},
		segments: segments,
	}
}

// WriteTo writes the picture: magic, head (8 bytes a number), the crc32c of these, the records as a segment holds
// them, then the crc32c of all of it. The head's last number is the fingerprint.
func (p *Snapshot) WriteTo(w io.Writer) (int64, error) {
	out := &summingWriter{buffer: bufio.NewWriterSize(w, 64<<10), crc: crc32.New(castagnoli)}
	head := []byte(snapshotMagic)
	for _, v := range p.head {
		head = binary.LittleEndian.AppendUint64(head, v)
	}
	out.write(head)
	out.write(binary.LittleEndian.AppendUint32(nil, out.crc.Sum32()))
	for _, g := range p.segments {
		for i := range g.slots {
			out.write(g.data[g.slots[i].at:][:g.size(i)])
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
	buffer     *bufio.Reader
	crc        hash.Hash32
	head, body []byte // of the newest record
}

// record reads one record into a table, and into the index of what is to be done.
func (r *summingReader) record(t *table, due dues) (err error) {
	if r.head, err = r.next(r.head, recordHeader, recordHeader); err != nil {
		return err
	}
	keyLength, valueLength, forgetAt := readRecordHeader(r.head)
	if r.body, err = r.next(r.body, uint64(keyLength+valueLength), maxRecordBytes); err != nil {
		return err
	}
	key, value := string(r.body[:keyLength]), r.body[keyLength:]
	t.put(key, Record{Value: value, ForgetAt: forgetAt})
	due.note(key, value)
	return nil
}

// next reads n bytes, growing its buffer as they come: a false length costs no more memory than the file is long.
func (r *summingReader) next(into []byte, n, most uint64) ([]byte, error) {
	if n > most {
		return nil, fmt.Errorf("a length of %d is above %d", n, most)
	}
	into = into[:0]
	for n > 0 {
		step := min(n, 64<<10)
		at := len(into)
		into = append(into, make([]byte, step)...)
		if _, err := io.ReadFull(r.buffer, into[at:]); err != nil {
			return nil, err
		}
		n -= step
	}
	r.crc.Write(into)
	return into, nil
}

// checkSum reads a crc32c and compares it with that of everything before it.
func (r *summingReader) checkSum() error {
	want := r.crc.Sum32()
	b, err := r.next(nil, 4, 4)
	if err != nil {
		return err
	}
	if got := binary.LittleEndian.Uint32(b); got != want {
		return fmt.Errorf("corrupt: crc32c is %08x, it says %08x", want, got)
	}
	return nil
}

// Restore reads a picture back into a fresh State, verifying checksum and fingerprint. An error leaves nothing behind;
// the replica must not go on without its snapshot.
func Restore(id ID, from io.Reader) (*State, error) {
	s, err := restore(id, &summingReader{buffer: bufio.NewReaderSize(from, 64<<10), crc: crc32.New(castagnoli)})
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
	s := &State{id: id, epoch: head[1], term: head[2], seq: head[3], time: limit.Time(head[4]), due: make(dues)}
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
	b, err := r.next(nil, uint64(len(snapshotMagic)+8*len(head)), 1<<10)
	if err != nil {
		return head, err
	}
	if string(b[:len(snapshotMagic)]) != snapshotMagic {
		return head, errors.New("unknown format: run a newer version")
	}
	for i := range head {
		head[i] = binary.LittleEndian.Uint64(b[len(snapshotMagic)+8*i:])
	}
	return head, r.checkSum()
}

// readTable fills a table and gives it as many segments as the picture's had, so that sweeping goes on where it was.
// It makes room as records come, not as the head says.
func readTable(r *summingReader, due dues, records, segments uint64) (*table, error) {
	t := newTable()
	for range records {
		if err := r.record(t, due); err != nil {
			return nil, err
		}
	}
	if uint64(t.records) != records || segments > records/fewRecords+1 {
		return nil, fmt.Errorf("%d records in %d segments, it says %d in %d", t.records, len(t.segments), records, segments)
	}
	for uint64(len(t.segments)) < segments {
		t.grow()
	}
	return t, nil
}
