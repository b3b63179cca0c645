package redis

import (
	"bytes"
	"math"
	"strconv"

	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// Scripts with arguments that make an inline limit. The names of these limits keep the states of scripts for one key
// apart.

var (
	rateAllowN      = countingScript("redis_rate.allow_n", 6, readRateAllowN, replyRateAllowN)
	rateAllowAtMost = countingScript("redis_rate.allow_at_most", 6, readRateAllowAtMost, replyRateAllowAtMost)
	traefikBucket   = countingScript("traefik.token_bucket", 7, readTraefikBucket, replyTraefikBucket)
	springBucket    = verb{name: "spring.request_rate_limiter", least: 6, most: 6, keys: keys{1, 2, 1},
		op: auth.Check, read: readSpringBucket, reply: replySpringBucket}
	limitsMovingWindow = countingScript("limits.acquire_moving_window",
		6, readLimitsMovingWindow, replyLimitsMovingWindow)
	apisixRequests = countingScript("apisix.limit_req", 6, readApisixRequests, replyApisixRequests)
)

// limited adds a request about an inline limit, if the arguments are right. A cost of 0 only reads the state.
func (a *scriptArgs) limited(op shard.Op, name string, l limit.Limit, cost uint64) *command {
	if err := l.Validate(); err != nil {
		a.fail("the arguments of the script " + a.verb.name + " make no limit: " + err.Error())
	}
	if a.wrong {
		return nil
	}
	return a.conn.inline(a.verb, op, a.args[1], []policy.Limit{{Name: name, Limit: l}}, cost)
}

func readRateAllowN(c *conn, v *verb, args [][]byte)      { readRate(c, v, shard.Check, args) }
func readRateAllowAtMost(c *conn, v *verb, args [][]byte) { readRate(c, v, shard.Partial, args) }

// policyLead begins a key that names a policy, as in stint:login:user:42.
var policyLead = []byte("stint:")

// decided adds a request about the policy that the key names, or else about an inline limit. own is the key without
// what its library puts around every key.
func (a *scriptArgs) decided(op shard.Op, own []byte, name string, l limit.Limit, cost uint64) {
	of, named := bytes.CutPrefix(own, policyLead)
	switch {
	case a.wrong:
	case !named:
		a.limited(op, name, l, cost)
	case cost == 0:
		a.fail("the script " + a.verb.name + " asks a policy for 1 at least")
	default:
		asked := *a.verb
		asked.ofPolicy = true //mutant:script-needs-no-grant-of-its-policy
		policyName, key, _ := bytes.Cut(of, []byte(":"))
		a.conn.check(&asked, op, policyName, key, cost)
	}
}

// readRate reads: key burst rate period cost. That is GCRA with rate units in each period of seconds, and burst at
// once.
func readRate(c *conn, v *verb, op shard.Op, args [][]byte) {
	a := scriptArgs{conn: c, verb: v, args: args}
	l := limit.Limit{Algorithm: limit.GCRA, Quota: a.natural("burst", 2, 0, limit.MaxQuota),
		Count: a.natural("rate", 3, 1, limit.MaxQuota), Period: a.seconds("period", 4)}
	own := bytes.TrimPrefix(args[1], []byte("rate:"))
	a.decided(op, own, "redis_rate", l, a.natural("cost", 5, 0, limit.MaxCost))
}

func replyRateAllowN(b []byte, of []command, _ int) []byte {
	d := &of[0].result.Decision
	if of[0].flags&onlyLooks != 0 {
		return appendRate(b, &of[0], true, 0, 0)
	}
	return appendRate(b, &of[0], d.Allowed, of[0].cost, of[0].cost)
}

func replyRateAllowAtMost(b []byte, of []command, _ int) []byte {
	d := &of[0].result.Decision
	s := bindingLimit(d)
	if of[0].flags&onlyLooks != 0 {
		return appendRate(b, &of[0], s.Left() > 0, 1, 0)
	}
	return appendRate(b, &of[0], d.Allowed, 1, s.Granted)
}

// appendRate appends: units taken, units left, seconds until the wanted ones fit (-1: some were taken), seconds until
// full.
func appendRate(b []byte, m *command, allowed bool, wanted, taken uint64) []byte {
	d := &m.result.Decision
	s := bindingLimit(d)
	reset, retry := finite(untilReset(d, s)), finite(d.RetryAfter)
	if m.limits != nil && (m.flags&onlyLooks != 0 || d.RetryAfter == limit.Never) {
		l := &m.limits[0]
		retry = reset + (float64(wanted)-float64(l.Quota))*float64(l.Period)/float64(l.Count)
	}
	b = appendArray(b, 4)
	if !allowed {
		b = appendFloat(appendInteger(appendInteger(b, 0), 0), retry/float64(second))
	} else {
		b = appendBulk(appendInteger(appendInteger(b, int64(taken)), int64(s.Left())), "-1")
	}
	return appendFloat(b, reset/float64(second))
}

// finite returns a time for a shape that does not know Never.
func finite(s limit.Span) float64 {
	if s == limit.Never {
		return float64(limit.MaxPeriod)
	}
	return float64(s)
}

// appendFloat appends a number as Lua's tostring writes it.
func appendFloat(b []byte, x float64) []byte {
	var digits [32]byte
	return appendBulk(b, strconv.AppendFloat(digits[:0], x, 'g', 14, 64))
}

// readTraefikBucket reads: key limit burst ttl time max_delay. The limit is in tokens per microsecond; max_delay is in
// microseconds. A request takes a token. If there is none it takes a later one, and waits for it, for at most
// max_delay. So the bucket holds, besides burst tokens, those that come back in max_delay.
//
// The limit, a float, stands for a fraction. A unit of the bucket is one part of a token, such that a token and what
// comes back in a microsecond are whole numbers of units.
func readTraefikBucket(c *conn, v *verb, args [][]byte) {
	x, err := strconv.ParseFloat(string(args[2]), 64)
	back, token := fraction(x)
	if err != nil || back == 0 {
		c.fail(v, "value is not a valid float: limit of the script "+v.name)
		return
	}
	a := scriptArgs{conn: c, verb: v, args: args}
	burst, delay := a.natural("burst", 3, 0, limit.MaxQuota), a.natural("max_delay", 6, 0, int64(limit.MaxPeriod))
	if float64(burst)*float64(token)+float64(delay)*float64(back) > limit.MaxQuota {
		a.fail("the arguments of the script " + v.name + " make no limit: it is too large to count exactly")
	}
	quota := burst*token + delay*back
	l := limit.Limit{Algorithm: limit.TokenBucket, Quota: quota, Initial: quota, Count: back, Period: 1}
	if m := a.limited(shard.Check, "traefik", l, token); m != nil {
		m.arg = int64(delay * back)
	}
}

// fraction returns the simplest fraction, of numbers up to limit.MaxCost, that is as near to x as the rounding of a few
// operations leaves a float; 0, 0 if there is none. It is a convergent of the continued fraction of x.
func fraction(x float64) (above, below uint64) {
	if !(x > 1/float64(limit.MaxCost)) || x > limit.MaxCost {
		return 0, 0
	}
	a, b, beforeA, beforeB := 1.0, 0.0, 0.0, 1.0
	for rest := x; ; {
		whole := math.Floor(rest)
		a, b, beforeA, beforeB = whole*a+beforeA, whole*b+beforeB, a, b
		switch {
		case a > limit.MaxCost || b > limit.MaxCost:
			return 0, 0
		case math.Abs(a/b-x) <= x*1e-15:
			return uint64(a), uint64(b)
		}
		rest = 1 / (rest - whole)
	}
}

// replyTraefikBucket replies with "true", the microseconds to wait (more than max_delay: it was denied), and the tokens
// left, negative if taken in advance.
func replyTraefikBucket(b []byte, of []command, _ int) []byte {
	m := &of[0]
	d, token, back := &m.result.Decision, float64(m.cost), float64(m.limits[0].Count)
	left := float64(bindingLimit(d).Left()) - float64(m.arg)
	wait := max(-left, 0) / back
	if !d.Allowed {
		wait = (token - left) / back
		// Traefik accepts a wait of up to its own longest delay, of which max_delay has the whole microseconds only. So
		// the wait of a denial is a microsecond longer at least: Traefik would let the request pass, uncounted.
		wait = max(wait, float64(m.arg)/back+1) //mutant:traefik-takes-a-denial-for-a-delay
	}
	b = appendBulk(appendArray(b, 3), "true")
	return appendFloat(appendFloat(b, wait), left/token)
}

// readSpringBucket reads: key rate capacity time requested. A token bucket gets rate tokens each second.
func readSpringBucket(c *conn, v *verb, args [][]byte) {
	a := scriptArgs{conn: c, verb: v, args: args}
	l := limit.Limit{Algorithm: limit.TokenBucket, Count: a.natural("rate", 2, 1, limit.MaxQuota),
		Quota: a.natural("capacity", 3, 0, limit.MaxQuota), Period: second}
	l.Initial = l.Quota
	own := bytes.TrimSuffix(bytes.TrimPrefix(args[1], []byte("request_rate_limiter.{")), []byte("}.tokens"))
	a.decided(shard.Check, own, "spring", l, a.natural("requested", 5, 0, limit.MaxCost))
}

// replySpringBucket replies with 1 or 0 for allowed, and the tokens left.
func replySpringBucket(b []byte, of []command, _ int) []byte {
	d := &of[0].result.Decision
	return appendInteger(appendFlag(appendArray(b, 2), d.Allowed), int64(bindingLimit(d).Left()))
}

// readLimitsMovingWindow reads: key time limit expiry amount. Each hit is remembered for expiry seconds.
func readLimitsMovingWindow(c *conn, v *verb, args [][]byte) {
	a := scriptArgs{conn: c, verb: v, args: args}
	l := limit.Limit{Algorithm: limit.SlidingLog, Quota: a.natural("limit", 3, 0, limit.MaxLogQuota),
		Period: limit.Span(a.natural("expiry", 4, 1, int64(limit.MaxPeriod/second))) * second}
	a.decided(shard.Check, args[1], "moving_window", l, a.natural("amount", 5, 1, limit.MaxCost))
}

// replyLimitsMovingWindow replies with true or false, as Lua's values become replies.
func replyLimitsMovingWindow(b []byte, of []command, proto int) []byte {
	if of[0].result.Decision.Allowed {
		return appendInteger(b, 1)
	}
	return appendNull(b, proto)
}

// apisixRequest is a request of limit-req: like the script, the bucket counts in thousandths.
const apisixRequest = 1000

// readApisixRequests reads: key rate burst time ttl. The bucket loses rate thousandths each second. It holds burst of
// them besides a request, which the script does not count while it is the first.
func readApisixRequests(c *conn, v *verb, args [][]byte) {
	a := scriptArgs{conn: c, verb: v, args: args}
	l := limit.Limit{Algorithm: limit.TokenBucket, Count: a.natural("rate", 2, 1, limit.MaxQuota), Period: second,
		Quota: apisixRequest + a.natural("burst", 3, 0, limit.MaxQuota-apisixRequest)}
	l.Initial = l.Quota
	a.limited(shard.Check, "limit_req", l, apisixRequest)
}

// replyApisixRequests replies with 1 or 0 for allowed, and the thousandths that the bucket holds besides a request.
func replyApisixRequests(b []byte, of []command, _ int) []byte {
	d := &of[0].result.Decision
	s := bindingLimit(d)
	excess := float64(s.Quota - s.Left())
	if d.Allowed {
		excess -= apisixRequest
	}
	return appendFloat(appendFlag(appendArray(b, 2), d.Allowed), excess)
}
