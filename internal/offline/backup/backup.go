package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

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
		switch {
		case bytes.HasPrefix(start, []byte(kind)):
			return 0, fmt.Errorf("a %sof a newer format: run the release that wrote it, or a newer one",
				kind[len("stint "):])
		case bytes.HasPrefix(start, []byte("stint part ")): //mutant:part-called-damaged
			return 0, errors.New("not a backup of stint, but a part: stint tool recover makes a backup of it")
		case bytes.HasPrefix(start, []byte("stint backup ")): //mutant:backup-called-damaged
			return 0, errors.New("not a part of stint, but a backup: stint restore takes it as it is")
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
