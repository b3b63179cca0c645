package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// Options control how a log is read. The zero Options detect the format.
type Options struct {
	Format Format
	// Year is that of the first event of an auth log without years; 0 means the newest year that Now permits.
	Year     int
	Now      time.Time         // later events are counted as in the future; zero disables that
	Progress func(bytes int64) // called occasionally with the total number of bytes read; may be nil
}

// Events reads one log. It must be used by one goroutine at a time.
type Events struct {
	name   string
	format Format
	lines  *lines
	parse  parser
	strict bool // an invalid line ends the reading

	repeated Event // the event that is due again
	repeats  int   // how many more times

	now             limit.Time
	outOfOrder      int
	reading         Reading
	firstUnreadable error
}

// Reading counts how much of a log was understood.
type Reading struct {
	Lines           int    `json:"lines"`
	Events          uint64 `json:"events"`
	Skipped         int    `json:"skipped"`    // lines that are not events
	Unreadable      int    `json:"unreadable"` // lines that should be events but cannot be parsed
	FirstUnreadable string `json:"firstUnreadable,omitempty"`
	InFuture        uint64 `json:"inFuture"` // events later than Options.Now: the year is probably wrong
}

// parser parses one line into an event and the number of its occurrences; 0 if the line is not an event.
type parser func(line string) (event Event, times int, err error)

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

func detect(head []byte) Format {
	first, _, _ := strings.Cut(string(head), "\n")
	if _, err := parseHeader(strings.TrimRight(first, lineEnd)); err == nil {
		return CSV
	}
	for line := range strings.SplitSeq(string(head), "\n") {
		line = strings.TrimRight(line, lineEnd)
		if _, ok := splitSyslog(line); ok {
			return Auth
		}
		if _, _, stamp, ok := cutAccess(line); ok {
			if _, err := time.Parse(accessStamp, stamp); err == nil {
				return Combined
			}
		}
	}
	return ""
}

// Format returns the given or detected format.
func (e *Events) Format() Format { return e.format }

// Next returns the next event, or io.EOF after the last one. Any other error names the line.
func (e *Events) Next() (Event, error) {
	for e.repeats == 0 {
		line, err := e.lines.next()
		if errors.Is(err, io.EOF) {
			return Event{}, io.EOF
		}
		if err == nil {
			e.repeated, e.repeats, err = e.parse(line)
		}
		if err == nil && e.repeats > 0 {
			err = checkKey(e.repeated.Key)
		}
		switch {
		case err == nil && e.repeats == 0:
			e.reading.Skipped++
		case err != nil:
			if e.repeats = 0; e.fatal(err) {
				return Event{}, e.at(err)
			}
			e.passOver(err)
		}
	}
	e.repeats--
	e.reading.Events++
	if e.repeated.At > e.now {
		e.reading.InFuture++
	}
	e.repeated.Line = e.lines.number
	return e.repeated, nil
}

// checkKey refuses keys that a server would not count.
func checkKey(key string) error {
	if problem := shard.KeyProblem(key); problem != "" {
		return lineErrorf("key: %s", problem)
	}
	return nil
}

// fatal reports whether an error ends the reading. One broken line of a log is skipped; a failing reader, a missing
// year and an invalid line of a CSV file end it.
func (e *Events) fatal(err error) bool {
	var broken lineError
	return e.strict || !errors.As(err, &broken) && !errors.Is(err, errLongLine)
}

func (e *Events) passOver(err error) {
	e.reading.Unreadable++
	if e.firstUnreadable == nil {
		e.firstUnreadable = e.at(err)
	}
}

// Reading returns the counts so far.
func (e *Events) Reading() Reading {
	r := e.reading
	r.Lines = e.lines.number
	if e.firstUnreadable != nil {
		r.FirstUnreadable = e.firstUnreadable.Error()
	}
	return r
}

// log returns what a report says of the log.
func (e *Events) log(tier string) Log {
	return Log{Format: e.format, Tier: tier, OutOfOrder: e.outOfOrder, Reading: e.Reading()}
}

// nothing is the error for a log without events: the format or the file is wrong, and silence would hide it.
func (e *Events) nothing() error {
	r := e.Reading()
	text := fmt.Sprintf("%s: no event (lines: %d), read as %s", e.name, r.Lines, e.format)
	if r.FirstUnreadable != "" {
		return fmt.Errorf("%s; %d could not be read, the first: %s", text, r.Unreadable, r.FirstUnreadable)
	}
	return fmt.Errorf("%s: %s", text, map[Format]string{
		CSV:      "there is nothing behind the header",
		Auth:     "no failed password of sshd, no authentication failure of PAM with an rhost, no connection to ftpd",
		Combined: "there is no request",
	}[e.format])
}

func (e *Events) at(err error) error { return fmt.Errorf("%s:%d: %w", e.name, e.lines.number, err) }

// lineError is the error of one line.
type lineError string

func (e lineError) Error() string { return string(e) }

func lineErrorf(format string, args ...any) error { return lineError(fmt.Sprintf(format, args...)) }
