package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stint-io/stint/internal/offline/bench"
)

type compareCommand struct {
	Peer   string `help:"The Redis." required:"" placeholder:"HOST:PORT"`
	Works  []work `help:"Any of incr, window (the policy, beside a script) and bucket. Default: incr and bucket; with --policy all." placeholder:"KIND,..."`
	Wait   int    `help:"Let the Redis also WAIT for so many replicas." placeholder:"REPLICAS"`
	Rounds int    `help:"How often each case is run, in turns." default:"3"`
	load   `embed:""`
}

// errNoRound refuses what has nothing to print.
var errNoRound = errors.New("--rounds: must be at least 1")

// contender is one side of one case: one key or many, one command at a time or a pipeline.
type contender struct {
	name    string
	plan    bench.Plan
	open    func(ctx context.Context, p bench.Plan) (bench.Port, error) // for each run; bench.Drive closes the port
	reports []*bench.Report                                             // by round
}

// Run is the command. Both sides run in turns, so that changes of the machine's speed affect both alike.
func (c *compareCommand) Run(ctx context.Context) error {
	if c.Rounds < 1 {
		return errNoRound
	}
	c.Protocol = overRedis
	c.Duration = cmp.Or(c.Duration, 3*time.Second)
	plan, err := c.plan()
	if err != nil {
		return err
	}
	plan.Fresh = false // all works and rounds use the same keys
	if len(c.Works) == 0 {
		c.Works = []work{workIncr, workBucket}
		if plan.Policy != "" {
			c.Works = []work{workIncr, workWindow, workBucket}
		}
	}
	if err := c.printPeer(ctx); err != nil {
		return err
	}
	fmt.Println("| work | keys | pipeline | WAIT | stint/s | Redis/s | stint / Redis | stint p50, " +
		"p99 us | Redis p50, p99 us | stint CPU us | Redis CPU us |")
	fmt.Println("|-|-|-|-|-|-|-|-|-|-|-|")
	var wrong []string
	for _, w := range c.Works {
		for _, keys := range slices.Compact([]int{1, max(plan.Keys, 1)}) {
			for _, batch := range slices.Compact([]int{1, max(plan.Batch, 1)}) {
				p := plan
				p.Keys, p.Batch, p.KeyPrefix = keys, batch, plan.KeyPrefix+string(w)+"-"
				found, err := c.compare(ctx, w, p)
				if err != nil {
					return fmt.Errorf("%s, %d keys, pipeline %d: %w", w, keys, batch, err)
				}
				wrong = append(wrong, found...)
			}
		}
		if err := c.sweep(ctx, w, plan); err != nil {
			return err
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

// printPeer prints the version and the durability of the Redis.
func (c *compareCommand) printPeer(ctx context.Context) error {
	port := newRedisPort(bench.Plan{}, []string{c.Peer}, workIncr)
	defer port.Close()
	about, err := port.clients[0].InfoMap(ctx).Result()
	if err != nil {
		return fmt.Errorf("--peer: %w", err)
	}
	fmt.Printf("Redis %s, %s", about["Server"]["redis_version"], durability(ctx, port.clients[0]))
	replicas := replicasOf(ctx, port.clients[0])
	for _, replica := range replicas {
		fmt.Printf(", a replica with %s", durability(ctx, replica))
		replica.Close()
	}
	fmt.Printf("; %d callers; %d rounds of %v in turns\n\n", c.Callers, c.Rounds, c.Duration)
	if c.Wait > len(replicas) {
		return fmt.Errorf("--wait: %s has %d replicas, so WAIT %d would never be answered",
			c.Peer, len(replicas), c.Wait)
	}
	return nil
}

func (c *compareCommand) openStint(w work) func(context.Context, bench.Plan) (bench.Port, error) {
	return func(ctx context.Context, p bench.Plan) (bench.Port, error) {
		return newStintPort(ctx, p, c.RedisAddr, w)
	}
}

func (c *compareCommand) openPeer(w work, wait int) func(context.Context, bench.Plan) (bench.Port, error) {
	return func(_ context.Context, p bench.Plan) (bench.Port, error) {
		p.TLS, p.Token = nil, "" // those are stint's
		port := newRedisPort(p, []string{c.Peer}, w)
		port.wait = wait
		return port, nil
	}
}

// compare runs one case and prints its rows. It returns what the audits found.
func (c *compareCommand) compare(ctx context.Context, w work, p bench.Plan) (wrong []string, err error) {
	contenders := []*contender{
		{name: "stint", plan: p, open: c.openStint(w)},
		{name: "Redis", plan: p, open: c.openPeer(w, 0)},
	}
	if c.Wait > 0 {
		contenders = append(contenders, &contender{name: "Redis with WAIT", plan: p, open: c.openPeer(w, c.Wait)})
	}
	for round := range c.Rounds {
		order := slices.Clone(contenders)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, one := range order {
			if err := one.run(ctx, round == 0); err != nil {
				return nil, fmt.Errorf("%s: %w", one.name, err)
			}
			if v := one.reports[round].Verdict; !v.OK {
				wrong = append(wrong, fmt.Sprintf("%s, %s, %d keys: %s", one.name, w, p.Keys, v.Text))
			}
		}
	}
	stint := contenders[0]
	for i, redis := range contenders[1:] {
		var ratios []float64
		for round := range c.Rounds {
			ratios = append(ratios, stint.reports[round].ChecksPerSecond/redis.reports[round].ChecksPerSecond)
		}
		fmt.Printf("| %s | %d | %d | %s | %s | %s | %s | %s | %s | %.1f | %.1f |\n", w, p.Keys, p.Batch,
			[]string{"no", fmt.Sprint(c.Wait)}[i], stint.spread(perSecond).text("%.0f"),
			redis.spread(perSecond).text("%.0f"), spreadOf(ratios).text("%.2f"), stint.latency(), redis.latency(),
			stint.spread(serverCPU).median, redis.spread(serverCPU).median)
	}
	for _, one := range contenders {
		if failed := one.spread(failures); failed.most > 0 {
			fmt.Fprintf(os.Stderr, "%s, %s, %d keys, pipeline %d: up to %.0f failed in a round\n",
				one.name, w, p.Keys, p.Batch, failed.most)
		}
	}
	return wrong, nil
}

// run measures one round. A shorter run without measurement precedes the first one.
func (c *contender) run(ctx context.Context, warmUp bool) error {
	warm := time.Duration(0)
	if warmUp {
		warm = min(c.plan.Duration/4, time.Second)
	}
	report, err := driveWarm(ctx, warm, c.plan, func(p bench.Plan) (*bench.Report, error) {
		port, err := c.open(ctx, p)
		if err != nil {
			return nil, err
		}
		return bench.Drive(ctx, p, port, nil)
	})
	c.reports = append(c.reports, report)
	return err
}

// sweep deletes the keys of a work that do not expire.
func (c *compareCommand) sweep(ctx context.Context, w work, p bench.Plan) error {
	p.KeyPrefix += string(w) + "-"
	ours := newRedisPort(p, c.RedisAddr, w)
	defer ours.Close()
	p.TLS, p.Token = nil, ""
	peer := newRedisPort(p, []string{c.Peer}, w)
	defer peer.Close()
	if err := peer.sweep(ctx); err != nil || w == workWindow {
		return err
	}
	return ours.sweep(ctx)
}

// The figures of a report for contender.spread.
func perSecond(r *bench.Report) float64 { return r.ChecksPerSecond }
func serverCPU(r *bench.Report) float64 { return r.ServerCPUMicros }
func failures(r *bench.Report) float64  { return float64(r.Failed + r.Unknown) }
func p50(r *bench.Report) float64       { return float64(r.Latency.P50) }
func p99(r *bench.Report) float64       { return float64(r.Latency.P99) }

func (c *contender) spread(figure func(*bench.Report) float64) spread {
	var values []float64
	for _, r := range c.reports {
		values = append(values, figure(r))
	}
	return spreadOf(values)
}

func (c *contender) latency() string {
	return fmt.Sprintf("%.0f, %.0f", c.spread(p50).median, c.spread(p99).median)
}
