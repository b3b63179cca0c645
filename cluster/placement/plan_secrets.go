package placement

import (
	"fmt"
	"slices"
	"time"
)

// PlanSecrets returns the next secrets, after this version of them, and a description of each change, in one line of
// English each. It returns nil if there is nothing to do, or a listed node has not written this version to disk yet:
// each step of a rotation requires the one before to be known everywhere, whichever node seals or opens next.
func PlanSecrets(
	t *Table, s *Secrets, version uint64, reports map[string]Report, now time.Time,
) (next *Secrets, steps []string) {
	if len(Unconfirmed(t, version, reports)) > 0 { //mutant:secret-seals-unconfirmed
		return nil, nil
	}
	next = s.clone()
	if waiting := s.Waiting(); waiting != 0 {
		next.Seals = waiting
		//mutant:secret-ends-in-use
		return next, []string{fmt.Sprintf("all nodes know sealing secret %d: it seals from now on", waiting)}
	}
	next.Seals = s.SealsWith()
	for _, number := range next.end(now) {
		steps = append(steps, fmt.Sprintf("no node seals with sealing secret %d any longer: it opens ids for %v",
			number, SealingOpens))
	}
	next.Sealing = slices.DeleteFunc(next.Sealing, func(one SealingSecret) bool {
		ended := one.Ends != 0 && one.Ends <= now.UnixMicro() //mutant:secret-never-ends
		if ended {
			steps = append(steps, fmt.Sprintf("sealing secret %d has ended: it is dropped", one.Number))
		}
		return ended
	})
	if len(steps) == 0 {
		return nil, nil
	}
	return next, steps
}

// Unconfirmed names the listed nodes that have not confirmed that a version of the secrets is on their disk.
func Unconfirmed(t *Table, version uint64, reports map[string]Report) (nodes []string) {
	for _, n := range t.Listed() {
		if reports[n.ID].SecretsVersion < version {
			nodes = append(nodes, n.ID)
		}
	}
	return nodes
}
