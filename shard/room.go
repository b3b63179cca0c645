package shard

// Room is how much room there is for records where they are evaluated. The zero value bounds nothing.
type Room struct {
	Used Use // of the memory for records
}

// Use is how much of the memory for records is used.
type Use uint8

// The uses, each of which refuses what those before it refuse (full.go, share.go).
const (
	Roomy   Use = iota
	Crowded     // three quarters: the rest is kept for those who have less than half
	Full        // seven eighths: what would add a record is refused. The rest is for records to grow and for the ends of holds
	Brimful     // all: no record may grow
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

func (r Room) crowded() bool { return r.Used >= Crowded }
func (r Room) full() bool    { return r.Used >= Full }
func (r Room) brimful() bool { return r.Used >= Brimful }
