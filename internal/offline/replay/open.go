package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/stint-io/stint/limit"
)

// Options control how a log is read. The zero Options detect the format.
type Options struct {
	Format Format
	// Year is that of the first event of an auth log without years; 0 means the newest year that Now permits.
	Year     int
	Now      time.Time         // later events are counted as in the future; zero disables that
	Progress func(bytes int64) // called occasionally with the total number of bytes read; may be nil
}

// Open reads the first lines of a log and prepares to read the rest. The name is used in errors only. Open fails if the
// log is empty, compressed or in UTF-16, if its format is neither given nor detected, and if a CSV header is wrong.
func Open(name string, r io.Reader, options Options) (*Events, error) {
	e := &Events{name: name, format: options.Format, lines: newLines(r, options.Progress), now: limit.Forever}
	if !options.Now.IsZero() {
		e.now = limit.Time(options.Now.UnixMicro())
	}
	if err := e.begin(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	switch e.format {
	case Auth:
		e.parse = (&authParser{year: options.Year, now: options.Now}).parse
	case Combined:
		e.parse = parseCombined
	default:
		return e, e.openCSV()
	}
	return e, nil
}

// begin checks that the first lines look like a log, and detects the format if none was given.
func (e *Events) begin() error {
	head, err := e.lines.r.Peek(lineBytesMax)
	switch failed := err != nil && !errors.Is(err, io.EOF); {
	case failed && e.format != "":
		return nil // Next will report the line
	case failed:
		return err
	case len(head) == 0:
		return errors.New("there is nothing in it")
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		return errors.New("is packed with gzip: unpack it first, as in gunzip -c FILE | stint tool simulate --input -")
	case bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")):
		return errors.New("is written in UTF-16: make it UTF-8 first, " +
			"as in iconv -f UTF-16 -t UTF-8 FILE | stint tool simulate --input -")
	case bytes.HasPrefix(head, []byte(byteOrderMark)):
		head = head[len(byteOrderMark):]
		e.lines.skip(len(byteOrderMark))
	}
	if e.format != "" {
		return nil
	}
	if e.format = detect(head); e.format == "" {
		return errors.New("the first lines are in none of the formats csv, auth and combined; " +
			"name the format, or begin a CSV file with the header time,key")
	}
	return nil
}

// byteOrderMark is a prefix that some editors write before a text.
const byteOrderMark = "\ufeff"

func (e *Events) openCSV() error {
	line, err := e.lines.next()
	if err != nil && !errors.Is(err, io.EOF) {
		return e.at(err)
	}
	columns, err := parseHeader(line)
	if err != nil {
		e.lines.number = 1
		return e.at(err)
	}
	e.parse, e.strict = columns.parse, true
	e.reading.Skipped++ // the header
	return nil
}
