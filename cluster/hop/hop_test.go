package hop

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// wire is a Hop and the nodes that it reaches over in-memory connections. All nodes have the same handler.
type wire struct {
	*Hop
	dials  atomic.Int32
	stop   context.CancelFunc // drains the nodes
	nodes  sync.WaitGroup
	failed chan error // errors of the nodes' connections
	far    chan net.Conn
	frames atomic.Int64  // of the dialer
	takes  time.Duration // to write a frame
}

func newWire(t *testing.T, handler Handler) *wire {
	w := &wire{failed: make(chan error, 16), far: make(chan net.Conn, 16)}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	w.Hop = New(Near, func(context.Context, string) (net.Conn, error) {
		w.dials.Add(1)
		near, far := net.Pipe()
		w.far <- far
		w.nodes.Go(func() { w.failed <- Serve(ctx, far, handler) })
		return counted{slow{near, w.takes}, &w.frames}, nil
	})
	t.Cleanup(func() {
		w.Close()
		w.nodes.Wait()
		stop()
	})
	return w
}

// echo answers with the keys of the requests.
func echo(_ context.Context, hops int, id shard.ID, requests []shard.Request) []shard.Result {
	results := make([]shard.Result, len(requests))
	for i := range requests {
		results[i].Decision = shard.Decision{Allowed: true, Index: uint32(hops), Position: shard.Position{Shard: id},
			Limits: []shard.LimitStatus{{Key: requests[i].Entries[0].Key}}}
	}
	return results
}

func wantCode(t *testing.T, what string, results []shard.Result, want shard.Code) {
	t.Helper()
	for i := range results {
		if err := results[i].Err; err == nil || err.Code != want {
			t.Errorf("%s: result %d is %+v (%v), want code %d", what, i, results[i].Decision, err, want)
			return
		}
	}
	if len(results) == 0 {
		t.Errorf("%s: no results", what)
	}
}

func wantAllowed(t *testing.T, what string, results []shard.Result) {
	t.Helper()
	for i := range results {
		if results[i].Err != nil || !results[i].Decision.Allowed {
			t.Errorf("%s: result %d is %+v, %v", what, i, results[i].Decision, results[i].Err)
			return
		}
	}
	if len(results) == 0 {
		t.Errorf("%s: no results", what)
	}
}

func TestForwardedRequestsAreAnsweredInTheirPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, echo)
		var callers sync.WaitGroup
		for i := range 50 {
			callers.Go(func() {
				a, b := fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i)
				results := w.Submit(t.Context(), "n2", 0, shard.ID(i), []shard.Request{check(a), check(b)})
				wantAllowed(t, "forwarded", results)
				for j, key := range []string{a, b} {
					d := results[j].Decision
					if d.Limits[0].Key != key || d.Position.Shard != shard.ID(i) || d.Index != 1 {
						t.Errorf("the answer for %s is %+v", key, d)
					}
				}
			})
		}
		callers.Wait()
		if n := w.dials.Load(); n != 1 {
			t.Errorf("%d connections for one node", n)
		}
	})
}

func TestWhatIsLeftOfTheDeadlineTravels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan time.Duration, 1)
		w := newWire(t, func(ctx context.Context, hops int, id shard.ID, requests []shard.Request) []shard.Result {
			deadline, given := ctx.Deadline()
			got <- time.Until(deadline)
			if !given {
				got <- -1
			}
			<-ctx.Done()
			return echo(ctx, hops, id, requests)
		})
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		begin := time.Now()
		results := w.Submit(ctx, "n2", 0, 1, []shard.Request{check("k")})
		if took := time.Since(begin); took != 1500*time.Millisecond {
			t.Errorf("it took %v, the deadline was 1.5 s away", took)
		}
		if left := <-got; left != 1500*time.Millisecond {
			t.Errorf("the handler had %v left", left)
		}
		if err := results[0].Err; err != nil && err.Code != shard.UnknownOutcome {
			t.Errorf("after the deadline: %v", err)
		}
	})
}

func TestARequestIsForwardedTwiceAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var circle *wire
		var asked atomic.Int32
		circle = newWire(t, func(ctx context.Context, hops int, id shard.ID, requests []shard.Request) []shard.Result {
			asked.Add(1)
			return circle.Submit(ctx, "n2", hops, id, requests)
		})
		wantCode(t, "in a circle", circle.Submit(t.Context(), "n2", 0, 1, []shard.Request{check("k")}), shard.NotOwner)
		if n := asked.Load(); n != MaxHops {
			t.Errorf("it was forwarded %d times", n)
		}
	})
}

// stuck answers requests for shard 1 only when release is closed or the call ends, and all others at once.
func stuck(release <-chan struct{}) Handler {
	return func(ctx context.Context, hops int, id shard.ID, requests []shard.Request) []shard.Result {
		if id == 1 {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return echo(ctx, hops, id, requests)
	}
}

func TestAShardThatDoesNotAnswerStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := newWire(t, stuck(release))
		var callers sync.WaitGroup
		var refused, answered atomic.Int32
		for range maxCallsUnderWay {
			callers.Go(func() {
				r := w.Submit(t.Context(), "n2", 0, 1, []shard.Request{check("slow")})
				if r[0].Err == nil {
					answered.Add(1)
				} else {
					wantCode(t, "beyond its share", r, shard.Overloaded)
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		if n := refused.Load(); n != maxCallsUnderWay/2 {
			t.Errorf("%d calls of the stuck shard were refused, of %d", n, maxCallsUnderWay)
		}
		wantAllowed(t, "another shard", w.Submit(t.Context(), "n2", 0, 2, []shard.Request{check("quick")}))
		close(release)
		callers.Wait()
		if n := answered.Load(); n != maxCallsUnderWay/2 {
			t.Errorf("%d calls of the stuck shard were answered in the end", n)
		}
	})
}

func TestCallersThatGiveUpMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		dialed := make(chan struct{}) // nothing is sent until it is closed
		w := newWire(t, stuck(release))
		dial := w.dial
		w.dial = func(ctx context.Context, node string) (net.Conn, error) {
			<-dialed
			return dial(ctx, node)
		}
		flood := func(want ...shard.Code) {
			ctx, cancel := context.WithCancel(t.Context())
			var callers sync.WaitGroup
			for range maxCallsUnderWay / 2 {
				callers.Go(func() {
					err := w.Submit(ctx, "n2", 0, 1, []shard.Request{check("k")})[0].Err
					if err == nil || !slices.Contains(want, err.Code) {
						t.Errorf("given up: %v, want one of %v", err, want)
					}
				})
			}
			synctest.Wait()
			wantCode(t, "full", w.Submit(ctx, "n2", 0, 1, []shard.Request{check("k")}), shard.Overloaded)
			cancel()
			callers.Wait()
		}
		flood(shard.Overloaded) // not sent: certainly not counted
		close(dialed)
		synctest.Wait()
		flood(shard.UnknownOutcome, shard.Overloaded) // sent in the two flights allowed, or still queued
		l := w.links["n2"]
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.window.all != (load{}) || len(l.window.shards) != 0 || len(l.queue) != 0 || len(l.waiting) != 0 {
			t.Errorf("%+v is still under way", l.window)
		}
	})
}

func TestTheFateOfCallsWhoseConnectionBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		h := New(Near, func(context.Context, string) (net.Conn, error) { return near, nil })
		defer h.Close()
		var callers sync.WaitGroup
		submit := func(what string, want shard.Code) {
			callers.Go(func() {
				wantCode(t, what, h.Submit(t.Context(), "n2", 0, 1, []shard.Request{check("k")}), want)
			})
			synctest.Wait()
		}
		submit("sent and read", shard.UnknownOutcome)
		if _, _, _, err := readFrame(far, nil); err != nil {
			t.Fatal(err)
		}
		submit("being sent", shard.UnknownOutcome)
		submit("waiting to be sent", shard.Unavailable) // the previous frame blocks
		far.Close()
		callers.Wait()
		wantCode(t, "after it broke", h.Submit(t.Context(), "n2", 0, 1, []shard.Request{check("k")}), shard.Unavailable)
	})
}

func TestANodeThatCannotBeReachedIsDialedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		h := New(Near, func(context.Context, string) (net.Conn, error) {
			dials++
			return nil, fmt.Errorf("cluster: dialing n2: %w",
				&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)})
		})
		defer h.Close()
		results := h.Submit(t.Context(), "n2", 0, 1, []shard.Request{check("k")})
		if err := results[0].Err; err == nil || err.Message != "node n2 cannot be reached (connection refused); "+
			"nothing was counted" {
			t.Errorf("it says %v", err)
		}
		for range 100 {
			wantCode(t, "unreachable", h.Submit(t.Context(), "n2", 0, 1, []shard.Request{check("k")}),
				shard.Unavailable)
		}
		if dials != 1 {
			t.Errorf("it was dialed %d times at once", dials)
		}
		time.Sleep(redialAfter)
		h.Submit(t.Context(), "n2", 0, 1, []shard.Request{check("k")})
		if dials != 2 {
			t.Errorf("it was dialed %d times in all", dials)
		}
	})
}

func TestASilentNodeIsGivenUpAndAnIdleOneIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, echo)
		wantAllowed(t, "at first", w.Submit(t.Context(), "n2", 0, 1, []shard.Request{check("k")}))
		time.Sleep(time.Hour)
		wantAllowed(t, "an hour later", w.Submit(t.Context(), "n2", 0, 1, []shard.Request{check("k")}))
		if n := w.dials.Load(); n != 1 {
			t.Errorf("an idle connection was made %d times", n)
		}

		near, far := net.Pipe()
		h := New(Near, func(context.Context, string) (net.Conn, error) { return near, nil })
		defer h.Close()
		var listener sync.WaitGroup
		listener.Go(func() {
			for buffer := make([]byte, 1024); ; {
				if _, err := far.Read(buffer); err != nil {
					return
				}
			}
		})
		begin := time.Now()
		wantCode(t, "silent", h.Submit(t.Context(), "n2", 0, 1, []shard.Request{check("k")}), shard.UnknownOutcome)
		if took := time.Since(begin); took != maxMissed*beatEvery {
			t.Errorf("the silent node was given up after %v", took)
		}
		listener.Wait()
	})
}

func TestANodeThatStopsAnswersWhatItBeganAndNamesWhatItDidNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := newWire(t, stuck(release))
		var callers sync.WaitGroup
		submit := func(id shard.ID, see func([]shard.Result)) {
			callers.Go(func() { see(w.Submit(t.Context(), "n2", 0, id, []shard.Request{check("k")})) })
			synctest.Wait()
		}
		submit(1, func(r []shard.Result) { wantAllowed(t, "begun", r) })
		w.stop()
		synctest.Wait() // the server has received it
		submit(2, func(r []shard.Result) { wantCode(t, "not begun", r, shard.Draining) })
		close(release)
		callers.Wait()
		if err := <-w.failed; err != nil {
			t.Errorf("the connection ended with %v", err)
		}
	})
}

// A node that ends a connection in good order may run on: it is asked again at once, and no more often than any other.
func TestANodeThatSaidGoodbyeIsDialedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, echo)
		ask := func() []shard.Result { return w.Submit(t.Context(), "n2", 0, 1, []shard.Request{check("k")}) }
		wantAllowed(t, "at first", ask())
		time.Sleep(redialAfter)
		w.stop() // all connections that are made from now on end at once, too
		synctest.Wait()
		for range 100 {
			// it may begin the first one before it says goodbye
			if err := ask()[0].Err; err != nil && err.MaybeApplied() {
				t.Errorf("it says goodbye again, and a call ends with %v", err)
			}
		}
		if n := w.dials.Load(); n != 2 {
			t.Errorf("it was dialed %d times, want 2", n)
		}
	})
}

func TestAStoppingNodeWaitsNoLongerThanItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Time, 1)
		w := newWire(t, func(ctx context.Context, hops int, id shard.ID, requests []shard.Request) []shard.Result {
			<-ctx.Done()
			ended <- time.Now()
			return echo(ctx, hops, id, requests)
		})
		var caller sync.WaitGroup
		caller.Go(func() { w.Submit(t.Context(), "n2", 0, 1, []shard.Request{check("k")}) })
		synctest.Wait()
		begin := time.Now()
		w.stop()
		if took := (<-ended).Sub(begin); took != drainWithin {
			t.Errorf("the call was ended after %v", took)
		}
		caller.Wait()
	})
}

func TestANodeBoundsWhatOneConnectionMayAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		near, far := net.Pipe()
		var node sync.WaitGroup
		node.Go(func() { Serve(t.Context(), far, stuck(release)) })
		body, invalid := encodeCall(1, 1, []shard.Request{check("k")})
		if invalid != nil {
			t.Fatal(invalid)
		}
		frame := beginFrame(nil, frameCalls)
		for i := range maxCallsUnderWay/2 + 1 {
			frame = append(appendCallHead(frame, uint64(i+1), 0), body...)
		}
		if _, err := near.Write(sealFrame(frame)); err != nil {
			t.Fatal(err)
		}
		_, records, _, err := readFrame(near, nil)
		answers, bad := decodeAnswers(records)
		if err != nil || bad != nil || len(answers) != 1 || answers[0].number != maxCallsUnderWay/2+1 {
			t.Fatalf("answers: %+v, %v, %v", answers, err, bad)
		}
		wantCode(t, "one too many", answers[0].results, shard.Overloaded)
		near.Close()
		node.Wait()
	})
}

// If window room were released before the answer is written, a dialer that does not read would not be bounded.
func TestADialerThatDoesNotReadIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun atomic.Int32
		long := strings.Repeat("k", 100_000)
		near, far := net.Pipe()
		var node sync.WaitGroup
		node.Go(func() {
			Serve(t.Context(), far, func(_ context.Context, hops int, id shard.ID,
				requests []shard.Request) []shard.Result {
				begun.Add(1)
				return echo(t.Context(), hops, id, []shard.Request{check(long)})
			})
		})
		body, invalid := encodeCall(1, 1, []shard.Request{check("k")})
		if invalid != nil {
			t.Fatal(invalid)
		}
		taken := 0
		for ; taken < 3*maxCallsUnderWay; taken++ {
			frame := append(appendCallHead(beginFrame(nil, frameCalls), uint64(taken+1), 0), body...)
			near.SetWriteDeadline(time.Now().Add(time.Millisecond))
			if _, err := near.Write(sealFrame(frame)); err != nil {
				break // the node has stopped reading
			}
			synctest.Wait()
		}
		// One frame of answers is being written, and its share of the window is free again.
		if n, most := int(begun.Load()), (maxBytesUnderWay/2+2*maxFrame)/len(long); n > most || n < most/2 {
			t.Errorf("%d calls with an answer of %d bytes were begun, %d at most fit", n, len(long), most)
		}
		if n, most := taken-int(begun.Load()), maxCallsUnderWay+1; n > most || n < maxCallsUnderWay {
			t.Errorf("%d calls were taken to be refused, of %d at most", n, most)
		}
		near.Close()
		node.Wait()
	})
}

func TestWhatWasAnsweredAndReadHoldsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("k", 1_000_000)
		w := newWire(t, func(_ context.Context, hops int, id shard.ID, requests []shard.Request) []shard.Result {
			return echo(t.Context(), hops, id, slices.Repeat([]shard.Request{check(long)}, len(requests)))
		})
		for range 100 { // 600 MB; every answer has two parts
			six := slices.Repeat([]shard.Request{check("k")}, 6)
			wantAllowed(t, "one after the other", w.Submit(t.Context(), "n2", 0, 1, six))
		}
	})
}

// A request that the other node cannot read, because it is of another version, ends neither other requests nor the
// connection.
func TestARequestThatTheOwnerCannotReadIsAnsweredAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, echo)
		strange := check("strange")
		strange.Entries[0].Limits = []policy.Limit{{Name: "a name is not enough for a check"}}
		for range 3 {
			var callers sync.WaitGroup
			for range 5 {
				callers.Go(func() {
					results := w.Submit(t.Context(), "n2", 0, 3, []shard.Request{check("a"), strange, check("b")})
					wantAllowed(t, "beside it", []shard.Result{results[0], results[2]})
					wantCode(t, "the strange one", results[1:2], shard.Unreadable)
					if key := results[2].Decision.Limits[0].Key; key != "b" {
						t.Errorf("the answer behind it is that for %q", key)
					}
				})
				callers.Go(func() {
					wantCode(t, "alone in its call", w.Submit(t.Context(), "n2", 0, 3, []shard.Request{strange}),
						shard.Unreadable)
				})
				callers.Go(func() {
					wantAllowed(t, "of another", w.Submit(t.Context(), "n2", 0, 3, []shard.Request{check("c")}))
				})
			}
			callers.Wait()
		}
		if n := w.dials.Load(); n != 1 {
			t.Errorf("%d connections for one node", n)
		}
	})
}

func TestAConnectionThatSpeaksNonsenseEnds(t *testing.T) {
	again := sealFrame(callsFrame(t, 1, 0, check("k")))
	for name, bytes := range map[string][]byte{
		"no frame":           []byte("GET / HTTP/1.1\r\n\r\n"),
		"answers, not asked": sealFrame(beginFrame(nil, frameAnswers)),
		"a number twice":     append(again, again...),
	} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			ended := make(chan error, 1)
			go func() { ended <- Serve(t.Context(), far, echo) }()
			go near.Write(bytes)
			go func() {
				for b := make([]byte, 1024); ; {
					if _, err := near.Read(b); err != nil {
						return
					}
				}
			}()
			if err := <-ended; !errors.Is(err, errMalformedFrame) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, stuck(nil))
		var caller sync.WaitGroup
		caller.Go(func() {
			wantCode(t, "closed meanwhile", w.Submit(t.Context(), "n2", 0, 1, []shard.Request{check("k")}),
				shard.UnknownOutcome)
		})
		synctest.Wait()
		w.Close()
		caller.Wait()
		wantCode(t, "closed before", w.Submit(t.Context(), "n2", 0, 1, []shard.Request{check("k")}), shard.Unavailable)
		wantCode(t, "another node", w.Submit(t.Context(), "n3", 0, 1, []shard.Request{check("k")}), shard.Unavailable)
	})
}

// noLeaks fails a test that leaves goroutines behind. In a synctest bubble, the bubble itself does that.
func noLeaks(t testing.TB) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// counted counts the frames written to a connection: each write is one frame.
type counted struct {
	net.Conn
	writes *atomic.Int64
}

func (c counted) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// slow is a connection with slow writes.
type slow struct {
	net.Conn
	takes time.Duration
}

func (s slow) Write(b []byte) (int, error) {
	time.Sleep(s.takes)
	return s.Conn.Write(b)
}

// loopback returns a Hop to a handler over TCP; frames counts the frames of the dialer.
func loopback(t testing.TB, handler Handler) (h *Hop, frames *atomic.Int64) {
	noLeaks(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var nodes sync.WaitGroup
	nodes.Go(func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			nodes.Go(func() { Serve(context.Background(), conn, handler) })
		}
	})
	frames = new(atomic.Int64)
	h = New(Near, func(ctx context.Context, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
		if err != nil {
			return nil, err
		}
		return counted{conn, frames}, nil
	})
	t.Cleanup(func() {
		h.Close()
		l.Close()
		nodes.Wait()
	})
	return h, frames
}

// drive makes callers ask one request after another, until n requests were made.
func drive(t testing.TB, h *Hop, callers, n int) {
	var left atomic.Int64
	left.Store(int64(n))
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
			defer cancel()
			requests := []shard.Request{check(fmt.Sprintf("user:%d", i))}
			for left.Add(-1) >= 0 {
				if r := h.Submit(ctx, "n2", 0, shard.ID(i%4), requests); r[0].Err != nil {
					t.Error(r[0].Err)
					return
				}
			}
		})
	}
	group.Wait()
}

func TestFramesGrowWithTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled atomic.Int64
		w := newWire(t, func(ctx context.Context, hops int, id shard.ID, requests []shard.Request) []shard.Result {
			handled.Add(1)
			return echo(ctx, hops, id, requests)
		})
		w.takes = time.Millisecond
		const calls = 5000
		drive(t, w.Hop, 256, calls)
		if mean := float64(calls) / float64(w.frames.Load()); mean <= 20 {
			t.Errorf("a frame carries %.1f calls", mean)
		}
		if mean := float64(calls) / float64(handled.Load()); mean <= 5 { // with four shards
			t.Errorf("%.1f calls are handled together", mean)
		}
	})
}

func BenchmarkHop(b *testing.B) {
	for _, callers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			h, frames := loopback(b, echo)
			drive(b, h, callers, callers)
			frames.Store(0)
			b.ReportAllocs()
			b.ResetTimer()
			drive(b, h, callers, b.N)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
			b.ReportMetric(float64(b.N)/float64(max(frames.Load(), 1)), "calls/frame")
		})
	}
}

// committing is an owner that commits in about a millisecond: requests that arrive meanwhile are answered with the next
// commit.
func committing(t testing.TB) Handler {
	var mu sync.Mutex
	committed := make(chan struct{}) // closed at the next commit
	ctx, stop := context.WithCancel(context.Background())
	var owner sync.WaitGroup
	owner.Go(func() {
		for commits := time.NewTicker(time.Millisecond); ctx.Err() == nil; <-commits.C {
			mu.Lock()
			close(committed)
			committed = make(chan struct{})
			mu.Unlock()
		}
	})
	t.Cleanup(func() { stop(); owner.Wait() })
	return func(ctx context.Context, hops int, id shard.ID, requests []shard.Request) []shard.Result {
		mu.Lock()
		next := committed
		mu.Unlock()
		<-next
		return echo(ctx, hops, id, requests)
	}
}

func BenchmarkHopToAnOwnerThatCommits(b *testing.B) {
	h, _ := loopback(b, committing(b))
	drive(b, h, 256, 256)
	before := h.Stats()
	b.ResetTimer()
	drive(b, h, 256, b.N)
	after := h.Stats()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(float64(after.Requests-before.Requests)/float64(max(after.Frames-before.Frames, 1)),
		"requests/frame")
}

func TestStatsCountWhatWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, echo)
		for range 3 {
			w.Submit(t.Context(), "n2", 0, 1, []shard.Request{check("a"), check("b")})
		}
		time.Sleep(time.Minute) // beats are not counted
		if got, want := w.Stats(), (Stats{Calls: 3, Requests: 6, Frames: 3}); got != want {
			t.Errorf("counted were %+v, want %+v", got, want)
		}
	})
}

func check(keys ...string) shard.Request {
	r := shard.Request{Op: shard.Check, Namespace: "default"}
	for _, key := range keys {
		r.Entries = append(r.Entries, shard.Entry{Policy: "p", Key: key, Cost: 1})
	}
	return r
}

// Calls sent after a goodbye are never begun, without any report: so nothing is sent after it.
func TestNothingLeavesAfterAGoodbye(t *testing.T) {
	l := newLink("n2", Near, new(counts))
	begun, sent, queued := newCall(), newCall(), newCall()
	for _, c := range []*call{begun, sent, queued} {
		if err := l.enqueue(c); err != nil {
			t.Fatal(err)
		}
		if c != queued {
			l.gather(nil)
		}
	}
	if l.goodbye(binary.AppendUvarint(nil, begun.number)) == nil {
		t.Error("the link goes on")
	}
	if frame := l.gather(nil); len(frame) > frameHead+1 {
		t.Errorf("a frame of %d bytes left after the goodbye", len(frame))
	}
	l.end(errors.New("the connection ended"))
	for c, want := range map[*call]bool{begun: true, sent: false, queued: false} {
		<-c.done
		if err := c.results[0].Err; err == nil || err.MaybeApplied() != want {
			t.Errorf("begun %v, sent %v: %v", c == begun, c == sent, err)
		}
	}
	if err := l.enqueue(newCall()); err == nil || err.MaybeApplied() {
		t.Errorf("after the goodbye: %v", err)
	}
}

func newCall() *call { return &call{requests: 1, body: []byte{1}, done: make(chan struct{})} }
