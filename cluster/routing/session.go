package routing

import (
	"context"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stint-io/stint/shard"
)

const (
	// maxWindow bounds the numbers of a session above Acked: the shard remembers one bit for each.
	maxWindow = 1 << 16
	// rollWindow is the window at which new requests get a new session, because a stuck request must not block all
	// others.
	rollWindow = maxWindow / 2
	// maxSessions bounds the number of concurrent sessions with one shard.
	maxSessions = 4
)

// session numbers the requests of this node to one shard. Only finish may be called without the pool's mutex.
type session struct {
	name  shard.Session
	last  uint64 // the highest number given out
	acked uint64 // all numbers up to this one are finished
	// finished has a bit for each number, modulo maxWindow: finish sets it, and advance clears it.
	finished [maxWindow / 64]atomic.Uint64
}

// finish marks numbers as finished: their caller has an answer or has given up. It takes no lock.
func (s *session) finish(first, count uint64) {
	for end := first + count; first < end; {
		row := min(end-first, 64-first%64) // in one word
		s.finished[first/64%uint64(len(s.finished))].Or((1<<row - 1) << (first % 64))
		first += row
	}
}

// advance moves acked past finished numbers, and returns how many numbers are above it.
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

// sessionRange is a run of consecutive numbers of one session, and what was acked when they were taken.
type sessionRange struct {
	session             *session
	first, count, acked uint64
}

func (t *sessionRange) finish() { t.session.finish(t.first, t.count) }

// sessionPool gives out session numbers for one shard. Any number of goroutines may use it.
type sessionPool struct {
	mu      sync.Mutex
	current *session   // nil before the first one, and when the shard has forgotten it
	retired []*session // older ones with requests in flight
	opening *opening   // a session that is being opened
}

// opening is shared by all callers that wait for the same session.
type opening struct {
	done chan struct{} // closed when the session is open, or has failed to open
	err  *shard.Error  // why it failed, if another attempt would fail in the same way
}

var errWindow = &shard.Error{Code: shard.Overloaded, RetryAfter: 100e3,
	Message: "too many requests of this node to the shard are under way; ask again"}

// take gives out count numbers, or returns the opening to wait for. If opener is true, the caller must end the opening
// with opened. take returns Overloaded when unfinished requests hold the maximum number of sessions.
func (d *sessionPool) take(count uint64) (t sessionRange, wait *opening, opener bool, err *shard.Error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.current
	if s != nil {
		above := s.advance()
		fits := above+count <= maxWindow
		roll := above > rollWindow && d.opening == nil || !fits
		switch {
		case count > maxWindow || !fits && !d.mayRoll():
			return sessionRange{}, nil, false, errWindow
		case !roll || fits && !d.mayRoll():
			t = sessionRange{s, s.last + 1, count, s.acked}
			s.last += count
			return t, nil, false, nil
		}
	}
	if d.opening == nil {
		d.opening, opener = &opening{done: make(chan struct{})}, true
	}
	return sessionRange{}, d.opening, opener, nil
}

// mayRoll reports whether another session is allowed. It first forgets retired sessions that have ended.
func (d *sessionPool) mayRoll() bool {
	d.retired = slices.DeleteFunc(d.retired, func(s *session) bool { return s.advance() == 0 })
	return len(d.retired)+1 < maxSessions
}

// opened ends an opening: with a session, with an error for all waiting callers, or with neither, and then another
// caller tries.
func (d *sessionPool) opened(o *opening, name shard.Session, err *shard.Error) {
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

// gone removes a session that the shard no longer knows.
func (d *sessionPool) gone(name shard.Session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current != nil && d.current.name == name {
		d.current = nil
	}
	d.retired = slices.DeleteFunc(d.retired, func(s *session) bool { return s.name == name })
}

// takeRange takes count numbers. If there is no session, it opens one or waits for the caller that does.
func (r *Router) takeRange(ctx context.Context, route *shardRoute, count uint64) (sessionRange, *shard.Error) {
	for {
		t, wait, opener, err := route.sessions.take(count)
		switch {
		case err != nil || wait == nil:
			return t, err
		case opener:
			if err := r.open(ctx, route, wait); err != nil {
				return sessionRange{}, err
			}
			continue
		}
		select {
		case <-wait.done:
			if wait.err != nil {
				return sessionRange{}, wait.err
			}
		case <-ctx.Done():
			return sessionRange{}, route.unfound("no session could be opened")
		}
	}
}

// open opens a session. The request may be repeated any number of times: an extra session does no harm.
func (r *Router) open(ctx context.Context, route *shardRoute, o *opening) *shard.Error {
	result := r.deliver(ctx, route, []shard.Request{{Op: shard.OpenSession}})[0]
	err, name := result.Err, result.Decision.Answer().Session
	if err == nil && name == (shard.Session{}) {
		err = &shard.Error{Code: shard.NotBuilt, Message: "the owner of shard " + route.id.String() +
			" has opened no session: run a newer version"}
	}
	shared := err
	if ctx.Err() != nil {
		shared = nil // our deadline passed; other callers may have more time
	}
	route.sessions.opened(o, name, shared)
	return err
}
