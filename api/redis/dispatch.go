package redis

import "strings"

const onlyKnownScripts = "there are no scripts but the known ones of EVAL; " +
	"for a rate limit use CL.THROTTLE or STINT.CHECK"

// unbuilt has the unsupported commands that people try, with an alternative or a reason.
var unbuilt = make(map[string]string)

func init() {
	for _, of := range [][2]string{
		{"watch", "a transaction asks about one key; INCR and CL.THROTTLE are atomic by themselves"},
		{"unwatch", "a transaction asks about one key"},
		{"eval_ro evalsha_ro function fcall", onlyKnownScripts},
		{"cluster", "this is no Redis Cluster: any node answers for every key, so connect without cluster mode"},
		{"readonly readwrite asking", "this is no Redis Cluster: any node answers for every key"},
		{"mset", "keys of several shards cannot be set together; send several SET in a pipeline"},
		{"msetnx", "keys of several shards cannot be set together; send several SET NX in a pipeline"},
		{"incrbyfloat", "counters are whole numbers; count in a smaller unit"},
		{"keys scan", "keys cannot be listed"},
		{"dbsize", "see stint_keys in /metrics"},
		{"flushall flushdb", "counts are not to be lost all at once; DEL forgets single keys"},
		{"subscribe psubscribe ssubscribe publish", "there is no publish and subscribe"},
		{"append setrange getrange setbit hset lpush rpush sadd pfadd", "values are counters"},
		{"hincrby", "values are counters; put the field into the key"},
		{"zadd", "values are counters; for a sliding window use STINT.CHECK with a policy"},
		{"rename copy", "a counter stays under its key"},
		{"monitor", "see /metrics"},
		{"replicaof slaveof", "a node joins a cluster with stint serve --join"},
		{"shutdown", "send the process SIGTERM"},
		{"save bgsave bgrewriteaof", "every answer is on disk already"},
		{"acl", "there are no users"},
		{"swapdb move", "there is database 0 only"},
	} {
		for name := range strings.FieldsSeq(of[0]) {
			unbuilt[name] = of[1]
		}
	}
}

// refuse answers an unsupported command.
func (c *conn) refuse(args [][]byte) {
	name := plainText(args[0])
	if why, known := unbuilt[strings.ToLower(name)]; known {
		c.fail(nil, name+" is not supported: "+why)
		return
	}
	c.fail(nil, "unknown command '"+name+"'; COMMAND LIST lists those that are understood")
}

// dispatch translates one command. v is its verb, or nil.
func (c *conn) dispatch(v *verb, args [][]byte) {
	if !is(args[0], "EXEC") {
		c.multi.sent++ // even if it is refused: the transaction then lacks it
	}
	if v == nil && (is(args[0], "POST") || is(args[0], "HOST:")) { // HTTP in an array, too
		c.fail(nil, errHTTP.Error())
		c.round.ends = true
		return
	}
	if !c.mayDispatch(v, args) {
		return
	}
	switch {
	case is(args[0], "MULTI") && c.multi.open:
		c.fail(nil, "MULTI calls can not be nested")
	case is(args[0], "MULTI"):
		c.multi = multi{open: true}
		c.say(nil, okReply)
	case is(args[0], "EXEC") && c.multi.open:
		c.multi.exec(c)
	case is(args[0], "DISCARD") && c.multi.open:
		c.multi = multi{}
		c.say(nil, okReply)
	case is(args[0], "EXEC") || is(args[0], "DISCARD"):
		c.fail(nil, plainText(args[0])+" without MULTI")
	case v == nil:
		c.refuse(args)
	case len(args) < v.least || v.most > 0 && len(args) > v.most:
		c.fail(v, "wrong number of arguments for '"+v.name+"' command")
	case c.multi.open && !v.alone && !v.open:
		c.multi.add(v, args)
		c.say(nil, queuedReply)
	default:
		v.read(c, v, args)
	}
}
