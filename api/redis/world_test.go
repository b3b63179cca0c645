package redis

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/edge/keyhash"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/testcert"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a Router over real evaluations. Each shard is a map of records and takes one call at a time.
type world struct {
	t        *testing.T
	shards   uint32
	policies *policy.Set
	stuck    map[shard.ID]chan struct{} // calls to the shard wait until the channel is closed
	flooded  map[string]bool            // keys with checks that get an earlier denial
	refuse   atomic.Pointer[shard.Error]

	still bool // calls take no time

	mu    sync.Mutex
	now   limit.Time
	state map[shard.ID]*shard.State
	calls [][]shard.Request // in order of arrival
}

func newWorld(t *testing.T) *world {
	set, err := policy.Parse("test", []byte(`policies:
  per-ip:
    limits:
      - {name: minute, quota: 3, fixed_window: {period: 60s}}
  two:
    limits:
      - {name: few, quota: 2, lifetime: {}}
      - {name: many, quota: 10, lifetime: {}}
  guarded:
    count_denied: true
    lockout: {after: 1, base: 5m, on_denied: true}
    limits:
      - {name: minute, quota: 3, fixed_window: {period: 60s}}
`))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, shards: 4, policies: set, now: 1_700_000_000e6, state: map[shard.ID]*shard.State{},
		stuck: map[shard.ID]chan struct{}{}}
	for id := range shard.ID(w.shards) {
		w.state[id] = shard.NewState(id)
		w.install(id, shard.EncodeEpochOpen(id, w.now, shard.LevelNewest), 1)
	}
	return w
}

func (w *world) install(id shard.ID, payload []byte, index uint64) {
	outcome, err := w.state[id].Install(payload, index, 1)
	if err != nil || outcome.Dropped != shard.NotDropped {
		w.t.Errorf("installing: %v %v", outcome, err)
	}
}

func (w *world) Place(_ context.Context, namespace, key string) (shard.ID, *shard.Error) {
	return shard.Of(slot.Even(w.shards), namespace, key), nil
}

func (w *world) Submit(ctx context.Context, id shard.ID, requests []shard.Request) []shard.Result {
	if len(requests) == 0 || len(requests) > callRequestsMost {
		w.t.Errorf("a call has %d requests", len(requests))
	}
	if stuck := w.stuck[id]; stuck != nil {
		select {
		case <-stuck:
		case <-ctx.Done():
			return shard.RefuseAll(len(requests), &shard.Error{Code: shard.Unavailable, Message: "no owner"})
		}
	}
	if err := w.refuse.Load(); err != nil {
		return shard.RefuseAll(len(requests), err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	call := slices.Clone(requests)
	for i := range call { // the caller uses these arrays again when Submit has returned
		call[i].Entries = slices.Clone(call[i].Entries)
	}
	w.calls = append(w.calls, call)
	state := w.state[id]
	if !w.still {
		w.now++
	}
	at := shard.Stamp{Position: shard.Position{Shard: id, Epoch: 1, Seq: state.Seq() + 1}, Now: w.now}
	results, puts := shard.Evaluate(roomy{state}, w.policies, requests, at)
	w.install(id, shard.EncodeBatch(at, puts), state.Seq()+2)
	return results
}

func (w *world) Repeat(r *shard.Request, into *shard.Decision) bool {
	if !w.flooded[r.Entries[0].Key] {
		return false
	}
	*into = shard.Decision{Age: 7, RetryAfter: 2e6, DecidedAt: w.now, Limits: []shard.LimitStatus{
		{Policy: "per-ip", Limit: "minute", Quota: 3,
			Verdict: limit.Verdict{Used: 3, RetryAfter: 2e6, ResetAt: w.now + 2e6}}}}
	return true
}

func (w *world) Decide(ctx context.Context, requests []shard.Request) []shard.Result {
	return w.Submit(ctx, shard.Of(slot.Even(w.shards), shard.DefaultNamespace, requests[0].Entries[0].Key), requests)
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now += limit.Time(d.Microseconds())
}

type roomy struct{ *shard.State }

func (roomy) Room() shard.Room { return shard.Room{} }

// counted is a listener that sums up.
type counted struct {
	mu sync.Mutex
	of map[string]int
}

func (c *counted) add(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.of[what] += n
}

// Ended implements decisions.Listener.
func (c *counted) Ended(e *decisions.Event) {
	for _, n := range slices.Concat(e.Counted, e.Commands) {
		c.add(n.Name+" "+n.Kind, n.N)
	}
	c.add("rounds", 1)
}

func (c *counted) get(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[what]
}

// serve starts a server for the test.
func serve(t *testing.T, w *world, change func(*Config)) (*Server, *counted) {
	t.Helper()
	observer := &counted{}
	config := Config{Router: w, Ready: func() error { return nil }, Connections: func(int) {},
		Listeners: decisions.Listeners{observer}, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time {
			return time.UnixMicro(int64(w.now))
		}, Copies: func() int { return 1 }, Version: "test",
		ConnectionsMost: 10_000}
	if change != nil {
		change(&config)
	}
	s := NewServer(completed(config))
	t.Cleanup(func() { s.Close(t.Context()) })
	return s, observer
}

// completed adds what a test leaves out: every caller may do everything, no key is hashed and no policy has a parent.
func completed(c Config) Config {
	if c.RequestTimeout == 0 {
		c.RequestTimeout = await.Patience
	}
	if c.Guard == nil {
		c.Guard, c.Port = auth.NewGuard(nil), auth.Loopback
		c.Guard.Learn(&auth.Set{Known: true}) // of a cluster without tokens
	}
	if c.Keys == nil { // as by any policies
		c.Keys = func(string) (*keyhash.Namespace, uint64, *shard.Error) { return nil, math.MaxUint64, nil }
	}
	if c.Parents == nil {
		c.Parents = func(shard.Entry) ([]shard.Entry, uint64, error) { return nil, 0, nil }
	}
	return c
}

// client is the client's end of one connection.
type client struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// dial connects through a pipe, which buffers nothing: the server's path for a slow client.
func dial(t *testing.T, s *Server) *client {
	t.Helper()
	ours, theirs := net.Pipe()
	s.start(theirs)
	t.Cleanup(func() { ours.Close() })
	return newClient(t, ours)
}

// sockets returns the two ends of a TCP connection.
func sockets(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if ours, err = net.Dial("tcp", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close() })
	if theirs, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

// dialTCP connects through a socket.
func dialTCP(t *testing.T, s *Server) *client {
	t.Helper()
	ours, theirs := sockets(t)
	s.start(theirs)
	return newClient(t, ours)
}

// dialTLS connects through a socket with TLS.
func dialTLS(t *testing.T, s *Server) *client { return dialAs(t, s) }

// dialAs is dialTLS with a client that proves roles.
func dialAs(t *testing.T, s *Server, roles ...string) *client {
	t.Helper()
	ca := testcert.New(t)
	files := ca.Write(t.TempDir())
	own, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	socket, theirs := sockets(t)
	s.start(tls.Server(theirs, &tls.Config{Certificates: []tls.Certificate{own},
		ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: ca.Pool()}))
	config := ca.Trusting()
	for _, role := range roles {
		config = ca.Client(testcert.URIs("stint://role/" + role))
	}
	config.ServerName = "localhost"
	ours := tls.Client(socket, config)
	t.Cleanup(func() { ours.Close() })
	if err := ours.Handshake(); err != nil {
		t.Fatal(err)
	}
	return newClient(t, ours)
}

func (c *client) send(text string) {
	c.t.Helper()
	c.conn.SetDeadline(time.Now().Add(5 * time.Minute)) // after the time limit of a call
	if _, err := io.WriteString(c.conn, text); err != nil {
		c.t.Fatal(err)
	}
}

// reply reads one reply and formats it on one line.
func (c *client) reply() string {
	c.t.Helper()
	c.conn.SetDeadline(time.Now().Add(5 * time.Minute)) // after the time limit of a call
	text, err := readReply(c.in)
	if err != nil {
		c.t.Fatalf("no reply: %v", err)
	}
	return text
}

func readReply(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	var n int
	fmt.Sscanf(line[1:], "%d", &n)
	switch line[0] {
	case '$':
		if n < 0 {
			return "(nil)", nil
		}
		body := make([]byte, n+2)
		if _, err := io.ReadFull(in, body); err != nil {
			return "", err
		}
		return fmt.Sprintf("%q", body[:n]), nil
	case '_':
		return "(null)", nil
	case '*', '%':
		if line[0] == '%' {
			n *= 2
		}
		parts := make([]string, max(n, 0))
		for i := range parts {
			if parts[i], err = readReply(in); err != nil {
				return "", err
			}
		}
		return string(line[0]) + "[" + strings.Join(parts, " ") + "]", nil
	}
	return line, nil
}

// ask sends a line and returns the reply.
func (c *client) ask(line string) string {
	c.t.Helper()
	c.send(line + "\r\n")
	return c.reply()
}

func newClient(t *testing.T, conn net.Conn) *client { return &client{t, conn, bufio.NewReader(conn)} }
