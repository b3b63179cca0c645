package replay

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// errNoYear ends the reading: every other event of the log would lack its year too.
var errNoYear = errors.New("the times of this log have no year: give the year of its first event")

// repeatsMax bounds the events that one line of a log can stand for.
const repeatsMax = 1_000_000

// authParser reads login attempts from a system log. It remembers the time of the last event, which determines the year
// of the next one, and the reports of recent processes.
type authParser struct {
	year      int                 // of the first event; 0: not given, and no classic stamp has told it yet
	now       time.Time           // used when no year is given: the first event lies before it
	last      time.Time           // of the newest attempt; zero before the first
	processes map[string]*process // by program and process id
}

// A process's attempt may be reported several times: by ftpd as a connection (many an ftpd does not report a wrong
// password), by each PAM module as a wrong password, and by sshd as a failure. All of them report the same attempts, so
// the largest count among them is used.
type process struct {
	told    map[string]int // by reporter
	counted int            // attempts that were made events: the most that one reporter has told
	last    time.Time      // of the newest report
}

// processesMost bounds the remembered processes, and processMost how long they are remembered: process ids are reused.
const (
	processesMost = 4096
	processMost   = time.Hour
)

// attempt is the login attempts that a line reports.
type attempt struct {
	source string
	by     string // the daemon's phrase, or the PAM module
	times  int    // 0: none
}

// parse reads one line. A line without an attempt, or with an attempt that did not come over a network, is not an
// event.
func (p *authParser) parse(line string) (Event, int, error) {
	s, ok := splitSyslog(line)
	if !ok {
		if tellsOfAttempt(line) {
			return Event{}, 0, lineErrorf("looks like a failed login, but the line does not begin as in %q",
				"Dec 10 06:55:48 host sshd[24200]: ")
		}
		return Event{}, 0, nil
	}
	a, err := s.attempt()
	if err != nil || a.times == 0 {
		return Event{}, 0, err
	}
	if a.source, err = clientAddress(a.source); err != nil {
		return Event{}, 0, err
	}
	if p.last, err = p.date(s); err != nil {
		return Event{}, 0, err
	}
	at, err := instant(p.last)
	return Event{At: at, Key: a.source, Cost: 1}, p.news(s, a), err
}

// tellsOfAttempt reports whether a line that cannot be parsed still looks like an attempt.
func tellsOfAttempt(line string) bool {
	for _, words := range []string{failedPassword, failedKeyboard, pamFailure, pamMore} {
		if strings.Contains(line, words) {
			return true
		}
	}
	_, message, _ := strings.Cut(line, "]: ")
	return strings.Contains(line, "ftpd[") && strings.HasPrefix(message, ftpConnection)
}

const (
	failedPassword = "Failed password for "
	failedKeyboard = "Failed keyboard-interactive/pam for "
	pamFailure     = "authentication failure; "
	pamMore        = " more authentication failure" // also "failures"
	ftpConnection  = "connection from "
)

// attempt reads the message; times is 0 if it reports no attempt.
func (s syslogLine) attempt() (attempt, error) {
	program, module, _ := strings.Cut(s.program, "(")
	sshd := program == "sshd" || program == "sshd-session"
	switch {
	case sshd && module == "":
		// sshd repeats what PAM logs under sshd's own name.
		return sshdAttempt(s.message)
	case strings.HasSuffix(program, "ftpd") && strings.HasPrefix(s.message, ftpConnection):
		source, _, _ := strings.Cut(strings.TrimPrefix(s.message, ftpConnection), " ")
		return attempt{source, ftpConnection, 1}, nil
	}
	return pamAttempt(module, s.message)
}

func sshdAttempt(message string) (attempt, error) {
	message, times, err := unrepeat(message)
	if err != nil || !strings.HasPrefix(message, failedPassword) && !strings.HasPrefix(message, failedKeyboard) {
		return attempt{}, err
	}
	source, err := failedSource(message)
	return attempt{source, failedPassword, times}, err
}

// pamAttempt reads "authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=ADDRESS user=root", and "2 more
// authentication failures; ..." at a session's end. The module is in the tag or before the message. Without a remote
// host the login was local.
func pamAttempt(module, message string) (attempt, error) {
	if rest, ok := strings.CutPrefix(message, "pam_"); ok {
		name, after, found := strings.Cut(rest, "): ")
		if !found || !strings.Contains(name, ":auth") {
			return attempt{}, nil
		}
		module, message = "pam_"+name, after
	}
	if !strings.HasPrefix(module, "pam_") {
		return attempt{}, nil
	}
	times := 1
	if !strings.HasPrefix(message, pamFailure) {
		count, _, ok := strings.Cut(strings.TrimPrefix(message, "PAM "), pamMore)
		if !ok {
			return attempt{}, nil
		}
		var err error
		if times, err = believable(count); err != nil {
			return attempt{}, err
		}
	}
	_, rest, _ := strings.Cut(message, " rhost=")
	source, _, _ := strings.Cut(rest, " ")
	if source == "" {
		return attempt{}, nil
	}
	module, _, _ = strings.Cut(strings.TrimSuffix(module, ")"), "(")
	return attempt{source, module, times}, nil
}

// news returns the number of attempts that were not reported before.
func (p *authParser) news(s syslogLine, a attempt) int {
	if s.pid == "" {
		return a.times
	}
	program, _, _ := strings.Cut(s.program, "(")
	name := program + "[" + s.pid
	known := p.processes[name]
	if known == nil || p.last.Sub(known.last) > processMost {
		if p.processes == nil || len(p.processes) >= processesMost {
			p.processes = map[string]*process{}
		}
		known = &process{told: map[string]int{}}
		p.processes[strings.Clone(name)] = known
	}
	known.last = p.last
	known.told[strings.Clone(a.by)] += a.times
	fresh := max(0, known.told[a.by]-known.counted)
	known.counted += fresh
	return fresh
}

// unrepeat extracts the message from "message repeated 5 times: [ message]".
func unrepeat(message string) (string, int, error) {
	rest, ok := strings.CutPrefix(message, "message repeated ")
	if !ok {
		return message, 1, nil
	}
	count, inner, ok := strings.Cut(rest, " times: [")
	if !ok {
		return message, 1, nil
	}
	times, err := believable(count)
	return strings.TrimSpace(strings.TrimSuffix(inner, "]")), times, err
}

// believable parses a repeat count, and rejects counts above repeatsMax.
func believable(count string) (int, error) {
	times, err := strconv.Atoi(count)
	if err != nil || times < 1 || times > repeatsMax {
		return 0, lineErrorf("the message is repeated %q times: 1 to %d are believed", count, repeatsMax)
	}
	return times, nil
}

// failedSource finds the address in "Failed password for [invalid user] NAME from ADDRESS port N ssh2". The name is
// user input and may contain the same words, so the last ones count.
func failedSource(message string) (string, error) {
	_, after, ok := cutLast(message, " from ")
	address, rest, _ := strings.Cut(after, " ")
	if !ok || address == "" || !strings.HasPrefix(rest, "port ") {
		return "", lineErrorf("a failed password without \"from ADDRESS port N\"")
	}
	return address, nil
}

func cutLast(text, separator string) (before, after string, found bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(separator):], true
}

// date gives a classic stamp the year that puts it nearest to the event before it. The first event lies in the
// configured year, or in the newest year in which it is already past: a day of tolerance covers time zones.
func (p *authParser) date(s syslogLine) (time.Time, error) {
	if !s.classic {
		return s.at, nil
	}
	if p.year == 0 {
		if p.now.IsZero() {
			return time.Time{}, errNoYear
		}
		p.year = p.now.Year()
		for inYear(s.at, p.year).After(p.now.Add(24*time.Hour)) || inYear(s.at, p.year).Day() != s.at.Day() {
			p.year-- // February 29 needs a leap year
		}
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

// inYear moves a classic stamp into a year, in UTC. February 29 becomes March 1 where there is none: callers notice
// that by the day.
func inYear(t time.Time, year int) time.Time {
	return time.Date(year, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}
