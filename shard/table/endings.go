package table

import "github.com/stint-io/stint/limit"

// endings holds the sums of records by the minute in which they end. So the sum of the records that no replica may have
// swept yet is found without looking at any record. Nearly all changes are in a recently changed minute.
type endings struct {
	near [64]ending            // by minute, modulo its length
	far  map[limit.Time]uint64 // by minute: those that gave way to another in near; nil until one did
}

type ending struct {
	minute limit.Time // in minutes since the Unix epoch
	sum    uint64
}

// sumMinute is a minute in microseconds.
const sumMinute = limit.Time(60e6)

// add adds a record's sum, or removes the record with its negative sum.
func (e *endings) add(forgetAt limit.Time, sum uint64) {
	minute := forgetAt / sumMinute
	at := &e.near[uint64(minute)%uint64(len(e.near))]
	if at.minute != minute {
		e.exchange(at, minute)
	}
	at.sum += sum
}

// exchange replaces one minute with another. An empty minute is dropped.
func (e *endings) exchange(at *ending, minute limit.Time) {
	if at.sum != 0 {
		if e.far == nil {
			e.far = make(map[limit.Time]uint64)
		}
		e.far[at.minute] = at.sum
	}
	*at = ending{minute, e.far[minute]}
	delete(e.far, minute)
}

// after returns the sum of the records that end after the running minute.
func (e *endings) after(now limit.Time) (sum uint64) {
	running := now / sumMinute
	for i := range e.near {
		if e.near[i].minute > running { //mutant:sum-holds-what-may-be-swept
			sum += e.near[i].sum
		}
	}
	for minute, part := range e.far {
		if minute > running {
			sum += part
		}
	}
	return sum
}
