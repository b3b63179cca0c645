package replay

import (
	"strconv"
	"strings"
	"time"
)

const accessStamp = "02/Jan/2006:15:04:05 -0700"

// parseCombined parses a line of an access log: [VHOST:PORT] CLIENT IDENT USER [TIME] "REQUEST" ...
func parseCombined(line string) (Event, int, error) {
	if line == "" {
		return Event{}, 0, nil
	}
	first, rest, stamp, ok := cutAccess(line)
	if !ok {
		return Event{}, 0, lineErrorf("is no line of an access log: want ADDRESS - USER [%s] \"REQUEST\" ...",
			accessStamp)
	}
	t, err := time.Parse(accessStamp, stamp)
	if err != nil {
		return Event{}, 0, lineErrorf("time: must be like %s, not %q", accessStamp, stamp)
	}
	at, err := instant(t)
	if err != nil {
		return Event{}, 0, err
	}
	if second, _, _ := strings.Cut(rest, " "); isVirtualHost(first, second) {
		first = second
	}
	client, err := clientAddress(first)
	return Event{At: at, Key: client, Cost: 1}, 1, err
}

// cutAccess splits a line into its first field, the part between that and the time, and the time. The user is input
// from outside and may contain brackets, but no unescaped quote: the time ends at the first `] "`.
func cutAccess(line string) (first, rest, stamp string, ok bool) {
	first, rest, _ = strings.Cut(line, " ")
	end := strings.Index(rest, `] "`)
	start := end - len(accessStamp) - 1
	if first == "" || start < 0 || rest[start] != '[' {
		return "", "", "", false
	}
	return first, rest[:start], rest[start+1 : end], true
}

// isVirtualHost reports whether a line begins with the requested host (Apache's vhost_combined: "%v:%p %h"), so that
// the client comes second. Some logs omit the port; then only an address in the second place shows it.
func isVirtualHost(first, second string) bool {
	_, port, _ := cutLast(first, ":")
	_, err := strconv.ParseUint(port, 10, 16)
	return isAddress(second) || err == nil && !isAddress(first)
}
