package shard

import "github.com/stint-io/stint/shard/slot"

// Room is how much room there is for records where they are evaluated. The zero value is that of a shard with all slots
// and unbounded memory.
type Room struct {
	Used  Use // of the memory for records
	Slots int // that the shard has: its part of each policy's MaxKeys. 0: all
}

// Use is how much of the memory for records is used.
type Use uint8

// The uses, each of which refuses what those before it refuse (full.go, share.go).
const (
	Roomy   Use = iota
	Crowded     // three quarters: the rest is kept for policies and namespaces with less than half
	// seven eighths: what would add a record is refused. The rest is for records to grow and for the ends of holds
	Full
	Brimful // all: no record may grow
)

// UseOf returns the use of memory for so many bytes of records, which must be at least one.
func UseOf(used, most int) Use {
	switch {
	case used >= most:
		return Brimful
	case used >= most-most/8:
		return Full
	case used >= most-most/4:
		return Crowded
	}
	return Roomy
}

// keys returns the part that the shard has of the MaxKeys of a policy: that of its slots among all, rounded up, so that
// a small number leaves no shard without a key. So the parts of all shards come to the number, and less than one more
// for each.
func (r Room) keys(most uint64) uint64 {
	if r.Slots == 0 {
		return most
	}
	slots := uint64(r.Slots)
	return most/slot.Count*slots + (most%slot.Count*slots+slot.Count-1)/slot.Count //mutant:share-of-a-cap-rounds-down
}

func (r Room) crowded() bool { return r.Used >= Crowded }
func (r Room) full() bool    { return r.Used >= Full }
func (r Room) brimful() bool { return r.Used >= Brimful }
