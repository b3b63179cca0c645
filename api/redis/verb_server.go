package redis

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// likeRedis is the Redis version that clients see; they choose their commands by it.
const likeRedis = "7.0.0"

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
