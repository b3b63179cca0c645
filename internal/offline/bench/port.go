package bench

import "context"

// Port is the way of a run into the servers under load. Its callers are used concurrently, its methods are not.
type Port interface {
	// Caller returns the caller with a number, from 0. Connections open with the first call that needs them.
	Caller(number int) Caller
	// Connections is the number of connections that carry the load.
	Connections() int
	// Prepare brings the servers into the run's initial state, and enters the units that it spent into the ledger.
	Prepare(ctx context.Context, l *Ledger) error
	// Figures returns the sums of the servers' counters, by the names of the metrics. Unknown ones are left out.
	Figures(ctx context.Context) map[string]float64
	// Judge audits the ledger of a run.
	Judge(l *Ledger, s Span) (Verdict, error)
	// Close ends the connections.
	Close()
}

// Caller sends the calls of one caller, one after the other.
type Caller interface {
	// Check checks the keys in one call and writes each one's fate. It returns the first failure, or nil.
	Check(keys []uint32, fates []Fate) *Failure
	// Close ends what belongs to the caller alone.
	Close()
}
