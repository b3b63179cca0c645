package backup

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/stint-io/stint/shard"
)

const (
	magic       = "stint backup 1\n"
	headerMost  = 1 << 20   // bytes of its JSON
	frameBytes  = 256 << 10 // at most in one frame, compressed
	sectionMark = 'S'
)

// Writer writes a backup, or a part. Its methods must not be called concurrently.
type Writer struct {
	out      io.Writer
	sum      hash.Hash  // of everything written
	written  int64      // bytes
	sections int        // that are complete
	order    []shard.ID // of the sections
}

// NewWriter writes the header. The caller writes the section of each shard in order, and then calls Finish.
func NewWriter(out io.Writer, h Header) (*Writer, error) {
	order := make([]shard.ID, 0, h.Shards+1)
	for id := range shard.ID(h.Shards) {
		order = append(order, id)
	}
	return newWriter(out, magic, h, append(order, shard.System))
}

func newWriter(out io.Writer, magic string, header any, order []shard.ID) (*Writer, error) {
	w := &Writer{out: out, sum: sha256.New(), order: order}
	text, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	if len(text) > headerMost {
		return nil, fmt.Errorf("backup: a header of %d bytes", len(text))
	}
	b := binary.LittleEndian.AppendUint32([]byte(magic), uint32(len(text)))
	_, err = w.Write(append(b, text...))
	return w, err
}

// Write implements io.Writer. It is for this package.
func (w *Writer) Write(b []byte) (int, error) {
	n, err := w.out.Write(b)
	w.sum.Write(b[:n])
	w.written += int64(n)
	return n, err
}

// Written is the number of bytes written so far.
func (w *Writer) Written() int64 { return w.written }

// Next returns the shard of the section to be written next; ok is false after the last one.
func (w *Writer) Next() (id shard.ID, ok bool) {
	if w.sections == len(w.order) {
		return 0, false
	}
	return w.order[w.sections], true
}

// Section writes the next shard's section: fill writes its Snapshot. After an error the file is spoiled: the Writer
// must not be used any further.
func (w *Writer) Section(fill func(io.Writer) error) error {
	id, ok := w.Next()
	if !ok {
		return errors.New("backup: every shard is written")
	}
	if _, err := w.Write(binary.LittleEndian.AppendUint32([]byte{sectionMark}, uint32(id))); err != nil {
		return err
	}
	packed, err := zstd.NewWriter(frameWriter{w}, zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return err
	}
	if err := errors.Join(fill(packed), packed.Close()); err != nil {
		return err
	}
	if _, err := w.Write(binary.LittleEndian.AppendUint32(nil, 0)); err != nil {
		return err
	}
	w.sections++
	return nil
}

// State is Section for a state.
func (w *Writer) State(s *shard.State) error {
	return w.Section(func(out io.Writer) error {
		_, err := s.Snapshot().WriteTo(out)
		return err
	})
}

// Finish writes the end of the file. It does not close the underlying writer.
func (w *Writer) Finish() error {
	if id, missing := w.Next(); missing {
		return fmt.Errorf("backup: shard %v is missing", id)
	}
	_, err := w.Write(w.sum.Sum(nil))
	return err
}

// frameWriter cuts a stream into frames.
type frameWriter struct{ out io.Writer }

// Write implements io.Writer.
func (f frameWriter) Write(b []byte) (int, error) {
	for part := range slices.Chunk(b, frameBytes) {
		frame := append(binary.LittleEndian.AppendUint32(nil, uint32(len(part))), part...)
		if _, err := f.out.Write(frame); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}
