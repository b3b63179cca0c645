package redis

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/internal/observe/loglimit"
	"github.com/stint-io/stint/shard"
)

// Router decides requests, wherever their keys live. It may be called concurrently. cluster.Router implements it.
type Router interface {
	// Place returns the shard of a key. It waits until the number of shards is known or ctx ends.
	Place(ctx context.Context, namespace, key string) (shard.ID, *shard.Error)
	// Submit decides requests of one shard and returns one result for each, in their order. The caller must not change
	// the requests before Submit returns, nor afterwards if the outcome of one is unknown.
	Submit(ctx context.Context, id shard.ID, requests []shard.Request) []shard.Result
	// Repeat answers a check with an earlier denial that may be repeated, or returns false if the check must be
	// decided. It never blocks.
	Repeat(request *shard.Request, into *shard.Decision) bool
	// Decide decides requests of any shards and returns one result for each, in their order.
	Decide(ctx context.Context, requests []shard.Request) []shard.Result
}

// Refusal is the reply to a connection beyond the limit, in the words of Redis.
var Refusal = appendError(nil, codeWrong, "max number of clients reached")

// RefusePlaintext returns the replies to a client that speaks plaintext on a TLS port: one for each command, complete
// or not. A client goes on after the first reply, since it asks for RESP3 first and can do without.
func RefusePlaintext(sent []byte) (replies []byte, goOn bool) {
	commands := bytes.Count(sent, []byte("\n*"))
	for range min(commands, roundMost) + 1 {
		replies = appendError(replies, codeWrong, "this port speaks TLS, and the command came in plaintext: "+
			"nothing was done; use TLS (rediss://, redis-cli --tls)")
	}
	return replies, true
}

// Server answers the Redis protocol. Serve and Close may be called once each.
type Server struct {
	config   Config
	queues   *shardQueues
	loops    eventLoops
	held     atomic.Int64    // bytes of read buffers beyond readBytes
	open     atomic.Int64    // connections
	ids      atomic.Uint64   // last id of a connection
	attempts loglimit.Limit  // log lines about wrong tokens, by address
	quiet    atomic.Bool     // Close was called
	ctx      context.Context // ends with Close; for waits before the first read, and for more requests
	end      context.CancelFunc
	refusing atomic.Bool // quietFor has passed: newly read commands are not decided

	mu    sync.Mutex
	conns map[*conn]struct{} // guarded by mu
	wait  sync.WaitGroup     // for connections and event loops; grows under mu, or from within a connection
}

// NewServer makes a server.
func NewServer(config Config) *Server {
	ctx, end := context.WithCancel(context.Background())
	return &Server{
		config:   config,
		queues:   newShardQueues(config.Router, config.RequestTimeout, ctx.Done()),
		loops:    newEventLoops(),
		attempts: loglimit.Limit{Most: 10, Per: 10 * time.Second},
		ctx:      ctx,
		end:      end,
		conns:    make(map[*conn]struct{}),
	}
}

// Serve answers the connections of a listener until the listener is closed; nothing else ends one of package connlimit.
// It returns nil if Close was called, else the error.
func (s *Server) Serve(listener net.Listener) error {
	for {
		nc, err := listener.Accept()
		switch {
		case err == nil:
			s.start(nc)
		case s.quiet.Load():
			return nil
		default:
			return err
		}
	}
}

// start answers a connection in its own goroutine.
func (s *Server) start(nc net.Conn) {
	c := newConn(s, nc)
	s.mu.Lock()
	if s.quiet.Load() {
		s.mu.Unlock()
		//mutant:stop-waits-for-handshakes
		if _, secure := nc.(*tls.Conn); secure { // a reply would take a handshake, for which there is no time
			nc.Close()
			return
		}
		nc.SetWriteDeadline(time.Now().Add(time.Second)) // the text fits into any socket's buffer
		nc.Write(stoppingReply)
		nc.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.wait.Add(1)
	s.mu.Unlock()
	s.config.Connections(int(s.open.Add(1)))
	go func() {
		defer s.wait.Done()
		c.serve()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		s.config.Connections(int(s.open.Add(-1)))
	}()
}
