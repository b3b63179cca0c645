package backup

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/stint-io/stint/shard"
)

// partMagic starts a part: what is left on the disk of one node, for a recovery on another machine. Its header is a
// PartHeader; the rest is as in a backup, with a section for each state.
const partMagic = "stint part 1\n"

// PartHeader is what a part says of itself.
type PartHeader struct {
	Release string // of the program that wrote the file
	Level   shard.Level
	Shards  []shard.ID      // of the sections, in order; a shard may stand more than once
	About   json.RawMessage // for the package that wrote it
}

// NewPartWriter writes the header of a part. The caller writes the sections in order, and then calls Finish.
func NewPartWriter(out io.Writer, h PartHeader) (*Writer, error) {
	return newWriter(out, partMagic, h, h.Shards)
}

// Part is a part that was verified and is read section by section. State may be called concurrently.
type Part struct {
	PartHeader
	file io.ReaderAt
	body int64 // length of the file without its SHA-256
}

// OpenPart verifies a part. The file must stay open.
func OpenPart(file io.ReaderAt, size int64) (*Part, error) {
	body, err := verify(file, size, partMagic)
	if err != nil {
		return nil, err
	}
	p := &Part{file: file, body: body}
	r := p.reader()
	if r.err == nil && p.Level > shard.LevelNewest {
		r.err = fmt.Errorf("written at level %d, this binary knows %d: run %s or newer", p.Level, shard.LevelNewest,
			p.Release)
	}
	return p, r.err
}

// reader returns a reader that has read the header, into p: State has it fill a Part of its own, since other calls may
// look at p's meanwhile.
func (p *Part) reader() *reader {
	r := &reader{in: bufio.NewReaderSize(io.NewSectionReader(p.file, 0, p.body), 64<<10)}
	r.head(partMagic, &p.PartHeader)
	return r
}

// State reads the n-th section, from 0.
func (p *Part) State(n int) (*shard.State, error) {
	r := (&Part{file: p.file, body: p.body}).reader()
	for i := 0; i < n && r.err == nil; i++ {
		r.bytes(1 + 4)
		_, _ = io.Copy(io.Discard, &frameReader{r: r}) // its error is the reader's
	}
	state := r.section(p.Shards[n])
	return state, r.err
}
