package replay

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// errNoYear ends the reading: every other event of the log would lack its year too.
var errNoYear = errors.New("the times of this log have no year: give the year of its first event")

// repeatsMax bounds what one line of a log can make of itself.
const repeatsMax = 1_000_000

// authParser reads the log of sshd. Its one state is the time of the last event, which tells the year of the next one.
type authParser struct {
	year int
	last time.Time
}

// syslogLine is one line of a system log, taken apart.
type syslogLine struct {
	classic bool      // the stamp had neither year nor zone: both are missing in at
	at      time.Time // as the stamp says
	program string
	message string
}

const classicStamp = "Jan _2 15:04:05"

// splitSyslog takes "Dec 10 06:55:48 host sshd[24200]: message" apart, or the same with an RFC 3339 stamp.
func splitSyslog(line string) (syslogLine, bool) {
	var s syslogLine
	var rest string
	var err error
	if len(line) > len(classicStamp) && line[len(classicStamp)] == ' ' {
		s.at, err = time.Parse(classicStamp, line[:len(classicStamp)])
		rest, s.classic = line[len(classicStamp)+1:], err == nil
	}
	if !s.classic {
		stamp, after, _ := strings.Cut(line, " ")
		if s.at, err = time.Parse(time.RFC3339Nano, stamp); err != nil {
			return s, false
		}
		rest = after
	}
	_, rest, _ = strings.Cut(rest, " ") // the host
	tag, message, ok := strings.Cut(rest, ": ")
	if !ok || tag == "" || strings.Contains(tag, " ") {
		return s, false
	}
	s.program, _, _ = strings.Cut(tag, "[")
	s.message = message
	return s, true
}

func (p *authParser) parse(line string) (Event, int, error) {
	s, ok := splitSyslog(line)
	if !ok || s.program != "sshd" && s.program != "sshd-session" {
		return Event{}, 0, nil
	}
	message, times, err := unrepeat(s.message)
	if err != nil || !strings.HasPrefix(message, "Failed password for ") {
		return Event{}, 0, err
	}
	source, err := failedSource(message)
	if err != nil {
		return Event{}, 0, err
	}
	if p.last, err = p.date(s); err != nil {
		return Event{}, 0, err
	}
	at, err := instant(p.last)
	return Event{At: at, Key: source, Cost: 1}, times, err
}

// unrepeat takes the message out of "message repeated 5 times: [ message]".
func unrepeat(message string) (string, int, error) {
	rest, ok := strings.CutPrefix(message, "message repeated ")
	if !ok {
		return message, 1, nil
	}
	count, inner, ok := strings.Cut(rest, " times: [")
	if !ok {
		return message, 1, nil
	}
	times, err := strconv.Atoi(count)
	if err != nil || times < 1 || times > repeatsMax {
		return "", 0, lineErrorf("the message is repeated %q times: 1 to %d are believed", count, repeatsMax)
	}
	return strings.TrimSpace(strings.TrimSuffix(inner, "]")), times, nil
}

// failedSource finds the address in "Failed password for [invalid user] NAME from ADDRESS port N ssh2". The name is
// what somebody typed and may hold words like these itself, so the last ones count.
func failedSource(message string) (string, error) {
	_, after, ok := cutLast(message, " from ")
	address, rest, _ := strings.Cut(after, " ")
	if !ok || address == "" || !strings.HasPrefix(rest, "port ") {
		return "", lineErrorf("a failed password without \"from ADDRESS port N\"")
	}
	return canonicalAddress(address), nil
}

func cutLast(text, separator string) (before, after string, found bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(separator):], true
}

// canonicalAddress gives each address one spelling. What is no address (a host name) stays as it is.
func canonicalAddress(text string) string {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return text
	}
	return address.Unmap().String()
}

// date gives a classic stamp the year in which it lies nearest to the event before it; the first event lies in the
// year that was asked for.
func (p *authParser) date(s syslogLine) (time.Time, error) {
	if !s.classic {
		return s.at, nil
	}
	if p.year == 0 {
		return time.Time{}, errNoYear
	}
	year := p.year
	if !p.last.IsZero() {
		const halfYear = 183 * 24 * time.Hour
		year = p.last.Year()
		switch apart := inYear(s.at, year).Sub(p.last); {
		case apart < -halfYear:
			year++
		case apart > halfYear:
			year--
		}
	}
	t := inYear(s.at, year)
	if t.Day() != s.at.Day() {
		return p.last, lineErrorf("the year %d has no February 29", year)
	}
	return t, nil
}

func inYear(t time.Time, year int) time.Time {
	return time.Date(year, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}
