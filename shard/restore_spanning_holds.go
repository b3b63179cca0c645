package shard

import (
	"fmt"
	"strings"

	"github.com/stint-io/stint/limit"
)

// spanningHolds are the open holds of a backup with keys of several slots. One shard took such a hold, and one shard
// settles it.
type spanningHolds struct {
	after  limit.Time    // a hold that has ended by then is not settled any more
	met    map[string]ID // by name: the shard of the first key; partedHold: others are elsewhere
	parted int
	last   hold   // the last of them to end
	key    string // of a counter that has it
}

// partedHold is no shard of keys.
const partedHold = System

// note looks at the holds of a counter that goes to a shard.
func (s *spanningHolds) note(c *counter, to ID) {
	for _, h := range c.extras.openHolds() {
		if !h.spans || h.expires <= s.after { //mutant:ended-hold-stays-together
			continue
		}
		switch on, met := s.met[h.name]; {
		case !met:
			s.met[strings.Clone(h.name)] = to
		case on != to && on != partedHold: //mutant:spanning-hold-parted
			s.met[h.name] = partedHold
			if s.parted++; h.expires > s.last.expires {
				s.last, s.key = h, c.key
			}
		}
	}
}

// problem refuses to part the keys of a hold.
func (s *spanningHolds) problem() error {
	if s.parted == 0 {
		return nil
	}
	namespace, name, key, _ := readKeyOf(s.key)
	return fmt.Errorf("%d open holds have keys which would be on several shards, and could not be settled; the last "+
		"to end, of key %q of policy %q in namespace %q, ends at %s: restore after that, or to fewer shards, of which "+
		"one parts none",
		s.parted, key, name, namespace, instantWords(s.last.expires))
}
