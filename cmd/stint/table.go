package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// newTable aligns cells that are ended by tabs.
func newTable(s streams) *tabwriter.Writer { return tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0) }

// printLimits writes one line for each limit. at is when the state was read; nil: the resets are shown as instants.
func printLimits(s streams, limits []*stintv1.LimitStatus, at *timestamppb.Timestamp) error {
	table := newTable(s)
	fmt.Fprintln(table, "LIMIT\tUSED\tQUOTA\tREMAINING\tRESETS")
	for _, l := range limits {
		fmt.Fprintf(table, "%s/%s\t%s\n", l.Policy, l.Limit, limitCells(l, at))
	}
	return table.Flush()
}

func limitCells(l *stintv1.LimitStatus, at *timestamppb.Timestamp) string {
	note := ""
	if l.Shadow {
		note = "shadow"
	}
	if l.Unlimited {
		return fmt.Sprintf("%d\tunlimited\t\t%s\t%s", l.Used, resetText(l, at), note)
	}
	if note == "" {
		note = bar(l.Used, l.Quota)
	}
	return fmt.Sprintf("%d\t%d\t%d\t%s\t%s", l.Used, l.Quota, l.Remaining, resetText(l, at), note)
}

// resetText says when nothing counted so far will count any more.
func resetText(l *stintv1.LimitStatus, at *timestamppb.Timestamp) string {
	switch {
	case l.Used == 0:
		return "-"
	case l.ResetAt == nil:
		return "never"
	case at == nil:
		return l.ResetAt.AsTime().Format(time.RFC3339)
	}
	return "in " + l.ResetAt.AsTime().Sub(at.AsTime()).Round(time.Millisecond).String()
}

// barWidth is how many characters show a whole quota.
const barWidth = 20

func bar(used, quota uint64) string {
	if quota == 0 {
		return ""
	}
	// Rounded up: a single unit shows. The ratio is only for the eye, so a float will do.
	filled := min(int(float64(used)/float64(quota)*barWidth+0.999), barWidth)
	return "[" + strings.Repeat("#", filled) + strings.Repeat(".", barWidth-filled) + "]"
}
