package shard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/table"
)

// snapshotMagic starts every snapshot; its digit is the format.
const snapshotMagic = "stint shard 1\n"

// Snapshot is an immutable copy of a State. Taking one copies some bytes for each slot. Another goroutine may write it
// out while entries are being installed.
type Snapshot struct {
	head    [5]uint64 // shard, epoch, term, seq, time: in the order of the file
	picture *table.Picture
}

// ErrDiverged is wrapped by an error about records that differ from the installed ones.
var ErrDiverged = table.ErrDiverged

// Snapshot takes a snapshot of the state.
func (s *State) Snapshot() *Snapshot {
	return &Snapshot{[5]uint64{uint64(s.id), s.epoch, s.term, s.seq, uint64(s.time)}, s.table.Picture()}
}

// WriteTo writes the snapshot: magic, head (8 bytes per number), the crc32c of these, the records (table.Picture), the
// crc32c of all of it. An error that wraps ErrDiverged means that the records differ from the installed ones; the
// output is then not a valid snapshot.
func (p *Snapshot) WriteTo(w io.Writer) (int64, error) {
	out := table.NewWriter(w)
	head, _ := binary.Append([]byte(snapshotMagic), binary.LittleEndian, p.head[:])
	out.Write(head)
	out.WriteSum()
	if err := p.picture.Write(out); err != nil {
		n, _ := out.Flush()
		return n, fmt.Errorf("shard: snapshot of shard %d at epoch %d, seq %d: %w",
			p.head[0], p.head[1], p.head[3], err)
	}
	out.WriteSum()
	return out.Flush()
}

// Restore reads a snapshot into a new State and verifies checksums and sum. On an error it returns no State, and the
// replica must not continue without its snapshot.
func Restore(id ID, from io.Reader) (*State, error) {
	s, err := restore(id, table.NewReader(from))
	if err != nil {
		return nil, fmt.Errorf("shard: snapshot of shard %d: %w", id, err)
	}
	return s, nil
}

func restore(id ID, r *table.Reader) (*State, error) {
	head, err := readSnapshotHead(r)
	if err != nil {
		return nil, err
	}
	if head[0] != uint64(id) {
		return nil, fmt.Errorf("it is shard %d's", head[0])
	}
	s := &State{id: id, epoch: head[1], term: head[2], seq: head[3], time: limit.Time(head[4]), due: newDues()}
	if s.table, err = table.Read(r, keyLayout{}, s.shares.count, s.note); err != nil {
		return nil, err
	}
	return s, r.CheckSum() //mutant:snapshot-lacks-sessions
}

func readSnapshotHead(r *table.Reader) (head [5]uint64, err error) {
	b, err := r.Next(len(snapshotMagic) + 8*len(head))
	if err != nil {
		return head, err
	}
	if string(b[:len(snapshotMagic)]) != snapshotMagic {
		return head, errors.New("unknown format: run a newer version")
	}
	binary.Decode(b[len(snapshotMagic):], binary.LittleEndian, head[:])
	return head, r.CheckSum()
}
