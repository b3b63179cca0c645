package redis

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/limit"
)

func init() { goredis.SetLogger(quiet{}) }

// quiet keeps go-redis from logging that a server is not there yet.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// sides are a Redis server and a stint with a clock that stands still, for the same commands.
type sides struct {
	t            *testing.T
	world        *world
	theirs, ours *goredis.Client
}

func besideRedis(t *testing.T, protocol int) *sides {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed: Debian's redis-server has it")
	}
	w := newWorld(t)
	w.still = true
	s, _ := serve(t, w, nil)
	dir, err := os.MkdirTemp("", "redis") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "socket")
	command := exec.Command(path, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go s.Serve(listener)
	client := func(network, addr string) *goredis.Client {
		c := goredis.NewClient(&goredis.Options{Network: network, Addr: addr, Protocol: protocol, MaxRetries: -1})
		t.Cleanup(func() { c.Close() })
		return c
	}
	b := &sides{t, w, client("unix", socket), client("tcp", listener.Addr().String())}
	await.Until(t, "redis-server answers", func() bool { return b.theirs.Ping(t.Context()).Err() == nil })
	return b
}

// pass lets time pass. Redis has a clock of its own, so what it remembers becomes older: every end comes nearer, and so
// does every arrival time, which redis_rate keeps as a number of seconds. What Redis has lived through meanwhile is
// nothing beside the periods of the tests, which are days.
func (b *sides) pass(d time.Duration, arrivals bool) {
	b.t.Helper()
	b.world.pass(d)
	const age = `for _, key in ipairs(redis.call('KEYS', '*')) do
		local left = redis.call('PTTL', key)
		if ARGV[2] == '1' then
			redis.call('SET', key, string.format('%.17g', redis.call('GET', key) - ARGV[1] / 1000))
		end
		if left > tonumber(ARGV[1]) then
			redis.call('PEXPIRE', key, left - ARGV[1])
		elseif left >= 0 then
			redis.call('DEL', key)
		end
	end`
	if err := b.theirs.Eval(b.t.Context(), age, nil, d.Milliseconds(), arrivals).Err(); err != nil &&
		err != goredis.Nil {
		b.t.Fatal(err)
	}
}

const day = 24 * time.Hour

// The library redis_rate, which sends its scripts itself, gets the same answers from Redis and from stint.
func TestRedisRateGetsTheAnswersOfRedis(t *testing.T) {
	for _, atMost := range []bool{false, true} {
		b := besideRedis(t, 2)
		theirs, ours := redis_rate.NewLimiter(b.theirs), redis_rate.NewLimiter(b.ours)
		random := rand.New(rand.NewPCG(5, 0))
		limits := []redis_rate.Limit{
			{Rate: 16, Burst: 8, Period: 64 * day}, {Rate: 2, Burst: 5, Period: 8 * day},
			{Rate: 1, Burst: 1, Period: 4 * day}}
		var history []string
		for range 400 {
			k := random.IntN(len(limits))
			key, l, n := fmt.Sprint("user:", k), limits[k], random.IntN(limits[k].Burst+3)
			ask, what := redis_rate.Limiter.AllowN, "AllowN"
			switch random.IntN(4) {
			case 0: // Redis wastes a part of a unit in AllowAtMost, so no part comes back there
				d := time.Duration(random.IntN(12)) * day
				if atMost {
					d = time.Duration(random.IntN(4)) * 4 * day
				}
				b.pass(d, true)
				history = append(history, d.String())
				continue
			case 1, 2:
				if atMost {
					ask, what = redis_rate.Limiter.AllowAtMost, "AllowAtMost"
				}
			}
			want, err := ask(*theirs, t.Context(), key, l, n)
			if err != nil {
				t.Fatal(err)
			}
			got, err := ask(*ours, t.Context(), key, l, n)
			if err != nil {
				t.Fatal(err)
			}
			history = append(history, fmt.Sprint(what, " ", key, " ", n))
			if got.Allowed != want.Allowed || got.Remaining != want.Remaining ||
				!near(got.RetryAfter, want.RetryAfter) || !near(got.ResetAfter, want.ResetAfter) {
				t.Fatalf("%s of %d for %v: %+v, Redis: %+v\nbefore: %v", what, n, l, *got, *want,
					history[max(0, len(history)-20):])
			}
		}
		if err := ours.Reset(t.Context(), "user:0"); err != nil {
			t.Error(err)
		}
		if got, err := ours.Allow(t.Context(), "user:0", limits[0]); err != nil || got.Remaining != limits[0].Burst-1 {
			t.Errorf("after a reset: %+v, %v", got, err)
		}
	}
}

// near compares two times of which one is of a clock that goes on.
func near(a, b time.Duration) bool { return (a-b).Abs() < time.Hour && (a < 0) == (b < 0) }

// drawing draws the arguments of a script. now is the time that the script is told of, by its caller.
type drawing struct {
	keys int
	draw func(r *rand.Rand, now limit.Time) []any
	step func(r *rand.Rand) time.Duration
	told bool          // the script knows time from its arguments only, so what Redis remembers need not be aged
	near time.Duration // the unit of the second element of the reply, if a clock that goes on makes it smaller
	// inverse means that Redis keeps what is left, and stint what was spent.
	inverse bool
	sets    bool // the script only reads, so counters are set beside it
}

func days(r *rand.Rand) time.Duration { return time.Duration(r.IntN(3)) * 12 * time.Hour }

// constant draws always the same.
func constant(args ...any) func(*rand.Rand, limit.Time) []any {
	return func(*rand.Rand, limit.Time) []any { return slices.Clone(args) }
}

const daySeconds, dayMilliseconds = 86400, 86400_000

var drawings = map[string]drawing{
	"limits.incr_expire": {draw: func(r *rand.Rand, _ limit.Time) []any {
		return []any{daySeconds, 1 + r.IntN(3)}
	}, step: days},
	"limits.acquire_moving_window": {draw: func(r *rand.Rand, now limit.Time) []any {
		return []any{fmt.Sprintf("%.6f", float64(now)/1e6), 5, 60, 1 + r.IntN(5)}
	}, step: func(r *rand.Rand) time.Duration { return time.Duration(1+r.IntN(40e6)) * time.Microsecond }, told: true},
	"rate_limit_redis.increment": {draw: func(r *rand.Rand, _ limit.Time) []any {
		return []any{r.IntN(8) / 7, dayMilliseconds}
	}, step: days, near: time.Millisecond},
	"rate_limit_redis.get": {draw: constant(), step: days, near: time.Millisecond, sets: true},
	"rate_limiter_flexible.incr": {draw: func(r *rand.Rand, _ limit.Time) []any {
		return []any{r.IntN(4) - 1, daySeconds, 10, daySeconds}
	}, step: days, near: time.Millisecond},
	"kong.usage": {draw: constant(daySeconds), step: days},
	"kong.sync": {draw: func(r *rand.Rand, now limit.Time) []any {
		return []any{r.IntN(5), int64(now/1e6) + int64(1+r.IntN(3))*daySeconds/2}
	}, step: days},
	"apisix.limit_count_1": {draw: constant(3, daySeconds), step: days, inverse: true},
	"apisix.limit_count_2": {draw: constant(3, daySeconds), step: days, near: time.Second, inverse: true},
	"apisix.limit_count_3": {draw: func(r *rand.Rand, _ limit.Time) []any {
		return []any{9, daySeconds, 1 + r.IntN(3)}
	}, step: days, near: time.Second, inverse: true},
	"apisix.limit_count_4": {draw: func(r *rand.Rand, _ limit.Time) []any {
		return []any{9, daySeconds, r.IntN(3)}
	}, step: days, near: time.Millisecond},
	// The excess is a whole number of thousandths after a whole number of milliseconds.
	"apisix.limit_req": {draw: func(_ *rand.Rand, now limit.Time) []any {
		return []any{2000, 3500, int64(now / 1e3), 1_000_000}
	}, step: func(r *rand.Rand) time.Duration { return time.Duration(r.IntN(1200)) * time.Millisecond }, told: true},
	"laravel.add": {draw: func(r *rand.Rand, _ limit.Time) []any { return []any{r.IntN(3), daySeconds} }, step: days},
	// Redis keeps whole seconds, so the two agree at whole seconds.
	"spring.request_rate_limiter": {keys: 2, draw: func(r *rand.Rand, now limit.Time) []any {
		return []any{2, 4000, int64(now / 1e6), r.IntN(2500)}
	}, step: func(r *rand.Rand) time.Duration { return time.Duration(r.IntN(1500)) * time.Second }, told: true},
	// Floats are exact for tokens that come back in a power of two microseconds.
	"traefik.token_bucket": {draw: func(_ *rand.Rand, now limit.Time) []any {
		return []any{3 / float64(1<<20), 5, 1_000_000, int64(now), 1 << 18}
	}, step: func(r *rand.Rand) time.Duration { return time.Duration(r.IntN(400_000)) * time.Microsecond }, told: true},
}

// texts returns the texts of known scripts that are on this machine: those of Debian's python3-limits, and the files of
// the directory STINT_SCRIPTS.
func texts(t *testing.T) map[string]string {
	found := map[string]string{}
	const debian = "/usr/lib/python3/dist-packages/limits/resources/redis/lua_scripts"
	for _, dir := range []string{debian, os.Getenv("STINT_SCRIPTS")} {
		files, err := filepath.Glob(filepath.Join(dir, "*.lua"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if sum := sumOf(text); scripts[sum] != nil {
				found[sum] = string(text)
			}
		}
	}
	return found
}

// The text of a script, run by Redis, and its sum, at stint, give the same replies, to the type of each element.
func TestScriptsReplyAsInRedis(t *testing.T) {
	for sum, text := range texts(t) {
		d, drawn := drawings[scripts[sum].name]
		if !drawn {
			continue
		}
		t.Run(scripts[sum].name+" "+sum[:8], func(t *testing.T) {
			for protocol := 2; protocol <= 3; protocol++ {
				d.compare(besideRedis(t, protocol), sum, text)
			}
		})
	}
}

// The transactions of rate-limiter-flexible get the same replies from Redis and from stint.
func TestTransactionsReplyAsInRedis(t *testing.T) {
	for protocol := 2; protocol <= 3; protocol++ {
		b, random := besideRedis(t, protocol), rand.New(rand.NewPCG(9, 0))
		for range 300 {
			if random.IntN(4) == 0 {
				b.pass(days(random), false)
				continue
			}
			key, n, first := fmt.Sprint("k", random.IntN(3)), random.IntN(9)-2, random.IntN(4)
			ask := func(c *goredis.Client) (string, time.Duration) {
				var left *goredis.DurationCmd
				done, _ := c.TxPipelined(t.Context(), func(p goredis.Pipeliner) error {
					switch first {
					case 0:
						p.Get(t.Context(), key)
					case 1:
						p.Set(t.Context(), key, n, day)
					case 2:
						p.Set(t.Context(), key, n, 0)
					case 3:
						p.IncrBy(t.Context(), key, int64(n))
					}
					left = p.PTTL(t.Context(), key)
					return nil
				})
				return done[0].String(), left.Val()
			}
			want, wantLeft := ask(b.theirs)
			if got, ends := ask(b.ours); got != want || !near(ends, wantLeft) {
				t.Fatalf("%s with %v left, Redis: %s with %v", got, ends, want, wantLeft)
			}
		}
	}
}

// forgetful is the moving window of limits 2.3, which forgets some hits if one costs more than 1.
const forgetful = "d2a3aeb88bc5648c36fed2636c03c52d5ae2ce18"

func (d *drawing) compare(b *sides, sum, text string) {
	if d.told { // even by a script that asks Redis
		text = strings.ReplaceAll(text, "redis.call('TIME')[1]", "tonumber(ARGV[3])")
	}
	text = strings.ReplaceAll(text, "server.call", "redis.call") // what Valkey calls it
	random := rand.New(rand.NewPCG(7, 0))
	if sumOf([]byte(text)) == sum {
		if got, err := b.ours.ScriptLoad(b.t.Context(), text).Result(); got != sum || err != nil {
			b.t.Errorf("SCRIPT LOAD: %q, %v", got, err)
		}
	}
	var history []string
	for range 300 {
		if random.IntN(3) == 0 {
			step := d.step(random)
			if history = append(history, step.String()); d.told {
				b.world.pass(step)
			} else {
				b.pass(step, false)
			}
			continue
		}
		keys := []string{fmt.Sprint("k", random.IntN(3))}
		if d.keys == 2 {
			keys = append(keys, keys[0]+".timestamp")
		}
		if d.sets && random.IntN(2) == 0 {
			for _, c := range []*goredis.Client{b.theirs, b.ours} {
				c.Set(b.t.Context(), keys[0], len(history), day)
			}
		}
		seed := random.Uint64()
		args := d.draw(rand.New(rand.NewPCG(seed, 0)), b.world.now)
		theirArgs := args
		if !d.told {
			theirArgs = d.draw(rand.New(rand.NewPCG(seed, 0)),
				limit.Time(b.theirs.Time(b.t.Context()).Val().UnixMicro()))
		}
		if sum == forgetful {
			args[3] = 1
		}
		want, wantErr := b.theirs.Eval(b.t.Context(), text, keys, theirArgs...).Result()
		got, err := b.ours.EvalSha(b.t.Context(), sum, keys, args...).Result()
		history = append(history, fmt.Sprint(keys, args))
		if err != wantErr || !sameReply(got, want, d.near) {
			b.t.Fatalf("%v: %#v, %v; Redis: %#v, %v\nbefore: %v", args, got, err, want, wantErr,
				history[max(0, len(history)-20):])
		}
	}
	b.counters(d)
}

// counters compares what plain commands see of counters afterwards.
func (b *sides) counters(d *drawing) {
	if d.told || d.inverse {
		return
	}
	for k := range 3 {
		key := fmt.Sprint("k", k)
		want, got := b.theirs.Get(b.t.Context(), key).Val(), b.ours.Get(b.t.Context(), key).Val()
		left, ends := b.theirs.TTL(b.t.Context(), key).Val(), b.ours.TTL(b.t.Context(), key).Val()
		if want != got || !near(left, ends) {
			b.t.Errorf("%s: %s for %v, Redis: %s for %v", key, got, ends, want, left)
		}
	}
}

// sameReply compares replies. unit is that of the second element, if one clock goes on.
func sameReply(a, b any, unit time.Duration) bool {
	if reflect.TypeOf(a) != reflect.TypeOf(b) {
		return false
	}
	x, ok := a.([]any)
	y, _ := b.([]any)
	if !ok || unit == 0 || len(x) != 2 || len(y) != 2 {
		return reflect.DeepEqual(a, b)
	}
	number := func(of any) float64 {
		n, err := strconv.ParseFloat(fmt.Sprint(of), 64)
		if err != nil {
			return math.NaN()
		}
		return n
	}
	return slices.Equal([]any{x[0], reflect.TypeOf(x[1])}, []any{y[0], reflect.TypeOf(y[1])}) &&
		math.Abs(number(x[1])-number(y[1])) < float64(time.Hour/unit) && (number(x[1]) < 0) == (number(y[1]) < 0)
}
