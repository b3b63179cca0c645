package main

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/stint-io/stint/api"
	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// table aligns cells that end with tabs. They are made printable before they are measured.
type table struct {
	printable
	Flush func()
}

func newTable(s streams) table {
	t := tabwriter.NewWriter(raw(s.out), 0, 0, 2, ' ', 0)
	return table{printable{t}, func() { t.Flush() }} // the output remembers the error
}

// printTable writes a table: its head, and a row of cells for each item.
func printTable[T any](s streams, head string, items []T, row func(T) []any) {
	table := newTable(s)
	fmt.Fprintln(table, head)
	for _, item := range items {
		cells := row(item)
		fmt.Fprintf(table, strings.Repeat("%v\t", len(cells)-1)+"%v\n", cells...)
	}
	table.Flush()
}

// printLimits writes one line for each limit and one for each lockout. at is when the state was read; if it is nil,
// rest is shown as an instant. The columns for keys, held and granted units, and for the wait until the same request is
// admitted, appear only if there is something to show.
func printLimits(s streams, limits []*stintv1.LimitStatus, at *timestamppb.Timestamp) {
	table := newTable(s)
	c := columnsOf(limits)
	fmt.Fprintf(table, "LIMIT\t%sUSED\t%sQUOTA\tREMAINING\t%s%sAT REST\n", c.key("KEY"), c.held("HELD"),
		c.granted("GRANTED"), c.next("NEXT"))
	for _, l := range limits {
		fmt.Fprintf(table, "%s/%s\t%s%s\n", l.Policy, l.Limit, c.key(l.Key), limitCells(l, c, at))
	}
	table.Flush()
	for i, l := range limits {
		if i > 0 && l.Policy == limits[i-1].Policy && l.Key == limits[i-1].Key {
			continue
		}
		if l.BlockedUntil != nil || l.LockoutLevel > 0 {
			fmt.Fprintf(s.out, "%s on %s is %s\n", l.Policy, l.Key, lockoutState(l))
		}
	}
}

// lockoutState describes a key's place on its ladder and its block.
func lockoutState(l *stintv1.LimitStatus) string {
	if l.BlockedUntil == nil {
		return fmt.Sprintf("at level %d of its lockout, and not blocked", l.LockoutLevel)
	}
	text := "blocked until " + instant(l.BlockedUntil)
	if l.LockoutLevel > 0 {
		text += fmt.Sprintf(", at level %d of its lockout", l.LockoutLevel)
	}
	return text
}

// columns are the optional columns of a table.
type columns struct{ keys, holds, grants, waits bool }

func columnsOf(limits []*stintv1.LimitStatus) (c columns) {
	for _, l := range limits {
		c.keys = c.keys || l.Key != limits[0].Key
		c.holds = c.holds || l.Held > 0
		c.grants = c.grants || l.Granted > 0
		c.waits = c.waits || l.RetryAfter != nil
	}
	return c
}

func (c columns) key(cell string) string     { return cellIf(c.keys, cell) }
func (c columns) held(cell string) string    { return cellIf(c.holds, cell) }
func (c columns) granted(cell string) string { return cellIf(c.grants, cell) }
func (c columns) next(cell string) string    { return cellIf(c.waits, cell) }
func cellIf(there bool, cell string) string {
	if !there {
		return ""
	}
	return cell + "\t"
}

func limitCells(l *stintv1.LimitStatus, c columns, at *timestamppb.Timestamp) string {
	note := ""
	if l.Shadow {
		note = "shadow"
	}
	held, granted := c.held(strconv.FormatUint(l.Held, 10)), c.granted(strconv.FormatUint(l.Granted, 10))
	rest := c.next(nextText(l)) + resetText(l, at)
	if l.Unlimited {
		return fmt.Sprintf("%d\t%sunlimited\t\t%s%s\t%s", l.Used, held, granted, rest, note)
	}
	if note == "" {
		note = bar(l.Used, l.Quota)
	}
	if l.Soft && !l.Shadow {
		note += " soft"
	}
	return fmt.Sprintf("%d\t%s%d\t%d\t%s%s\t%s", l.Used, held, l.Quota, l.Remaining, granted, rest, note)
}

// instant formats a time for display.
func instant(t *timestamppb.Timestamp) string { return t.AsTime().UTC().Format(time.RFC3339) }

// nextText formats when a limit admits the decided request.
func nextText(l *stintv1.LimitStatus) string {
	switch {
	case l.RetryAfter != nil:
		return "in " + waitText(l.RetryAfter.AsDuration())
	case l.Allowed || l.Unlimited:
		return "now"
	}
	return "never"
}

// resetText formats when nothing counted so far counts any longer.
func resetText(l *stintv1.LimitStatus, at *timestamppb.Timestamp) string {
	switch {
	case l.Used == 0:
		return "-"
	case l.ResetAt == nil && l.Held == l.Used:
		return "when settled"
	case l.ResetAt == nil:
		return "never"
	case at == nil:
		return instant(l.ResetAt)
	}
	return "in " + waitText(l.ResetAt.AsTime().Sub(at.AsTime()))
}

// waitText formats a wait in milliseconds, rounded up, so that no retry is too early.
func waitText(d time.Duration) string {
	return api.DurationText((d + time.Millisecond - 1).Truncate(time.Millisecond))
}

// barWidth is the number of characters for a whole quota.
const barWidth = 20

func bar(used, quota uint64) string {
	if quota == 0 {
		return ""
	}
	// Rounded up, so that a single unit shows. The ratio is only for the eye, so a float is good enough.
	return progressBar(float64(used)/float64(quota) + 0.999/barWidth)
}

// progressBar shows a share, of which nothing is shown if it is not known (less than 0).
func progressBar(share float64) string {
	filled := min(max(int(share*barWidth), 0), barWidth)
	return "[" + strings.Repeat("#", filled) + strings.Repeat(".", barWidth-filled) + "]"
}
