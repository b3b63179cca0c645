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

	"github.com/stint-io/stint/cluster/peer"
)

// walled is a listener that takes no connection: even a port that no client is told of would be found.
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
