package redis

import "slices"

// Commands about the connection and the server. They ask no shard.
var connectionVerbs = []verb{
	{name: "ping", least: 1, most: 2, read: readPing},
	{name: "echo", least: 2, most: 2, read: readEcho},
	{name: "hello", least: 1, alone: true, open: true, read: readHello},
	{name: "auth", least: 2, most: 3, alone: true, open: true, read: readAuth},
	{name: "select", least: 2, most: 2, read: readSelect},
	{name: "client", least: 2, alone: true, read: readClient},
	{name: "reset", least: 1, most: 1, alone: true, open: true, read: readReset},
	{name: "quit", least: 1, open: true, read: readQuit},
	{name: "info", least: 1, read: readInfo},
	{name: "config", least: 2, read: readConfig},
	{name: "command", least: 1, read: readCommand},
	{name: "wait", least: 3, most: 3, read: readWait},
}

func readPing(c *conn, v *verb, args [][]byte) {
	if len(args) > 1 {
		c.say(v, appendBulk(nil, args[1]))
		return
	}
	c.say(v, pongReply)
}

func readEcho(c *conn, v *verb, args [][]byte) { c.say(v, appendBulk(nil, args[1])) }

// readHello reads [protover [AUTH username password] [SETNAME clientname]].
func readHello(c *conn, v *verb, args [][]byte) {
	proto, name := c.proto, c.name
	var user, token []byte
	if len(args) > 1 {
		n, ok := parseInteger(args[1])
		if !ok || n < 2 || n > 3 {
			c.say(v, appendError(nil, "NOPROTO", "unsupported protocol version: 2 and 3 are understood")).code = "NOPROTO"
			return
		}
		proto = int(n)
	}
	for i := 2; i < len(args); i++ {
		switch {
		case is(args[i], "AUTH") && i+2 < len(args):
			user, token = args[i+1], args[i+2]
			i += 2
		case is(args[i], "SETNAME") && i+1 < len(args):
			i++
			if !isName(args[i]) {
				c.fail(v, badName)
				return
			}
			name = string(args[i])
		default:
			c.fail(v, "syntax error in HELLO option '"+plainText(args[i])+"'")
			return
		}
	}
	if token != nil && !c.prove(v, user, token) {
		return
	}
	if c.who.caller == nil {
		c.refuseFor(v, c.who.refusal)
		return
	}
	c.proto, c.name = proto, name
	b := appendMap(nil, 7, proto)
	b = appendBulk(appendBulk(b, "server"), "stint")
	b = appendBulk(appendBulk(b, "version"), likeRedis)
	b = appendInteger(appendBulk(b, "proto"), int64(proto))
	b = appendInteger(appendBulk(b, "id"), int64(c.id))
	b = appendBulk(appendBulk(b, "mode"), "standalone")
	b = appendBulk(appendBulk(b, "role"), "master")
	c.say(v, appendArray(appendBulk(b, "modules"), 0))
}

const (
	noPassword = "AUTH <password> called without any password configured for the default user: " +
		"this stint asks for no token; connect without one"
	badName = "Client names cannot contain spaces, newlines or special characters."
)

func isName(b []byte) bool {
	return len(b) <= 64 && !slices.ContainsFunc(b, func(c byte) bool { return c <= ' ' || c > '~' })
}

// readAuth reads: [name] token.
func readAuth(c *conn, v *verb, args [][]byte) {
	var user []byte
	if len(args) > 2 {
		user = args[1]
	}
	if c.prove(v, user, args[len(args)-1]) {
		c.say(v, okReply)
	}
}

// readSelect accepts databases that do not exist; commands with keys are refused there. Clients with a database in
// their address select it when they connect, and some take a refusal for a broken connection and reconnect for ever.
func readSelect(c *conn, v *verb, args [][]byte) {
	switch n, ok := parseInteger(args[1]); {
	case !ok:
		c.fail(v, notInteger)
	case n < 0:
		c.fail(v, "DB index is out of range")
	default:
		c.db = n
		c.say(v, okReply)
	}
}

func readClient(c *conn, v *verb, args [][]byte) {
	switch {
	case is(args[1], "SETINFO") && len(args) == 4:
		if !is(args[2], "LIB-NAME") && !is(args[2], "LIB-VER") {
			c.fail(v, "Unrecognized option '"+plainText(args[2])+"'")
			return
		}
		c.say(v, okReply)
	case is(args[1], "SETNAME") && len(args) == 3:
		if !isName(args[2]) {
			c.fail(v, badName)
			return
		}
		c.name = string(args[2])
		c.say(v, okReply)
	case is(args[1], "GETNAME") && len(args) == 2:
		if c.name == "" {
			c.say(v, appendNull(nil, c.proto))
			return
		}
		c.say(v, appendBulk(nil, c.name))
	case is(args[1], "ID") && len(args) == 2:
		c.say(v, appendInteger(nil, int64(c.id)))
	case (is(args[1], "NO-EVICT") || is(args[1], "NO-TOUCH")) && len(args) == 3 &&
		(is(args[2], "ON") || is(args[2], "OFF")):
		c.say(v, okReply) // nothing is ever evicted
	case is(args[1], "REPLY") && len(args) == 3 && is(args[2], "ON"):
		c.say(v, okReply)
	default:
		c.fail(v, "CLIENT "+plainText(args[1])+" is not supported with these arguments: "+
			"SETINFO, SETNAME, GETNAME, ID, NO-EVICT and NO-TOUCH are")
	}
}

func readReset(c *conn, v *verb, _ [][]byte) {
	c.proto, c.name, c.multi, c.db = 2, "", multi{}, 0
	c.who.caller, c.shown = nil, false // as in Redis: the authentication is dropped
	c.identify()
	c.say(v, appendStatus(nil, "RESET"))
}

func readQuit(c *conn, v *verb, _ [][]byte) {
	c.say(v, okReply)
	c.round.ends = true
}
