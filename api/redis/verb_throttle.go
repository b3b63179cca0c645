package redis

import (
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

var throttleVerbs = []verb{
	{name: "cl.throttle", least: 5, most: 6, keys: oneKey, op: auth.Check, read: readThrottle,
		reply: replyThrottle(false)},
	{name: "throttle", least: 5, most: 6, keys: oneKey, op: auth.Check, read: readThrottle, reply: replyThrottle(true)},
	{name: "stint.check", least: 3, most: 4, keys: keys{2, 2, 1}, op: auth.Check, ofPolicy: true,
		read: readCheck, reply: replyCheck},
}

// throttleLimit is the name of the limit in a CL.THROTTLE.
const throttleLimit = "throttle"

// throttling has the last parameters of CL.THROTTLE on a connection and the limit made from them: they seldom change.
type throttling struct {
	burst, count, period int64          // as in CL.THROTTLE: one less than the units at once; period in seconds
	limits               []policy.Limit // nil: there was none yet; requests share it, so it is replaced, never changed
}

// readThrottle reads: key max_burst count period [quantity]. The limit is GCRA with count units in each period of
// seconds, and max_burst units at once for THROTTLE, one more for CL.THROTTLE. A quantity of 0 only reads the state.
func readThrottle(c *conn, v *verb, args [][]byte) {
	var numbers [4]int64
	numbers[3] = 1
	for i, arg := range args[2:] {
		n, ok := parseInteger(arg)
		if !ok || n < 0 {
			c.fail(v, [...]string{"max_burst", "count", "period", "quantity"}[i]+" is not an integer of 0 or more")
			return
		}
		numbers[i] = n
	}
	quantity := numbers[3]
	// From here on as for CL.THROTTLE, so that both have the same limit for the same parameters.
	if v.name == "throttle" {
		if numbers[0]--; numbers[0] < 0 {
			c.fail(v, "max_burst is 0: it is the number of units at once, so at least 1; "+
				"only CL.THROTTLE adds one to it")
			return
		}
	}
	if quantity > limit.MaxCost {
		c.fail(v, "quantity is more than 1099511627776")
		return
	}
	t := &c.throttling
	if t.limits == nil || t.burst != numbers[0] || t.count != numbers[1] || t.period != numbers[2] {
		made, problem := throttleOf(numbers[0], numbers[1], numbers[2])
		if problem != "" {
			c.fail(v, problem)
			return
		}
		*t = made
	}
	c.inline(v, shard.Check, args[1], t.limits, uint64(quantity))
}

// inline adds a request about limits that the command brings. A cost of 0 only reads the state. If the key is invalid,
// it replies with the error and returns nil.
func (c *conn) inline(v *verb, op shard.Op, key []byte, limits []policy.Limit, cost uint64) *command {
	m := c.ask(v, op, key)
	if m == nil {
		return nil
	}
	m.limits, m.cost = limits, cost
	if cost == 0 {
		m.op, m.cost, m.flags = shard.Get, 1, onlyLooks
	}
	return m
}

// throttleOf makes the limit of CL.THROTTLE's parameters, or returns the problem with them.
func throttleOf(burst, count, period int64) (throttling, string) {
	if burst >= limit.MaxQuota || period > int64(limit.MaxPeriod/second) {
		return throttling{}, "max_burst or period is too large: at most 9007199254740991, and 100 years"
	}
	l := limit.Limit{Algorithm: limit.GCRA, Quota: uint64(burst) + 1, Count: uint64(count),
		Period: limit.Span(period) * second}
	if err := l.Validate(); err != nil {
		return throttling{}, "max_burst, count and period make no limit: " + err.Error()
	}
	return throttling{burst, count, period, []policy.Limit{{Name: throttleLimit, Limit: l}}}, ""
}

// replyThrottle replies like redis-cell, or like throttlecrab: there 1 is allowed, the reset comes before the wait, and
// no wait is 0.
func replyThrottle(crab bool) func([]byte, []command, int) []byte {
	return func(b []byte, of []command, _ int) []byte {
		d := &of[0].result.Decision
		s, passes := bindingLimit(d), d.Allowed || of[0].flags&onlyLooks != 0
		retry, reset := int64(-1), seconds(untilReset(d, s))
		if !passes {
			retry = seconds(d.RetryAfter)
		} else if crab {
			retry = 0
		}
		if crab {
			retry, reset = reset, retry
		}
		b = appendFlag(appendArray(b, 5), passes == crab)
		b = appendInteger(appendInteger(b, int64(s.Quota)), int64(s.Left()))
		return appendInteger(appendInteger(b, retry), reset)
	}
}
