package actor

import (
	"math"
	"sync"
	"time"
)

// intake is the mailbox: calls on their way to the loop. Any number of goroutines put calls into it. The loop takes all
// of them at once and sets the number of requests at which it wants to be woken, so that requests that gather while an
// entry is under way do not wake it. The intake itself has no bound: each call has passed the admission.
type intake struct {
	wake chan struct{} // of capacity 1: signals that the awaited requests may be there

	mu       sync.Mutex
	calls    []*call
	requests int       // number of requests in the calls
	want     int       // the loop sleeps until there are this many requests,
	hurry    time.Time // or a call with an earlier deadline; zero: deadlines do not wake it
	closed   bool      // the loop has ended
}

// never is more requests than there can be.
const never = math.MaxInt

// put hands a call over. It returns false when the loop has ended.
func (in *intake) put(c *call) bool {
	in.mu.Lock()
	if in.closed {
		in.mu.Unlock()
		return false
	}
	in.calls = append(in.calls, c)
	before := in.requests
	in.requests += len(c.requests)
	wake := before < in.want && in.requests >= in.want || !c.deadline.IsZero() && c.deadline.Before(in.hurry)
	in.mu.Unlock()
	if wake {
		in.signal()
	}
	return true
}

func (in *intake) signal() {
	select {
	case in.wake <- struct{}{}:
	default: // the loop is awake
	}
}

// take moves all calls out; the space of empty is reused for the next ones.
func (in *intake) take(empty []*call) []*call {
	in.mu.Lock()
	defer in.mu.Unlock()
	calls := in.calls
	in.calls, in.requests = empty, 0
	return calls
}

// expect sets when the loop is woken: at a number of requests (at least 1), or at a call with a deadline before hurry.
func (in *intake) expect(want int, hurry time.Time) {
	in.mu.Lock()
	in.want, in.hurry = want, hurry
	there := in.requests >= want
	in.mu.Unlock()
	if there {
		in.signal()
	}
}

// close refuses further calls. It returns false, and stays open, if there are calls left to be taken.
func (in *intake) close() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = len(in.calls) == 0
	return in.closed
}
