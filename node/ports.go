package node

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/api/redis"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/edge/clienttls"
	"github.com/stint-io/stint/internal/edge/connlimit"
)

// ports are the listeners of this node and the servers of its clients. The node's start opens and serves them and its
// Close stops them; it waits for their goroutines. The addresses may be read concurrently once the ports are open.
type ports struct {
	config   Config
	stopping func() bool // whether this node stops
	fail     func(error)

	limits    limits
	secure    *clienttls.TLS  // of the clients' ports; nil: they speak plaintext
	peers     net.Listener    // of the peer port, which takes it over; nil: no other node can reach this one
	listener  net.Listener    // of the API; nil: it is not served
	server    *http.Server    // nil: nothing is served yet, as is api
	grpcPort  net.Listener    // nil: there is none
	grpc      *api.GRPCServer // nil: nothing is served yet
	api       *api.API
	served    atomic.Pointer[api.API] // the same, for newer rules that come while it is made
	redisPort net.Listener            // nil: there is none
	redis     *redis.Server
	local     *localServer // nil: there is none

	serving sync.WaitGroup // the goroutines that serve
	late    atomic.Uint64  // requests that came while the node stops
}

// prepare shares out the connections among the ports, reads the certificate, and opens the ports.
func (p *ports) prepare(guard *auth.Guard, observer connlimit.Observer) (err error) {
	if p.limits, err = newLimits(guard, p.config.Logger, observer); err != nil {
		return err
	}
	if err := p.loadCertificate(); err != nil {
		return err
	}
	return p.listen()
}

// listen opens the ports. A lone node does without those for other nodes: two lone nodes on one machine do not collide
// there.
func (p *ports) listen() (err error) {
	if !p.config.World.NoAPI {
		if p.listener, err = p.listenClients("api-addr", p.config.APIAddr); err != nil {
			return err
		}
		if p.grpcPort, err = p.listenClients("grpc-addr", p.config.GRPCAddr); err != nil {
			return err
		}
	}
	if p.redisPort, err = p.listenClients("redis-addr", p.config.RedisAddr); err != nil {
		return err
	}
	if !p.config.mayBeJoined() {
		return nil
	}
	if p.peers, err = p.open(p.config.PeerAddr, net.KeepAliveConfig{}); err == nil {
		return nil
	}
	if p.config.alone() && p.config.PeerAddr == defaultPeerAddr {
		p.config.Logger.Warn("no other node can join this one: the peer port is taken; --peer-addr names another",
			"error", err)
		return nil
	}
	return listenError("peer-addr", err)
}

// addrOf returns the address on which a port really listens, or "" if it is nil.
func addrOf(listener net.Listener) string {
	if listener == nil {
		return ""
	}
	return listener.Addr().String()
}

// serveAPI serves the API, if a port is open for it, on the port for gRPC too. What the node's configuration says of
// the port is filled in here.
func (p *ports) serveAPI(config api.Config) {
	if p.listener == nil {
		return
	}
	c := &p.config
	config.Port, config.Hosts, config.RequestTimeout = c.portOf(c.APIAddr), c.APIHosts, c.RequestTimeout
	config.Logger, config.LogLevel = c.Logger, c.LogLevel
	p.api = api.New(config)
	p.served.Store(p.api)
	p.rulesChanged() // some may be known already
	p.server = api.NewServer(p.hangUpWhenStopping(p.api), p.config.Logger)
	p.run("the API", func() error { return p.server.Serve(p.apiListener()) })
	if p.grpcPort == nil {
		return
	}
	p.grpc = api.NewGRPC(p.api, p.config.portOf(p.config.GRPCAddr), p.config.Logger, p.secure.Config("h2"))
	p.run("gRPC", func() error { return p.grpc.Serve(p.grpcListener()) })
}

// run serves a port. If that ends before this node stops, the node cannot go on.
func (p *ports) run(what string, serve func() error) {
	p.serving.Go(func() {
		if err := serve(); err != nil && !errors.Is(err, http.ErrServerClosed) && !p.stopping() {
			p.fail(fmt.Errorf("serving %s: %w", what, err))
		}
	})
}

// rulesChanged lets the API get ready for newer rules of gates. It may be called concurrently.
func (p *ports) rulesChanged() {
	if served := p.served.Load(); served != nil {
		served.PrepareGates()
	}
}

// edges is how many edges are connected.
func (p *ports) edges() int {
	if served := p.served.Load(); served != nil {
		return served.Edges()
	}
	return 0
}

// servesAPI reports whether the API is served.
func (p *ports) servesAPI() bool { return p.server != nil }

// hangUpWhenStopping asks HTTP/1 clients to leave after their next reply, before the port is closed: a connection that
// is closed while a request is on its way would fail that request.
func (p *ports) hangUpWhenStopping(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.stopping() {
			p.late.Add(1)
			if r.ProtoMajor == 1 {
				w.Header().Set("Connection", "close")
			}
		}
		next.ServeHTTP(w, r)
	})
}

// serveRedis serves the Redis protocol, if a port is open for it, as serveAPI serves the API.
func (p *ports) serveRedis(config redis.Config) {
	if p.redisPort == nil {
		return
	}
	c := &p.config
	config.Port, config.RequestTimeout, config.Now = c.portOf(c.RedisAddr), c.RequestTimeout, c.now()
	config.Logger, config.Version, config.ConnectionsMost = c.Logger, c.Version, p.limits.shares.Redis
	p.redis = redis.NewServer(config)
	p.run("the Redis protocol", func() error { return p.redis.Serve(p.redisListener()) })
}
