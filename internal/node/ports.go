package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/api/redis"
	"github.com/stint-io/stint/cluster/peer"
	"github.com/stint-io/stint/internal/connlimit"
)

// limits bounds the connections of each port, so that together they leave the disk its file descriptors.
type limits struct {
	shares connlimit.Shares
	api    *connlimit.Limit // includes gRPC's
	redis  *connlimit.Limit
}

func (n *Node) shareOut() error {
	descriptors := connlimit.Descriptors()
	if descriptors < connlimit.Least {
		return fmt.Errorf("%w: this process may open %d files, and needs %d: raise the bound (ulimit -n, LimitNOFILE=)",
			ErrConfig, descriptors, connlimit.Least)
	}
	n.limits.shares = connlimit.Share(descriptors)
	limit := func(port string, most int) *connlimit.Limit {
		return connlimit.New(connlimit.Config{Port: port, Most: most, Logger: n.config.Logger, Observer: n.metrics, Now: time.Now})
	}
	n.limits.api, n.limits.redis = limit("api", n.limits.shares.API), limit("redis", n.limits.shares.Redis)
	return nil
}

func (l *limits) apiDoor(listener net.Listener) net.Listener {
	return l.api.Listen(listener, connlimit.Refusal{Text: api.Refusal, AfterRequest: true})
}

// grpcDoor refuses without a text: a gRPC client takes anything that is not HTTP/2 for a broken connection, as it does a
// closed one.
func (l *limits) grpcDoor(listener net.Listener) net.Listener {
	return l.api.Listen(listener, connlimit.Refusal{})
}

func (l *limits) redisDoor(listener net.Listener) net.Listener {
	return l.redis.Listen(listener, connlimit.Refusal{Text: redis.Refusal})
}

// listen opens the ports. A lone node does without those for other nodes: two lone nodes on one machine do not collide there.
func (n *Node) listen() (err error) {
	if !n.config.World.NoAPI {
		if n.listener, err = listenClients("api-addr", n.config.APIAddr); err != nil {
			return err
		}
		if n.grpc, err = listenGRPC(n.config.GRPCAddr); err != nil {
			return err
		}
	}
	if n.config.RedisAddr != "" {
		if n.redisListener, err = listenClients("redis-addr", n.config.RedisAddr); err != nil {
			return err
		}
	}
	if n.config.World.Listen != nil {
		return nil
	}
	if !n.config.mayBeJoined() {
		if !n.config.Dev {
			n.config.Logger.Info("no other node can join this one: it was given no --gossip-key")
		}
		return nil
	}
	if n.peers, err = net.Listen("tcp", n.config.PeerAddr); err == nil {
		return nil
	}
	if n.config.alone() && n.config.PeerAddr == defaultPeerAddr {
		n.config.Logger.Warn("no other node can join this one: the peer port is taken; --peer-addr names another",
			"error", err)
		return nil
	}
	return listenError("peer-addr", err)
}

// walled is a listener to which nobody can connect: even a port that no client is told of would be found.
type walled struct {
	once  sync.Once
	ended chan struct{}
}

func newWalled() *walled { return &walled{ended: make(chan struct{})} }

// Accept implements net.Listener.
func (w *walled) Accept() (net.Conn, error) {
	<-w.ended
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (w *walled) Close() error {
	w.once.Do(func() { close(w.ended) })
	return nil
}

// Addr implements net.Listener.
func (w *walled) Addr() net.Addr { return peer.Addr("nowhere") }

// takeListener returns the listener of the peer port that was opened at the start, or a walled one.
func (n *Node) takeListener() net.Listener {
	if n.peers == nil {
		return newWalled()
	}
	return n.peers
}

// clientsAlive finds clients that vanished without closing, within two minutes: a pool may be silent for hours.
var clientsAlive = net.KeepAliveConfig{Enable: true, Idle: time.Minute, Interval: 15 * time.Second, Count: 4}

// listenClients opens a port for clients.
func listenClients(flag, addr string) (net.Listener, error) {
	tcp := net.ListenConfig{KeepAliveConfig: clientsAlive}
	listener, err := tcp.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, listenError(flag, err)
	}
	return listener, nil
}

// listenError tells an address that cannot be meant from one that is in use.
func listenError(flag string, err error) error {
	var network *net.OpError
	var syscallError *os.SyscallError
	if errors.As(err, &network) && !errors.As(err, &syscallError) {
		return fmt.Errorf("%w: %s: %w", ErrConfig, flag, err)
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s: %w: stop what listens there, or name another address with --%s", flag, err, flag)
	}
	return fmt.Errorf("%s: %w", flag, err)
}
