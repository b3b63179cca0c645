package raftfsm

import (
	"fmt"
	"time"
)

// Conviction says why a replica must not be opened again: its memory held something other than its log says. Its log,
// votes and snapshots stay on disk as evidence until the replica is destroyed; the conviction itself stays for ever.
type Conviction struct {
	Why string    // the reason, for people
	At  time.Time // when it was convicted
}

// Convict records on disk that a replica must never be opened again. When it returns nil, the record survives a power
// cut. The first conviction of a replica stays; later ones change nothing.
func (s *Stores) Convict(replica Replica, c Conviction) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return during("convicting "+replica.Name(s.identity.Node), s.fault.contain(func() error {
		return s.putRecord(replica, func(g *groupRecord) {
			if g.Convicted == nil {
				g.Convicted = &c
			}
		})
	}))
}

// Convictions returns the convicted replicas of this directory, including those that have been destroyed since.
func (s *Stores) Convictions() map[Replica]Conviction {
	s.mu.Lock()
	defer s.mu.Unlock()
	convicted := make(map[Replica]Conviction)
	for _, g := range s.groups {
		if g.Convicted != nil {
			convicted[g.Replica] = *g.Convicted
		}
	}
	return convicted
}

// errConvicted is in the chain of OpenGroup's error for a convicted replica.
func errConvicted(c *Conviction) error {
	return fmt.Errorf("it was convicted on %s: %s: %w", c.At.UTC().Format(time.RFC3339), c.Why, ErrLost)
}
