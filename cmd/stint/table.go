package main

import (
	"fmt"
	"slices"
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

// printTable writes a table: its head, and a row of cells for each item. A column without a head is left out; the cells
// behind the last column are notes.
func printTable[T any](s streams, head string, items []T, row func(T) []any) {
	table := newTable(s)
	columns := strings.Split(head, "\t")
	isEmpty := func(cell string) bool { return cell == "" }
	fmt.Fprintln(table, strings.Join(slices.DeleteFunc(slices.Clone(columns), isEmpty), "\t"))
	for _, item := range items {
		var cells []string
		for i, cell := range row(item) {
			if i >= len(columns) || columns[i] != "" {
				cells = append(cells, fmt.Sprint(cell))
			}
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	table.Flush()
}

// printLimits writes one line for each limit and one for each lockout. at is when the state was read; if it is nil,
// rest is shown as an instant. The columns for keys, held and granted units, and for the wait until the same request is
// admitted, appear only if there is something to show.
func printLimits(s streams, limits []*stintv1.LimitStatus, at *timestamppb.Timestamp) {
	var key, held, granted, next string
	for _, l := range limits {
		key = headIf(l.Key != limits[0].Key, "KEY", key)
		held = headIf(l.Held > 0, "HELD", held)
		granted = headIf(l.Granted > 0, "GRANTED", granted)
		next = headIf(l.RetryAfter != nil, "NEXT", next)
	}
	head := fmt.Sprintf("LIMIT\t%s\tUSED\t%s\tQUOTA\tREMAINING\t%s\t%s\tAT REST", key, held, granted, next)
	printTable(s, head, limits, func(l *stintv1.LimitStatus) []any {
		var quota, remaining any = l.Quota, l.Remaining
		note := bar(l.Used, l.Quota)
		switch {
		case l.Unlimited:
			quota, remaining, note = "unlimited", "", ""
		case l.Soft:
			note += " soft"
		}
		if l.Shadow {
			note = "shadow"
		}
		return []any{l.Policy + "/" + l.Limit, l.Key, l.Used, l.Held, quota, remaining, l.Granted, nextText(l),
			resetText(l, at), note}
	})
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

// headIf is the head of a column that is there if any row needs it; so far is that of the rows before.
func headIf(needed bool, head, soFar string) string {
	if needed {
		return head
	}
	return soFar
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
