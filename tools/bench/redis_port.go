package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/stint-io/stint/internal/offline/bench"
)

// work is the kind of check over the Redis protocol.
type work string

const (
	workCheck  work = "check"  // STINT.CHECK of the policy
	workIncr   work = "incr"   // INCR: a bare counter
	workWindow work = "window" // a fixed window. stint: STINT.CHECK of the policy; Redis: the usual script
	workBucket work = "bucket" // a token bucket that is never empty. stint: CL.THROTTLE; Redis: the usual script
)

// redisPort is the bench.Port of Redis ports, stint's or a Redis's. A batch is a pipeline.
type redisPort struct {
	api     *bench.API // of stint's nodes; nil: the port is a Redis's
	plan    bench.Plan
	work    work
	wait    int // a Redis: WAIT for that many replicas, once after each call; 0: for none
	clients []*redis.Client
	script  string  // a Redis: digest of the work's script
	before  []int64 // workIncr: values of the counters when the run began
}

// newStintPort opens the Redis ports of stint's nodes.
func newStintPort(ctx context.Context, p bench.Plan, addresses []string, w work) (*redisPort, error) {
	switch asks := w == workCheck || w == workWindow; {
	case asks && p.Policy == "":
		return nil, errors.New("--policy: name the policy to ask")
	case !asks && (p.Denied > 0 || p.Cost > 1):
		return nil, fmt.Errorf("--denied, --cost: work %s has no limit that could be drained, and spends one unit", w)
	case !asks:
		p.Policy = "" // it is not asked, and not audited
	}
	api, err := bench.NewAPI(ctx, p)
	if err != nil {
		return nil, err
	}
	port := newRedisPort(p, addresses, w)
	port.api = api
	return port, nil
}

// asksPolicy reports whether the port's commands are checks of a policy.
func (p *redisPort) asksPolicy() bool {
	return p.api != nil && (p.work == workCheck || p.work == workWindow)
}

// newRedisPort connects to nothing yet.
func newRedisPort(p bench.Plan, addresses []string, w work) *redisPort {
	port := &redisPort{plan: p.WithDefaults(), work: w}
	for _, address := range addresses {
		port.clients = append(port.clients, redis.NewClient(&redis.Options{
			Addr:            address,
			Password:        p.Token,
			TLSConfig:       p.TLS.Clone(),
			Protocol:        2,
			DisableIdentity: true,
			MaxRetries:      -1, // a repeated command might count twice
			DialerRetries:   1,
			PoolSize:        port.plan.Callers + 1,
			ReadTimeout:     port.plan.Timeout,
			WriteTimeout:    port.plan.Timeout,
		}))
	}
	return port
}

// Caller implements bench.Port.
func (p *redisPort) Caller(number int) bench.Caller { return &redisCaller{port: p, at: number} }

// Connections implements bench.Port.
func (p *redisPort) Connections() int { return p.plan.Callers }

// Prepare implements bench.Port. It loads the script of the work, and reads counters that may have been used before.
func (p *redisPort) Prepare(ctx context.Context, l *bench.Ledger) (err error) {
	switch {
	case p.work == workIncr:
		p.before, err = p.counters(ctx)
	case p.api != nil:
		return p.api.Prepare(ctx, l)
	default:
		p.script, err = p.clients[0].ScriptLoad(ctx, scripts[p.work]).Result()
	}
	return err
}

// Figures implements bench.Port.
func (p *redisPort) Figures(ctx context.Context) map[string]float64 {
	if p.api == nil {
		return map[string]float64{"process_cpu_seconds_total": cpuOfRedis(ctx, p.clients[0])}
	}
	return p.api.Figures(ctx)
}

// countersMax bounds the counters that are read before and after a run.
const countersMax = 10_000

// counters reads the values of the run's counters.
func (p *redisPort) counters(ctx context.Context) ([]int64, error) {
	values := make([]int64, min(p.plan.Keys, countersMax))
	err := p.each(ctx, len(values), func(pipe redis.Pipeliner, key string) { pipe.Get(ctx, key) },
		func(number int, c redis.Cmder) (err error) {
			if values[number], err = c.(*redis.StringCmd).Int64(); errors.Is(err, redis.Nil) {
				return nil
			}
			return err
		})
	return values, err
}

// sweep deletes the run's keys: counters would stay forever.
func (p *redisPort) sweep(ctx context.Context) error {
	return p.each(ctx, p.plan.Keys, func(pipe redis.Pipeliner, key string) { pipe.Del(ctx, key) },
		func(_ int, c redis.Cmder) error { return c.Err() })
}

// each sends a command for each of the first keys of the run, in pipelines, and hands the answers on.
func (p *redisPort) each(
	ctx context.Context, keys int, send func(redis.Pipeliner, string), take func(int, redis.Cmder) error,
) error {
	const together = 256
	for first := 0; first < keys; first += together {
		pipe := p.clients[0].Pipeline()
		for key := first; key < min(first+together, keys); key++ {
			send(pipe, p.plan.KeyName(uint32(key)))
		}
		answers, _ := pipe.Exec(ctx) // each answer has its error
		for i, c := range answers {
			if err := take(first+i, c); err != nil {
				return fmt.Errorf("%s of the run's keys: %w", c.Name(), err)
			}
		}
	}
	return nil
}

// Judge implements bench.Port. Of work incr every counter must hold the acknowledged INCRs; one with an unknown outcome
// may have counted.
func (p *redisPort) Judge(l *bench.Ledger, s bench.Span) (bench.Verdict, error) {
	switch {
	case p.work == workIncr:
	case p.api != nil:
		return p.api.Judge(l, s)
	default:
		return bench.NotAudited(l, "a script of Redis has no policy"), nil
	}
	now, err := p.counters(context.Background())
	if err != nil {
		return bench.Verdict{}, fmt.Errorf("the audit: %w", err)
	}
	v := bench.Verdict{OK: true, Exact: true, Checked: true}
	for key := range now {
		counted := uint64(max(now[key]-p.before[key], 0))
		told, unknown := l.Accounts[key].Admitted.Load(), l.Accounts[key].Unknown.Load()
		if counted < told || counted > told+unknown {
			return bench.Verdict{Checked: true,
				Text: fmt.Sprintf("MISCOUNTED: key %s holds %d more than before the run, "+
					"after %d acknowledged INCRs and %d of unknown outcome",
					p.plan.KeyName(uint32(key)), counted, told, unknown)}, nil
		}
		v.Exact = v.Exact && unknown == 0
		v.Admitted, v.AtLeast, v.AtMost = v.Admitted+told, v.AtLeast+counted-min(counted, unknown), v.AtMost+counted
	}
	v.Text = fmt.Sprintf("%s acknowledged, and the counters hold that and at most the unknown ones, on %d of %d keys",
		bench.Grouped(v.Admitted), len(now), p.plan.Keys)
	return v, nil
}

// Close implements bench.Port.
func (p *redisPort) Close() {
	for _, c := range p.clients {
		c.Close()
	}
	if p.api != nil {
		p.api.Close()
	}
}

// The bucket is so large that no machine is denied, so that every check writes; so is the window of a Redis.
const (
	bucketQuota  = 1_000_000 // refilled each second
	windowQuota  = 1_000_000_000_000
	windowMillis = 86_400_000
)

// command is the words of one check.
func (p *redisPort) command(key string) []any {
	switch {
	case p.work == workIncr:
		return []any{"INCR", key}
	case p.api == nil && p.work == workWindow:
		return []any{"EVALSHA", p.script, 1, key, windowQuota, windowMillis}
	case p.api == nil:
		return []any{"EVALSHA", p.script, 1, key, bucketQuota, 1000}
	case p.work == workBucket:
		return []any{"CL.THROTTLE", key, bucketQuota - 1, bucketQuota, 1}
	}
	return []any{"STINT.CHECK", p.plan.Policy, key, p.plan.Cost}
}

// fateOf reads an answer. By UNKNOWN, stint says that a command may have been counted; an unfamiliar word may mean the
// same. A command that a Redis answers with an error was not executed.
func (p *redisPort) fateOf(answer *redis.Cmd) bench.Fate {
	value, err := answer.Result()
	var refused redis.Error
	switch {
	case err == nil && p.allows(value):
		return bench.Allowed
	case err == nil:
		return bench.Denied
	case bench.NeverSent(err), errors.As(err, &refused) && p.api == nil:
		return bench.Failed
	case errors.As(err, &refused):
		switch word, _, _ := strings.Cut(err.Error(), " "); word {
		case "ERR", "NOSCRIPT", "WRONGTYPE", "OOM", "LOADING", "BUSY", "TRYAGAIN", "NOAUTH", "NOPERM", "CLUSTERDOWN":
			return bench.Failed
		}
	}
	return bench.Unknown
}

// allows reads the first number of an answer. STINT.CHECK says 1 if it is allowed, CL.THROTTLE and the scripts say 0;
// INCR denies nothing.
func (p *redisPort) allows(value any) bool {
	list, _ := value.([]any)
	if first := slices.IndexFunc(list, func(v any) bool { _, ok := v.(int64); return ok }); first >= 0 {
		value = list[first]
	}
	return p.work == workIncr || (value == int64(1)) == p.asksPolicy()
}

// The Lua of a Redis, by work.
var (
	//go:embed window.lua
	windowScript string
	//go:embed bucket.lua
	bucketScript string

	scripts = map[work]string{workWindow: windowScript, workBucket: bucketScript}
)
