package replay

import (
	"strings"
	"time"
)

const accessStamp = "02/Jan/2006:15:04:05 -0700"

// parseCombined reads a line of an access log: CLIENT IDENT USER [TIME] "REQUEST" ... The user is what somebody typed
// and may hold brackets, but no quote that is not escaped: the time ends where the first `] "` is.
func parseCombined(line string) (Event, int, error) {
	if line == "" {
		return Event{}, 0, nil
	}
	client, rest, _ := strings.Cut(line, " ")
	end := strings.Index(rest, `] "`)
	start := end - len(accessStamp) - 1
	if client == "" || start < 0 || rest[start] != '[' {
		return Event{}, 0, lineErrorf("is no line of an access log: want ADDRESS - USER [%s] \"REQUEST\" ...", accessStamp)
	}
	t, err := time.Parse(accessStamp, rest[start+1:end])
	if err != nil {
		return Event{}, 0, lineErrorf("time: must be like %s, not %q", accessStamp, rest[start+1:end])
	}
	at, err := instant(t)
	return Event{At: at, Key: canonicalAddress(client), Cost: 1}, 1, err
}
