package redis

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// keyOn returns a key that lives on a shard.
func keyOn(w *world, id shard.ID) string {
	for i := 0; ; i++ {
		if key := "key" + strconv.Itoa(i); shard.Of(slot.Even(w.shards), shard.DefaultNamespace, key) == id {
			return key
		}
	}
}

func TestAShardThatAnswersNothingHoldsUpNobodyElse(t *testing.T) {
	w := newWorld(t)
	w.stuck[1] = make(chan struct{})
	s, _ := serve(t, w, nil)
	waits := dialTCP(t, s)
	waits.send("INCR " + keyOn(w, 2) + "\r\nINCR " + keyOn(w, 1) + "\r\n")
	other := dialTCP(t, s)
	for i := range 10 {
		if got := other.ask("INCR " + keyOn(w, 0)); got != fmt.Sprintf(":%d", i+1) {
			t.Fatal(got)
		}
	}
	close(w.stuck[1])
	if first, second := waits.reply(), waits.reply(); first != ":1" || second != ":1" {
		t.Errorf("%s, %s", first, second)
	}
}

// stuckCall starts a server with a call under way to shard 0, for the key that first has asked about. The call ends
// when w.stuck[0] is closed.
func stuckCall(t *testing.T) (w *world, s *Server, first *client, key string) {
	w = newWorld(t)
	w.stuck[0] = make(chan struct{})
	s, _ = serve(t, w, nil)
	key = keyOn(w, 0)
	first = dialTCP(t, s)
	first.send("INCR " + key + "\r\n")
	l := s.queues.of(0)
	await.Until(t, "a call is under way", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.calls > 0 && len(l.queue) == 0
	})
	return w, s, first, key
}

func TestWhatArrivesDuringACallGoesTogetherInTheNext(t *testing.T) {
	w, s, first, key := stuckCall(t)
	l := s.queues.of(0)
	const others = 20
	var clients []*client
	for range others {
		c := dialTCP(t, s)
		c.send("INCR " + key + "\r\n")
		clients = append(clients, c)
	}
	await.Until(t, "the others have arrived", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.held.requests == others
	})
	close(w.stuck[0])
	first.reply()
	for _, c := range clients {
		c.reply()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.calls) != 2 || len(w.calls[1]) != others {
		t.Errorf("%d calls", len(w.calls))
	}
}

func TestACommandIsNotWaitedForLongerThanTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.stuck[0] = make(chan struct{})
		s, _ := serve(t, w, func(c *Config) { c.RequestTimeout = 50 * time.Millisecond })
		var group sync.WaitGroup
		for range 8 { // a command behind the first does not wait for the first timeout and then for its own
			group.Go(func() {
				c := dial(t, s)
				begun := time.Now()
				got := c.ask("INCR " + keyOn(w, 0))
				if took := time.Since(begun); !strings.HasPrefix(got, "-TRYAGAIN ") || took != 50*time.Millisecond {
					t.Errorf("%s after %v", got, took)
				}
			})
		}
		group.Wait()
	})
}

func TestTooMuchForOneShardIsRefusedAndNotDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.stuck[0] = make(chan struct{})
		s, _ := serve(t, w, nil)
		line := "CL.THROTTLE " + keyOn(w, 0) + " 1000000 1 1\r\n"
		each := readBytes / len(line) // what a connection reads at once is decided together
		fits := (queueRequestsMost + each - 1) / each
		clients := dialMany(t, s, 1+fits+2)
		go clients[0].conn.Write([]byte(strings.Repeat(line, each)))
		synctest.Wait() // its call is under way
		for _, c := range clients[1:] {
			go c.conn.Write([]byte(strings.Repeat(line, each)))
		}
		synctest.Wait() // the queue is full
		close(w.stuck[0])
		refused := 0
		for _, c := range clients {
			for range each {
				if got := c.reply(); strings.HasPrefix(got, "-TRYAGAIN too many commands wait for this shard") {
					refused++
				} else if !strings.HasPrefix(got, "*[:0 ") {
					t.Errorf("%s", got)
				}
			}
		}
		if refused != 2*each {
			t.Errorf("%d were refused, of %d that did not fit", refused, 2*each)
		}
		if left := s.queues.waiting.Load(); left != 0 {
			t.Errorf("%d requests seem to wait", left)
		}
	})
}

func TestAClientThatDoesNotReadHoldsUpNobodyElse(t *testing.T) {
	for name, dial := range map[string]func(*testing.T, *Server) *client{"TCP": dialTCP, "TLS": dialTLS} {
		t.Run(name, func(t *testing.T) { holdsUpNobody(t, dial) })
	}
}

func holdsUpNobody(t *testing.T, dial func(*testing.T, *Server) *client) {
	w := newWorld(t)
	s, _ := serve(t, w, nil)
	deaf := dial(t, s)
	socket, ok := deaf.conn.(*net.TCPConn)
	if !ok {
		socket = deaf.conn.(*tls.Conn).NetConn().(*net.TCPConn)
	}
	socket.SetReadBuffer(4 << 10)
	var writing sync.WaitGroup
	writing.Go(func() {
		for err := error(nil); err == nil; {
			_, err = io.WriteString(deaf.conn, strings.Repeat("COMMAND\r\n", 100))
		}
	})
	await.Until(t, "the server waits for the reader", func() bool {
		stacks := make([]byte, 1<<20)
		return slices.ContainsFunc(strings.Split(string(stacks[:runtime.Stack(stacks, true)]), "\n\n"),
			func(stack string) bool {
				return strings.Contains(stack, "[IO wait") && strings.Contains(stack, "(*conn).finish.")
			})
	})
	other := dial(t, s)
	for i := range 100 {
		if got := other.ask("INCR x"); got != fmt.Sprintf(":%d", i+1) {
			t.Fatal(got)
		}
	}
	socket.Close()
	writing.Wait()
}

func TestCloseAnswersWhatIsUnderWayAndRefusesTheRest(t *testing.T) {
	w := newWorld(t)
	w.stuck[0] = make(chan struct{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, _ := serve(t, w, nil)
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	connect := func() *client {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return newClient(t, conn)
	}
	busy, idle := connect(), connect()
	idle.ask("PING")
	busy.send("INCR " + keyOn(w, 0) + "\r\n")
	l := s.queues.of(0)
	await.Until(t, "a call is under way", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.calls > 0 })
	closed := make(chan struct{})
	go func() {
		s.quiet.Store(true)
		listener.Close()
		s.Close(context.Background())
		close(closed)
	}()
	if _, err := idle.in.ReadByte(); err != io.EOF {
		t.Errorf("an idle connection ends with %v", err)
	}
	close(w.stuck[0])
	if got := busy.reply(); got != ":1" {
		t.Errorf("what was under way: %s", got)
	}
	<-closed
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestManyClientsAtOnceLoseNothing(t *testing.T) {
	s, _ := serve(t, newWorld(t), nil)
	const clients, each, pipeline = 32, 50, 7
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			c := dialTCP(t, s)
			own := "own" + strconv.Itoa(i)
			for n := range each {
				c.send(strings.Repeat("INCR all\r\n", pipeline) + "INCR " + own + "\r\nGET " + own + "\r\n")
				for range pipeline {
					c.reply()
				}
				if incr, get := c.reply(), c.reply(); incr != fmt.Sprintf(":%d", n+1) ||
					get != fmt.Sprintf("%q", strconv.Itoa(n+1)) {
					t.Errorf("%s: %s, %s", own, incr, get)
				}
			}
		})
	}
	group.Wait()
	if got := dialTCP(t, s).ask("GET all"); got != fmt.Sprintf("%q", strconv.Itoa(clients*each*pipeline)) {
		t.Errorf("all: %s", got)
	}
}

func TestADenialThatMayBeRepeatedWaitsForNoCall(t *testing.T) {
	w := newWorld(t)
	for id := range shard.ID(w.shards) {
		w.stuck[id] = make(chan struct{})
	}
	w.flooded = map[string]bool{"a": true}
	s, seen := serve(t, w, nil)
	c := dialTCP(t, s)
	const denied = `*["allowed" :0 "limit" "per-ip/minute" "quota" :3 "remaining" :0 "retry_after_ms" :2000 ` +
		`"reset_after_ms" :2000]`
	for range 3 { // no shard decides anything now
		if got := c.ask("STINT.CHECK per-ip a"); got != denied {
			t.Fatal(got)
		}
	}
	c.send("INCR a\r\nSTINT.CHECK per-ip a\r\nINCR a\r\nSTINT.CHECK per-ip a\r\nINCR a\r\n")
	for _, calls := range w.stuck {
		close(calls)
	}
	for i, want := range []string{":1", denied, ":2", denied, ":3"} {
		if got := c.reply(); got != want {
			t.Errorf("reply %d is %s, not %s", i, got, want)
		}
	}
	c.ask("PING") // the rounds before it are observed
	if got := seen.get("per-ip denied_cached"); got != 5 {
		t.Errorf("%d denials were observed as repeated", got)
	}
}

// A client that asks for long replies and reads none must not fill the node's memory: a connection prepares a few
// replies and goes on when they are read.
func TestLongRepliesWaitForTheirReader(t *testing.T) {
	s, _ := serve(t, newWorld(t), nil)
	ours, theirs := net.Pipe()
	s.start(theirs)
	defer ours.Close()
	ours.SetDeadline(time.Now().Add(await.Patience))
	const asked = 400
	go ours.Write([]byte(strings.Repeat("COMMAND\r\n", asked) + "QUIT\r\n"))
	one := len(appendVerbs(nil, verbNames(), 2))
	written, heard := make([]byte, 2*asked*one), 0 // one read takes a whole write
	for {
		n, err := ours.Read(written)
		if heard += n; err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if n > saidMost+one {
			t.Fatalf("%d bytes of replies wait for a client", n)
		}
	}
	if want := asked*one + len("+OK\r\n"); heard != want {
		t.Errorf("%d bytes are answered instead of %d", heard, want)
	}
}
