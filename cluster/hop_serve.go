package cluster

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/stint-io/stint/shard"
)

// drainWithin is how long calls that were begun may take when the node stops; those of clients with a deadline of 2 s
// fit.
const drainWithin = 2 * time.Second

// hangUpWithin is how long a dialer may take to read goodbye.
const hangUpWithin = time.Second

// HopHandler decides forwarded requests of one shard and returns one result for each, in their order. ctx ends at the
// caller's deadline, or when its connection does. Hops is how often the requests were forwarded, this time included:
// what to pass on to Submit if they must go further. It is called concurrently.
type HopHandler func(ctx context.Context, hops int, id shard.ID, requests []shard.Request) []shard.Result

// ServeHop answers the calls of one connection until it ends, closes it, and returns when everything it started has
// ended. Calls of one frame to one shard that ask for the same are handled together, all else concurrently, and answered in
// the order in which they are ready; answers that are ready together share a frame. What goes beyond the bounds of a
// connection is answered Overloaded: a call is under way until its answer is in a frame, and as large as its answer once
// that is there. A dialer that does not even read refusals is not read either.
//
// When ctx ends, the connection is drained: no further call is begun, those that were are answered, and the dialer is
// told which were not, so that it can send them elsewhere.
func ServeHop(ctx context.Context, conn net.Conn, handler HopHandler) error {
	s := &hopServer{conn: &pulse{Conn: conn}, handler: handler, window: newWindow(), wake: make(chan struct{}, 1),
		gone: make(chan struct{})}
	s.fewer = sync.NewCond(&s.mu)
	s.calls, s.cancel = context.WithCancel(context.Background())
	var others sync.WaitGroup
	others.Go(func() { s.end(s.write()) })
	others.Go(func() { s.drain(ctx) })
	s.end(s.read())
	others.Wait()
	s.running.Wait()
	if errors.Is(s.why, io.EOF) {
		return nil
	}
	return s.why
}

type hopServer struct {
	conn    *pulse
	handler HopHandler
	calls   context.Context // of all handlers
	cancel  context.CancelFunc
	running sync.WaitGroup // handlers
	wake    chan struct{}  // something is in the outbox, or goodbye is to be said
	gone    chan struct{}  // closed by end

	mu       sync.Mutex
	window   window
	outbox   []answer
	refusals int        // answers in the outbox that the window knows nothing of
	fewer    *sync.Cond // fewer refusals, or the connection is over
	last     uint64     // number of the newest call that was begun
	draining bool       // nothing is begun any more
	drained  bool       // all that was begun is in the outbox: goodbye is to be said after it
	why      error
	over     bool
}

// end is the end of the connection, not yet of the handlers.
func (s *hopServer) end(why error) {
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

func (s *hopServer) read() error {
	in := bufio.NewReaderSize(s.conn, 64<<10)
	var buffer []byte
	for {
		kind, records, next, err := readFrame(in, buffer)
		if err != nil {
			return err
		}
		buffer = next
		if kind != frameCalls {
			return errMalformedFrame
		}
		calls, err := decodeCalls(records)
		if err != nil {
			return err
		}
		if err := s.begin(calls, len(records)); err != nil {
			return err
		}
	}
}

// begin starts handlers for the calls there is room for. The frame's bytes are shared out among its calls.
func (s *hopServer) begin(calls []sentCall, bytes int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := bytes / max(1, len(calls))
	taken := calls[:0]
	for i := range calls {
		c := &calls[i]
		for s.refusals >= maxCallsUnderWay && !s.over {
			taken = s.start(taken, size) // drain waits for what is begun
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
			s.post([]answer{crowded(c)})
			continue
		}
		taken = append(taken, *c)
	}
	s.start(taken, size)
	return nil
}

// start starts handlers, and returns the space behind the calls.
func (s *hopServer) start(calls []sentCall, size int) []sentCall {
	for _, together := range bundles(calls) {
		s.running.Go(func() { s.handle(together, size) })
	}
	return calls[len(calls):]
}

// crowded refuses a call. All such answers are part of one body, so that a flood of calls does not become one of bytes.
func crowded(c *sentCall) answer {
	n := len(c.requests)
	return answer{number: c.number, count: n, body: allCrowded[:n*(len(allCrowded)/maxCallRequests)], refusal: true}
}

var allCrowded = encodeAnswers(0, refuse(maxCallRequests, errCrowded))[0].body

var errCrowded = &shard.Error{Code: shard.Overloaded, RetryAfter: 50e3,
	Message: "the node has as many forwarded requests of that shard as it may; ask again"}

// handle has the calls of a bundle decided and posts their answers.
func (s *hopServer) handle(b *bundle, size int) {
	ctx := s.calls
	if b.budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, b.budget)
		defer cancel()
	}
	results := s.handler(ctx, b.hops, b.shard, b.together())
	if len(results) != b.requests {
		panic(fmt.Sprintf("cluster: %d results for %d forwarded requests", len(results), b.requests))
	}
	answers := make([]answer, 0, len(b.calls))
	for _, c := range b.calls {
		n, first := len(c.requests), len(answers)
		answers = appendAnswers(answers, c.number, results[:n])
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

func sizeOf(parts []answer) (bytes int) {
	for i := range parts {
		bytes += len(parts[i].body)
	}
	return bytes
}

func (s *hopServer) post(parts []answer) {
	s.outbox = append(s.outbox, parts...)
	signal(s.wake)
}

// write sends answers, and beats, until the connection ends.
func (s *hopServer) write() error {
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	var frame []byte
	for {
		select {
		case <-s.gone:
			return nil
		case <-beat.C:
			if !s.conn.alive() {
				return errSilent
			}
			frame = beginFrame(frame, frameAnswers)
		case <-s.wake:
			// The other calls of a frame are about to be answered: let them, and send them together.
			runtime.Gosched()
			if frame = s.gather(frame); len(frame) == frameHead+1 {
				continue
			}
		}
		if err := s.conn.send(frame); err != nil {
			return err
		}
	}
}

// gather puts what is in the outbox into one frame, as far as it fits; goodbye comes when there is nothing more.
func (s *hopServer) gather(frame []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.outbox) == 0 && s.drained {
		s.drained = false // said once
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

// leave gives back what an answer held that is in a frame now.
func (s *hopServer) leave(a *answer) {
	switch {
	case a.refusal:
		s.refusals--
		s.fewer.Signal() // only the reader waits
	case a.held > 0:
		s.window.give(a.shard, a.held)
	}
}

// drain waits for the end of ctx and then ends the connection in good order; and it closes the connection when it has
// ended, however that came.
func (s *hopServer) drain(ctx context.Context) {
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
	// The dialer hangs up when it has read goodbye. Until then its frames are read, and dropped: closing with bytes
	// unread would reset the connection, and could take goodbye away before it is read.
	s.conn.SetReadDeadline(time.Now().Add(hangUpWithin))
	<-s.gone
}
