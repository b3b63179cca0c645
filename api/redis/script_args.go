package redis

import (
	"strconv"
	"strings"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// scriptArgs reads the arguments of a script: the first key is at 1, and the arguments are from 2 on. The first wrong
// one is replied to with an error; the values of others then mean nothing.
type scriptArgs struct {
	conn  *conn
	verb  *verb
	args  [][]byte
	wrong bool
}

func (a *scriptArgs) fail(text string) {
	if !a.wrong {
		a.conn.fail(a.verb, text)
	}
	a.wrong = true
}

// natural reads an integer of least to most.
func (a *scriptArgs) natural(name string, at int, least, most int64) uint64 {
	n, ok := parseInteger(a.args[at])
	if !ok || n < least || n > most {
		a.fail(notInteger + ": " + name + " of the script " + a.verb.name)
		return 0
	}
	return uint64(n)
}

// integer reads any integer.
func (a *scriptArgs) integer(at int) int64 {
	n, ok := parseInteger(a.args[at])
	if !ok {
		a.fail(notInteger)
	}
	return n
}

// seconds reads a decimal number of seconds.
func (a *scriptArgs) seconds(name string, at int) limit.Span {
	whole, fraction, _ := strings.Cut(string(a.args[at]), ".")
	fraction = strings.TrimRight(fraction, "0")
	const places = 6
	s, ok := parseInteger([]byte(whole))
	us, err := strconv.ParseUint(fraction+strings.Repeat("0", max(places-len(fraction), 0)), 10, 64)
	if !ok || err != nil || s < 0 || s > int64(limit.MaxPeriod/second) || len(fraction) > places {
		a.fail("value is not a number of seconds, in whole microseconds: " + name + " of the script " + a.verb.name)
		return 0
	}
	return limit.Span(s)*second + limit.Span(us)
}

// lifetime reads when a counter ends, which must be more than 0 from now on.
func (a *scriptArgs) lifetime(unit []byte, at int) (end shard.TallyTerms) {
	if !a.wrong && !a.conn.lifetime(a.verb, &end, unit, a.args[at]) {
		a.wrong = true
	}
	return end
}
