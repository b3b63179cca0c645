package connlimit

import (
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// Refusal is the text for a refused connection. Without a text the connection is only closed.
type Refusal struct {
	Text []byte
	// AfterRequest delays the text for a moment until the client sends something: an HTTP client takes an answer before
	// its request for a fault of the connection.
	AfterRequest bool
}

// refuse reports a refused connection. It writes few log lines, so that unauthenticated clients cannot fill the disk.
// The caller must not hold mu.
func (l *Limit) refuse(why string, detail ...any) {
	l.config.Observer.Refused(l.config.Port, why)
	left, ok := l.lines.Allow("", l.config.Now())
	if !ok {
		return
	}
	l.mu.Lock()
	open := len(l.conns)
	l.mu.Unlock()
	l.config.Logger.Warn("a connection was refused", append([]any{"port", l.config.Port, "why", why, "open", open,
		"most", l.config.Most, "unsaid", left}, detail...)...)
}

// refusedConn is a refused connection. It gets the reason and stays open for a short time until its client has hung up.
// Data sent to a closed connection is answered with a reset, which the client would take for the fate of its request.
type refusedConn struct {
	*net.TCPConn
	text []byte
	once sync.Once // of tell: its goroutine and dismiss may both call it
}

// turnAway sends a connection the reason for its refusal, if it can, and closes it.
func (l *Limit) turnAway(c net.Conn, refusal Refusal) {
	tcp, ok := c.(*net.TCPConn)
	if !ok || len(refusal.Text) == 0 {
		c.Close()
		return
	}
	it := &refusedConn{TCPConn: tcp, text: refusal.Text}
	l.mu.Lock()
	l.leaving = append(l.leaving, it)
	l.mu.Unlock()
	l.dismiss(min(leavingMost, max(1, l.config.Most/16)))
	go func() {
		if refusal.AfterRequest {
			it.SetReadDeadline(time.Now().Add(l.patient))
			it.Read(make([]byte, 1))
		}
		it.tell()
		it.SetReadDeadline(time.Now().Add(l.patient))
		io.Copy(io.Discard, it.TCPConn)
		it.Close()
		l.mu.Lock()
		if i := slices.Index(l.leaving, it); i >= 0 {
			l.leaving = slices.Delete(l.leaving, i, i+1)
		}
		l.mu.Unlock()
	}()
}

// dismiss closes the oldest leaving connections until at most most are left.
func (l *Limit) dismiss(most int) {
	l.mu.Lock()
	n := max(0, len(l.leaving)-most)
	gone := slices.Clone(l.leaving[:n])
	l.leaving = slices.Delete(l.leaving, 0, n)
	l.mu.Unlock()
	for _, it := range gone {
		it.tell()
		it.Close()
	}
}

// tell writes the refusal and closes the sending side.
func (it *refusedConn) tell() {
	it.once.Do(func() {
		it.SetWriteDeadline(time.Now().Add(refuseFor)) // the text fits into any socket's buffer
		it.Write(it.text)
		it.CloseWrite()
	})
}
