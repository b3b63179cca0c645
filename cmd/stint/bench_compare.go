package main

import (
	"context"
	"errors"
	"fmt"
	"github.com/stint-io/stint/internal/offline/bench"
	"strings"
	"time"
)

// compare runs stint and a Redis in turns.
func (c *benchCommand) compare(ctx context.Context, s streams) error {
	comparison, err := c.comparison()
	if err == nil {
		err = comparison.Validate()
	}
	if err != nil {
		return usageError{fmt.Errorf("bench: %w", err)}
	}
	var progress func(bench.CompareProgress)
	if s.live() {
		progress = func(p bench.CompareProgress) {
			overwrite(s.err, fmt.Sprintf("run %d of %d: %s", p.Done+1, p.Total, p.Now))
		}
	}
	report, err := comparison.Run(ctx, progress)
	err = c.show(ctx, s, err, report, func() error { return printComparisons(s, report) })
	if err == nil && len(report.Wrong) > 0 {
		err = errors.New(strings.Join(report.Wrong, "; "))
	}
	return err
}

func (c *benchCommand) comparison() (bench.Comparison, error) {
	c.Protocol = string(bench.Redis)
	plan, err := c.plan()
	if plan.Count > 0 || plan.Rate > 0 {
		return bench.Comparison{}, errors.New("--compare: takes --duration, not --count or --rate")
	}
	plan.Duration = max(plan.Duration, 0)
	if plan.Duration == 0 {
		plan.Duration = 3 * time.Second
	}
	works := []bench.Work{bench.Incr, bench.Bucket}
	if plan.Policy != "" {
		works = []bench.Work{bench.Incr, bench.Window, bench.Bucket}
	}
	if len(c.Work) > 0 {
		works = nil
	}
	for _, work := range c.Work {
		works = append(works, bench.Work(work))
	}
	return bench.Comparison{Plan: plan, Peer: c.Compare, Works: works, Wait: c.Wait, Rounds: c.Rounds}, err
}

// printComparisons writes a table for people.
func printComparisons(s streams, r *bench.Comparisons) error {
	fmt.Fprintf(s.out, "stint at %s: every answer waited for a majority's disks\n", r.Stint)
	fmt.Fprintf(s.out, "Redis %s at %s: %s\n", r.Redis.Version, r.Redis.Address, r.Redis.Durability())
	for _, replica := range r.Redis.Replicas {
		fmt.Fprintf(s.out, "  replica %s: %s\n", replica.Address, replica.Durability())
	}
	fmt.Fprintf(s.out, "%d callers, %d rounds of %g s each in turns; median (min-max); latencies of a call, a whole pipeline\n\n",
		r.Callers, r.Rounds, r.Seconds)
	table := newTable(s)
	fmt.Fprintln(table, "WORK\tKEYS\tPIPELINE\tWAIT\tSTINT/S\tREDIS/S\tRATIO\tSTINT P50, P99\tREDIS P50, P99\tSTINT CPU US\tREDIS CPU US")
	for _, one := range r.Comparisons {
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", one.Work, one.Keys, one.Batch, orDash(float64(one.Wait), "%.0f"),
			spreadText(one.Stint.PerSecond, "%.0f"), spreadText(one.Redis.PerSecond, "%.0f"), spreadText(one.Ratio, "%.2f"),
			latencyText(one.Stint), latencyText(one.Redis), orDash(one.Stint.ServerCPUMicros.Median, "%.1f"),
			orDash(one.Redis.ServerCPUMicros.Median, "%.1f"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, one := range r.Comparisons {
		if one.Stint.Failed+one.Redis.Failed > 0 {
			fmt.Fprintf(s.out, "%s, %d keys, pipeline %d: %d failed on stint, %d on Redis\n", one.Work, one.Keys, one.Batch,
				one.Stint.Failed, one.Redis.Failed)
		}
	}
	return nil
}

func spreadText(v bench.Spread, format string) string {
	return fmt.Sprintf(format+" ("+format+"-"+format+")", v.Median, v.Min, v.Max)
}

func latencyText(v bench.Side) string {
	return micros(int64(v.P50Micros.Median)) + ", " + micros(int64(v.P99Micros.Median))
}

// orDash returns a dash for a value that is not known.
func orDash(value float64, format string) string {
	if value == 0 {
		return "-"
	}
	return fmt.Sprintf(format, value)
}
