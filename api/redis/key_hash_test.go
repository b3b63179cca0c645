package redis

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stint-io/stint/internal/edge/keyhash"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

const plainKey = "ann@example.com"

var testHasher = keyhash.New([32]byte{4, 2})

// listener is a world that notes what it is asked, as text.
type listener struct {
	*world
	hearing sync.Mutex // shards are asked concurrently
	heard   []byte
}

func (l *listener) note(requests []shard.Request) {
	text, err := json.Marshal(requests)
	if err != nil {
		l.t.Error(err)
	}
	l.hear(text)
}

func (l *listener) hear(text []byte) {
	l.hearing.Lock()
	defer l.hearing.Unlock()
	l.heard = append(l.heard, text...)
}

func (l *listener) Place(ctx context.Context, namespace, key string) (shard.ID, *shard.Error) {
	l.hear([]byte("place " + key))
	return l.world.Place(ctx, namespace, key)
}

func (l *listener) Submit(ctx context.Context, id shard.ID, requests []shard.Request) []shard.Result {
	l.note(requests)
	return l.world.Submit(ctx, id, requests)
}

func (l *listener) Repeat(r *shard.Request, into *shard.Decision) bool {
	l.note([]shard.Request{*r})
	return l.world.Repeat(r, into)
}

func (l *listener) Decide(ctx context.Context, requests []shard.Request) []shard.Result {
	l.note(requests)
	return l.world.Decide(ctx, requests)
}

func newListener(t *testing.T) *listener {
	l := &listener{world: newWorld(t)}
	set, err := policy.ParseRules("rules", []byte("namespaces: {default: {keys: hashed}}"), l.policies)
	if err != nil {
		t.Fatal(err)
	}
	l.policies = set.At(3)
	return l
}

// withKeys has a command of each verb that takes keys.
var withKeys = map[string]string{"incr": "K", "decr": "K", "incrby": "K 2", "decrby": "K 2", "get": "K", "mget": "K K2",
	"exists": "K K2", "touch": "K",
	"del": "K K2", "unlink": "K", "getdel": "K", "getex": "K EX 10", "strlen": "K", "set": "K 5", "getset": "K 5",
	"setnx": "K 5", "setex": "K 10 5", "psetex": "K 10000 5",
	"expire": "K 10", "pexpire": "K 10000", "expireat": "K 1800000000", "pexpireat": "K 1800000000000", "persist": "K",
	"ttl": "K", "pttl": "K",
	"expiretime": "K", "pexpiretime": "K", "type": "K", "cl.throttle": "K 1 1 60", "throttle": "K 1 1 60",
	"stint.check": "per-ip K"}

// Every command with a key hashes it before a shard is asked: a new one is missing in withKeys.
func TestEveryCommandHashesKeys(t *testing.T) {
	w := newListener(t)
	hashed := true
	s, _ := serve(t, w.world, func(c *Config) {
		c.Router = w
		c.Parents = func(e shard.Entry) ([]shard.Entry, uint64, error) {
			if hashed {
				return nil, 9, nil
			}
			return []shard.Entry{e, {Policy: "two", Key: e.Key, Cost: 1}}, 9, nil
		}
		c.Keys = func(namespace string) (*keyhash.Namespace, uint64, *shard.Error) {
			return testHasher.In(namespace), 3, nil
		}
	})
	c := dial(t, s)
	for _, name := range slices.Sorted(maps.Keys(verbs)) {
		if verbs[name].keys == (keys{}) {
			continue
		}
		if withKeys[name] == "" {
			t.Errorf("%s takes a key: add it to withKeys", name)
			continue
		}
		w.heard = nil
		reply := c.ask(strings.ToUpper(name) + " " + strings.ReplaceAll(withKeys[name], "K", plainKey))
		hash, _ := testHasher.In(shard.DefaultNamespace).Hash(plainKey)
		if below := string(w.heard); strings.HasPrefix(reply, "-") || strings.Contains(below, plainKey) ||
			!strings.Contains(below, hash) ||
			!strings.Contains(below, `"Hashed":true`) || strings.Contains(below, `"Hashed":false`) ||
			strings.Contains(reply, hash) {
			t.Errorf("%s: %s, asked %s", name, reply, below)
		}
	}
	// The policies may have changed between the two questions about them: the request is as old as the older answer.
	hashed = false
	for _, command := range []string{"STINT.CHECK per-ip a/" + plainKey} {
		w.heard = nil
		reply := c.ask(command)
		if below := string(w.heard); strings.HasPrefix(reply, "-") || !strings.Contains(below, `"Revision":3`) ||
			strings.Contains(below, plainKey) || !strings.Contains(below, `"Hashed":true`) {
			t.Errorf("%s: %s, asked %s", command, reply, below)
		}
	}
}

// The form of keys may change while a connection is open, and the same key is sent again.
func TestAConnectionHearsThatKeysAreHashed(t *testing.T) {
	w := newListener(t)
	hashes := w.policies
	w.policies, _ = policy.ParseRules("rules", nil, hashes)
	var by *keyhash.Namespace
	var unknown *shard.Error
	s, _ := serve(t, w.world, func(c *Config) {
		c.Router = w
		c.Keys = func(string) (*keyhash.Namespace, uint64, *shard.Error) { return by, 1, unknown }
	})
	c := dial(t, s)
	wants(t, c, "INCR k", ":1")
	by = testHasher.In("default")
	wants(t, c, "INCR k", "-TRYAGAIN") // the shard has not heard of it
	plain := w.policies
	w.policies = hashes
	wants(t, c, "INCR k", ":1")
	wants(t, c, "INCR k", ":2")
	wants(t, c, "MGET k k", `*["2" "2"]`)
	wants(t, c, "INCR "+strings.Repeat("a/", keyhash.PartsMax)+"b", "-ERR the key has more than 21 parts")
	w.heard = nil
	by, unknown = nil, &shard.Error{Code: shard.Unavailable, Message: "not known yet"}
	wants(t, c, "INCR k", "-TRYAGAIN not known yet")
	wants(t, c, "MGET k k", "-TRYAGAIN not known yet")
	wants(t, c, "STINT.CHECK per-ip k", "-TRYAGAIN not known yet")
	if len(w.heard) > 0 {
		t.Errorf("asked %s", w.heard)
	}
	unknown, w.policies = nil, plain
	wants(t, c, "INCR k", ":2")
}
