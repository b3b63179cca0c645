package cluster

import (
	"context"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stint-io/stint/shard"
)

const (
	// maxWindow bounds the numbers of a session above Acked: the shard remembers a bit for each.
	maxWindow = 1 << 16
	// rollWindow is when new requests get a new session: a stuck request must not hold up all others.
	rollWindow = maxWindow / 2
	// maxSessions bounds the sessions with one shard at once.
	maxSessions = 4
)

// session numbers the requests of this node to one shard. All but finish is for its desk.
type session struct {
	name     shard.Session
	last     uint64 // the newest number that was given
	acked    uint64 // all numbers up to it are finished
	finished [maxWindow / 64]atomic.Uint64
}

// finish marks numbers whose caller has an answer or has given up. It waits for nobody.
func (s *session) finish(first, count uint64) {
	for end := first + count; first < end; {
		row := min(end-first, 64-first%64) // in one word
		s.finished[first/64%uint64(len(s.finished))].Or((1<<row - 1) << (first % 64))
		first += row
	}
}

// advance moves acked past the numbers that are finished, and returns how many are above it.
func (s *session) advance() uint64 {
	for s.acked < s.last {
		n := s.acked + 1
		word := &s.finished[n/64%uint64(len(s.finished))]
		row := bits.TrailingZeros64(^(word.Load() >> (n % 64)))
		if row == 0 {
			break
		}
		word.And(^((uint64(1)<<row - 1) << (n % 64)))
		s.acked += uint64(row)
	}
	return s.last - s.acked
}

// ticket is a row of numbers of one session.
type ticket struct {
	session             *session
	first, count, acked uint64
}

func (t *ticket) finish() { t.session.finish(t.first, t.count) }

// desk gives out the numbers of one shard. It may be used by any number of goroutines.
type desk struct {
	mu      sync.Mutex
	current *session   // nil before the first, and when the shard has forgotten it
	retired []*session // older ones of which something is under way
	opening *opening   // a session that is being opened
}

// opening is shared by all who wait for the same session.
type opening struct {
	done chan struct{} // closed when the session is there, or will not come
	err  *shard.Error  // why it will not come, if the next one who asks would hear the same
}

var errWindow = &shard.Error{Code: shard.Overloaded, RetryAfter: 100e3,
	Message: "too many requests of this node to the shard are under way; ask again"}

// take gives count numbers, or returns the opening to wait for; the one whom it says to be the opener ends it with
// opened. It refuses with Overloaded when requests that do not end hold as many sessions as there may be.
func (d *desk) take(count uint64) (t ticket, wait *opening, opener bool, err *shard.Error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.current
	if s != nil {
		above := s.advance()
		fits := above+count <= maxWindow
		roll := above > rollWindow && d.opening == nil || !fits
		switch {
		case count > maxWindow || !fits && !d.mayRoll():
			return ticket{}, nil, false, errWindow
		case !roll || fits && !d.mayRoll():
			t = ticket{s, s.last + 1, count, s.acked}
			s.last += count
			return t, nil, false, nil
		}
	}
	if d.opening == nil {
		d.opening, opener = &opening{done: make(chan struct{})}, true
	}
	return ticket{}, d.opening, opener, nil
}

// mayRoll reports whether there may be one session more; those that have ended are forgotten first.
func (d *desk) mayRoll() bool {
	d.retired = slices.DeleteFunc(d.retired, func(s *session) bool { return s.advance() == 0 })
	return len(d.retired)+1 < maxSessions
}

// opened ends an opening: with a session, with an error for all who wait, or with neither, and then another tries.
func (d *desk) opened(o *opening, name shard.Session, err *shard.Error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if name != (shard.Session{}) {
		if d.current != nil {
			d.retired = append(d.retired, d.current)
		}
		d.current = &session{name: name}
	}
	d.opening, o.err = nil, err
	close(o.done)
}

// gone takes out a session that the shard does not know any more.
func (d *desk) gone(name shard.Session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current != nil && d.current.name == name {
		d.current = nil
	}
	d.retired = slices.DeleteFunc(d.retired, func(s *session) bool { return s.name == name })
}

// ticket takes count numbers, and opens a session if there is none or waits for whoever does.
func (r *Router) ticket(ctx context.Context, road *road, count uint64) (ticket, *shard.Error) {
	for {
		t, wait, opener, err := road.desk.take(count)
		switch {
		case err != nil || wait == nil:
			return t, err
		case opener:
			if err := r.open(ctx, road, wait); err != nil {
				return ticket{}, err
			}
			continue
		}
		select {
		case <-wait.done:
			if wait.err != nil {
				return ticket{}, wait.err
			}
		case <-ctx.Done():
			return ticket{}, road.unfound("nobody could open a session")
		}
	}
}

// open opens a session. It may be asked for again and again: one too many does no harm.
func (r *Router) open(ctx context.Context, road *road, o *opening) *shard.Error {
	result := r.deliver(ctx, road, []shard.Request{{Op: shard.OpenSession}})[0]
	err, name := result.Err, result.Decision.Session()
	if err == nil && name == (shard.Session{}) {
		err = &shard.Error{Code: shard.NotBuilt, Message: "the owner of shard " + road.id.String() +
			" opens no sessions: it is of an older version"}
	}
	shared := err
	if ctx.Err() != nil {
		shared = nil // we had no more time; others may have
	}
	road.desk.opened(o, name, shared)
	return err
}
