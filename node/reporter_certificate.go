package node

import (
	"fmt"
	"time"
)

// expirySoon is how long before its expiry a certificate becomes a problem that status shows.
const expirySoon = 14 * 24 * time.Hour

// expiryProblems returns the problem of a node's certificate or authority that expires soon or has expired; none if it
// does not, or if ends is zero: then there is no such certificate. expired says what follows once it has expired.
func expiryProblems(node, what string, ends, now time.Time, expired string) []string {
	left := ends.Sub(now)
	switch at := ends.UTC().Format(time.RFC3339); {
	case ends.IsZero() || left > expirySoon:
		return nil
	case left <= 0:
		return []string{fmt.Sprintf("node %s: %s has expired, at %s; %s", node, what, at, expired)}
	default:
		return []string{fmt.Sprintf("node %s: %s expires in %s, at %s", node, what, formatTimeLeft(left), at)}
	}
}

// formatTimeLeft formats a time left: "6 days", and in the last two days "29 h" or "3 min".
func formatTimeLeft(left time.Duration) string {
	switch {
	case left >= 48*time.Hour:
		return fmt.Sprintf("%d days", left/(24*time.Hour))
	case left >= 2*time.Hour:
		return fmt.Sprintf("%d h", left/time.Hour)
	}
	return fmt.Sprintf("%d min", left/time.Minute)
}
