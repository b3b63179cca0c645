package redis

import (
	"strings"

	"github.com/stint-io/stint/internal/edge/auth"
)

// verb describes a command.
type verb struct {
	name   string  // in lower case, as in COMMAND
	least  int     // number of arguments, including the name
	most   int     // 0 means any number
	keys   keys    // the zero value: none
	writes bool    // in COMMAND; init adds those with an op that counts or changes a key
	alone  bool    // it changes the connection, so earlier commands are answered first, in their own form
	open   bool    // it is answered before authentication
	op     auth.Op // that the caller must be allowed; NoOp needs no grant
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

// keys says which arguments are keys, as in COMMAND: the name of the command is argument 0, and last is -1 for the last
// argument.
type keys struct{ first, last, step int }

var oneKey, allKeys = keys{1, 1, 1}, keys{1, -1, 1}

const (
	nameBytesMax  = 24      // no verb has a longer name: lookup finds none
	otherCommands = "other" // stands in metrics for all commands that are not supported
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
