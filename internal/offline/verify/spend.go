package verify

import (
	"fmt"
	"time"
)

// Spend is one check of a key that holders may lease (X17).
type Spend struct {
	Called, Returned time.Duration // on one clock
	Cost             uint64
	Decided          bool // it has an answer
	Allowed, Leased  bool
	At               int64 // shard time of the owner's decision, or of the lease's grant, in microseconds

	// Judge sets them: bounds of the shard's time between call and return; for an answer of the owner its own
	least, most int64
}

// String describes it for the history of a key.
func (s *Spend) String() string {
	return fmt.Sprintf("%9.3f-%9.3f cost %d, leased %v, allowed %v, time %d to %d",
		s.Called.Seconds(), s.Returned.Seconds(), s.Cost, s.Leased, s.Allowed, s.least, s.most)
}
