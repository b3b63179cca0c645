package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/stint-io/stint/internal/offline/bench"
)

type benchCommand struct {
	Addr       []string `help:"Where the nodes are: the callers spread evenly over them, and go on to the next one if one does not answer." default:"127.0.0.1:7400" env:"STINT_ADDR" placeholder:"URL,..."`
	bench.Plan `embed:""`
	Floor      string `help:"Measure what the machine allows instead: fdatasync in this directory, and a round trip over loopback." placeholder:"DIR" group:"The machine"`
	trust
	tokenFlag
	output
}

// Run puts load on the server until the end of the plan or Ctrl-C, and prints the measurements.
func (c *benchCommand) Run(s streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if c.Floor != "" {
		return c.floor(ctx, s)
	}
	plan, err := c.plan()
	if err == nil {
		err = plan.Check()
	}
	if err != nil {
		return usageError{fmt.Errorf("bench: %w", err)}
	}
	var progress func(bench.Progress)
	if s.live() {
		progress = func(p bench.Progress) { overwrite(s.err, benchProgress(p)) }
	}
	report, err := bench.Run(ctx, plan, progress)
	s.tell("")
	if err != nil {
		return c.explain(ctx, err)
	}
	if err = show(s, c.output, report, nil, printBenchReport); err == nil && !report.Verdict.OK {
		err = errors.New(report.Verdict.Text)
	}
	return err
}

// Validate implements kong.Validatable.
func (c *benchCommand) Validate() error { return c.remote().Validate() }

// remote returns the flags in the form of those of a command that asks a server, for their checks, URLs and error
// texts. The load does not go through it.
func (c *benchCommand) remote() remote {
	return remote{Addr: strings.Join(c.Addr, ","), Timeout: c.Timeout, trust: c.trust,
		proof: proof{tokenFlag: c.tokenFlag}}
}

func (c *benchCommand) explain(ctx context.Context, err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return c.remote().explain(ctx, "bench", err, "")
	}
	if why := tlsProblem(err); why != "" {
		return fmt.Errorf("bench: no answer from %s: %s", c.remote().where(), why)
	}
	return fmt.Errorf("bench: %w", err)
}

// plan completes the plan of the flags.
func (c *benchCommand) plan() (p bench.Plan, err error) {
	p = c.Plan.WithKeys()
	p.Addresses = c.remote().urls()
	addresses := slices.Clone(p.Addresses)
	scheme, _, _ := strings.Cut(addresses[0], "://")
	for _, door := range p.GRPCAddr {
		addresses = append(addresses, scheme+"://"+door) // a node has TLS on all its ports or on none
	}
	if p.TLS, err = c.trust.config(); err == nil {
		p.Token, err = c.tokenTo(addresses)
	}
	return p, err
}

func benchProgress(p bench.Progress) string {
	done := 0.0
	switch {
	case p.Count > 0:
		done = float64(p.Checks) / float64(p.Count)
	case p.Total > 0:
		done = p.Elapsed.Seconds() / p.Total.Seconds()
	}
	return fmt.Sprintf("%s %4.1fs  %.0f checks/s  admitted %d  denied %d  failed %d", progressBar(done),
		p.Elapsed.Seconds(), p.ChecksPerSecond, p.Admitted, p.Denied, p.Failed)
}

// printBenchReport writes the measurements as text.
func printBenchReport(s streams, r *bench.Report) {
	keys := "one hot key"
	if r.Keys > 1 {
		keys = fmt.Sprintf("%d keys", r.Keys)
	}
	loop := "closed loop"
	if r.Rate > 0 {
		loop = fmt.Sprintf("open loop at %g calls/s", r.Rate)
	}
	fmt.Fprintf(s.out, "%s over %s, policy %s, %s, %d callers, %d connections, batch %d, %s, %.1f s\n\n", r.Address,
		r.Protocol, r.Policy, keys, r.Callers, r.Connections, r.Batch, loop, r.Seconds)
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
	table.Flush()
	printBenchErrors(s, r)
	fmt.Fprintf(s.out, "\n%s\n", r.Verdict.Text)
}

func forwardedText(r *bench.Report) string {
	if r.MeanFrame == 0 {
		return "none forwarded"
	}
	return fmt.Sprintf("%.0f %% forwarded to their owner, %.1f together", 100*r.ForwardedShare, r.MeanFrame)
}

// printBenchErrors lists every kind of failure with an example.
func printBenchErrors(s streams, r *bench.Report) {
	if r.Unsent > 0 {
		fmt.Fprintf(s.out, "%d calls were due and never sent: the server could not keep the rate, "+
			"or --callers is too low\n", r.Unsent)
	}
	for _, code := range slices.Sorted(maps.Keys(r.Errors)) {
		e := r.Errors[code]
		fmt.Fprintf(s.out, "%d checks failed with %s: %s\n", e.Checks, code, e.Example)
	}
}
