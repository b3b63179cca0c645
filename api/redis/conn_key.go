package redis

import (
	"fmt"

	"github.com/stint-io/stint/internal/edge/keyhash"
	"github.com/stint-io/stint/shard"
)

// connKey is the key of the last command of a connection.
type connKey struct {
	sent     string             // by the client
	key      string             // in the counted form: a hash if the namespace requires it
	by       *keyhash.Namespace // that has hashed it; nil if it is plain
	revision uint64             // version of the policies that define whether it is hashed
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
