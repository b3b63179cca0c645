package redis

import (
	"math"
	"slices"

	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

var tallyVerbs = []verb{
	{name: "incr", least: 2, most: 2, keys: oneKey, op: auth.Check, read: readIncr, reply: replyValue},
	{name: "decr", least: 2, most: 2, keys: oneKey, op: auth.Check, read: readDecr, reply: replyValue},
	{name: "incrby", least: 3, most: 3, keys: oneKey, op: auth.Check, read: readIncrBy, reply: replyValue},
	{name: "decrby", least: 3, most: 3, keys: oneKey, op: auth.Check, read: readDecrBy, reply: replyValue},
	{name: "get", least: 2, most: 2, keys: oneKey, op: auth.Read, read: readEach, reply: replyGet},
	{name: "mget", least: 2, keys: allKeys, op: auth.Read, read: readEach, reply: replyGets},
	{name: "exists", least: 2, keys: allKeys, op: auth.Read, read: readEach, reply: replyCount},
	{name: "touch", least: 2, keys: allKeys, op: auth.Read, read: readEach, reply: replyCount},
	{name: "del", least: 2, keys: allKeys, op: auth.Adjust, read: readDel, reply: replyCount},
	{name: "unlink", least: 2, keys: allKeys, op: auth.Adjust, read: readDel, reply: replyCount},
	{name: "getdel", least: 2, most: 2, keys: oneKey, op: auth.Adjust, read: readGetDel, reply: replySet},
	{name: "getex", least: 2, most: 4, keys: oneKey, op: auth.Adjust, read: readGetEX, reply: replySet},
	{name: "set", least: 3, keys: oneKey, op: auth.Adjust, read: readSet, reply: replySet},
	{name: "getset", least: 3, most: 3, keys: oneKey, op: auth.Adjust, read: readGetSet, reply: replySet},
	{name: "setnx", least: 3, most: 3, keys: oneKey, op: auth.Adjust, read: readSetNX, reply: replyDone},
	{name: "setex", least: 4, most: 4, keys: oneKey, op: auth.Adjust, read: readSetEX, reply: replySet},
	{name: "psetex", least: 4, most: 4, keys: oneKey, op: auth.Adjust, read: readSetEX, reply: replySet},
	{name: "expire", least: 3, most: 5, keys: oneKey, op: auth.Adjust, read: readExpire, reply: replyDone},
	{name: "pexpire", least: 3, most: 5, keys: oneKey, op: auth.Adjust, read: readExpire, reply: replyDone},
	{name: "expireat", least: 3, most: 5, keys: oneKey, op: auth.Adjust, read: readExpire, reply: replyDone},
	{name: "pexpireat", least: 3, most: 5, keys: oneKey, op: auth.Adjust, read: readExpire, reply: replyDone},
	{name: "persist", least: 2, most: 2, keys: oneKey, op: auth.Adjust, read: readPersist, reply: replyDone},
	{name: "strlen", least: 2, most: 2, keys: oneKey, op: auth.Read, read: readEach, reply: replyLength},
	{name: "ttl", least: 2, most: 2, keys: oneKey, op: auth.Read, read: readEach, reply: replyTTL},
	{name: "pttl", least: 2, most: 2, keys: oneKey, op: auth.Read, read: readEach, reply: replyTTL},
	{name: "expiretime", least: 2, most: 2, keys: oneKey, op: auth.Read, read: readEach, reply: replyTTL},
	{name: "pexpiretime", least: 2, most: 2, keys: oneKey, op: auth.Read, read: readEach, reply: replyTTL},
	{name: "type", least: 2, most: 2, keys: oneKey, op: auth.Read, read: readEach, reply: replyType},
}

// tally adds a change of a counter. If the key is invalid, it replies with the error and returns nil.
func (c *conn) tally(v *verb, key []byte, terms shard.TallyTerms) *command {
	m := c.ask(v, shard.Tally, key)
	if m != nil {
		m.limits, m.terms = shard.TallyLimits, terms
	}
	return m
}

// readAs returns the reader of a command that always changes a counter in the same way.
func readAs(terms shard.TallyTerms) func(*conn, *verb, [][]byte) {
	return func(c *conn, v *verb, args [][]byte) { c.tally(v, args[1], terms) }
}

var (
	readIncr    = readAs(shard.TallyTerms{Verb: shard.TallyAdd, Amount: 1})
	readDecr    = readAs(shard.TallyTerms{Verb: shard.TallyAdd, Amount: -1})
	readPersist = readAs(shard.TallyTerms{Verb: shard.TallyKeep})
)

func readIncrBy(c *conn, v *verb, args [][]byte) {
	n, ok := parseInteger(args[2])
	if !ok {
		c.fail(v, notInteger)
		return
	}
	c.tally(v, args[1], shard.TallyTerms{Verb: shard.TallyAdd, Amount: n})
}

func readDecrBy(c *conn, v *verb, args [][]byte) {
	n, ok := parseInteger(args[2])
	switch {
	case !ok:
		c.fail(v, notInteger)
	case -n == n && n != 0: // the smallest number has no negative
		c.fail(v, decrOverflow)
	default:
		c.tally(v, args[1], shard.TallyTerms{Verb: shard.TallyAdd, Amount: -n})
	}
}

// read adds a read of a counter. If the key is invalid, it replies with the error.
func (c *conn) read(v *verb, key []byte) {
	if m := c.ask(v, shard.ReadTally, key); m != nil {
		m.limits = shard.TallyLimits
	}
}

func readEach(c *conn, v *verb, args [][]byte) {
	if len(args) == 2 {
		c.read(v, args[1])
		return
	}
	c.several(v, args[1:], func(key []byte) { c.read(v, key) })
}

func readDel(c *conn, v *verb, args [][]byte) {
	drop := shard.TallyTerms{Verb: shard.TallyDrop}
	c.several(v, args[1:], func(key []byte) { c.tally(v, key, drop) })
}

// swap changes a counter and replies with the former value.
func (c *conn) swap(v *verb, key []byte, terms shard.TallyTerms) {
	if m := c.tally(v, key, terms); m != nil {
		m.flags = wantsOld
	}
}

func readGetDel(c *conn, v *verb, args [][]byte) {
	c.swap(v, args[1], shard.TallyTerms{Verb: shard.TallyDrop})
}

// readSet reads: key n [NX|XX] [GET] [EX s|PX ms|EXAT s|PXAT ms|KEEPTTL].
func readSet(c *conn, v *verb, args [][]byte) {
	terms := shard.TallyTerms{Verb: shard.TallySet}
	get := false
	for i := 3; i < len(args); i++ {
		switch arg := args[i]; {
		case is(arg, "NX") && terms.When != shard.TallyPresent:
			terms.When = shard.TallyAbsent
		case is(arg, "XX") && terms.When != shard.TallyAbsent:
			terms.When = shard.TallyPresent
		case is(arg, "GET"):
			get = true
		case is(arg, "KEEPTTL") && terms.TTL == 0:
			terms.KeepTTL = true
		case i+1 < len(args) && terms.TTL == 0 && !terms.KeepTTL && isExpiry(arg):
			i++
			if !c.lifetime(v, &terms, arg, args[i]) {
				return
			}
		default:
			c.fail(v, syntaxError)
			return
		}
	}
	c.set(v, args[1], args[2], terms, get)
}

// set adds a request to set a counter, if the value is an integer. With get the reply is the former value.
func (c *conn) set(v *verb, key, value []byte, terms shard.TallyTerms, get bool) {
	n, ok := parseInteger(value)
	if !ok {
		c.fail(v, notCounter)
		return
	}
	terms.Amount = n
	if get {
		c.swap(v, key, terms)
		return
	}
	c.tally(v, key, terms)
}

func readGetSet(c *conn, v *verb, args [][]byte) {
	c.set(v, args[1], args[2], shard.TallyTerms{Verb: shard.TallySet}, true)
}

func readSetNX(c *conn, v *verb, args [][]byte) {
	c.set(v, args[1], args[2], shard.TallyTerms{Verb: shard.TallySet, When: shard.TallyAbsent}, false)
}

func readSetEX(c *conn, v *verb, args [][]byte) {
	terms := shard.TallyTerms{Verb: shard.TallySet}
	if c.lifetime(v, &terms, expiryUnits[v.name], args[2]) {
		c.set(v, args[1], args[3], terms, false)
	}
}

// readGetEX reads: key [EX s|PX ms|EXAT s|PXAT ms|PERSIST].
func readGetEX(c *conn, v *verb, args [][]byte) {
	terms := shard.TallyTerms{Verb: shard.TallyEnd}
	switch {
	case len(args) == 2:
		c.read(v, args[1])
		c.round.commands[len(c.round.commands)-1].flags = onlyReads
		return
	case len(args) == 3 && is(args[2], "PERSIST"):
		terms.Verb = shard.TallyKeep
	case len(args) < 4 || !isExpiry(args[2]):
		c.fail(v, syntaxError)
		return
	case !c.lifetime(v, &terms, args[2], args[3]):
		return
	}
	c.swap(v, args[1], terms)
}

func isExpiry(arg []byte) bool {
	return is(arg, "EX") || is(arg, "PX") || is(arg, "EXAT") || is(arg, "PXAT")
}

// lifetime reads an expiry that must be more than 0. An instant may have passed. It returns false after replying with
// the error.
func (c *conn) lifetime(v *verb, terms *shard.TallyTerms, unit, arg []byte) bool {
	if !c.expiry(v, terms, unit, arg) {
		return false
	}
	if terms.TTL <= 0 {
		c.fail(v, badExpiry(v))
		return false
	}
	return true
}

func badExpiry(v *verb) string { return "invalid expire time in '" + v.name + "' command" }

// expiry reads when a counter ends: in seconds or milliseconds, from now or, with AT, from 1970 on. 0 or less ends it
// now. It returns false after replying with the error.
func (c *conn) expiry(v *verb, terms *shard.TallyTerms, unit, arg []byte) bool {
	n, ok := parseInteger(arg)
	if !ok {
		c.fail(v, notInteger)
		return false
	}
	scale := second
	if is(unit, "PX") || is(unit, "PXAT") {
		scale = millisecond
	}
	now, most := c.server.config.Now().UnixMicro(), int64(limit.MaxTime)
	terms.At = is(unit, "EXAT") || is(unit, "PXAT")
	if !terms.At {
		most -= now
	}
	if n > most/int64(scale) || scale == second && n < math.MinInt64/1000 {
		c.fail(v, badExpiry(v))
		return false
	}
	terms.TTL = limit.Span(max(n, 0)) * scale
	return true
}

// expiryUnits has the units of the commands that name none, in the words of SET.
var expiryUnits = map[string][]byte{
	"expire": []byte("EX"), "pexpire": []byte("PX"), "expireat": []byte("EXAT"), "pexpireat": []byte("PXAT"),
	"setex": []byte("EX"), "psetex": []byte("PX"),
}

// readExpire reads: key n [NX|XX|GT|LT].
func readExpire(c *conn, v *verb, args [][]byte) {
	terms := shard.TallyTerms{Verb: shard.TallyEnd}
	const nx, xx, gt, lt = 1, 2, 4, 8
	options := 0
	for _, arg := range args[3:] {
		at := slices.IndexFunc([]string{"NX", "XX", "GT", "LT"}, func(word string) bool { return is(arg, word) })
		if at < 0 {
			c.fail(v, "Unsupported option "+plainText(arg))
			return
		}
		options |= 1 << at
	}
	switch options {
	case 0:
	case nx:
		terms.When = shard.TallyAbsent
	case gt, xx | gt: // never for a counter without an end
		terms.When = shard.TallyLater
	case xx | lt:
		terms.When = shard.TallySooner
	case xx:
		terms.When = shard.TallyPresent
	case lt:
		terms.When = shard.TallyEarlier
	case gt | lt, xx | gt | lt:
		c.fail(v, "GT and LT options at the same time are not compatible")
		return
	default:
		c.fail(v, "NX and XX, GT or LT options at the same time are not compatible")
		return
	}
	if c.expiry(v, &terms, expiryUnits[v.name], args[2]) {
		c.tally(v, args[1], terms)
	}
}
