package redis

import (
	"math"

	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/shard"
)

// Scripts that count on a counter of Redis, as INCR and EXPIRE do. Their libraries send GET, TTL, DEL and DECR for the
// same keys, so these are the same counters here.

var (
	limitsFixedWindow = countingScript("limits.incr_expire", 4, readHit(unitEX, 2, 3), replyValue)
	expressIncrement  = countingScript("rate_limit_redis.increment", 4, readExpressIncrement, replyValueAndEnd)
	expressGet        = verb{name: "rate_limit_redis.get", least: 2, most: 2, keys: oneKey, op: auth.Read,
		read: readEach, reply: replyExpressGet}
	flexibleIncrement = verb{name: "rate_limiter_flexible.incr", least: 4, keys: oneKey,
		op: auth.Check, read: readHit(unitEX, 3, 2), reply: replyValueAndEnd} // users' scripts get further arguments
	kongUsage    = countingScript("kong.usage", 3, readHit(unitEX, 2, 0), replyKongUsage)
	kongSync     = countingScript("kong.sync", 4, readHit(unitEXAT, 3, 2), replyNothing)
	apisixCount1 = countingScript("apisix.limit_count_1", 4, readApisixCount(1), replyApisixOnlyLeft)
	apisixCount2 = countingScript("apisix.limit_count_2", 4, readApisixCount(1), replyApisixLeft)
	apisixCount3 = countingScript("apisix.limit_count_3", 5, readApisixCount(1), replyApisixLeft)
	apisixCount4 = countingScript("apisix.limit_count_4", 5, readApisixCount(0), replyApisixSpent)
	laravelAdd   = verb{name: "laravel.add", least: 4, most: 4, keys: oneKey,
		op: auth.Adjust, read: readLaravelAdd, reply: replySet}
)

// hit adds to a counter, and gives it an end if it has none; with renews, a new end in any case. If only the first
// request were carried out, the next hit would give the end.
func (c *conn) hit(v *verb, key []byte, amount int64, end shard.TallyTerms, renews bool) {
	if !c.keyOf(v, key) {
		return
	}
	if end.Verb = shard.TallyEnd; !renews {
		end.When = shard.TallyAbsent //mutant:hit-renews-the-window
	}
	first := len(c.round.commands)
	c.tally(v, key, shard.TallyTerms{Verb: shard.TallyAdd, Amount: amount})
	c.tally(v, key, end)
	c.round.commands[first].keys = 2
}

// untilEnd returns how long a counter lives after a hit, in milliseconds rounded to the nearest, and whether the hit
// has given it this end.
func untilEnd(of []command) (ms int64, given bool) {
	at := &of[0].result.Decision
	if given = of[1].result.Decision.Tallied.Done; given {
		at = &of[1].result.Decision
	}
	return leftMS(at), given
}

// readHit returns the reader of a hit: the counter's lifetime in a unit and the amount are at these places. With amount
// 0 every hit counts 1.
func readHit(unit []byte, lifetime, amount int) func(*conn, *verb, [][]byte) {
	return func(c *conn, v *verb, args [][]byte) {
		a, n := scriptArgs{conn: c, verb: v, args: args}, int64(1)
		if amount > 0 {
			n = a.integer(amount)
		}
		if end := a.lifetime(unit, lifetime); !a.wrong {
			c.hit(v, args[1], n, end, false)
		}
	}
}

var unitEX, unitPX, unitEXAT = []byte("EX"), []byte("PX"), []byte("EXAT")

// readExpressIncrement reads: key renews milliseconds.
func readExpressIncrement(c *conn, v *verb, args [][]byte) {
	var end shard.TallyTerms
	if c.lifetime(v, &end, unitPX, args[3]) {
		c.hit(v, args[1], 1, end, string(args[2]) == "1")
	}
}

// replyValueAndEnd replies with the value and the milliseconds until the end.
func replyValueAndEnd(b []byte, of []command, proto int) []byte {
	ms, _ := untilEnd(of)
	return appendInteger(replyValue(appendArray(b, 2), of, proto), ms)
}

// replyExpressGet replies like GET and PTTL.
func replyExpressGet(b []byte, of []command, proto int) []byte {
	return appendInteger(replyGet(appendArray(b, 2), of, proto), leftMS(&of[0].result.Decision))
}

// replyKongUsage replies with the value before the hit.
func replyKongUsage(b []byte, of []command, _ int) []byte {
	return appendInteger(b, of[0].result.Decision.Tallied.Value-1)
}

func replyNothing(b []byte, _ []command, proto int) []byte { return appendNull(b, proto) }

// readApisixCount returns the reader of: key limit seconds [cost], with the least cost. For the first three scripts
// Redis holds what is left of the limit; here a counter always holds what was spent.
func readApisixCount(least int64) func(*conn, *verb, [][]byte) {
	return func(c *conn, v *verb, args [][]byte) {
		a := scriptArgs{conn: c, verb: v, args: args}
		most, cost := a.natural("limit", 2, 0, math.MaxInt64), uint64(1)
		if len(args) > 4 {
			cost = a.natural("cost", 4, least, math.MaxInt64)
		}
		if end := a.lifetime(unitEX, 3); !a.wrong {
			first := len(c.round.commands)
			c.hit(v, args[1], int64(cost), end, false)
			c.round.commands[first].arg = int64(most)
		}
	}
}

// replyApisixOnlyLeft replies with what is left.
func replyApisixOnlyLeft(b []byte, of []command, _ int) []byte {
	return appendInteger(b, of[0].arg-of[0].result.Decision.Tallied.Value)
}

// replyApisixLeft replies with what is left, and the seconds until the end: as text, like the argument, if they have
// just begun.
func replyApisixLeft(b []byte, of []command, proto int) []byte {
	b = replyApisixOnlyLeft(appendArray(b, 2), of, proto)
	ms, given := untilEnd(of)
	if given {
		return appendNumber(b, ms/1000)
	}
	return appendInteger(b, (ms+500)/1000)
}

// replyApisixSpent replies with what was spent, as text if it is the argument, and the milliseconds until the end.
func replyApisixSpent(b []byte, of []command, proto int) []byte {
	b = appendArray(b, 2)
	ms, given := untilEnd(of)
	if given {
		return appendInteger(appendNumber(b, of[0].result.Decision.Tallied.Value), ms)
	}
	return appendInteger(replyValue(b, of, proto), ms)
}

// readLaravelAdd reads: key value seconds.
func readLaravelAdd(c *conn, v *verb, args [][]byte) {
	terms := shard.TallyTerms{Verb: shard.TallySet, When: shard.TallyAbsent}
	if c.lifetime(v, &terms, unitEX, args[3]) {
		c.set(v, args[1], args[2], terms, false)
	}
}
