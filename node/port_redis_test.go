package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-io/stint/internal/testing/await"
)

func init() { redis.SetLogger(quiet{}) }

// quiet keeps go-redis from logging every connection that a test breaks.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// withRedis starts a lone node that serves the Redis protocol.
func withRedis(t *testing.T) *Node {
	t.Helper()
	config := testConfig(t)
	config.RedisAddr = "127.0.0.1:0"
	n := start(t, config)
	t.Cleanup(func() { stop(t, n) })
	return n
}

// redisClient is go-redis without retries.
func redisClient(t *testing.T, addr string, protocol int) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, Protocol: protocol, MaxRetries: -1, DialerRetries: 1,
		Dialer: redisDialer(t, nil)})
	t.Cleanup(func() { c.Close() })
	return c
}

func TestGoRedisCountsOverBothProtocols(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		n, ctx := withRedis(t), t.Context()
		for _, protocol := range []int{2, 3} {
			c := redisClient(t, n.RedisAddr(), protocol)
			key := fmt.Sprint("visits", protocol)
			if got, err := c.Incr(ctx, key).Result(); got != 1 || err != nil {
				t.Errorf("RESP%d: INCR: %d, %v", protocol, got, err)
			}
			if ok, err := c.Expire(ctx, key, time.Minute).Result(); !ok || err != nil {
				t.Errorf("RESP%d: EXPIRE: %v, %v", protocol, ok, err)
			}
			if ttl, err := c.TTL(ctx, key).Result(); ttl != time.Minute || err != nil {
				t.Errorf("RESP%d: TTL: %v, %v", protocol, ttl, err)
			}
			if err := c.Get(ctx, "nothing").Err(); err != redis.Nil {
				t.Errorf("RESP%d: GET of nothing: %v", protocol, err)
			}
			if err := c.Set(ctx, key, "text", 0).Err(); err == nil || !strings.Contains(err.Error(), "not an integer") {
				t.Errorf("RESP%d: SET of a text: %v", protocol, err)
			}
			for i := range int64(4) {
				got, err := c.Do(ctx, "CL.THROTTLE", key, 2, 1, 3600).Int64Slice()
				if err != nil || len(got) != 5 || got[0] != i/3 || got[1] != 3 || got[2] != max(0, 2-i) {
					t.Errorf("RESP%d: CL.THROTTLE: %v, %v", protocol, got, err)
				}
			}
			const atMost, hit = "054143318f521948424aa25df61d7f7ba835a9d7", "81dbecea94d2d10514719b20ed51faf711529d9d"
			if got, err := c.EvalSha(ctx, atMost, []string{key}, 3, 1, 3600,
				5).Result(); fmt.Sprint(got) != "[3 0 -1 10800]" || err != nil {
				t.Errorf("RESP%d: a script that takes what fits: %v, %v", protocol, got, err)
			}
			if got, err := c.EvalSha(ctx, hit, []string{key + "hits"}, 0,
				60_000).Result(); fmt.Sprint(got) != "[1 60000]" || err != nil {
				t.Errorf("RESP%d: a script that counts: %v, %v", protocol, got, err)
			}
			if err := c.Eval(ctx, "return 1", nil).Err(); err == nil ||
				!strings.Contains(err.Error(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db") {
				t.Errorf("RESP%d: an unknown script: %v", protocol, err)
			}
			if got, err := c.Do(ctx, "STINT.CHECK", "stock", key, 100).Result(); err != nil ||
				!strings.Contains(fmt.Sprint(got), "stock/total") {
				t.Errorf("RESP%d: STINT.CHECK: %v, %v", protocol, got, err)
			}
			if err := c.Do(ctx, "STINT.CHECK", "none", key).Err(); err == nil ||
				!strings.Contains(err.Error(), `"none"`) {
				t.Errorf("RESP%d: STINT.CHECK of no policy: %v", protocol, err)
			}
		}
	})
}

func TestGoRedisPipelinesAndTransactions(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		n, ctx := withRedis(t), t.Context()
		c := redisClient(t, n.RedisAddr(), 3)
		commands, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range 1000 {
				p.Incr(ctx, fmt.Sprint("key", i%10))
				p.Get(ctx, fmt.Sprint("key", i%10))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(commands); i += 2 {
			want := int64(i/20 + 1)
			incr, _ := commands[i].(*redis.IntCmd).Result()
			if get, _ := commands[i+1].(*redis.StringCmd).Int64(); incr != want || get != want {
				t.Fatalf("command %d: %d, then %d; want %d", i, incr, get, want)
			}
		}
		_, err = c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Incr(ctx, "key0")
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), "is a transaction; a pipeline") {
			t.Errorf("a transaction: %v", err)
		}
		if got, err := c.Get(ctx, "key0").Int64(); got != 100 || err != nil {
			t.Errorf("the transaction that was refused has counted: %d, %v", got, err)
		}
	})
}

// The command-line tools of Redis work with stint.
func TestRedisToolsWork(t *testing.T) {
	t.Parallel()
	cli, benchmark := tool(t, "redis-cli"), tool(t, "redis-benchmark")
	n := withRedis(t)
	_, port, _ := net.SplitHostPort(n.RedisAddr())
	for _, test := range []struct{ arguments, want string }{
		{"INCR hits", "1\n"}, {"-3 INCRBY hits 41", "42\n"}, {"CL.THROTTLE u 4 2 1", "0\n5\n4\n-1\n1\n"},
		{"PING", "PONG\n"},
	} {
		out, err := exec.Command(cli, append([]string{"-p", port}, strings.Fields(test.arguments)...)...).
			CombinedOutput()
		if err != nil || string(out) != test.want {
			t.Errorf("redis-cli %s: %q, %v", test.arguments, out, err)
		}
	}
	for _, pipeline := range []string{"1", "16"} {
		out, err := exec.Command(benchmark, "-p", port, "-c", "8", "-n", "2000", "-P", pipeline, "-q", "INCR",
			"counted").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "requests per second") || strings.Contains(string(out), "ERR") {
			t.Errorf("redis-benchmark: %s, %v", out, err)
		}
	}
	if got, err := redisClient(t, n.RedisAddr(), 3).Get(t.Context(), "counted").Int64(); got != 4000 || err != nil {
		t.Errorf("redis-benchmark counted %d, %v", got, err)
	}
}

func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed: Debian's redis-tools and redis-server have it", name)
	}
	return path
}

// realRedis starts a Redis server.
func realRedis(t *testing.T) string {
	t.Helper()
	server, addr := tool(t, "redis-server"), freeAddr(t)
	host, port, _ := net.SplitHostPort(addr)
	command := exec.Command(server, "--port", port, "--bind", host, "--save", "", "--dir", t.TempDir())
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
	c := redisClient(t, addr, 2)
	await.Until(t, "redis-server answers", func() bool { return c.Ping(t.Context()).Err() == nil })
	return addr
}

// The same commands, drawn at random, get the same replies from Redis and from stint. TTLs are long, so that none ends
// on one side only, and are compared in steps that no delay crosses.
func TestRandomCommandsAnswerAsRedisDoes(t *testing.T) {
	t.Parallel()
	theirs := redisClient(t, realRedis(t), 2)
	ours := redisClient(t, withRedis(t).RedisAddr(), 2)
	random := rand.New(rand.NewPCG(3, 0))
	day := time.Now().Unix() + 24*3600
	var history []string
	for round := range 60 {
		pipes := []redis.Pipeliner{theirs.Pipeline(), ours.Pipeline()}
		for range 50 {
			command := randomCommand(random, day)
			history = append(history, strings.TrimSpace(fmt.Sprintln(command...)))
			for _, p := range pipes {
				p.Do(t.Context(), command...)
			}
		}
		want, _ := pipes[0].Exec(t.Context())
		got, _ := pipes[1].Exec(t.Context())
		for i := range want {
			if a, b := shown(want[i]), shown(got[i]); a != b {
				at := round*50 + i
				t.Fatalf("command %d: %v\nRedis: %s\nstint: %s\nbefore: %s", at, want[i].Args(), a, b,
					strings.Join(history[max(0, at-30):at], "\n        "))
			}
		}
	}
}

// shown is a reply for comparison: errors are equal if they begin with the same word, times to live if they are within
// a minute.
func shown(c redis.Cmder) string {
	value, err := c.(*redis.Cmd).Result()
	if err != nil && err != redis.Nil {
		code, _, _ := strings.Cut(err.Error(), " ")
		return code
	}
	if n, ok := value.(int64); ok && n > 0 {
		switch strings.ToUpper(fmt.Sprint(c.Args()[0])) {
		case "TTL":
			return fmt.Sprintf("about %d min", (n+30)/60)
		case "PTTL":
			return fmt.Sprintf("about %d min", (n+30_000)/60_000)
		case "EXPIRETIME", "PEXPIRETIME":
			if n%instantStep != 0 { // no instant that a command named
				return "some instant"
			}
		}
	}
	return fmt.Sprint(value, err)
}

// instantStep divides the instants that commands name, in seconds and milliseconds; hardly any other is.
const instantStep = 7000

// randomCommand draws a command. The instants in it are around day, in seconds, or have passed.
func randomCommand(r *rand.Rand, day int64) []any {
	key := func() any { return fmt.Sprint("k", r.IntN(6)) }
	pick := func(of ...any) any { return of[r.IntN(len(of))] }
	condition := func() []any {
		return pick([]any{}, []any{"NX"}, []any{"XX"}, []any{"GT"}, []any{"LT"}, []any{"XX", "GT"}, []any{"LT", "XX"},
			[]any{"NX", "LT"}, []any{"GT", "LT"}).([]any)
	}
	number := func() any {
		return pick(0, 1, -1, 7, -7, 1000, int64(1)<<62, -(int64(1) << 62), int64(math.MaxInt64), int64(math.MinInt64),
			"x", "", "1.5", "007", "9223372036854775808")
	}
	seconds := func() any { return pick(600, 1200, 36000, 600, 1200, 36000, -1, 0, "x", "9223372036854775807") }
	// Few instants: which of two equal ones is later, both know.
	instant := func(unit int64) any { return pick(1, (day/instantStep+int64(r.IntN(4)))*instantStep*unit) }
	switch r.IntN(28) {
	case 0, 1, 2:
		return []any{"INCR", key()}
	case 3, 4:
		return []any{"DECR", key()}
	case 5:
		return []any{pick("INCRBY", "DECRBY"), key(), number()}
	case 6, 7:
		return []any{"GET", key()}
	case 8:
		return []any{pick("DEL", "UNLINK", "EXISTS", "MGET"), key(), key(), key()}
	case 9:
		return []any{"SET", key(), pick(5, -5, 0, int64(math.MaxInt64))}
	case 10:
		return []any{"SET", key(), pick(1, 2, 3), pick("NX", "XX", "KEEPTTL", "GET", "nx", "get"),
			pick("GET", "KEEPTTL", "NX")}
	case 11:
		return []any{"SET", key(), pick(1, 2), "EX", seconds(), pick("GET", "NX", "XX", "KEEPTTL", "ZZ")}
	case 12:
		return []any{"SET", key(), pick(1, 2), "EX", pick(600, 1200)}
	case 13:
		return []any{"EXPIRE", key(), seconds()}
	case 14:
		if r.IntN(2) == 0 {
			return []any{"EXPIRE", key(), seconds(), pick("NX", "XX", "ZZ")}
		}
		// The values hardly ever repeat: which of two equal ones is later depends on microseconds here, on milliseconds
		// there.
		return append([]any{"EXPIRE", key(), 60 * (11 + r.IntN(20_000))}, condition()...)
	case 15:
		return []any{"PEXPIRE", key(), pick(600_000, 1_200_000, -5, "x")}
	case 16, 17:
		return []any{pick("TTL", "PTTL"), key()}
	case 18:
		return []any{"PERSIST", key()}
	case 19:
		return []any{pick("GETDEL", "TYPE", "EXISTS", "SETNX", "GETSET", "INCR", "MULTIPLY"), key()}
	case 20:
		return []any{pick("SETNX", "GETSET"), key(), pick(1, 2)}
	case 21:
		return []any{"SET", key(), pick(1, 2), pick("EXAT", "exat"), pick(instant(1), instant(1), 0, -1, "x"),
			pick("GET", "NX", "XX", "EX")}
	case 22:
		return append([]any{pick("EXPIREAT", "expireat"), key(), pick(instant(1), instant(1), instant(1), -1, "x")},
			condition()...)
	case 23:
		return append([]any{"PEXPIREAT", key(), pick(instant(1000), instant(1000), instant(1000), 0, -1)},
			condition()...)
	case 24:
		return []any{pick("STRLEN", "GETEX", "EXPIRETIME", "PEXPIRETIME"), key()}
	case 25: // of a number that is none Redis complains only where there is a counter
		return []any{"GETEX", key(), pick("EX", "EXAT", "PXAT", "PERSIST"), pick(instant(1), instant(1000), 600)}
	case 26:
		return []any{"GETEX", key(), pick("PERSIST", "EX", "PERSIST")}
	}
	return []any{pick("SETEX", "PSETEX"), key(), pick(600_000, 1_200_000, 0, -1, "x"), pick(1, 2)}
}

// A node that stops answers the commands that it received, and loses none of them: a command with a reply is counted
// once, any other at most once.
func TestStoppingNodesLoseNoCommand(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := trioToBe(t)
		for i := range c.configs {
			c.configs[i].RedisAddr = freeAddr(t)
		}
		for i := range c.nodes {
			c.start(i)
		}
		c.ready(0, 1, 2)
		ctx, cancel := context.WithCancel(t.Context())
		var told, refused, unknown atomic.Int64
		var group sync.WaitGroup
		for worker := range 6 {
			group.Go(func() {
				client := redisClient(t, c.configs[worker%3].RedisAddr, 3)
				for ctx.Err() == nil {
					err := client.Incr(context.Background(), "all").Err()
					switch {
					case err == nil:
						told.Add(1)
					case strings.HasPrefix(err.Error(), "TRYAGAIN"), isDial(err):
						refused.Add(1)
						breathe()
					default: // UNKNOWN, or the connection broke
						unknown.Add(1)
					}
				}
			})
		}
		for i := range 3 {
			before := told.Load()
			await.Until(t, "commands are counted", func() bool { return told.Load() >= before+100 })
			c.stopInTime(i) // although its clients never pause
			c.start(i)
			c.ready(i)
		}
		cancel()
		group.Wait()
		got, err := redisClient(t, c.configs[0].RedisAddr, 3).Get(t.Context(), "all").Int64()
		if err != nil || got < told.Load() || got > told.Load()+unknown.Load() || told.Load() == 0 {
			t.Errorf("counted %d (%v); told %d, unknown %d", got, err, told.Load(), unknown.Load())
		}
		t.Logf("told %d, refused %d, unknown %d", told.Load(), refused.Load(), unknown.Load())
	})
}

// stopInTime stops a node with clients that never pause: that takes no longer than the commands under way, and not its
// whole patience.
func (c *trio) stopInTime(i int) {
	patience, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	err := c.nodes[i].Close(patience)
	c.nodes[i] = nil
	if err := errors.Join(err, patience.Err()); err != nil {
		c.t.Errorf("stopping node %d: %v", i+1, err)
	}
}

func isDial(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial"
}
