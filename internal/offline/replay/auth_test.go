package replay

import (
	"errors"
	"testing"
	"time"

	"github.com/stint-io/stint/limit"
)

// Every shape of line that sshd writes into the log of a Debian or Ubuntu machine, and the lines of PAM and ftpd for
// others: only a failed attempt over a network is an event.
func TestAuthLines(t *testing.T) {
	const at = "Dec 10 07:13:56 host sshd[24227]: "
	for _, tt := range []struct {
		line  string
		key   string
		times int
	}{
		{at + "Failed password for root from 192.0.2.7 port 42393 ssh2", "192.0.2.7", 1},
		{at + "Failed password for invalid user admin from 192.0.2.7 port 42393 ssh2", "192.0.2.7", 1},
		{at + "Failed password for invalid user  0101 from 192.0.2.7 port 36279 ssh2", "192.0.2.7", 1},
		{at + "Failed password for invalid user x from 198.51.100.1 port 1 ssh2 from 192.0.2.7 port 2 ssh2",
			"192.0.2.7", 1},
		{at + "Failed password for root from 2001:db8::7 port 42393 ssh2", "2001:db8::7", 1},
		{at + "Failed password for root from 2001:DB8:0:0::7 port 42393 ssh2", "2001:db8::7", 1},
		{at + "Failed password for root from ::ffff:192.0.2.7 port 42393 ssh2", "192.0.2.7", 1},
		{at + "Failed password for root from bad.example.com port 42393 ssh2", "bad.example.com", 1},
		{at + "message repeated 5 times: [ Failed password for root from 192.0.2.7 port 42393 ssh2]", "192.0.2.7", 5},
		{"Dec  1 07:13:56 host sshd[1]: Failed password for root from 192.0.2.7 port 42393 ssh2", "192.0.2.7", 1},
		{"2016-12-10T07:13:56.5+00:00 host sshd-session[1]: Failed password for root from 192.0.2.7 port 4 ssh2",
			"192.0.2.7", 1},
		{at + "Failed keyboard-interactive/pam for root from 192.0.2.7 port 42393 ssh2", "192.0.2.7", 1},
		{"<38>Dec 10 07:13:56 host sshd[24227]: Failed password for root from 192.0.2.7 port 42393 ssh2",
			"192.0.2.7", 1},
		{"<38>1 2016-12-10T07:13:56Z host sshd 24227 - - Failed password for root from 192.0.2.7 port 4 ssh2",
			"192.0.2.7", 1},
		{`<38>1 2016-12-10T07:13:56Z host sshd 24227 - [a@1 b="c"] Failed password for root from 192.0.2.7 port 4 ssh2`,
			"192.0.2.7", 1},
		{"2016-12-10T07:13:56+0100 host sshd[1]: Failed password for root from 192.0.2.7 port 4 ssh2", "192.0.2.7", 1},

		{"Jun 14 15:16:01 host sshd(pam_unix)[7]: authentication failure; " +
			"logname= uid=0 euid=0 tty=NODEVssh ruser= rhost=192.0.2.7 ", "192.0.2.7", 1},
		{"Jun 14 15:16:01 host sshd(pam_unix)[7]: authentication failure; " +
			"logname= uid=0 tty=ssh ruser= rhost=a-1.example.com  user=root", "a-1.example.com", 1},
		{"Jun 14 15:16:01 host sshd(pam_unix)[7]: 2 more authentication failures; " +
			"logname= uid=0 ruser= rhost=192.0.2.7  user=root", "192.0.2.7", 2},
		{"Jun 14 15:16:01 host vsftpd[7]: pam_unix(vsftpd:auth): authentication failure; " +
			"logname= uid=0 ruser=x rhost=192.0.2.7", "192.0.2.7", 1},
		{"Jun 14 15:16:01 host dovecot: pam_unix(dovecot:auth): authentication failure; " +
			"logname= uid=0 ruser=x rhost=192.0.2.7  user=x", "192.0.2.7", 1},
		{"Jun 17 07:07:00 host ftpd[7]: connection from 192.0.2.7 (a.example.com) at Fri Jun 17 07:07:00 2005 ",
			"192.0.2.7", 1},
		{line: "Jun 14 15:16:01 host gdm(pam_unix)[7]: authentication failure; " +
			"logname= uid=0 euid=0 tty=:0 ruser= rhost=  user=x"},
		{line: "Jun 14 15:16:01 host su(pam_unix)[7]: authentication failure; " +
			"logname=x uid=1000 euid=0 tty=pts/0 ruser=x rhost=  user=root"},
		{line: "Jun 14 15:16:01 host sshd(pam_unix)[7]: check pass; user unknown"},
		{line: "Jun 14 15:16:01 host sshd(pam_unix)[7]: session opened for user test by (uid=509)"},
		{line: "Jun 14 15:16:01 host vsftpd[7]: pam_unix(vsftpd:session): session opened for user x"},
		{line: "Jun 14 15:16:01 host ftpd[7]: User unknown timed out after 900 seconds at Sat Jun 18 02:23:10 2005 "},
		{line: "Jun 14 15:16:01 host kernel: authentication failure; rhost=192.0.2.7"},
		{line: at + "message repeated 2 times: [ Connection closed by 192.0.2.7 [preauth]]"},
		{line: at + "message repeated often"},
		{line: at + "Received disconnect from 192.0.2.7: 11: Bye Bye [preauth]"},
		{line: at + "Received disconnect from 192.0.2.7: 11: Closed due to user request. [preauth]"},
		{line: at + "Received disconnect from 192.0.2.7: 11: disconnected by user"},
		{line: at + "error: Received disconnect from 192.0.2.7: 14: " +
			"No more user authentication methods available. [preauth]"},
		{line: at + "error: Received disconnect from 192.0.2.7: 3: com.jcraft.jsch.JSchException: Auth fail [preauth]"},
		{line: at + "pam_unix(sshd:auth): authentication failure; " +
			"logname= uid=0 euid=0 tty=ssh ruser= rhost=192.0.2.7  user=root"},
		{line: at + "pam_unix(sshd:auth): check pass; user unknown"},
		{line: at + "pam_unix(sshd:session): session opened for user someone by (uid=0)"},
		{line: at + "pam_unix(sshd:session): session closed for user someone"},
		{line: at + "PAM 5 more authentication failures; logname= uid=0 euid=0 tty=ssh ruser= " +
			"rhost=192.0.2.7  user=root"},
		{line: at + "PAM service(sshd) ignoring max retries; 6 > 3"},
		{line: at + "reverse mapping checking getaddrinfo for a.example.com [192.0.2.7] failed - POSSIBLE " +
			"BREAK-IN ATTEMPT!"},
		{line: at + "Connection closed by 192.0.2.7 [preauth]"},
		{line: at + "input_userauth_request: invalid user admin [preauth]"},
		{line: at + "Invalid user admin from 192.0.2.7"},
		{line: at + "Invalid user Failed password for from 192.0.2.7"},
		{line: at + "Did not receive identification string from 192.0.2.7"},
		{line: at + "Failed none for invalid user 0 from 192.0.2.7 port 49811 ssh2"},
		{line: at + "Failed publickey for root from 192.0.2.7 port 49811 ssh2"},
		{line: at + "Accepted password for someone from 192.0.2.7 port 49116 ssh2"},
		{line: at + "Disconnecting: Too many authentication failures for root [preauth]"},
		{line: at + "fatal: Write failed: Connection reset by peer [preauth]"},
		{line: "Dec 10 07:13:56 host CRON[7]: Failed password for root from 192.0.2.7 port 42393 ssh2"},
		{line: "Dec 10 07:13:56 host last message repeated 3 times"},
		{line: ""},
		{line: "Failed to start session"},
	} {
		p := authParser{year: 2016}
		event, times, err := p.parse(tt.line)
		if err != nil || times != tt.times || event.Key != tt.key {
			t.Errorf("%s\n\tis %d events of %q (%v), want %d of %q", tt.line, times, event.Key, err, tt.times, tt.key)
		}
	}
}

func TestAuthLinesThatCannotBeRead(t *testing.T) {
	const at = "Dec 10 07:13:56 host sshd[24227]: "
	for _, line := range []string{
		at + "Failed password for root",
		at + "Failed password for root from 192.0.2.7",
		at + "Failed password for root from  port 1 ssh2",
		at + "Failed password for root from UNKNOWN port 65535 ssh2",
		"Failed password for root from 192.0.2.7 port 42393 ssh2",
		"Feb 30 07:13:56 host sshd[1]: Failed password for root from 192.0.2.7 port 42393 ssh2",
		"Feb 30 07:13:56 host sshd(pam_unix)[1]: authentication failure; logname= ruser= rhost=192.0.2.7",
		"Dec 10 07:13:56 host sshd(pam_unix)[1]: authentication failure; logname= ruser= rhost=UNKNOWN",
		"Dec 10 07:13:56 host sshd(pam_unix)[1]: 0 more authentication failures; logname= ruser= rhost=192.0.2.7",
		at + "message repeated 0 times: [ Failed password for root from 192.0.2.7 port 42393 ssh2]",
		at + "message repeated 1000001 times: [ Failed password for root from 192.0.2.7 port 42393 ssh2]",
		"Feb 29 07:13:56 host sshd[1]: Failed password for root from 192.0.2.7 port 42393 ssh2",
		"Feb 30 07:13:56 host sshd[1]: Failed keyboard-interactive/pam for root from 192.0.2.7 port 42393 ssh2",
		"Feb 30 07:13:56 host vsftpd(pam_unix)[1]: 2 more authentication failures; logname= ruser= rhost=192.0.2.7",
		"Jun 31 07:07:00 host ftpd[9]: connection from 192.0.2.8 (a.example.com) at Fri Jul  1 07:07:00 2005",
		"1969-12-31T23:59:59Z host sshd[1]: Failed password for root from 192.0.2.7 port 42393 ssh2",
	} {
		p := authParser{year: 2015}
		event, _, err := p.parse(line)
		if broken := lineError(""); !errors.As(err, &broken) {
			t.Errorf("%s\n\tgives %+v, %v", line, event, err)
		}
	}
}

// A log that crosses New Year continues in the next year, and a line that came late stays in the old one.
func TestAuthYears(t *testing.T) {
	p := authParser{year: 2015}
	for _, tt := range []struct {
		stamp string
		want  time.Time
	}{
		{"Dec 31 23:59:59", time.Date(2015, 12, 31, 23, 59, 59, 0, time.UTC)},
		{"Jan  1 00:00:01", time.Date(2016, 1, 1, 0, 0, 1, 0, time.UTC)},
		{"Dec 31 23:59:58", time.Date(2015, 12, 31, 23, 59, 58, 0, time.UTC)},
		{"Jan  1 00:00:02", time.Date(2016, 1, 1, 0, 0, 2, 0, time.UTC)},
		{"Feb 29 12:00:00", time.Date(2016, 2, 29, 12, 0, 0, 0, time.UTC)},
		{"Aug  1 12:00:00", time.Date(2016, 8, 1, 12, 0, 0, 0, time.UTC)},
		{"Jul 31 12:00:00", time.Date(2016, 7, 31, 12, 0, 0, 0, time.UTC)},
	} {
		event, _, err := p.parse(tt.stamp + " host sshd[1]: Failed password for root from 192.0.2.7 port 1 ssh2")
		if err != nil || !clock(event.At).Equal(tt.want) {
			t.Errorf("%s is %v (%v), want %v", tt.stamp, clock(event.At), err, tt.want)
		}
	}
}

// An attempt that several lines report is one event, and a process that reuses the id of another starts from zero.
func TestAnAttemptIsCountedOnce(t *testing.T) {
	p := authParser{year: 2016}
	for _, tt := range []struct {
		line  string
		times int
	}{
		{"Dec 10 07:00:00 host sshd(pam_unix)[7]: authentication failure; logname= ruser= rhost=192.0.2.7", 1},
		{"Dec 10 07:00:02 host sshd[7]: Failed password for root from 192.0.2.7 port 1 ssh2", 0},
		{"Dec 10 07:00:09 host sshd[7]: message repeated 3 times: " +
			"[ Failed password for root from 192.0.2.7 port 1 ssh2]", 3},
		{"Dec 10 07:00:09 host sshd(pam_unix)[7]: 3 more authentication failures; logname= ruser= rhost=192.0.2.7", 0},
		{"Dec 10 07:00:10 host sshd[8]: Failed password for root from 192.0.2.7 port 1 ssh2", 1},
		{"Dec 10 07:00:11 host ftpd[9]: connection from 192.0.2.8 (a.example.com) at Sat Dec 10 07:00:11 2016", 1},
		{"Dec 10 07:00:12 host ftpd(pam_unix)[9]: authentication failure; logname= ruser= rhost=192.0.2.8", 0},
		{"Dec 10 07:00:13 host ftpd(pam_unix)[9]: authentication failure; logname= ruser= rhost=192.0.2.8", 1},
		{"Dec 10 09:00:00 host sshd[7]: Failed password for root from 192.0.2.7 port 1 ssh2", 1},
		{"Dec 10 09:00:02 host sshd(pam_unix)[7]: authentication failure; logname= ruser= rhost=192.0.2.7", 0},
		// Where accounts are also in a directory, each PAM module reports the same attempt.
		{"Dec 10 09:00:03 host vsftpd[6]: pam_unix(vsftpd:auth): authentication failure; " +
			"logname= ruser=a rhost=192.0.2.9", 1},
		{"Dec 10 09:00:03 host vsftpd[6]: pam_sss(vsftpd:auth): authentication failure; " +
			"logname= ruser=a rhost=192.0.2.9", 0},
		{"Dec 10 09:00:07 host vsftpd[6]: pam_unix(vsftpd:auth): authentication failure; " +
			"logname= ruser=a rhost=192.0.2.9", 1},
		{"Dec 10 09:00:07 host vsftpd[6]: pam_sss(vsftpd:auth): authentication failure; " +
			"logname= ruser=a rhost=192.0.2.9", 0},
	} {
		if _, times, err := p.parse(tt.line); err != nil || times != tt.times {
			t.Errorf("%s\n\tis %d events (%v), want %d", tt.line, times, err, tt.times)
		}
	}
}

// A log without years lies in the newest year that does not put its first event into the future.
func TestALogOfLastYear(t *testing.T) {
	for stamp, year := range map[string]int{"Jan 31 12:00:00": 2026, "Feb  2 00:00:00": 2026, "Feb  3 12:00:00": 2025,
		"Dec 31 12:00:00": 2025, "Feb 29 12:00:00": 2024} {
		p := authParser{now: time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)}
		event, _, err := p.parse(stamp + " host sshd[1]: Failed password for root from 192.0.2.7 port 1 ssh2")
		if err != nil || clock(event.At).Year() != year {
			t.Errorf("%s is %v (%v), want %d", stamp, clock(event.At), err, year)
		}
	}
}

func FuzzAuthLine(f *testing.F) {
	f.Add("Dec 10 07:13:56 host sshd[1]: message repeated 5 times: " +
		"[ Failed password for root from 192.0.2.7 port 1 ssh2]")
	f.Add("2016-12-10T07:13:56.5+00:00 host sshd-session[1]: Failed password for root from ::1 port 4 ssh2")
	f.Fuzz(func(t *testing.T, line string) {
		p := authParser{year: 2016}
		event, times, err := p.parse(line)
		checkEvent(t, event, times, err)
	})
}

// checkEvent checks the promises of every parser, for any input.
func checkEvent(t *testing.T, event Event, times int, err error) {
	t.Helper()
	if err != nil {
		return
	}
	if times < 0 || times > repeatsMax || times > 0 && (event.Cost == 0 || event.Cost > limit.MaxCost || event.At < 0) {
		t.Fatalf("%d times %+v", times, event)
	}
}
