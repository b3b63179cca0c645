package replay

import (
	"strings"
	"time"
)

// syslogLine is one parsed line of a system log.
type syslogLine struct {
	classic bool      // the stamp has neither year nor zone: both are missing in at
	at      time.Time // as stamped
	program string    // with the PAM module that some systems append: sshd, sshd(pam_unix)
	pid     string    // may be empty
	message string
}

const classicStamp = "Jan _2 15:04:05"

// splitSyslog parses a line: "Dec 10 06:55:48 host sshd[24200]: message", the same with an RFC 3339 stamp (as rsyslog
// and journalctl -o short-iso write it), either of them with a priority in front, and RFC 5424's "<38>1
// 2016-12-10T06:55:48Z host sshd 24200 - - message".
func splitSyslog(line string) (syslogLine, bool) {
	var s syslogLine
	rest, versioned := cutPriority(line)
	rest, ok := s.cutStamp(rest)
	if !ok {
		return s, false
	}
	_, rest, _ = strings.Cut(rest, " ") // the host
	if versioned {
		return s, s.splitFields(rest)
	}
	tag, message, ok := strings.Cut(rest, ": ")
	if !ok || tag == "" || strings.Contains(tag, " ") {
		return s, false
	}
	s.program, s.pid, _ = strings.Cut(tag, "[")
	s.pid = strings.TrimSuffix(s.pid, "]")
	s.message = message
	return s, true
}

// cutPriority removes "<38>", together with the version of RFC 5424.
func cutPriority(line string) (rest string, versioned bool) {
	priority, after, ok := strings.Cut(line, ">")
	if !ok || len(priority) < 2 || priority[0] != '<' || strings.Trim(priority[1:], "0123456789") != "" {
		return line, false
	}
	return strings.CutPrefix(after, "1 ")
}

func (s *syslogLine) cutStamp(line string) (rest string, ok bool) {
	if len(line) > len(classicStamp) && line[len(classicStamp)] == ' ' {
		if at, err := time.Parse(classicStamp, line[:len(classicStamp)]); err == nil {
			s.at, s.classic = at, true
			return line[len(classicStamp)+1:], true
		}
	}
	stamp, rest, _ := strings.Cut(line, " ")
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999Z0700"} {
		if at, err := time.Parse(layout, stamp); err == nil {
			s.at = at
			return rest, true
		}
	}
	return rest, false
}

// splitFields parses the fields after the host in RFC 5424: program, process, message id, structured data, message.
func (s *syslogLine) splitFields(rest string) bool {
	fields := strings.SplitN(rest, " ", 4)
	if len(fields) < 4 {
		return false
	}
	s.program, s.pid, s.message = fields[0], fields[1], fields[3]
	if strings.HasPrefix(s.message, "[") {
		_, s.message, _ = strings.Cut(s.message, "] ")
	} else {
		s.message = strings.TrimPrefix(s.message, "- ")
	}
	s.message = strings.TrimPrefix(s.message, "\ufeff")
	return true
}
