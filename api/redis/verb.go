package redis

import (
	"fmt"
	"strings"

	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/edge/keyhash"
	"github.com/stint-io/stint/shard"
)

// verb describes a command.
type verb struct {
	name   string // in lower case, as in COMMAND
	least  int    // number of arguments, including the name
	most   int    // 0 means any number
	keys   keys
	writes bool // in COMMAND; init adds those with an op that counts or changes a key
	alone  bool // it changes the connection, so earlier commands are answered first, in their own form
	open   bool // it is answered before authentication
	op     auth.Op
	// ofPolicy means that the first argument is a policy, which grants may name.
	ofPolicy bool
	// read translates a command into entries of the connection's round: requests, or a reply.
	read func(c *conn, v *verb, args [][]byte)
	// reply appends the reply to a command once all its requests are decided; nil if read made the reply.
	reply func(b []byte, of []command, proto int) []byte
}

// nameOf returns the name of a command in metrics; v may be nil.
func (v *verb) nameOf() string {
	if v == nil {
		return otherCommands
	}
	return v.name
}

// keys says which arguments are keys, as in COMMAND.
type keys struct{ first, last, step int }

var oneKey, allKeys = keys{1, 1, 1}, keys{1, -1, 1}

const (
	nameBytesMax  = 24
	otherCommands = "other"
)

// verbs has the supported commands by their lower-case names.
var verbs = make(map[string]*verb)

func init() {
	for _, list := range [][]verb{tallyVerbs, throttleVerbs, scriptVerbs, connectionVerbs} {
		for i := range list {
			v := &list[i]
			v.writes = v.writes || v.op == auth.Check || v.op == auth.Adjust
			verbs[v.name] = v
		}
	}
}

// lookup finds the verb of a received name, or nil.
func lookup(name []byte) *verb {
	if len(name) > nameBytesMax {
		return nil
	}
	var lower [nameBytesMax]byte
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	return verbs[string(lower[:len(name)])]
}

// is reports whether an argument is a word, given in upper case. Commands are not case-sensitive.
func is(arg []byte, word string) bool {
	return len(arg) == len(word) && strings.EqualFold(string(arg), word) // no other letter is as long as one of A to Z
}

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
		c.say(nil, done)
	case is(args[0], "EXEC") && c.multi.open:
		c.multi.exec(c)
	case is(args[0], "DISCARD") && c.multi.open:
		c.multi = multi{}
		c.say(nil, done)
	case is(args[0], "EXEC") || is(args[0], "DISCARD"):
		c.fail(nil, plainText(args[0])+" without MULTI")
	case v == nil:
		c.refuse(args)
	case len(args) < v.least || v.most > 0 && len(args) > v.most:
		c.fail(v, "wrong number of arguments for '"+v.name+"' command")
	case c.multi.open && !v.alone && !v.open:
		c.multi.add(v, args)
		c.say(nil, queued)
	default:
		v.read(c, v, args)
	}
}

// fail replies that a command is wrong.
func (c *conn) fail(v *verb, text string) {
	c.say(v, appendError(nil, codeWrong, text)).code = codeWrong
}

// say adds a reply that needs no shard.
func (c *conn) say(v *verb, reply []byte) *command {
	m := c.next(v)
	m.local = reply
	c.round.said += len(reply)
	return m
}

// next adds a new command to the round.
func (c *conn) next(v *verb) *command {
	c.round.commands = append(c.round.commands, command{verb: v, keys: 1})
	return &c.round.commands[len(c.round.commands)-1]
}

// connKey is the key of the last command of a connection.
type connKey struct {
	sent     string // by the client
	key      string // in the counted form: a hash if the namespace requires it
	by       *keyhash.Namespace
	revision uint64 // version of the policies that define whether it is hashed
}

// keyOf sets c.key to the received key. If the key is invalid, or cannot be hashed yet, it replies with the error and
// returns false. Code behind it never sees plain keys of a namespace that hashes them.
func (c *conn) keyOf(v *verb, arg []byte) bool {
	if c.db != 0 { //mutant:every-database-is-one
		c.fail(v, fmt.Sprintf("DB index is out of range: the connection selected database %d, "+
			"and there is database 0 only", c.db))
		return false
	}
	if !c.granted(v, arg) { //mutant:one-key-asked-for-all
		return false
	}
	by, revision, err := c.server.config.Keys(c.who.namespace)
	if err != nil {
		c.next(v).result.Err = err
		return false
	}
	c.key.revision = revision
	if string(arg) == c.key.sent && c.key.sent != "" && by == c.key.by { //mutant:connection-keeps-the-key-form
		return true
	}
	if problem := shard.KeyProblem(string(arg)); problem != "" {
		c.fail(v, "the key "+problem)
		return false
	}
	sent := string(arg)
	key := sent
	if by != nil {
		var problem error
		if key, problem = by.Hash(sent); problem != nil {
			c.next(v).result.Err = shard.Invalidf("", "the key %s", problem)
			return false
		}
	}
	c.key = connKey{sent, key, by, revision} //mutant:redis-passes-its-key
	return true
}

// ask adds a command about a key. If the key is invalid, it replies with the error and returns nil.
func (c *conn) ask(v *verb, op shard.Op, arg []byte) *command {
	if !c.keyOf(v, arg) {
		return nil
	}
	id, err := c.server.gather.place(c.who.namespace, c.key.key)
	m := c.next(v)
	m.op, m.namespace, m.key, m.hashed, m.cost = op, c.who.namespace, c.key.key, c.key.by != nil, 1
	if err != nil {
		m.result.Err = err
		return m
	}
	c.round.link(int32(len(c.round.commands)-1), id)
	return m
}
