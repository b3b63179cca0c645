package redis

import (
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// command is one command under way, or one key of a command with several keys. The first of these stands for the whole
// command.
type command struct {
	verb  *verb  // nil for a command that is not supported
	code  string // code of the error in local, or ""
	keys  int32  // length of this command: itself and the following keys
	next  int32  // index of the round's next command for the same shard, or -1
	local []byte // the reply, if it needs no shard
	flags flags
	arg   int64 // an argument of a script that its reply needs

	// The request.
	op        shard.Op // 0: local is the whole reply
	namespace string
	key       string // in the counted form: a hash if the namespace requires it
	hashed    bool
	policy    string // "" with limits
	cost      uint64
	limits    []policy.Limit   // of the command itself; shard.TallyLimits for a counter; nil with a policy
	terms     shard.TallyTerms // of a shard.Tally
	revision  uint64           // version of the policies used for a check of a policy
	together  []shard.Entry    // the entries of a check if its policy has a parent; they may live on several shards

	result shard.Result // valid once decided; its Err also says why the key was not even placed
}

// flags has the properties, besides the verb, that a command's reply depends on.
type flags uint8

const (
	onlyLooks flags = 1 << iota // THROTTLE with a quantity of 0
	wantsOld                    // SET with GET, GETDEL: the reply is the former value
	onlyReads                   // GETEX that changes nothing: the reply is the value
)

// policyName returns the policy of a command for events.
func (c *command) policyName() string {
	if c.limits != nil {
		return decisions.Inline
	}
	return c.policy
}

// next adds a new command to the round. The result is valid until the next one is added.
func (c *conn) next(v *verb) *command {
	c.round.commands = append(c.round.commands, command{verb: v, keys: 1})
	return &c.round.commands[len(c.round.commands)-1]
}

// say adds a reply that needs no shard. The bytes must not change before the round has ended.
func (c *conn) say(v *verb, reply []byte) *command {
	m := c.next(v)
	m.local = reply
	c.round.said += len(reply)
	return m
}

// fail replies that a command is wrong.
func (c *conn) fail(v *verb, text string) {
	c.say(v, appendError(nil, codeWrong, text)).code = codeWrong
}

// ask adds a command about a key. If the key is invalid, it replies with the error and returns nil.
func (c *conn) ask(v *verb, op shard.Op, arg []byte) *command {
	if !c.keyOf(v, arg) {
		return nil
	}
	id, err := c.server.queues.place(c.who.namespace, c.key.key)
	m := c.next(v)
	m.op, m.namespace, m.key, m.hashed, m.cost = op, c.who.namespace, c.key.key, c.key.by != nil, 1
	if err != nil {
		m.result.Err = err
		return m
	}
	c.round.link(int32(len(c.round.commands)-1), id)
	return m
}

// several adds a request for each key of a command. If one key is invalid, it asks about none. add adds one command,
// whether it fails or not.
func (c *conn) several(v *verb, keys [][]byte, add func(key []byte)) {
	for _, key := range keys {
		if !c.keyOf(v, key) {
			return
		}
	}
	first := len(c.round.commands)
	for _, key := range keys {
		add(key)
	}
	c.round.commands[first].keys = int32(len(keys))
}

// failureOf returns the error of a command, or nil if all its requests were decided. If some requests of the command
// were carried out and others failed, the error does not claim that nothing changed.
func failureOf(of []command) (failed *shard.Error) {
	changed := false
	for i := range of {
		err := of[i].result.Err
		switch {
		case err == nil:
			t := of[i].result.Decision.Tallied
			changed = changed || of[i].op.Changes() && (t == nil || t.Done)
		case failed == nil || err.MaybeApplied():
			failed = err
		}
	}
	if failed != nil && changed && !failed.MaybeApplied() {
		return errInPart
	}
	return failed
}

var errInPart = &shard.Error{Code: shard.UnknownOutcome, Message: "done in part"}
