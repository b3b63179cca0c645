package redis

import (
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/edge/connlimit"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
)

// resting is the number of connections that rest.
func resting(s *Server) (n int) {
	for _, l := range s.loops {
		l.mu.Lock()
		n += len(l.conns)
		l.mu.Unlock()
	}
	return n
}

// restingClient is a client whose connection rests, and whose round has ended: its reply is written before it ends.
func restingClient(t *testing.T, s *Server) *client {
	before := resting(s)
	c := dialTCP(t, s)
	wants(t, c, "GET x", "") // a key tells that the table is known
	await.Until(t, "the connection rests", func() bool { return resting(s) > before && len(connOf(s, c).free) == 1 })
	return c
}

func TestARestingConnectionIsAnswered(t *testing.T) {
	w := newWorld(t)
	s, _ := serve(t, w, nil)
	c, other := restingClient(t, s), restingClient(t, s)
	for n := range 100 {
		wants(t, c, "INCR whole", fmt.Sprintf(":%d", n+1))
		wants(t, other, "PING", "+PONG")
	}
	if n := resting(s); n != 2 {
		t.Errorf("%d connections rest", n)
	}
	c.send("INCR ha")
	c.send("lf\r\nINCR ha")
	wants(t, other, "PING", "+PONG")
	if c.send("lf\r\n"); c.reply() != ":1" || c.reply() != ":2" {
		t.Error("commands in parts are not answered")
	}
	const many = 3*roundMost + 7 // more than the loop reads at once, and than a round takes
	c.send(strings.Repeat("INCR many\r\n", many))
	for n := range many {
		if got := c.reply(); got != fmt.Sprintf(":%d", n+1) {
			t.Fatalf("the %d-th of many: %s", n+1, got)
		}
	}
	wants(t, c, "INCR whole", ":101")
	await.Until(t, "both rest again", func() bool { return resting(s) == 2 })
}

// The loop reads no further command of a connection whose round is under way: it would wait for it, and all others
// with it.
func TestALoopWaitsForNoRound(t *testing.T) {
	w := newWorld(t)
	s, _ := serve(t, w, nil)
	s.loops = s.loops[:1]
	busy, other := restingClient(t, s), restingClient(t, s)
	stuck := make(chan struct{})
	w.stuck[0] = stuck
	busy.send("INCR " + keyOn(w, 0) + "\r\n")
	l := s.queues.of(0)
	await.Until(t, "a call is under way", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.calls > 0 })
	busy.send("PING\r\n")
	await.Until(t, "the busy connection waits by itself", func() bool { return resting(s) == 1 })
	wants(t, other, "PING", "+PONG")
	close(stuck)
	if first, second := busy.reply(), busy.reply(); first != ":1" || second != "+PONG" {
		t.Errorf("%s, %s", first, second)
	}
}

// A stranger is read under a deadline, and a command may wait for the cluster's table: neither may rest.
func TestNoConnectionRestsTooSoon(t *testing.T) {
	text, r := token(t, "web", "ops=admin")
	s, _ := guarded(t, newWorld(t), auth.Public, r)
	c := dialTCP(t, s)
	still := func(why string) { // one that rested would be answered by the loop, and still be there
		t.Helper()
		for range 3 {
			c.ask("PING")
		}
		if resting(s) != 0 {
			t.Errorf("a connection rests %s", why)
		}
	}
	still("before it has authenticated")
	wants(t, c, "AUTH "+text, "+OK")
	still("before the table is known")
	wants(t, c, "INCR x", ":1")
	await.Until(t, "the connection rests", func() bool { return resting(s) == 1 })
	wants(t, c, "RESET", "+RESET")
	still("although it has authenticated no more")
}

// However a connection ends, its goroutine hears of it, and its place is free.
func TestARestingConnectionEnds(t *testing.T) {
	for how, end := range map[string]func(*Server, *client){
		"by its client": func(_ *Server, c *client) { c.conn.Close() },
		"by QUIT":       func(_ *Server, c *client) { wants(c.t, c, "QUIT", "+OK") },
		"by a fault":    func(_ *Server, c *client) { wants(c.t, c, "*1\r\n$x", "-ERR") },
		"by the port's bound": func(s *Server, _ *client) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for it := range s.conns {
				connlimit.HangUp(it.nc)
			}
		},
		"by a stop": func(s *Server, c *client) { s.Close(c.t.Context()) },
	} {
		t.Run(how, func(t *testing.T) {
			s, _ := serve(t, newWorld(t), nil)
			c := restingClient(t, s)
			end(s, c)
			if _, err := c.in.ReadByte(); err == nil || how != "by its client" && err != io.EOF {
				t.Errorf("its client hears %v", err)
			}
			await.Until(t, "the connection is gone", func() bool { return s.open.Load() == 0 && resting(s) == 0 })
		})
	}
}

// heldRouter holds a loop up while the loop asks it whether a denial may be repeated.
type heldRouter struct {
	*world
	asked, goOn chan struct{}
}

func (r *heldRouter) Repeat(*shard.Request, *shard.Decision) bool {
	r.asked <- struct{}{}
	<-r.goOn
	return false
}

// connOf returns the server's end of a connection.
func connOf(s *Server, c *client) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	for it := range s.conns {
		if it.nc.RemoteAddr().String() == c.conn.LocalAddr().String() {
			return it
		}
	}
	return nil
}

// A goroutine may find that a connection was reset, as one that writes a reply, and end it before the loop has heard of
// the reset. The loop hears of it all the same: it could not give back a connection whose socket is closed.
func TestARestingConnectionThatWasResetIsGivenBack(t *testing.T) {
	r := &heldRouter{newWorld(t), make(chan struct{}), make(chan struct{})}
	s, _ := serve(t, r.world, func(c *Config) { c.Router = r })
	s.loops = s.loops[:1]
	lost, other := restingClient(t, s), restingClient(t, s)
	other.send("STINT.CHECK per-ip k\r\n")
	await.Receive(t, "the loop is held up", r.asked)
	c := connOf(s, lost)
	lost.conn.(*net.TCPConn).SetLinger(0)
	lost.conn.Close()
	await.Until(t, "it was reset", func() (reset bool) {
		const closed = 7 // TCP_CLOSE of Linux, the first byte of TCP_INFO
		c.raw.Control(func(fd uintptr) {
			info, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_INFO)
			reset = err == nil && info&0xff == closed
		})
		return reset
	})
	connlimit.HangUp(c.nc)
	close(r.goOn)
	await.Until(t, "the connection is gone", func() bool { return s.open.Load() == 1 && resting(s) == 1 })
}

// An event may tell of nothing, as one of urgent data. The loop waits for no bytes: all others would wait with it.
func TestALoopWaitsForNoBytes(t *testing.T) {
	s, _ := serve(t, newWorld(t), nil)
	s.loops = s.loops[:1]
	c := restingClient(t, s)
	rests := make(chan bool, 1)
	inTurn := func() { s.loops[0].find(nil, nil) } // with the loop, which waits, as nothing comes
	go func() {
		inTurn()
		rested := proceed(connOf(s, c), newSocketReader())
		inTurn()
		rests <- rested
	}()
	if !await.Receive(t, "it waits for nothing", rests) {
		t.Error("a connection of which nothing has come is given back")
	}
	wants(t, c, "PING", "+PONG")
}
