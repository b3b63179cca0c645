package backup

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/stint-io/stint/shard"
)

// windowMost bounds the memory of a decompression.
const windowMost = 64 << 20

// reader reads the parts of a file until the first error. From then on it reads zeros, so that callers may look at err
// once, after several parts.
type reader struct {
	in  *bufio.Reader
	err error
}

// damaged makes this the first error, unless there is one.
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
	left uint32 // bytes of the frame under way
	done bool   // the end was read: a frame of no bytes
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
