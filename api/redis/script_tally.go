package redis

import (
	"math"

	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/shard"
)

// Scripts that count on a counter of Redis, as INCR and EXPIRE do. Their libraries send GET, TTL, DEL and DECR for the
// same keys, so these are the same counters here.

var (
	limitsFixedWindow = countingScript("limits.incr_expire", 4, readLimitsFixedWindow, replyValue)
	expressIncrement  = countingScript("rate_limit_redis.increment", 4, readExpressIncrement, replyValueAndEnd)
	expressGet        = verb{name: "rate_limit_redis.get", least: 2, most: 2, keys: oneKey, op: auth.Read,
		read: readEach, reply: replyExpressGet}
	flexibleIncrement = verb{name: "rate_limiter_flexible.incr", least: 4, keys: oneKey, writes: true,
		op: auth.Check, read: readFlexibleIncrement, reply: replyValueAndEnd}
	kongUsage    = countingScript("kong.usage", 3, readKongUsage, replyKongUsage)
	kongSync     = countingScript("kong.sync", 4, readKongSync, replyNothing)
	apisixCount1 = countingScript("apisix.limit_count_1", 4, readApisixCount, replyApisixOnlyLeft)
	apisixCount2 = countingScript("apisix.limit_count_2", 4, readApisixCount, replyApisixLeft)
	apisixCount3 = countingScript("apisix.limit_count_3", 5, readApisixCount, replyApisixLeft)
	apisixCount4 = countingScript("apisix.limit_count_4", 5, readApisixCount, replyApisixSpent)
	laravelAdd   = verb{name: "laravel.add", least: 4, most: 4, keys: oneKey, writes: true,
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

// readLimitsFixedWindow reads: key seconds amount.
func readLimitsFixedWindow(c *conn, v *verb, args [][]byte) {
	a := scriptArgs{conn: c, verb: v, args: args}
	if amount, end := a.integer(3), a.lifetime(unitEX, 2); !a.wrong {
		c.hit(v, args[1], amount, end, false)
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

// readFlexibleIncrement reads: key points seconds, and further arguments for scripts of users.
func readFlexibleIncrement(c *conn, v *verb, args [][]byte) {
	a := scriptArgs{conn: c, verb: v, args: args}
	if points, end := a.integer(2), a.lifetime(unitEX, 3); !a.wrong {
		c.hit(v, args[1], points, end, false)
	}
}

// readKongUsage reads: key seconds.
func readKongUsage(c *conn, v *verb, args [][]byte) {
	var end shard.TallyTerms
	if c.lifetime(v, &end, unitEX, args[2]) {
		c.hit(v, args[1], 1, end, false)
	}
}

// replyKongUsage replies with the value before the hit.
func replyKongUsage(b []byte, of []command, _ int) []byte {
	return appendInteger(b, of[0].result.Decision.Tallied.Value-1)
}

// readKongSync reads: key amount instant, which is the end of the counter's window in seconds since 1970.
func readKongSync(c *conn, v *verb, args [][]byte) {
	a := scriptArgs{conn: c, verb: v, args: args}
	if amount, end := a.integer(2), a.lifetime(unitEXAT, 3); !a.wrong {
		c.hit(v, args[1], amount, end, false)
	}
}

func replyNothing(b []byte, _ []command, proto int) []byte { return appendNull(b, proto) }

// readApisixCount reads: key limit seconds [cost]. For the first three scripts Redis holds what is left of the
// limit; here a counter always holds what was spent.
func readApisixCount(c *conn, v *verb, args [][]byte) {
	a := scriptArgs{conn: c, verb: v, args: args}
	most, cost := a.natural("limit", 2, 0, math.MaxInt64), uint64(1)
	switch v.name {
	case "apisix.limit_count_3":
		cost = a.natural("cost", 4, 1, math.MaxInt64)
	case "apisix.limit_count_4":
		cost = a.natural("cost", 4, 0, math.MaxInt64)
	}
	if end := a.lifetime(unitEX, 3); !a.wrong {
		first := len(c.round.commands)
		c.hit(v, args[1], int64(cost), end, false)
		c.round.commands[first].arg = int64(most)
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
