package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/stint-io/stint/internal/offline/bench"
)

// floor measures the disk and the loopback.
func (c *benchCommand) floor(ctx context.Context, s streams) error {
	f, err := bench.MeasureFloor(ctx, c.Floor, cmp.Or(c.Duration, 2*time.Second))
	if err != nil {
		return fmt.Errorf("bench: --floor: %w", err)
	}
	return show(s, c.output, f, err, printFloor)
}

// printFloor writes the figures as text.
func printFloor(s streams, f bench.Floor) {
	type part struct {
		name string
		took bench.Latency
	}
	printTable(s, "ONE CALLER\tP50\tP99\tMAX", []part{
		{"write 4 KiB, fdatasync, appended", f.SyncAppendMicros},
		{"write 4 KiB, fdatasync, preallocated", f.SyncPreallocatedMicros},
		{"64 bytes over loopback TCP and back", f.RoundTripMicros},
	}, func(p part) []any { return []any{p.name, micros(p.took.P50), micros(p.took.P99), micros(p.took.Max)} })
}
