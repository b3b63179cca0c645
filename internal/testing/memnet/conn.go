package memnet

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// conn is one end of a connection.
type conn struct {
	net     *Net
	out, in *half // at the other end they have changed places
}

func (c *conn) Read(b []byte) (int, error)  { return c.in.read(b) }
func (c *conn) Write(b []byte) (int, error) { return c.out.write(b) }
func (c *conn) LocalAddr() net.Addr         { return addr(c.out.from) }
func (c *conn) RemoteAddr() net.Addr        { return addr(c.out.to) }

// Close implements net.Conn. The other end reads the data under way, and then EOF.
func (c *conn) Close() error {
	c.net.forget(c)
	c.out.finish()
	c.in.abandon()
	return nil
}

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.update(func() { c.in.readBy = t })
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.update(func() { c.out.writeBy = t })
	return nil
}

// windowBytes is how many bytes may be under way in one direction of a connection; a writer waits beyond that.
const windowBytes = 1 << 20

// half is one direction of a connection.
type half struct {
	net      *Net
	from, to string

	mu              sync.Mutex    // may be taken with Net.mu held, and Net.mu never with it held
	underway        []chunk       // in the order of due
	bytes           int           // underway and not yet read
	due             time.Time     // of the newest chunk: no chunk overtakes another
	readBy, writeBy time.Time     // deadlines; zero if none
	finished        bool          // the writer closed its end
	abandoned       bool          // the reader closed its end
	broken          bool          // both ends get ECONNRESET
	changed         chan struct{} // closed and replaced whenever a field above changes
}

// chunk is the data of one write; without bytes it is EOF.
type chunk struct {
	due   time.Time
	bytes []byte
}

func newHalf(n *Net, from, to string) *half {
	return &half{net: n, from: from, to: to, changed: make(chan struct{})}
}

// update changes a field and wakes the waiting readers and writers.
func (h *half) update(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *half) reset()   { h.update(func() { h.broken = true }) }
func (h *half) abandon() { h.update(func() { h.abandoned = true }) }

// finish sends EOF behind the data under way. It does so once.
func (h *half) finish() {
	took := h.net.transit(h.from, h.to)
	h.update(func() {
		if !h.finished {
			h.finished = true
			h.send(took, nil)
		}
	})
}

// send puts a chunk on its way; h.mu must be held.
func (h *half) send(took time.Duration, b []byte) {
	if due := time.Now().Add(took); due.After(h.due) {
		h.due = due
	}
	h.underway = append(h.underway, chunk{h.due, b})
	h.bytes += len(b)
}

func (h *half) read(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	return h.until(func(r *rules, now time.Time) (int, time.Time, error) {
		switch {
		case h.abandoned:
			return 0, time.Time{}, net.ErrClosed
		case h.broken:
			return 0, time.Time{}, syscall.ECONNRESET
		case passed(h.readBy, now):
			return 0, time.Time{}, os.ErrDeadlineExceeded
		case r.stalled(h.from, h.to) || len(h.underway) == 0:
			return 0, h.readBy, nil
		case h.underway[0].due.After(now):
			return 0, earlier(h.underway[0].due, h.readBy), nil
		case len(h.underway[0].bytes) == 0:
			return 0, time.Time{}, io.EOF
		}
		return h.take(b), time.Time{}, nil
	})
}

// take reads bytes that have arrived; h.mu must be held.
func (h *half) take(b []byte) int {
	first := &h.underway[0]
	n := copy(b, first.bytes)
	first.bytes = first.bytes[n:]
	h.bytes -= n
	if len(first.bytes) == 0 {
		h.underway = h.underway[1:]
	}
	return n
}

func (h *half) write(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	took := h.net.transit(h.from, h.to)
	return h.until(func(r *rules, now time.Time) (int, time.Time, error) {
		switch {
		case h.finished:
			return 0, time.Time{}, net.ErrClosed
		case h.broken:
			return 0, time.Time{}, syscall.ECONNRESET
		case h.abandoned && !r.stalled(h.from, h.to) && !r.stalled(h.to, h.from): // the reader's reset got here
			return 0, time.Time{}, syscall.EPIPE
		case passed(h.writeBy, now):
			return 0, time.Time{}, os.ErrDeadlineExceeded
		case h.bytes >= windowBytes:
			return 0, h.writeBy, nil
		}
		h.send(took, append([]byte(nil), b...))
		return len(b), time.Time{}, nil
	})
}

// until repeats the attempt, at every change and at the time that the attempt asked for, until it moves bytes or fails.
// The attempt is made with h.mu held.
func (h *half) until(attempt func(*rules, time.Time) (int, time.Time, error)) (int, error) {
	for {
		r := h.net.rules.Load()
		h.mu.Lock()
		n, again, err := attempt(r, time.Now())
		changed := h.changed
		if n > 0 {
			close(h.changed)
			h.changed = make(chan struct{})
		}
		h.mu.Unlock()
		if n > 0 || err != nil {
			return n, err
		}
		pause(changed, r.changed, again)
	}
}

// pause waits for either channel or until a time; the zero time means no time limit.
func pause(changed, rules <-chan struct{}, until time.Time) {
	var over <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-changed:
	case <-rules:
	case <-over:
	}
}

func passed(deadline, now time.Time) bool { return !deadline.IsZero() && !now.Before(deadline) }

func earlier(a, b time.Time) time.Time {
	if b.IsZero() || a.Before(b) {
		return a
	}
	return b
}
