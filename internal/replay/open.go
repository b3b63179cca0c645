package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/stint-io/stint/shard"
)

// Options say how a log is to be read. The zero Options detect the format.
type Options struct {
	Format   Format
	Year     int               // of the first event of an auth log whose times have none
	Progress func(bytes int64) // nil, or told from time to time how many bytes were read in all
}

// Events reads one log. It is for one goroutine.
type Events struct {
	name   string
	format Format
	lines  *lines
	parse  parser
	strict bool // a line that cannot be read ends the reading

	repeated Event // is due again
	repeats  int   // as often as this

	unreadable      int
	firstUnreadable error
}

// parser reads one line: an event and how often it happened, 0 times for a line that is none.
type parser func(line string) (event Event, times int, err error)

// Open looks at the first lines of a log and gets ready to read it. The name is used in errors only. It fails when the
// format was not given and cannot be told, and when a CSV header is wrong.
func Open(name string, r io.Reader, options Options) (*Events, error) {
	e := &Events{name: name, format: options.Format, lines: newLines(r, options.Progress)}
	if e.format == "" {
		head, err := e.lines.r.Peek(lineBytesMax)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if e.format = detect(head); e.format == "" {
			return nil, fmt.Errorf("%s: the first lines are in none of the formats csv, auth and combined; "+
				"name the format, or begin a CSV file with the header time,key", name)
		}
	}
	switch e.format {
	case Auth:
		e.parse = (&authParser{year: options.Year}).parse
	case Combined:
		e.parse = parseCombined
	default:
		return e, e.openCSV()
	}
	return e, nil
}

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
	return nil
}

// detectLines is how many lines may come before the first that shows its format.
const detectLines = 20

func detect(head []byte) Format {
	if _, err := parseHeader(trimEnd(string(firstLine(head)))); err == nil {
		return CSV
	}
	seen := 0
	for line := range strings.SplitSeq(string(head), "\n") {
		if seen++; seen > detectLines {
			break
		}
		line = trimEnd(line)
		if _, ok := splitSyslog(line); ok {
			return Auth
		}
		if _, times, err := parseCombined(line); err == nil && times > 0 {
			return Combined
		}
	}
	return ""
}

func firstLine(head []byte) []byte {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	return line
}

// Format is the format that was given or detected.
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
		if err != nil {
			if e.repeats = 0; e.fatal(err) {
				return Event{}, e.at(err)
			}
			e.passOver(err)
		}
	}
	e.repeats--
	e.repeated.Line = e.lines.number
	return e.repeated, nil
}

// checkKey refuses keys that no server would count.
func checkKey(key string) error {
	if problem := shard.KeyProblem(key); problem != "" {
		return lineErrorf("key: %s", problem)
	}
	return nil
}

// fatal reports whether reading must end. One broken line of a log is passed over; a failing reader, a missing year
// and a wrong line in a file that was made for this are not.
func (e *Events) fatal(err error) bool {
	var broken lineError
	return e.strict || !errors.As(err, &broken) && !errors.Is(err, errLongLine)
}

func (e *Events) passOver(err error) {
	e.unreadable++
	if e.firstUnreadable == nil {
		e.firstUnreadable = e.at(err)
	}
}

func (e *Events) at(err error) error { return fmt.Errorf("%s:%d: %w", e.name, e.lines.number, err) }

// lineError says what is wrong with one line.
type lineError string

func (e lineError) Error() string { return string(e) }

func lineErrorf(format string, args ...any) error { return lineError(fmt.Sprintf(format, args...)) }
