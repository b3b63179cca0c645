package actor

import (
	"errors"
	"time"

	"github.com/stint-io/stint/shard"
)

// flight is one proposal under way and the answers that wait for it.
type flight struct {
	epoch   uint64
	seq     uint64 // 0 for an EpochOpen
	parts   []part
	results []shard.Result // of the parts, one after another
	began   time.Time
	bytes   int // of the payload; 0 unless it is a batch
	effects int // records that the batch changes

	happened []shard.Happening // empty unless the batch was watched (Config.Watched)
}

// part is a run of one call's requests that went into a batch: those from index from up to, not including, to.
type part struct {
	call     *call
	from, to int
}

// failure returns the error that an outcome means for the waiting calls, or nil if exactly the proposed entry was
// installed.
func (f *flight) failure(o shard.Outcome, err error) *shard.Error {
	var known *shard.Error
	switch {
	case errors.As(err, &known):
		return known //mutant:unknown-becomes-not-applied //mutant:unknown-outcome-opens-the-gate
	case err != nil:
		return errUnknown
	case o.Dropped != shard.NotDropped: // it is in the log, and every replica skips it
		return errDropped //mutant:dropped-entry-opens-the-gate
	case o.Epoch != f.epoch || o.Seq != f.seq:
		return errUnknown
	}
	return nil
}

// reached reports a step to the traces of the requests.
func (f *flight) reached(step shard.TraceStep, wall time.Time) {
	for i := range f.parts {
		f.parts[i].call.reached(step, wall)
	}
}

// openGate releases the answers. Only settle calls it, when the entry is installed (S1).
func (f *flight) openGate() {
	results := f.results
	for _, p := range f.parts {
		n := p.to - p.from
		p.call.answer(p.from, results[:n:n])
		results = results[n:]
	}
}

func (f *flight) fail(err *shard.Error) {
	for _, p := range f.parts {
		p.call.fail(p.from, p.to-p.from, err)
	}
}
