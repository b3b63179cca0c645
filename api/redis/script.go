package redis

import (
	"bytes"
	"crypto/sha1" // the name of a script in Redis, and no proof
	"encoding/hex"

	"github.com/stint-io/stint/internal/edge/auth"
)

// Scripts. The limiters of many libraries are a Lua script, which is a constant. So the sum of a known script stands
// for an operation of this package (script_table.go). No text is kept, and none is run.

var scriptVerbs = []verb{
	{name: "eval", least: 3, writes: true, read: readEval},
	{name: "evalsha", least: 3, writes: true, read: readEvalSHA},
	{name: "script", least: 2, read: readScript},
}

// scriptsPage is the page that lists the known scripts.
const scriptsPage = "https://github.com/stint-io/stint/blob/main/docs/scripts.md"

var noScriptReply = appendError(nil, codeNoScript, "No matching script. Please use EVAL.")

// codeNoScript makes a library send the text of its script.
const codeNoScript = "NOSCRIPT"

// countingScript returns a script with one key that counts. args is the number of its arguments, as in verb.
func countingScript(name string, args int, read func(*conn, *verb, [][]byte),
	reply func([]byte, []command, int) []byte) verb {
	return verb{name: name, least: args, most: args, keys: oneKey, op: auth.Check, read: read, reply: reply}
}

// sumOf returns the name of a script in Redis: the SHA-1 of its text in lower-case hexadecimal.
func sumOf(text []byte) string {
	sum := sha1.Sum(text)
	return hex.EncodeToString(sum[:])
}

func readEval(c *conn, v *verb, args [][]byte) {
	sum := sumOf(args[1])
	runScript(c, v, scripts[sum], args, func() { refuseScript(c, v, sum) })
}

func readEvalSHA(c *conn, v *verb, args [][]byte) {
	runScript(c, v, scriptOf(args[1]), args, func() { c.say(v, noScriptReply).code = codeNoScript })
}

func refuseScript(c *conn, v *verb, sum string) {
	c.fail(v, "the script "+sum+" is not known, and nothing was done: only those of "+scriptsPage+
		" are; for a rate limit use CL.THROTTLE or STINT.CHECK")
}

// scriptOf finds a script by a received sum, or nil.
func scriptOf(sum []byte) *verb {
	if len(sum) != 2*sha1.Size {
		return nil
	}
	return scripts[string(bytes.ToLower(sum))]
}

// runScript translates: script numkeys key [key ...] arg [arg ...]. The script's verb reads the first key and the
// arguments, as if they were a command. Other keys hold parts of the same state in Redis. Without a script, unknown
// replies.
func runScript(c *conn, v, script *verb, args [][]byte, unknown func()) {
	n, ok := parseInteger(args[2])
	switch {
	case !ok:
		c.fail(v, notInteger)
	case n > int64(len(args)-3):
		c.fail(v, "Number of keys can't be greater than number of args")
	case n < 0:
		c.fail(v, "Number of keys can't be negative")
	case script == nil:
		unknown()
	case n != int64(script.keys.last):
		c.fail(v, "wrong number of keys for the script "+script.name)
	case c.admits(script): //mutant:script-heeds-no-silence
		args[2+n] = args[3]
		args = args[1+n:]
		if len(args) < script.least || script.most > 0 && len(args) > script.most {
			c.fail(script, "wrong number of arguments for the script "+script.name)
			return
		}
		script.read(c, script, args)
	}
}

// readScript reads: LOAD text, or EXISTS sum [sum ...].
func readScript(c *conn, v *verb, args [][]byte) {
	switch {
	case is(args[1], "LOAD") && len(args) == 3:
		sum := sumOf(args[2])
		if scripts[sum] == nil {
			refuseScript(c, v, sum)
			return
		}
		c.say(v, appendBulk(nil, sum))
	case is(args[1], "EXISTS") && len(args) > 2:
		b := appendArray(nil, len(args)-2)
		for _, sum := range args[2:] {
			b = appendFlag(b, scriptOf(sum) != nil)
		}
		c.say(v, b)
	default:
		c.fail(v, "SCRIPT "+plainText(args[1])+" is not supported with these arguments: LOAD and EXISTS are; "+
			"the known scripts are fixed")
	}
}
