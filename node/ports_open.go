package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/api/redis"
	"github.com/stint-io/stint/internal/edge/clienttls"
	"github.com/stint-io/stint/internal/edge/connlimit"
)

// clientsAlive finds clients that vanished without closing, within two minutes: a pool may be silent for hours.
var clientsAlive = net.KeepAliveConfig{Enable: true, Idle: time.Minute, Interval: 15 * time.Second, Count: 4}

// open opens a port.
func (p *ports) open(addr string, alive net.KeepAliveConfig) (net.Listener, error) {
	if p.config.World.Listen != nil {
		return p.config.World.Listen(addr)
	}
	tcp := net.ListenConfig{KeepAliveConfig: alive}
	return tcp.Listen(context.Background(), "tcp", addr)
}

// listenClients opens a port for clients, or returns nil if its address is "".
func (p *ports) listenClients(flag, addr string) (net.Listener, error) {
	if addr == "" {
		return nil, nil
	}
	listener, err := p.open(addr, clientsAlive)
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

// apiListener is the listener of the API with its bound and TLS.
func (p *ports) apiListener() net.Listener {
	if p.secure == nil {
		return p.limits.api.Listen(p.listener, connlimit.Refusal{Text: api.Refusal, AfterRequest: true})
	}
	bounded := p.limits.api.Listen(p.listener, connlimit.Refusal{Text: noRoomAlert, AfterRequest: true})
	return tls.NewListener(clienttls.Listen(bounded, api.RefusePlaintext), p.secure.Config("h2", "http/1.1"))
}

// grpcListener is the listener for gRPC alone with its bound. It refuses without a text: a gRPC client takes anything
// that is not HTTP/2 for a broken connection, as it does a closed one. TLS is grpc-go's.
func (p *ports) grpcListener() net.Listener {
	bounded := p.limits.api.Listen(p.grpcPort, connlimit.Refusal{})
	if p.secure == nil {
		return bounded
	}
	return clienttls.Listen(bounded, api.RefusePlaintext)
}

// redisListener is the listener of the Redis protocol with its bound and TLS. Its clients name no protocol (ALPN). A
// browser does, and not this one.
func (p *ports) redisListener() net.Listener {
	if p.secure == nil {
		return p.limits.redis.Listen(p.redisPort, connlimit.Refusal{Text: redis.Refusal})
	}
	bounded := p.limits.redis.Listen(p.redisPort, connlimit.Refusal{Text: noRoomAlert, AfterRequest: true})
	//mutant:browser-speaks-redis
	return tls.NewListener(clienttls.Listen(bounded, redis.RefusePlaintext), p.secure.Config("redis"))
}

// clientListeners lists the listeners of the clients' ports.
func (p *ports) clientListeners() []net.Listener {
	return slices.DeleteFunc([]net.Listener{p.listener, p.redisPort, p.grpcPort}, func(door net.Listener) bool {
		return door == nil
	})
}
