package redis

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// guarded serves a world with a port that requires tokens.
func guarded(t *testing.T, w *world, port auth.Port, records ...auth.Record) (*Server, *auth.Guard) {
	t.Helper()
	guard := auth.NewGuard(time.Now)
	guard.Learn(auth.NewSet(records, len(records) > 0, nil))
	guard.Heard(time.Now())
	s, _ := serve(t, w, func(c *Config) { c.Guard, c.Port = guard, port })
	return s, guard
}

func token(t *testing.T, name, grant string) (text string, r auth.Record) {
	t.Helper()
	text, err := auth.NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r.Name = name
	if err := r.SetToken(text); err != nil {
		t.Fatal(err)
	}
	g, err := auth.ParseGrant(grant)
	if err != nil {
		t.Fatal(err)
	}
	r.Grants = []auth.Grant{g}
	return text, r
}

func wants(t *testing.T, c *client, command, want string) {
	t.Helper()
	if got := c.ask(command); !strings.HasPrefix(got, want) {
		t.Errorf("%s: %s, want %s", command, got, want)
	}
}

// Every verb is sent without a token: only those that authenticate are carried out.
func TestWithoutATokenNoVerbIsCarriedOut(t *testing.T) {
	_, root := token(t, "root", "ops=admin")
	for name := range verbs {
		w := newWorld(t)
		s, _ := guarded(t, w, auth.Loopback, root)
		c := dial(t, s)
		command := strings.ToUpper(name) + strings.Repeat(" 1", max(verbs[name].least-1, 0))
		switch got := c.ask(command); {
		case name == "quit" && got == "+OK", name == "reset" && got == "+RESET", name == "auth" &&
			strings.HasPrefix(got, "-WRONGPASS"):
		case !strings.HasPrefix(got, "-NOAUTH"):
			t.Errorf("%s: %s", command, got)
		}
		if len(w.calls) > 0 {
			t.Errorf("%s asks a shard", command)
		}
	}
}

func TestATokenOpensTheRedisPort(t *testing.T) {
	text, r := token(t, "web", "key=user:* ops=check,read")
	other, _ := token(t, "web", "ops=admin")
	w := newWorld(t)
	s, _ := guarded(t, w, auth.Public, r)
	c := dial(t, s)
	wants(t, c, "INCR user:1", "-NOAUTH")
	wants(t, c, "HELLO 3", "-NOAUTH")
	wants(t, c, "AUTH "+other, "-WRONGPASS")
	wants(t, c, "AUTH somebody "+text, "-WRONGPASS") // the name of another token
	wants(t, c, "AUTH "+text, "+OK")
	wants(t, c, "INCR user:1", ":1")
	wants(t, c, "GET user:1", `"1"`)
	wants(t, c, "MGET user:1 org:1", "-NOPERM") // one of its keys is another's
	wants(t, c, "INCR org:1", "-NOPERM")
	wants(t, c, "SET user:1 0", "-NOPERM") // to adjust was not granted
	wants(t, c, "DEL user:1", "-NOPERM")
	wants(t, c, "STINT.CHECK per-ip user:1", "*[")
	wants(t, c, "STINT.CHECK per-ip org:1", "-NOPERM")
	wants(t, c, "CL.THROTTLE user:1 1 1 60", "*[")
	wants(t, c, "RESET", "+RESET") // drops the authentication
	wants(t, c, "INCR user:1", "-NOAUTH")
	wants(t, c, "HELLO 2 AUTH web "+text, "*[")
	wants(t, c, "INCR user:1", ":2")
}

// A script is carried out for callers that may do what it does: count, read, or set a counter.
func TestAScriptNeedsTheGrantsOfItsCommand(t *testing.T) {
	const hit = "EVALSHA 628bd136a573a06b346879695681af12ccef300f 1 user:1 3600 1"
	const get = "EVALSHA 6aeb97ed6086dcdeafdc6fda3999a0d0e38ec96a 1 user:1"
	const add = "EVALSHA a08c9c69b7c07ae2485190873b90d128a23e502d 1 user:2 0 3600"
	synctest.Test(t, func(t *testing.T) {
		counts, counter := token(t, "counts", "key=user:* ops=check")
		sets, setter := token(t, "sets", "key=user:* ops=read,adjust")
		s, _ := guarded(t, newWorld(t), auth.Public, counter, setter)
		c := dial(t, s)
		wants(t, c, "AUTH "+counts, "+OK")
		wants(t, c, hit, ":1")
		wants(t, c, get, "-NOPERM")
		wants(t, c, add, "-NOPERM")
		wants(t, c, strings.Replace(hit, "user:1", "org:1", 1), "-NOPERM")
		c.ask("MULTI")
		wants(t, c, "INCRBY org:1 1", "+QUEUED")
		wants(t, c, "PTTL org:1", "-NOPERM")
		wants(t, c, "EXEC", "-EXECABORT")
		wants(t, c, "AUTH "+sets, "+OK")
		wants(t, c, hit, "-NOPERM")
		wants(t, c, get, `*["1" `)
		wants(t, c, add, "+OK")
		c.ask("MULTI")
		c.ask("SET user:2 1")
		wants(t, c, "PTTL user:2", "+QUEUED")
		time.Sleep(time.Minute) // without news of tokens: what was granted may be granted no more
		wants(t, c, "EXEC", "-TRYAGAIN")
		wants(t, c, get, `*["1" `)
		wants(t, c, "SET user:2 1", "-TRYAGAIN")
		wants(t, c, add, "-TRYAGAIN")
		c.conn.Close()
	})
}

// A grant of policies is about STINT.CHECK alone: counters have no policy.
func TestAGrantOfAPolicyCountsNothingElse(t *testing.T) {
	text, r := token(t, "web", "policy=per-ip ops=check,read,adjust")
	s, _ := guarded(t, newWorld(t), auth.Public, r)
	c := dial(t, s)
	wants(t, c, "AUTH "+text, "+OK")
	wants(t, c, "STINT.CHECK per-ip a", "*[")
	wants(t, c, "STINT.CHECK two a", "-NOPERM")
	const rate = "EVALSHA f52a5b566060d79fd321d695df55bc918339c4aa 1 "
	wants(t, c, rate+"stint:per-ip:a 9 9 1 1", "*[:1 ")
	wants(t, c, rate+"stint:two:a 9 9 1 1", "-NOPERM")
	wants(t, c, rate+"a 9 9 1 1", "-NOPERM")
	wants(t, c, "INCR a", "-NOPERM")
	wants(t, c, "SET a 1", "-NOPERM")
	wants(t, c, "CL.THROTTLE a 1 1 60", "-NOPERM")
}

func TestCommandsActInTheNamespaceOfTheToken(t *testing.T) {
	text, r := token(t, "shop", "ns=shop ops=check,read")
	w := newWorld(t)
	s, _ := guarded(t, w, auth.Public, r)
	c := dial(t, s)
	wants(t, c, "AUTH "+text, "+OK")
	wants(t, c, "INCR a", ":1")
	wants(t, c, "STINT.CHECK per-ip a", "*[")
	for _, call := range w.calls {
		for _, request := range call {
			if request.Namespace != "shop" {
				t.Errorf("%v in namespace %q", request.Op, request.Namespace)
			}
		}
	}
	if id := shard.Of(slot.Even(w.shards), "shop", "a"); len(w.calls) != 2 ||
		!slices.ContainsFunc(w.calls, func(call []shard.Request) bool { return len(call) == 1 }) {
		t.Errorf("%d calls; the key lives on shard %v", len(w.calls), id)
	}
}

func TestARevokedTokenEndsItsConnections(t *testing.T) {
	text, r := token(t, "web", "ops=check")
	w := newWorld(t)
	s, guard := guarded(t, w, auth.Public, r)
	c := dial(t, s)
	wants(t, c, "AUTH "+text, "+OK")
	wants(t, c, "INCR a", ":1")
	guard.Learn(auth.NewSet(nil, true, nil))
	wants(t, c, "INCR a", "-NOAUTH")
	wants(t, c, "AUTH "+text, "-WRONGPASS")
}

// A client that has shown a token is not served by its certificate's role: commands that it sent for one would be
// carried out for the other, in another namespace.
func TestATokenIsNotReplacedByARole(t *testing.T) {
	text, web := token(t, "web", "ns=shop ops=check")
	role := auth.Record{Name: "billing", Grants: []auth.Grant{{Namespaces: []string{"bills"}, Ops: []string{"check"}}}}
	w := newWorld(t)
	s, guard := guarded(t, w, auth.Public, web, role)
	c := dialAs(t, s, "billing")
	wants(t, c, "INCR a", ":1")
	wants(t, c, "AUTH wrong", "-WRONGPASS")
	wants(t, c, "INCR a", "-NOAUTH")
	wants(t, c, "AUTH "+text, "+OK")
	wants(t, c, "INCR a", ":1")
	guard.Learn(auth.NewSet([]auth.Record{role}, true, nil)) // the token was revoked
	wants(t, c, "INCR a", "-NOAUTH")
	wants(t, c, "INCR a", "-NOAUTH")
	wants(t, c, "RESET", "+RESET") // as a new connection
	wants(t, c, "INCR a", ":2")
}

// The first token is made while a client is connected: it has to authenticate from then on.
func TestTheFirstTokenIsAskedOfOpenConnections(t *testing.T) {
	text, r := token(t, "web", "ops=check")
	w := newWorld(t)
	s, guard := guarded(t, w, auth.Loopback)
	c := dial(t, s)
	wants(t, c, "AUTH "+text, "-ERR")
	wants(t, c, "INCR a", ":1")
	guard.Learn(auth.NewSet([]auth.Record{r}, true, nil))
	wants(t, c, "INCR a", "-NOAUTH")
	wants(t, c, "AUTH "+text, "+OK")
	wants(t, c, "INCR a", ":2")
}

func TestAPortThatOthersReachServesNobodyBeforeTheFirstToken(t *testing.T) {
	s, _ := guarded(t, newWorld(t), auth.Public)
	wants(t, dial(t, s), "INCR a", "-NOAUTH")
	s, _ = guarded(t, newWorld(t), auth.Trusted)
	wants(t, dial(t, s), "INCR a", ":1")
}

// A stranger may not make the server hold much for him.
func TestAStrangerMaySendLittle(t *testing.T) {
	_, r := token(t, "web", "ops=check")
	for name, send := range map[string]string{
		"a long argument":   array("AUTH", strings.Repeat("x", strangeBytes+1)),
		"many arguments":    array(slices.Repeat([]string{"AUTH"}, strangeArgs+1)...),
		"many commands":     strings.Repeat(array("PING"), strangeCommands+1),
		"many AUTH":         strings.Repeat(array("AUTH", "x"), strangeCommands+1),
		"many HELLO":        strings.Repeat(array("HELLO", "3"), strangeCommands+1),
		"a command too big": "*2\r\n$4\r\nAUTH\r\n$60000\r\n" + strings.Repeat("x", 20<<10),
	} {
		s, _ := guarded(t, newWorld(t), auth.Public, r)
		c := dialTCP(t, s)
		c.send(send)
		c.conn.SetDeadline(time.Now().Add(await.Patience))
		if replies, err := io.ReadAll(c.in); errors.Is(err, os.ErrDeadlineExceeded) ||
			!strings.Contains(string(replies), tooStrange) {
			t.Errorf("after %s: %q, %v", name, replies, err)
		}
	}
}

// A connection that proves nothing gives its seat back; one that did may be silent for hours, as in a pool.
func TestAStrangerHasFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text, r := token(t, "web", "ops=check")
		s, _ := guarded(t, newWorld(t), auth.Public, r)
		silent, proven := dial(t, s), dial(t, s)
		wants(t, proven, "AUTH "+text, "+OK")
		time.Sleep(provenWithin - time.Millisecond)
		wants(t, silent, "PING", "-NOAUTH")
		time.Sleep(2 * time.Millisecond)
		if _, err := silent.in.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("after %v a stranger is still connected: %v", provenWithin, err)
		}
		time.Sleep(time.Hour)
		wants(t, proven, "INCR a", ":1")
		proven.conn.Close()
	})
}

// young serves a world with a node that does not know yet whether tokens are required.
func young(t *testing.T, set *auth.Set) (*Server, *auth.Guard) {
	t.Helper()
	guard := auth.NewGuard(time.Now)
	guard.Learn(set)
	s, _ := serve(t, newWorld(t), func(c *Config) { c.Guard, c.Port = guard, auth.Loopback })
	return s, guard
}

// A client that connects to a node which has just started is answered when the node knows its tokens, or that there are
// none.
func TestAClientWaitsForTheTokens(t *testing.T) {
	text, r := token(t, "web", "ops=check")
	for _, unknown := range []*auth.Set{{}, {Outside: true}} {
		for _, records := range [][]auth.Record{nil, {r}} {
			synctest.Test(t, func(t *testing.T) {
				s, guard := young(t, unknown)
				c := dial(t, s)
				time.AfterFunc(4*time.Second, func() {
					guard.Learn(auth.NewSet(records, len(records) > 0, nil))
					guard.Heard(time.Now())
				})
				if records != nil {
					wants(t, c, "AUTH "+text, "+OK")
				}
				wants(t, c, "INCR a", ":1")
			})
		}
	}
}

// A client that waits for too long is answered that the node is loading. It is not the client's fault: it is neither
// asked to authenticate, nor bounded as a stranger, and may ask until it is answered.
func TestANodeWithoutTokensYetIsLoading(t *testing.T) {
	text, r := token(t, "web", "ops=check")
	for _, unknown := range []*auth.Set{{}, {Outside: true}} {
		synctest.Test(t, func(t *testing.T) {
			s, guard := young(t, unknown)
			c := dial(t, s)
			for range 2 * strangeCommands {
				wants(t, c, "INCR a", "-LOADING")
			}
			wants(t, c, "AUTH "+text, "-LOADING")
			wants(t, c, "AUTH wrong", "-LOADING")
			wants(t, c, "INCR "+strings.Repeat("x", 20<<10), "-LOADING")
			time.Sleep(2 * provenWithin)
			wants(t, c, "INCR a", "-LOADING")
			guard.Learn(auth.NewSet([]auth.Record{r}, true, nil))
			guard.Heard(time.Now())
			wants(t, c, "INCR a", "-NOAUTH")
			wants(t, c, "AUTH "+text, "+OK")
			wants(t, c, "INCR a", ":1")
		})
	}
}
