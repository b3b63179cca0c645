package main

import (
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// printDecided is printLimits for the limits of a decision.
func printDecided(s streams, d *stintv1.Decision) {
	printLimits(s, d.GetLimits(), d.GetDecidedAt(), !d.GetAllowed())
}

// printLimits writes one line for each limit and one for each lockout. at is when the state was read; if it is nil,
// rest is shown as an instant. denied reports whether they deny a request. The columns for keys, held and granted
// units, and for the wait until the same request is admitted, appear only if there is something to show.
func printLimits(s streams, limits []*stintv1.LimitStatus, at *timestamppb.Timestamp, denied bool) {
	var key, held, granted, next string
	for _, l := range limits {
		key = headIf(l.Key != limits[0].Key, "KEY", key)
		held = headIf(l.Held > 0, "HELD", held)
		granted = headIf(l.Granted > 0, "GRANTED", granted)
		next = headIf(l.RetryAfter != nil || denied && nextText(l) == never, "NEXT", next)
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

// nextText formats when a limit admits the decided request.
func nextText(l *stintv1.LimitStatus) string {
	switch {
	case l.RetryAfter != nil:
		return "in " + waitText(l.RetryAfter.AsDuration())
	case l.Allowed || l.Unlimited:
		return "now"
	}
	return never
}

const never = "never"

// resetText formats when nothing counted so far counts any longer.
func resetText(l *stintv1.LimitStatus, at *timestamppb.Timestamp) string {
	switch {
	case l.Used == 0:
		return "-"
	case l.ResetAt == nil && l.Held == l.Used:
		return "when settled"
	case l.ResetAt == nil:
		return never
	case at == nil:
		return instant(l.ResetAt)
	}
	return "in " + waitText(l.ResetAt.AsTime().Sub(at.AsTime()))
}

// printChanged writes the limits of a key after a change by hand, and what leases mean for the change.
func printChanged(
	s streams, limits []*stintv1.LimitStatus, leases *stintv1.OpenLeases, at *timestamppb.Timestamp,
) {
	printLimits(s, limits, at, false)
	printLeases(s, leases, ", and may be admitted; from then on the change holds everywhere")
}

// printLeases says what is leased of a key, if anything is.
func printLeases(s streams, leases *stintv1.OpenLeases, meaning string) {
	if leases != nil {
		fmt.Fprintf(s.out, "%s leased until %s%s\n", plural(leases.Units, "unit"), instant(leases.Until), meaning)
	}
}

// thresholdText formats a threshold in units, and as a share of the quota if it is one.
func thresholdText(f *stintv1.FiredThreshold) string {
	if f.Percent == 0 {
		return plural(f.Units, "unit")
	}
	return fmt.Sprintf("%d%% (%s)", f.Percent, plural(f.Units, "unit"))
}

// silentText formats the time until which a threshold does not fire again.
func silentText(f *stintv1.FiredThreshold, at *timestamppb.Timestamp) string {
	if f.WindowEnd == nil {
		return "for ever"
	}
	return "for " + waitText(f.WindowEnd.AsTime().Sub(at.AsTime()))
}
