package hop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/codec"
)

// call is one Submit in flight. Its link's mutex guards it until done is closed; after that it belongs to the caller
// alone.
type call struct {
	shard    shard.ID
	requests int
	body     []byte    // nil once it is in a frame
	size     int       // of body, as counted by the window
	deadline time.Time // zero: none
	number   uint64    // 0 if not sent yet, so certainly not executed
	flight   *flight   // nil until it is sent
	results  []shard.Result
	done     chan struct{} // closed when results are complete
}

// flight is the set of calls for one shard that left in one frame. While as many flights of a shard are
// in progress as the pace allows, further calls wait and accumulate: the owner decides one batch at a time, so calls
// sent earlier would only wait there, in more and smaller frames. A shard that does not answer delays only its own
// calls.
type flight struct {
	shard shard.ID
	left  int // calls without an answer
}

// link is one connection to a node, from the first call that needs it until it breaks. A broken link is never reused.
// The run goroutine dials and writes, a second one reads, and a third closes the connection when the link ends.
type link struct {
	node  string
	pace  Pace
	sent  *counts // of the Hop
	began time.Time
	wake  chan struct{} // has room for one: calls are queued, or may leave now
	gone  chan struct{} // closed by end

	mu      sync.Mutex
	window  window           // has the calls in queue and in waiting
	queue   []*call          // not sent yet, oldest first
	waiting map[uint64]*call // sent, by number
	flights map[shard.ID]int // in progress
	last    uint64           // highest number of a call that was sent
	over    error            // why the link ended; nil if it has not
	tried   time.Time        // when it ended; when it was dialed, if it ended in good order
}

func newLink(node string, pace Pace, sent *counts) *link {
	return &link{
		node:    node,
		pace:    pace,
		sent:    sent,
		began:   time.Now(),
		wake:    make(chan struct{}, 1),
		gone:    make(chan struct{}),
		window:  newWindow(),
		waiting: make(map[uint64]*call),
		flights: make(map[shard.ID]int),
	}
}

// isOver reports whether the link ended long enough ago to be replaced.
func (l *link) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over != nil && time.Since(l.tried) >= redialAfter
}

// enqueue takes a call, also while the link is being dialed. It returns an error if the link is over, or has no room.
func (l *link) enqueue(c *call) *shard.Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return l.unreached()
	}
	if !l.window.take(c.shard, c.size) {
		return &shard.Error{Code: shard.Overloaded, RetryAfter: 50e3, Message: fmt.Sprintf(
			"too many requests for shard %d are under way to node %s; ask again", c.shard, l.node)}
	}
	l.queue = append(l.queue, c)
	signal(l.wake)
	return nil
}

func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default: // already signaled
	}
}

// abandon ends a call after its caller has stopped waiting. Its room is free at once; a late answer is dropped.
func (l *link) abandon(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-c.done: // it was just answered
		return
	default:
	}
	if c.number != 0 {
		delete(l.waiting, c.number)
		l.finish(c, l.unknown("no answer came before the deadline"))
		return
	}
	if i := slices.Index(l.queue, c); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	}
	l.finish(c, errTooLate)
}

var errTooLate = &shard.Error{Code: shard.Overloaded, RetryAfter: 10e3,
	Message: "the deadline passed before the request could be forwarded; nothing was counted"}

// finish completes a call with the results it has, and with err for the missing ones. The caller holds the mutex, and
// takes the call out of queue or waiting.
func (l *link) finish(c *call, err *shard.Error) {
	if missing := c.requests - len(c.results); missing > 0 {
		c.results = append(c.results, shard.RefuseAll(missing, err)...)
	}
	c.body = nil
	l.window.give(c.shard, c.size)
	if c.flight != nil {
		l.land(c.flight)
	}
	close(c.done)
}

// land records that one more call of a flight has ended. The last one makes room for the next flight.
func (l *link) land(f *flight) {
	if f.left--; f.left > 0 {
		return
	}
	if l.flights[f.shard]--; l.flights[f.shard] == 0 {
		delete(l.flights, f.shard)
	}
	if len(l.queue) > 0 {
		signal(l.wake)
	}
}

// unreached returns the error of a call that was not sent, on a link that is over. The caller holds the mutex.
func (l *link) unreached() *shard.Error {
	if refusal, refused := errors.AsType[*shard.Error](l.over); refused {
		return refusal
	}
	why := l.over
	for inner := errors.Unwrap(why); inner != nil; inner = errors.Unwrap(why) { // the log has the outer errors
		why = inner
	}
	return &shard.Error{Code: shard.Unavailable, RetryAfter: 100e3,
		Message: fmt.Sprintf("node %s cannot be reached (%v); nothing was counted", l.node, why)}
}

// unknown returns the error of a call that was sent and has no answer.
func (l *link) unknown(why string) *shard.Error {
	return &shard.Error{Code: shard.UnknownOutcome, Message: fmt.Sprintf(
		"the request was forwarded to node %s and %s: it may have been counted; ask again with the same id",
		l.node, why)}
}

// end closes the link. Calls that were not sent were certainly not executed; calls that were sent may have been.
func (l *link) end(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLocked(why)
}

// endLocked is end for a caller that holds the mutex.
func (l *link) endLocked(why error) {
	if l.over != nil {
		return
	}
	l.over, l.tried = why, time.Now()
	for _, c := range l.queue {
		l.finish(c, l.unreached())
	}
	for _, c := range l.waiting {
		l.finish(c, l.unknown("the connection broke")) //mutant:broken-means-not-executed
	}
	l.queue, l.waiting = nil, nil
	close(l.gone)
}

// run dials and serves the link until it ends.
func (l *link) run(closing context.Context, dial func(context.Context, string) (net.Conn, error)) {
	ctx, cancel := context.WithTimeout(closing, l.pace.DialWithin)
	plain, err := dial(ctx, l.node)
	cancel()
	if err != nil {
		l.end(err)
		return
	}
	conn := &heartbeat{Conn: plain}
	var others sync.WaitGroup
	others.Go(func() { l.end(conn.frames(l.take)) })
	others.Go(func() {
		select {
		case <-closing.Done():
			l.end(errHopClosed)
		case <-l.gone:
		}
		conn.Close()
	})
	l.end(conn.write(frameCalls, l.gone, l.wake, l.gather))
	others.Wait()
}

// gather numbers the queued calls and puts them into one frame, as far as they fit and may leave.
func (l *link) gather(frame []byte) []byte {
	frame = beginFrame(frame, frameCalls)
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	leaving := make(map[shard.ID]*flight, 1)
	kept, seen, calls, requests := l.queue[:0], 0, 0, 0
	for ; seen < len(l.queue); seen++ {
		c := l.queue[seen]
		budget, inTime := remaining(c.deadline, now)
		if !inTime {
			l.finish(c, errTooLate)
			continue
		}
		if leaving[c.shard] == nil && l.flights[c.shard] >= l.pace.Flights {
			kept = append(kept, c)
			continue
		}
		if len(frame)+maxRecord+len(c.body) > frameHead+maxFrame {
			signal(l.wake)
			break
		}
		l.board(c, leaving)
		calls, requests = calls+1, requests+c.requests
		frame = append(appendCallHead(frame, c.number, budget), c.body...)
		c.body = nil
	}
	kept = append(kept, l.queue[seen:]...)
	clear(l.queue[len(kept):])
	l.queue = kept
	l.sent.add(calls, requests)
	return frame
}

// board numbers a call and adds it to its shard's flight among those that leave in this frame. The caller holds the
// mutex.
func (l *link) board(c *call, leaving map[shard.ID]*flight) {
	if leaving[c.shard] == nil {
		leaving[c.shard] = &flight{shard: c.shard}
		l.flights[c.shard]++
	}
	c.flight = leaving[c.shard]
	c.flight.left++
	l.last++
	c.number = l.last
	l.waiting[c.number] = c
}

// remaining returns the time left until a deadline. The zero deadline gives 0, which travels as "no deadline".
func remaining(deadline, now time.Time) (budget time.Duration, inTime bool) {
	if deadline.IsZero() {
		return 0, true
	}
	budget = deadline.Sub(now)
	return budget, budget >= time.Microsecond
}

// take takes a received frame.
func (l *link) take(kind frameKind, records []byte) error {
	switch kind {
	case frameAnswers:
		answers, err := decodeAnswers(records)
		if err != nil {
			return err
		}
		return l.answer(answers)
	case frameGoodbye:
		return l.goodbye(records)
	}
	return errMalformedFrame
}

// answer completes calls. The parts of one answer arrive in order.
func (l *link) answer(answers []answerRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range answers {
		a := &answers[i]
		c := l.waiting[a.number]
		if c == nil {
			continue // abandoned
		}
		if a.first != len(c.results) || a.first+a.count > c.requests {
			return fmt.Errorf("%w: answer to other requests than were sent", errMalformedFrame)
		}
		if c.results == nil {
			c.results = a.results // nearly always the whole answer
		} else {
			c.results = append(c.results, a.results...)
		}
		if len(c.results) == c.requests {
			delete(l.waiting, a.number)
			l.finish(c, nil)
		}
	}
	return nil
}

// goodbye ends the calls that the peer did not begin, and with them the link: the peer would never begin later calls
// either, without reporting it. A peer that does not stop, and only renews its connections, can be dialed again at
// once.
func (l *link) goodbye(records []byte) error {
	var begun uint64
	r := codec.Reader(string(records))
	if r.Uint64(&begun); !r.Whole() {
		return errMalformedFrame
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for number, c := range l.waiting {
		if number > begun {
			delete(l.waiting, number)
			l.finish(c, &shard.Error{Code: shard.Draining, RetryAfter: 100e3,
				Message: "node " + l.node + " ended the connection before it began the request; ask again"})
		}
	}
	l.endLocked(errGoodbye) //mutant:calls-after-goodbye
	l.tried = l.began
	return errGoodbye
}

var errGoodbye = errors.New("it has ended the connection: it stops, or renews its connections")
