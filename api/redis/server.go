package redis

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/shard"
)

// Router has requests decided, wherever their keys live. It may be called concurrently. cluster.Router is one.
type Router interface {
	// Place is the shard on which a key lives. It waits until the number of shards is known, or ctx ends.
	Place(ctx context.Context, namespace, key string) (shard.ID, *shard.Error)
	// Submit has requests of one shard decided and returns one result for each, in their order. Requests must not change
	// until it returns, and not even then if the outcome of one is unknown.
	Submit(ctx context.Context, id shard.ID, requests []shard.Request) []shard.Result
	// Repeat answers a check with a denial that need not be asked for again; false: it is to be decided. It never blocks.
	Repeat(request *shard.Request, into *shard.Decision) bool
	// Decide has requests of any shards decided.
	Decide(ctx context.Context, requests []shard.Request) []shard.Result
}

// Observer is told what was answered. It may be called concurrently and must not block.
type Observer interface {
	// Decisions is called with the entries of one policy that were decided alike, as api.Observer has them.
	Decisions(policy, outcome string, count int)
	// Commands is called with commands of one name that were answered alike. Code is "ok" or the first word of the error.
	Commands(name, code string, count int)
	// Round is told how long commands took that were decided together for one connection.
	Round(took time.Duration)
	// Connections is told how many there are.
	Connections(open int)
}

// Config is what the server needs. Every field is required but Parents, Copies, Version and RequestTimeout.
type Config struct {
	Router Router
	// Parents returns an entry and those that are decided together with it because its policy has a parent; nil: no policy
	// has one.
	Parents func(shard.Entry) ([]shard.Entry, error)
	// Copies is how many nodes beside the owner have every answer on disk before it is given; nil: none.
	Copies   func() int
	Ready    func() error // nil when the node can serve every shard
	Observer Observer
	Logger   *slog.Logger
	Now      func() time.Time
	Version  string
	// RequestTimeout bounds every command. 0: 5 s.
	RequestTimeout time.Duration
}

func (c *Config) copies() int {
	if c.Copies == nil {
		return 0
	}
	return c.Copies()
}

func (c *Config) withParents(e shard.Entry) ([]shard.Entry, error) {
	if c.Parents == nil {
		return nil, nil
	}
	return c.Parents(e)
}

const (
	requestTimeoutDefault = 5 * time.Second
	connectionsMost       = 10_000
)

// Server answers the Redis protocol. Serve and Close are called once each.
type Server struct {
	config Config
	gather *gatherer
	held   atomic.Int64  // bytes of read buffers beyond the usual
	open   atomic.Int64  // connections
	ids    atomic.Uint64 // of connections
	quiet  atomic.Bool   // Close was called

	mu    sync.Mutex
	conns map[*conn]struct{} // guarded by mu
	wait  sync.WaitGroup     // for connections
}

// NewServer makes a server.
func NewServer(config Config) *Server {
	if config.RequestTimeout == 0 {
		config.RequestTimeout = requestTimeoutDefault
	}
	return &Server{
		config: config,
		gather: newGatherer(config.Router, config.RequestTimeout),
		conns:  make(map[*conn]struct{}),
	}
}

// Serve answers the connections of a listener until it is closed; then it returns nil if Close was called, else why.
func (s *Server) Serve(listener net.Listener) error {
	for {
		nc, err := listener.Accept()
		switch {
		case err == nil:
			s.start(nc)
		case s.quiet.Load():
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		default: // too many files, as a rule: somebody will close one
			s.config.Logger.Warn("a connection could not be accepted", "error", err)
			time.Sleep(acceptPause)
		}
	}
}

const acceptPause = 50 * time.Millisecond

// start answers a connection in a goroutine of its own, if there may be one more.
func (s *Server) start(nc net.Conn) {
	c := newConn(s, nc)
	s.mu.Lock()
	var refusal []byte
	switch {
	case s.quiet.Load():
		refusal = appendError(nil, codeTryAgain, "the node is stopping; nothing was counted; connect to another one")
	case len(s.conns) >= connectionsMost:
		refusal = appendError(nil, codeWrong, "max number of clients reached")
	}
	if refusal != nil {
		s.mu.Unlock()
		nc.SetWriteDeadline(time.Now().Add(time.Second)) // it fits into any socket's buffer
		nc.Write(refusal)
		nc.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.wait.Add(1)
	s.mu.Unlock()
	s.config.Observer.Connections(int(s.open.Add(1)))
	go func() {
		defer s.wait.Done()
		c.serve()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		s.config.Observer.Connections(int(s.open.Add(-1)))
	}()
}

// quietFor is how long nothing must have come on a connection before it is closed by Close: a command may be on its way to
// us, and closing would leave its caller in doubt.
const quietFor = 100 * time.Millisecond

// Close ends all connections, each when it has had its answers and was quiet for a moment, and waits for them. The
// listener must have been closed. When ctx ends first they end at once, after the answers under way.
func (s *Server) Close(ctx context.Context) {
	s.quiet.Store(true)
	s.gather.hurry()
	s.mu.Lock()
	for c := range s.conns {
		c.nc.SetReadDeadline(time.Now().Add(quietFor))
	}
	s.mu.Unlock()
	stopped := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			c.nc.Close()
		}
	})
	defer stopped()
	s.wait.Wait()
	s.gather.calls.Wait()
}
