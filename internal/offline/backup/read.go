package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/stint-io/stint/shard"
)

// ErrDamaged is in the chain of an error about a file that is not what was written.
var ErrDamaged = errors.New("the file is damaged, or not complete")

// Backup is a backup in memory.
type Backup struct {
	Header
	Data   []*shard.State // the data shards in order
	System *shard.State
}

// windowMost bounds the memory of a decompression.
const windowMost = 64 << 20

// OnFile reads the file of that name, with Read or ReadHeader.
func OnFile[T any](name string, read func(file io.ReaderAt, size int64) (T, error)) (content T, err error) {
	file, err := os.Open(name)
	if err != nil {
		return content, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return content, err
	}
	return read(file, info.Size())
}

// Read verifies a file and reads all of it. It refuses what a newer release may have written.
func Read(file io.ReaderAt, size int64) (*Backup, error) {
	body, err := verify(file, size, magic)
	if err != nil {
		return nil, err
	}
	return decode(bufio.NewReaderSize(io.NewSectionReader(file, 0, body), 64<<10))
}

// ReadHeader verifies a file and reads what it says of itself.
func ReadHeader(file io.ReaderAt, size int64) (Header, error) {
	body, err := verify(file, size, magic)
	if err != nil {
		return Header{}, err
	}
	r := &reader{in: bufio.NewReaderSize(io.NewSectionReader(file, 0, body), 64<<10)}
	h := r.header()
	return h, r.err
}

// verify compares a file with its SHA-256, and returns the length of what is before it.
func verify(file io.ReaderAt, size int64, magic string) (body int64, err error) {
	body = size - sha256.Size
	if body < int64(len(magic)) {
		return 0, fmt.Errorf("a file of %d bytes: %w", size, ErrDamaged)
	}
	start := make([]byte, len(magic))
	if _, err := file.ReadAt(start, 0); err != nil {
		return 0, err
	}
	if string(start) != magic {
		kind := magic[:len(magic)-len("1\n")]
		if bytes.HasPrefix(start, []byte(kind)) {
			return 0, fmt.Errorf("a %sof a newer format: run the release that wrote it, or a newer one",
				kind[len("stint "):])
		}
		return 0, fmt.Errorf("not a %s of stint: %w", kind[len("stint "):len(kind)-1], ErrDamaged)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(file, 0, body)); err != nil {
		return 0, err
	}
	want := make([]byte, sha256.Size)
	if _, err := file.ReadAt(want, body); err != nil {
		return 0, err
	}
	if !bytes.Equal(sum.Sum(nil), want) { //mutant:backup-sum-ignored
		return 0, fmt.Errorf("the SHA-256 is not that of the content: %w", ErrDamaged)
	}
	return body, nil
}

// decode reads a file up to its SHA-256.
func decode(in *bufio.Reader) (*Backup, error) {
	r := &reader{in: in}
	b := &Backup{Header: r.header()}
	if r.err == nil && b.Level > shard.LevelNewest {
		r.err = fmt.Errorf("written at level %d, this binary knows %d: run %s or newer, or restore an older backup",
			b.Level, shard.LevelNewest, b.Release)
	}
	for n := uint32(0); r.err == nil && n <= b.Shards; n++ {
		id := shard.System
		if n < b.Shards {
			id = shard.ID(n)
		}
		if state := r.section(id); id == shard.System {
			b.System = state
		} else {
			b.Data = append(b.Data, state)
		}
	}
	if _, err := in.ReadByte(); r.err == nil && err != io.EOF {
		r.damaged("there is more than its header says")
	}
	if r.err != nil {
		return nil, r.err
	}
	return b, nil
}

// reader reads the parts of a file until the first error.
type reader struct {
	in  *bufio.Reader
	err error
}

func (r *reader) damaged(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), ErrDamaged)
	}
}

func (r *reader) bytes(n int) []byte {
	b := make([]byte, n)
	if r.err != nil {
		return b
	}
	if _, err := io.ReadFull(r.in, b); err != nil {
		r.damaged("it ends early (%v)", err)
	}
	return b
}

func (r *reader) byte() byte     { return r.bytes(1)[0] }
func (r *reader) uint32() uint32 { return binary.LittleEndian.Uint32(r.bytes(4)) }

func (r *reader) header() (h Header) {
	r.head(magic, &h)
	if h.Shards == 0 || h.Shards > shardsMost || h.Cluster == "" {
		r.damaged("its header has %d shards of cluster %q", h.Shards, h.Cluster)
	}
	return h
}

// head reads the text of a header.
func (r *reader) head(magic string, into any) {
	if string(r.bytes(len(magic))) != magic {
		r.damaged("it does not begin as it should")
	}
	length := r.uint32()
	if length > headerMost {
		r.damaged("its header has %d bytes", length)
	}
	if r.err != nil {
		return
	}
	if err := json.Unmarshal(r.bytes(int(length)), into); err != nil {
		r.damaged("its header cannot be read (%v)", err)
	}
}

// shardsMost bounds what a header may claim.
const shardsMost = 4096

// section reads one shard.
func (r *reader) section(want shard.ID) *shard.State {
	if mark, id := r.byte(), shard.ID(r.uint32()); r.err == nil && (mark != sectionMark || id != want) {
		r.damaged("shard %v's section is not in its place", want)
	}
	if r.err != nil {
		return nil
	}
	frames := &frameReader{r: r}
	unpacked, err := zstd.NewReader(frames, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(windowMost))
	if err != nil {
		r.err = err
		return nil
	}
	defer unpacked.Close()
	state, err := shard.Restore(want, unpacked)
	if err == nil {
		_, err = io.Copy(io.Discard, unpacked) // to its end, with the checksum of the stream
	}
	if err != nil {
		r.damaged("shard %v cannot be read (%v)", want, err)
		return nil
	}
	frames.drain()
	return state
}

// frameReader reads the bytes of frames up to their end.
type frameReader struct {
	r    *reader
	left uint32
	done bool
}

func (f *frameReader) Read(b []byte) (int, error) {
	for f.left == 0 && !f.done && f.r.err == nil {
		if f.left = f.r.uint32(); f.left > frameBytes {
			f.r.damaged("a frame of %d bytes", f.left)
		}
		f.done = f.left == 0
	}
	switch {
	case f.r.err != nil:
		return 0, f.r.err
	case f.done:
		return 0, io.EOF
	}
	n, err := f.r.in.Read(b[:min(len(b), int(f.left))])
	f.left -= uint32(n)
	if err != nil {
		f.r.damaged("it ends early (%v)", err)
		return n, f.r.err
	}
	return n, nil
}

// drain reads what the decompression left, which must be nothing but the end.
func (f *frameReader) drain() {
	if n, _ := f.Read(make([]byte, 1)); n > 0 {
		f.r.damaged("a section has more than its shard")
	}
}
