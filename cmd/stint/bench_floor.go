package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stint-io/stint/internal/offline/bench"
)

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
