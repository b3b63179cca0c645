package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/stint-io/stint/internal/offline/bench"
	"maps"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

type benchCommand struct {
	Addr        []string      `help:"Where the nodes are: the callers spread evenly over them, and go on to the next one if one does not answer." default:"127.0.0.1:7400" env:"STINT_ADDR" placeholder:"URL,..."`
	Timeout     time.Duration `help:"Of one call." default:"10s"`
	Policy      string        `help:"Policy to ask." placeholder:"NAME"`
	Namespace   string        `help:"Default: the server's."`
	Tier        string        `help:"Default: the policy's default tier."`
	Protocol    string        `help:"json, connect (binary), grpc, stream (CheckStream over gRPC: a stream for each caller), client (the Go client: one for all callers) or redis." enum:"json,connect,grpc,stream,client,redis" default:"json"`
	GRPCAddr    []string      `name:"grpc-addr" help:"grpc, stream: the nodes' ports for gRPC alone; --addr is still where their policies and metrics are. Default: --addr." placeholder:"HOST:PORT,..."`
	RedisAddr   []string      `help:"redis: the Redis ports of the nodes; --addr is still where their policies and metrics are." default:"127.0.0.1:6379" placeholder:"HOST:PORT,..."`
	Work        []string      `help:"redis: check (STINT.CHECK of the policy), incr (INCR) or bucket (CL.THROTTLE). Default: check. With --compare any of incr, window and bucket." placeholder:"KIND,..."`
	Callers     int           `help:"Calls under way at once." default:"64"`
	Connections int           `help:"grpc, stream: connections that the callers share. client: one to each node. The others have one per caller." default:"2"`
	Keys        int           `help:"Keys to spread over; 1: one hot key." default:"1"`
	KeyPrefix   string        `help:"Default: a fresh one for each run, so that the audit knows where every key started."`
	Batch       int           `help:"Checks per call: CheckBatch above 1; with stream in one message, with redis in a pipeline." default:"1"`
	Denied      int           `help:"Share of checks for keys that have nothing left, in percent." default:"0"`
	Cost        uint64        `help:"Units per check." default:"1"`
	Entries     int           `help:"Keys that each check names, all or nothing: on as many shards as chance will have it." default:"1"`
	Together    bool          `help:"With --entries: a {tag} places the keys of a check on one shard."`
	Duration    time.Duration `help:"How long. Default: 10s, unless --count is given."`
	Count       uint64        `help:"How many checks in all."`
	Rate        float64       `help:"Open loop: calls per second, whatever the answers do. Default: closed loop."`
	Rounds      int           `help:"With --compare and --curve: how often each case is run, in turns." default:"3"`
	Compare     string        `help:"Run the same work against this Redis too, and print ratios. With --keys and --batch each work runs on one key and on that many, one at a time and in pipelines." placeholder:"HOST:PORT" group:"Beside a Redis"`
	Wait        int           `help:"Let the Redis also WAIT for so many replicas." placeholder:"REPLICAS" group:"Beside a Redis"`
	curveFlags  `embed:"" group:"Curves"`
	Floor       string `help:"Measure what the machine allows instead: fdatasync in this directory, and a round trip over loopback." placeholder:"DIR" group:"The machine"`
	trust
	tokenFlag
	output
}

// Help implements kong.HelpProvider.
func (*benchCommand) Help() string {
	return "The server's answers are audited: bench reads the policy's limits, counts what was admitted to each key, and " +
		"fails (exit code 1) if it was one unit too many or too few.\n\n" +
		"Policies that make good targets, in a policies file:\n\n" +
		"    hot:  {limits: [{name: day, quota: 100, fixed_window: {period: 24h, anchor: first_hit}}]}\n" +
		"    free: {limits: [{name: day, quota: 1000000000000, fixed_window: {period: 24h, anchor: first_hit}}]}\n" +
		"    tb:   {limits: [{name: burst, quota: 1000, token_bucket: {refill: 100, per: 1s}}]}\n\n" +
		"What to run against them:\n\n" +
		"    stint bench --policy hot --count 5000                      exactly 100 admitted?\n" +
		"    stint bench --policy free                                  rate of one hot key\n" +
		"    stint bench --policy free --keys 100000 --protocol grpc    rate of many keys\n" +
		"    stint bench --policy free --batch 100                      rate of batches\n" +
		"    stint bench --policy free --batch 100 --protocol stream    rate of batches that need no call each\n" +
		"    stint bench --policy free --keys 100000 --protocol client    what our Go client makes of single checks\n" +
		"    stint bench --policy free --denied 99                      a flood, 99 % of it denied\n" +
		"    stint bench --policy free --keys 100000 --entries 2    two keys at once, on two shards mostly\n" +
		"    stint bench --policy free --rate 5000 --duration 30s       latency at a fixed rate\n" +
		"    stint bench --policy free --keys 10000 --addr a:7400,b:7400,c:7400    a cluster, all nodes asked alike\n" +
		"    stint bench --protocol redis --work incr --batch 16        INCR over --redis-addr, in pipelines of 16\n" +
		"    stint bench --compare 127.0.0.1:6380 --keys 100000 --batch 16 --wait 1    beside a Redis\n" +
		"    stint bench --policy free --curve callers=1,16,256 --points p.json    one run for each value\n" +
		"    stint bench --draw p.json > curve.svg                      and its picture\n" +
		"    stint bench --floor .                                      what disk and loopback allow"
}

// Run puts load on the server until the end of the plan or Ctrl-C, and prints the measurements.
func (c *benchCommand) Run(s streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	switch {
	case c.Draw != "":
		return c.draw(s)
	case c.Floor != "":
		return c.floor(ctx, s)
	case c.Compare != "":
		return c.compare(ctx, s)
	case c.Curve != "":
		return c.curve(ctx, s)
	}
	return c.once(ctx, s)
}

// once runs one plan.
func (c *benchCommand) once(ctx context.Context, s streams) error {
	plan, err := c.plan()
	if err == nil {
		err = plan.Validate()
	}
	if err != nil {
		return usageError{fmt.Errorf("bench: %w", err)}
	}
	var progress func(bench.Progress)
	if s.live() {
		progress = func(p bench.Progress) { overwrite(s.err, progressLine(p)) }
	}
	report, err := bench.Run(ctx, plan, progress)
	err = c.show(ctx, s, err, report, func() error { return printReport(s, report) })
	if err == nil && !report.Verdict.OK {
		err = errors.New(report.Verdict.Text)
	}
	return err
}

// show ends the line of progress and prints a report, for programs or for people. err is the reason why there is no
// report.
func (c *benchCommand) show(ctx context.Context, s streams, err error, report any, print func() error) error {
	if s.live() {
		overwrite(s.err, "")
	}
	switch {
	case err != nil:
		return c.explain(ctx, err)
	case c.json():
		return json.NewEncoder(raw(s.out)).Encode(report)
	}
	return print()
}

// Validate implements kong.Validatable.
func (c *benchCommand) Validate() error { return c.remote().Validate() }

func (c *benchCommand) remote() remote {
	return remote{Addr: strings.Join(c.Addr, ","), Timeout: c.Timeout, trust: c.trust, proof: proof{tokenFlag: c.tokenFlag}}
}

func (c *benchCommand) explain(ctx context.Context, err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return c.remote().explain(ctx, "bench", err, false)
	}
	if why := tlsProblem(err); why != "" {
		return fmt.Errorf("bench: no answer from %s: %s", c.remote().where(), why)
	}
	return fmt.Errorf("bench: %w", err)
}

// plan builds the plan of one run from the flags.
func (c *benchCommand) plan() (bench.Plan, error) {
	prefix, fresh := c.KeyPrefix, false
	if prefix == "" {
		var random [4]byte
		rand.Read(random[:])
		prefix, fresh = "bench-"+hex.EncodeToString(random[:])+"-", true
	}
	if len(c.Work) > 1 && c.Compare == "" {
		return bench.Plan{}, errors.New("--work: more than one kind needs --compare")
	}
	secure, err := c.trust.config()
	if err != nil {
		return bench.Plan{}, err
	}
	addresses := c.remote().urls()
	scheme, _, _ := strings.Cut(addresses[0], "://")
	for _, door := range slices.Concat(c.GRPCAddr, c.RedisAddr) {
		addresses = append(addresses, scheme+"://"+door) // a node has TLS on all its ports or on none
	}
	token, err := c.tokenTo(addresses)
	if err != nil {
		return bench.Plan{}, err
	}
	p := bench.Plan{Addresses: c.remote().urls(), Token: token, TLS: secure, Protocol: bench.Protocol(c.Protocol), GRPC: c.GRPCAddr, Namespace: c.Namespace,
		Policy: c.Policy, Tier: c.Tier, Callers: c.Callers, Connections: c.Connections, Keys: c.Keys, KeyPrefix: prefix,
		Fresh: fresh, Batch: c.Batch, DeniedPercent: c.Denied, Cost: c.Cost, Entries: c.Entries, Together: c.Together,
		Duration: c.Duration, Count: c.Count, Rate: c.Rate, Timeout: c.Timeout}
	if len(c.Work) > 0 {
		p.Work = bench.Work(c.Work[0])
	}
	if p.Protocol == bench.Redis {
		p.Redis = c.RedisAddr
	}
	return p, nil
}

func progressLine(p bench.Progress) string {
	done := 0.0
	switch {
	case p.Count > 0:
		done = float64(p.Checks) / float64(p.Count)
	case p.Total > 0:
		done = p.Elapsed.Seconds() / p.Total.Seconds()
	}
	filled := min(int(done*barWidth), barWidth)
	return fmt.Sprintf("[%s%s] %4.1fs  %.0f checks/s  admitted %d  denied %d  failed %d", strings.Repeat("#", filled),
		strings.Repeat(".", barWidth-filled), p.Elapsed.Seconds(), p.ChecksPerSecond, p.Admitted, p.Denied, p.Failed)
}

// printReport writes the measurements for people.
func printReport(s streams, r *bench.Report) error {
	keys := "one hot key"
	if r.Keys > 1 {
		keys = fmt.Sprintf("%d keys", r.Keys)
	}
	loop := "closed loop"
	if r.Rate > 0 {
		loop = fmt.Sprintf("open loop at %g calls/s", r.Rate)
	}
	work := "policy " + r.Policy
	if r.Policy == "" {
		work = "work " + string(r.Work)
	}
	fmt.Fprintf(s.out, "%s over %s, %s, %s, %d callers, %d connections, batch %d, %s, %.1f s\n\n", r.Address,
		r.Protocol, work, keys, r.Callers, r.Connections, r.Batch, loop, r.Seconds)
	table := newTable(s)
	fmt.Fprintf(table, "rate\t%.0f checks/s\t%.0f calls/s\n", r.ChecksPerSecond, r.CallsPerSecond)
	fmt.Fprintf(table, "checks\t%d\tadmitted %d, denied %d, failed %d, unknown %d\n", r.Checks, r.Admitted, r.Denied,
		r.Failed, r.Unknown)
	l := r.Latency
	fmt.Fprintf(table, "latency of a call\tp50 %s\tp90 %s, p99 %s, p99.9 %s, max %s\n", micros(l.P50), micros(l.P90),
		micros(l.P99), micros(l.P999), micros(l.Max))
	if r.ServerCPUMicros > 0 {
		fmt.Fprintf(table, "processor time of a check\tserver %.1f us\tthis client %.1f us\n", r.ServerCPUMicros,
			r.ClientCPUMicros)
	}
	if r.MeanBatch > 0 {
		fmt.Fprintf(table, "on the servers\t%.1f requests decided together\t%s\n", r.MeanBatch, forwardedText(r))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	printTrouble(s, r)
	_, err := fmt.Fprintf(s.out, "\n%s\n", r.Verdict.Text)
	return err
}

func forwardedText(r *bench.Report) string {
	if r.MeanFrame == 0 {
		return "none forwarded"
	}
	return fmt.Sprintf("%.0f %% forwarded to their owner, %.1f together", 100*r.ForwardedShare, r.MeanFrame)
}

// printTrouble lists every kind of failure with an example.
func printTrouble(s streams, r *bench.Report) {
	if r.Unsent > 0 {
		fmt.Fprintf(s.out, "%d calls were due and never sent: the server could not keep the rate, or --callers is too low\n",
			r.Unsent)
	}
	for _, code := range slices.Sorted(maps.Keys(r.Errors)) {
		e := r.Errors[code]
		fmt.Fprintf(s.out, "%d checks failed with %s: %s\n", e.Checks, code, e.Example)
	}
}

func micros(n int64) string { return (time.Duration(n) * time.Microsecond).String() }
