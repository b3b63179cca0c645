package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/stint-io/stint/internal/offline/bench"
	"os"
	"time"
)

// curveFlags has the flags of `stint bench` that measure and draw a curve.
type curveFlags struct {
	Curve  string `help:"Run for each value of callers, keys or batch, in turns. Of shards one value: what the cluster was created with." placeholder:"NAME=V,..."`
	Series string `help:"With --curve: the name of the line." default:"stint"`
	Points string `help:"With --curve: append each run to this file, a line of JSON. Default: to stdout." placeholder:"FILE"`
	Draw   string `help:"Draw such a file as SVG, on stdout." placeholder:"FILE"`
	Title  string `help:"With --draw: the title of the chart. Default: what is measured."`
}

// curve measures the points and appends them.
func (c *benchCommand) curve(ctx context.Context, s streams) (err error) {
	x, values, err := bench.ParseCurve(c.Curve)
	if err != nil {
		return usageError{fmt.Errorf("bench: --%w", err)}
	}
	plan, err := c.plan()
	if plan.Count > 0 && err == nil {
		err = errors.New("--curve: takes --duration, not --count")
	}
	if plan.Duration == 0 {
		plan.Duration = 3 * time.Second
	}
	curve := bench.Curve{Plan: plan, X: x, Values: values, Series: c.Series, Rounds: max(c.Rounds, 1)}
	if err == nil {
		err = curve.Validate()
	}
	if err != nil {
		return usageError{fmt.Errorf("bench: %w", err)}
	}
	out := raw(s.out)
	if c.Points != "" {
		file, err := os.OpenFile(c.Points, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("bench: --points: %w", err)
		}
		defer file.Close()
		out = file
	}
	encoder := json.NewEncoder(out)
	err = curve.Run(ctx, func(p bench.Point) error {
		fmt.Fprintf(s.err, "%s, %s %d: %.0f checks/s, p99 %s\n", p.Series, p.X, p.Value, p.PerSecond, micros(p.P99Micros))
		return encoder.Encode(p)
	})
	if err != nil {
		return c.explain(ctx, err)
	}
	return nil
}

// draw reads points and writes their chart.
func (c *benchCommand) draw(s streams) error {
	file, err := os.Open(c.Draw)
	if err != nil {
		return fmt.Errorf("bench: --draw: %w", err)
	}
	defer file.Close()
	points, err := bench.ReadPoints(file)
	if err != nil {
		return fmt.Errorf("bench: --draw: %s: %w", c.Draw, err)
	}
	title := c.Title
	if title == "" {
		title = "Rate and latency by " + points[0].X
	}
	return bench.Draw(raw(s.out), title, points)
}

// floor measures the disk and the loopback.
func (c *benchCommand) floor(ctx context.Context, s streams) error {
	each := c.Duration
	if each == 0 {
		each = 2 * time.Second
	}
	f, err := bench.MeasureFloor(ctx, c.Floor, each)
	if err != nil {
		return fmt.Errorf("bench: --floor: %w", err)
	}
	if c.json() {
		return json.NewEncoder(raw(s.out)).Encode(f)
	}
	table := newTable(s)
	fmt.Fprintln(table, "ONE CALLER\tP50\tP99\tMAX")
	for _, row := range []struct {
		name string
		took bench.Latency
	}{
		{"write 4 KiB, fdatasync, appended", f.SyncAppendMicros},
		{"write 4 KiB, fdatasync, preallocated", f.SyncPreallocatedMicros},
		{"64 bytes over loopback TCP and back", f.RoundTripMicros},
	} {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", row.name, micros(row.took.P50), micros(row.took.P99), micros(row.took.Max))
	}
	return table.Flush()
}
