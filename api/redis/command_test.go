package redis

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
)

// TestTranscripts plays testdata/*.txt: lines after "> " are sent, the lines below are the replies, and "+1s" lets time
// pass.
func TestTranscripts(t *testing.T) {
	files, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if file.IsDir() {
			continue
		}
		t.Run(file.Name(), func(t *testing.T) { play(t, "testdata/"+file.Name()) })
	}
}

func play(t *testing.T, path string) {
	w := newWorld(t)
	s, _ := serve(t, w, nil)
	c := dial(t, s)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "> "):
			got.WriteString(line + "\n" + c.ask(line[2:]) + "\n")
		case strings.HasPrefix(line, "+") && strings.HasSuffix(line, "s") && !strings.Contains(line, " "):
			d, err := time.ParseDuration(line[1:])
			if err != nil {
				t.Fatal(err)
			}
			w.pass(d)
			got.WriteString(line + "\n")
		case line == "" || strings.HasPrefix(line, "#"):
			got.WriteString(line + "\n")
		}
	}
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got.String() != string(text) {
		t.Errorf("%s:\n%s", path, got.String())
	}
}

func array(words ...string) string {
	b := appendArray(nil, len(words))
	for _, word := range words {
		b = appendBulk(b, word)
	}
	return string(b)
}

func TestAPipelineIsOneBatchAnsweredInOrder(t *testing.T) {
	w := newWorld(t)
	s, seen := serve(t, w, nil)
	c := dialTCP(t, s)
	// A read before and after, other keys between them, and a reply that asks no shard.
	c.send("GET a\r\nINCR a\r\nINCR b\r\nPING\r\nINCR a\r\nDEL a\r\nGET a\r\nINCRBY a x\r\nINCR a\r\nMGET b a\r\n")
	for i, want := range []string{"(nil)", ":1", ":1", "+PONG", ":2", ":1", "(nil)", "-ERR " + notInteger, ":1",
		`*["1" "1"]`} {
		if got := c.reply(); got != want {
			t.Errorf("reply %d is %s, want %s", i, got, want)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	byKey := map[string]int{}
	for _, call := range w.calls {
		keys := map[string]bool{}
		for _, r := range call {
			keys[r.Entries[0].Key] = true
		}
		for key := range keys {
			byKey[key]++
		}
	}
	if byKey["a"] != 1 || byKey["b"] != 1 {
		t.Errorf("the commands of a key travelled in several calls: %v", byKey)
	}
	if rounds := seen.get("rounds"); rounds > 1 {
		t.Errorf("it took %d rounds", rounds)
	}
	await.Until(t, "the round is observed", func() bool { return seen.get("rounds") > 0 })
	if incr, del := seen.get("incr ok"), seen.get("del ok"); incr != 4 || del != 1 || seen.get("incrby ERR") != 1 {
		t.Errorf("observed: %v", seen.of)
	}
}

func TestALongPipelineIsAnsweredWhole(t *testing.T) {
	s, _ := serve(t, newWorld(t), nil)
	c := dialTCP(t, s)
	const commands = 20_000 // many rounds, and more than the socket buffers of both sides hold
	go c.conn.Write([]byte(strings.Repeat("INCR hot\r\n", commands)))
	for i := range commands {
		if got := c.reply(); got != ":"+strconv.Itoa(i+1) {
			t.Fatalf("reply %d is %s", i+1, got)
		}
	}
}

func TestACommandArrivesInPieces(t *testing.T) {
	s, _ := serve(t, newWorld(t), nil)
	c := dialTCP(t, s)
	for _, b := range []byte(array("INCRBY", "k", "41") + array("incr", "k")) {
		c.send(string(b))
	}
	if first, second := c.reply(), c.reply(); first != ":41" || second != ":42" {
		t.Errorf("%s, %s", first, second)
	}
}

func TestKeysAndArgumentsAreBounded(t *testing.T) {
	s, _ := serve(t, newWorld(t), nil)
	c := dial(t, s)
	for _, sent := range []string{
		array("INCR", strings.Repeat("k", 513)),
		array("INCR", ""),
		array("DEL", "fine", "\xff"),
		array("CL.THROTTLE", "new\nline", "1", "1", "1"),
		array("STINT.CHECK", "per-ip", strings.Repeat("k", 513)),
	} {
		c.send(sent)
		if got := c.reply(); !strings.HasPrefix(got, "-ERR the key ") {
			t.Errorf("%.40q: %s", sent, got)
		}
	}
	c.send(array("EVAL", strings.Repeat("x", 40_000), "0"))
	if got := c.reply(); !strings.Contains(got, " is not known") {
		t.Errorf("a long command: %s", got)
	}
	if got := c.ask("INCR " + strings.Repeat("k", 512)); got != ":1" {
		t.Errorf("the longest key: %s", got)
	}
	go c.conn.Write([]byte("*2\r\n$4\r\nECHO\r\n$65000\r\n" + strings.Repeat("x", 65_000) + "\r\n*1\r\n$70000\r\n"))
	if got := c.reply(); len(got) != 65_002 {
		t.Errorf("the longest argument: %.40s", got)
	}
	if got := c.reply(); !strings.HasPrefix(got, "-ERR Protocol error: ") {
		t.Errorf("too long an argument: %s", got)
	}
	if _, err := c.in.ReadByte(); err == nil {
		t.Error("the connection goes on after a protocol error")
	}
	if held := s.held.Load(); held < 0 {
		t.Errorf("%d bytes are held", held)
	}
}

func TestErrorsTellWhatWasCounted(t *testing.T) {
	w := newWorld(t)
	s, seen := serve(t, w, nil)
	c := dial(t, s)
	for _, test := range []struct {
		err  *shard.Error
		want string
	}{
		{&shard.Error{Code: shard.Overloaded, Message: "busy"}, "-TRYAGAIN busy"},
		{&shard.Error{Code: shard.Unavailable, Message: "no\r\nowner"}, "-TRYAGAIN no  owner"},
		{&shard.Error{Code: shard.Draining, Message: "stopping"}, "-TRYAGAIN stopping"},
		{&shard.Error{Code: shard.MemoryFull, Message: "full"}, "-OOM full"},
		{&shard.Error{Code: shard.NotBuilt, Message: "older"}, "-ERR older"},
		{&shard.Error{Code: shard.UnknownOutcome, Message: "?"},
			"-UNKNOWN the outcome is not known: the command was counted once, or not at all"},
	} {
		w.refuse.Store(test.err)
		for _, command := range []string{"INCR a", "CL.THROTTLE a 1 1 1", "STINT.CHECK per-ip a", "MGET a b",
			"SET a 1 GET", "EVALSHA 628bd136a573a06b346879695681af12ccef300f 1 a 60 1"} {
			if got := c.ask(command); got != test.want {
				t.Errorf("%s: %s, want %s", command, got, test.want)
			}
		}
	}
	c.ask("PING") // the rounds before it are observed
	if seen.get("incr TRYAGAIN") != 3 || seen.get("incr UNKNOWN") != 1 || seen.get("inline denied") != 0 {
		t.Errorf("observed: %v", seen.of)
	}
}

func TestDecisionsAreObserved(t *testing.T) {
	s, seen := serve(t, newWorld(t), nil)
	c := dial(t, s)
	for range 5 {
		c.ask("STINT.CHECK per-ip a")
		c.ask("CL.THROTTLE b 1 1 60")
		c.ask("EVALSHA 054143318f521948424aa25df61d7f7ba835a9d7 1 c 5 1 60 3")
	}
	c.ask("PING") // the rounds before it are observed
	for what, want := range map[string]int{"per-ip allowed": 3, "per-ip denied": 2, "inline allowed": 4,
		"inline denied": 6, "redis_rate.allow_at_most ok": 5} {
		if got := seen.get(what); got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
}

func TestHello3SpeaksRESP3FromThenOn(t *testing.T) {
	s, _ := serve(t, newWorld(t), nil)
	c := dialTCP(t, s)
	c.send("GET none\r\nHELLO 3 SETNAME me\r\nGET none\r\nSTINT.CHECK per-ip x\r\nCLIENT GETNAME\r\nRESET\r\n" +
		"GET none\r\n")
	for i, want := range []string{"(nil)", `%["server" "stint" "version" "7.0.0" "proto" :3 "id" :1 "mode" ` +
		`"standalone" "role" "master" "modules" *[]]`,
		"(null)", `%["allowed" :1 "limit" "per-ip/minute" "quota" :3 "remaining" :2`, `"me"`, "+RESET", "(nil)"} {
		if got := c.reply(); !strings.HasPrefix(got, want) {
			t.Errorf("reply %d is %s, want %s", i, got, want)
		}
	}
}

// The commands that clients send when they connect, each set in one write, as in their sources: node-redis 5
// (client/index.ts, #getHandshakeCommands), ioredis 5 (redis/event_handler.ts), go-redis 9 (redis.go, initConn),
// redis-py 6 (connection.py), redis-benchmark and redis-cli 7.
func TestClientsConnect(t *testing.T) {
	for name, handshake := range map[string]struct{ sent, want string }{
		"node-redis RESP3": {array("HELLO", "3") + array("CLIENT", "SETINFO", "LIB-VER", "5.9.0") +
			array("CLIENT", "SETINFO", "LIB-NAME", "node-redis") +
			array("CLIENT", "MAINT_NOTIFICATIONS", "ON", "moving-endpoint-type", "external-ip"), "%[ +OK +OK -ERR"},
		"node-redis RESP2": {array("CLIENT", "SETNAME", "app") + array("CLIENT", "SETINFO", "LIB-VER", "5.9.0") +
			array("CLIENT", "SETINFO", "LIB-NAME", "node-redis(tag)"), "+OK +OK +OK"},
		"ioredis": {array("client", "SETINFO", "LIB-NAME", "ioredis") + array("client", "SETINFO", "LIB-VER", "5.8.0") +
			array("info"), `+OK +OK "# Server`},
		"go-redis": {array("hello", "3") + array("client", "setinfo", "LIB-NAME", "go-redis(,go1.26)") +
			array("client", "setinfo", "LIB-VER", "9.23.0"), "%[ +OK +OK"},
		"redis-py": {array("CLIENT", "SETINFO", "LIB-NAME", "redis-py") + array("CLIENT",
			"SETINFO", "LIB-VER", "6.4.0"), "+OK +OK"},
		"redis-cli": {array("COMMAND", "DOCS"), "*[]"},
		"redis-benchmark": {array("CONFIG", "GET", "save") + array("CONFIG", "GET", "appendonly"),
			`*["save" *["appendonly"`},
	} {
		s, _ := serve(t, newWorld(t), nil)
		c := dialTCP(t, s)
		c.send(handshake.sent)
		for _, want := range strings.Split(strings.ReplaceAll(handshake.want, "# Server", "#_Server"), " ") {
			if got := c.reply(); !strings.HasPrefix(got, strings.ReplaceAll(want, "_", " ")) {
				t.Errorf("%s: %.80s, want %s", name, got, want)
			}
		}
		if got := c.ask("INCR x"); got != ":1" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestInfoSaysWhetherClientsMayBegin(t *testing.T) {
	s, _ := serve(t, newWorld(t), func(c *Config) { c.Ready = func() error { return context.Canceled } })
	if got := dial(t, s).ask("INFO"); !strings.Contains(got, "loading:1") {
		t.Error(got)
	}
}

// A check under a policy with a parent is decided together with it, on any shard, and keeps its place in the pipeline.
func TestAParentIsCheckedToo(t *testing.T) {
	w := newWorld(t)
	s, _ := serve(t, w, func(c *Config) {
		c.Parents = func(e shard.Entry) ([]shard.Entry, uint64, error) {
			if e.Policy != "per-ip" {
				return nil, 7, nil
			}
			return []shard.Entry{e, {Policy: "two", Key: "{p}pool", Cost: e.Cost}}, 7, nil
		}
	})
	c := dialTCP(t, s)
	c.send("STINT.CHECK per-ip {p}a 2\r\nINCR a\r\nSTINT.CHECK per-ip {p}b\r\nSTINT.CHECK two pool\r\n")
	for i, want := range []string{`*["allowed" :1 "limit" "two/few" "quota" :2 "remaining" :0`, ":1",
		`*["allowed" :0 "limit" "two/few"`, `*["allowed" :`} {
		if got := c.reply(); !strings.HasPrefix(got, want) {
			t.Errorf("reply %d is %s, want %s", i, got, want)
		}
	}
	for _, call := range w.calls {
		for _, r := range call {
			if r.Op == shard.Check && r.Revision != 7 {
				t.Errorf("a check names revision %d of the policies: %+v", r.Revision, r)
			}
		}
	}
}
