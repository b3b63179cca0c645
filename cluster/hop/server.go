package hop

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/stint-io/stint/shard"
)

// drainWithin bounds calls that were begun before the node stops. Calls of clients with a deadline of 2 s fit.
const drainWithin = 2 * time.Second

// hangUpWithin is the time that a dialer has to read the goodbye.
const hangUpWithin = time.Second

// Handler decides forwarded requests for one shard and returns one result for each, in their order. ctx ends at the
// caller's deadline, or when the caller's connection ends. hops is how often the requests were forwarded, including
// this time; it is the value to pass to Submit if they must go further. A Handler is called concurrently.
type Handler func(ctx context.Context, hops int, id shard.ID, requests []shard.Request) []shard.Result

// Serve answers the calls of one connection until it ends, closes it, and returns when everything it started has ended.
// Calls of one frame to one shard with the same operation are handled together, all others concurrently. Answers are
// sent in the order in which they are ready; answers that are ready together share a frame. Calls beyond the bounds of
// a connection are answered Overloaded. A call counts as in flight until its answer is in a frame; its size is that of
// its answer once there is one. A dialer that does not even read refusals is not read from either.
//
// When ctx ends, the connection is drained: no further call is begun, begun calls are answered, and goodbye names the
// calls that were not begun, so that the dialer can send them elsewhere.
func Serve(ctx context.Context, conn net.Conn, handler Handler) error {
	s := &server{conn: &heartbeat{Conn: conn}, handler: handler, window: newWindow(),
		wake: make(chan struct{}, 1), gone: make(chan struct{})}
	s.fewer = sync.NewCond(&s.mu)
	s.calls, s.cancel = context.WithCancel(context.Background())
	var others sync.WaitGroup
	others.Go(func() { s.end(s.conn.write(frameAnswers, s.gone, s.wake, s.gather)) })
	others.Go(func() { s.drain(ctx) })
	s.end(s.conn.frames(s.take))
	others.Wait()
	s.running.Wait()
	if errors.Is(s.why, io.EOF) {
		return nil
	}
	return s.why
}

// server is the answering end of a connection. Serve's own goroutine reads and begins calls, a second one writes, a
// third drains and closes, and each bundle of calls has one of its own.
type server struct {
	conn    *heartbeat
	handler Handler
	calls   context.Context    // parent of all handlers' contexts; outlives that of Serve while the connection drains
	cancel  context.CancelFunc // of calls
	running sync.WaitGroup     // handlers; none is added once draining is set
	wake    chan struct{}      // the outbox has answers, or goodbye is to be sent
	gone    chan struct{}      // closed by end

	mu       sync.Mutex
	window   window
	outbox   []answerRecord // ready, and in no frame yet
	refusals int            // answers in the outbox that the window does not count
	fewer    *sync.Cond     // signals fewer refusals, or the end of the connection
	last     uint64         // highest number of a call that was begun or refused
	draining bool           // no further call is begun
	drained  bool           // all answers are in the outbox: send goodbye after them
	why      error          // why the connection ended; nil until it is over
	over     bool
}

// end marks the connection as over. Handlers may still be running.
func (s *server) end(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	s.over, s.draining, s.why = true, true, why
	s.cancel()
	s.fewer.Broadcast()
	close(s.gone)
}

// take takes a received frame.
func (s *server) take(kind frameKind, records []byte) error {
	if kind != frameCalls {
		return errMalformedFrame
	}
	calls, err := decodeCalls(records)
	if err != nil {
		return err
	}
	return s.begin(calls, len(records))
}

// begin starts handlers for the calls that fit into the window. Each call of the frame is charged an equal share of its
// bytes.
func (s *server) begin(calls []callRecord, bytes int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := bytes / max(1, len(calls))
	taken := calls[:0]
	for i := range calls {
		c := &calls[i]
		for s.refusals >= maxCallsUnderWay && !s.over {
			taken = s.start(taken, size) // drain waits for calls that were begun
			s.fewer.Wait()
		}
		if s.draining {
			break
		}
		if c.number <= s.last {
			return fmt.Errorf("%w: call %d after call %d", errMalformedFrame, c.number, s.last)
		}
		s.last = c.number
		if !s.window.take(c.shard, size) {
			s.refusals++
			s.post([]answerRecord{crowded(c)})
			continue
		}
		taken = append(taken, *c)
	}
	s.start(taken, size)
	return nil
}

// start starts handlers for the calls, and returns the free space after them.
func (s *server) start(calls []callRecord, size int) []callRecord {
	for _, together := range bundles(calls) {
		s.running.Go(func() { s.handle(together, size) })
	}
	return calls[len(calls):]
}

// crowded refuses a call. All such answers share one body, so that a flood of calls does not become a flood of bytes.
func crowded(c *callRecord) answerRecord {
	n, all := c.count(), allCrowded()
	return answerRecord{number: c.number, count: n, body: all[:n*(len(all)/maxCallRequests)], refusal: true}
}

// allCrowded is made when it is first needed: every command of the program would wait for it.
var allCrowded = sync.OnceValue(func() []byte {
	return appendAnswers(nil, 0, shard.RefuseAll(maxCallRequests, errCrowded))[0].body
})

var errCrowded = &shard.Error{Code: shard.Overloaded, RetryAfter: 50e3,
	Message: "the node has as many forwarded requests of that shard as it may; ask again"}

// handle decides the calls of a bundle and posts their answers. size is what each call holds in the window: its answer
// holds its own size instead.
func (s *server) handle(b *bundle, size int) {
	ctx := s.calls
	if b.budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, b.budget)
		defer cancel()
	}
	var results []shard.Result
	if b.requests > 0 {
		results = s.handler(ctx, b.hops, b.shard, b.together())
	}
	if len(results) != b.requests {
		panic(fmt.Sprintf("cluster: %d results for %d forwarded requests", len(results), b.requests))
	}
	answers := make([]answerRecord, 0, len(b.calls))
	for _, c := range b.calls {
		n, first := len(c.requests), len(answers)
		answers = appendAnswers(answers, c.number, c.answers(results[:n]))
		results = results[n:]
		last := &answers[len(answers)-1]
		last.shard, last.held = b.shard, sizeOf(answers[first:])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range answers {
		if a := &answers[i]; a.held > 0 {
			s.window.resize(b.shard, a.held-size)
		}
	}
	s.post(answers)
}

func sizeOf(parts []answerRecord) (bytes int) {
	for i := range parts {
		bytes += len(parts[i].body)
	}
	return bytes
}

// post queues answers for the writer. The caller holds the mutex.
func (s *server) post(parts []answerRecord) {
	s.outbox = append(s.outbox, parts...)
	signal(s.wake)
}

// gather puts the outbox into one frame, as far as it fits. Goodbye follows when the outbox is empty.
func (s *server) gather(frame []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.outbox) == 0 && s.drained {
		s.drained = false // goodbye is sent once
		return binary.AppendUvarint(beginFrame(frame, frameGoodbye), s.last)
	}
	frame = beginFrame(frame, frameAnswers)
	taken := 0
	for ; taken < len(s.outbox); taken++ {
		a := &s.outbox[taken]
		if len(frame)+maxRecord+len(a.body) > frameHead+maxFrame {
			break
		}
		frame = appendAnswer(frame, a)
		s.leave(a)
	}
	s.outbox = slices.Delete(s.outbox, 0, taken)
	if len(s.outbox) > 0 || s.drained {
		signal(s.wake)
	}
	return frame
}

// leave releases the room of an answer that is now in a frame.
func (s *server) leave(a *answerRecord) {
	switch {
	case a.refusal:
		s.refusals--
		s.fewer.Signal() // only the reader waits
	case a.held > 0:
		s.window.give(a.shard, a.held)
	}
}

// drain waits for the end of ctx and then ends the connection in good order. It also closes a connection that has ended
// for any other reason.
func (s *server) drain(ctx context.Context) {
	defer s.conn.Close()
	select {
	case <-s.gone:
		return
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	patience := time.AfterFunc(drainWithin, s.cancel)
	s.running.Wait()
	patience.Stop()
	s.mu.Lock()
	s.drained = true
	signal(s.wake)
	s.mu.Unlock()
	// The dialer hangs up when it has read goodbye. Until then its frames are read and dropped: closing with unread
	// bytes would reset the connection, and the reset could discard goodbye before the dialer reads it.
	s.conn.SetReadDeadline(time.Now().Add(hangUpWithin))
	<-s.gone
}
