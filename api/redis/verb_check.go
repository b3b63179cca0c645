package redis

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// readCheck reads: policy key [cost].
func readCheck(c *conn, v *verb, args [][]byte) {
	cost := int64(1)
	if len(args) > 3 {
		n, ok := parseInteger(args[3])
		if !ok || n < 1 || n > limit.MaxCost {
			c.fail(v, "cost is not an integer of 1 to 1099511627776")
			return
		}
		cost = n
	}
	c.check(v, shard.Check, args[1], args[2], uint64(cost))
}

// check adds a request about a policy, and about its parent if that counts, too.
func (c *conn) check(v *verb, op shard.Op, name, key []byte, cost uint64) {
	if problem := policy.NameProblem(string(name)); problem != "" {
		c.fail(v, "the policy "+problem)
		return
	}
	if string(name) != c.policy {
		c.policy = string(name)
	}
	if !c.keyOf(v, key) {
		return
	}
	entry := shard.Entry{Policy: c.policy, Key: c.key.key, Cost: cost}
	together, revision, err := c.server.config.Parents(entry)
	revision = min(revision, c.key.revision) // the policies may have changed in between
	if err != nil {
		c.fail(v, err.Error())
		return
	}
	if len(together) > 1 {
		m := c.next(v)
		m.op, m.namespace, m.policy, m.together, m.revision = op, c.who.namespace, c.policy, together, revision
		m.cost, m.hashed = cost, c.key.by != nil
		c.round.acrossCount++
		return
	}
	if m := c.ask(v, op, key); m != nil {
		m.policy, m.cost, m.revision, c.round.checks = c.policy, cost, revision, true
	}
}

// replyCheck replies with a map about the binding limit; in RESP2 it is an array of names and values. A challenge has
// one more pair.
func replyCheck(b []byte, of []command, proto int) []byte {
	d := &of[0].result.Decision
	s, name := bindingLimit(d), ""
	if len(d.Limits) > 0 && of[0].limits == nil {
		name = s.Policy + "/" + s.Limit
	}
	const pairs = 6
	if !d.Allowed && d.Challenged() {
		b = appendFlag(appendBulk(appendMap(b, pairs+1, proto), "challenge"), true)
	} else {
		b = appendMap(b, pairs, proto)
	}
	b = appendFlag(appendBulk(b, "allowed"), d.Allowed)
	b = appendBulk(appendBulk(b, "limit"), name)
	b = appendInteger(appendBulk(b, "quota"), int64(s.Quota))
	b = appendInteger(appendBulk(b, "remaining"), int64(s.Left()))
	b = appendInteger(appendBulk(b, "retry_after_ms"), roundUp(d.RetryAfter, millisecond))
	return appendInteger(appendBulk(b, "reset_after_ms"), roundUp(untilReset(d, s), millisecond))
}
