package replay

import (
	"errors"
	"fmt"
	"io"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// Event is one request as recorded in a log.
type Event struct {
	At   limit.Time // as written: it may be earlier than that of the previous event
	Key  string
	Cost uint64 // units; 1 if the log does not give it
	Line int    // line number in the input, from 1; the N events of a repeated message share one
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

	now             limit.Time // events after it are in the future; limit.Forever: none is
	outOfOrder      int        // counted by each, not by Next
	reading         Reading    // without Lines and FirstUnreadable, which the method Reading fills in
	firstUnreadable error      // nil: every line could be read
}

// Reading counts how much of a log was understood.
type Reading struct {
	Lines           int    `json:"lines"`
	Events          uint64 `json:"events"`     // one line may stand for several
	Skipped         int    `json:"skipped"`    // lines that are not events
	Unreadable      int    `json:"unreadable"` // lines that should be events but cannot be parsed
	FirstUnreadable string `json:"firstUnreadable,omitempty"`
	InFuture        uint64 `json:"inFuture"` // events later than Options.Now: the year is probably wrong
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

// each calls step for all remaining events. Now is the time of the event, or that of an earlier one if that was later.
func (e *Events) each(step func(event Event, now limit.Time) error) error {
	now := limit.Time(0)
	for {
		event, err := e.Next()
		if errors.Is(err, io.EOF) {
			if e.reading.Events == 0 {
				return e.noEvents()
			}
			return nil
		}
		if err != nil {
			return err
		}
		if event.At < now {
			e.outOfOrder++
		}
		now = max(now, event.At)
		if err := step(event, now); err != nil {
			return e.at(err)
		}
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

// noEvents is the error for a log without events: the format or the file is wrong, and silence would hide it.
func (e *Events) noEvents() error {
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
