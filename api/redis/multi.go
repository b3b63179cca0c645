package redis

import "bytes"

// Transactions. The commands between MULTI and EXEC must be carried out as a whole or not at all. So those are carried
// out that are one request: a command about a counter, and PTTL of its key. Nothing is done for others, but MULTI is
// accepted, so that the client's view of its connection is right until EXEC or DISCARD, as in Redis. After a refused
// MULTI a client would return the connection to its pool, with commands to come that may belong to the transaction.

var (
	queuedReply    = []byte("+QUEUED\r\n")
	discardedReply = appendError(nil, codeAborted, "Transaction discarded, nothing was done: only GET, "+
		"SET or INCRBY with PTTL of the same key is a transaction; a pipeline without MULTI is decided together")
)

const codeAborted = "EXECABORT"

// transactions has the verbs of transactions by the names of their first commands.
var transactions = make(map[string]*verb)

// init makes the verbs of transactions: each replies with an array of the first command's reply and that of PTTL.
func init() {
	for _, first := range tallyVerbs {
		switch reply := first.reply; first.name {
		case "get", "set", "incrby":
			first.reply = func(b []byte, of []command, proto int) []byte {
				return appendInteger(reply(appendArray(b, 2), of, proto), leftMS(&of[0].result.Decision))
			}
			transactions[first.name] = &first
		}
	}
}

// multi is the transaction of a connection.
type multi struct {
	open bool     // MULTI has come, and neither EXEC nor DISCARD
	sent int      // commands since, with those that were refused
	verb *verb    // of the whole transaction; nil if its first command begins none that is one request
	args [][]byte // of the first command, copied
	fits bool     // the second command is PTTL of the same key
}

// add adds a command that was counted in sent.
func (m *multi) add(v *verb, args [][]byte) {
	switch {
	case m.sent == 1 && transactions[v.name] != nil:
		m.verb = transactions[v.name]
		for _, arg := range args {
			m.args = append(m.args, bytes.Clone(arg)) // which the next bytes of the connection overwrite
		}
	case m.sent == 2 && v.name == "pttl" && m.verb != nil:
		m.fits = bytes.Equal(args[1], m.args[1]) //mutant:transaction-of-two-keys
	}
}

// exec carries the transaction out, if it is one request and its caller may still send it.
func (m multi) exec(c *conn) {
	c.multi = multi{}
	if !m.fits || m.sent != 2 { //mutant:transaction-done-in-part
		c.say(nil, discardedReply).code = codeAborted
		return
	}
	if c.admits(m.verb) { //mutant:transaction-heeds-no-silence
		m.verb.read(c, m.verb, m.args)
	}
}
