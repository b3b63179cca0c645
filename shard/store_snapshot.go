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

// snapshotMagic starts every snapshot; its digit is the format.
const snapshotMagic = "stint shard 1\n"

// maxRecordKeyBytes, maxRecordBytes and maxRecords bound what a decoder allocates.
const (
	maxRecordKeyBytes = 1 << 10
	maxRecordBytes    = 64 << 20
	maxRecords        = 1 << 32
)

// Snapshot is an immutable picture of a State. Taking one copies about one pointer per ten thousand records. Another
// goroutine may write it out while entries are being installed.
type Snapshot struct {
	head     [9]uint64 // shard, epoch, term, seq, time, cursor, records, segments, sum: in the order of the file
	segments directory
}

// Snapshot takes a picture of the state.
func (s *State) Snapshot() *Snapshot {
	segments := s.table.segments.share()
	return &Snapshot{
		head: [9]uint64{uint64(s.id), s.epoch, s.term, s.seq, uint64(s.time), uint64(s.table.cursor),
			uint64(s.table.records), uint64(segments.length), s.pictureSum()},
		segments: segments,
	}
}

// WriteTo writes the picture: magic, head (8 bytes per number), the crc32c of these, the records, segment by
// segment, then the crc32c of all of it. A record is the length of its key (2 bytes), of its value (4), forget at (8), key, value. The head's last number is the fingerprint. An error that
// wraps ErrDiverged means that the records differ from the installed ones; the output is then not a valid picture.
func (p *Snapshot) WriteTo(w io.Writer) (int64, error) {
	out := &summingWriter{buffer: bufio.NewWriterSize(w, 64<<10), crc: crc32.New(castagnoli)}
	head := []byte(snapshotMagic)
	for _, v := range p.head {
		head = binary.LittleEndian.AppendUint64(head, v)
	}
	out.write(head)
	out.write(binary.LittleEndian.AppendUint32(nil, out.crc.Sum32()))
	if err := p.writeRecords(out); err != nil {
		return out.written, err
	}
	out.write(binary.LittleEndian.AppendUint32(nil, out.crc.Sum32()))
	if out.err == nil {
		out.err = out.buffer.Flush()
	}
	return out.written, out.err
}

// ErrDiverged is wrapped by an error about records that differ from the installed ones.
var ErrDiverged = errors.New("the records are not those that were installed: this machine's memory may be faulty")

// writeRecords writes the records and computes their sum again, which must be that of the installed records.
func (p *Snapshot) writeRecords(out *summingWriter) error {
	var records, sum uint64
	var room []byte
	for n := range p.segments.length {
		g := p.segments.at(n)
		for at := g.first(); !g.past(at); {
			s, ok := g.intact(at)
			room = s.pack(room[:0], p.segments.heads)
			hash := xxhash.Sum64(room[recordHeader : len(room)-len(s.Value)])
			if !ok || tagOfHash(hash) != s.tag || s.head != 0 && p.segments.heads.texts[s.head] == "" {
				return fmt.Errorf("shard: snapshot of shard %d: a record is not as it was stored: %w", p.head[0], ErrDiverged)
			}
			out.write(room)
			records++
			sum += recordSum(hash, s.Record)
			at = s.next
		}
	}
	//mutant:snapshot-ignores-its-records
	if sum = pictureSum(p.head, sum); out.err == nil && (records != p.head[6] || sum != p.head[8]) {
		return fmt.Errorf("shard: snapshot of shard %d at epoch %d, seq %d: %d records with fingerprint %016x, it should be %d with %016x: %w",
			p.head[0], p.head[1], p.head[3], records, sum, p.head[6], p.head[8], ErrDiverged)
	}
	return nil
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

// summingReader reads and verifies the output of summingWriter.
type summingReader struct {
	buffer *bufio.Reader
	crc    uint32
	bytes  []byte // of the latest read
}

// record reads one record. It is valid until the next read.
func (r *summingReader) record() (key []byte, v Record, err error) {
	if err = r.next(recordHeader); err != nil {
		return nil, Record{}, err
	}
	keyLength, valueLength, forgetAt := readRecordHeader(r.bytes)
	if keyLength > maxRecordKeyBytes || valueLength > maxRecordBytes {
		return nil, Record{}, fmt.Errorf("a record of %d and %d bytes", keyLength, valueLength)
	}
	if err = r.more(keyLength + valueLength); err != nil {
		return nil, Record{}, err
	}
	body := r.bytes[recordHeader:]
	return body[:keyLength], Record{Value: body[keyLength:], ForgetAt: forgetAt}, nil
}

// next reads n bytes.
func (r *summingReader) next(n int) error {
	r.bytes = r.bytes[:0]
	return r.more(n)
}

// more appends n bytes to the latest read. It allocates as they arrive, so a wrong length costs no more memory than the
// file is long.
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

// Restore reads a picture into a new State and verifies checksum and fingerprint. On an error it returns no State, and the
// replica must not continue without its snapshot.
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
	if sum := s.pictureSum(); sum != head[8] {
		return nil, fmt.Errorf("fingerprint is %016x, it says %016x", sum, head[8])
	}
	return s, nil //mutant:snapshot-lacks-sessions
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

// readTable fills a table with as many segments as the picture had, so that each record returns to its segment and
// sweeping continues where it was.
func readTable(r *summingReader, due *dues, records, segments uint64) (*table, error) {
	if segments == 0 || records > maxRecords || segments > records/fewRecords+1 || records > segments*segmentRecords {
		return nil, fmt.Errorf("%d records in %d segments", records, segments)
	}
	f := newFilling(int(segments))
	for n := range records {
		key, v, err := r.record()
		if err != nil {
			return nil, err
		}
		if !f.add(string(key), v) {
			return nil, fmt.Errorf("record %d is not where it belongs", n)
		}
		if noteworthy(key) {
			due.note(string(key), v.Value)
		}
	}
	return f.done(), nil
}

// filling builds a table from records that arrive segment by segment, in the order of a picture. Each segment is made once
// and in its exact size, when its last record has arrived.
type filling struct {
	*table
	at   int     // the segment being filled
	next segment // its contents
}

func newFilling(segments int) *filling {
	f := &filling{table: newTable()}
	f.level, f.bytes = uint(bits.Len(uint(segments))-1), 0
	f.segments.length = segments
	f.segments.chunks = make([]*chunk, (segments+chunkSegments-1)/chunkSegments)
	f.next.forgetFirst = limit.Forever
	return f
}

// add adds the next record. It returns false if the record belongs in an earlier segment, or is already there.
func (f *filling) add(key string, r Record) bool {
	hash := xxhash.Sum64String(key)
	n := f.segmentIndex(hash)
	if n > f.at {
		f.finish()
		f.at = n
	}
	if _, found := f.next.find(f.segments.heads, hash, key); n < f.at || found {
		return false
	}
	head, rest := f.take(key)
	f.next.add(hash, head, rest, r)
	f.records++
	f.enter(hash, r)
	f.shares.add(key, len(key)+len(r.Value)) //mutant:snapshot-forgets-shares
	return true
}

// finish stores a copy of the collected contents as the segment.
func (f *filling) finish() {
	if f.next.records > 0 {
		g := f.next.clone(0)
		f.segments.fill(f.at, g)
		f.weigh(g)
	}
	f.next.data, f.next.records, f.next.forgetFirst = f.next.data[:0], 0, limit.Forever
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
