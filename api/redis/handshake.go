package redis

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

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

// likeRedis is the Redis version that clients see; they choose their commands by it.
const likeRedis = "7.0.0"

func readPing(c *conn, v *verb, args [][]byte) {
	if len(args) > 1 {
		c.say(v, appendBulk(nil, args[1]))
		return
	}
	c.say(v, pong)
}

var pong, done = []byte("+PONG\r\n"), []byte("+OK\r\n")

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
		c.say(v, done)
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
		c.say(v, done)
	}
}

func readClient(c *conn, v *verb, args [][]byte) {
	switch {
	case is(args[1], "SETINFO") && len(args) == 4:
		if !is(args[2], "LIB-NAME") && !is(args[2], "LIB-VER") {
			c.fail(v, "Unrecognized option '"+plainText(args[2])+"'")
			return
		}
		c.say(v, done)
	case is(args[1], "SETNAME") && len(args) == 3:
		if !isName(args[2]) {
			c.fail(v, badName)
			return
		}
		c.name = string(args[2])
		c.say(v, done)
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
		c.say(v, done) // nothing is ever evicted
	case is(args[1], "REPLY") && len(args) == 3 && is(args[2], "ON"):
		c.say(v, done)
	default:
		c.fail(v, "CLIENT "+plainText(args[1])+" is not supported with these arguments: "+
			"SETINFO, SETNAME, GETNAME, ID, NO-EVICT and NO-TOUCH are")
	}
}

func readReset(c *conn, v *verb, _ [][]byte) {
	c.proto, c.name, c.multi, c.db = 2, "", multi{}, 0
	c.who.caller = nil // as in Redis: the authentication is dropped
	c.identify()
	c.say(v, appendStatus(nil, "RESET"))
}

func readQuit(c *conn, v *verb, _ [][]byte) {
	c.say(v, done)
	c.round.ends = true
}

// readInfo answers the fields by which clients decide whether they may begin.
func readInfo(c *conn, v *verb, _ [][]byte) {
	loading := 0
	if c.server.config.Ready() != nil {
		loading = 1
	}
	c.say(v, appendBulk(nil, fmt.Sprintf("# Server\r\nredis_version:%s\r\nredis_mode:standalone\r\n"+
		"server_name:stint\r\n"+
		"stint_version:%s\r\n\r\n# Clients\r\nconnected_clients:%d\r\nmaxclients:%d\r\n\r\n"+
		"# Persistence\r\nloading:%d\r\naof_enabled:1\r\n\r\n# Replication\r\nrole:master\r\n"+
		"connected_slaves:%d\r\n\r\n"+
		"# Cluster\r\ncluster_enabled:0\r\n", likeRedis, c.server.config.Version, c.server.open.Load(),
		c.server.config.ConnectionsMost, loading, c.server.config.Copies())))
}

// settings is the answer to CONFIG GET. redis-benchmark asks for the first two.
var settings = []struct{ name, value string }{
	{"save", ""}, {"appendonly", "yes"}, {"appendfsync", "always"}, {"databases", "1"},
	{"maxmemory-policy", "noeviction"},
}

func readConfig(c *conn, v *verb, args [][]byte) {
	if !is(args[1], "GET") || len(args) < 3 {
		c.fail(v, "CONFIG "+plainText(args[1])+" is not supported: settings are flags of stint serve; "+
			"CONFIG GET shows some")
		return
	}
	var found []byte
	pairs := 0
	for _, s := range settings {
		if slices.ContainsFunc(args[2:], func(pattern []byte) bool {
			matches, err := path.Match(strings.ToLower(string(pattern)), s.name)
			return err == nil && matches
		}) {
			found = appendBulk(appendBulk(found, s.name), s.value)
			pairs++
		}
	}
	c.say(v, append(appendMap(nil, pairs, c.proto), found...))
}

func readCommand(c *conn, v *verb, args [][]byte) {
	switch {
	case len(args) == 1:
		c.say(v, appendVerbs(nil, verbNames(), c.proto))
	case is(args[1], "COUNT") && len(args) == 2:
		c.say(v, appendInteger(nil, int64(len(verbs))))
	case is(args[1], "DOCS"): // docs/redis.md is the only documentation
		c.say(v, appendMap(nil, 0, c.proto))
	case is(args[1], "LIST") && len(args) == 2:
		names := verbNames()
		b := appendArray(nil, len(names))
		for _, name := range names {
			b = appendBulk(b, name)
		}
		c.say(v, b)
	case is(args[1], "INFO"):
		names := make([]string, len(args)-2)
		for i, arg := range args[2:] {
			names[i] = strings.ToLower(string(arg))
		}
		c.say(v, appendVerbs(nil, names, c.proto))
	default:
		c.fail(v, "COMMAND "+plainText(args[1])+" is not supported: COUNT, LIST, INFO and DOCS are")
	}
}

func verbNames() []string { return slices.Sorted(maps.Keys(verbs)) }

// appendVerbs describes commands: name, arity, flags and the positions of the keys.
func appendVerbs(b []byte, names []string, proto int) []byte {
	b = appendArray(b, len(names))
	for _, name := range names {
		v := verbs[name]
		if v == nil {
			b = appendNull(b, proto)
			continue
		}
		arity, flag := v.least, "readonly"
		if v.most != v.least {
			arity = -arity
		}
		if v.writes {
			flag = "write"
		}
		b = appendInteger(appendBulk(appendArray(b, 6), v.name), int64(arity))
		b = appendStatus(appendArray(b, 1), flag)
		b = appendInteger(appendInteger(appendInteger(b, int64(v.keys.first)), int64(v.keys.last)), int64(v.keys.step))
	}
	return b
}

// readWait answers at once: every earlier reply is already on the disks of a majority.
func readWait(c *conn, v *verb, args [][]byte) {
	for _, arg := range args[1:] {
		if n, ok := parseInteger(arg); !ok || n < 0 {
			c.fail(v, notInteger)
			return
		}
	}
	c.say(v, appendInteger(nil, int64(c.server.config.Copies())))
}

// plainText makes received bytes safe to show.
func plainText(b []byte) string {
	const shown = 64
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, string(b[:min(len(b), shown)]))
}
