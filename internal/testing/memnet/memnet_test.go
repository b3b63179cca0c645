package memnet

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// bubble runs a test in virtual time, with the names a/1 and b/1 connected.
func bubble(t *testing.T, f func(t *testing.T, n *Net, a, b net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		a, b, err := n.pair("a/1", "b/1")
		if err != nil {
			t.Fatal(err)
		}
		f(t, n, a, b)
		a.Close()
		b.Close()
	})
}

// pair makes a new connection between two names.
func (n *Net) pair(from, to string) (near, far net.Conn, err error) {
	target := n.Listen(to)
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := target.Accept()
		accepted <- c
	}()
	near, err = n.Listen(from).Dial(to, time.Second)
	target.Close()
	return near, <-accepted, err
}

func mustSend(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// mustArrive reads a text and returns how long that took.
func mustArrive(t *testing.T, c net.Conn, want string) time.Duration {
	t.Helper()
	started, b := time.Now(), make([]byte, len(want))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
		t.Fatalf("read %q, %v; want %q", b, err, want)
	}
	return time.Since(started)
}

func mustStall(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v; want silence", n, err)
	}
	c.SetReadDeadline(time.Time{})
}

// A cut of one direction is silent: neither end gets an error, the other direction works, and the data arrives once the
// cut is healed.
func TestCutStallsOneDirection(t *testing.T) {
	bubble(t, func(t *testing.T, n *Net, a, b net.Conn) {
		n.Cut("a/", "b/1")
		mustSend(t, a, "held")
		mustStall(t, b)
		mustSend(t, b, "through")
		mustArrive(t, a, "through")
		n.Heal()
		mustArrive(t, b, "held")
	})
}

// Through a cut an end does not learn that the other end was closed.
func TestCloseDoesNotPassACut(t *testing.T) {
	bubble(t, func(t *testing.T, n *Net, a, b net.Conn) {
		n.Cut("a", "b")
		mustSend(t, a, "last")
		a.Close()
		mustStall(t, b)
		mustSend(t, b, "to nobody")
		n.Heal()
		mustArrive(t, b, "last")
		if _, err := b.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("after the end: %v", err)
		}
		if _, err := io.WriteString(b, "x"); err == nil {
			t.Error("wrote to an end that was closed")
		}
	})
}

// A stalled peer accepts one window of bytes and no more.
func TestWriterWaitsForRoom(t *testing.T) {
	bubble(t, func(t *testing.T, n *Net, a, b net.Conn) {
		n.Cut("a", "b")
		mustSend(t, a, string(make([]byte, windowBytes)))
		a.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := a.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("beyond the window: %v", err)
		}
	})
}

func TestBreakEndsConnections(t *testing.T) {
	for what, cut := range map[string]func(*Net){
		"break":      func(n *Net) { n.Break("b", "a") },
		"isolation":  func(n *Net) { n.Isolate("b/1") },
		"everything": func(n *Net) { n.Break("", "") },
	} {
		bubble(t, func(t *testing.T, n *Net, a, b net.Conn) {
			cut(n)
			for _, c := range []net.Conn{a, b} {
				if _, err := c.Read(make([]byte, 1)); err == nil {
					t.Errorf("%s: a connection lives", what)
				}
			}
			n.Listen("b/1")
			if _, err := n.Listen("a/1").Dial("b/1", time.Second); err == nil {
				t.Errorf("%s: connected", what)
			}
			n.Heal()
			a2, b2, err := n.pair("a/1", "b/1")
			if err != nil {
				t.Fatal(err)
			}
			mustSend(t, a2, "again")
			mustArrive(t, b2, "again")
			a2.Close()
			b2.Close()
		})
	}
}

// Isolate applies to exactly one name, and not to names that begin with it.
func TestIsolateIsExact(t *testing.T) {
	bubble(t, func(t *testing.T, n *Net, a, b net.Conn) {
		n.Isolate("b")
		mustSend(t, a, "through")
		mustArrive(t, b, "through")
	})
}

// Through a cut of either direction no connection is made, and the dialer learns of it only at its timeout.
func TestDialThroughACut(t *testing.T) {
	for _, direction := range [][2]string{{"a", "b"}, {"b", "a"}} {
		synctest.Test(t, func(t *testing.T) {
			n := New()
			n.Listen("b")
			n.Cut(direction[0], direction[1])
			started := time.Now()
			if _, err := n.Listen("a").Dial("b", 3*time.Second); err == nil || time.Since(started) != 3*time.Second {
				t.Errorf("cut from %s to %s: %v after %v", direction[0], direction[1], err, time.Since(started))
			}
		})
	}
}

func TestDelayKeepsTheOrder(t *testing.T) {
	bubble(t, func(t *testing.T, n *Net, a, b net.Conn) {
		n.Delay("a", "", 30*time.Millisecond)
		mustSend(t, a, "one")
		n.Delay("a", "b", 0)
		mustSend(t, a, "two")
		if took := mustArrive(t, b, "onetwo"); took != 30*time.Millisecond {
			t.Errorf("arrived after %v", took)
		}
		n.Delay("b", "a", time.Second)
		mustSend(t, b, "back")
		if took := mustArrive(t, a, "back"); took != time.Second {
			t.Errorf("arrived after %v", took)
		}
	})
}

func TestLossIsADelay(t *testing.T) {
	bubble(t, func(t *testing.T, n *Net, a, b net.Conn) {
		n.Lose("a", "b", 50)
		var late int
		for range 100 {
			mustSend(t, a, "x")
			if mustArrive(t, b, "x") > 0 {
				late++
			}
		}
		if late < 30 || late > 70 {
			t.Errorf("%d of 100 writes came late, about half should", late)
		}
	})
}
