package node

import (
	"fmt"
	"time"
)

// endsSoon is how long before its expiry a certificate becomes a problem that status shows.
const endsSoon = 14 * 24 * time.Hour

// certificateProblems says that a node's certificate expires soon, or has expired; a zero time is that of no certificate. which
// is "peer" or "API", and others who refuses it.
func certificateProblems(node, which, others string, ends, now time.Time) []string {
	left := ends.Sub(now)
	switch {
	case ends.IsZero() || left > endsSoon:
		return nil
	case left <= 0:
		return []string{fmt.Sprintf("node %s: its %s certificate has expired, at %s; %s refuse it", node, which, ends.UTC().Format(time.RFC3339), others)}
	}
	return []string{fmt.Sprintf("node %s: its %s certificate expires in %s, at %s", node, which, leftOf(left), ends.UTC().Format(time.RFC3339))}
}

// authorityProblems says that an authority in a node's file expires soon, or has expired; a zero time is that of none.
func authorityProblems(node, file string, ends, now time.Time) []string {
	left := ends.Sub(now)
	switch {
	case ends.IsZero() || left > endsSoon:
		return nil
	case left <= 0:
		return []string{fmt.Sprintf("node %s: an authority in its %s file has expired, at %s; certificates of it are refused: replace it, or "+
			"take it out", node, file, ends.UTC().Format(time.RFC3339))}
	}
	return []string{fmt.Sprintf("node %s: an authority in its %s file expires in %s, at %s", node, file, leftOf(left), ends.UTC().Format(time.RFC3339))}
}

// leftOf formats a time left: "6 days", and in the last two days "29 h" or "3 min".
func leftOf(left time.Duration) string {
	switch {
	case left >= 48*time.Hour:
		return fmt.Sprintf("%d days", left/(24*time.Hour))
	case left >= 2*time.Hour:
		return fmt.Sprintf("%d h", left/time.Hour)
	}
	return fmt.Sprintf("%d min", left/time.Minute)
}
