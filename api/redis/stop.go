package redis

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/stint-io/stint/internal/edge/connlimit"
)

const (
	// quietFor is the time after Close in which commands are still decided: one may be on its way, and closing the
	// connection would leave its caller in doubt. A connection that is quiet for that long is closed.
	quietFor = 100 * time.Millisecond
	// lingerMost bounds the wait for a client that was turned away and keeps sending.
	lingerMost = 2 * time.Second
)

// stoppingReply is the reply to a command that came too late.
var stoppingReply = appendError(nil, codeTryAgain, "the node is stopping; nothing was counted; connect to another one")

// Close ends all connections and waits for them. The listener must be closed first. A connection that is quiet for a
// moment is closed after its replies; one that keeps sending is turned away after that moment. If ctx ends first, all
// connections are closed at once; the calls under way still end.
func (s *Server) Close(ctx context.Context) {
	s.quiet.Store(true)
	s.end()
	s.mu.Lock()
	for c := range s.conns {
		c.nc.SetReadDeadline(time.Now().Add(quietFor))
	}
	s.mu.Unlock()
	s.loops.close()
	enough := time.AfterFunc(quietFor, func() { s.refusing.Store(true) })
	defer enough.Stop()
	stopped := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			c.cut()
		}
	})
	defer stopped()
	s.wait.Wait()
	s.queues.calls.Wait()
}

// cut ends a connection without a TLS alert, which would wait for a client that reads nothing.
func (c *conn) cut() {
	if secure, ok := c.nc.(*tls.Conn); ok {
		secure.NetConn().Close()
		return
	}
	connlimit.HangUp(c.nc)
}

// turnAway answers late commands, after the replies to the commands in time, that they were not counted, and so an
// incomplete one.
func (c *conn) turnAway() {
	<-c.free
	for whole := !c.ended; whole && c.from < c.to; {
		args, n, err := parse(c.in[c.from:c.to], c.args[:0])
		c.args = args
		c.from += n
		if whole = err == nil && n > 0; !whole || len(args) > 0 {
			c.say(nil, stoppingReply).code = codeTryAgain
		}
	}
	if len(c.round.commands) == 0 {
		c.free <- struct{}{}
		return
	}
	c.round.begin()
}

// linger shuts down the sending side, and discards input until the client hangs up or is quiet. A socket that is closed
// with unread input would drop the replies that are still on their way.
func (c *conn) linger() {
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	last := time.Now().Add(lingerMost)
	for now := time.Now(); now.Before(last); now = time.Now() {
		c.nc.SetReadDeadline(now.Add(min(quietFor, last.Sub(now))))
		if _, err := c.nc.Read(c.in); err != nil {
			return
		}
	}
}
