package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/cluster/hop"
	"github.com/stint-io/stint/internal/edge/connlimit"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
	"go.uber.org/goleak"
)

// addresses maps a test's nodes to their addresses.
type addresses struct {
	mu sync.Mutex
	of map[string]string
}

func (a *addresses) set(node, addr string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = make(map[string]string)
	}
	a.of[node] = addr
}

func (a *addresses) resolve(node string) (string, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	addr, ok := a.of[node]
	return addr, ok
}

// configOf returns the configuration of a port to which all nodes may connect, but for the listener.
func configOf(node string, known *addresses) Config {
	return Config{Cluster: "c1", Node: node, Resolve: known.resolve,
		Listing: func(string) Listing { return Listed }, Silent: func(string) {}, Refused: func(string) {},
		Most: mostConns, Logger: quiet}
}

const mostConns = 4096

var quiet = slog.New(slog.DiscardHandler)

func openPort(t testing.TB, known *addresses, node string, edit ...func(*Config)) *Port {
	t.Helper()
	config := configOf(node, known)
	for _, e := range edit {
		e(&config)
	}
	if config.Listener == nil {
		config.Listener = listenOn(t, "127.0.0.1:0")
	}
	p, err := Listen(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	known.set(node, p.Addr().String())
	return p
}

func listenOn(t testing.TB, addr string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// joinedPorts returns the ports of n1 and n2, which know each other.
func joinedPorts(t testing.TB, edit ...func(*Config)) (n1, n2 *Port) {
	known := new(addresses)
	return openPort(t, known, "n1", edit...), openPort(t, known, "n2", edit...)
}

// talk sends a message in both directions between a dialed connection and the accepted one.
func talk(t *testing.T, dialed net.Conn, at net.Listener) {
	t.Helper()
	defer dialed.Close()
	accepted, err := at.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	for _, way := range [][2]net.Conn{{dialed, accepted}, {accepted, dialed}} {
		var writer sync.WaitGroup
		writer.Go(func() { way[0].Write([]byte("raft")) })
		heard := make([]byte, 4)
		if _, err := io.ReadFull(way[1], heard); err != nil || string(heard) != "raft" {
			t.Errorf("heard %q, %v", heard, err)
		}
		writer.Wait()
	}
}

func dialed(t *testing.T, s *Stream, name string) net.Conn {
	t.Helper()
	conn, err := s.Dial(name, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestReplicasReachEachOtherByNameThroughOnePort(t *testing.T) {
	noLeaks(t)
	n1, n2 := joinedPorts(t)
	for id := range shard.ID(3) {
		a, b := n1.Stream(id, fmt.Sprintf("n1/%d/1", id)), n2.Stream(id, fmt.Sprintf("n2/%d/2", id))
		if got := a.Addr().String(); got != fmt.Sprintf("n1/%d/1", id) {
			t.Errorf("the stream's address is %q", got)
		}
		talk(t, dialed(t, a, b.Addr().String()), b)
		talk(t, dialed(t, b, a.Addr().String()), a)
	}
}

func TestNamesStayWhenAddressesChange(t *testing.T) {
	noLeaks(t)
	known := new(addresses)
	a := openPort(t, known, "n1").Stream(0, "n1/0/1")
	old := openPort(t, known, "n2")
	before := old.Stream(0, "n2/0/2")
	talk(t, dialed(t, a, "n2/0/2"), before)
	old.Close()
	moved := openPort(t, known, "n2").Stream(0, "n2/0/2")
	talk(t, dialed(t, a, "n2/0/2"), moved)
}

func TestTheDialerLearnsWhyItWasRefused(t *testing.T) {
	noLeaks(t)
	known := new(addresses)
	n2 := openPort(t, known, "n2")
	n2.Stream(0, "n2/0/2")
	gone := n2.Stream(0, "n2/0/3")
	gone.Close()
	n1 := openPort(t, known, "n1")
	known.set("n3", n2.Addr().String())
	stranger := openPort(t, known, "n9", func(c *Config) { c.Cluster = "c2" })

	for _, c := range []struct {
		name string
		dial func() (net.Conn, error)
		want Refusal
		says string
	}{
		{"another cluster",
			func() (net.Conn, error) { return stranger.Stream(0, "n9/0/9").Dial("n2/0/2", time.Second) },
			WrongCluster, `"c1"`},
		{"another node", func() (net.Conn, error) { return n1.Stream(0, "n1/0/1").Dial("n3/0/2", time.Second) },
			WrongNode, `"n2"`},
		{"a replica that is not there",
			func() (net.Conn, error) { return n1.Stream(0, "n1/0/4").Dial("n2/0/7", time.Second) }, UnknownReplica,
			`"n2/0/7"`},
		{"a replica that was closed",
			func() (net.Conn, error) { return n1.Stream(0, "n1/0/5").Dial("n2/0/3", time.Second) }, UnknownReplica,
			`"n2/0/3"`},
		{"a replica of another shard",
			func() (net.Conn, error) { return n1.Stream(1, "n1/1/1").Dial("n2/0/2", time.Second) },
			UnknownReplica, "shard"},
		{"a node that takes no requests", func() (net.Conn, error) { return n1.DialHop(t.Context(), "n2") },
			NotServing, `"n2"`},
	} {
		conn, err := c.dial()
		if err == nil {
			conn.Close()
		}
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %v and %s", c.name, err, c.want, c.says)
		}
	}
}

// memory is a network without sockets, for synctest bubbles.
type memory struct {
	incoming chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func newMemory() *memory { return &memory{incoming: make(chan net.Conn), closed: make(chan struct{})} }

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.incoming:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error   { m.once.Do(func() { close(m.closed) }); return nil }
func (m *memory) Addr() net.Addr { return Addr("memory") }

func (m *memory) dial(context.Context, string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case m.incoming <- far:
		return near, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *memory) use(c *Config) {
	c.Listener = m
	c.Dial = m.dial
}

func TestWhoDoesNotIntroduceItselfIsNotListenedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		n2 := openPort(t, new(addresses), "n2", m.use)
		s := n2.Stream(0, "n2/0/2")
		for name, words := range map[string]string{"silent": "", "slow": "stnt\x01",
			"a web client": "GET / HTTP/1.1\r\n\r\n"} {
			conn, _ := m.dial(t.Context(), "")
			var writer sync.WaitGroup
			writer.Go(func() { conn.Write([]byte(words)) })
			begin := time.Now()
			if answer, err := io.ReadAll(conn); err != nil || len(answer) != 0 {
				t.Errorf("%s: it was told %q, %v", name, answer, err)
			}
			if took := time.Since(begin); took > greetWithin {
				t.Errorf("%s: it was kept for %v", name, took)
			}
			writer.Wait()
		}
		select {
		case <-s.incoming:
			t.Error("a stranger came through to a replica")
		default:
		}
	})
}

func TestThePortWorksWithoutSockets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, known := newMemory(), new(addresses)
		n2 := openPort(t, known, "n2", m.use, func(c *Config) { c.Decide = allow })
		n1 := openPort(t, known, "n1", newMemory().use, func(c *Config) { c.Dial = m.dial })
		b := n2.Stream(0, "n2/0/2")
		talk(t, dialed(t, n1.Stream(0, "n1/0/1"), "n2/0/2"), b)
		h := hop.New(hop.Near, n1.DialHop)
		wantAllowed(t, "forwarded", h.Submit(t.Context(), "n2", 0, 1, oneCheck))
		h.Close()
	})
}

func TestADialerDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := new(addresses)
		known.set("n2", "mute")
		n1 := openPort(t, known, "n1", newMemory().use, func(c *Config) {
			c.Dial = func(context.Context, string) (net.Conn, error) {
				near, far := net.Pipe()
				go io.Copy(io.Discard, far)
				return near, nil
			}
		})
		begin := time.Now()
		if _, err := n1.Stream(0, "n1/0/1").Dial("n2/0/2", time.Second); err == nil ||
			time.Since(begin) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

func TestCloseEndsEverythingOnThePort(t *testing.T) {
	noLeaks(t)
	known := new(addresses)
	a := openPort(t, known, "n1").Stream(0, "n1/0/1")
	n2 := openPort(t, known, "n2")
	b := n2.Stream(0, "n2/0/2")
	served := dialed(t, a, "n2/0/2")
	defer served.Close()
	accepted, err := b.Accept()
	if err != nil {
		t.Fatal(err)
	}
	waiting := dialed(t, a, "n2/0/2") // it is never accepted
	defer waiting.Close()
	greeting, err := net.Dial("tcp", n2.Addr().String()) // sends nothing
	if err != nil {
		t.Fatal(err)
	}
	defer greeting.Close()
	if err := n2.Close(); err != nil {
		t.Fatal(err)
	}
	for name, conn := range map[string]net.Conn{"served": served, "accepted": accepted, "waiting": waiting,
		"greeting": greeting} {
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("the connection that was %s lives on", name)
		}
	}
	if _, err := b.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close: %v", err)
	}
	if _, err := n2.Stream(0, "n2/0/4").Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a stream after Close: %v", err)
	}
}

func TestForwardedRequestsAreFinishedWhileRaftStreamsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, known, release := newMemory(), new(addresses), make(chan struct{})
		n2 := openPort(t, known, "n2", m.use, func(c *Config) { c.Decide = allowAfter(release) })
		n1 := openPort(t, known, "n1", newMemory().use, func(c *Config) { c.Dial = m.dial })
		a, b := n1.Stream(1, "n1/1/1"), n2.Stream(1, "n2/1/2")
		h := hop.New(hop.Near, n1.DialHop)
		defer h.Close()
		var others sync.WaitGroup
		others.Go(func() {
			wantAllowed(t, "begun", h.Submit(t.Context(), "n2", 0, 1, oneCheck))
		})
		synctest.Wait()
		others.Go(n2.DrainHops)
		synctest.Wait()
		talk(t, dialed(t, a, "n2/1/2"), b)
		if _, err := n1.DialHop(t.Context(), "n2"); !errors.Is(err, NotServing) {
			t.Errorf("a node that drains takes requests: %v", err)
		}
		close(release)
		others.Wait()
	})
}

func TestAPortOthersCanReachNeedsCertificatesOrAWord(t *testing.T) {
	noLeaks(t)
	config := configOf("n1", new(addresses))
	config.Listener = listenOn(t, "0.0.0.0:0")
	if p, err := Listen(config); err == nil {
		p.Close()
		t.Error("it listens to everybody in the clear")
	} else if !strings.Contains(err.Error(), "--insecure") {
		t.Errorf("%v does not say what to do", err)
	}
	config.Insecure, config.Listener = true, listenOn(t, "0.0.0.0:0")
	p, err := Listen(config)
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
}

func TestTheNumberOfConnectionsIsBounded(t *testing.T) {
	p := openPort(t, new(addresses), "n1")
	near, _ := net.Pipe()
	for range mostConns / greetingShare {
		if why := p.remember(near); why != connlimit.Room {
			t.Fatalf("refused too early: %s", why)
		}
	}
	if why := p.remember(near); why != connlimit.Full {
		t.Errorf("one more than may be of those who have not said who they are: %q", why)
	}
	for range mostConns / greetingShare {
		p.greeting.Leave(near.RemoteAddr())
	}
	for range mostConns - 1 { // the map counts them as one connection
		near, _ := net.Pipe()
		if why := p.remember(near); why != connlimit.Room {
			t.Fatalf("refused too early: %s", why)
		}
		p.greeting.Leave(near.RemoteAddr())
	}
	if why := p.remember(near); why != connlimit.Full {
		t.Errorf("one more than may be: %q", why)
	}
}

func TestSilentStrangersKeepNoNodeOut(t *testing.T) {
	noLeaks(t)
	known := new(addresses)
	refused := make(chan string, 1000)
	n1 := openPort(t, known, "n1", func(c *Config) {
		c.Most, c.Refused = 16, func(why string) { refused <- why }
	})
	n2 := openPort(t, known, "n2")
	n1.Stream(0, "n1/0/1")
	var strangers []net.Conn
	// There is room for four, which may have been closed before the last ones come: more come until enough are refused.
	await.Until(t, "strangers are refused", func() bool {
		for range 4 {
			c, err := net.Dial("tcp", n1.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			strangers = append(strangers, c)
		}
		return len(refused) >= 12
	})
	for _, c := range strangers { // all of them are closed in time
		c.SetReadDeadline(time.Now().Add(await.Patience))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a silent stranger: %v", err)
		}
		c.Close()
	}
	conn, err := n2.Stream(0, "n2/0/2").Dial("n1/0/1", await.Patience)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

var oneCheck = []shard.Request{{Op: shard.Check, Namespace: "default",
	Entries: []shard.Entry{{Policy: "p", Key: "k", Cost: 1}}}}

// allow is an owner that admits every request.
func allow(_ context.Context, _ int, _ shard.ID, requests []shard.Request) []shard.Result {
	results := make([]shard.Result, len(requests))
	for i := range results {
		results[i].Decision.Allowed = true
	}
	return results
}

// allowAfter is an owner that admits every request once release is closed.
func allowAfter(release <-chan struct{}) hop.Handler {
	return func(ctx context.Context, hops int, id shard.ID, requests []shard.Request) []shard.Result {
		<-release
		return allow(ctx, hops, id, requests)
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

// noLeaks fails a test that leaves goroutines behind. In a synctest bubble, the bubble itself does that.
func noLeaks(t testing.TB) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}
