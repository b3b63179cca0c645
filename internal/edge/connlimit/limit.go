package connlimit

import (
	"container/list"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/internal/observe/loglimit"
)

// Config configures a Limit.
type Config struct {
	Port     string // name of the port, for the log and the metrics
	Most     int    // bound on the connections
	Logger   *slog.Logger
	Observer Observer
	Now      func() time.Time
	// AsksForProof reports whether a new client has to authenticate (Prover). nil means no.
	AsksForProof func() bool
}

// Observer gets the events of connections. It may be called concurrently and must not block.
type Observer interface {
	// Connected is called with the number of open connections of a port.
	Connected(port string, open int)
	// Refused is called for a refused connection. why is "full", "address", or "accept" if the machine had no
	// descriptor. A connection that was closed before it authenticated, to make room, counts as "unproven".
	Refused(port, why string)
	// Cut is called with the number of idle connections that were closed to make room.
	Cut(port string, connections int)
}

const (
	acceptPause = 50 * time.Millisecond
	logEvery    = 10 * time.Second // at most one line in the log per port
	// Time for a refused client to speak, to get the answer, and to hang up: this long for each.
	refuseFor     = time.Second
	leavingMost   = 16               // refused connections that may still read the reason
	quietLeast    = 10 * time.Second // silence of an idle connection: twice the time limit of a call without a deadline
	unprovenShare = 8                // unauthenticated clients may hold one part in this many of the bound: an eighth
	lookEvery     = time.Second      // between searches for idle connections, after one that found none
)

// Limit is a bound on the connections of one or more listeners.
type Limit struct {
	config  Config
	tally   *Tally
	began   time.Time
	patient time.Duration // time for refused connections: refuseFor, but in tests
	crowded atomic.Bool   // about half of the connections are taken, so reads are recorded; written under mu

	mu       sync.Mutex // guards the fields below, but for lines
	conns    map[*conn]struct{}
	unproven *list.List     // of *conn, oldest first: those that must still authenticate
	leaving  []*refusedConn // oldest first
	since    time.Duration  // when it became crowded: no silence is known that began before
	looked   time.Duration  // last search for idle connections that found none; 0 if not lately

	lines loglimit.Limit // of the log
}

// New makes a Limit. config.Most bounds its connections.
func New(config Config) *Limit {
	return &Limit{
		config:   config,
		tally:    NewTally(config.Most),
		began:    config.Now(),
		patient:  refuseFor,
		conns:    make(map[*conn]struct{}),
		unproven: list.New(),
		lines:    loglimit.Limit{Most: 1, Per: logEvery},
	}
}

// now returns the time since the Limit was made, by which connections are compared.
func (l *Limit) now() time.Duration { return l.config.Now().Sub(l.began) }

// enter admits a connection. It returns nil if the connection was refused.
func (l *Limit) enter(inner net.Conn, refusal Refusal) net.Conn {
	l.makeRoomForProven()
	l.makeRoom()
	from := inner.RemoteAddr()
	if why := l.tally.Enter(from); why != Room {
		l.refuse(string(why), "remote", from.String())
		l.turnAway(inner, refusal)
		return nil
	}
	c := &conn{Conn: inner, limit: l, since: l.now()}
	c.spoke.Store(int64(c.since))
	l.mu.Lock()
	l.conns[c] = struct{}{}
	if l.config.AsksForProof != nil && l.config.AsksForProof() {
		c.unproven.Store(true)
		c.place = l.unproven.PushBack(c)
	}
	l.count(c.since)
	l.mu.Unlock()
	l.makeRoomForProven()
	if tcp, ok := inner.(*net.TCPConn); ok {
		return &tcpConn{TCPConn: tcp, conn: c}
	}
	return c
}

// leave removes a closed connection, or one that was hung up on, from the count. It may be called again.
func (l *Limit) leave(c *conn) {
	now := l.now()
	l.mu.Lock()
	_, here := l.conns[c]
	delete(l.conns, c)
	l.dropUnproven(c)
	if here {
		l.tally.Leave(c.RemoteAddr())
		l.count(now)
	}
	l.mu.Unlock()
}

// count updates the observer and crowded. The caller holds mu.
func (l *Limit) count(now time.Duration) {
	open := len(l.conns)
	l.config.Observer.Connected(l.config.Port, open)
	switch crowded := l.crowded.Load(); {
	case !crowded && open >= l.config.Most/2:
		l.since = now
		l.crowded.Store(true)
	case crowded && open < l.config.Most*2/5:
		l.crowded.Store(false)
	}
}

// makeRoom closes the connections that were idle for longest, once nine tenths of the bound are taken. It closes
// several at once, so that not every new connection costs a search through all others.
func (l *Limit) makeRoom() {
	now := l.now()
	l.mu.Lock()
	if len(l.conns) < max(1, l.config.Most*9/10) || l.looked > 0 && now-l.looked < lookEvery {
		l.mu.Unlock()
		return
	}
	l.looked = now
	var idle []*conn
	for c := range l.conns {
		if now-max(l.since, time.Duration(c.spoke.Load())) >= quietLeast {
			idle = append(idle, c)
		}
	}
	slices.SortFunc(idle, func(a, b *conn) int { return int(a.spoke.Load() - b.spoke.Load()) })
	idle = idle[:min(len(idle), 1+l.config.Most/20)]
	if len(idle) > 0 {
		l.looked = 0
	}
	l.mu.Unlock()
	if len(idle) == 0 {
		return
	}
	l.config.Observer.Cut(l.config.Port, len(idle))
	for _, c := range idle {
		HangUp(c.Conn) // its reader closes it
		l.leave(c)
	}
}

// makeRoomForProven closes the oldest connections of unauthenticated clients, beyond an eighth of the bound. A client
// with a token shows it in its first request, but a pool may open connections before it needs them: so connections
// younger than quietLeast are closed only when the port is nine tenths full. Unauthenticated clients thus push out each
// other only.
func (l *Limit) makeRoomForProven() {
	for {
		now := l.now()
		l.mu.Lock()
		oldest := l.unproven.Front()
		if l.unproven.Len() <= max(1, l.config.Most/unprovenShare) { //mutant:strangers-fill-a-port
			l.mu.Unlock()
			return
		}
		c := oldest.Value.(*conn)
		if now-c.since < quietLeast && len(l.conns) < l.config.Most*9/10 {
			l.mu.Unlock()
			return
		}
		l.dropUnproven(c)
		l.mu.Unlock()
		l.refuse("unproven", "remote", c.RemoteAddr().String())
		HangUp(c.Conn) // its reader closes it
		l.leave(c)
	}
}

// dropUnproven removes a connection from the unauthenticated ones. The caller holds mu.
func (l *Limit) dropUnproven(c *conn) {
	if c.place != nil {
		l.unproven.Remove(c.place)
		c.place = nil
	}
}

// Unproven returns the number of connections that must still authenticate.
func (l *Limit) Unproven() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unproven.Len()
}
