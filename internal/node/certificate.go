package node

import (
	"fmt"
	"time"
)

// endsSoon is how long before its expiry a certificate becomes a problem that status shows.
const endsSoon = 14 * 24 * time.Hour

// certificateProblems says that this node's certificate expires soon, or has expired.
func (n *Node) certificateProblems() []string {
	if !n.hasJoined() {
		return nil
	}
	ends := n.port.CertificateEnds()
	left := ends.Sub(n.config.World.Now())
	switch {
	case ends.IsZero() || left > endsSoon:
		return nil
	case left <= 0:
		return []string{fmt.Sprintf("node %s: its peer certificate has expired, at %s; others refuse it", n.id, ends.UTC().Format(time.RFC3339))}
	}
	return []string{fmt.Sprintf("node %s: its peer certificate expires in %s, at %s", n.id, leftOf(left), ends.UTC().Format(time.RFC3339))}
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
