package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Picture is a copy of a table at one moment. It never changes.
type Picture struct {
	parts   []part // segments are shared with the table, which copies them before a change
	texts   *headTexts
	sweeper cursor
	records int    // Write checks that it finds so many
	sum     uint64 // and that they have this sum
}

// Picture takes a picture of the table. That copies some bytes for each part.
func (t *Table) Picture() *Picture {
	t.generation++
	return &Picture{slices.Clone(t.parts), t.heads.texts, t.sweeper, t.records, t.sum}
}

// ErrDiverged is wrapped by an error about records that differ from those that were put.
var ErrDiverged = errors.New("the records are not those that were installed: this machine's memory may be faulty")

// Write writes the picture:
//
//	part and segment to be swept next, records, their sum, parts that are not empty (8 bytes each)
//	for each of these: its number, segments, records (8 bytes each)
//	the crc32c of everything before it
//	each record, segment by segment: length of its key (2 bytes), of its value (4), forget at (8), key, value
//
// It computes the sum of the records again. The error wraps ErrDiverged: the output is then not a valid picture.
func (p *Picture) Write(out *Writer) error {
	head := []uint64{uint64(p.sweeper.part), uint64(p.sweeper.segment), uint64(p.records), p.sum, 0}
	for i := range p.parts {
		if its := &p.parts[i]; len(its.segments) > 0 {
			head = append(head, uint64(i), uint64(len(its.segments)), uint64(its.records))
			head[4]++
		}
	}
	b, _ := binary.Append(nil, binary.LittleEndian, head)
	out.Write(b)
	out.WriteSum()
	return p.writeRecords(out)
}

func (p *Picture) writeRecords(out *Writer) error {
	var records int
	var sum uint64
	var room []byte
	for i := range p.parts {
		for _, g := range p.parts[i].segments {
			for at := g.first(); !g.past(at); {
				s, ok := g.intact(at)
				room = s.pack(room[:0], p.texts)
				hash := xxhash.Sum64(room[recordHeader : len(room)-len(s.Value)])
				if !ok || tagOfHash(hash) != s.tag || s.head != 0 && p.texts.texts[s.head] == "" {
					return fmt.Errorf("a record is not as it was stored: %w", ErrDiverged)
				}
				out.Write(room)
				records++
				sum += s.sum(hash)
				at = s.next
			}
		}
	}
	//mutant:snapshot-ignores-its-records
	if out.err == nil && (records != p.records || sum != p.sum) {
		return fmt.Errorf("%d records with sum %016x, it should be %d with %016x: %w",
			records, sum, p.records, p.sum, ErrDiverged)
	}
	return nil
}

// pictureHead is the beginning of a picture.
type pictureHead struct {
	sweeper      cursor
	records, sum uint64
	parts        []partHead
}

type partHead struct{ part, segments, records uint64 }

func readNumbers(r *Reader, n int) (numbers []uint64, err error) {
	b, err := r.Next(8 * n)
	for ; err == nil && len(b) > 0; b = b[8:] {
		numbers = append(numbers, binary.LittleEndian.Uint64(b))
	}
	return numbers, err
}

func readPictureHead(r *Reader, layout Layout) (h pictureHead, err error) {
	head, err := readNumbers(r, 5)
	if err != nil {
		return h, err
	}
	if head[0] >= uint64(layout.Parts()) || head[1] > maxRecords || head[4] > uint64(layout.Parts()) {
		return h, fmt.Errorf("%d parts of %d, swept up to part %d, segment %d",
			head[4], layout.Parts(), head[0], head[1])
	}
	h = pictureHead{sweeper: cursor{int(head[0]), int(head[1])}, records: head[2], sum: head[3]}
	numbers, err := readNumbers(r, 3*int(head[4]))
	if err != nil {
		return h, err
	}
	for one := range slices.Chunk(numbers, 3) {
		h.parts = append(h.parts, partHead{one[0], one[1], one[2]})
	}
	if err := r.CheckSum(); err != nil {
		return h, err
	}
	total, next := uint64(0), uint64(0) // the next part is this one or a later one
	for _, p := range h.parts {
		if p.part < next || p.part >= uint64(layout.Parts()) || p.records > maxRecords || p.segments == 0 ||
			p.segments > p.records/fewRecords+1 || p.records > p.segments*segmentRecords {
			return h, fmt.Errorf("part %d after part %d: %d records in %d segments",
				p.part, next, p.records, p.segments)
		}
		total, next = total+p.records, p.part+1
	}
	if total != h.records || total > maxRecords {
		return h, fmt.Errorf("%d records, its parts have %d", h.records, total)
	}
	return h, nil
}

// Read reads the output of Write into a new table, and calls each with every record, in memory of the table or the
// reader. Each record returns to its segment, and the sweep continues where it was. The caller checks the sum of the
// file.
func Read(r *Reader, layout Layout, count Count, each func(key string, value []byte)) (*Table, error) {
	h, err := readPictureHead(r, layout)
	if err != nil {
		return nil, err
	}
	f := filling{Table: New(layout, count)}
	f.sweeper = h.sweeper
	for _, p := range h.parts {
		f.begin(p)
		for n := range p.records {
			key, v, err := r.record()
			if err != nil {
				return nil, err
			}
			name := string(key)
			if !f.add(name, v) {
				return nil, fmt.Errorf("record %d of part %d is not where it belongs", n, p.part)
			}
			each(name, v.Value)
		}
		f.end()
	}
	if f.sum != h.sum {
		return nil, fmt.Errorf("the sum of its records is %016x, it says %016x", f.sum, h.sum)
	}
	return f.Table, nil
}
